//! Refusals of the server: which problem a failure is, and where it gets its trace id and its form.
//! The envelope itself is the library's.

use axum::extract::Request;
use axum::http::header::{ALLOW, CONNECTION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hapax::layer::NotRun;
use hapax::problem::{DocsBase, Form, Problem, TraceId};
use hapax_core::canonical::Reject;
use hapax_core::{Error, Kind};
use std::time::Duration;

/// A refusal on its way out of a handler. It takes its form in [`render`], which knows the request.
#[derive(Clone, Debug)]
pub(crate) struct Refusal(Box<(Problem, Option<Error>)>);

impl Refusal {
    pub(crate) fn status(&self) -> StatusCode {
        self.0.0.status()
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new((problem, None)))
    }
}

/// The store's failure becomes its problem, and goes to the log with the trace id.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(Box::new((store(&error), Some(error))))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = status.into_response();
        if refuses_the_form(status) {
            response.extensions_mut().insert(NotRun);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Whether a refusal with this status is of a request that cannot be read or is not what its route takes: nothing was done,
/// and its key is left for the corrected request.
const fn refuses_the_form(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 413 | 415 | 422)
}

/// Gives the refusals of the handlers within their form. What they answered otherwise passes untouched.
pub(crate) async fn render(request: Request, next: Next) -> Response {
    let trace = request
        .extensions()
        .get::<TraceId>()
        .cloned()
        .unwrap_or_else(TraceId::random);
    let form = Form::of_document(request.headers());
    let docs = request.extensions().get::<DocsBase>().cloned();
    rendered(next.run(request).await, &trace, form, || docs)
}

/// The response, with a refusal given its form, which leads to a page of `docs`.
pub(crate) fn rendered(
    mut response: Response,
    trace: &TraceId,
    form: Form,
    docs: impl FnOnce() -> Option<DocsBase>,
) -> Response {
    let Some(Refusal(refusal)) = response.extensions_mut().remove() else {
        return response;
    };
    let (problem, error) = *refusal;
    if let Some(error) = error {
        let code = error.kind().code();
        tracing::error!(trace_id = trace.as_str(), %error, code, "the store failed");
    }
    let formed = problem.with_docs(docs()).into_response_as(trace, form);
    let (parts, body) = formed.into_parts();
    let mut formed = Response::from_parts(parts, axum::body::Body::from(body));
    // The router's own word on which methods there are.
    if let Some(allow) = response.headers_mut().remove(ALLOW) {
        formed.headers_mut().insert(ALLOW, allow);
    }
    *formed.extensions_mut() = std::mem::take(response.extensions_mut());
    formed
}

/// What a store's failure is to a client.
pub(crate) fn store(error: &Error) -> Problem {
    match error.kind() {
        Kind::Unavailable => Problem::store_unavailable(),
        Kind::OutcomeUnknown => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_unavailable",
            "the write may or may not have been recorded; retry the same request to find out",
        )
        .with_detail("reason", "outcome_unknown")
        .retry_after(Duration::from_secs(1)),
        Kind::Limit => too_large("the request is over a limit of the store; send less"),
        Kind::Corrupt | Kind::Unsafe => internal(),
        Kind::Unsupported => Problem::new(
            StatusCode::NOT_IMPLEMENTED,
            "not_supported",
            "the store that this server was started with does not do that; see docs/operations.md",
        ),
    }
}

/// A refused JSON document.
pub(crate) fn bad_json(reject: &Reject) -> Problem {
    let reason = reject.reason.as_str();
    Problem::new(
        StatusCode::BAD_REQUEST,
        "bad_json",
        format!(
            "the body is not acceptable JSON: {reason} at byte {}",
            reject.offset
        ),
    )
    .with_detail("reason", reason)
    .with_detail("offset", reject.offset)
}

