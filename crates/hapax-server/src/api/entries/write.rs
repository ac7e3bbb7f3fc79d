//! Inserting and changing entries, one or many at a time. What a match means is the rule's business.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::{Extension, response::IntoResponse};
use bytes::Bytes;
use hapax_core::Tenant;
use hapax_core::entry::{Change, Column, Done, Draft, Incoming, Refused, Target, Written};
use hapax_intake::date;
use serde_json::{Map, Value};

use super::asked::Asked;
use super::{off_the_runtime, shown};
use crate::answer::ended;
use crate::api::App;
use crate::api::openapi::words::{InsertBody, UpdateBody, WrittenRow};
use crate::body::ReceivedBatch;
use crate::problem::{self, Refusal};

/// Inserts entries. Each goes into the row that its keys belong to, as its policy says.
#[utoipa::path(post, path = "/db/insert", operation_id = "insert_entries",
    request_body(content = InsertBody, example = json!({
        "source": "telegram", "content_type": "thought", "clean_text": "a thought to keep",
        "idempotency_policy_key": "telegram_thought_v1", "idempotency_key_primary": "tg:-5:7"
    })),
    responses((status = 200, description = "A row for each entry. In a batch a bad item has `_batch_ok` false and an `error`, and the others are kept; with `continue_on_error` false the answer is the 400 of the first bad one.", body = Vec<WrittenRow>)),
    extensions(("x-codes" = json!(["idempotency_fields_required", "unknown_policy", "policy_disabled"]))))]
pub(in crate::api) async fn insert(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    ReceivedBatch(bytes): ReceivedBatch,
) -> Result<impl IntoResponse, Refusal> {
    write(&app, tenant, bytes, draft).await
}

/// Changes entries that are there.
#[utoipa::path(post, path = "/db/update", operation_id = "update_entries",
    request_body(content = UpdateBody, example = json!({"entry_id": 1, "title": "Tea", "metadata": {"read": true}})),
    responses((status = 200, description = "A row for each entry that is there. A bad item of a batch as in /db/insert.", body = Vec<WrittenRow>)),
    extensions(("x-codes" = json!(["not_found"]))))]
pub(in crate::api) async fn update(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    ReceivedBatch(bytes): ReceivedBatch,
) -> Result<impl IntoResponse, Refusal> {
    write(&app, tenant, bytes, change).await
}

fn draft(entry: &Map<String, Value>) -> Result<Incoming, Refused> {
    let draft = Draft::read(entry, date::time)?;
    draft.saying_something().map(Incoming::Insert)
}

fn change(entry: &Map<String, Value>) -> Result<Incoming, Refused> {
    Change::read(entry).map(Incoming::Update)
}

type Read = fn(&Map<String, Value>) -> Result<Incoming, Refused>;

async fn write(
    app: &App,
    tenant: Tenant,
    bytes: Bytes,
    read: Read,
) -> Result<impl IntoResponse + use<>, Refusal> {
    let asked = off_the_runtime(move || Asked::read(&bytes, read)).await??;
    let Asked {
        items,
        is_batch,
        all_or_nothing,
        columns,
    } = asked;
    let written = match items {
        none if none.is_empty() => None,
        items => Some(
            app.store
                .entries
                .write_entries(tenant, Target::Active, items, all_or_nothing)
                .await?,
        ),
    };
    let text = off_the_runtime(move || match written {
        None => Ok(b"[]".to_vec()),
        Some(written) => answer(&written, is_batch, &columns),
    });
    Ok(([(CONTENT_TYPE, "application/json")], ended(text.await??)))
}

fn answer(written: &Written, is_batch: bool, columns: &[Column]) -> Result<Vec<u8>, Refusal> {
    count(written);
    if !written.kept {
        return match &written.done[..] {
            [Done::Refused(refused)] if !is_batch => Err(shown::refused(refused).into()),
            [Done::Missing] if !is_batch => Ok(b"[]".to_vec()),
            done => Err(shown::nothing_kept(done).into()),
        };
    }
    let rows: Vec<Map<String, Value>> = match &written.done[..] {
        [Done::Refused(refused)] if !is_batch => return Err(shown::refused(refused).into()),
        [Done::Missing] if !is_batch => Vec::new(),
        [Done::Kept(kept)] if !is_batch => vec![shown::kept(kept, columns)],
        done => {
            let items = done.iter().enumerate();
            items
                .map(|(index, done)| shown::item(index, done, columns))
                .collect()
        }
    };
    serde_json::to_vec(&rows).map_err(|_| problem::internal().into())
}

/// Counts what came of each item.
pub(super) fn count(written: &Written) {
    for done in &written.done {
        let action = match done {
            Done::Kept(kept) if written.kept => kept.action.as_str(),
            // It would have been, had the others been.
            Done::Kept(_) => "undone",
            Done::Refused(_) => "refused",
            Done::Missing => "missing",
        };
        let schema = written.schema.as_str();
        metrics::counter!("hapax_entries_total", "action" => action, "schema" => schema)
            .increment(1);
    }
}
