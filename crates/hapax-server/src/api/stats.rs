//! /v1/stats: a tenant's figures by the names of seed 004, since this process started.

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use hapax::observe::Stats;
use hapax_core::Tenant;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use crate::answer::Answer;

/// The figures, by the names of seed 004.
#[derive(Serialize, ToSchema)]
#[schema(as = Stats)]
pub(super) struct Figures {
    total_requests: u64,
    replayed_requests: u64,
    conflict_requests: u64,
    expired_keys: u64,
    cleanup_operations: u64,
    /// In milliseconds.
    avg_lookup_time: f64,
    /// In milliseconds.
    avg_storage_time: f64,
    /// From 0 to 1.
    cache_hit_rate: f64,
    key_generation_errors: u64,
    storage_failures: u64,
    cleanup_failures: u64,
}

/// Tells the figures of the caller's tenant in this process; another node has its own.
#[utoipa::path(get, path = "/v1/stats", operation_id = "get_stats",
    responses((status = 200, description = "The figures.", body = Figures)))]
pub(super) async fn stats(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
) -> ([(HeaderName, &'static str); 1], Answer<Figures>) {
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
    let figures = Figures {
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
    };
    ([(CACHE_CONTROL, "no-store")], Answer(figures))
}
