//! /v1/stats: a tenant's figures by the names of seed 004, since this process started.

use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use axum::{Extension, Json as Answer};
use hapax::observe::Stats;
use hapax_core::Tenant;
use serde_json::{Value, json};

use super::App;

/// The figures of the caller's tenant in this process; another node has its own.
pub(super) async fn stats(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
) -> ([(HeaderName, &'static str); 1], Answer<Value>) {
    let Stats {
        total_requests,
        replayed_requests,
        conflict_requests,
        expired_keys,
        cleanup_operations,
        avg_lookup_time,
        avg_storage_time,
        cache_hit_rate,
        key_generation_errors,
        storage_failures,
        cleanup_failures,
    } = app.observer.stats(tenant);
    let figures = json!({
        "total_requests": total_requests,
        "replayed_requests": replayed_requests,
        "conflict_requests": conflict_requests,
        "expired_keys": expired_keys,
        "cleanup_operations": cleanup_operations,
        "avg_lookup_time": avg_lookup_time,
        "avg_storage_time": avg_storage_time,
        "cache_hit_rate": cache_hit_rate,
        "key_generation_errors": key_generation_errors,
        "storage_failures": storage_failures,
        "cleanup_failures": cleanup_failures,
    });
    ([(CACHE_CONTROL, "no-store")], Answer(figures))
}
