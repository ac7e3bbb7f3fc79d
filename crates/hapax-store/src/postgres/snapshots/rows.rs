//! Snapshots as columns, and rows of the database back into them. Payloads are sealed on the way. It runs no statement.

use std::borrow::Cow;

use hapax_core::snapshot::{Entity, Snapshot};
use hapax_core::{Error, Fingerprint, Kind, Tenant, Time};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::columns::get;
use crate::vault::{Ring, Seal, wanted_text};

const COLUMN: &str = "snapshot.payload";
/// Before a character that is not as it was given: itself, or the NUL, which the database does not take.
const MARK: char = '\u{2}';
const NUL: char = '\u{1}';

/// The column value for the payload of the snapshot with this id.
pub(in super::super) fn seal(
    ring: Option<&Ring>,
    tenant: Tenant,
    id: Uuid,
    payload: &str,
) -> Result<String, Error> {
    Seal::new(ring, tenant.as_uuid(), id).text(COLUMN, payload)
}

/// The payload of the snapshot with this id behind its column value.
pub(in super::super) fn open(
    ring: Option<&Ring>,
    tenant: Tenant,
    id: Uuid,
    column: String,
) -> Result<String, Error> {
    Seal::new(ring, tenant.as_uuid(), id).open_text(COLUMN, column)
}

/// The keys that these payloads are sealed under.
pub(super) fn wanted<'a>(columns: impl Iterator<Item = &'a str>) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = columns.filter_map(wanted_text).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The column value for a word of people: any text, found by its parts.
pub(super) fn word(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut column = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\0' => column.extend([MARK, NUL]),
            MARK => column.extend([MARK, MARK]),
            other => column.push(other),
        }
    }
    Cow::Owned(column)
}

/// The word behind a column value.
fn unword(column: String) -> String {
    if !column.contains(MARK) {
        return column;
    }
    let mut letters = column.chars();
    let mut text = String::with_capacity(column.len());
    while let Some(letter) = letters.next() {
        text.push(match letter {
            MARK if letters.next() == Some(NUL) => '\0',
            other => other,
        });
    }
    text
}

/// A word of people in a row.
pub(super) fn get_word(row: &Row, column: usize) -> Result<String, Error> {
    get(row, column).map(unword)
}

/// A word of people in a row, if there is one.
pub(super) fn get_word_if_any(row: &Row, column: usize) -> Result<Option<String>, Error> {
    Ok(get::<Option<String>>(row, column)?.map(unword))
}

/// A hash in a row, if there is one.
pub(super) fn get_hash(row: &Row, column: usize) -> Result<Option<Fingerprint>, Error> {
    let Some(bytes) = get::<Option<&[u8]>>(row, column)? else {
        return Ok(None);
    };
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|_| Error::new(Kind::Corrupt, "reading a snapshot").because("its hash is cut"))?;
    Ok(Some(Fingerprint::from_bytes(bytes)))
}

/// A time in a row.
pub(super) fn get_time(row: &Row, column: usize) -> Result<Time, Error> {
    get(row, column).map(Time::from_ms)
}

fn count(row: &Row, column: usize) -> Result<u64, Error> {
    Ok(get::<i64>(row, column)?.unsigned_abs())
}

/// The payload as it is stored, in a row of a statement that lists snapshots.
pub(super) fn payload(row: &Row) -> Result<&str, Error> {
    get(row, 5)
}

/// A row of a statement that lists snapshots.
pub(super) fn snapshot(row: &Row, ring: Option<&Ring>, tenant: Tenant) -> Result<Snapshot, Error> {
    let id = get(row, 1)?;
    let (profiles, hashes): (Vec<String>, Vec<String>) = (get(row, 6)?, get(row, 7)?);
    let current: Option<bool> = get(row, 11)?;
    Ok(Snapshot {
        id,
        entity_id: get_word(row, 2)?,
        label: get_word_if_any(row, 3)?,
        hash: get_hash(row, 4)?,
        payload: open(ring, tenant, id, get(row, 5)?)?.into(),
        aliases: profiles.into_iter().zip(hashes).collect(),
        created_at: get_time(row, 8)?,
        seq: get(row, 0)?,
        seen_at: get_time(row, 9)?,
        seen: count(row, 10)?,
        current: current.unwrap_or(false),
    })
}

/// A row of a statement that lists entities.
pub(super) fn entity(row: &Row, ring: Option<&Ring>, tenant: Tenant) -> Result<Entity, Error> {
    let current = snapshot(row, ring, tenant)?;
    Ok(Entity {
        id: current.entity_id.clone(),
        current,
        label: get_word_if_any(row, 12)?,
        snapshots: count(row, 13)?,
        created_at: get_time(row, 14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_word_comes_back_and_none_holds_a_nul() {
        for text in [
            "",
            "plain",
            "a\0b",
            "\0",
            "\u{2}",
            "\u{2}\u{1}",
            "\u{1}\0\u{2}\0é",
        ] {
            let column = word(text).into_owned();
            assert!(!column.contains('\0'), "{column:?}");
            assert_eq!(unword(column), text);
        }
    }
}
