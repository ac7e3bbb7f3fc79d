//! The operations of jobs: begin, record, end doubt, show. What an act does is the queue's business.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use hapax_core::job::{
    Begun, By, Class, Deed, Done, Fence, Job, JobId, JobScan, On, Op, OpKey, OpState,
    Refusal as Refused, Resolution, State as Reached, op_key,
};
use hapax_core::{Action, Note, Tenant};
use hapax_store::Role;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::jobs::shown::{ShownOp, raw, why};
use super::jobs::words::{Owner, Why, Word, fence, given, yes};
use super::jobs::{act, path_parameter, refused, stored_id};
use super::openapi::words::{BeginAction, JobState, OpClass, Reason};
use super::payload::invalid;
use super::query::Query;
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::{Json, Roomy};
use crate::problem::{self, Refusal};

/// The `{op_key}` of a path. What is not a key answers like a key that does not exist.
pub(super) struct Key(pub(super) OpKey);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let text = path_parameter(parts, state, "op_key").await?;
        OpKey::new(&text)
            .map(Self)
            .map_err(|_| problem::not_found().into())
    }
}

/// What is about to be done under a job.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BeginBody {
    /// The job's id or its key.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    job_id: Word<JobId>,
    /// What is done, such as HEAD.
    #[schema(min_length = 1)]
    kind: String,
    /// Its key; made of kind, job and context if it is left out.
    #[schema(value_type = Option<String>, min_length = 1)]
    op_key: Option<Word<OpKey>>,
    /// What makes it this operation and no other.
    #[schema(value_type = Option<Object>)]
    context: Option<Box<RawValue>>,
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
    /// `at_most_once` if it is left out.
    #[schema(value_type = Option<OpClass>)]
    class: Option<Word<Class>>,
    /// A secret of the runner's own, so that a lost answer can be asked for again.
    #[schema(min_length = 1)]
    token: Option<String>,
}

impl BeginBody {
    /// The key that is given, or made from the context; both only where they agree.
    fn key(&self) -> Result<OpKey, Refusal> {
        Op::check_kind(&self.kind).map_err(|why| invalid("kind", why.to_string()))?;
        let (given, context) = (self.op_key.as_ref(), self.context.as_deref());
        if let (Some(Word(key)), None) = (given, context) {
            return Ok(key.clone());
        }
        let made = op_key(&self.kind, &self.job_id.0, context.map(RawValue::get))
            .map_err(|why| invalid("context", why.to_string()))?;
        match given {
            Some(Word(key)) if *key != made => Err(invalid(
                "op_key",
                "is not the key of this context; give one of the two",
            )
            .into()),
            Some(_) | None => Ok(made),
        }
    }

    /// The runner's secret: given, so that a lost answer can be asked for again, or made here.
    fn token(&self) -> Result<Arc<str>, Refusal> {
        let Some(token) = &self.token else {
            return Ok(uuid::Uuid::new_v4().simple().to_string().into());
        };
        Op::check_token(token).map_err(|why| invalid("token", why.to_string()))?;
        Ok(token.as_str().into())
    }
}

/// What the runner has to do.
#[derive(Serialize, ToSchema)]
#[schema(as = BegunOp)]
pub(super) struct BegunAnswer {
    #[schema(value_type = BeginAction)]
    action: &'static str,
    op_key: String,
    job_id: String,
    kind: String,
    tries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    error: Option<Box<RawValue>>,
    /// What an operation that waits waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    asks: Option<Box<RawValue>>,
}

impl BegunAnswer {
    fn of(begun: &Begun, op: &Op) -> Self {
        let bare = Self {
            action: "in_progress",
            op_key: op.key.to_string(),
            job_id: op.job.to_string(),
            kind: op.kind.clone(),
            tries: op.tries,
            token: None,
            result: None,
            error: None,
            asks: None,
        };
        match begun {
            Begun::Execute(token) => Self {
                action: "execute",
                token: Some(token.to_string()),
                ..bare
            },
            Begun::Replay(result) => Self {
                action: "replay",
                result: raw(result),
                ..bare
            },
            Begun::InProgress => bare,
            Begun::InDoubt => Self {
                action: "in_doubt",
                ..bare
            },
            Begun::Failed(error) => Self {
                action: "failed",
                error: why(error),
                ..bare
            },
            Begun::Waiting(asks) => Self {
                action: "waiting",
                asks: raw(asks),
                ..bare
            },
        }
    }
}

