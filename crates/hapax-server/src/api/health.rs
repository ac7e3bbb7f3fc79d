//! /health, /ready, /version and /metrics: is it alive, can it work, what is it, how is it doing.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::App;
use crate::problem::{self, Refusal};

/// How long the store may take to say that it works.
const CHECK_WITHIN: Duration = Duration::from_secs(2);

type Fresh = [(HeaderName, &'static str); 1];
const FRESH: Fresh = [(CACHE_CONTROL, "no-store")];

/// 200 while the process lives, whatever the store does.
pub(super) async fn health(State(app): State<App>) -> (Fresh, axum::Json<Value>) {
    let ledger = &app.store.ledger;
    let health = json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "store": ledger.name(),
        "durability": ledger.durability().as_str(),
        "uptime_s": app.started.elapsed().as_secs(),
        "time": ledger.now().to_string(),
    });
    (FRESH, axum::Json(health))
}

/// 200 if the store takes writes now, 503 if not.
pub(super) async fn ready(State(app): State<App>) -> Result<(Fresh, axum::Json<Value>), Refusal> {
    match tokio::time::timeout(CHECK_WITHIN, app.store.ledger.check()).await {
        Ok(Ok(())) => Ok((
            FRESH,
            axum::Json(json!({"status": "ready", "store": app.store.ledger.name()})),
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

/// Which build this is.
pub(super) async fn version() -> axum::Json<Value> {
    axum::Json(json!({"name": "hapax", "version": env!("CARGO_PKG_VERSION")}))
}

/// Prometheus' text format.
pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    app.metrics.run_upkeep();
    (
        StatusCode::OK,
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        app.metrics.render(),
    )
}
