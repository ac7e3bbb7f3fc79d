//! One exchange with the upstream, at most once: what was answered, or what is known of its failure.
//! What a failure means for a key is the layer's to say.

use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Result;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hapax::layer::{NotRun, RequestBody};
use hapax::problem::Problem;
use http::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{Request, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::capture_connection;
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

use super::body::{Failure, Moved, Sent, Timed};
use super::client::{UpstreamClient, client};
use super::target::Target;
use super::{headers, tunnel};
use crate::busy::is_event_stream;
use crate::config::proxy::{Host, Proxy, Times};
use crate::problem::Refusal;
use crate::serve::{Handover, Peer};

/// The service behind the proxy. It is cloned for every request.
#[derive(Clone)]
pub(crate) struct Upstream(Arc<Behind>);

/// What is known of the service behind the proxy.
struct Behind {
    client: UpstreamClient,
    target: Target,
    host: Host,
    times: Times,
}

/// The request was sent, or may have been, and there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// The connection broke, or what came was no HTTP.
    Broken,
    TimedOut,
    /// The client did not send its body to the end.
    BodyUnreadable,
}

impl Unanswered {
    /// What the client is told.
    pub(super) fn problem(self) -> Problem {
        match self {
            Self::Broken => Problem::new(
                StatusCode::BAD_GATEWAY,
                "downstream_failed",
                "the upstream took the request and did not answer; it may have carried it out",
            )
            .with_detail("reason", "outcome_unknown"),
            Self::TimedOut => Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                "downstream_timeout",
                "the upstream took the request and did not answer in time; it may still carry it out",
            )
            .with_detail("reason", "outcome_unknown"),
            Self::BodyUnreadable => Problem::new(
                StatusCode::BAD_REQUEST,
                "body_unreadable",
                "the request body ended before it was complete; send it again",
            ),
        }
    }
}

impl Upstream {
    /// # Errors
    /// [`Usage`](crate::exit::Usage) when the certificates cannot be used.
    pub(crate) fn new(target: Target, config: &Proxy) -> Result<Self> {
        Ok(Self(Arc::new(Behind {
            client: client(target.is_https(), config)?,
            target,
            host: config.host,
            times: config.times(),
        })))
    }
}

impl Behind {
    async fn exchange(&self, request: Request<RequestBody<Body>>) -> Result<Response, Unanswered> {
        let Some((request, joined)) = self.prepared(request) else {
            let why = "the path leads out of what the upstream serves here";
            return Ok(nothing_sent(Problem::new(
                StatusCode::BAD_REQUEST,
                "bad_target",
                why,
            )));
        };
        let moved = Moved::default();
        let started = Instant::now();
        let until = started + self.times.total;
        let mut request = request.map(|body| Sent::new(body, moved.clone()));
        let connection = capture_connection(&mut request);
        let answer = tokio::select! {
            answer = self.client.request(request) => answer,
            () = late(&moved, started, self.times.head, until) => {
                let connected = connection.connection_metadata().is_some();
                return timed_out(connected, started);
            }
        };
        match answer {
            Ok(response) => {
                count("answered", started);
                self.answered(response, joined, until)
            }
            Err(error) => failed(&error, started),
        }
    }

    /// The request as the upstream gets it, and the client's side of an upgrade if it asks for one.
    fn prepared<B: http_body::Body>(
        &self,
        request: Request<B>,
    ) -> Option<(Request<B>, Option<Joined>)> {
        let (mut parts, body) = request.into_parts();
        let upgrade = headers::upgrade(&parts.method, parts.version, &parts.headers);
        let peer = parts.extensions.remove::<Peer>().map(|peer| peer.0.ip());
        let joined = upgrade.clone().and_then(|protocol| {
            let client = parts.extensions.remove::<OnUpgrade>()?;
            let handover = parts.extensions.remove::<Handover>()?;
            Some(Joined {
                protocol,
                client,
                handover,
            })
        });
        headers::strip_hop_by_hop(&mut parts.headers);
        headers::strip_expect(&mut parts.headers);
        headers::join_cookies(&mut parts.headers);
        headers::forwarded(&mut parts.headers, peer, parts.version);
        if let Some(joined) = &joined {
            parts
                .headers
                .insert(CONNECTION, HeaderValue::from_static("upgrade"));
            parts.headers.insert(UPGRADE, joined.protocol.clone());
        }
        if self.host == Host::Upstream {
            parts.headers.insert(
                HOST,
                HeaderValue::from_str(self.target.authority().as_str()).ok()?,
            );
        }
        // Hyper leaves the body of a GET out unless told how long it is, or that it is chunked.
        if !body.is_end_stream() && body.size_hint().exact().is_none() {
            parts
                .headers
                .insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        parts.uri = self.target.uri(parts.uri.path_and_query())?;
        parts.version = Version::HTTP_11;
        // What the listener and the layer know of the request is not the client's.
        parts.extensions.clear();
        Some((Request::from_parts(parts, body), joined))
    }

    /// The answer as the client gets it.
    fn answered(
        &self,
        mut response: http::Response<Incoming>,
        joined: Option<Joined>,
        until: Instant,
    ) -> Result<Response, Unanswered> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            // Nobody asked for it: whatever comes then is no answer.
            let joined = joined.ok_or(Unanswered::Broken)?;
            return Ok(joined.switched(response, self.times));
        }
        headers::strip_answer(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        // A stream of events ends when one side has enough of it.
        let until = (!is_event_stream(response.headers())).then_some(until);
        let failure = Failure::default();
        response.extensions_mut().insert(failure.clone());
        let idle = self.times.body_idle;
        Ok(response.map(|body| Body::new(Timed::new(body, idle, until, failure))))
    }
}

