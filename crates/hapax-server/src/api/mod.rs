//! The routes. One file per door; each says which role it needs here, in one place.

mod audit;
mod claim;
mod docs;
mod echo;
mod end;
mod enrich;
pub(crate) mod entries;
mod health;
mod imports;
mod intents;
pub(crate) mod jobs;
pub(crate) mod keys;
mod operator;
mod ops;
mod payload;
mod query;
mod reconcile;
mod shown;
mod snapshots;
mod stats;
mod sweep;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post};
use hapax::layer::{Route, Routes};
use hapax::{Engine, IdempotencyLayer, Observer};
use hapax_core::Space;
use hapax_intake::snapshot::Collection;
use hapax_intake::url::Tracking;
use hapax_store::Role;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::auth::{Gate, authenticate, authorize};
use crate::config::{Config, UsualRoute};
use crate::enrich::desk::Desk as EnrichDesk;
use crate::import;
use crate::intents::desk::Desk;
use crate::problem::{self, Refusal};
use crate::store::Store;
use crate::trace::{self, trace};

/// What every handler can reach.
pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    pub(crate) routes: Routes,
    /// The route of a claim that no pattern matches.
    pub(crate) usual_route: UsualRoute,
    /// Where intents are worked on.
    pub(crate) desk: Desk,
    /// What canonical web addresses leave out.
    pub(crate) tracking: Tracking,
    /// Where mailboxes are imported.
    pub(crate) imports: import::desk::Desk,
    /// Where texts are enriched.
    pub(crate) enrich: EnrichDesk,
    pub(crate) observer: Arc<Observer>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) started: Instant,
}

impl Shared {
    /// The route that applies to a remote claim, which is keyed whatever the table says.
    pub(crate) fn route(&self, space: &Space) -> &Route {
        let found = self.routes.find(space.as_str());
        found.unwrap_or_else(|| self.usual_route.of(space))
    }
}

/// How a proxy is doing. Nobody has to sign in: it shows no tenant's data, and listens on an address of its own.
pub(crate) fn health_routes(app: &App) -> Router {
    let limits = trace::Limits {
        request_timeout: app.config.request_timeout(),
        access_log: false,
    };
    Router::new()
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/version", get(health::version))
        .route("/metrics", get(health::metrics))
        .fallback(async || Refusal::from(problem::not_found()))
        .layer(from_fn_with_state(limits, trace))
        .with_state(Arc::clone(app))
}

/// All routes behind the gate. The order around a handler, from outside: trace, sign-in, role, handler.
pub(crate) fn router(app: &App, gate: &Arc<Gate>, collections: &[Arc<Collection>]) -> Router {
    let limits = trace::Limits {
        request_timeout: app.config.request_timeout(),
        access_log: app.config.access_log,
    };
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let owner = from_fn_with_state(Role::Owner, authorize);
    // Refusals take their form within the layer, so that what is recorded is what was sent.
    let body_bytes_max = app.config.body_bytes_max;
    let routes = app.routes.clone().map(|mut route| {
        route.max_body_bytes = route.max_body_bytes.min(body_bytes_max);
        route
    });
    let idempotency = IdempotencyLayer::new(app.engine.clone())
        .routes(routes)
        .observer(Arc::clone(&app.observer));
    let echo: MethodRouter<App> = post(echo::echo)
        .layer::<_, Infallible>(from_fn(problem::render))
        .layer(idempotency);
    Router::new()
        .route("/", get(docs::index))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/version", get(health::version))
        .route("/metrics", get(health::metrics))
        .route("/docs/errors/{code}", get(docs::error_page))
        .route("/v1/echo", echo.route_layer(writer.clone()))
        .route("/v1/keys", get(keys::list).route_layer(viewer.clone()))
        .route(
            "/v1/keys/claim",
            post(claim::claim).route_layer(writer.clone()),
        )
        .route(
            "/v1/keys/{id}",
            get(keys::show)
                .route_layer(viewer.clone())
                .merge(delete(keys::remove).route_layer(owner.clone())),
        )
        .route(
            "/v1/keys/{id}/settle",
            post(operator::settle).route_layer(owner.clone()),
        )
        .route(
            "/v1/keys/{id}/erase",
            post(operator::erase).route_layer(owner.clone()),
        )
        .route(
            "/v1/erase",
            post(operator::erase_subject).route_layer(owner.clone()),
        )
        .route("/v1/audit", get(audit::list).route_layer(viewer.clone()))
        .route("/v1/stats", get(stats::stats).route_layer(viewer))
        .route("/v1/sweep", post(sweep::now).route_layer(owner))
        .route(
            "/v1/keys/{id}/complete",
            post(end::complete).route_layer(writer.clone()),
        )
        .route(
            "/v1/keys/{id}/renew",
            post(end::renew).route_layer(writer.clone()),
        )
        .route(
            "/v1/keys/{id}/release",
            post(end::release).route_layer(writer),
        )
        .merge(job_routes())
        .merge(intent_routes())
        .merge(import_routes())
        .merge(enrich::routes(app))
        .merge(snapshots::routes(collections))
        .merge(entries::routes())
        .fallback(async || Refusal::from(problem::not_found()))
        .method_not_allowed_fallback(async || Refusal::from(problem::method_not_allowed()))
        .layer(from_fn_with_state(Arc::clone(gate), authenticate))
        .layer(from_fn_with_state(limits, trace))
        .with_state(Arc::clone(app))
}

