//! The states of an entry that were replaced.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use hapax_core::Tenant;
use hapax_core::entry::{Column, Row, Search};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::target;
use crate::answer::Answer;
use crate::api::App;
use crate::api::openapi::words::{EntryRow, EntrySchema};
use crate::api::payload::invalid;
use crate::api::query::Query;
use crate::problem::{self, Refusal};

/// Which of them to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ListQuery {
    /// Which schema; the active one if it is left out.
    #[param(value_type = Option<EntrySchema>)]
    schema: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page of replaced states.
#[derive(Serialize, ToSchema)]
#[schema(as = RevisionPage)]
pub(in crate::api) struct Page {
    #[schema(value_type = Vec<EntryRow>)]
    items: Vec<Map<String, Value>>,
    next_cursor: Option<String>,
}

/// Lists the replaced states of an entry, newest first.
#[utoipa::path(get, path = "/v1/entries/{entry_id}/revisions", operation_id = "list_entry_revisions",
    params(ListQuery), responses((status = 200, description = "A page of states.", body = Page)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    entry_id: Result<Path<i64>, PathRejection>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    // What is no number answers like one that nobody has.
    let Path(entry_id) = entry_id.map_err(|_| problem::not_found())?;
    let target = target(query.schema.as_deref())?;
    let before = match &query.cursor {
        None => None,
        Some(cursor) => Some(
            cursor
                .parse()
                .map_err(|_| invalid("cursor", "is not a next_cursor of this list"))?,
        ),
    };
    let limit = query.limit.unwrap_or(50);
    if !(1..=Search::LIMIT_MAX).contains(&limit) {
        let most = Search::LIMIT_MAX;
        return Err(invalid("limit", format!("must be from 1 to {most}")).into());
    }
    let entries = &app.store.entries;
    let rows = entries
        .entry_revisions(tenant, target, entry_id, before, limit)
        .await?;
    if rows.is_empty() && entries.entry(tenant, target, entry_id).await?.is_none() {
        return Err(problem::not_found().into());
    }
    Ok(Answer(Page {
        items: rows.iter().map(|row| row.to_json(Column::ALL)).collect(),
        next_cursor: next(&rows).map(|revision| revision.to_string()),
    }))
}

/// Before which state the next page begins. The first state of an entry has the number 1.
fn next(rows: &[Row]) -> Option<u32> {
    let last = rows.last()?.revision;
    (last > 1).then_some(last)
}
