//! /health, /ready, /version and /metrics: is it alive, can it work, what is it, how is it doing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use hapax_core::Ledger;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;

use super::App;
use super::openapi::words::DurabilityWord;
use crate::answer::Answer;
use crate::problem::{self, Refusal};

/// How long the store may take to say that it works.
const CHECK_WITHIN: Duration = Duration::from_secs(2);

/// How old an answer about the store may be.
const LOOK_LASTS: Duration = Duration::from_secs(1);

/// What the last look at the store saw. Whoever asks meanwhile waits for it, so that however many ask, the store is
/// looked at once a second.
#[derive(Default)]
pub(crate) struct Readiness(Arc<Mutex<Option<Look>>>);

struct Look {
    began: Instant,
    ended: Instant,
    saw: Result<(), Refusal>,
}

impl Readiness {
    async fn look(&self, ledger: &Arc<dyn Ledger>) -> Result<(), Refusal> {
        let (last, ledger) = (Arc::clone(&self.0), Arc::clone(ledger));
        // A task of its own: a look that began counts, also if its client goes away.
        let looked = tokio::spawn(Self::look_now(last, ledger)).await;
        looked.unwrap_or_else(|_| Err(problem::internal().into()))
    }

    async fn look_now(
        last: Arc<Mutex<Option<Look>>>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<(), Refusal> {
        let asked = Instant::now();
        // One looks at a time.
        let mut last = last.lock().await;
        if let Some(last) = &*last
            && (last.ended >= asked || last.began.elapsed() < LOOK_LASTS)
        {
            return last.saw.clone();
        }
        let began = Instant::now();
        let saw = look(&*ledger).await;
        *last = Some(Look {
            began,
            ended: Instant::now(),
            saw: saw.clone(),
        });
        saw
    }
}

async fn look(ledger: &dyn Ledger) -> Result<(), Refusal> {
    metrics::counter!("hapax_ready_looks_total").increment(1);
    match tokio::time::timeout(CHECK_WITHIN, ledger.check()).await {
        Ok(Ok(())) => Ok(()),
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
pub(super) async fn health(State(app): State<App>) -> (Fresh, Answer<Health>) {
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
    (FRESH, Answer(health))
}

/// That it can work.
#[derive(Serialize, ToSchema)]
pub(super) struct Ready {
    #[schema(example = "ready")]
    status: &'static str,
    store: &'static str,
}

/// Tells whether the store takes writes now: 200, or 503. The answer is at most a second old.
#[utoipa::path(get, path = "/ready", operation_id = "get_ready",
    responses((status = 200, description = "It takes writes.", body = Ready)), extensions(("x-codes" = json!(["store_unavailable", "internal"]))))]
pub(super) async fn ready(State(app): State<App>) -> Result<(Fresh, Answer<Ready>), Refusal> {
    let ledger = &app.store.ledger;
    app.readiness.look(ledger).await?;
    let ready = Ready {
        status: "ready",
        store: ledger.name(),
    };
    Ok((FRESH, Answer(ready)))
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
pub(super) async fn version() -> Answer<Version> {
    Answer(Version {
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
