//! How a refusal looks over HTTP: one envelope, or RFC 9457 when the caller asks for it.
//! Which refusal it is, is decided elsewhere.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

/// The header that carries the trace id on every response.
pub const X_TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// The id that ties a response to its logs: 32 hexadecimal digits, taken over from `traceparent`.
///
/// ```
/// use hapax::problem::TraceId;
/// use http::HeaderMap;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap());
/// assert_eq!(TraceId::of(&headers).as_str(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// // What is not a trace id is not taken over: a new one is made.
/// headers.insert("traceparent", "00-nonsense".parse().unwrap());
/// assert_eq!(TraceId::of(&headers).as_str().len(), 32);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceId(String);

impl TraceId {
    /// A new random trace id.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// The trace id that these request headers carry, or a new one.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let parent = headers
            .get("traceparent")
            .and_then(|value| value.to_str().ok());
        parent
            .and_then(Self::in_traceparent)
            .unwrap_or_else(Self::random)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn in_traceparent(parent: &str) -> Option<Self> {
        let (version, rest) = parent.split_once('-')?;
        let (id, _span) = rest.split_once('-')?;
        let is_hex = |text: &str| {
            text.bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let valid = version.len() == 2
            && version != "ff"
            && is_hex(version)
            && id.len() == 32
            && is_hex(id);
        (valid && id.bytes().any(|byte| byte != b'0')).then(|| Self(id.to_owned()))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A refusal: status, code, what to do next, and the facts behind it.
///
/// ```
/// use hapax::problem::{Problem, TraceId};
/// use http::{HeaderMap, StatusCode};
///
/// let problem = Problem::new(StatusCode::NOT_FOUND, "not_found", "no key with this id")
///     .with_detail("id", "7f3a");
/// let response = problem.into_response(&TraceId::random(), &HeaderMap::new());
/// assert_eq!(response.status(), 404);
/// assert_eq!(response.headers()["content-type"], "application/json");
/// ```
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A refusal with this status and code. The message says what to do next.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            details: Map::new(),
            headers: Vec::new(),
        }
    }

    /// The store cannot be reached for now: 503, and the caller may retry.
    #[must_use]
    pub fn store_unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_unavailable",
            "the store does not answer; nothing was done under this key, retry the same request",
        )
        .retry_after(Duration::from_secs(1))
    }

    /// Adds a fact.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Tells the caller to come back after `span`, rounded up to whole seconds, at least one.
    #[must_use]
    pub fn retry_after(self, span: Duration) -> Self {
        let seconds = span.as_millis().div_ceil(1000).max(1);
        self.with_header(
            RETRY_AFTER,
            HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)),
        )
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What stands under `error` in the envelope, for one refusal among the answers of a batch.
    #[must_use]
    pub fn error(&self) -> Value {
        json!({"code": self.code, "message": self.message, "details": self.details})
    }

    /// The response, in the form that `request_headers` accept.
    #[must_use]
    pub fn into_response(self, trace: &TraceId, request_headers: &HeaderMap) -> Response<Bytes> {
        let (media_type, document) = if accepts_problem_json(request_headers) {
            ("application/problem+json", self.rfc9457(trace))
        } else {
            (
                "application/json",
                json!({"error": self.error(), "trace_id": trace.as_str()}),
            )
        };
        let mut response = Response::new(Bytes::from(format!("{document}\n")));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        if let Ok(value) = HeaderValue::from_str(trace.as_str()) {
            headers.insert(X_TRACE_ID, value);
        }
        headers.extend(self.headers);
        response
    }

    fn rfc9457(&self, trace: &TraceId) -> Value {
        json!({
            "type": format!("/docs/errors/{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("error"),
            "status": self.status.as_u16(),
            "detail": self.message,
            "code": self.code,
            "details": self.details,
            "trace_id": trace.as_str(),
        })
    }
}

/// Whether the caller asks for RFC 9457 by name.
#[must_use]
pub fn accepts_problem_json(headers: &HeaderMap) -> bool {
    let named = |value: &HeaderValue| {
        value.to_str().is_ok_and(|text| {
            text.split(',').any(|range| {
                let media_type = range.split(';').next().unwrap_or("").trim();
                media_type.eq_ignore_ascii_case("application/problem+json")
            })
        })
    };
    headers.get_all(ACCEPT).iter().any(named)
}
