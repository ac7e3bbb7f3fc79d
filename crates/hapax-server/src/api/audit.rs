//! /v1/audit: what happened to a tenant's keys, newest first.

use axum::Extension;
use axum::extract::State;
use hapax_core::{Action, Note, NoteId, NoteScan, Tenant, Time};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::openapi::words::AuditAction;
use super::payload::invalid;
use super::query::Query;
use crate::answer::Answer;
use crate::problem::Refusal;

/// Which rows to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only rows that tell of this.
    #[param(value_type = Option<AuditAction>)]
    action: Option<String>,
    /// Only rows about this key.
    key_id: Option<String>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// How many items a page has.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
}

/// A page of the audit trail.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditPage)]
pub(super) struct Page {
    items: Vec<Row>,
    next_cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = AuditRow)]
struct Row {
    #[schema(format = DateTime)]
    at: String,
    #[schema(value_type = AuditAction)]
    action: &'static str,
    /// Who did it.
    actor: Option<String>,
    key_id: Option<String>,
    route_pattern: Option<String>,
    #[schema(value_type = Value)]
    details: Option<Box<RawValue>>,
}

/// Lists the audit trail, newest first.
#[utoipa::path(get, path = "/v1/audit", operation_id = "list_audit",
    params(ListQuery), responses((status = 200, description = "A page of rows.", body = Page)))]
pub(super) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Page>, Refusal> {
    let mut scan = NoteScan::of(tenant);
    if let Some(word) = &query.action {
        let action = Action::from_word(word).ok_or_else(|| {
            let known = Action::ALL.map(Action::as_str).join(", ");
            invalid("action", format!("is none of {known}"))
        })?;
        scan.action = Some(action);
    }
    if let Some(id) = &query.key_id {
        scan.key_id = Some(id.parse().map_err(|_| invalid("key_id", "is not an id"))?);
    }
    if let Some(cursor) = &query.cursor {
        scan.after = Some(
            read_cursor(cursor)
                .ok_or_else(|| invalid("cursor", "is not a next_cursor of this list"))?,
        );
    }
    if let Some(limit) = query.limit {
        if !(1..=NoteScan::LIMIT_MAX).contains(&limit) {
            let most = NoteScan::LIMIT_MAX;
            return Err(invalid("limit", format!("must be from 1 to {most}")).into());
        }
        scan.limit = limit;
    }
    // Replays are noted beside the traffic: what was answered before this request is in the list.
    app.engine.flush_notes().await;
    let page = app.store.ledger.notes(scan).await?;
    Ok(Answer(Page {
        items: page.notes.into_iter().map(row).collect(),
        next_cursor: page.next.map(cursor),
    }))
}

fn row(note: Note) -> Row {
    Row {
        at: note.at.to_string(),
        action: note.action.as_str(),
        actor: note.actor,
        key_id: note.key_id.map(|id| id.to_string()),
        route_pattern: note.space.map(|space| space.to_string()),
        details: RawValue::from_string(note.details).ok(),
    }
}

fn cursor((time, NoteId(id)): (Time, NoteId)) -> String {
    format!("{}_{id}", time.as_ms())
}

fn read_cursor(text: &str) -> Option<(Time, NoteId)> {
    let (ms, id) = text.split_once('_')?;
    Some((Time::from_ms(ms.parse().ok()?), NoteId(id.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_nothing_else_does() {
        let place = (Time::from_ms(1_760_000_000_000), NoteId(-7));
        assert_eq!(read_cursor(&cursor(place)), Some(place));
        for wrong in ["", "_", "1_", "x_7", "1760000000000"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}
