//! The service: which requests are keyed, and what a claim's answer means for the response.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hapax_core::{Claim, Key, Principal, Receipt, Record, Scope, Space, Tenant};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::asked::Asked;
use super::body::{BoxError, RequestBody, ResponseBody};
use super::budget::{Hold, Unread};
use super::derived::is_reserved;
use super::encoded::decoded_bytes_max;
use super::future::ResponseFuture;
use super::key::KeyError;
use super::layer::Setup;
use super::pattern::route_pattern;
use super::route::Route;
use super::{answer, key, run};
use crate::engine::Outliving;
use crate::problem::{DocsBase, Form, Problem, TraceId};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Bodies up to this are copied out of what their connection read.
const COPIED_BYTES_MAX: usize = 16 * 1024;
/// Bodies over this are hashed off the async threads.
const HASH_INLINE_BYTES_MAX: usize = 128 * 1024;

/// The service that [`IdempotencyLayer`](super::IdempotencyLayer) makes.
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    setup: Arc<Setup>,
}

impl<S> Idempotency<S> {
    pub(super) fn new(inner: S, setup: Arc<Setup>) -> Self {
        Self { inner, setup }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for Idempotency<S>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Body + Send + 'static,
    ReqBody::Data: Send,
    ReqBody::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    ResBody: Body + Send + 'static,
    ResBody::Data: Send,
    ResBody::Error: Into<BoxError> + Send,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, ResBody, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (parts, body) = request.into_parts();
        match self.keyed(&parts) {
            Ok(None) => {
                let request = Request::from_parts(parts, RequestBody::passed(body));
                ResponseFuture::passing(self.inner.call(request))
            }
            Ok(Some(keyed)) => {
                // The instance that is ready runs the request; its clone takes its place.
                let next = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, next);
                ResponseFuture::keyed(Box::pin(answer_keyed(
                    self.setup.clone(),
                    keyed,
                    ready,
                    Request::from_parts(parts, body),
                )))
            }
            Err(refused) => {
                let Refused { tenant, space, .. } = &*refused;
                self.setup.observer.key_refused(*tenant, space);
                let caller = Caller::of(&self.setup, &parts, refused.problem_json);
                let response = caller.refuse(refused.problem);
                ResponseFuture::keyed(Box::pin(std::future::ready(Ok(response))))
            }
        }
    }
}

/// Whether requests of this method can be keyed: those that change something.
#[must_use]
pub fn is_keyed(method: &Method) -> bool {
    matches!(
        *method,
        Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    )
}

/// A request that runs under a key.
struct Keyed {
    tenant: Tenant,
    space: Space,
    route: Arc<Route>,
    /// Absent when it is derived from the body, which is not read yet.
    key: Option<Key>,
    principal: Option<Principal>,
}

/// A request that does not run: its key is missing or is none, or nobody knows whose it is.
struct Refused {
    tenant: Tenant,
    space: Space,
    problem: Problem,
    problem_json: bool,
}

impl<S> Idempotency<S> {
    /// How the request with this head is keyed, if it is.
    fn keyed(&self, parts: &Parts) -> Result<Option<Keyed>, Box<Refused>> {
        if !is_keyed(&parts.method) {
            return Ok(None);
        }
        let space = route_pattern(&parts.method, parts.uri.path());
        let Some(route) = self.setup.routes.shared(space.as_str()) else {
            return Ok(None);
        };
        let tenant = self.setup.tenant(parts);
        let refused = |problem: Problem| {
            Box::new(Refused {
                tenant,
                space: space.clone(),
                problem,
                problem_json: route.problem_json,
            })
        };
        let parse = if route.strict_keys {
            key::parse_key_strictly
        } else {
            key::parse_key
        };
        let invalid = |error: KeyError| refused(answer::key_invalid(&error));
        let key = parse(&parts.headers).map_err(invalid)?;
        match &key {
            None if route.derive => {}
            None if route.required => return Err(refused(answer::key_required(space.as_str()))),
            None => return Ok(None),
            Some(key) if is_reserved(key, tenant, &space) => {
                return Err(invalid(KeyError::Reserved));
            }
            Some(_) => {}
        }
        let principal = self.setup.principal(parts, &space, route, key.is_none());
        Ok(Some(Keyed {
            principal: principal.map_err(|problem| refused(*problem))?,
            tenant,
            route: route.clone(),
            space,
            key,
        }))
    }
}