/// Begins an operation, or says what became of it.
#[utoipa::path(post, path = "/v1/ops/begin", operation_id = "begin_op",
    request_body(content = BeginBody, example = json!({
        "job_id": "67f7640f-888d-87a2-b799-069aeaced920", "kind": "HEAD", "context": {"url": "https://example.org/a.pdf"},
        "owner": "worker-1", "epoch": 1, "class": "replayable"
    })),
    responses((status = 200, description = "What the runner has to do.", body = BegunAnswer)),
    extensions(("x-codes" = json!(["not_found", "lease_lost", "state_transition_denied", "key_conflict"]))))]
pub(super) async fn begin(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Roomy(mut body): Roomy<BeginBody>,
) -> Result<Answer<BegunAnswer>, Refusal> {
    // The key of an operation is made of the stored id, whatever the job is called here.
    body.job_id.0 = stored_id(&app, tenant, body.job_id.0).await?;
    let deed = Deed::Begin {
        key: body.key()?,
        token: body.token()?,
        kind: body.kind.into(),
        // Nothing was said of it, so it may not be repeated unseen.
        class: body.class.map_or(Class::AtMostOnce, |Word(class)| class),
    };
    let fence = fence(body.owner, body.epoch);
    match act(&app, tenant, On::Job(body.job_id.0), fence, deed).await? {
        Done::Begun(begun, op) => Ok(Answer(BegunAnswer::of(&begun, &op))),
        // Nothing but beginning was asked.
        Done::Job(_) | Done::Op(..) => Err(problem::internal().into()),
    }
}

/// An operation, and the state of its job.
#[derive(Serialize, ToSchema)]
#[schema(as = EndedOp)]
pub(super) struct Ended {
    #[serde(flatten)]
    op: ShownOp,
    #[schema(value_type = JobState)]
    job_state: &'static str,
}

/// Does one thing to an operation; both as they are now.
async fn act_on_op(
    app: &App,
    tenant: Tenant,
    key: OpKey,
    fence: Fence,
    deed: Deed,
) -> Result<(Op, Job), Refusal> {
    match act(app, tenant, On::Op(key), fence, deed).await? {
        Done::Op(op, job) => Ok((*op, *job)),
        // Nothing but acts on an operation were asked.
        Done::Job(_) | Done::Begun(..) => Err(problem::internal().into()),
    }
}

fn ended((op, job): &(Op, Job)) -> Answer<Ended> {
    Answer(Ended {
        op: ShownOp::of(op),
        job_state: job.state.as_str(),
    })
}

/// What came of it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CompleteOpBody)]
pub(super) struct CompleteBody {
    /// The token of the beginning.
    token: String,
    /// At most 1 MiB.
    #[schema(value_type = Value)]
    result: Box<RawValue>,
    /// Where its job goes in the same transaction.
    #[schema(value_type = Option<JobState>)]
    advance_to: Option<Word<Reached>>,
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
}

/// Records the result, and moves the job in the same transaction. Sent again it answers the same.
#[utoipa::path(post, path = "/v1/ops/{op_key}/complete", operation_id = "complete_op",
    request_body(content = CompleteBody, example = json!({
        "token": "0123456789abcdef0123456789abcdef", "result": {"status": 200}, "advance_to": "HEAD_DONE",
        "owner": "worker-1", "epoch": 1
    })),
    responses((status = 200, description = "The operation.", body = Ended)),
    extensions(("x-codes" = json!(["lease_lost", "state_transition_denied", "key_conflict"]))))]
