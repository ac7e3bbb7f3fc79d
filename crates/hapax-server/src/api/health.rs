//! /health, /ready, /version and /metrics: is it alive, can it work, what is it, how is it doing.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::openapi::words::DurabilityWord;
use crate::problem::{self, Refusal};

/// How long the store may take to say that it works.
const CHECK_WITHIN: Duration = Duration::from_secs(2);

type Fresh = [(HeaderName, &'static str); 1];
const FRESH: Fresh = [(CACHE_CONTROL, "no-store")];

/// That it lives.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    #[schema(example = "ok")]
    status: &'static str,
    version: &'static str,
    /// What keeps the data.
    store: &'static str,
    #[schema(value_type = DurabilityWord)]
    durability: &'static str,
    uptime_s: u64,
    #[schema(format = DateTime)]
    time: String,
    /// The periodic work that this process does for all that share the store: one of them each.
    #[schema(example = json!(["sweep"]))]
    leads: Vec<&'static str>,
}

/// Tells that the process lives, whatever the store does.
#[utoipa::path(get, path = "/health", operation_id = "get_health",
    responses((status = 200, description = "It lives.", body = Health)))]
pub(super) async fn health(State(app): State<App>) -> (Fresh, axum::Json<Health>) {
    let ledger = &app.store.ledger;
    let health = Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        store: ledger.name(),
        durability: ledger.durability().as_str(),
        uptime_s: app.started.elapsed().as_secs(),
        time: ledger.now().to_string(),
        leads: app.led(),
    };
    (FRESH, axum::Json(health))
}

/// That it can work.
#[derive(Serialize, ToSchema)]
pub(super) struct Ready {
    #[schema(example = "ready")]
    status: &'static str,
    store: &'static str,
}

/// Tells whether the store takes writes now: 200, or 503.
#[utoipa::path(get, path = "/ready", operation_id = "get_ready",
    responses((status = 200, description = "It takes writes.", body = Ready)), extensions(("x-codes" = json!(["store_unavailable", "internal"]))))]
pub(super) async fn ready(State(app): State<App>) -> Result<(Fresh, axum::Json<Ready>), Refusal> {
    match tokio::time::timeout(CHECK_WITHIN, app.store.ledger.check()).await {
        Ok(Ok(())) => Ok((
            FRESH,
            axum::Json(Ready {
                status: "ready",
                store: app.store.ledger.name(),
            }),
        )),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store is not ready");
            let problem = if error.is_transient() {
                problem::store(&error)
            } else {
                problem::not_ready()
            };
            Err(problem
                .with_detail("store_code", error.kind().code())
                .into())
        }
        Err(_) => Err(problem::not_ready().into()),
    }
}

/// A build.
#[derive(Serialize, ToSchema)]
pub(super) struct Version {
    name: &'static str,
    version: &'static str,
}

/// Tells which build this is.
#[utoipa::path(get, path = "/version", operation_id = "get_version",
    responses((status = 200, description = "Name and version.", body = Version)))]
pub(super) async fn version() -> axum::Json<Version> {
    axum::Json(Version {
        name: "hapax",
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Tells how it is doing, in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", operation_id = "get_metrics",
    responses((status = 200, description = "Counters, gauges and histograms.", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    app.metrics.run_upkeep();
    (
        StatusCode::OK,
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        app.metrics.render(),
    )
}
