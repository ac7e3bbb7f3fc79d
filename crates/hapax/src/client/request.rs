//! One request, being put together. How it is sent and tried again is in `send`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::Key;
use http::Method;
use http::header::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION,
};
use reqwest::Url;
use serde::Serialize;

use super::limits::Limits;
use super::persist::Persist;
use super::{Answer, BoxError, Client, Error, OnConflict, derive, send};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request to be completed and sent. A mistake made on the way is told by [`send`](Self::send).
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let app = axum::Router::new().route("/payments", axum::routing::post(|body: String| async { body }));
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let url = format!("http://{}/payments", listener.local_addr()?);
/// # tokio::spawn(async move { axum::serve(listener, app).await });
/// use hapax::client::{Client, Error};
/// use hapax::core::Key;
/// use std::time::Duration;
///
/// let client = Client::new()?;
/// let answer = client
///     .post(&url)
///     .key(Key::new("order-7")?)
///     .bearer("s3cret")
///     .header("x-shop", "berlin")
///     .json(&serde_json::json!({"amount": 10}))
///     .deadline(Duration::from_secs(5))
///     .send()
///     .await?;
/// assert_eq!(answer.body, r#"{"amount":10}"#);
/// assert_eq!(answer.key.as_str(), "order-7");
///
/// // The refusal: what cannot be a header is not sent.
/// let refused = client.post(&url).header("x-shop", "two\nlines").send().await;
/// assert!(matches!(refused, Err(Error::Malformed { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    pub(super) client: Client,
    pub(super) method: Method,
    pub(super) url: Option<Url>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) limits: Limits,
    pub(super) persist: Option<Persist>,
    pub(super) on_conflict: OnConflict,
    key: Choice,
    mistake: Option<Error>,
}

enum Choice {
    Random,
    Derived,
    Given(Key),
}

impl Request {
    pub(super) fn new(client: Client, method: Method, url: &str, limits: Limits) -> Self {
        let (url, mistake) = match parse(url) {
            Ok(url) => (Some(url), None),
            Err(mistake) => (None, Some(mistake)),
        };
        Self {
            client,
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            limits,
            persist: None,
            on_conflict: OnConflict::Fail,
            key: Choice::Random,
            mistake,
        }
    }

    /// Sends `value` as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(bytes) => {
                self.headers
                    .entry(CONTENT_TYPE)
                    .or_insert(HeaderValue::from_static("application/json"));
                self.body(bytes)
            }
            Err(error) => self.mistaken("writing the body as JSON", error),
        }
    }

    /// Sends these bytes. Their media type is a [`header`](Self::header) of its own.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends this header, in place of one of the same name. The key is none of these: see [`key`](Self::key).
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: Into<BoxError>,
        V: TryInto<HeaderValue>,
        V::Error: Into<BoxError>,
    {
        let (name, mut value) = match (name.try_into(), value.try_into()) {
            (Ok(name), Ok(value)) => (name, value),
            (Err(error), _) => return self.mistaken("making a header's name", error),
            (_, Err(error)) => return self.mistaken("making a header's value", error),
        };
        if name == IDEMPOTENCY_KEY {
            return self.mistaken(
                "making a header",
                "the key has a method of its own; call key()",
            );
        }
        if [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION].contains(&name) {
            value.set_sensitive(true);
        }
        self.headers.insert(name, value);
        self
    }

    /// Sends `Authorization: Bearer TOKEN`. The token shows in no error, log line or debug output of ours.
    pub fn bearer(self, token: &str) -> Self {
        self.header(AUTHORIZATION, format!("Bearer {token}"))
    }

    /// Uses this key, such as the number of the order that is paid. Unless told, the key is a new UUIDv7.
    pub fn key(mut self, key: Key) -> Self {
        self.key = Choice::Given(key);
        self
    }

    /// Uses a key made from method, URL and body, so that a process that forgot everything asks the same
    /// again under the same key. It also means that two equal requests are one: not for "one more, please".
    ///
    /// The key is the hcj-1 hash of `{"body_sha256","method","url"}`, the URL without fragment and credentials.
    /// A JSON body counts in its hcj-1 form, any other as its bytes.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let app = axum::Router::new().route("/", axum::routing::post(|| async {}));
    /// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let url = format!("http://{}/", listener.local_addr()?);
    /// # tokio::spawn(async move { axum::serve(listener, app).await });
    /// let client = hapax::client::Client::new()?;
    /// let send = |body: &'static str| {
    ///     client.post(&url).header("content-type", "application/json").body(body).derived_key().send()
    /// };
    /// let first = send(r#"{"a":1,"b":2}"#).await?;
    /// assert_eq!(first.key, send(r#"{ "b": 2, "a": 1.0 }"#).await?.key);
    /// assert_ne!(first.key, send(r#"{"a":1,"b":3}"#).await?.key);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn derived_key(mut self) -> Self {
        self.key = Choice::Derived;
        self
    }

    /// What to do when the key stands for another request. Unless told, it is an error.
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Sends at most this many times, in place of what the [client](super::Builder::attempts) says.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.limits.set_attempts(attempts);
        self
    }

    /// Takes at most this long in all, in place of what the [client](super::Builder::deadline) says.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.limits.set_deadline(deadline);
        self
    }

    /// Takes at most this long for one try, in place of what the [client](super::Builder::timeout_per_try) says.
    pub fn timeout_per_try(mut self, timeout: Duration) -> Self {
        self.limits.timeout_per_try = timeout;
        self
    }

    /// Sends it, and again as long as an answer may yet come: see the [table](super#what-is-tried-again).
    ///
    /// Dropping the future stops the tries. What was sent before may have happened: send the same request
    /// with the same key to find out. Needs tokio's runtime.
    ///
    /// # Errors
    /// [`Error`] says why there is no answer, and whether to send it again later.
    pub async fn send(mut self) -> Result<Answer, Error> {
        let url = match (self.mistake.take(), self.url.take()) {
            (None, Some(url)) => url,
            (Some(mistake), _) => return Err(mistake),
            (None, None) => return Err(Error::malformed("reading the URL", "there is none")),
        };
        let key = match &self.key {
            Choice::Given(key) => key.clone(),
            Choice::Random => derive::random(),
            Choice::Derived => derive::derived(&self.method, &url, &self.headers, &self.body).await,
        };
        send::send(self, url, key).await
    }

    /// Keeps the first mistake: those after it may come from it.
    fn mistaken(mut self, doing: &'static str, source: impl Into<BoxError>) -> Self {
        self.mistake
            .get_or_insert_with(|| Error::malformed(doing, source));
        self
    }
}

fn parse(url: &str) -> Result<Url, Error> {
    let url = Url::parse(url).map_err(|error| Error::malformed("reading the URL", error))?;
    if matches!(url.scheme(), "http" | "https") && url.has_host() {
        Ok(url)
    } else {
        Err(Error::malformed(
            "reading the URL",
            "it is not an http or https URL",
        ))
    }
}

/// Shows neither credentials nor query nor body: all of these may hold secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.as_ref().map(|url| {
            let mut url = derive::named(url);
            url.set_query(None);
            url
        });
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &url.as_ref().map_or("", Url::as_str))
            .field(
                "headers",
                &self
                    .headers
                    .keys()
                    .map(HeaderName::as_str)
                    .collect::<Vec<_>>(),
            )
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
