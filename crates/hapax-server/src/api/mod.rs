//! The routes. One file per door; each says which role it needs here, in one place.

mod claim;
mod docs;
mod echo;
mod health;
pub(crate) mod keys;
mod payload;
mod query;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post};
use hapax::layer::{Route, Routes};
use hapax::{Engine, IdempotencyLayer};
use hapax_store::Role;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::auth::{Gate, authenticate, authorize};
use crate::config::Config;
use crate::problem::{self, Refusal};
use crate::store::Store;
use crate::trace::{self, trace};

/// What every handler can reach.
pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) started: Instant,
}

/// All routes behind the gate. The order around a handler, from outside: trace, sign-in, role, handler.
pub(crate) fn router(app: &App, gate: &Arc<Gate>) -> Router {
    let limits = trace::Limits {
        request_timeout: app.config.request_timeout(),
        access_log: app.config.access_log,
    };
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let owner = from_fn_with_state(Role::Owner, authorize);
    // Refusals take their form within the layer, so that what is recorded is what was sent.
    let route = Route {
        max_body_bytes: app.config.body_bytes_max,
        ..Route::default()
    };
    let idempotency = IdempotencyLayer::new(app.engine.clone()).routes(Routes::any(route));
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
                .route_layer(viewer)
                .merge(delete(keys::remove).route_layer(owner)),
        )
        .route(
            "/v1/keys/{id}/complete",
            post(claim::complete).route_layer(writer.clone()),
        )
        .route(
            "/v1/keys/{id}/renew",
            post(claim::renew).route_layer(writer.clone()),
        )
        .route(
            "/v1/keys/{id}/release",
            post(claim::release).route_layer(writer),
        )
        .fallback(async || Refusal::from(problem::not_found()))
        .method_not_allowed_fallback(async || Refusal::from(problem::method_not_allowed()))
        .layer(from_fn_with_state(Arc::clone(gate), authenticate))
        .layer(from_fn_with_state(limits, trace))
        .with_state(Arc::clone(app))
}
