//! Batches: made once for an id, listed, due, and changed one version after the other.

use std::collections::BTreeMap;

use hapax_core::entry::{
    Batch, BatchState, DueBatch, ItemStatus, NewBatch, Provider, Schema, Target,
};
use hapax_core::{Error, Kind, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::super::fault::Fault;
use super::super::super::queue::Effect;
use super::super::rows::{json, tenant_bytes};
use super::super::statements::Statements;
use super::super::{WROTE, policies};
use super::effect;
use crate::t1::{After, Prepared, in_turn, newest, page, status_of, unreadable};

/// A batch and its number in its home.
type Numbered = (i64, Batch);

/// Writes a batch and its items to where `target` points now, unless there is one with its id.
pub(super) fn add(
    connection: &Connection,
    tenant: Tenant,
    target: Target,
    new: &NewBatch,
    items: &[Prepared],
    now: Time,
) -> Result<(Batch, Effect), Fault> {
    if let Some(batch) = find(connection, tenant, new.id)? {
        return Ok((batch, effect(false)));
    }
    let schema = policies::schema(connection, tenant, target)?;
    let sql = Statements::of(schema);
    let (tenant_id, batch_id) = (tenant_bytes(tenant), new.id.into_bytes());
    connection
        .prepare_cached(&sql.batch_insert)?
        .execute(params![
            batch_id,
            tenant_id,
            None::<[u8; 16]>,
            new.completion_window,
            i64::try_from(items.len()).unwrap_or(i64::MAX),
            Value::Object(new.metadata.clone()).to_string(),
            now.as_ms(),
        ])?;
    let mut insert = connection.prepare_cached(&sql.item_insert)?;
    for item in items {
        insert.execute(params![
            tenant_id,
            batch_id,
            item.entry_id,
            item.hash.as_bytes(),
            item.request.as_ref().map(Value::to_string),
            now.as_ms(),
        ])?;
    }
    let missing =
        || Error::new(Kind::Corrupt, "keeping a batch").because("what was just written is missing");
    let (_, batch) = find_in(connection, tenant, schema, new.id)?.ok_or_else(missing)?;
    Ok((batch, WROTE))
}

/// The batch with this id, in whichever home it is.
pub(super) fn find(
    connection: &Connection,
    tenant: Tenant,
    id: Uuid,
) -> Result<Option<Batch>, Fault> {
    let found = find_either(connection, tenant, id)?;
    Ok(found.map(|(_, batch)| batch))
}

/// A page of batches, newest first.
pub(super) fn list(
    connection: &Connection,
    tenant: Tenant,
    schema: Option<Schema>,
    include_terminal: bool,
    after: Option<Uuid>,
    limit: usize,
) -> Result<Vec<Batch>, Fault> {
    let after = match after {
        None => None,
        Some(id) => match find_either(connection, tenant, id)? {
            // Nothing comes after what is not there.
            None => return Ok(Vec::new()),
            Some((seq, batch)) => Some(After {
                created_at: batch.created_at,
                schema: batch.schema,
                seq,
            }),
        },
    };
    let mut homes = Vec::new();
    for home in Schema::ALL {
        if schema.is_some_and(|schema| schema != home) {
            continue;
        }
        let sql = Statements::of(home);
        let mut list = connection.prepare_cached(if include_terminal {
            &sql.batch_newest
        } else {
            &sql.batch_live
        })?;
        let (before, seq) = after.as_ref().map_or_else(
            || (Time::from_ms(i64::MAX), i64::MAX),
            |after| after.bound(home),
        );
        let params = params![tenant_bytes(tenant), before.as_ms(), seq, page(limit)];
        let found = list.query_and_then(params, |row| read(connection, tenant, home, row))?;
        let found = found.map(|found| found.map(|(_, batch)| batch));
        homes.push(found.collect::<Result<Vec<Batch>, Fault>>()?);
    }
    Ok(newest(homes, limit))
}

/// Batches of all tenants and both homes whose time has come.
pub(super) fn due(
    connection: &Connection,
    limit: usize,
    now: Time,
) -> Result<Vec<DueBatch>, Fault> {
    let [real, test] = Schema::ALL.map(|schema| due_in(connection, schema, limit, now));
    Ok(in_turn([real?, test?], limit))
}

fn due_in(
    connection: &Connection,
    schema: Schema,
    limit: usize,
    now: Time,
) -> Result<Vec<(Time, DueBatch)>, Fault> {
    let mut list = connection.prepare_cached(&Statements::of(schema).batch_due)?;
    let params = params![now.as_ms(), page(limit)];
    let due = list.query_and_then(params, |row| -> Result<_, Fault> {
        let batch = DueBatch {
            tenant: Tenant::from_uuid(Uuid::from_bytes(row.get(1)?)),
            schema,
            id: Uuid::from_bytes(row.get(2)?),
            status: status_of(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?,
            attempt: row.get(4)?,
        };
        Ok((Time::from_ms(row.get(0)?), batch))
    })?;
    due.collect()
}

/// Changes the state of the batch with this id, if its version is this one.
pub(super) fn change(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    (id, version): (Uuid, i64),
    state: &BatchState,
    now: Time,
) -> Result<(Option<Batch>, Effect), Fault> {
    let provider = &state.provider;
    let mut change = connection.prepare_cached(&Statements::of(schema).batch_change)?;
    let changed = change.execute(params![
        tenant_bytes(tenant),
        id.as_bytes(),
        version,
        state.status.as_str(),
        state.attempt,
        state.failures,
        state.next_at.as_ms(),
        state.model,
        provider.batch_id,
        provider.status,
        provider.input_file,
        provider.output_file,
        provider.error_file,
        state.error,
        now.as_ms(),
    ])?;
    if changed == 0 {
        return Ok((None, effect(false)));
    }
    if state.status.is_terminal() {
        super::questions::stop(connection, tenant, id)?;
    }
    let found = find_in(connection, tenant, schema, id)?;
    Ok((found.map(|(_, batch)| batch), WROTE))
}

fn find_either(
    connection: &Connection,
    tenant: Tenant,
    id: Uuid,
) -> Result<Option<Numbered>, Fault> {
    for schema in Schema::ALL {
        if let Some(found) = find_in(connection, tenant, schema, id)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn find_in(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    id: Uuid,
) -> Result<Option<Numbered>, Fault> {
    let mut find = connection.prepare_cached(&Statements::of(schema).batch_find)?;
    let params = params![tenant_bytes(tenant), id.as_bytes()];
    let found = find.query_row(params, |row| Ok(read(connection, tenant, schema, row)));
    found.optional()?.transpose()
}

/// Reads the columns in the order of the statements that find batches.
fn read(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    row: &rusqlite::Row<'_>,
) -> Result<Numbered, Fault> {
    let id = Uuid::from_bytes(row.get(1)?);
    let import_id: Option<[u8; 16]> = row.get(2)?;
    let status: String = row.get(3)?;
    let metadata: Option<String> = row.get(6)?;
    let state = BatchState {
        status: status_of(&status)?,
        attempt: row.get(11)?,
        failures: row.get(12)?,
        next_at: Time::from_ms(row.get(13)?),
        model: row.get(14)?,
        provider: Provider {
            batch_id: row.get(15)?,
            status: row.get(16)?,
            input_file: row.get(17)?,
            output_file: row.get(18)?,
            error_file: row.get(19)?,
        },
        error: row.get(7)?,
    };
    let batch = Batch {
        id,
        schema,
        import_id: import_id.map(Uuid::from_bytes),
        completion_window: row.get(4)?,
        metadata: members(metadata.as_deref())?,
        request_count: unsigned(row.get(5)?),
        items: counts(connection, tenant, schema, id)?,
        state,
        version: row.get(10)?,
        created_at: Time::from_ms(row.get(8)?),
        updated_at: Time::from_ms(row.get(9)?),
    };
    Ok((row.get(0)?, batch))
}

fn members(text: Option<&str>) -> Result<Map<String, Value>, Error> {
    match text.map(json).transpose()? {
        None => Ok(Map::new()),
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(unreadable("metadata")),
    }
}

fn counts(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    batch: Uuid,
) -> Result<BTreeMap<ItemStatus, u64>, Fault> {
    let mut count = connection.prepare_cached(&Statements::of(schema).item_count)?;
    let params = params![tenant_bytes(tenant), batch.as_bytes()];
    let counts = count.query_and_then(params, |row| -> Result<_, Fault> {
        let status: String = row.get(0)?;
        Ok((status_of(&status)?, unsigned(row.get(1)?)))
    })?;
    counts.collect()
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

const OPEN: &str = include_str!("../../../../sql/sqlite/t1_batch_open.sql");

/// How many batches of a tenant did not end, each home's counted up to a number.
pub(super) fn count_open(
    connection: &Connection,
    tenant: Tenant,
    at_most: u64,
) -> Result<u64, Fault> {
    let most = i64::try_from(at_most).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(OPEN)?;
    let params = params![tenant_bytes(tenant), most];
    let count: i64 = statement.query_row(params, |row| row.get(0))?;
    Ok(count.unsigned_abs())
}
