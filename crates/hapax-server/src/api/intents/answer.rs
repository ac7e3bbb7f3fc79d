//! An answer to the question of a receipt, after which it goes on.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::job::OpState;
use hapax_intake::intent::Answer;
use serde_json::json;

use super::super::App;
use super::super::jobs::refused;
use super::super::ops::Key;
use super::super::payload::invalid;
use super::{Envelope, find, settled, shown};
use crate::body::Json;
use crate::intents::act::{self, NoAnswer};
use crate::problem::{self, Refusal};

/// Answers `{choice_id}` or `{answer_text}`. The same answer again shows the receipt as it stands.
pub(in crate::api) async fn answer(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Key(id): Key,
    Json(answer): Json<Answer>,
) -> Result<Response, Refusal> {
    let op = app.store.queue.op(tenant, id.clone()).await?;
    let op = op.ok_or_else(problem::not_found)?;
    let found = find(&app, tenant, &op.job).await?;
    let given = json!(answer).to_string();
    if op.state == OpState::Done && op.result.as_deref() == Some(given.as_str()) {
        let receipt = shown(&found);
        let was_there = true;
        return Ok(Envelope { receipt, was_there }.into_response());
    }
    let (job, ops) = &found;
    let now = app.store.queue.time();
    let resolve = act::answer(job, ops, id.as_str(), &answer, (app.desk.policy(), now));
    let resolve = resolve.map_err(|why| match why {
        NoAnswer::NotOpen => Problem::new(
            StatusCode::CONFLICT,
            "key_conflict",
            "this question is answered already, or no longer asked",
        ),
        NoAnswer::Misfit(misfit) => invalid("answer", misfit.to_string()),
    })?;
    let waiter = app.desk.waiter();
    for done in app.store.queue.apply(tenant, vec![resolve]).await? {
        done.map_err(|refusal| refused::problem(&refusal))?;
    }
    let receipt = settled(&app, tenant, &job.id, waiter).await?;
    let was_there = false;
    Ok(Envelope { receipt, was_there }.into_response())
}
