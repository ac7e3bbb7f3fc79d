//! Tier-1 enrichment: one text while the caller waits, many as a batch, and how batches stand.

mod ask;
mod batch;
mod shown;
mod status;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use hapax::IdempotencyLayer;
use hapax::problem::Problem;
use hapax_store::Role;

use super::App;
use crate::auth::authorize;
use crate::problem;

/// The routes of enrichment: everybody reads, a writer asks.
pub(super) fn routes(app: &App) -> Router<App> {
    let viewer = from_fn_with_state(Role::Viewer, authorize);
    let writer = from_fn_with_state(Role::Writer, authorize);
    let bytes_max = app.config.batch_body_bytes_max;
    let table = app.routes.clone().map(|mut route| {
        route.max_body_bytes = bytes_max;
        route
    });
    let idempotency = IdempotencyLayer::new(app.engine.clone())
        .routes(table)
        .observer(Arc::clone(&app.observer));
    // A batch has no key of its own, so a client can give it one.
    let batch: MethodRouter<App> = post(batch::add)
        .layer::<_, Infallible>(from_fn(problem::render))
        .layer(idempotency);
    let reading = Router::new()
        .route("/status/t1/batch", get(status::list))
        .route("/status/t1/batch/{id}", get(status::show))
        .route_layer(viewer);
    let writing = Router::new()
        .route("/enrich/t1", post(ask::ask))
        .route("/enrich/t1/batch", batch)
        .route_layer(writer);
    reading.merge(writing)
}

/// Nothing can be asked.
fn not_configured() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "llm_not_configured",
        "nothing can be enriched: set OPENAI_BASE_URL and LITELLM_MASTER_KEY, and start again",
    )
}
