//! What a holder says of its job: it came further, or it failed; one at a time or many. And what an owner says.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json as Answer};
use hapax::problem::Problem;
use hapax_core::job::queue::ACTS_MAX;
use hapax_core::job::{Act, Deed, Done, Fence, JobId, On, State as Reached};
use hapax_core::{Action, Note, Tenant};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::App;
use super::shown::ShownJob;
use super::words::{Owner, Rest, Why, Word, fence, yes};
use super::{Id, act_on_job, refused};
use crate::auth::Caller;
use crate::body::{Batch, Json, Roomy};
use crate::problem::{self, Refusal};

/// Where a job goes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct AdvanceBody {
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    to_state: Word<Reached>,
    allowed_from: Option<Vec<Word<Reached>>>,
    result: Option<Box<RawValue>>,
}

/// Moves a job along the graph.
pub(in crate::api) async fn advance(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
    Roomy(body): Roomy<AdvanceBody>,
) -> Result<Answer<ShownJob>, Refusal> {
    let fence = fence(body.owner, body.epoch);
    let deed = Deed::Advance {
        to: body.to_state.0,
        allowed_from: body.allowed_from.map(states),
        result: body.result.as_deref().map(text),
    };
    let job = act_on_job(&app, tenant, id, fence, deed).await?;
    Ok(Answer(ShownJob::of(&job)))
}

/// Why an attempt failed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct FailBody {
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    error: Option<Why>,
    #[serde(default = "yes")]
    retryable: bool,
    retry_after_s: Option<Rest>,
}

/// Ends an attempt that failed. The job rests and is leased again, or is given up.
pub(in crate::api) async fn fail(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
    Json(body): Json<FailBody>,
) -> Result<Answer<ShownJob>, Refusal> {
    let fence = fence(body.owner, body.epoch);
    let deed = Deed::Fail {
        error: body.error.map(|Why(error)| error),
        retryable: body.retryable,
        after: body.retry_after_s.map(|Rest(span)| span),
    };
    let job = act_on_job(&app, tenant, id, fence, deed).await?;
    Ok(Answer(ShownJob::of(&job)))
}

/// Many jobs that came further or failed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct SettleBody {
    items: Vec<Item>,
}

/// One of them: with `to_state` it came further, with `error` or `retryable` it failed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    job_id: Word<JobId>,
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    to_state: Option<Word<Reached>>,
    allowed_from: Option<Vec<Word<Reached>>>,
    result: Option<Box<RawValue>>,
    error: Option<Why>,
    retryable: Option<bool>,
    retry_after_s: Option<Rest>,
}

impl Item {
    fn act(self) -> Result<Act, &'static str> {
        let Word(id) = self.job_id;
        let says_failed =
            self.error.is_some() || self.retryable.is_some() || self.retry_after_s.is_some();
        let deed = match self.to_state {
            Some(Word(to)) if !says_failed => Deed::Advance {
                to,
                allowed_from: self.allowed_from.map(states),
                result: self.result.as_deref().map(text),
            },
            Some(Word(to)) if to != Reached::Failed => {
                return Err("a job that comes further has neither error nor retryable");
            }
            None if !says_failed => return Err("give to_state, or error or retryable"),
            Some(_) | None if self.result.is_some() => {
                return Err("a job that failed has no result");
            }
            Some(_) | None => Deed::Fail {
                error: self.error.map(|Why(error)| error),
                retryable: self.retryable.unwrap_or(true),
                after: self.retry_after_s.map(|Rest(span)| span),
            },
        };
        Ok(Act {
            on: On::Job(id),
            fence: fence(self.owner, self.epoch),
            deed,
        })
    }
}

/// Advances and fails many jobs, each by itself; two items of one job happen in order.
pub(in crate::api) async fn settle(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Batch(body): Batch<SettleBody>,
) -> Result<Answer<Value>, Refusal> {
    let acts = acts(body.items)?;
    let ids: Vec<On> = acts.iter().map(|act| act.on.clone()).collect();
    let done = match acts {
        none if none.is_empty() => Vec::new(),
        acts => app.store.queue.apply(tenant, acts).await?,
    };
    let items: Vec<Value> = ids
        .iter()
        .zip(&done)
        .map(|(on, done)| match (on, done) {
            (_, Ok(Done::Job(job) | Done::Op(_, job))) => {
                json!({"ok": true, "job_id": job.id.as_str(), "state": job.state.as_str(), "epoch": job.epoch})
            }
            (_, Ok(Done::Begun(_, op))) => json!({"ok": true, "job_id": op.job.as_str()}),
            (On::Job(id), Err(refusal)) => {
                json!({"job_id": id.as_str(), "error": refused::problem(refusal).error()})
            }
            (On::Op(_), Err(refusal)) => json!({"error": refused::problem(refusal).error()}),
        })
        .collect();
    Ok(Answer(json!({"items": items})))
}

fn acts(items: Vec<Item>) -> Result<Vec<Act>, Problem> {
    if items.len() > ACTS_MAX {
        let message = format!("a batch has at most {ACTS_MAX} items; send several");
        return Err(problem::too_large(message).with_detail("items_max", ACTS_MAX));
    }
    let place = |index: usize| move |why: &str| (format!("items[{index}]"), why.to_owned());
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| item.act().map_err(place(index)))
        .collect::<Result<_, _>>()
        .map_err(|fault| problem::schema(&[fault]))
}

/// An owner's word: a failed or given-up job starts over, at once and with all its attempts.
pub(in crate::api) async fn retry(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
) -> Result<Answer<ShownJob>, Refusal> {
    let job = act_on_job(&app, tenant, id, Fence::none(), Deed::Retry).await?;
    let note = Note::new(tenant, app.store.queue.time(), Action::JobRetried)
        .by(&caller.to_string())
        .saying([("job_id", job.id.as_str().into())]);
    app.store.note(vec![note]).await;
    Ok(Answer(ShownJob::of(&job)))
}

fn states(words: Vec<Word<Reached>>) -> Vec<Reached> {
    words.into_iter().map(|Word(state)| state).collect()
}

fn text(raw: &RawValue) -> Arc<str> {
    raw.get().into()
}
