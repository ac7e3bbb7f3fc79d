//! Keeping payloads, one after the other: what is there is seen again, what is new becomes the current one.

use hapax_core::snapshot::{NewSnapshot, Put, Shelf};
use hapax_core::{Error, Time};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use uuid::Uuid;

use super::super::fault::Fault;
use super::super::jobs::keys::Keys;
use super::super::queue::Effect;
use super::rows::{open, sealed, tenant_bytes};
use crate::snapshot::{OBSERVATIONS_MAX, THERE, is_same, signed};

pub(super) const OF_HASH: &str = include_str!("../../../sql/sqlite/snapshot_of_hash.sql");
pub(super) const OF_ID: &str = include_str!("../../../sql/sqlite/snapshot_of_id.sql");
const INSERT: &str = include_str!("../../../sql/sqlite/snapshot_insert.sql");
const PAYLOAD_PUT: &str = include_str!("../../../sql/sqlite/snapshot_payload_put.sql");
const ALIAS_PUT: &str = include_str!("../../../sql/sqlite/snapshot_alias_put.sql");
const AGAIN: &str = include_str!("../../../sql/sqlite/snapshot_again.sql");
pub(super) const FILL: &str = include_str!("../../../sql/sqlite/snapshot_fill.sql");
const ENTITY_PUT: &str = include_str!("../../../sql/sqlite/entity_put.sql");
const OBSERVATION_PUT: &str = include_str!("../../../sql/sqlite/observation_put.sql");

/// What a payload weighs beside its texts, roughly.
const OVERHEAD_BYTES: usize = 512;

/// A payload to be kept, also in column form, made before the writer sees it.
pub(super) struct Fresh {
    new: NewSnapshot,
    column: String,
}

impl Fresh {
    pub(super) fn of(new: NewSnapshot, keys: &Keys) -> Result<Self, Error> {
        let column = sealed(keys, new.id, &new.payload)?;
        Ok(Self { new, column })
    }

    /// How much memory it holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        OVERHEAD_BYTES + self.new.payload.len() + self.column.len()
    }
}

/// What is stored under a hash or an id.
struct There {
    seq: i64,
    id: Uuid,
    collection: String,
    has_hash: bool,
    payload: String,
    current: Uuid,
}

/// Keeps the payloads one after the other.
pub(super) fn put_all(
    connection: &Connection,
    keys: &Keys,
    shelf: &Shelf,
    all: &[Fresh],
    now: Time,
) -> Result<(Vec<Put>, Effect), Fault> {
    let put = |fresh: &Fresh| put(connection, keys, shelf, fresh, now);
    let answers: Vec<Put> = all.iter().map(put).collect::<Result<_, _>>()?;
    let wrote = answers.iter().any(|one| *one != Put::Collision);
    Ok((answers, Effect { wrote, purged: 0 }))
}

fn put(
    connection: &Connection,
    keys: &Keys,
    shelf: &Shelf,
    fresh: &Fresh,
    now: Time,
) -> Result<Put, Fault> {
    let new = &fresh.new;
    let tenant = tenant_bytes(shelf.tenant);
    let hash = new.hash.as_bytes();
    let there = match there(
        connection,
        OF_HASH,
        params![tenant, &*shelf.collection, hash],
    )? {
        Some(there) => Some(there),
        None => self::there(connection, OF_ID, params![tenant, new.id.as_bytes()])?,
    };
    let Some(there) = there else {
        insert(connection, shelf, fresh, now)?;
        return Ok(Put::Kept {
            id: new.id,
            was_there: false,
            current: new.id,
        });
    };
    if there.collection != *shelf.collection {
        return Ok(Put::Collision);
    }
    let stored = open(connection, keys, there.id, there.payload)?;
    if !is_same(&stored, &new.payload) {
        return Ok(Put::Collision);
    }
    if !there.has_hash {
        // A row from before hashes, found by its id: now its hash is known.
        let mut fill = connection.prepare_cached(FILL)?;
        fill.execute(params![there.seq, hash, THERE])?;
        put_aliases(connection, shelf, there.seq, &new.aliases)?;
    }
    let mut again = connection.prepare_cached(AGAIN)?;
    let seen = again.query_row(params![there.seq, now.as_ms()], |row| row.get(0))?;
    observe(connection, shelf, there.seq, seen, new, now)?;
    Ok(Put::Kept {
        id: there.id,
        was_there: true,
        current: there.current,
    })
}

fn there(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<Option<There>> {
    let read = |row: &Row<'_>| {
        let state: String = row.get(3)?;
        let current: Option<[u8; 16]> = row.get(5)?;
        let id = Uuid::from_bytes(row.get(1)?);
        Ok(There {
            seq: row.get(0)?,
            id,
            collection: row.get(2)?,
            has_hash: state == THERE,
            payload: row.get(4)?,
            current: current.map_or(id, Uuid::from_bytes),
        })
    };
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row(params, read).optional()
}

fn insert(connection: &Connection, shelf: &Shelf, fresh: &Fresh, now: Time) -> Result<(), Fault> {
    let new = &fresh.new;
    let tenant = tenant_bytes(shelf.tenant);
    let (id, collection) = (new.id.as_bytes(), &*shelf.collection);
    let seq = connection.prepare_cached(INSERT)?.insert(params![
        tenant,
        collection,
        id,
        new.entity_id,
        new.label,
        new.hash.as_bytes(),
        now.as_ms(),
    ])?;
    connection
        .prepare_cached(PAYLOAD_PUT)?
        .execute(params![seq, fresh.column])?;
    put_aliases(connection, shelf, seq, &new.aliases)?;
    connection.prepare_cached(ENTITY_PUT)?.execute(params![
        tenant,
        collection,
        new.entity_id,
        new.label,
        seq,
        id,
        now.as_ms(),
    ])?;
    observe(connection, shelf, seq, 1, new, now)
}

/// Stores what older programs call the text of the snapshot with this number.
pub(super) fn put_aliases(
    connection: &Connection,
    shelf: &Shelf,
    seq: i64,
    aliases: &[(String, String)],
) -> rusqlite::Result<()> {
    let mut put = connection.prepare_cached(ALIAS_PUT)?;
    let tenant = tenant_bytes(shelf.tenant);
    for (nth, (profile, hash)) in aliases.iter().enumerate() {
        let params = params![seq, signed(nth), tenant, &*shelf.collection, profile, hash];
        put.execute(params)?;
    }
    Ok(())
}

/// Notes that the snapshot with this number was seen, for the `nth` time.
fn observe(
    connection: &Connection,
    shelf: &Shelf,
    seq: i64,
    nth: i64,
    new: &NewSnapshot,
    now: Time,
) -> Result<(), Fault> {
    connection
        .prepare_cached(OBSERVATION_PUT)?
        .execute(params![
            seq,
            nth % signed(OBSERVATIONS_MAX),
            tenant_bytes(shelf.tenant),
            nth,
            now.as_ms(),
            new.by,
            new.key_match,
        ])?;
    Ok(())
}
