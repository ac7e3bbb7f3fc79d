//! Around every request: a trace id, a time limit, a net under panics, metrics, and one log line.
//! Bodies, queries and credentials are never logged.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hapax::problem::{Form, TraceId, X_TRACE_ID};
use hapax_core::Tenant;
use metrics::SharedString;

use crate::otlp::{self, Origin, Span};
use crate::pages::Pages;
use crate::problem::{self, Refusal};
use crate::serve::Peer;

/// Routes that wait for work as long as it takes: whoever asked decides how long that is worth.
const UNHURRIED: [&str; 1] = ["/import/email/mbox"];
/// Whose lines are the access log.
const ACCESS: &str = "hapax::access";
/// How much of a path a log line shows.
const PATH_CHARS_MAX: usize = 256;

/// What the trace is told by the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) request_timeout: Duration,
    pub(crate) access_log: bool,
    /// Where refusals lead.
    pub(crate) pages: Pages,
    /// The form of a refusal to the sender of these headers.
    pub(crate) form: fn(&HeaderMap) -> Form,
}

/// Answers the request whatever happens within: with the handler's answer, 408, or 500.
pub(crate) async fn trace(
    State(limits): State<Limits>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let trace = TraceId::of(request.headers());
    let form = (limits.form)(request.headers());
    let sought = limits.pages.sought_by(&request);
    let logs = limits.access_log && tracing::enabled!(target: ACCESS, tracing::Level::INFO);
    let seen = Seen::of(&request, logs);
    request.extensions_mut().insert(trace.clone());

    let limit = if seen.is_unhurried() {
        Duration::MAX
    } else {
        limits.request_timeout
    };
    let answer = tokio::time::timeout(limit, next.run(request));
    let response = match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => Refusal::from(problem::timed_out()).into_response(),
        Err(panic) => {
            tracing::error!(
                trace_id = trace.as_str(),
                panic = panic_text(panic.as_ref()),
                "a handler panicked"
            );
            Refusal::from(problem::internal()).into_response()
        }
    };

    let mut response = problem::rendered(response, &trace, form, || sought.base());
    if let Ok(value) = HeaderValue::from_str(trace.as_str()) {
        // What a service behind us says of its own trace stays.
        response.headers_mut().entry(X_TRACE_ID).or_insert(value);
    }
    seen.report(&response, &trace, started.elapsed());
    response
}

/// What is kept of a request for its metrics and its log line.
struct Seen {
    method: &'static str,
    route: Option<MatchedPath>,
    /// Only looked at where a line is logged.
    path: Option<String>,
    peer: Option<Peer>,
    /// Only looked at where spans are wanted.
    origin: Option<Origin>,
}

impl Seen {
    fn of(request: &Request, logs: bool) -> Self {
        Self {
            method: known(request.method()),
            route: request.extensions().get::<MatchedPath>().cloned(),
            path: logs.then(|| escaped(request.uri().path())),
            peer: request.extensions().get::<Peer>().copied(),
            origin: otlp::is_on().then(|| Origin::of(request.headers())),
        }
    }

    fn is_unhurried(&self) -> bool {
        let route = self.route.as_ref().map(MatchedPath::as_str);
        route.is_some_and(|route| UNHURRIED.contains(&route))
    }

    fn report(&self, response: &Response, trace: &TraceId, took: Duration) {
        let route = match &self.route {
            Some(route) => SharedString::from_owned(route.as_str().to_owned()),
            None => SharedString::const_str("none"),
        };
        let status = response.status().as_u16();
        // A service behind us may let callers choose its status.
        let counted = match response.status().canonical_reason() {
            Some(_) => SharedString::from_owned(status.to_string()),
            None => SharedString::const_str("other"),
        };
        if let Some(origin) = self.origin.clone() {
            otlp::record(Span {
                trace_id: trace.as_str().to_owned(),
                origin,
                method: self.method,
                route: route.to_string(),
                status,
                ended: SystemTime::now(),
                took,
            });
        }
        metrics::histogram!("hapax_http_request_seconds", "method" => self.method, "route" => route.clone())
            .record(took.as_secs_f64());
        metrics::counter!(
            "hapax_http_requests_total", "method" => self.method, "route" => route, "status" => counted
        )
        .increment(1);
        if let Some(path) = &self.path {
            tracing::info!(
                target: ACCESS,
                method = self.method,
                path,
                status,
                took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                peer = self.peer.map(|peer| tracing::field::display(peer.0)),
                tenant = response.extensions().get::<Tenant>().map(tracing::field::display),
                trace_id = trace.as_str(),
                "request"
            );
        }
    }
}

/// The method as one of few words: a label must not grow with what clients make up.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The path in visible ASCII and of bounded length, so that it cannot forge a log line.
fn escaped(path: &str) -> String {
    let mut text: String = path
        .bytes()
        .take(PATH_CHARS_MAX)
        .flat_map(std::ascii::escape_default)
        .map(char::from)
        .collect();
    if path.len() > PATH_CHARS_MAX {
        text.push('…');
    }
    text
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "a panic without text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    async fn panics() -> &'static str {
        panic!("on purpose")
    }

    fn app(request_timeout: Duration) -> Router {
        let limits = Limits {
            request_timeout,
            access_log: true,
            pages: Pages::Own,
            form: Form::of_document,
        };
        Router::new()
            .route("/panic", get(panics))
            .route("/never", get(std::future::pending::<()>))
            .layer(axum::middleware::from_fn_with_state(limits, trace))
    }

    async fn answer(path: &str, request_timeout: Duration) -> (u16, serde_json::Value, String) {
        let request = Request::get(path)
            .header(
                "traceparent",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            )
            .body(Body::empty())
            .unwrap();
        let response = app(request_timeout).oneshot(request).await.unwrap();
        let trace = response.headers()[X_TRACE_ID].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 16)
            .await
            .unwrap();
        (status, serde_json::from_slice(&body).unwrap(), trace)
    }

    #[tokio::test]
    async fn a_panic_is_a_500_with_the_envelope_and_the_callers_trace_id() {
        let (status, body, trace) = answer("/panic", Duration::from_secs(60)).await;
        assert_eq!(
            (status, body["error"]["code"].as_str()),
            (500, Some("internal"))
        );
        assert_eq!(trace, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(body["trace_id"], trace.as_str());
        assert!(
            !body.to_string().contains("on purpose"),
            "what went wrong is for the log"
        );
    }

    #[tokio::test]
    async fn a_request_that_takes_too_long_is_a_408() {
        let (status, body, _) = answer("/never", Duration::from_millis(1)).await;
        assert_eq!(
            (status, body["error"]["code"].as_str()),
            (408, Some("request_timeout"))
        );
    }

    #[test]
    fn a_path_cannot_forge_a_log_line() {
        assert_eq!(
            escaped("/a\n{\"level\":\"error\"}\u{1b}[2J\u{e9}"),
            "/a\\n{\\\"level\\\":\\\"error\\\"}\\x1b[2J\\xc3\\xa9"
        );
        assert!(escaped(&"x".repeat(100_000)).chars().count() <= PATH_CHARS_MAX + 1);
    }
}
