//! The audit trail: notes as column values, the writes of those that stand alone, and pages of them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use hapax_core::{
    Action, Error, Kind, Note, NoteId, NotePage, NoteScan, RecordId, Space, Tenant, Time,
};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::columns::{self, Param, get};
use super::pipeline::{Request, pipeline};
use super::reader::{Answer, Reader, SET_TENANT, WRITE, checkout, command};
use super::session::Taken;

pub(super) const NOTE: &str = include_str!("../../sql/postgres/note.sql");
const NOTES: &str = include_str!("../../sql/postgres/notes.sql");
const NOTES_OF_KEY: &str = include_str!("../../sql/postgres/notes_of_key.sql");
const NOTES_OF_ACTION: &str = include_str!("../../sql/postgres/notes_of_action.sql");
const SWEEP_NOTES: &str = include_str!("../../sql/postgres/sweep_notes.sql");

/// The notes of one tenant, column by column.
pub(super) struct NoteColumns {
    tenant: Uuid,
    at: Vec<SystemTime>,
    action: Vec<&'static str>,
    actor: Vec<Option<String>>,
    key_id: Vec<Option<Uuid>>,
    route_pattern: Vec<Option<String>>,
    details: Vec<String>,
}

impl NoteColumns {
    /// The columns of these notes, which are all of this tenant.
    pub(super) fn of(tenant: Uuid, notes: &[&Note]) -> Self {
        fn column<T>(notes: &[&Note], value: impl Fn(&Note) -> T) -> Vec<T> {
            notes.iter().map(|note| value(note)).collect()
        }
        Self {
            tenant,
            at: column(notes, |note| columns::moment(note.at.as_ms())),
            action: column(notes, |note| note.action.as_str()),
            actor: column(notes, |note| {
                let actor = note.actor.as_ref();
                actor.map(|actor| actor.replace('\0', "\u{fffd}"))
            }),
            key_id: column(notes, |note| note.key_id.map(RecordId::as_uuid)),
            route_pattern: column(notes, |note| {
                note.space.as_ref().map(|space| space.as_str().to_owned())
            }),
            details: column(notes, |note| storable(&note.details)),
        }
    }

    /// The parameters of `note.sql`.
    pub(super) fn params(&self) -> Vec<Param<'_>> {
        vec![
            &self.tenant,
            &self.at,
            &self.action,
            &self.actor,
            &self.key_id,
            &self.route_pattern,
            &self.details,
        ]
    }
}

impl Reader {
    /// Adds notes that stand alone, all or none.
    pub(super) async fn note(&self, notes: &[Note]) -> Result<(), Error> {
        let operation = "adding to the audit trail";
        let mut tenants: BTreeMap<Tenant, Vec<&Note>> = BTreeMap::new();
        for note in notes {
            tenants.entry(note.tenant).or_default().push(note);
        }
        let tenants: Vec<NoteColumns> = tenants
            .iter()
            .map(|(tenant, notes)| NoteColumns::of(tenant.as_uuid(), notes))
            .collect();
        if tenants.is_empty() {
            return Ok(());
        }
        let client = checkout(&self.app, operation).await?;
        let run = async {
            let (set, add) = (
                self.ask(&client, SET_TENANT, Taken::App).await?,
                self.ask(&client, NOTE, Taken::App).await?,
            );
            let (pg, set, add): (&tokio_postgres::Client, _, _) = (&client, &set, &add);
            let mut requests: Vec<Request<'_, Answer>> = vec![self.begin(pg, WRITE, Taken::App)];
            for columns in &tenants {
                requests.push(Box::pin(
                    async move { set.query(pg, &[&columns.tenant]).await },
                ));
                requests.push(Box::pin(
                    async move { add.query(pg, &columns.params()).await },
                ));
            }
            requests.push(command(pg, "COMMIT"));
            pipeline(requests)
                .await
                .into_iter()
                .try_for_each(|answer| answer.map(drop))
        };
        let answer = tokio::time::timeout(self.limit, run).await;
        self.finished(operation, client, answer)
    }

