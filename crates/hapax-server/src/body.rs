//! A request body that gives up on a silent client, and the JSON extractor with our rules.
//! Which types the JSON becomes is each route's business.

use std::any::TypeId;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use hapax::layer::{Budget, Hold, Unread, overloaded};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::canonical::{self, DEPTH_MAX};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::api::App;
use crate::problem::{self, Refusal};

/// How long a refused body is read on.
const DISCARD_FOR: Duration = Duration::from_secs(5);
/// How much is read of the body of a caller who is not known.
pub(crate) const STRANGER_BYTES_MAX: usize = 8 << 10;

/// Marks an answer to a request that was let in: what its handler left of the body may be read on, within the limit of
/// bodies. Of any other body only [`STRANGER_BYTES_MAX`] is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LetIn;

/// What a request holds of the budget until it is answered.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<OnceLock<Hold>>);

/// A body whose client may be silent only so long. What its reader leaves of it is handed back.
pub(crate) struct IdleBody {
    /// Present until the body is dropped.
    body: Option<Incoming>,
    idle: Duration,
    /// Set while a frame is awaited; most bodies are there at once and need no timer.
    deadline: Option<Pin<Box<Sleep>>>,
    leftover: Option<oneshot::Sender<Incoming>>,
}

/// What a handler left of a body, once it has dropped it.
pub(crate) struct Leftover(oneshot::Receiver<Incoming>);

impl IdleBody {
    pub(crate) fn new(body: Incoming, idle: Duration) -> (Self, Leftover) {
        let (leftover, left) = oneshot::channel();
        (
            Self {
                body: Some(body),
                idle,
                deadline: None,
                leftover: Some(leftover),
            },
            Leftover(left),
        )
    }
}

impl Drop for IdleBody {
    fn drop(&mut self) {
        if let (Some(body), Some(leftover)) = (self.body.take(), self.leftover.take())
            && !body.is_end_stream()
        {
            // Nobody waits for it where the connection has ended.
            let _ = leftover.send(body);
        }
    }
}

impl Leftover {
    /// Reads on, within limits, and throws it away. Over HTTP/1 a client that is still sending would
    /// otherwise be cut off before it reads the answer.
    pub(crate) async fn discard(mut self, bytes_max: usize) {
        let Ok(mut body) = self.0.try_recv() else {
            return;
        };
        let mut bytes = 0;
        let discarded = async {
            while let Some(Ok(frame)) = body.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > bytes_max {
                    return;
                }
            }
        };
        // Out of time: the answer goes out all the same.
        let _ = timeout(DISCARD_FOR, discarded).await;
    }
}

impl HttpBody for IdleBody {
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            if let Some(deadline) = &mut this.deadline {
                deadline.as_mut().reset(Instant::now() + this.idle);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let deadline = this
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(this.idle)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Silent.into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map(HttpBody::size_hint)
            .unwrap_or_default()
    }
}

/// The client stopped sending.
#[derive(Debug)]
struct Silent;

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client stopped sending its body")
    }
}

impl StdError for Silent {}

/// A JSON body by the rules of the contract, as `T`.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static> FromRequest<App> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes = json_bytes(app, request, app.config.body_bytes_max, DEPTH_MAX).await?;
        Ok(Self(parsed(&bytes)?))
    }
}

/// Like [`Json`], from a caller who is not known: only a short document is read.
pub(crate) struct FromStranger<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static> FromRequest<App> for FromStranger<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes_max = app.config.body_bytes_max.min(STRANGER_BYTES_MAX);
        let bytes = json_bytes(app, request, bytes_max, DEPTH_MAX).await?;
        Ok(Self(parsed(&bytes)?))
    }
}

/// Like [`Json`], where no body at all says the same as an empty document.
pub(crate) struct Optional<T>(pub(crate) T);

