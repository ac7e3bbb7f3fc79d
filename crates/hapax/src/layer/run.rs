//! One keyed request: claims, runs the handler under its lease, and records the answer before it is sent.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use hapax_core::{Cause, Claim, Doubt, Lease, NotKept, OnLost, Outcome, Record, State};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, Response, response};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::answer;
use super::body::{BoxError, RequestBody, ResponseBody};
use super::budget::{Buffer, Hold, upper};
use super::grpc;
use super::layer::Setup;
use super::passing::Stream;
use super::route::Route;
use crate::problem::Problem;
use crate::{Claimed, Settled};

/// How long an answer without a length is waited for, so that it is recorded before any of it is sent.
const ENDS_WITHIN: Duration = Duration::from_millis(50);
/// How much of one is held back meanwhile.
const BEGUN_BYTES_MAX: usize = 64 << 10;

/// Marks an answer to a request that did not run: it was refused before anything was done. Put into the extensions of a
/// response, it gives the key back whatever the route says of the status, so that the corrected request runs under it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use axum::response::{IntoResponse, Response};
/// use axum::{Router, body::Body, routing::post};
/// use hapax::{Engine, IdempotencyLayer, layer::NotRun, store::MemoryLedger};
/// use http::{Request, StatusCode};
/// use tower::ServiceExt;
///
/// async fn pay(body: String) -> Response {
///     match body.parse::<u32>() {
///         Ok(_) => StatusCode::CREATED.into_response(),
///         Err(_) => (StatusCode::BAD_REQUEST, axum::Extension(NotRun)).into_response(),
///     }
/// }
/// let engine = Engine::new(std::sync::Arc::new(MemoryLedger::new()));
/// let app = Router::new().route("/pay", post(pay)).layer(IdempotencyLayer::new(engine));
/// let send = |body: &'static str| {
///     let request = Request::post("/pay").header("idempotency-key", "order-7");
///     app.clone().oneshot(request.body(Body::from(body)).unwrap())
/// };
/// assert_eq!(send("ten").await?.status(), 400);
/// assert_eq!(send("10").await?.status(), 201, "the key was not bound");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotRun;

/// How a keyed request ended.
pub(super) enum Ran<B> {
    Answered(Response<ResponseBody<B>>),
    Refused(Problem),
}

#[allow(clippy::large_enum_variant, reason = "one per request, moved twice")]
/// What the handler answered, as far as it matters for the record.
enum Handled<B: Body> {
    /// The key is given back: the answer is not final.
    Passed(Response<B>),
    /// It does not say whether the request was carried out.
    Doubtful(Response<B>),
    /// All of it is here, and counts until it is sent.
    Whole(response::Parts, Bytes, Hold),
    /// It is too large: why it is not kept, the beginning, and the rest.
    Unkept(response::Parts, NotKept, Bytes, Pin<Box<B>>),
    /// All of it is here, and trailers with it, which a replay could not give.
    Trailed(response::Parts, Bytes, HeaderMap),
    /// It has no length and does not end soon.
    Streams(response::Parts, Stream<B>),
    /// It broke off.
    Broken(response::Parts, Bytes, B::Error),
}

/// Claims, of which the cache says `seen`, then answers as the claim says.
pub(super) async fn claim_and_run<S, ReqBody, ResBody>(
    setup: Arc<Setup>,
    (claim, seen): (Claim, Option<Arc<Record>>),
    route: Arc<Route>,
    inner: S,
    request: Request<RequestBody<ReqBody>>,
) -> Result<Ran<ResBody>, S::Error>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
    ResBody: Body + Send + 'static,
    ResBody::Data: Send,
    ResBody::Error: Into<BoxError> + Send,
{
    let problem = match setup.observer.claim_seen(&setup.engine, &claim, seen).await {
        Ok(Claimed::Granted(lease, cause)) => {
            return run(&setup, lease, cause, &route, inner, request).await;
        }
        Ok(Claimed::Replay(receipt)) => {
            return Ok(match setup.replay(claim.scope.tenant, &receipt) {
                Ok(response) => Ran::Answered(response),
                Err(problem) => Ran::Refused(*problem),
            });
        }
        Ok(Claimed::Busy(held_for)) => answer::in_progress(&claim, held_for),
        Ok(Claimed::Conflict(record)) => {
            answer::conflict(&record, &claim, &route, setup.engine.ledger().now())
        }
        Ok(Claimed::Lost(doubt)) => answer::in_doubt(&claim, doubt),
        Ok(Claimed::Erased) => answer::erased(),
        Err(error) => {
            tracing::error!(%error, code = error.kind().code(), "the key was not claimed");
            answer::not_claimed(&error)
        }
    };
    Ok(Ran::Refused(problem))
}

