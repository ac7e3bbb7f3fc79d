//! The audit trail: notes are added, listed and, after their time, removed. None is ever changed.

use hapax_core::{Action, Error, Kind, Note, NoteId, NotePage, NoteScan, RecordId, Space, Time};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::fault::Fault;
use super::queue::Effect;

const NOTE: &str = include_str!("../../sql/sqlite/note.sql");
pub(super) const NOTES: &str = include_str!("../../sql/sqlite/notes.sql");
pub(super) const NOTES_OF_KEY: &str = include_str!("../../sql/sqlite/notes_of_key.sql");
pub(super) const NOTES_OF_ACTION: &str = include_str!("../../sql/sqlite/notes_of_action.sql");
pub(super) const SWEEP_NOTES: &str = include_str!("../../sql/sqlite/sweep_notes.sql");

/// Adds one note, in the transaction of whatever it is about.
pub(super) fn add(connection: &Connection, note: &Note) -> rusqlite::Result<()> {
    let key_id = note.key_id.map(RecordId::as_uuid);
    connection.prepare_cached(NOTE)?.execute(params![
        note.tenant.as_uuid().as_bytes(),
        note.at.as_ms(),
        note.action.as_str(),
        note.actor,
        key_id.as_ref().map(Uuid::as_bytes),
        note.space.as_ref().map(Space::as_str),
        note.details,
    ])?;
    Ok(())
}

/// Adds notes that are about nothing else.
pub(super) fn add_all(connection: &Connection, notes: &[Note]) -> Result<((), Effect), Fault> {
    for note in notes {
        add(connection, note)?;
    }
    let effect = Effect {
        wrote: !notes.is_empty(),
        purged: 0,
    };
    Ok(((), effect))
}

/// How much memory a note holds, roughly.
pub(super) fn bytes(note: &Note) -> usize {
    size_of::<Note>() + note.details.len() + note.actor.as_ref().map_or(0, String::len)
}

/// One page of a tenant's trail.
pub(super) fn scan(connection: &Connection, scan: &NoteScan) -> Result<NotePage, Fault> {
    let limit = scan.limit.clamp(1, NoteScan::LIMIT_MAX);
    let (before, id) = match scan.after {
        Some((at, id)) => (at.as_ms(), id.0),
        None => (i64::MAX, i64::MAX),
    };
    let tenant = scan.tenant.as_uuid();
    let tenant = tenant.as_bytes();
    let action = scan.action.map(Action::as_str);
    // One more than the page holds tells whether there is another page.
    let ask = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
    let key_id = scan.key_id.map(RecordId::as_uuid);
    let mut statement = connection.prepare_cached(match (key_id, action) {
        (Some(_), _) => NOTES_OF_KEY,
        (None, Some(_)) => NOTES_OF_ACTION,
        (None, None) => NOTES,
    })?;
    let mut rows = match &key_id {
        Some(key_id) => {
            statement.query(params![tenant, before, id, action, ask, key_id.as_bytes()])?
        }
        None => statement.query(params![tenant, before, id, action, ask])?,
    };
    let mut page = NotePage::default();
    let mut last = None;
    while let Some(row) = rows.next()? {
        if page.notes.len() == limit {
            page.next = last;
            break;
        }
        let (id, at) = (NoteId(row.get(0)?), Time::from_ms(row.get(1)?));
        let (action, space): (String, Option<String>) = (row.get(2)?, row.get(5)?);
        let key_id: Option<[u8; 16]> = row.get(4)?;
        page.notes.push(Note {
            tenant: scan.tenant,
            at,
            action: Action::from_word(&action).ok_or_else(|| damaged("action", &action))?,
            actor: row.get(3)?,
            key_id: key_id.map(|bytes| RecordId::from_uuid(Uuid::from_bytes(bytes))),
            space: space
                .map(|space| Space::new(&space).map_err(|_| damaged("route_pattern", &space)))
                .transpose()?,
            details: row.get(6)?,
        });
        last = Some((at, id));
    }
    Ok(page)
}

/// Removes the oldest notes from `until` and before. Returns how many.
pub(super) fn remove(
    connection: &Connection,
    until: Time,
    limit: usize,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(SWEEP_NOTES)?
        .execute(params![until.as_ms(), i64::try_from(limit).unwrap_or(0)])
}

fn damaged(column: &str, value: &str) -> Error {
    Error::new(Kind::Corrupt, "reading a note").because(format!("{column} is {value}"))
}
