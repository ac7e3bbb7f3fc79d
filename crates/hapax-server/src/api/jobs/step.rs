//! What a holder says of its job: it came further, or it failed; one at a time or many. And what an owner says.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use hapax::problem::Problem;
use hapax_core::job::queue::ACTS_MAX;
use hapax_core::job::{
    Act, By, Deed, Done, Fence, JobId, On, Refusal as Refused, State as Reached,
};
use hapax_core::{Action, Note, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::super::App;
use super::super::openapi::words::{JobState, Reason};
use super::shown::ShownJob;
use super::words::{Owner, Rest, Why, Word, fence, yes};
use super::{Id, act_on_job, refused};
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::{Batch, Json, Roomy};
use crate::problem::{self, Refusal};

/// Where a job goes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct AdvanceBody {
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    #[schema(value_type = JobState)]
    to_state: Word<Reached>,
    /// Only from one of these; it can narrow the graph and not widen it.
    #[schema(value_type = Option<Vec<JobState>>)]
    allowed_from: Option<Vec<Word<Reached>>>,
    /// What came of it, at most 1 MiB.
    #[schema(value_type = Option<Value>)]
    result: Option<Box<RawValue>>,
}

/// Moves a job along the graph.
#[utoipa::path(post, path = "/v1/jobs/{id}/advance", operation_id = "advance_job",
    request_body(content = AdvanceBody, example = json!({"owner": "worker-1", "epoch": 1, "to_state": "HEAD_DONE"})),
    responses((status = 200, description = "The job.", body = ShownJob)),
    extensions(("x-codes" = json!(["lease_lost", "state_transition_denied"]))))]
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
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FailJobBody)]
pub(in crate::api) struct FailBody {
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    #[schema(value_type = Option<Reason>)]
    error: Option<Why>,
    /// false: it is given up.
    #[serde(default = "yes")]
    #[schema(default = true, required = false)]
    retryable: bool,
    /// How long it rests at least, in seconds.
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 2_592_000)]
    retry_after_s: Option<Rest>,
}

/// Ends an attempt that failed. The job rests and is leased again, or is given up.
#[utoipa::path(post, path = "/v1/jobs/{id}/fail", operation_id = "fail_job",
    request_body(content = FailBody, example = json!({"owner": "worker-1", "epoch": 1, "error": "the host did not answer", "retryable": true})),
    responses((status = 200, description = "The job.", body = ShownJob)),
    extensions(("x-codes" = json!(["lease_lost", "state_transition_denied"]))))]
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
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettleJobsBody)]
pub(in crate::api) struct SettleBody {
    #[schema(max_items = 1000)]
    items: Vec<Item>,
}

/// One of them: with `to_state` it came further, with `error` or `retryable` it failed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettleJobsItem)]
struct Item {
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    job_id: Word<JobId>,
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    #[schema(value_type = Option<JobState>)]
    to_state: Option<Word<Reached>>,
    /// Only from one of these; it can narrow the graph and not widen it.
    #[schema(value_type = Option<Vec<JobState>>)]
    allowed_from: Option<Vec<Word<Reached>>>,
    /// What came of it, at most 1 MiB.
    #[schema(value_type = Option<Value>)]
    result: Option<Box<RawValue>>,
    #[schema(value_type = Option<Reason>)]
    error: Option<Why>,
    retryable: Option<bool>,
    /// How long it rests at least, in seconds.
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 2_592_000)]
    retry_after_s: Option<Rest>,
}

/// What came of each, in their order.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct SettledJobs {
    items: Vec<SettledJob>,
}

/// One of them: `ok` and how it is now, or `error`.
#[derive(Serialize, ToSchema, Default)]
struct SettledJob {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    job_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<JobState>, nullable = false)]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    epoch: Option<i64>,
    /// What stands under `error` in the envelope of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    error: Option<Value>,
}

impl SettledJob {
    fn of(on: &On, done: &Result<Done, Refused>) -> Self {
        match (on, done) {
            (_, Ok(Done::Job(job) | Done::Op(_, job))) => Self {
                ok: Some(true),
                job_id: Some(job.id.to_string()),
                job_key: Some(job.key.clone()),
                state: Some(job.state.as_str()),
                epoch: Some(job.epoch),
                error: None,
            },
            (_, Ok(Done::Begun(_, op))) => Self {
                ok: Some(true),
                job_id: Some(op.job.to_string()),
                ..Self::default()
            },
            (on, Err(refusal)) => Self {
                job_id: match on {
                    On::Job(id) => Some(id.to_string()),
                    On::Op(_) => None,
                },
                error: Some(refused::problem(refusal).error()),
                ..Self::default()
            },
        }
    }
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
#[utoipa::path(post, path = "/v1/jobs/settle", operation_id = "settle_jobs",
    request_body(content = SettleBody, example = json!({
        "items": [{"job_id": "67f7640f-888d-87a2-b799-069aeaced920", "owner": "worker-1", "epoch": 1, "to_state": "HEAD_DONE"}]
    })),
    responses((status = 200, description = "What came of each.", body = SettledJobs)))]
pub(in crate::api) async fn settle(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Batch(body): Batch<SettleBody>,
) -> Result<Answer<SettledJobs>, Refusal> {
    let mut acts = acts(body.items)?;
    find(&app, tenant, &mut acts).await?;
    let ids: Vec<On> = acts.iter().map(|act| act.on.clone()).collect();
    let done = match acts {
        none if none.is_empty() => Vec::new(),
        acts => app.store.queue.apply(tenant, acts).await?,
    };
    let each = ids.iter().zip(&done);
    let items = each.map(|(on, done)| SettledJob::of(on, done)).collect();
    Ok(Answer(SettledJobs { items }))
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

/// Puts the stored id of its job into each act.
async fn find(app: &App, tenant: Tenant, acts: &mut [Act]) -> Result<(), Refusal> {
    let names = acts.iter().filter_map(|act| match &act.on {
        On::Job(name) => Some(name.clone()),
        On::Op(_) => None,
    });
    let names: Vec<JobId> = names.collect();
    let mut ids = app.store.queue.named(tenant, names).await?.into_iter();
    for act in acts {
        if let On::Job(name) = &mut act.on {
            *name = ids.next().ok_or_else(problem::internal)?;
        }
    }
    Ok(())
}

/// Has a failed or given-up job start over, at once and with all its attempts. It is an owner's word.
#[utoipa::path(post, path = "/v1/jobs/{id}/retry", operation_id = "retry_job",
    responses((status = 200, description = "The job.", body = ShownJob)),
    extensions(("x-codes" = json!(["lease_lost", "state_transition_denied"]))))]
pub(in crate::api) async fn retry(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Id(id): Id,
) -> Result<Answer<ShownJob>, Refusal> {
    let owner = Fence::none().by(By::Owner);
    let job = act_on_job(&app, tenant, id, owner, Deed::Retry).await?;
    let note = Note::new(tenant, app.store.queue.time(), Action::JobRetried)
        .by(&caller.to_string())
        .saying([("job_id", job.id.to_string().into())]);
    app.store.note(vec![note]).await;
    Ok(Answer(ShownJob::of(&job)))
}

fn states(words: Vec<Word<Reached>>) -> Vec<Reached> {
    words.into_iter().map(|Word(state)| state).collect()
}

fn text(raw: &RawValue) -> Arc<str> {
    raw.get().into()
}
