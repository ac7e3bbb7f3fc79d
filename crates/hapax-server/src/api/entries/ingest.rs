//! What Telegram's Bot API delivers, normalised and inserted in one call. A delivery that comes again gives the same
//! entry, because its keys do.

use axum::Extension;
use axum::extract::State;
use hapax::problem::Problem;
use hapax_core::Tenant;
use hapax_core::entry::{Column, Done, Draft, Fields, Incoming, Target};
use hapax_intake::date;
use hapax_intake::telegram::{NOTHING_TO_KEEP, Update};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::asked::document;
use super::write::count;
use super::{off_the_runtime, shown};
use crate::answer::Answer;
use crate::api::App;
use crate::api::openapi::words::WrittenRow;
use crate::body::Received;
use crate::problem::{self, Refusal};

/// An update as it is read. What else stands in it is passed over.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; hapax-intake reads updates")]
pub(in crate::api) struct TelegramUpdate {
    update_id: i64,
    /// Or edited_message, channel_post, edited_channel_post, business_message, edited_business_message.
    #[schema(value_type = Option<Object>)]
    message: Option<Value>,
}

/// What came of an update.
#[derive(Serialize, ToSchema)]
#[schema(as = TelegramDelivery)]
pub(in crate::api) struct Delivered {
    ok: bool,
    /// inserted, updated, skipped or ignored.
    #[schema(value_type = String)]
    action: Value,
    update_id: i64,
    /// Why it was ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WrittenRow>, nullable = false)]
    entry: Option<Map<String, Value>>,
}

/// Takes an update of Telegram's Bot API. One without a text is answered all the same, or it would be delivered again.
#[utoipa::path(post, path = "/ingest/telegram/update", operation_id = "ingest_telegram_update",
    request_body(content = TelegramUpdate, example = json!({
        "update_id": 1, "message": {"message_id": 7, "date": 1_771_336_843, "chat": {"id": -5}, "text": "a thought to keep"}
    })),
    params(("X-Telegram-Bot-Api-Secret-Token" = Option<String>, Header,
        description = "The secret of the webhook, in place of a token.")),
    responses((status = 200, description = "What came of it.", body = Delivered)),
    extensions(("x-codes" = json!(["idempotency_fields_required", "unknown_policy", "policy_disabled"]))))]
pub(in crate::api) async fn update(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Received(bytes): Received,
) -> Result<Answer<Delivered>, Refusal> {
    let tracking = app.tracking.clone();
    let read = off_the_runtime(move || {
        let update = Update::read(document(&bytes)?).map_err(|why| problem::intake(&why))?;
        let entry = update.message.map(|message| message.normalize(&tracking));
        let entry = entry.transpose().map_err(|why| problem::intake(&why))?;
        Ok::<_, Problem>((update.update_id, entry))
    });
    let (update_id, entry) = read.await??;
    let Some(entry) = entry else {
        return Ok(Answer(Delivered {
            ok: true,
            action: "ignored".into(),
            update_id,
            reason: Some(NOTHING_TO_KEEP),
            entry: None,
        }));
    };
    let items = vec![incoming(entry)];
    let mut written = app
        .store
        .entries
        .write_entries(tenant, Target::Active, items, false)
        .await?;
    count(&written);
    match written.done.pop() {
        Some(Done::Kept(kept)) => {
            let mut entry = shown::kept(&kept, &Column::DEFAULT_ROW);
            Ok(Answer(Delivered {
                ok: true,
                action: entry.remove("action").unwrap_or_default(),
                update_id,
                reason: None,
                entry: Some(entry),
            }))
        }
        Some(Done::Refused(refused)) => Err(shown::refused(&refused).into()),
        Some(Done::Missing) | None => Err(problem::internal().into()),
    }
}

/// The entry as an insert takes it, checked like one that a client sends.
fn incoming(entry: Fields) -> Incoming {
    let entry = entry.into_json();
    Draft::read(&entry, date::time).map_or_else(Incoming::Refused, Incoming::Insert)
}
