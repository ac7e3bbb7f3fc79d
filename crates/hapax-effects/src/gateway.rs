//! The gateway: one action, one POST, under a key that the receiver knows again. It says what came of the call, and
//! above all whether the action can have happened; what follows from that is the caller's to decide.

use std::fmt;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Url;

use crate::client::{Base, install_provider, told};

/// How much of an answer is read.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// How much of a JSON answer is kept whole. It has to fit into the result of an operation, with what goes around it.
pub const KEPT_BYTES_MAX: usize = 512 << 10;
/// How much is kept of an answer that is a refusal, no JSON or too large.
pub const EXCERPT_CHARS_MAX: usize = 1000;
/// The longest time to connect. Within it nothing was sent, and afterwards nobody can tell.
const CONNECT: Duration = Duration::from_secs(5);

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const X_TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// One action for the gateway.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call<'a> {
    /// Where the gateway takes it, from `/`: a word of the program's own, never one that was read or stored.
    pub path: &'static str,
    /// The id of the request that it belongs to.
    pub request_id: &'a str,
    /// What makes a second call the same call.
    pub idempotency_key: &'a str,
    /// On whose behalf.
    pub actor: Option<&'a str>,
    /// What is to be done.
    pub payload: &'a Value,
    /// The trace that it belongs to. Only 32 hex digits become a `traceparent`.
    pub trace_id: &'a str,
}

/// The body of a call.
#[derive(Serialize)]
struct Body<'a> {
    request_id: &'a str,
    idempotency_key: &'a str,
    actor: Option<&'a str>,
    payload: &'a Value,
    trace_id: &'a str,
}

/// What came of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// It is done.
    Done {
        /// The status, a 2xx.
        status: u16,
        /// The answer if it is JSON of a size that is kept, else the beginning of it as a text; null if there is none.
        body: Value,
    },
    /// The gateway answered, and not with a 2xx.
    Refused {
        /// The status. A redirect is one of them: none is followed.
        status: u16,
        /// The beginning of the answer.
        excerpt: String,
    },
    /// It was sent, or may have been, and there is no answer: nobody can tell whether it is done.
    TimedOut {
        /// What went wrong.
        why: String,
    },
    /// It was not sent: there was no connection.
    Unreachable {
        /// What went wrong.
        why: String,
    },
}

/// A gateway that cannot be called as it is configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misconfigured {
    what: &'static str,
    why: String,
}

impl fmt::Display for Misconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the gateway's {} {}", self.what, self.why)
    }
}

impl std::error::Error for Misconfigured {}

/// The operator's own gateway. Cloning it is cheap.
///
/// It is called where the configuration says and nowhere else: no redirect is followed, and no proxy of the
/// environment is used. Every call has a connection of its own, because one that the other side has just closed would
/// put a call in doubt for nothing.
///
/// ```
/// use hapax_effects::gateway::Gateway;
/// use std::time::Duration;
///
/// let within = Duration::from_secs(15);
/// assert!(Gateway::new("http://127.0.0.1:8077/notion", Some("secret"), within).is_ok());
/// let refused = Gateway::new("gateway.example", None, within).unwrap_err();
/// assert_eq!(refused.to_string(), "the gateway's base URL is not one: relative URL without a base");
/// ```
#[derive(Clone)]
pub struct Gateway {
    client: Client,
    base: Base,
    bearer: Option<HeaderValue>,
    timeout: Duration,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("base", &self.base.as_str())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// The gateway at `base_url`, which has `timeout` to answer a call whole.
    ///
    /// # Errors
    /// [`Misconfigured`] when the URL is not http or https without credentials, query and fragment, when the token
    /// cannot be sent, or when there is no HTTP client.
    pub fn new(
        base_url: &str,
        bearer: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, Misconfigured> {
        install_provider();
        let bearer = match bearer {
            None | Some("") => None,
            Some(token) => {
                let value = HeaderValue::from_str(&format!("Bearer {token}"));
                let mut value = value.map_err(|_| Misconfigured {
                    what: "token",
                    why: "cannot be sent in a header".to_owned(),
                })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let client = Client::builder()
            .user_agent(concat!("hapax/", env!("CARGO_PKG_VERSION")))
            .referer(false)
            .retry(reqwest::retry::never())
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT.min(timeout / 2))
            .build()
            .map_err(|error| Misconfigured {
                what: "client",
                why: format!("cannot be made: {}", told(&error)),
            })?;
        Ok(Self {
            client,
            base: base(base_url)?,
            bearer,
            timeout,
        })
    }

    /// Sends one action. Dropping the future leaves the action in doubt.
    pub async fn call(&self, call: &Call<'_>) -> Answer {
        let exchange = self.exchange(call);
        match tokio::time::timeout(self.timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Answer::TimedOut {
                why: format!("no answer within {:?}", self.timeout),
            },
        }
    }

    async fn exchange(&self, call: &Call<'_>) -> Answer {
        let body = Body {
            request_id: call.request_id,
            idempotency_key: call.idempotency_key,
            actor: call.actor,
            payload: call.payload,
            trace_id: call.trace_id,
        };
        let segments = call.path.trim_start_matches('/').split('/');
        // The token goes to the configured place and nowhere else.
        let Some(url) = self.base.join(segments) else {
            let why = format!("the path {:?} leads out of the gateway", call.path);
            return Answer::Unreachable { why };
        };
        let request = self
            .client
            .post(url)
            .headers(self.headers(call))
            .json(&body);
        match request.send().await {
            Ok(response) => answer(response).await,
            Err(error) if error.is_connect() || error.is_builder() => {
                Answer::Unreachable { why: told(&error) }
            }
            Err(error) => Answer::TimedOut { why: told(&error) },
        }
    }

    fn headers(&self, call: &Call<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        if let Ok(trace) = HeaderValue::from_str(call.trace_id) {
            headers.insert(X_TRACE_ID, trace);
        }
        let parent = traceparent(call).and_then(|parent| HeaderValue::from_str(&parent).ok());
        if let Some(parent) = parent {
            headers.insert(TRACEPARENT, parent);
        }
        headers
    }
}

/// The place that the configuration names.
fn base(text: &str) -> Result<Base, Misconfigured> {
    let refused = |why: String| Misconfigured {
        what: "base URL",
        why,
    };
    let url = Url::parse(text).map_err(|error| refused(format!("is not one: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("must begin with http:// or https://".to_owned()));
    }
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    if has_credentials || url.query().is_some() || url.fragment().is_some() {
        let why = "must not hold credentials, a query or a fragment";
        return Err(refused(why.to_owned()));
    }
    Ok(Base::new(url))
}

/// The trace with the span of this call. The same call has the same span, also when it is sent again.
fn traceparent(call: &Call<'_>) -> Option<String> {
    let trace = call.trace_id;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_trace =
        trace.len() == 32 && trace.bytes().all(is_hex) && trace.bytes().any(|digit| digit != b'0');
    let span = Sha256::digest(format!("{trace} {}", call.idempotency_key));
    // A span of zeros is not allowed, and one bit is enough to rule it out.
    let span = data_encoding::HEXLOWER.encode(&span[..7]);
    is_trace.then(|| format!("00-{trace}-{span}01-01"))
}

async fn answer(response: Response) -> Answer {
    let status = response.status();
    let (bytes, end) = read(response).await;
    match (status.is_success(), end) {
        (true, End::Whole) => Answer::Done {
            status: status.as_u16(),
            body: kept(&bytes),
        },
        (true, End::TooLong) => Answer::Done {
            status: status.as_u16(),
            body: excerpt(&bytes).into(),
        },
        // It is done, most likely; the same key brings the whole answer.
        (true, End::Broken(why)) => Answer::TimedOut { why },
        (false, _) => Answer::Refused {
            status: status.as_u16(),
            excerpt: refusal(status, &bytes),
        },
    }
}

/// How the body of an answer ended.
enum End {
    Whole,
    TooLong,
    Broken(String),
}

async fn read(mut response: Response) -> (Vec<u8>, End) {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let room = BODY_BYTES_MAX - bytes.len();
                bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return (bytes, End::TooLong);
                }
            }
            Ok(None) => return (bytes, End::Whole),
            Err(error) => return (bytes, End::Broken(told(&error))),
        }
    }
}

