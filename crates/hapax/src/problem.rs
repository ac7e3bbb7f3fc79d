//! How a refusal looks over HTTP: one envelope, RFC 9457 when the caller asks for it, or gRPC's way for its calls.
//! Which refusal it is, is decided elsewhere.

mod docs;
mod form;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

pub use docs::{DocsBase, InvalidDocsBase};
pub use form::{Form, GrpcType, accepts_problem_json};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

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
/// let response = problem.clone().into_response(&TraceId::random(), &HeaderMap::new());
/// assert_eq!(response.status(), 404);
/// assert_eq!(response.headers()["content-type"], "application/json");
/// // A gRPC call is refused in its own words: NOT_FOUND.
/// let mut headers = HeaderMap::new();
/// headers.insert("content-type", "application/grpc".parse().unwrap());
/// let response = problem.into_response(&TraceId::random(), &headers);
/// assert_eq!((response.status().as_u16(), &response.headers()["grpc-status"]), (200, &"5".parse().unwrap()));
/// ```
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    details: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    docs: Option<DocsBase>,
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
            docs: None,
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

    /// Says where its page is: `docs_url`, and the `type` of RFC 9457. Without, the type is `urn:hapax:error:CODE`, and
    /// there is no `docs_url`.
    #[must_use]
    pub fn with_docs(self, docs: Option<DocsBase>) -> Self {
        Self { docs, ..self }
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
        let mut error =
            json!({"code": self.code, "message": self.message, "details": self.details});
        if let Some(docs) = &self.docs {
            error["docs_url"] = json!(docs.page(self.code));
        }
        error
    }

    /// The response, in the form that `request_headers` ask for.
    #[must_use]
    pub fn into_response(self, trace: &TraceId, request_headers: &HeaderMap) -> Response<Bytes> {
        self.into_response_as(trace, Form::of(request_headers))
    }

    /// The response in this form.
    #[must_use]
    pub fn into_response_as(self, trace: &TraceId, form: Form) -> Response<Bytes> {
        let (content_type, body) = match form {
            Form::Envelope => (
                HeaderValue::from_static("application/json"),
                line(&json!({"error": self.error(), "trace_id": trace.as_str()})),
            ),
            Form::Rfc9457 => (
                HeaderValue::from_static("application/problem+json"),
                line(&self.rfc9457(trace)),
            ),
            Form::Grpc(kind) => (kind.content_type(), String::new()),
        };
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, content_type);
        if let Ok(value) = HeaderValue::from_str(trace.as_str()) {
            headers.insert(X_TRACE_ID, value);
        }
        if let Form::Grpc(_) = form {
            let status = form::grpc_status(self.code, self.status);
            headers.insert(GRPC_STATUS, HeaderValue::from(u16::from(status)));
            let message = format!("{}: {}", self.code, self.message);
            headers.insert(GRPC_MESSAGE, form::grpc_message(&message));
            *response.status_mut() = StatusCode::OK;
        }
        response.headers_mut().extend(self.headers);
        response
    }

    fn rfc9457(&self, trace: &TraceId) -> Value {
        // What only identifies the problem is no path: read beside another service's URL, that would lead there.
        let page = self.docs.as_ref().map(|docs| docs.page(self.code));
        let kind = page.clone();
        let kind = kind.unwrap_or_else(|| format!("urn:hapax:error:{}", self.code));
        let mut document = json!({
            "type": kind,
            "title": self.status.canonical_reason().unwrap_or("error"),
            "status": self.status.as_u16(),
            "detail": self.message,
            "code": self.code,
            "details": self.details,
            // Clients that know envelopes only look here for a failure.
            "error": {"code": self.code, "message": self.message, "type": "idempotency_error"},
            "trace_id": trace.as_str(),
        });
        if let Some(page) = page {
            document["docs_url"] = json!(page);
        }
        document
    }
}

/// A document as text that ends its line, as a terminal wants it.
fn line(document: &Value) -> String {
    format!("{document}\n")
}
