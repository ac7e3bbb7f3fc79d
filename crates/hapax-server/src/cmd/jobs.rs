//! `hapax jobs`: lists, shows, counts and retries the jobs of a tenant, beside a running server or without one.

mod retry;

use std::time::Duration;

use anyhow::{Context, Result};
use hapax_core::Time;
use hapax_core::job::{Job, JobId, JobScan, Op, OpState, Queue, State, backoff};
use serde::Serialize;
use serde_json::json;

use crate::api::jobs::shown::ShownJob;
use crate::api::jobs::{Page, Whole, tally};
use crate::cli::{Jobs, JobsList, OfTenant};
use crate::config::Config;
use crate::exit;
use crate::out::{self, Field, Tone, plain};
use crate::store::Store;

/// How much of an error a list shows.
const ERROR_CHARS_MAX: usize = 60;

pub(super) async fn run(args: &Jobs) -> Result<()> {
    match args {
        Jobs::List(args) => list(args).await,
        Jobs::Show { id, of } => show(id, of).await,
        Jobs::Stats { of } => stats(of).await,
        Jobs::Retry(args) => retry::run(args).await,
        Jobs::Leases { of } => leases(of).await,
    }
}

async fn list(args: &JobsList) -> Result<()> {
    let of = &args.of;
    let scan = JobScan {
        state: args.state,
        kind: args.kind.clone(),
        work_id: args.work_id.clone(),
        held: args.held,
        limit: args.limit,
        ..JobScan::of(of.tenant)
    };
    let store = open(of).await?;
    let page = store.queue.jobs(scan).await?;
    store.close().await;
    if of.plain.json {
        return document(&Page {
            items: page.jobs.iter().map(ShownJob::of).collect(),
            next_cursor: page.next.map(|next| next.to_string()),
        });
    }
    let rows: Vec<_> = page.jobs.iter().map(row).collect();
    out::table(
        &[
            "job", "kind", "state", "attempts", "owner", "work", "artifact", "updated", "error",
        ],
        &rows,
    )
}

fn row(job: &Job) -> Vec<Field> {
    let owner = job.lease.as_ref().map_or("-", |hold| &*hold.owner);
    let error = job.error.as_deref().map_or("-".to_owned(), short);
    vec![
        plain(&job.id),
        plain(&job.kind),
        state(job.state),
        plain(&job.attempts),
        plain(owner),
        plain(&job.work_id),
        plain(&job.artifact_id),
        plain(&job.updated_at),
        plain(&error),
    ]
}

async fn show(name: &JobId, of: &OfTenant) -> Result<()> {
    let store = open(of).await?;
    let found = match store
        .queue
        .named(of.tenant, vec![name.clone()])
        .await?
        .pop()
    {
        Some(id) => store.queue.job(of.tenant, id).await?,
        None => None,
    };
    let now = store.queue.time();
    store.close().await;
    let Some((job, ops)) = found else {
        return Err(exit::hinted(
            format!("tenant {} has no job with the id {name}", of.tenant),
            "`hapax jobs list` shows those there are; --tenant ID those of another tenant",
        ));
    };
    if of.plain.json {
        return document(&Whole::of(&job, &ops));
    }
    out::table(&["job", &job.id.to_string()], &facts(&job, now))?;
    if ops.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = ops.iter().map(op_row).collect();
    out::table(
        &["op", "kind", "state", "tries", "started", "result or error"],
        &rows,
    )
}

/// What is known about a job, a line each.
fn facts(job: &Job, now: Time) -> Vec<Vec<Field>> {
    let named = |name: &str, value: Field| vec![plain(name), value];
    let maybe = |text: Option<&str>| plain(&text.map_or("-".to_owned(), one_line));
    let held = job.lease.as_ref().map_or("-".to_owned(), |hold| {
        let until = hold.until;
        match until.since(now) {
            Duration::ZERO => format!("{}, ran out at {until}", hold.owner),
            left => format!("{}, until {until}, {} left", hold.owner, span(left)),
        }
    });
    let rest = job.backoff.unwrap_or(backoff::FIRST);
    let rest = format!("{} ms", rest.as_millis());
    vec![
        named("job_id", plain(&job.id)),
        named("job_key", plain(&job.key)),
        named("kind", plain(&job.kind)),
        named("state", state(job.state)),
        named("lease", plain(&held)),
        named("epoch", plain(&job.epoch)),
        named("attempts", plain(&job.attempts)),
        named(
            "failures",
            plain(&format!("{} of {}", job.failures, job.max_attempts)),
        ),
        named("first rest", plain(&rest)),
        named("work_id", plain(&job.work_id)),
        named("artifact_id", plain(&job.artifact_id)),
        named("canonical_url", plain(&job.canonical_url)),
        named("payload", maybe(job.payload.as_deref())),
        named("result", maybe(job.result.as_deref())),
        named("error", maybe(job.error.as_deref())),
        named("created_at", plain(&job.created_at)),
        named("updated_at", plain(&job.updated_at)),
    ]
}