/// Reads the body, makes the claim, and answers from the cache or from a task that claims and runs.
async fn answer_keyed<S, ReqBody, ResBody>(
    setup: Arc<Setup>,
    keyed: Keyed,
    inner: S,
    request: Request<ReqBody>,
) -> Result<Response<ResponseBody<ResBody>>, S::Error>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Body + Send + 'static,
    ReqBody::Data: Send,
    ReqBody::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    ResBody: Body + Send + 'static,
    ResBody::Data: Send,
    ResBody::Error: Into<BoxError> + Send,
{
    let (parts, body) = request.into_parts();
    let (bytes, hold) = match collect(&setup, &parts, body, keyed.route.max_body_bytes).await {
        Ok(collected) => collected,
        Err(problem) => {
            return Ok(Caller::of(&setup, &parts, keyed.route.problem_json).refuse(*problem));
        }
    };
    let tenant = keyed.tenant;
    let decodes_to = decoded_bytes_max(&parts.headers, bytes.len());
    let mut room = None;
    if decodes_to > 0 {
        room = setup.budget.hold(tenant, decodes_to);
        if room.is_none() {
            let caller = Caller::of(&setup, &parts, keyed.route.problem_json);
            return Ok(caller.refuse(answer::overloaded()));
        }
    }
    let claim = claim(&keyed, &parts, bytes.clone(), decodes_to).await;
    if let (Some(room), Some(body)) = (&mut room, &claim.request.body) {
        room.shrink_to(body.len());
    }
    let hold = (hold, room);
    let seen = match setup.observer.look(&setup.engine, &claim) {
        Ok(receipt) => {
            // The request is over: its answer needs the room.
            drop(hold);
            return Ok(match setup.replay(tenant, &receipt) {
                Ok(response) => response,
                Err(problem) => {
                    Caller::of(&setup, &parts, keyed.route.problem_json).refuse(*problem)
                }
            });
        }
        Err(seen) => seen,
    };
    let caller = Caller::of(&setup, &parts, keyed.route.problem_json);
    // From the claim on it runs to its end: a client that goes away leaves neither a key held by nobody nor a
    // handler cut off in the middle.
    let request = Request::from_parts(parts, RequestBody::whole(bytes));
    match begun(&setup, (claim, seen), keyed.route, inner, (request, hold)).await? {
        run::Ran::Answered(response) => Ok(response),
        run::Ran::Refused(problem) => Ok(caller.refuse(problem)),
    }
}

/// A claim and what follows it, on the way. Not async: what waits for it has no room for it, and is small.
fn begun<S, ReqBody, ResBody>(
    setup: &Arc<Setup>,
    claim: (Claim, Option<Arc<Record>>),
    route: Arc<Route>,
    inner: S,
    (request, hold): (Request<RequestBody<ReqBody>>, (Hold, Option<Hold>)),
) -> Outliving<Result<run::Ran<ResBody>, S::Error>>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Body + Send + 'static,
    ResBody: Body + Send + 'static,
    ResBody::Data: Send,
    ResBody::Error: Into<BoxError> + Send,
{
    let work = run::claim_and_run(setup.clone(), claim, route, inner, request);
    setup.engine.outlive(async move {
        let ran = work.await;
        // What outlives the request has limits of its own: the record in the ledger, and in the cache.
        drop(hold);
        ran
    })
}