pub(super) async fn complete(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Key(key): Key,
    Roomy(body): Roomy<CompleteBody>,
) -> Result<Answer<Ended>, Refusal> {
    let deed = Deed::Complete {
        token: body.token.into(),
        result: body.result.get().into(),
        advance_to: body.advance_to.map(|Word(state)| state),
    };
    let fence = fence(body.owner, body.epoch);
    let done = act_on_op(&app, tenant, key, fence, deed).await?;
    Ok(ended(&done))
}

/// Why it failed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FailOpBody)]
pub(super) struct FailBody {
    token: String,
    #[schema(value_type = Reason)]
    error: Why,
    /// false: the next beginning is told that it failed.
    #[serde(default = "yes")]
    #[schema(default = true, required = false)]
    retryable: bool,
    /// The holder's name. While somebody holds the job it is needed, together with the epoch.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
}

/// Records that it failed, for now or for good.
#[utoipa::path(post, path = "/v1/ops/{op_key}/fail", operation_id = "fail_op",
    request_body(content = FailBody, example = json!({
        "token": "0123456789abcdef0123456789abcdef", "error": "the host did not answer", "retryable": true,
        "owner": "worker-1", "epoch": 1
    })),
    responses((status = 200, description = "The operation.", body = Ended)),
    extensions(("x-codes" = json!(["lease_lost", "state_transition_denied", "key_conflict"]))))]
pub(super) async fn fail(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Key(key): Key,
    Json(body): Json<FailBody>,
) -> Result<Answer<Ended>, Refusal> {
    let Why(error) = body.error;
    let deed = Deed::FailOp {
        token: body.token.into(),
        error,
        retryable: body.retryable,
    };
    let fence = fence(body.owner, body.epoch);
    let done = act_on_op(&app, tenant, key, fence, deed).await?;
    Ok(ended(&done))
}

/// How doubt ends: one of the first three. A worker that asked around says which lease it holds.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResolveOpBody)]
pub(super) struct ResolveBody {
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Value, required = false)]
    result: Option<Box<RawValue>>,
    /// true: it did not happen.
    retry: Option<bool>,
    #[schema(value_type = Option<Reason>)]
    error: Option<Why>,
    /// The holder's name. A writer needs it, together with the epoch; an owner may leave both out.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
}

impl ResolveBody {
    fn resolution(&mut self) -> Result<Resolution, Refusal> {
        let wrong = || invalid("", "give one of result, retry: true and error").into();
        match (self.result.take(), self.retry, self.error.take()) {
            (Some(result), None | Some(false), None) => Ok(Resolution::Result(result.get().into())),
            (None, Some(true), None) => Ok(Resolution::Retry),
            (None, None | Some(false), Some(Why(error))) => Ok(Resolution::Error(error)),
            (Some(_) | None, _, _) => Err(wrong()),
        }
    }
}

/// Ends the doubt about an operation, or its waiting. An owner may always; a writer as the holder of the job's lease. Of the
/// jobs that hapax runs itself only an owner ends the doubt, and what waits for an answer is answered as a clarification.
#[utoipa::path(post, path = "/v1/ops/{op_key}/resolve", operation_id = "resolve_op",
    request_body(content = ResolveBody, example = json!({"retry": true})),
    responses((status = 200, description = "The operation.", body = Ended)),
    extensions(("x-codes" = json!(["lease_lost", "state_transition_denied", "key_conflict"]))))]
pub(super) async fn resolve(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(role): Extension<Role>,
    Extension(caller): Extension<Caller>,
    Key(key): Key,
    Roomy(mut body): Roomy<ResolveBody>,
) -> Result<Answer<Ended>, Refusal> {
    let is_owner = role.allows(Role::Owner);
    if !is_owner && (body.owner.is_none() || body.epoch.is_none()) {
        return Err(not_a_holder(&app, tenant, key).await?);
    }
    let resolution = body.resolution()?;
    let said = match resolution {
        Resolution::Result(_) => "result",
        Resolution::Retry => "retry",
        Resolution::Error(_) => "error",
    };
    let by = if is_owner { By::Owner } else { By::Caller };
    let fence = fence(body.owner, body.epoch).by(by);
    let done = act_on_op(&app, tenant, key, fence, Deed::Resolve(resolution)).await?;
    let (op, job) = &done;
    let note = Note::new(tenant, app.store.queue.time(), Action::OpResolved)
        .by(&caller.to_string())
        .saying([
            ("op_key", op.key.as_str().into()),
            ("job_id", job.id.to_string().into()),
            ("kind", op.kind.as_str().into()),
            ("by", said.into()),
        ]);
    app.store.note(vec![note]).await;
    Ok(ended(&done))
}

