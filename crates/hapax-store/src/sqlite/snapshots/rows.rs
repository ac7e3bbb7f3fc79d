//! What is read of snapshots: one, an entity's, entities, and who saw them.

use std::sync::Arc;

use hapax_core::snapshot::{Entity, EntityScan, Observation, Shelf, Snapshot};
use hapax_core::{Error, Fingerprint, Kind, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::super::fault::Fault;
use super::super::jobs::keys::{Keys, Spot};
use crate::snapshot::{OBSERVATIONS_MAX, page, signed};

pub(super) const FIND: &str = include_str!("../../../sql/sqlite/snapshot_find.sql");
pub(super) const FIND_SEQ: &str = include_str!("../../../sql/sqlite/snapshot_find_seq.sql");
pub(super) const LIST: &str = include_str!("../../../sql/sqlite/snapshot_list.sql");
pub(super) const ALIASES: &str = include_str!("../../../sql/sqlite/snapshot_alias_list.sql");
pub(super) const ENTITY: &str = include_str!("../../../sql/sqlite/entity_find.sql");
pub(super) const ENTITIES: &str = include_str!("../../../sql/sqlite/entity_list.sql");
pub(super) const OBSERVATIONS: &str = include_str!("../../../sql/sqlite/observation_list.sql");

/// The snapshot with this id.
pub(super) fn find(
    connection: &Connection,
    keys: &Keys,
    shelf: &Shelf,
    id: Uuid,
) -> Result<Option<Snapshot>, Fault> {
    let mut statement = connection.prepare_cached(FIND)?;
    let params = params![
        tenant_bytes(shelf.tenant),
        &*shelf.collection,
        id.as_bytes()
    ];
    let found = statement.query_row(params, |row| Ok(read(connection, keys, row)));
    found.optional()?.transpose()
}

/// The snapshots of an entity, newest first.
pub(super) fn list(
    connection: &Connection,
    keys: &Keys,
    shelf: &Shelf,
    entity: &str,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<Snapshot>, Fault> {
    let mut statement = connection.prepare_cached(LIST)?;
    let params = params![
        tenant_bytes(shelf.tenant),
        &*shelf.collection,
        entity,
        before.unwrap_or(i64::MAX),
        page(limit),
    ];
    statement
        .query_and_then(params, |row| read(connection, keys, row))?
        .collect()
}

/// The entity with this id.
pub(super) fn entity(
    connection: &Connection,
    keys: &Keys,
    shelf: &Shelf,
    id: &str,
) -> Result<Option<Entity>, Fault> {
    let mut statement = connection.prepare_cached(ENTITY)?;
    let params = params![tenant_bytes(shelf.tenant), &*shelf.collection, id];
    let found = statement.query_row(params, |row| Ok(read_entity(connection, keys, row)));
    found.optional()?.transpose()
}

/// A page of entities.
pub(super) fn entities(
    connection: &Connection,
    keys: &Keys,
    shelf: &Shelf,
    scan: &EntityScan,
) -> Result<Vec<Entity>, Fault> {
    let mut statement = connection.prepare_cached(ENTITIES)?;
    let params = params![
        tenant_bytes(shelf.tenant),
        &*shelf.collection,
        scan.search,
        page(scan.limit),
        signed(scan.offset),
    ];
    statement
        .query_and_then(params, |row| read_entity(connection, keys, row))?
        .collect()
}

/// Who saw a snapshot when.
pub(super) fn observations(
    connection: &Connection,
    shelf: &Shelf,
    id: Uuid,
    limit: usize,
) -> Result<Vec<Observation>, Fault> {
    let mut statement = connection.prepare_cached(OBSERVATIONS)?;
    let params = params![
        tenant_bytes(shelf.tenant),
        &*shelf.collection,
        id.as_bytes(),
        signed(limit.min(OBSERVATIONS_MAX)),
    ];
    let read = |row: &Row<'_>| {
        Ok(Observation {
            at: Time::from_ms(row.get(0)?),
            by: row.get(1)?,
            key_match: row.get(2)?,
        })
    };
    let rows = statement.query_map(params, read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The tenant as it is stored.
pub(super) fn tenant_bytes(tenant: Tenant) -> [u8; 16] {
    tenant.as_uuid().into_bytes()
}

/// The column value for the payload of this snapshot.
pub(super) fn sealed(keys: &Keys, id: Uuid, payload: &str) -> Result<String, Error> {
    keys.seal(spot(&id.to_string()), payload)
}

/// The payload of this snapshot behind its column value.
pub(super) fn open(
    connection: &Connection,
    keys: &Keys,
    id: Uuid,
    column: String,
) -> Result<Arc<str>, Fault> {
    keys.open(connection, spot(&id.to_string()), column)
}

fn spot(id: &str) -> Spot<'_> {
    Spot {
        table: "snapshot",
        id,
        column: "payload",
    }
}

/// Reads the columns in the order of the statements that find snapshots.
fn read(connection: &Connection, keys: &Keys, row: &Row<'_>) -> Result<Snapshot, Fault> {
    let (seq, id): (i64, [u8; 16]) = (row.get(0)?, row.get(1)?);
    let id = Uuid::from_bytes(id);
    let hash: Option<[u8; 32]> = row.get(4)?;
    let seen: i64 = row.get(8)?;
    let current: Option<bool> = row.get(9)?;
    let mut aliases = connection.prepare_cached(ALIASES)?;
    let aliases = aliases.query_map([seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Snapshot {
        id,
        entity_id: row.get(2)?,
        label: row.get(3)?,
        hash: hash.map(Fingerprint::from_bytes),
        payload: open(connection, keys, id, row.get(5)?)?,
        aliases: aliases.collect::<rusqlite::Result<_>>()?,
        created_at: Time::from_ms(row.get(6)?),
        seq,
        seen_at: Time::from_ms(row.get(7)?),
        seen: seen.unsigned_abs(),
        current: current.unwrap_or(false),
    })
}

fn read_entity(connection: &Connection, keys: &Keys, row: &Row<'_>) -> Result<Entity, Fault> {
    let mut statement = connection.prepare_cached(FIND_SEQ)?;
    let seq: i64 = row.get(4)?;
    let current = statement.query_row([seq], |row| Ok(read(connection, keys, row)));
    let missing = || {
        Error::new(Kind::Corrupt, "reading an entity").because("its current snapshot is missing")
    };
    let snapshots: i64 = row.get(2)?;
    Ok(Entity {
        id: row.get(0)?,
        label: row.get(1)?,
        current: current.optional()?.ok_or_else(missing)??,
        snapshots: snapshots.unsigned_abs(),
        created_at: Time::from_ms(row.get(3)?),
    })
}