/// The claim for a request, whose body may decode to so many bytes.
async fn claim(keyed: &Keyed, parts: &Parts, body: Bytes, decodes_to: usize) -> Claim {
    let (tenant, principal) = (keyed.tenant, keyed.principal);
    let asked = if body.len().max(decodes_to) > HASH_INLINE_BYTES_MAX {
        let (method, uri, headers, route) = (
            parts.method.clone(),
            parts.uri.clone(),
            parts.headers.clone(),
            keyed.route.clone(),
        );
        let hash = move || Asked::new(&method, &uri, &headers, body, &route.selection);
        tokio::task::spawn_blocking(hash)
            .await
            .expect("hashing does not panic and is not aborted")
    } else {
        let selection = &keyed.route.selection;
        Asked::new(&parts.method, &parts.uri, &parts.headers, body, selection)
    };
    let key = keyed
        .key
        .clone()
        .unwrap_or_else(|| asked.derived_key(tenant, &keyed.space, principal));
    asked
        .claim(
            Scope {
                tenant,
                space: keyed.space.clone(),
            },
            key,
            principal,
            &keyed.route,
        )
        .acting_here()
}

async fn collect<B>(
    setup: &Setup,
    parts: &Parts,
    body: B,
    bytes_max: usize,
) -> Result<(Bytes, Hold), Box<Problem>>
where
    B: Body,
{
    let read = setup
        .budget
        .read(setup.tenant(parts), body, bytes_max)
        .await;
    match read {
        Ok((bytes, hold)) => Ok((let_go(bytes), hold)),
        Err(Unread::TooLarge) => Err(Box::new(answer::body_too_large(bytes_max))),
        Err(Unread::Exhausted) => Err(Box::new(answer::overloaded())),
        Err(Unread::Broken(_)) => Err(Box::new(answer::body_unreadable())),
    }
}

/// The same bytes. A short body is a part of what its connection read in one go, all of which it would keep for as long
/// as its record is remembered; so it is copied, and the connection reads into the same memory again.
fn let_go(body: Bytes) -> Bytes {
    if body.len() > COPIED_BYTES_MAX {
        return body;
    }
    Bytes::copy_from_slice(&body)
}

impl Setup {
    /// The recorded answer, which counts until it is sent, or why it has to wait.
    pub(super) fn replay<B>(
        &self,
        tenant: Tenant,
        receipt: &Receipt,
    ) -> Result<Response<ResponseBody<B>>, Box<Problem>> {
        let response = answer::replay(&receipt.outcome, receipt.expires_at);
        let length = response.body().len();
        if length <= COPIED_BYTES_MAX {
            return Ok(response.map(ResponseBody::whole));
        }
        match self.budget.hold(tenant, length) {
            Some(hold) => Ok(response.map(|bytes| ResponseBody::whole(hold.around(bytes)))),
            None => Err(Box::new(answer::overloaded())),
        }
    }

    /// The bytes of an answer that was recorded, which count until they are sent.
    pub(super) fn sent(bytes: Bytes, hold: Hold) -> Bytes {
        if bytes.len() <= COPIED_BYTES_MAX {
            return bytes;
        }
        hold.around(bytes)
    }
}

/// What a refusal needs of a request that by then belongs to the handler.
struct Caller {
    trace: Option<TraceId>,
    parent: Option<HeaderValue>,
    form: Form,
    docs: Option<DocsBase>,
}

impl Caller {
    fn of(setup: &Setup, parts: &Parts, problem_json: bool) -> Self {
        let form = match Form::of(&parts.headers) {
            Form::Envelope if problem_json => Form::Rfc9457,
            form => form,
        };
        Self {
            trace: parts.extensions.get::<TraceId>().cloned(),
            parent: parts.headers.get(&TRACEPARENT).cloned(),
            form,
            docs: setup.docs(parts).cloned(),
        }
    }

    fn refuse<B>(self, problem: Problem) -> Response<ResponseBody<B>> {
        let trace = self.trace.unwrap_or_else(|| {
            let parent = self.parent.map(|value| (TRACEPARENT, value));
            TraceId::of(&parent.into_iter().collect::<HeaderMap>())
        });
        problem
            .with_docs(self.docs)
            .into_response_as(&trace, self.form)
            .map(ResponseBody::whole)
    }
}