impl<T: DeserializeOwned + Default + 'static> FromRequest<App> for Optional<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes = unchecked_bytes(app, request, app.config.body_bytes_max).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        checked(&bytes, DEPTH_MAX)?;
        Ok(Self(parsed(&bytes)?))
    }
}

/// Like [`Json`], for a document that carries a payload: the payload itself may be as deep as any.
pub(crate) struct Wrapped<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static> FromRequest<App> for Wrapped<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes = json_bytes(app, request, app.config.body_bytes_max, DEPTH_MAX + 1).await?;
        Ok(Self(parsed(&bytes)?))
    }
}

/// Like [`Wrapped`], where the payload may be as large as a body: what stands around it comes on top.
pub(crate) struct Roomy<T>(pub(crate) T);

/// How much may stand around a payload.
const AROUND_BYTES_MAX: usize = 64 << 10;

impl<T: DeserializeOwned + 'static> FromRequest<App> for Roomy<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes_max = app.config.body_bytes_max.saturating_add(AROUND_BYTES_MAX);
        let bytes = json_bytes(app, request, bytes_max, DEPTH_MAX + 1).await;
        let bytes = bytes.map_err(|problem| match problem.code() {
            "payload_too_large" => problem::too_large(format!(
                "the body is over {bytes_max} bytes; keep what is that large elsewhere, and send where it is"
            )),
            _other => problem,
        })?;
        Ok(Self(parsed(&bytes)?))
    }
}

/// A document with a list of others, each of which may carry a payload as deep as any.
pub(crate) struct Batch<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Batch<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let held = request.extensions().get::<Held>().cloned();
        let bytes = unchecked_bytes(app, request, app.config.batch_body_bytes_max).await?;
        // So much JSON takes longer than a thread of the runtime should be held up. It counts until it is read, also if
        // its client goes away.
        let read = tokio::task::spawn_blocking(move || {
            let _held = held;
            checked(&bytes, DEPTH_MAX + 3)?;
            parsed(&bytes)
        });
        let parsed = read.await.map_err(|_| problem::internal())?;
        Ok(Self(parsed?))
    }
}

/// A body that says it is JSON, as it was received. Whoever reads it applies the rules.
pub(crate) struct Received(pub(crate) Bytes);

impl FromRequest<App> for Received {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes = unchecked_bytes(app, request, app.config.body_bytes_max).await?;
        Ok(Self(bytes))
    }
}

/// Like [`Received`], for many documents in one.
pub(crate) struct ReceivedBatch(pub(crate) Bytes);

impl FromRequest<App> for ReceivedBatch {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let bytes = unchecked_bytes(app, request, app.config.batch_body_bytes_max).await?;
        Ok(Self(bytes))
    }
}

/// The bytes of a JSON body: of the right media type, within the limit, and acceptable JSON.
pub(crate) async fn json_bytes(
    app: &App,
    request: Request,
    bytes_max: usize,
    depth_max: usize,
) -> Result<Bytes, Problem> {
    let bytes = unchecked_bytes(app, request, bytes_max).await?;
    checked(&bytes, depth_max)?;
    Ok(bytes)
}

/// The bytes of a body that says it is JSON, within the limit.
async fn unchecked_bytes(app: &App, request: Request, bytes_max: usize) -> Result<Bytes, Problem> {
    if !is_json(request.headers()) {
        return Err(problem::unsupported_media_type());
    }
    let extensions = request.extensions();
    let tenant = extensions.get::<Tenant>().copied().unwrap_or(NOBODY);
    let held = extensions.get::<Held>().cloned();
    read(&app.budget, tenant, held, request.into_body(), bytes_max).await
}

/// Stands for callers who are not known, in the budget alone.
const NOBODY: Tenant = Tenant::from_uuid(uuid::Uuid::max());

pub(crate) fn checked(bytes: &[u8], depth_max: usize) -> Result<(), Problem> {
    canonical::check_with_depth(bytes, depth_max).map_err(|reject| problem::bad_json(&reject))
}

