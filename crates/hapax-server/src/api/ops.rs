//! The operations of jobs: begin, record, end doubt, show. What an act does is the queue's business.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::{Extension, Json as Answer};
use hapax_core::job::{
    Begun, Class, Deed, Done, Fence, Job, JobId, On, Op, OpKey, Resolution, State as Reached,
    op_key,
};
use hapax_core::{Action, Note, Tenant};
use hapax_store::Role;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::App;
use super::jobs::shown::{ShownOp, raw, why};
use super::jobs::words::{Owner, Why, Word, fence, given, yes};
use super::jobs::{act, path_parameter};
use super::openapi::words::{BeginAction, JobState, OpClass, Reason};
use super::payload::invalid;
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
    /// The holder's name. With its epoch it may be left out where nobody holds the job.
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
        "job_id": "3f786850e387550fdab836ed7e6dc881", "kind": "HEAD", "context": {"url": "https://example.org/a.pdf"},
        "epoch": 1, "class": "replayable"
    })),
    responses((status = 200, description = "What the runner has to do.", body = BegunAnswer)),
    extensions(("x-codes" = json!(["not_found", "lease_lost", "state_transition_denied", "key_conflict"]))))]
pub(super) async fn begin(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Roomy(body): Roomy<BeginBody>,
) -> Result<Answer<BegunAnswer>, Refusal> {
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
    /// The holder's name. With its epoch it may be left out where nobody holds the job.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
}

/// Records the result, and moves the job in the same transaction. Sent again it answers the same.
#[utoipa::path(post, path = "/v1/ops/{op_key}/complete", operation_id = "complete_op",
    request_body(content = CompleteBody, example = json!({
        "token": "0123456789abcdef0123456789abcdef", "result": {"status": 200}, "advance_to": "HEAD_DONE"
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
    /// The holder's name. With its epoch it may be left out where nobody holds the job.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    owner: Option<Word<Owner>>,
    epoch: Option<i64>,
}

/// Records that it failed, for now or for good.
#[utoipa::path(post, path = "/v1/ops/{op_key}/fail", operation_id = "fail_op",
    request_body(content = FailBody, example = json!({
        "token": "0123456789abcdef0123456789abcdef", "error": "the host did not answer", "retryable": true
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
    /// The holder's name. With its epoch it may be left out where nobody holds the job.
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

/// Ends the doubt about an operation, or its waiting. An owner may always; a writer as the holder of the job's lease.
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
    if !role.allows(Role::Owner) && (body.owner.is_none() || body.epoch.is_none()) {
        return Err(problem::forbidden(Role::Owner.as_str()).into());
    }
    let resolution = body.resolution()?;
    let said = match resolution {
        Resolution::Result(_) => "result",
        Resolution::Retry => "retry",
        Resolution::Error(_) => "error",
    };
    let fence = fence(body.owner, body.epoch);
    let done = act_on_op(&app, tenant, key, fence, Deed::Resolve(resolution)).await?;
    let (op, job) = &done;
    let note = Note::new(tenant, app.store.queue.time(), Action::OpResolved)
        .by(&caller.to_string())
        .saying([
            ("op_key", op.key.as_str().into()),
            ("job_id", job.id.as_str().into()),
            ("kind", op.kind.as_str().into()),
            ("by", said.into()),
        ]);
    app.store.note(vec![note]).await;
    Ok(ended(&done))
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