/// The routes of jobs: everybody reads, a writer works, an owner operates.
fn job_routes() -> Router<App> {
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let owner = from_fn_with_state(Role::Owner, authorize);
    let reading = Router::new()
        .route("/v1/jobs", get(jobs::list))
        .route("/v1/jobs/stats", get(jobs::stats))
        .route("/v1/jobs/{id}", get(jobs::show))
        .route("/v1/ops/{op_key}", get(ops::show))
        .route_layer(viewer);
    let working = Router::new()
        .route("/v1/jobs", post(jobs::plan::plan))
        .route("/v1/jobs/batch", post(jobs::plan::batch))
        .route("/v1/jobs/lease", post(jobs::lease::lease))
        .route("/v1/jobs/settle", post(jobs::step::settle))
        .route("/v1/jobs/{id}/renew", post(jobs::lease::renew))
        .route("/v1/jobs/{id}/release", post(jobs::lease::release))
        .route("/v1/jobs/{id}/advance", post(jobs::step::advance))
        .route("/v1/jobs/{id}/fail", post(jobs::step::fail))
        .route("/v1/ops/begin", post(ops::begin))
        .route("/v1/ops/{op_key}/complete", post(ops::complete))
        .route("/v1/ops/{op_key}/fail", post(ops::fail))
        // A holder may end the doubt about its own job; anybody else has to be an owner.
        .route("/v1/ops/{op_key}/resolve", post(ops::resolve))
        .route_layer(writer);
    let operating = Router::new()
        .route("/v1/jobs/{id}/retry", post(jobs::step::retry))
        .route("/v1/reconcile", post(reconcile::now))
        .route_layer(owner);
    reading.merge(working).merge(operating)
}

/// The routes of intents: everybody reads, a writer sends, answers and replays.
fn intent_routes() -> Router<App> {
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let reading = Router::new()
        .route("/v1/intents/{id}", get(intents::show))
        .route("/v1/receipts", get(intents::list::receipts))
        .route("/v1/receipts/{id}", get(intents::receipt))
        .route("/v1/clarifications", get(intents::list::clarifications))
        .route_layer(viewer);
    let writing = Router::new()
        .route("/v1/intents", post(intents::send::send))
        .route("/v1/receipts/{id}/replay", post(intents::replay))
        .route(
            "/v1/clarifications/{op_key}/answer",
            post(intents::answer::answer),
        )
        .route_layer(writer);
    reading.merge(writing)
}

/// The routes of imports: everybody reads, a writer imports.
fn import_routes() -> Router<App> {
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let reading = Router::new()
        .route("/import/{id}", get(imports::show))
        .route("/v1/imports", get(imports::list))
        .route_layer(viewer);
    let writing = Router::new()
        .route("/import/email/mbox", post(imports::begin::mbox))
        .route_layer(writer);
    reading.merge(writing)
}
