//! One job in the hands of its handler, and what becomes of it if the handler does not end it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::Handler;
use crate::job::held::Held;
use crate::job::run::said;

pub(super) async fn handle(handler: Arc<dyn Handler>, held: Held, stop: CancellationToken) {
    let started = Instant::now();
    let kind = held.job().kind.to_string();
    let running = AssertUnwindSafe(async { handler.run(held.clone()).await }).catch_unwind();
    let ended = tokio::select! {
        biased;
        ended = running => ended,
        () = held.lost() => Ok(()),
        () = stop.cancelled() => {
            give_back(held).await;
            return;
        }
    };
    let left = match ended {
        Err(panic) => Some(format!("the handler panicked: {}", said(&*panic))),
        Ok(()) if held.has_ended() || held.is_lost() => None,
        Ok(()) => Some("the handler returned without ending the job".to_owned()),
    };
    if let Some(error) = left
        && !held.has_ended()
    {
        tracing::error!(job = %held.job().id, error, "a handler did not end its job");
        if let Err(error) = held.clone().fail(&error, true, None).await {
            tracing::warn!(job = %held.job().id, %error, "a job could not be failed; its lease runs out");
        }
    }
    metrics::histogram!("hapax_job_seconds", "kind" => kind.clone())
        .record(started.elapsed().as_secs_f64());
    if held.has_ended() {
        let state = held.state().as_str();
        metrics::counter!("hapax_jobs_ended_total", "kind" => kind, "state" => state).increment(1);
    } else if held.is_lost() {
        metrics::counter!("hapax_jobs_lost_total", "kind" => kind).increment(1);
    }
}

async fn give_back(held: Held) {
    let job = held.job().id.clone();
    if held.has_ended() {
        return;
    }
    if let Err(error) = held.release().await {
        tracing::warn!(%job, %error, "a job could not be given back; its lease runs out");
    }
}