    /// A page of one tenant's notes, newest first.
    pub(super) async fn notes(&self, scan: &NoteScan) -> Result<NotePage, Error> {
        let operation = "reading the audit trail";
        let tenant = scan.tenant.as_uuid();
        let limit = scan.limit.clamp(1, NoteScan::LIMIT_MAX);
        let (before, id) = match scan.after {
            Some((at, id)) => (columns::moment(at.as_ms()), id.0),
            None => (columns::end_of_time(), i64::MAX),
        };
        let action = scan.action.map(Action::as_str);
        // One more than asked tells whether there is a next page.
        let ask = i64::try_from(limit + 1).unwrap_or(i64::MAX);
        let key_id = scan.key_id.map(RecordId::as_uuid);
        let mut params: Vec<Param<'_>> = vec![&tenant, &before, &id, &action, &ask];
        let sql = match &key_id {
            Some(key_id) => {
                params.push(key_id);
                NOTES_OF_KEY
            }
            None if action.is_some() => NOTES_OF_ACTION,
            None => NOTES,
        };
        let rows = self
            .scoped(operation, SET_TENANT, &tenant, sql, &params)
            .await?;
        let more = rows.len() > limit;
        let mut page = NotePage::default();
        for row in rows.iter().take(limit) {
            let (id, note) = read(scan.tenant, row)?;
            page.next = more.then_some((note.at, id));
            page.notes.push(note);
        }
        Ok(page)
    }

    /// Removes the oldest notes from `until` and before. Returns how many.
    pub(super) async fn remove_notes(&self, until: Time, limit: i64) -> Result<usize, Error> {
        let until = columns::moment(until.as_ms());
        let rows = self
            .as_janitor("sweeping", SWEEP_NOTES, &[&until, &limit])
            .await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

fn read(tenant: Tenant, row: &Row) -> Result<(NoteId, Note), Error> {
    let (action, space): (String, Option<String>) = (get(row, 2)?, get(row, 5)?);
    let details: String = get(row, 6)?;
    let note = Note {
        tenant,
        at: get::<SystemTime>(row, 1)?.into(),
        action: Action::from_word(&action).ok_or_else(|| damaged("action", &action))?,
        actor: get(row, 3)?,
        key_id: get::<Option<Uuid>>(row, 4)?.map(RecordId::from_uuid),
        space: space
            .map(|space| Space::new(&space).map_err(|_| damaged("route_pattern", &space)))
            .transpose()?,
        // The database keeps objects in an order of its own.
        details: serde_json::from_str::<Value>(&details)
            .map_err(|error| Error::new(Kind::Corrupt, "reading a note").caused_by(error))?
            .to_string(),
    };
    Ok((NoteId(get(row, 0)?), note))
}

/// What the database takes as JSON. A note must never be the reason that a record is not written.
fn storable(details: &str) -> String {
    let is_object = serde_json::from_str::<Value>(details).is_ok_and(|value| value.is_object());
    if is_object && !details.contains("\\u0000") {
        return details.to_owned();
    }
    let shown = details.replace("\\u0000", "").replace('\0', "");
    Value::Object(
        [("text".to_owned(), Value::from(shown))]
            .into_iter()
            .collect(),
    )
    .to_string()
}

fn damaged(column: &str, value: &str) -> Error {
    Error::new(Kind::Corrupt, "reading a note").because(format!("{column} is {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_that_the_database_would_refuse_are_kept_as_text() {
        assert_eq!(storable(r#"{"a":1}"#), r#"{"a":1}"#);
        for refused in ["", "[1]", "{", "{\"a\":\"\\u0000\"}", "{\"a\":1e400}"] {
            let kept = storable(refused);
            assert!(!kept.contains("\\u0000"), "{kept}");
            assert!(serde_json::from_str::<Value>(&kept).unwrap().is_object());
        }
    }
}
