//! The client and how it is set up. What one request says for itself is in [`Request`].

use std::fmt;
use std::time::Duration;

use http::Method;

use super::limits::Limits;
use super::{Error, Request, transport};

/// Sends requests under their keys. Cheap to clone; clones share the connections.
///
/// ```
/// use hapax::client::Client;
///
/// let client = Client::new()?;
/// let request = client.delete("http://127.0.0.1:8088/v1/customers/42");
/// assert_eq!(format!("{request:?}"), r#"Request { method: DELETE, url: "http://127.0.0.1:8088/v1/customers/42", headers: [], body_bytes: 0, .. }"#);
/// # Ok::<(), hapax::client::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) http: reqwest::Client,
    limits: Limits,
}

impl Client {
    /// A client with the defaults of [`Builder`].
    ///
    /// # Errors
    /// [`Error::Malformed`] when TLS cannot be set up, as on a machine without root certificates.
    ///
    /// ```
    /// let client = hapax::client::Client::new()?;
    /// let _shares_its_connections = client.clone();
    /// # Ok::<(), hapax::client::Error>(())
    /// ```
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A client to be set up.
    ///
    /// ```
    /// use hapax::client::Client;
    /// use std::time::Duration;
    ///
    /// let client = Client::builder().deadline(Duration::from_secs(10)).build()?;
    /// # Ok::<(), hapax::client::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A POST to `url`, to be completed and sent.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use hapax::client::{Client, Error};
    ///
    /// // A mistake in the request is told when it is sent; nothing is sent then.
    /// let refused = Client::new()?.post("not a url").send().await;
    /// assert!(matches!(refused, Err(Error::Malformed { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn post(&self, url: impl AsRef<str>) -> Request {
        self.request(Method::POST, url.as_ref())
    }

    /// A PUT to `url`, to be completed and sent.
    ///
    /// ```
    /// let client = hapax::client::Client::new()?;
    /// let request = client.put("http://127.0.0.1:8088/customers/42").body("name=Ada");
    /// # Ok::<(), hapax::client::Error>(())
    /// ```
    pub fn put(&self, url: impl AsRef<str>) -> Request {
        self.request(Method::PUT, url.as_ref())
    }

    /// A PATCH to `url`, to be completed and sent.
    ///
    /// ```
    /// let client = hapax::client::Client::new()?;
    /// let request = client.patch("http://127.0.0.1:8088/customers/42").json(&["rename"]);
    /// # Ok::<(), hapax::client::Error>(())
    /// ```
    pub fn patch(&self, url: impl AsRef<str>) -> Request {
        self.request(Method::PATCH, url.as_ref())
    }

    /// A DELETE to `url`, to be completed and sent.
    ///
    /// ```
    /// let client = hapax::client::Client::new()?;
    /// let request = client.delete("http://127.0.0.1:8088/customers/42").derived_key();
    /// # Ok::<(), hapax::client::Error>(())
    /// ```
    pub fn delete(&self, url: impl AsRef<str>) -> Request {
        self.request(Method::DELETE, url.as_ref())
    }

    fn request(&self, method: Method, url: &str) -> Request {
        Request::new(self.clone(), method, url, self.limits)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

type Setup = Box<dyn FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send>;

/// How a [`Client`] is set up. Its limits are those of every request that does not set its own.
///
/// ```
/// use hapax::client::Client;
/// use std::time::Duration;
///
/// let client = Client::builder()
///     .attempts(4)
///     .deadline(Duration::from_secs(30))
///     .timeout_per_try(Duration::from_secs(5))
///     .backoff(Duration::from_millis(50), Duration::from_secs(2))
///     .response_bytes_max(1024 * 1024)
///     .build()?;
/// assert!(format!("{client:?}").contains("attempts: 4"));
/// # Ok::<(), hapax::client::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    limits: Limits,
    setup: Option<Setup>,
}

impl Builder {
    /// At most this many tries: 10 unless told, at least 1, at most [`ATTEMPTS_MAX`](super::ATTEMPTS_MAX).
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.limits.set_attempts(attempts);
        self
    }

    /// The time for everything together, waits and storing the key included: 60 s unless told, at most
    /// [`DEADLINE_MAX`](super::DEADLINE_MAX).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.limits.set_deadline(deadline);
        self
    }

    /// The time for one try, from connecting to the last byte of the answer: 20 s unless told.
    pub fn timeout_per_try(mut self, timeout: Duration) -> Self {
        self.limits.timeout_per_try = timeout;
        self
    }

    /// The span of the first wait, which doubles with every try, and the longest one: 200 ms and 10 s
    /// unless told. Each wait is a random part of its span.
    pub fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.limits.backoff.base = base;
        self.limits.backoff.cap = cap;
        self
    }

    /// The largest answer in bytes: 32 MiB unless told. A larger one is [`Error::TooLarge`].
    pub fn response_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.response_bytes_max = bytes;
        self
    }

    /// Sets up the reqwest client underneath: proxies, certificates, addresses. Its retries stay off and
    /// its redirects within one origin, whatever is said here.
    ///
    /// ```
    /// use hapax::client::Client;
    ///
    /// let client = Client::builder().http(|http| http.no_proxy().https_only(true)).build()?;
    /// # Ok::<(), hapax::client::Error>(())
    /// ```
    pub fn http(
        mut self,
        setup: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + 'static,
    ) -> Self {
        self.setup = Some(Box::new(setup));
        self
    }

    /// The client.
    ///
    /// If the process has no default crypto provider for TLS yet, aws-lc-rs is installed as one.
    ///
    /// # Errors
    /// [`Error::Malformed`] when TLS cannot be set up, as on a machine without root certificates.
    pub fn build(self) -> Result<Client, Error> {
        let setup = self.setup.unwrap_or_else(|| Box::new(|http| http));
        let http = transport::build(setup)
            .map_err(|error| Error::malformed("setting up the client", error))?;
        Ok(Client {
            http,
            limits: self.limits,
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