/// Why a writer who names no lease may not resolve: it takes an owner, and what the program runs takes no writer at all.
async fn not_a_holder(app: &App, tenant: Tenant, key: OpKey) -> Result<Refusal, Refusal> {
    let queue = &app.store.queue;
    let job = match queue.op(tenant, key).await? {
        Some(op) => queue.job(tenant, op.job).await?,
        None => None,
    };
    let is_closed = job.is_some_and(|(job, _)| job.is_of_the_program());
    let problem = if is_closed {
        refused::problem(&Refused::OfTheProgram)
    } else {
        problem::forbidden(Role::Owner.as_str())
    };
    Ok(problem.into())
}

/// Which operations to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// `in_doubt`: the only state that is listed.
    #[param(pattern = "^in_doubt$")]
    state: String,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many jobs a page looks at: it has the operations of each that are in doubt.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page of operations.
#[derive(Serialize, ToSchema)]
#[schema(as = OpPage)]
pub(super) struct Page {
    items: Vec<ListedOp>,
    next_cursor: Option<String>,
}

/// An operation, and what its job is about.
#[derive(Serialize, ToSchema)]
struct ListedOp {
    #[serde(flatten)]
    op: ShownOp,
    work_id: String,
    job_kind: String,
    #[schema(value_type = JobState)]
    job_state: &'static str,
}

/// Lists the operations that are in doubt, those of the newest jobs first.
#[utoipa::path(get, path = "/v1/ops", operation_id = "list_ops",
    params(ListQuery), responses((status = 200, description = "A page of operations.", body = Page)))]
pub(super) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    if query.state != OpState::InDoubt.as_str() {
        return Err(invalid("state", "must be in_doubt: no other is listed").into());
    }
    let limit = query.limit.unwrap_or(50);
    if !(1..=JobScan::LIMIT_MAX).contains(&limit) {
        let most = JobScan::LIMIT_MAX;
        return Err(invalid("limit", format!("must be from 1 to {most}")).into());
    }
    let before = query.cursor.as_deref().map(str::parse).transpose();
    let before = before.map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?;
    let scan = JobScan {
        in_doubt: true,
        before,
        limit,
        ..JobScan::of(tenant)
    };
    let page = app.store.queue.jobs(scan).await?;
    let asked = page.jobs.iter().map(|job| (job.id.clone(), job.seq));
    let ops = app.store.queue.ops_of(tenant, asked.collect()).await?;
    let listed = |(job, ops): (&Job, Vec<Op>)| {
        let doubtful = ops.into_iter().filter(|op| op.state == OpState::InDoubt);
        let listed = doubtful.map(|op| ListedOp {
            op: ShownOp::of(&op),
            work_id: job.work_id.clone(),
            job_kind: job.kind.to_string(),
            job_state: job.state.as_str(),
        });
        listed.collect::<Vec<_>>()
    };
    Ok(Answer(Page {
        items: page.jobs.iter().zip(ops).flat_map(listed).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// Shows an operation.
#[utoipa::path(get, path = "/v1/ops/{op_key}", operation_id = "get_op",
    responses((status = 200, description = "The operation.", body = ShownOp)))]
pub(super) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Key(key): Key,
) -> Result<Answer<ShownOp>, Refusal> {
    let found = app.store.queue.op(tenant, key).await?;
    let op = found.ok_or_else(problem::not_found)?;
    Ok(Answer(ShownOp::of(&op)))
}
