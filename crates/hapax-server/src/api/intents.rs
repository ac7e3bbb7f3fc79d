//! Intents and their receipts: shown as they stand now, and run again on purpose. Sending, answering and listing are
//! in the files below.

pub(super) mod answer;
pub(super) mod list;
pub(super) mod send;

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::job::{Job, JobId, Op, Refusal as JobRefusal};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::App;
use super::jobs::shown::ShownOp;
use super::jobs::{Id, refused};
use super::listed::{Door, viewer, writer};
use crate::answer::Answer;
use crate::intents::desk::Waiter;
use crate::intents::receipt::{Receipt, project};
use crate::intents::{act, inbox};
use crate::problem::{self, Refusal};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// What is left of the time of a request after waiting for a receipt.
const MARGIN: Duration = Duration::from_secs(2);

/// The routes of intents: everybody reads, a writer sends, answers and replays.
pub(super) fn door() -> Door {
    Door {
        name: "intents",
        about: "Packets that ask for something: kept first, planned, carried out at the gateway, and answered with a receipt.",
        parameters: &[
            (
                "id",
                "The id of a receipt; an intent and its receipt have one id.",
                "3f786850e387550fdab836ed7e6dc881",
            ),
            (
                "op_key",
                "The id of a question.",
                "89e6c98d92887913cadf06b2adb97f26cde4849b",
            ),
        ],
        routes: vec![
            writer(routes!(send::send)),
            viewer(routes!(show)),
            viewer(routes!(list::receipts)),
            viewer(routes!(receipt)),
            writer(routes!(replay)),
            viewer(routes!(list::clarifications)),
            writer(routes!(answer::answer)),
        ],
    }
}

/// The envelope of a receipt, with the status that it stands for now.
struct Envelope {
    receipt: Receipt,
    /// Whether the packet was there before.
    was_there: bool,
}

impl IntoResponse for Envelope {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.receipt.http_status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Answer(self.receipt)).into_response();
        if self.was_there {
            let yes = HeaderValue::from_static("true");
            response.headers_mut().insert(REPLAYED, yes);
        }
        response
    }
}

/// The receipt and its operations, if it is one.
async fn find(app: &App, tenant: Tenant, id: &JobId) -> Result<(Job, Vec<Op>), Refusal> {
    let found = app.store.queue.job(tenant, id.clone()).await?;
    let found = found.filter(|(job, _)| is_receipt(job));
    Ok(found.ok_or_else(problem::not_found)?)
}

/// Whether the job is a receipt, and not one that somebody planned as a job of the same kind.
fn is_receipt(job: &Job) -> bool {
    job.kind == inbox::kind() && job.place == inbox::place()
}

/// The receipt as it stands now. An intent and its receipt have one id.
fn shown((job, ops): &(Job, Vec<Op>)) -> Receipt {
    let mut receipt = project(job, ops);
    receipt.intent_id = Some(receipt.receipt_id.clone());
    receipt
}

/// Waits until an attempt at the receipt has ended, and shows it.
async fn settled(
    app: &App,
    tenant: Tenant,
    id: &JobId,
    waiter: Waiter,
) -> Result<Receipt, Refusal> {
    let most = app.config.request_timeout().saturating_sub(MARGIN);
    waiter.wait(id, most).await;
    Ok(shown(&find(app, tenant, id).await?))
}

/// Shows a receipt. Reading a failed one is no failure: it answers 200.
#[utoipa::path(get, path = "/v1/receipts/{id}", operation_id = "get_receipt",
    responses((status = 200, description = "The receipt, failed or not.", body = Receipt)))]
pub(super) async fn receipt(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let receipt = shown(&find(&app, tenant, &id).await?);
    // Reading a failure is no failure.
    Ok(Answer(receipt).into_response())
}

/// What a receipt's job holds.
#[derive(Deserialize)]
struct Packed {
    packet: Box<RawValue>,
}

/// An intent with everything that was recorded for it.
#[derive(Serialize, ToSchema)]
#[schema(as = Intent)]
pub(super) struct Shown {
    intent_id: String,
    receipt_id: String,
    source: String,
    idempotency_key: String,
    #[schema(format = DateTime)]
    received_at: String,
    /// As it came, digit for digit.
    #[schema(value_type = Value)]
    packet: Option<Box<RawValue>>,
    receipt: Receipt,
    artifacts: Vec<ShownOp>,
}

/// Shows an intent as it was received, its receipt, and everything that was recorded for it.
#[utoipa::path(get, path = "/v1/intents/{id}", operation_id = "get_intent",
    responses((status = 200, description = "The intent.", body = Shown)))]
pub(super) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
) -> Result<Answer<Shown>, Refusal> {
    let found = find(&app, tenant, &id).await?;
    let (job, ops) = &found;
    let payload = job.payload.as_deref().unwrap_or("null");
    let inbox: Option<Packed> = serde_json::from_str(payload).ok();
    Ok(Answer(Shown {
        intent_id: job.id.to_string(),
        receipt_id: job.id.to_string(),
        source: job.work_id.clone(),
        idempotency_key: job.artifact_id.clone(),
        received_at: job.created_at.to_string(),
        packet: inbox.map(|inbox| inbox.packet),
        receipt: shown(&found),
        artifacts: ops.iter().map(ShownOp::of).collect(),
    }))
}

/// Runs a receipt again on purpose, with new keys at the gateway.
#[utoipa::path(post, path = "/v1/receipts/{id}/replay", operation_id = "replay_receipt",
    responses((status = 200, description = "The receipt.", body = Receipt),
        (status = 502, description = "It failed at the gateway; the receipt says how.", body = Receipt)),
    extensions(("x-codes" = json!(["IDEMPOTENCY_IN_PROGRESS", "state_transition_denied"]))))]
pub(super) async fn replay(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
) -> Result<Response, Refusal> {
    let (job, _) = find(&app, tenant, &id).await?;
    let waiter = app.desk.waiter();
    let done = app
        .store
        .queue
        .apply(tenant, vec![act::replay(&job)])
        .await?;
    for done in done {
        done.map_err(|refusal| match refusal {
            JobRefusal::LeaseLost { .. } => Problem::new(
                StatusCode::CONFLICT,
                "IDEMPOTENCY_IN_PROGRESS",
                "it is being worked on; replay it when that has come to an end",
            )
            .retry_after(Duration::from_secs(1)),
            other => refused::problem(&other),
        })?;
    }
    let receipt = settled(&app, tenant, &id, waiter).await?;
    Ok(Envelope {
        receipt,
        was_there: false,
    }
    .into_response())
}
