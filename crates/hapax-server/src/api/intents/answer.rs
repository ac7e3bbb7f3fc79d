//! An answer to the question of a receipt, after which it goes on.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::job::{JobId, Op, OpKey, OpState};
use hapax_intake::intent::Answer;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::super::App;
use super::super::jobs::refused;
use super::super::ops::Key;
use super::super::payload::invalid;
use super::{Envelope, find, settled, shown};
use crate::body::Json;
use crate::intents::act::{self, NoAnswer};
use crate::intents::receipt::Receipt;
use crate::problem::{self, Refusal};

/// An answer: one of the two.
#[derive(Deserialize, ToSchema)]
pub(in crate::api) enum AnswerBody {
    /// The id of a choice.
    #[serde(rename = "choice_id")]
    Choice(String),
    /// A text of one's own.
    #[serde(rename = "answer_text")]
    Text(String),
}

impl From<AnswerBody> for Answer {
    fn from(body: AnswerBody) -> Self {
        match body {
            AnswerBody::Choice(id) => Self::Choice(id),
            AnswerBody::Text(text) => Self::Text(text),
        }
    }
}

/// Answers the question of a receipt with a choice or a text, after which it goes on. The same answer again shows the receipt as it stands.
#[utoipa::path(post, path = "/v1/clarifications/{op_key}/answer", operation_id = "answer_clarification",
    request_body(content = AnswerBody, example = json!({"answer_text": "next friday"})),
    responses((status = 200, description = "The receipt as it stands.", body = Receipt, headers(("Idempotency-Replayed" = String, description = "true, if the same was sent before and nothing ran."))),
        (status = 502, description = "It failed at the gateway; the receipt says how.", body = Receipt)),
    extensions(("x-codes" = json!(["key_conflict", "lease_lost", "state_transition_denied"]))))]
pub(in crate::api) async fn answer(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Key(id): Key,
    Json(body): Json<AnswerBody>,
) -> Result<Response, Refusal> {
    let answer = Answer::from(body);
    let op = app.store.queue.op(tenant, id.clone()).await?;
    let job_id = op.ok_or_else(problem::not_found)?.job;
    let waiter = app.desk.waiter();
    let Some(refusal) = give(&app, tenant, &id, &job_id, &answer).await? else {
        let receipt = settled(&app, tenant, &job_id, waiter).await?;
        let was_there = false;
        return Ok(Envelope { receipt, was_there }.into_response());
    };
    // Somebody was quicker, perhaps with the same answer.
    let given = json!(answer).to_string();
    let op = app.store.queue.op(tenant, id).await?;
    let is_same = |op: &Op| op.state == OpState::Done && op.result.as_deref() == Some(&given);
    if !op.as_ref().is_some_and(is_same) {
        return Err(refusal.into());
    }
    let receipt = shown(&find(&app, tenant, &job_id).await?);
    let was_there = true;
    Ok(Envelope { receipt, was_there }.into_response())
}

/// Gives the answer to the receipt; why not, if it is not taken.
async fn give(
    app: &App,
    tenant: Tenant,
    question: &OpKey,
    receipt: &JobId,
    answer: &Answer,
) -> Result<Option<Problem>, Refusal> {
    let (job, ops) = find(app, tenant, receipt).await?;
    let rule = (app.desk.policy(), app.store.queue.time());
    let resolve = match act::answer(&job, &ops, question.as_str(), answer, rule) {
        Ok(resolve) => resolve,
        Err(NoAnswer::NotOpen) => {
            let why = "this question is answered already, or no longer asked";
            return Ok(Some(Problem::new(
                StatusCode::CONFLICT,
                "key_conflict",
                why,
            )));
        }
        Err(NoAnswer::Misfit(misfit)) => {
            return Ok(Some(invalid("answer", misfit.to_string())));
        }
    };
    let done = app.store.queue.apply(tenant, vec![resolve]).await?;
    let refusal = done.into_iter().find_map(Result::err);
    Ok(refusal.map(|refusal| refused::problem(&refusal)))
}
