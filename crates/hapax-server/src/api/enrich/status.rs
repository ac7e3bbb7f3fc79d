//! How batches stand: a page of them, and one with its items. They are found in both schemas, whatever the test mode is.

use axum::Extension;
use axum::extract::State;
use hapax_core::Tenant;
use hapax_core::entry::{ItemScan, Schema};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::shown::{Shown, ShownItem};
use crate::answer::Answer;
use crate::api::App;
use crate::api::imports::Id;
use crate::api::openapi::words::EntrySchema;
use crate::api::payload::invalid;
use crate::api::query::Query;
use crate::problem::{self, Refusal};

/// How much one answer shows of items, in bytes.
const ITEMS_BYTES: usize = 16 << 20;

/// Which batches to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ListQuery {
    /// Only batches of this schema; both if it is left out.
    #[param(value_type = Option<EntrySchema>)]
    schema: Option<String>,
    /// true: those that have ended too.
    #[param(default = false)]
    include_terminal: Option<bool>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page of batches.
#[derive(Serialize, ToSchema)]
#[schema(as = EnrichmentBatchPage)]
pub(in crate::api) struct Page {
    items: Vec<Shown>,
    next_cursor: Option<String>,
}

/// Lists batches, newest first; those that have ended only if they are asked for.
#[utoipa::path(get, path = "/status/t1/batch", operation_id = "list_batches",
    params(ListQuery), responses((status = 200, description = "A page of batches.", body = Page)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    let limit = query.limit.unwrap_or(50);
    if !(1..=ItemScan::LIMIT_MAX).contains(&limit) {
        let why = format!("must be from 1 to {}", ItemScan::LIMIT_MAX);
        return Err(invalid("limit", why).into());
    }
    let schema = query.schema.as_deref().filter(|word| !word.is_empty());
    let schema = schema.map(str::parse::<Schema>).transpose();
    let schema = schema.map_err(|_| invalid("schema", "is neither pkm nor pkm_test"))?;
    let after = query.cursor.as_deref().map(Uuid::parse_str).transpose();
    let after = after.map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?;
    let include_terminal = query.include_terminal.unwrap_or(false);
    let found = app
        .store
        .batches
        .batches(tenant, schema, include_terminal, after, limit)
        .await?;
    let last = found.last().filter(|_| found.len() == limit);
    Ok(Answer(Page {
        next_cursor: last.map(|last| last.id.to_string()),
        items: found.into_iter().map(Shown::of).collect(),
    }))
}

/// What to show of a batch.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ShowQuery {
    /// true: its items come along.
    #[param(default = false)]
    include_items: Option<bool>,
    /// The `next_cursor` of the answer before, for more items.
    cursor: Option<i64>,
}

/// Shows a batch as it stands now. Its items come along if they are asked for, as many as an answer holds.
#[utoipa::path(get, path = "/status/t1/batch/{id}", operation_id = "get_batch",
    params(ShowQuery), responses((status = 200, description = "The batch.", body = Shown)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Id(id): Id,
    Query(query): Query<ShowQuery>,
) -> Result<Answer<Shown>, Refusal> {
    let found = app.store.batches.batch(tenant, id).await?;
    let batch = found.ok_or_else(problem::not_found)?;
    let schema = batch.schema;
    let mut shown = Shown::of(batch);
    if query.include_items != Some(true) {
        return Ok(Answer(shown));
    }
    let (mut items, mut bytes, mut after) = (Vec::new(), 0, query.cursor);
    loop {
        let scan = ItemScan {
            status: None,
            after,
            with_text: false,
            limit: ItemScan::LIMIT_MAX,
        };
        let page = app
            .store
            .batches
            .batch_items(tenant, schema, id, scan)
            .await?;
        let is_last = page.len() < ItemScan::LIMIT_MAX;
        after = page.last().map(|item| item.item_id).or(after);
        let page = page.into_iter().map(ShownItem::of);
        items.extend(page.inspect(|item| bytes += item.weight()));
        if is_last {
            break;
        }
        if bytes > ITEMS_BYTES {
            shown.next_cursor = after.map(|after| after.to_string());
            break;
        }
    }
    shown.items = Some(items);
    Ok(Answer(shown))
}
