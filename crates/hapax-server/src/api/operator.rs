//! What an owner may say about a key: it happened and this came of it, it did not happen, forget it.
//! Whether the word stands is the engine's business.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use hapax::engine::Ruled;
use hapax::layer::Route;
use hapax::problem::Problem;
use hapax_core::{Outcome, Subject, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::App;
use super::end::Completed;
use super::keys::Id;
use super::openapi::words::SubjectName;
use super::payload::{Payload, invalid};
use crate::answer::Answer;
use crate::auth::Caller;
use crate::body::{Json, Wrapped};
use crate::problem::{self, Refusal};

/// What happened, or `release`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleBody {
    /// true: it did not happen, and its next use runs as new. Stands alone.
    release: Option<bool>,
    /// It happened, and this was the status.
    #[schema(minimum = 200, maximum = 599)]
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[schema(value_type = Option<Value>)]
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
}

impl SettleBody {
    /// The outcome to record, or nothing where the key is to be given back.
    fn outcome(self, route: &Route) -> Result<Option<Outcome>, Problem> {
        let says_more =
            !self.headers.is_empty() || self.body.is_some() || self.body_base64.is_some();
        match (self.release, self.status) {
            (Some(true), None) if !says_more => Ok(None),
            (Some(true), _) => Err(invalid(
                "release",
                "stands alone: a key that is given back has no answer",
            )),
            (None | Some(false), None) => Err(invalid("status", "give a status, or release: true")),
            (None | Some(false), Some(status)) => {
                let payload = Payload::of(self.body.as_deref(), self.body_base64.as_deref())?;
                payload.outcome(status, &self.headers, route).map(Some)
            }
        }
    }
}

/// Ends doubt: records what happened, or gives the key back.
#[utoipa::path(post, path = "/v1/keys/{id}/settle", operation_id = "settle_key",
    request_body(content = SettleBody, example = json!({"status": 201, "body": {"hold": 7}})),
    responses((status = 200, description = "It is recorded, or given back.", body = Completed)),
    extensions(("x-codes" = json!(["IDEMPOTENCY_IN_PROGRESS", "state_transition_denied", "erased"]))))]
pub(super) async fn settle(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    id: Id,
    Wrapped(body): Wrapped<SettleBody>,
) -> Result<Answer<Completed>, Refusal> {
    let actor = caller.to_string();
    let found = app.engine.ledger().find(tenant, id.0).await?;
    let record = found.ok_or_else(problem::not_found)?;
    let asked = body.outcome(app.route(&record.scope.space))?;
    let ruled = match asked.clone() {
        Some(outcome) => {
            app.engine
                .settle_by_operator(tenant, id.0, outcome, &actor)
                .await?
        }
        None => app.engine.release_by_operator(tenant, id.0, &actor).await?,
    };
    let answer = |state: &'static str, replayed: bool| {
        let id = id.0.to_string();
        Answer(Completed {
            id,
            state,
            replayed,
        })
    };
    match ruled {
        Ruled::Recorded(_) => Ok(answer("settled", false)),
        Ruled::Released(_) => Ok(answer("released", false)),
        // Said again in the same words: the answer got lost on its way.
        Ruled::Settled(receipt) if asked.as_ref() == Some(&*receipt.outcome) => {
            Ok(answer("settled", true))
        }
        Ruled::Settled(_) => Err(already_settled().into()),
        Ruled::Held(left) => Err(still_held(left).into()),
        Ruled::Erased => Err(erased().into()),
        Ruled::Absent => Err(problem::not_found().into()),
    }
}

/// A key whose content is erased.
#[derive(Serialize, ToSchema)]
#[schema(as = ErasedKey)]
pub(super) struct Erased {
    id: String,
    state: &'static str,
}

/// Erases what is stored under a key. Its next use is told so, and does not run.
#[utoipa::path(post, path = "/v1/keys/{id}/erase", operation_id = "erase_key",
    responses((status = 200, description = "It is erased.", body = Erased)))]
pub(super) async fn erase(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    id: Id,
) -> Result<Answer<Erased>, Refusal> {
    let found = app
        .engine
        .erase(tenant, id.0, &caller.to_string())
        .await?
        .ok_or_else(problem::not_found)?;
    Ok(Answer(Erased {
        id: found.id.to_string(),
        state: found.state.as_str(),
    }))
}

/// Whom to erase, as the body of their requests names them.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EraseBody {
    #[schema(value_type = SubjectName)]
    subject: Value,
}

/// How many keys were erased.
#[derive(Serialize, ToSchema)]
#[schema(as = ErasedSubject)]
pub(super) struct ErasedMany {
    erased: usize,
}

/// Erases everything about a subject, wherever a route says who that is.
#[utoipa::path(post, path = "/v1/erase", operation_id = "erase_subject",
    request_body(content = EraseBody, example = json!({"subject": "customer-7"})),
    responses((status = 200, description = "How many keys were erased.", body = ErasedMany)),
    extensions(("x-codes" = json!(["not_supported"]))))]
pub(super) async fn erase_subject(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<EraseBody>,
) -> Result<Answer<ErasedMany>, Refusal> {
    let name = match body.subject {
        Value::String(name) if !name.is_empty() => name,
        Value::Number(number) => number.to_string(),
        _other => return Err(invalid("subject", "is neither a text nor a number").into()),
    };
    let subject = Subject::of(name.as_bytes());
    let erased = app
        .engine
        .erase_subject(tenant, subject, &caller.to_string())
        .await?;
    Ok(Answer(ErasedMany { erased }))
}

fn still_held(left: Duration) -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "IDEMPOTENCY_IN_PROGRESS",
        "somebody works under this key and will settle it; ask again when the lease is over",
    )
    .with_detail("lease_seconds_left", left.as_secs())
    .retry_after(left)
}

fn already_settled() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "state_transition_denied",
        "the key is settled, and its answer has been given; delete the key if it is to run as new",
    )
    .with_detail("have", "settled")
}

pub(super) fn erased() -> Problem {
    Problem::new(
        StatusCode::GONE,
        "erased",
        "what was stored under this key is erased; there is nothing to say about it any more",
    )
}
