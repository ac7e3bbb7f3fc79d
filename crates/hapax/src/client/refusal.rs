//! What a refusal says: the envelope of the contract, RFC 9457, or nothing that we know.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};

/// Why the server did not do it, in its own words.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// # let app = axum::Router::new().route("/", axum::routing::post(|| async {
/// #     (http::StatusCode::FORBIDDEN, r#"{"error":{"code":"forbidden","message":"viewers may not write","details":{"role":"viewer"}}}"#)
/// # }));
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let url = format!("http://{}/", listener.local_addr()?);
/// # tokio::spawn(async move { axum::serve(listener, app).await });
/// let error = hapax::client::Client::new()?.post(&url).send().await.unwrap_err();
/// let refusal = error.refusal().unwrap();
/// assert_eq!(refusal.code.as_deref(), Some("forbidden"));
/// assert_eq!(refusal.details["role"], "viewer");
/// assert_eq!(refusal.to_string(), "403 forbidden: viewers may not write");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// The code, if the body is an error envelope or an RFC 9457 document with one.
    pub code: Option<String>,
    /// What the server says to people; empty if the body is in no known form.
    pub message: String,
    /// The facts behind it.
    pub details: Map<String, Value>,
    /// The id under which the server logged it.
    pub trace_id: Option<String>,
    /// Whether the server had recorded this refusal earlier.
    pub replayed: bool,
    /// The response headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Refusal {
    pub(super) fn of(status: StatusCode, headers: HeaderMap, body: Bytes, replayed: bool) -> Self {
        let mut document = serde_json::from_slice::<Map<String, Value>>(&body).unwrap_or_default();
        let trace_id = string(&mut document, "trace_id");
        // The envelope holds everything else under `error`; RFC 9457 says it at the top, and the code and the words under
        // `error` too.
        let beside = document.remove("details");
        let (mut facts, message) = match document.remove("error") {
            Some(Value::Object(error)) => (error, "message"),
            Some(_) | None => (document, "detail"),
        };
        let details = match facts.remove("details").or(beside) {
            Some(Value::Object(details)) => details,
            Some(_) | None => Map::new(),
        };
        Self {
            status,
            code: string(&mut facts, "code"),
            message: string(&mut facts, message).unwrap_or_default(),
            details,
            trace_id,
            replayed,
            headers,
            body,
        }
    }
}

fn string(document: &mut Map<String, Value>, name: &str) -> Option<String> {
    match document.remove(name) {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status.as_u16())?;
        match (&self.code, self.status.canonical_reason()) {
            (Some(code), _) => write!(f, " {code}")?,
            (None, Some(reason)) => write!(f, " {reason}")?,
            (None, None) => {}
        }
        if self.message.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.message)
        }
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("code", &self.code)
            .field("message", &self.message)
            .field("details", &self.details)
            .field("trace_id", &self.trace_id)
            .field("replayed", &self.replayed)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