/// JSON that is not what the route takes: each error is (path, message).
pub(crate) fn schema(errors: &[(String, String)]) -> Problem {
    let list: Vec<_> = errors
        .iter()
        .map(|(path, message)| serde_json::json!({"path": path, "message": message}))
        .collect();
    Problem::new(
        StatusCode::BAD_REQUEST,
        "schema_validation_failed",
        "the request does not have the form this route takes; see details.errors",
    )
    .with_detail("errors", list)
}

/// A document that was not taken in.
pub(crate) fn intake(refusal: &hapax_intake::Refusal) -> Problem {
    match refusal {
        hapax_intake::Refusal::BadJson(reject) => bad_json(reject),
        hapax_intake::Refusal::Schema(faults) => {
            let faults: Vec<_> = faults
                .iter()
                .map(|fault| (fault.path.clone(), fault.message.clone()))
                .collect();
            schema(&faults)
        }
        hapax_intake::Refusal::UnsupportedVersion(_) => Problem::new(
            StatusCode::BAD_REQUEST,
            "unsupported_schema_version",
            refusal.to_string(),
        ),
    }
}

/// A request head that two servers could read in two ways. It ends the connection.
pub(crate) fn ambiguous_framing(why: &str) -> Response {
    let message = format!("{why}; send a head that every server reads alike");
    let problem = Problem::new(StatusCode::BAD_REQUEST, "ambiguous_framing", message)
        .with_header(CONNECTION, HeaderValue::from_static("close"));
    let response = problem.into_response(&TraceId::random(), &HeaderMap::new());
    response.map(axum::body::Body::from)
}

/// The same words whether the credential is missing, wrong or revoked.
pub(crate) fn unauthorized() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "send a valid token: Authorization: Bearer TOKEN",
    )
    .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

pub(crate) fn forbidden(needed: &str) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        format!("this needs a token with the role {needed} or higher"),
    )
    .with_detail("needed_role", needed)
}

/// The job is one that the program runs itself.
pub(crate) fn job_of_the_program(message: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
        .with_detail("reason", "job_of_the_program")
}

/// A browser sends the cookie of a session along with requests of other pages too.
pub(crate) fn forbidden_csrf() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "a session writes only from the dashboard's own pages: send X-Hapax-Csrf: 1 from the same origin, or use a token",
    )
    .with_detail("reason", "csrf")
}

/// Without tokens a request must come from this machine and from no web page.
pub(crate) fn forbidden_origin() -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "forbidden",
        "without tokens this server answers only requests to and from localhost; start it without --insecure-no-auth",
    )
}

pub(crate) fn rate_limited(wait: Duration) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "rate_limited",
        "too many failed sign-ins from this address or with this token; wait, then retry with a valid token",
    )
    .retry_after(wait)
}

pub(crate) fn too_many_requests(wait: Duration) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "rate_limited",
        "this tenant sends more requests a second than tenant_requests_per_second allows; wait, then retry with the same key",
    )
    .retry_after(wait)
}

/// Streams hold a connection each, so there are only so many.
pub(crate) fn too_many_streams() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too_many_streams",
        "as many streams are open as this tenant may have, or this server; close one, or read /v1/overview instead",
    )
    .retry_after(Duration::from_secs(10))
}

pub(crate) fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "nothing is here; check the path and the id",
    )
}

pub(crate) fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not take this method; the Allow header says which it takes",
    )
}

pub(crate) fn too_large(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
}

pub(crate) fn unsupported_media_type() -> Problem {
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "send JSON with content-type application/json",
    )
}

pub(crate) fn timed_out() -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "request_timeout",
        "the request took too long; retry it with the same idempotency key",
    )
}

pub(crate) fn incomplete_body() -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "body_unreadable",
        "the request body ended before it was complete; send it again",
    )
}

/// The store answers, but would not keep a promise.
pub(crate) fn not_ready() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "store_unavailable",
        "the store does not take writes; `hapax doctor` says more",
    )
    .retry_after(Duration::from_secs(5))
}

pub(crate) fn internal() -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "the server met a fault of its own; the log has more under this trace id",
    )
}