/// Runs the handler to its end, whoever still waits for it.
async fn run<S, ReqBody, ResBody>(
    setup: &Arc<Setup>,
    lease: Lease,
    cause: Cause,
    route: &Route,
    mut inner: S,
    request: Request<RequestBody<ReqBody>>,
) -> Result<Ran<ResBody>, S::Error>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
    ResBody: Body + Send + 'static,
    ResBody::Data: Send,
    ResBody::Error: Into<BoxError> + Send,
{
    let tenant = lease.record().scope.tenant;
    let buffer = Buffer::of_answer(&setup.budget, tenant);
    let (lease, ran) = {
        // Pinned here and lent, so that the future of the request holds it once.
        let work = pin!(async {
            let response = inner.call(request).await?;
            Ok(handle(response, route, buffer).await)
        });
        let caught = AssertUnwindSafe(work).catch_unwind();
        setup.engine.run(lease, caught).await
    };
    let handled = match ran {
        Ok(Ok(handled)) => handled,
        Ok(Err(error)) => {
            Box::pin(give_up(setup, lease)).await;
            return Err(error);
        }
        Err(panic) => {
            Box::pin(give_up(setup, lease)).await;
            std::panic::resume_unwind(panic);
        }
    };
    let mut ran = record(setup, lease, route, handled).await;
    if let (Ran::Answered(response), Cause::Expired) = (&mut ran, cause) {
        response.headers_mut().insert(
            answer::X_IDEMPOTENCY_EXPIRED,
            HeaderValue::from_static("true"),
        );
    }
    Ok(ran)
}

async fn record<B>(setup: &Arc<Setup>, lease: Lease, route: &Route, handled: Handled<B>) -> Ran<B>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError> + Send,
{
    let (mut parts, mut outcome, body) = match handled {
        Handled::Passed(response) => {
            Box::pin(release(setup, lease)).await;
            return Ran::Answered(response.map(ResponseBody::passed));
        }
        Handled::Doubtful(response) => {
            Box::pin(hold_in_doubt(setup, lease)).await;
            return Ran::Answered(response.map(ResponseBody::passed));
        }
        Handled::Broken(parts, first, failure) => {
            Box::pin(give_up(setup, lease)).await;
            return Ran::Answered(Response::from_parts(
                parts,
                ResponseBody::broken(first, failure.into()),
            ));
        }
        Handled::Whole(parts, bytes, hold) => {
            let outcome = Outcome::new(parts.status.as_u16(), bytes.clone());
            (
                parts,
                outcome,
                ResponseBody::whole(Setup::sent(bytes, hold)),
            )
        }
        Handled::Unkept(parts, reason, first, rest) => {
            let outcome = Outcome::not_kept(parts.status.as_u16()).because(reason);
            (parts, outcome, ResponseBody::resumed(first, rest))
        }
        Handled::Trailed(parts, bytes, trailers) if grpc::refuses_credential(&trailers) => {
            Box::pin(release(setup, lease)).await;
            let body = ResponseBody::trailed(bytes, trailers);
            return Ran::Answered(Response::from_parts(parts, body));
        }
        Handled::Trailed(parts, bytes, trailers) => {
            let outcome = Outcome::not_kept(parts.status.as_u16()).because(NotKept::Trailers);
            (parts, outcome, ResponseBody::trailed(bytes, trailers))
        }
        Handled::Streams(parts, stream) => {
            let mut outcome = Outcome::not_kept(parts.status.as_u16());
            outcome.headers = answer::stored_headers(&parts.headers, route);
            let passing = stream.pass_on(setup, lease, outcome);
            return Ran::Answered(Response::from_parts(parts, ResponseBody::passing(passing)));
        }
    };
    let stored = answer::stored_headers(&parts.headers, route);
    outcome.headers.splice(0..0, stored);
    let id = lease.id();
    match setup.observer.settle(&setup.engine, lease, outcome).await {
        Ok(Settled::Recorded(receipt)) => {
            // A replay cannot give what was not kept, so nothing expires.
            if receipt.outcome.whole().is_some() {
                answer::say_expiry(&mut parts.headers, receipt.expires_at);
            }
            Ran::Answered(Response::from_parts(parts, body))
        }
        Ok(Settled::Lost(stored)) => {
            tracing::error!(%id, "the lease was lost while the handler ran; its answer is not recorded");
            match stored.map(|record| (record.state, record.expires_at)) {
                // Everyone gets the recorded answer, this caller included.
                Some((State::Settled { outcome, .. }, expires_at)) if outcome.whole().is_some() => {
                    Ran::Answered(answer::replay(&outcome, expires_at).map(ResponseBody::whole))
                }
                Some((State::Erased, _)) => Ran::Refused(answer::erased()),
                Some((
                    State::Settled { .. }
                    | State::Held(_)
                    | State::InDoubt { .. }
                    | State::Free
                    | State::Expired,
                    _,
                ))
                | None => Ran::Refused(answer::not_recorded()),
            }
        }
        Err(error) => {
            tracing::error!(%id, %error, code = error.kind().code(), "the answer was not recorded");
            Ran::Refused(answer::not_recorded())
        }
    }
}