fn kept(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    let document: Option<Value> = serde_json::from_slice(bytes).ok();
    document
        .filter(|document| document.to_string().len() <= KEPT_BYTES_MAX)
        .unwrap_or_else(|| excerpt(bytes).into())
}

fn refusal(status: StatusCode, bytes: &[u8]) -> String {
    match excerpt(bytes) {
        empty if empty.is_empty() => status.canonical_reason().unwrap_or_default().to_owned(),
        text => text,
    }
}

/// The beginning of a text, on one line.
fn excerpt(bytes: &[u8]) -> String {
    let most = bytes.len().min(EXCERPT_CHARS_MAX * 4);
    let text = String::from_utf8_lossy(&bytes[..most]);
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    let text: String = text.chars().take(EXCERPT_CHARS_MAX).map(shown).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call<'a>(trace_id: &'a str, payload: &'a Value) -> Call<'a> {
        Call {
            path: "/v1/x",
            request_id: "r-1",
            idempotency_key: "action:1",
            actor: None,
            payload,
            trace_id,
        }
    }

    #[test]
    fn only_a_real_trace_id_becomes_a_traceparent() {
        let payload = Value::Null;
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let parent = traceparent(&call(trace, &payload)).unwrap();
        assert_eq!(parent.len(), 55);
        assert!(parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert_eq!(traceparent(&call(trace, &payload)).unwrap(), parent);
        for other in ["", "my trace", &"0".repeat(32), &trace.to_uppercase()] {
            assert_eq!(traceparent(&call(other, &payload)), None, "{other}");
        }
    }

    #[test]
    fn an_answer_that_would_not_fit_is_kept_as_its_beginning() {
        assert_eq!(kept(b""), Value::Null);
        assert_eq!(kept(br#"{"id":"t-1"}"#), serde_json::json!({"id": "t-1"}));
        assert_eq!(kept(b"created\r\n"), Value::from("created"));
        let long = format!("\"{}\"", "x".repeat(KEPT_BYTES_MAX));
        assert_eq!(
            kept(long.as_bytes()).to_string().len(),
            EXCERPT_CHARS_MAX + 3
        );
        assert_eq!(excerpt("é".repeat(2000).as_bytes()).chars().count(), 1000);
    }

    #[test]
    fn a_base_url_is_a_place_and_nothing_else() {
        assert_eq!(
            base("http://gateway:8077/").unwrap().as_str(),
            "http://gateway:8077"
        );
        assert_eq!(
            base("https://x.example/a/b").unwrap().as_str(),
            "https://x.example/a/b"
        );
        for wrong in [
            "ftp://gateway",
            "http://me:secret@gateway",
            "http://gateway/?token=secret",
            "http://gateway/#top",
        ] {
            let Err(refused) = base(wrong) else {
                panic!("{wrong} is taken");
            };
            let refused = refused.to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
        let token = Gateway::new("http://gateway", Some("a\nb"), Duration::from_secs(1));
        assert!(!format!("{:?}", token.unwrap_err()).contains("a\nb"));
    }
}