impl Service<Request<RequestBody<Body>>> for Upstream {
    type Response = Response;
    type Error = Unanswered;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Unanswered>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unanswered>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Body>>) -> Self::Future {
        let behind = Arc::clone(&self.0);
        Box::pin(async move { behind.exchange(request).await })
    }
}

/// The client's side of an upgrade.
struct Joined {
    protocol: HeaderValue,
    client: OnUpgrade,
    handover: Handover,
}

impl Joined {
    /// Answers 101 and leaves the two connections to each other.
    fn switched(self, mut response: http::Response<Incoming>, times: Times) -> Response {
        let upstream = hyper::upgrade::on(&mut response);
        let protocol = response.headers().get(UPGRADE).cloned();
        headers::strip_answer(response.headers_mut());
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.unwrap_or(self.protocol));
        self.handover
            .tunnel(tunnel::join(self.client, upstream, times.tunnel_idle));
        response.map(|_| Body::empty())
    }
}

/// Ends when the answer is late.
async fn late(moved: &Moved, started: Instant, head: Duration, until: Instant) {
    let mut limit = moved.late(started, head);
    loop {
        sleep_until(limit.min(until)).await;
        let next = moved.late(started, head);
        if next <= limit || Instant::now() >= until {
            return;
        }
        limit = next;
    }
}

/// What a late answer is: nothing sent where there was no connection yet, else nobody knows.
fn timed_out(connected: bool, started: Instant) -> Result<Response, Unanswered> {
    count("timed_out", started);
    if connected {
        return Err(Unanswered::TimedOut);
    }
    let why = "the upstream did not accept a connection in time; nothing was sent, retry the same request";
    let problem = Problem::new(StatusCode::GATEWAY_TIMEOUT, "downstream_timeout", why);
    Ok(nothing_sent(problem.with_detail("reason", "unreachable")))
}

/// A refusal that gives the key back whatever the route says: the upstream knows nothing of the request.
fn nothing_sent(problem: Problem) -> Response {
    let mut response = Refusal::from(problem).into_response();
    response.extensions_mut().insert(NotRun);
    response
}

/// What a failed exchange was: nothing sent, or nobody knows.
fn failed(error: &legacy::Error, started: Instant) -> Result<Response, Unanswered> {
    let hyper = error
        .source()
        .and_then(|source| source.downcast_ref::<hyper::Error>());
    // A request that hyper gives back was never begun.
    if error.is_connect() || hyper.is_some_and(hyper::Error::is_canceled) {
        count("unreachable", started);
        tracing::warn!(error = %chain(error), "the upstream cannot be reached");
        let why = "the upstream cannot be reached; nothing was sent, retry the same request";
        return Ok(nothing_sent(
            Problem::new(StatusCode::BAD_GATEWAY, "downstream_failed", why)
                .with_detail("reason", "unreachable"),
        ));
    }
    if hyper.is_some_and(hyper::Error::is_user) {
        return Err(Unanswered::BodyUnreadable);
    }
    count("broken", started);
    tracing::warn!(error = %chain(error), "the upstream did not answer");
    Err(Unanswered::Broken)
}

/// Counts an exchange by how it went until its answer began.
fn count(outcome: &'static str, started: Instant) {
    metrics::histogram!("hapax_upstream_seconds", "outcome" => outcome)
        .record(started.elapsed().as_secs_f64());
}

/// The error with its causes.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
