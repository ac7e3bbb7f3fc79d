//! The keys of a tenant: list, show and remove. Claiming is in `claim`.

use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::http::request::Parts;
use axum::{Extension, Json as Answer};
use hapax_core::{Record, RecordId, Scan, Space, State as Stored, Tenant, Time};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::App;
use super::payload::{invalid, shown};
use super::query::Query;
use crate::problem::{self, Refusal};

/// The `{id}` of a path. What is not an id answers like an id that does not exist.
#[derive(Clone, Copy)]
pub(super) struct Id(pub(super) RecordId);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| problem::not_found())?;
        let id = params
            .iter()
            .find(|(name, _)| *name == "id")
            .and_then(|(_, text)| text.parse().ok());
        id.map(Self).ok_or_else(|| problem::not_found().into())
    }
}

/// Which keys to list.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    route: Option<String>,
    state: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of keys, newest first.
pub(super) async fn list(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Value>, Refusal> {
    let mut scan = Scan::of(tenant);
    if let Some(route) = &query.route {
        scan.space = Some(Space::new(route).map_err(|why| invalid("route", why.to_string()))?);
    }
    if let Some(state) = &query.state {
        let word = state_word(state)
            .ok_or_else(|| invalid("state", "is not held, in_doubt or settled"))?;
        scan.state = Some(word);
    }
    if let Some(cursor) = &query.cursor {
        scan.after = Some(
            read_cursor(cursor)
                .ok_or_else(|| invalid("cursor", "is not a next_cursor of this list"))?,
        );
    }
    if let Some(limit) = query.limit {
        if !(1..=Scan::LIMIT_MAX).contains(&limit) {
            return Err(invalid("limit", format!("must be from 1 to {}", Scan::LIMIT_MAX)).into());
        }
        scan.limit = limit;
    }
    let page = app.store.ledger.scan(scan).await?;
    let items: Vec<Value> = page.records.iter().map(item).collect();
    Ok(Answer(
        json!({"items": items, "next_cursor": page.next.map(cursor)}),
    ))
}

/// One key, with its recorded answer.
pub(super) async fn show(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
) -> Result<Answer<Value>, Refusal> {
    let found = app.store.ledger.find(tenant, id.0).await?;
    let record = found.filter(exists).ok_or_else(problem::not_found)?;
    Ok(Answer(shown_response(&record)))
}

/// A record with its recorded answer.
pub(crate) fn shown_response(record: &Record) -> Value {
    let mut item = item(record);
    if let Stored::Settled { outcome, .. } = &record.state {
        item["response"] = shown(outcome);
    }
    item
}

/// Removes a key: its next use runs as new.
pub(super) async fn remove(
    State(app): State<App>,
    Extension(tenant): Extension<Tenant>,
    id: Id,
) -> Result<Answer<Value>, Refusal> {
    let removed = app
        .engine
        .delete(tenant, id.0)
        .await?
        .ok_or_else(problem::not_found)?;
    tracing::info!(id = %removed.id, tenant = %tenant, "a key was deleted");
    Ok(Answer(
        json!({"id": removed.id.to_string(), "deleted": true}),
    ))
}

/// Whether a record is there for anyone to see; freed and swept ones are not.
pub(crate) fn exists(record: &Record) -> bool {
    match record.state {
        Stored::Held(_) | Stored::InDoubt { .. } | Stored::Settled { .. } => true,
        Stored::Free | Stored::Expired => false,
    }
}

/// A record as lists show it.
pub(crate) fn item(record: &Record) -> Value {
    let mut item = Map::new();
    let mut put = |name: &str, value: Value| item.insert(name.to_owned(), value);
    put("id", record.id.to_string().into());
    put("key", record.key.as_str().into());
    put("route_pattern", record.scope.space.as_str().into());
    put("state", record.state.as_str().into());
    put("method", record.request.method.as_str().into());
    put("path", record.request.path.as_str().into());
    put("content_hash", record.request.content_hash.as_str().into());
    put("created_at", record.created_at.to_string().into());
    put("expires_at", record.expires_at.to_string().into());
    match &record.state {
        Stored::Held(hold) => {
            put("lease_expires_at", hold.until.to_string().into());
        }
        Stored::InDoubt { reason, .. } => {
            put("reason", reason.as_str().into());
        }
        Stored::Settled { outcome, at } => {
            put("status", outcome.status.into());
            put("settled_at", at.to_string().into());
        }
        Stored::Free | Stored::Expired => {}
    }
    item.into()
}

/// The word of a state that can be listed.
pub(crate) fn state_word(text: &str) -> Option<&'static str> {
    ["held", "in_doubt", "settled"]
        .into_iter()
        .find(|word| *word == text)
}

pub(crate) fn cursor((time, id): (Time, RecordId)) -> String {
    format!("{}_{}", time.as_ms(), id.as_uuid().simple())
}

fn read_cursor(text: &str) -> Option<(Time, RecordId)> {
    let (ms, id) = text.split_once('_')?;
    Some((Time::from_ms(ms.parse().ok()?), id.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_nothing_else_does() {
        let place = (
            Time::from_ms(1_760_000_000_000),
            RecordId::from_uuid(uuid::Uuid::from_u128(7)),
        );
        assert_eq!(read_cursor(&cursor(place)), Some(place));
        for wrong in ["", "_", "1_", "x_7", "1760000000000"] {
            assert_eq!(read_cursor(wrong), None, "{wrong}");
        }
    }
}
