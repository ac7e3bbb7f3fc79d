//! Jobs and operations as the API and the commands show them. Payloads and results keep the digits they came with.

use std::time::Duration;

use hapax_core::Time;
use hapax_core::job::{Job, Op};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::openapi::words::{JobState, OpClass, OpStateWord};

/// A job as it reads.
#[derive(Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct ShownJob {
    /// A UUID that is made of the key; jobs of older databases have other ids.
    job_id: String,
    /// What makes it the same job when it is planned again: 64 hex digits. It is taken wherever an id is.
    job_key: String,
    kind: String,
    /// Where it runs: empty for anywhere, or the folder of `hapax download`.
    place: String,
    #[schema(value_type = JobState)]
    state: &'static str,
    owner: Option<String>,
    #[schema(format = DateTime)]
    lease_until: Option<String>,
    /// Rises with every lease, and fences every write of its holder.
    epoch: i64,
    attempts: u32,
    failures: u32,
    max_attempts: u32,
    /// How long it rests after its first failure; `None` for a second.
    backoff_ms: Option<u64>,
    /// When it can be leased; `None` while it waits for somebody.
    #[schema(format = DateTime)]
    available_at: Option<String>,
    work_id: String,
    artifact_id: String,
    canonical_url: String,
    #[schema(value_type = Value)]
    payload: Option<Box<RawValue>>,
    #[schema(value_type = Value)]
    result: Option<Box<RawValue>>,
    /// There only if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    error: Option<Box<RawValue>>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl ShownJob {
    pub(crate) fn of(job: &Job) -> Self {
        let lease = job.lease.as_ref();
        Self {
            job_id: job.id.to_string(),
            job_key: job.key.clone(),
            kind: job.kind.to_string(),
            place: job.place.as_str().to_owned(),
            state: job.state.as_str(),
            owner: lease.map(|hold| hold.owner.to_string()),
            lease_until: lease.map(|hold| hold.until.to_string()),
            epoch: job.epoch,
            attempts: job.attempts,
            failures: job.failures,
            max_attempts: job.max_attempts,
            backoff_ms: job.backoff.map(millis),
            available_at: ever(job.available_at).map(|at| at.to_string()),
            work_id: job.work_id.clone(),
            artifact_id: job.artifact_id.clone(),
            canonical_url: job.canonical_url.clone(),
            payload: job.payload.as_deref().and_then(raw),
            result: job.result.as_deref().and_then(raw),
            error: job.error.as_deref().and_then(why),
            created_at: job.created_at.to_string(),
            updated_at: job.updated_at.to_string(),
        }
    }
}

/// An operation as it reads. The secret of its runner is never shown.
#[derive(Serialize, ToSchema)]
#[schema(as = Op)]
pub(crate) struct ShownOp {
    op_key: String,
    job_id: String,
    kind: String,
    #[schema(value_type = OpStateWord)]
    state: &'static str,
    #[schema(value_type = OpClass)]
    class: &'static str,
    epoch: i64,
    tries: u32,
    #[schema(format = DateTime)]
    started_at: String,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
    #[schema(value_type = Value)]
    result: Option<Box<RawValue>>,
    /// There only if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    error: Option<Box<RawValue>>,
}

impl ShownOp {
    pub(crate) fn of(op: &Op) -> Self {
        Self {
            op_key: op.key.to_string(),
            job_id: op.job.to_string(),
            kind: op.kind.clone(),
            state: op.state.as_str(),
            class: op.class.as_str(),
            epoch: op.epoch,
            tries: op.tries,
            started_at: op.started_at.to_string(),
            finished_at: op.finished_at.map(|at| at.to_string()),
            result: op.result.as_deref().and_then(raw),
            error: op.error.as_deref().and_then(why),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Stored JSON text as it was received.
pub(crate) fn raw(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok()
}

/// An error as it was sent: an object or an array, else a text.
pub(crate) fn why(text: &str) -> Option<Box<RawValue>> {
    let is_whole = text.starts_with(['{', '[']) && serde_json::from_str::<&RawValue>(text).is_ok();
    if is_whole {
        raw(text)
    } else {
        raw(&serde_json::Value::from(text).to_string())
    }
}

/// The moment, unless it never comes.
fn ever(at: Time) -> Option<Time> {
    (at.as_ms() < i64::MAX).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Tenant;
    use hapax_core::job::NewJob;

    #[test]
    fn a_payload_reads_as_it_was_written_and_a_job_that_waits_is_due_at_no_time() {
        let payload = "{ \"n\": 12345678901234567890123, \"f\": 1.0 }";
        let new = NewJob::download("w", "a", "https://example.org/").unwrap();
        let mut job = new
            .with_payload(payload)
            .unwrap()
            .at(Tenant::DEFAULT, 1, Time::from_ms(0));
        job.available_at = Time::from_ms(i64::MAX);
        let shown = serde_json::to_string(&ShownJob::of(&job)).unwrap();
        assert!(shown.contains(&format!("\"payload\":{payload}")), "{shown}");
        assert!(shown.contains("\"available_at\":null"), "{shown}");
    }
}
