//! Batches and their items as they are shown.

use std::collections::BTreeMap;

use hapax_core::entry::{Batch, Item, ItemStatus};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::openapi::words::{BatchState, EntrySchema, ItemState};

/// A batch.
#[derive(Serialize, ToSchema)]
#[schema(as = EnrichmentBatch)]
pub(super) struct Shown {
    batch_id: String,
    #[schema(value_type = BatchState)]
    status: &'static str,
    #[schema(value_type = EntrySchema)]
    schema: &'static str,
    import_id: Option<String>,
    completion_window: String,
    metadata: Map<String, Value>,
    request_count: u64,
    /// How many items are how far; each word is there.
    counts: BTreeMap<&'static str, u64>,
    attempt: u32,
    failures: u32,
    model: Option<String>,
    provider_batch_id: Option<String>,
    provider_status: Option<String>,
    /// There only if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    #[schema(format = DateTime)]
    next_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    /// With include_items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) items: Option<Vec<ShownItem>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) next_cursor: Option<String>,
}

impl Shown {
    pub(super) fn of(batch: Batch) -> Self {
        let state = batch.state;
        let is_open = !state.status.is_terminal();
        let counts = ItemStatus::ALL.iter().map(|status| {
            let count = batch.items.get(status).copied().unwrap_or(0);
            (status.as_str(), count)
        });
        Self {
            batch_id: batch.id.to_string(),
            status: state.status.as_str(),
            schema: batch.schema.as_str(),
            import_id: batch.import_id.map(|id| id.to_string()),
            completion_window: batch.completion_window,
            metadata: batch.metadata,
            request_count: batch.request_count,
            counts: counts.collect(),
            attempt: state.attempt,
            failures: state.failures,
            model: state.model,
            provider_batch_id: state.provider.batch_id,
            provider_status: state.provider.status,
            error: state.error,
            next_at: is_open.then(|| state.next_at.to_string()),
            created_at: batch.created_at.to_string(),
            updated_at: batch.updated_at.to_string(),
            items: None,
            next_cursor: None,
        }
    }
}

/// An item of a batch.
#[derive(Serialize, ToSchema)]
#[schema(as = EnrichmentItem)]
pub(super) struct ShownItem {
    item_id: i64,
    entry_id: Option<i64>,
    #[schema(value_type = ItemState)]
    status: &'static str,
    content_hash: String,
    #[schema(value_type = Option<Object>)]
    result: Option<Value>,
    /// There only if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    /// What the model said, where that is no result.
    raw: Option<String>,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl ShownItem {
    pub(super) fn of(item: Item) -> Self {
        let raw = item.raw.filter(|_| item.status == ItemStatus::ParseError);
        Self {
            item_id: item.item_id,
            entry_id: item.entry_id,
            status: item.status.as_str(),
            content_hash: item.hash.hex(),
            result: item.result,
            error: item.error,
            raw: raw.map(|raw| raw.to_string()),
            updated_at: item.updated_at.to_string(),
        }
    }

    /// About how many bytes it takes to show it.
    pub(super) fn weight(&self) -> usize {
        let result = self
            .result
            .as_ref()
            .map_or(0, |result| result.to_string().len());
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        result + text(&self.raw) + text(&self.error) + 256
    }
}