/// Reads a whole body within the budget. Its bytes count until the request is answered.
async fn read(
    budget: &Budget,
    tenant: Tenant,
    until_answered: Option<Held>,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    match budget.read(tenant, body, bytes_max).await {
        Ok((bytes, hold)) => {
            if let Some(Held(place)) = until_answered {
                // A request has one body.
                let _ = place.set(hold);
            }
            Ok(bytes)
        }
        Err(Unread::TooLarge) => Err(problem::too_large(format!(
            "the body is over {bytes_max} bytes; send less"
        ))),
        Err(Unread::Exhausted) => Err(overloaded()),
        Err(Unread::Broken(error)) => Err(unreadable(&error)),
    }
}

fn unreadable(error: &axum::Error) -> Problem {
    let mut source: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(cause) = source {
        if cause.is::<Silent>() {
            return problem::timed_out();
        }
        source = cause.source();
    }
    problem::incomplete_body()
}

/// Whether the body says it is JSON, or says nothing.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let essence = value
        .to_str()
        .unwrap_or("")
        .split(';')
        .next()
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Acceptable JSON as `T`, or the path to what does not fit.
fn parsed<T: DeserializeOwned + 'static>(bytes: &[u8]) -> Result<T, Problem> {
    // A body with members is an object. An array would be read as one by the order of its items.
    let is_taken_as_it_is = TypeId::of::<T>() == TypeId::of::<Box<RawValue>>();
    if !is_taken_as_it_is && !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(problem::schema(&[(
            String::new(),
            "must be an object".to_owned(),
        )]));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    // The strict check has bounded the depth already.
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, message) = (error.path().to_string(), error.inner().to_string());
        problem::schema(&[missing(&path, &message).unwrap_or((path, message))])
    })
}

/// A member that is not there, by its own path: serde names the object that misses it.
fn missing(path: &str, message: &str) -> Option<(String, String)> {
    let (name, _) = message.strip_prefix("missing field `")?.split_once('`')?;
    let path = match path {
        "" | "." => name.to_owned(),
        above => format!("{above}.{name}"),
    };
    Some((path, "is missing".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use axum::http::header::HeaderName;

    fn typed(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            HeaderName::from_static("content-type"),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn a_missing_member_is_named_by_its_own_path() {
        #[derive(serde::Deserialize)]
        struct Outer {
            #[expect(dead_code, reason = "it is only read")]
            inner: Inner,
        }
        #[derive(serde::Deserialize)]
        struct Inner {
            #[expect(dead_code, reason = "it is only read")]
            method: String,
        }
        for (body, path) in [(r"{}", "inner"), (r#"{"inner":{}}"#, "inner.method")] {
            let refusal = parsed::<Outer>(body.as_bytes()).err().unwrap();
            let errors = &refusal.error()["details"]["errors"];
            let told = serde_json::json!([{"path": path, "message": "is missing"}]);
            assert_eq!(errors, &told);
        }
    }

    #[test]
    fn json_is_what_says_so_or_says_nothing() {
        assert!(is_json(&HeaderMap::new()));
        for yes in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.api+json",
        ] {
            assert!(is_json(&typed(yes)), "{yes}");
        }
        for no in [
            "text/plain",
            "application/jsonp",
            "application/xml",
            "",
            "text/x+json",
        ] {
            assert!(!is_json(&typed(no)), "{no}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_path() {
        #[derive(serde::Deserialize, Debug)]
        struct Outer {
            #[expect(dead_code, reason = "only its type matters")]
            inner: Vec<u8>,
        }
        let problem = parsed::<Outer>(br#"{"inner":[1,"x"]}"#).unwrap_err();
        assert_eq!(problem.code(), "schema_validation_failed");
        let response = problem.into_response(&hapax::problem::TraceId::random(), &HeaderMap::new());
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["error"]["details"]["errors"][0]["path"], "inner[1]");
    }
}