fn op_row(op: &Op) -> Vec<Field> {
    let tone = match op.state {
        OpState::Done => Tone::Good,
        OpState::Running | OpState::Retryable => Tone::Plain,
        OpState::InDoubt | OpState::Waiting => Tone::Warn,
        OpState::Failed => Tone::Bad,
    };
    let told = op.error.as_deref().or(op.result.as_deref());
    vec![
        plain(&op.key),
        plain(&op.kind),
        (op.state.as_str().to_owned(), tone),
        plain(&op.tries),
        plain(&op.started_at),
        plain(&told.map_or("-".to_owned(), short)),
    ]
}

async fn stats(of: &OfTenant) -> Result<()> {
    let store = open(of).await?;
    let tallies = store.queue.tally(of.tenant, u64::MAX).await?;
    let doubtful = store.queue.doubtful_ops(of.tenant, u64::MAX).await?;
    store.close().await;
    if of.plain.json {
        return out::json(&json!(tally(&tallies, doubtful)));
    }
    let rows: Vec<_> = tallies
        .iter()
        .map(|tally| {
            vec![
                plain(&tally.kind),
                state(tally.state),
                plain(&tally.count),
                plain(&tally.held),
            ]
        })
        .collect();
    out::table(&["kind", "state", "jobs", "held"], &rows)
}

/// Who holds what, and for how long.
async fn leases(of: &OfTenant) -> Result<()> {
    let store = open(of).await?;
    let scan = JobScan {
        held: true,
        ..JobScan::of(of.tenant)
    };
    let held = every(store.queue.as_ref(), scan).await?;
    let now = store.queue.time();
    store.close().await;
    let holds = held
        .iter()
        .filter_map(|job| job.lease.as_ref().map(|hold| (job, hold)));
    if of.plain.json {
        let items: Vec<_> = holds
            .map(|(job, hold)| {
                json!({
                    "job_id": job.id.to_string(),
                    "job_key": job.key,
                    "kind": job.kind.as_str(),
                    "state": job.state.as_str(),
                    "owner": &*hold.owner,
                    "epoch": job.epoch,
                    "lease_until": hold.until.to_string(),
                    "seconds_left": hold.until.since(now).as_secs_f64(),
                })
            })
            .collect();
        return out::json(&json!({"items": items}));
    }
    let rows: Vec<_> = holds
        .map(|(job, hold)| {
            vec![
                plain(&*hold.owner),
                plain(&job.id),
                plain(&job.kind),
                state(job.state),
                plain(&job.epoch),
                plain(&hold.until),
                plain(&span(hold.until.since(now))),
            ]
        })
        .collect();
    out::table(
        &["owner", "job", "kind", "state", "epoch", "until", "left"],
        &rows,
    )
}

/// All jobs of a scan, page by page.
async fn every(queue: &dyn Queue, mut scan: JobScan) -> Result<Vec<Job>> {
    scan.limit = JobScan::LIMIT_MAX;
    let mut jobs = Vec::new();
    loop {
        let page = queue.jobs(scan.clone()).await?;
        jobs.extend(page.jobs);
        match page.next {
            Some(next) => scan.before = Some(next),
            None => return Ok(jobs),
        }
    }
}

fn state(state: State) -> Field {
    let tone = match state {
        State::Indexed | State::Deduped | State::SkippedDuplicate => Tone::Good,
        State::Failed => Tone::Warn,
        State::Dead => Tone::Bad,
        State::Planned
        | State::Leased
        | State::HeadDone
        | State::ResumeOk
        | State::Streaming
        | State::Finalized => Tone::Plain,
    };
    (state.as_str().to_owned(), tone)
}

/// The text on one line.
fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).collect()
}

/// The beginning of the text, on one line.
fn short(text: &str) -> String {
    let mut shown: String = one_line(text).chars().take(ERROR_CHARS_MAX).collect();
    if text.chars().nth(ERROR_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// A span in the two largest units that it has.
fn span(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Prints a document on one line, with the digits that it has.
fn document(shown: &impl Serialize) -> Result<()> {
    out::line(&serde_json::to_string(shown).context("writing the answer as JSON")?)
}

async fn open(of: &OfTenant) -> Result<Store> {
    Store::open_made(&Config::load(&of.plain.store.flags())?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_in_a_line_stays_in_it() {
        assert_eq!(short("a\tb\nc"), "a b c");
        assert_eq!(short(&"x".repeat(61)).chars().count(), 61, "with its mark");
        assert_eq!(short(&"x".repeat(60)), "x".repeat(60));
        for (seconds, shown) in [(59, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")] {
            assert_eq!(span(Duration::from_secs(seconds)), shown);
        }
    }
}