/// Reads the answer as far as it can be recorded before it is sent.
async fn handle<B>(response: Response<B>, route: &Route, mut buffer: Buffer) -> Handled<B>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError> + Send,
{
    let bytes_max = route.max_response_bytes;
    if response.extensions().get::<NotRun>().is_some() {
        return Handled::Passed(response);
    }
    let status = grpc::meant(&response);
    if route.on_status_hold.holds(status) {
        return Handled::Doubtful(response);
    }
    if !route.store_statuses.holds(status) {
        return Handled::Passed(response);
    }
    let (parts, body) = response.into_parts();
    let content_type = parts.headers.get(CONTENT_TYPE);
    let is_events =
        content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let beyond = if is_events {
        NotKept::Stream
    } else {
        NotKept::TooLarge
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Handled::Unkept(parts, beyond, Bytes::new(), Box::pin(body));
    }
    let is_open = is_events || body.size_hint().exact().is_none();
    // Events are wanted one by one. What else has no length mostly ends at once.
    let patience = if is_events {
        Duration::ZERO
    } else {
        ENDS_WITHIN
    };
    let mut body = Box::pin(body);
    let mut late = None;
    loop {
        let next = if is_open {
            let until = *late.get_or_insert_with(|| Instant::now() + patience);
            match timeout_at(until, body.frame()).await {
                Ok(next) => next,
                Err(_late) => break,
            }
        } else {
            body.frame().await
        };
        let data = match next {
            None => {
                let (bytes, hold) = buffer.whole();
                return Handled::Whole(parts, bytes, hold);
            }
            Some(Err(failure)) => return Handled::Broken(parts, begun(buffer), failure),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(frame) => match frame.into_trailers() {
                    Ok(trailers) => return Handled::Trailed(parts, begun(buffer), trailers),
                    Err(_unknown) => continue,
                },
            },
        };
        let length = buffer.len() + data.remaining();
        let (upper, is_last) = (upper(&body, length, bytes_max), body.is_end_stream());
        let pushed = if length > bytes_max {
            Err(data)
        } else {
            buffer.push_answer(data, is_last, upper).await
        };
        if let Err(mut data) = pushed {
            // What does not fit is the beginning of the rest.
            let mut first = BytesMut::from(begun(buffer));
            first.put(data.copy_to_bytes(data.remaining()));
            return Handled::Unkept(parts, beyond, first.freeze(), body);
        }
        if is_open && !is_last && buffer.len() > BEGUN_BYTES_MAX {
            break;
        }
    }
    let limits = (bytes_max, beyond);
    Handled::Streams(parts, Stream::new(body, buffer, limits, route.policy.lease))
}

/// What there is of an answer that is not kept.
fn begun(buffer: Buffer) -> Bytes {
    let (bytes, hold) = buffer.whole();
    Setup::sent(bytes, hold)
}

pub(super) async fn release(setup: &Setup, lease: Lease) {
    let id = lease.id();
    if let Err(error) = setup.observer.release(&setup.engine, lease).await {
        tracing::error!(%id, %error, "the key was not given back; it is free when its lease runs out");
    }
}

/// The handler's answer says that nobody knows. Rare and boxed, as the next.
pub(super) async fn hold_in_doubt(setup: &Setup, lease: Lease) {
    let id = lease.id();
    let doubted = setup
        .observer
        .hold_in_doubt(&setup.engine, lease, Doubt::OutcomeUnknown)
        .await;
    if let Err(error) = doubted {
        tracing::error!(%id, %error, "the doubt was not recorded; the key's policy decides when its lease runs out");
    }
}

/// The handler ended without an answer: run again, or in doubt, as the record's policy says.
/// This and giving back are rare and boxed, so that the future of every other request is small: it is moved more than once.
async fn give_up(setup: &Setup, lease: Lease) {
    let id = lease.id();
    match lease.record().on_lost {
        OnLost::Retry => release(setup, lease).await,
        OnLost::Hold => {
            let doubted = setup
                .observer
                .doubt(&setup.engine, lease, Doubt::OutcomeUnknown)
                .await;
            if let Err(error) = doubted {
                tracing::error!(%id, %error, "the doubt was not recorded; the key is in doubt when its lease runs out");
            }
        }
    }
}
