//! `hapax jobs retry`: failed or given-up jobs start over, on an operator's word.

use anyhow::Result;
use hapax_core::job::{Act, Deed, Done, Fence, JobId, JobScan, On, Refusal, State};
use hapax_core::{Action, Note};
use serde_json::{Value, json};

use super::{every, open};
use crate::api::jobs::refused;
use crate::cli::JobsRetry;
use crate::exit::{Usage, hinted};
use crate::out;

const ACTOR: &str = "hapax jobs retry";
/// How many are retried in one step.
const STEP: usize = 500;

pub(super) async fn run(args: &JobsRetry) -> Result<()> {
    let state = args.state;
    if state.is_some_and(|state| !matches!(state, State::Failed | State::Dead)) {
        return Err(Usage::hinted(
            "only jobs that failed or were given up start over",
            "--state takes FAILED or DEAD",
        ));
    }
    if state.is_none() && args.ids.is_empty() {
        return Err(Usage::hinted(
            "nothing names the jobs to retry",
            "give the IDs of jobs (`hapax jobs list --state DEAD` shows them), or --state FAILED or DEAD for all of them",
        ));
    }
    let of = &args.of;
    let store = open(of).await?;
    let ids: Vec<JobId> = if state.is_some() {
        let scan = JobScan {
            state,
            ..JobScan::of(of.tenant)
        };
        let found = every(store.queue.as_ref(), scan).await?;
        found.into_iter().map(|job| job.id).collect()
    } else {
        let mut ids = Vec::with_capacity(args.ids.len());
        for names in args.ids.chunks(STEP) {
            ids.extend(store.queue.named(of.tenant, names.to_vec()).await?);
        }
        ids
    };
    let mut told: Vec<(JobId, Option<Refusal>)> = Vec::new();
    for step in ids.chunks(STEP) {
        let acts = step.iter().cloned().map(retry).collect();
        let done = store.queue.apply(of.tenant, acts).await?;
        let refusals = done.into_iter().map(|done: Result<Done, _>| done.err());
        let step: Vec<_> = step.iter().cloned().zip(refusals).collect();
        let now = store.queue.time();
        let notes = step.iter().filter(|(_, refusal)| refusal.is_none());
        let notes = notes.map(|(id, _)| {
            Note::new(of.tenant, now, Action::JobRetried)
                .by(ACTOR)
                .saying([("job_id", id.to_string().into())])
        });
        store.note(notes.collect()).await;
        told.extend(step);
    }
    store.close().await;
    report(&told, of.plain.json)?;
    // A job of a whole state that somebody else took care of meanwhile is no failure.
    if state.is_none() && told.iter().any(|(_, refusal)| refusal.is_some()) {
        return Err(hinted(
            "not every job starts over",
            "`hapax jobs show ID` says where one is; those that FAILED or are DEAD can start over",
        ));
    }
    Ok(())
}

fn retry(id: JobId) -> Act {
    Act {
        on: On::Job(id),
        fence: Fence::none(),
        deed: Deed::Retry,
    }
}

fn report(told: &[(JobId, Option<Refusal>)], as_json: bool) -> Result<()> {
    let retried = told.iter().filter(|(_, refusal)| refusal.is_none()).count();
    if as_json {
        let items: Vec<Value> = told
            .iter()
            .map(|(id, refusal)| match refusal {
                None => {
                    json!({"ok": true, "job_id": id.to_string(), "state": State::Planned.as_str()})
                }
                Some(refusal) => {
                    json!({"job_id": id.to_string(), "error": refused::problem(refusal).error()})
                }
            })
            .collect();
        return out::json(&json!({"retried": retried, "items": items}));
    }
    for (id, refusal) in told {
        if let Some(refusal) = refusal {
            out::note(&format!("{id}: {refusal}"));
        }
    }
    out::line(&format!(
        "{retried} jobs start over, at once and with all their attempts"
    ))
}
