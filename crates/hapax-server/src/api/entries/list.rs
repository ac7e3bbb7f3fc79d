//! Entries as a page of them shows them, and one of them whole.

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use hapax_core::entry::{Column, Row, Search, Sort};
use hapax_core::{Tenant, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::read::{SOURCE_CHARS_MAX, columns, words};
use super::target;
use crate::answer::Answer;
use crate::api::App;
use crate::api::openapi::words::{EntryRow, EntrySchema};
use crate::api::payload::invalid;
use crate::api::query::Query;
use crate::problem::{self, Refusal};

/// Which entries to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ListQuery {
    /// Only entries that have these words.
    #[param(max_length = 1000)]
    q: Option<String>,
    /// Only entries of this source, such as `telegram`.
    #[param(max_length = 1000)]
    source: Option<String>,
    /// Which schema; the active one if it is left out.
    #[param(value_type = Option<EntrySchema>)]
    schema: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page of entries.
#[derive(Serialize, ToSchema)]
#[schema(as = EntryPage)]
pub(in crate::api) struct Page {
    #[schema(value_type = Vec<EntryRow>)]
    items: Vec<Map<String, Value>>,
    next_cursor: Option<String>,
}

/// Lists entries, newest first. Only those with some words, or of a source, if they are asked for.
#[utoipa::path(get, path = "/v1/entries", operation_id = "list_entries",
    params(ListQuery), responses((status = 200, description = "A page of entries.", body = Page)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    let target = target(query.schema.as_deref())?;
    let limit = query.limit.unwrap_or(50);
    if !(1..=Search::LIMIT_MAX).contains(&limit) {
        let most = Search::LIMIT_MAX;
        return Err(invalid("limit", format!("must be from 1 to {most}")).into());
    }
    let before = query.cursor.as_deref().map(|cursor| {
        read_cursor(cursor).ok_or_else(|| invalid("cursor", "is not a next_cursor of this list"))
    });
    let asked = query.q.filter(|q| !q.trim().is_empty());
    let source = query.source.filter(|source| !source.is_empty());
    if let Some(source) = &source
        && (source.contains('\0') || source.chars().nth(SOURCE_CHARS_MAX).is_some())
    {
        return Err(invalid("source", "is not the name of a source").into());
    }
    let search = Search {
        words: asked.map(words).transpose()?,
        source,
        since: None,
        before: before.transpose()?,
        sort: Sort::Newest,
        limit,
    };
    let rows = app
        .store
        .entries
        .search_entries(tenant, target, search)
        .await?;
    let columns = columns(None)?;
    // A full page may be the last one; then the next one is empty.
    let last = rows.last().filter(|_| rows.len() == limit);
    Ok(Answer(Page {
        items: rows.iter().map(|row| row.to_json(&columns)).collect(),
        next_cursor: last.map(cursor),
    }))
}

/// Which schema an entry is looked for in.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ShowQuery {
    /// Which schema; the active one if it is left out.
    #[param(value_type = Option<EntrySchema>)]
    schema: Option<String>,
}

/// Shows one entry with all its columns.
#[utoipa::path(get, path = "/v1/entries/{entry_id}", operation_id = "get_entry",
    params(ShowQuery), responses((status = 200, description = "The entry.", body = EntryRow)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    entry_id: Result<Path<i64>, PathRejection>,
    Query(query): Query<ShowQuery>,
) -> Result<Answer<Map<String, Value>>, Refusal> {
    // What is no number answers like one that nobody has.
    let Path(entry_id) = entry_id.map_err(|_| problem::not_found())?;
    let target = target(query.schema.as_deref())?;
    let found = app.store.entries.entry(tenant, target, entry_id).await?;
    let row = found.ok_or_else(problem::not_found)?;
    Ok(Answer(row.to_json(Column::ALL)))
}

fn cursor(row: &Row) -> String {
    format!("{}_{}", row.created_at.as_ms(), row.entry_id)
}

fn read_cursor(text: &str) -> Option<(Time, i64)> {
    let (ms, number) = text.split_once('_')?;
    Some((Time::from_ms(ms.parse().ok()?), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_nothing_else_does() {
        let place = (Time::from_ms(1_760_000_000_000), 7);
        assert_eq!(read_cursor("1760000000000_7"), Some(place));
        for wrong in ["", "_", "1_", "x_7", "1760000000000"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}
