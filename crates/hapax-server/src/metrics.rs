//! The recorder behind /metrics. What is counted is said where it happens.

use anyhow::{Context, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Installs the recorder of this process.
///
/// # Errors
/// When there is one already.
pub(crate) fn install() -> Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .context("installing the metrics recorder")?;
    metrics::describe_counter!(
        "hapax_http_requests_total",
        "Requests answered, by method, route and status."
    );
    metrics::describe_histogram!(
        "hapax_http_request_seconds",
        "Time to answer a request, by method and route."
    );
    metrics::describe_gauge!("hapax_http_connections", "Open connections.");
    describe_refused();
    metrics::describe_counter!(
        "hapax_auth_failures_total",
        "Requests with a wrong or revoked token."
    );
    metrics::describe_counter!(
        "hapax_auth_lookups_total",
        "Tokens and sessions that the store was asked about."
    );
    metrics::describe_counter!(
        "hapax_ready_looks_total",
        "Looks at the store for /ready: at most one a second, however many ask."
    );
    metrics::describe_counter!(
        "hapax_swept_total",
        "Records swept by this process: expired or forgotten."
    );
    metrics::describe_gauge!(
        "hapax_ledger_info",
        "Always 1; its labels say what keeps the keys, and how much of it survives."
    );
    metrics::describe_gauge!(
        "hapax_leads",
        "Whether this process does a piece of periodic work for all that share the store, by chore."
    );
    describe_redis();
    metrics::describe_gauge!(
        "hapax_build_info",
        "Always 1; its labels say which build this is."
    );
    metrics::describe_counter!(
        "hapax_otlp_dropped_total",
        "Spans that were not sent: no room, or no collector."
    );
    metrics::describe_counter!(
        "hapax_audit_dropped_total",
        "Notes of the audit trail that were not written: no room, or a store that refuses them."
    );
    metrics::describe_counter!(
        "hapax_entries_total",
        "Entries written or refused, by schema and by what came of them."
    );
    metrics::describe_counter!(
        "hapax_t1_items_total",
        "Items of enrichment batches that ended, by schema and by how."
    );
    metrics::describe_counter!(
        "hapax_t1_batches_total",
        "Enrichment batches that ended, by schema and by how."
    );
    metrics::describe_counter!(
        "hapax_t1_lines_total",
        "Lines of the files that the provider made of batches, by what they were."
    );
    metrics::describe_counter!(
        "hapax_vault_unsealed_total",
        "Plain values that were refused, of tenants of whom everything is sealed."
    );
    hapax::Observer::describe();
    metrics::gauge!("hapax_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    for name in ["hapax_auth_failures_total", "hapax_auth_lookups_total"] {
        metrics::counter!(name).increment(0);
    }
    Ok(handle)
}

fn describe_redis() {
    metrics::describe_counter!(
        "hapax_replay_cache_total",
        "Questions to the shared replay cache, by answer: hit, miss, stale, refused, unreadable, or away."
    );
    metrics::describe_counter!(
        "hapax_replay_cache_dropped_total",
        "Outcomes that the shared replay cache was not told: no room, or Redis is away."
    );
    metrics::describe_gauge!("hapax_redis_up", "Whether Redis answered last time.");
    metrics::describe_counter!(
        "hapax_redis_errors_total",
        "Commands that a Redis in front of the database did not answer."
    );
    metrics::describe_counter!(
        "hapax_redis_refused_total",
        "Outcomes in Redis that hapax did not write, by the form that Redis has: cache or ledger."
    );
    metrics::describe_counter!(
        "hapax_redis_wait_short_total",
        "Writes that fewer replicas had than were asked for; none of them was acknowledged."
    );
    metrics::describe_counter!(
        "hapax_redis_notes_lost_total",
        "Notes about keys in Redis that the database did not take; they stand in the log."
    );
}

/// Says what keeps the keys.
pub(crate) fn ledger(ledger: &dyn hapax_core::Ledger) {
    let durability = ledger.durability().as_str();
    metrics::gauge!("hapax_ledger_info", "store" => ledger.name(), "durability" => durability)
        .set(1.0);
}
fn describe_refused() {
    metrics::describe_counter!(
        "hapax_http_connections_refused_total",
        "Connections closed because their address had too many."
    );
    metrics::describe_counter!(
        "hapax_rate_limited_total",
        "Requests of tenants that sent more than they may in a second."
    );
}
