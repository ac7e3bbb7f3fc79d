//! Writes one move: the statement its kind calls for, and the large bodies beside the row.
//! It runs inside somebody's transaction and neither begins nor ends one.

use hapax_core::{Error, Kind, Record, State, ledger::Write};
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::fault::Fault;
use super::notes;
use super::pack::{Column, Packed};
use super::queue::{Done, Effect};
use super::rows;
use crate::row::{Applied, Row};

/// Writes a new row. Also what is filed is written by it.
pub(super) const INSERT: &str = include_str!("../../sql/sqlite/insert.sql");
const REPLACE: &str = include_str!("../../sql/sqlite/replace.sql");
const RENEW: &str = include_str!("../../sql/sqlite/renew.sql");
const SETTLE: &str = include_str!("../../sql/sqlite/settle.sql");
const BODY_PUT: &str = include_str!("../../sql/sqlite/body_put.sql");
const BODY_DROP: &str = include_str!("../../sql/sqlite/body_drop.sql");
const PURGE_COUNT: &str = include_str!("../../sql/sqlite/purge_count.sql");
const PURGE_RAISE: &str = include_str!("../../sql/sqlite/purge_raise.sql");
const CHECK: &str = include_str!("../../sql/sqlite/check.sql");
const PROBE_PUT: &str = include_str!("../../sql/sqlite/probe_put.sql");
const PROBE_DROP: &str = include_str!("../../sql/sqlite/probe_drop.sql");

/// Writes the moves one after the other.
pub(super) fn apply_all(
    connection: &Connection,
    moves: &[Packed],
) -> Result<(Vec<Applied>, Done), Fault> {
    let mut all = Vec::with_capacity(moves.len());
    let mut done = Done::from(Effect::default());
    for packed in moves {
        let applied = apply(connection, packed)?;
        if matches!(applied, Applied::Written) {
            done.effect.wrote = true;
            done.effect.purged += u64::from(packed.step.purges);
            done.erased |= erases(packed);
        }
        all.push(applied);
    }
    Ok((all, done))
}

fn erases(packed: &Packed) -> bool {
    matches!(packed.step.next.state, State::Erased)
}

/// Writes the move if the stored version is the expected one; otherwise reads what is stored.
pub(super) fn apply(connection: &Connection, packed: &Packed) -> Result<Applied, Fault> {
    let written = match packed.write {
        Write::Insert => insert(connection, packed)?,
        Write::Renew => renew(connection, packed)?,
        Write::Settle => settle(connection, packed)?,
        Write::Replace => replace(connection, packed)?,
    };
    if written {
        if let Some(note) = &packed.step.note {
            notes::add(connection, note)?;
        }
        return Ok(Applied::Written);
    }
    let next = &packed.step.next;
    stale(next, rows::find(connection, next.scope.tenant, next.id)?)
}

/// The answer to a move to `next` that came too late: what is stored.
pub(super) fn stale(next: &Record, stored: Option<Row>) -> Result<Applied, Fault> {
    match stored {
        Some(row)
            if row.route_pattern != next.scope.space.as_str()
                || row.idempotency_key != next.key.as_str() =>
        {
            Err(shared_id().into())
        }
        stored => Ok(Applied::Stale(stored.map(Box::new))),
    }
}

/// Why a move is refused whose id belongs to another key.
pub(super) fn shared_id() -> Error {
    Error::new(Kind::Corrupt, "moving a record").because("two keys share one id")
}

/// How often a settled outcome was taken back, as far as this transaction sees.
pub(super) fn purge_count(connection: &Connection) -> rusqlite::Result<u64> {
    let count: i64 = connection
        .prepare_cached(PURGE_COUNT)?
        .query_row([], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Counts outcomes taken back, above any number `shown` already. Returns the new count.
pub(super) fn raise_purge_count(
    connection: &Connection,
    shown: u64,
    by: u64,
) -> rusqlite::Result<u64> {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX / 2);
    let count: Option<i64> = connection
        .prepare_cached(PURGE_RAISE)?
        .query_row(params![signed(shown), signed(by)], |row| row.get(0))
        .optional()?;
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// Makes a write that changes nothing.
pub(super) fn check(connection: &Connection) -> Result<((), Effect), Fault> {
    written(connection, CHECK)
}

/// Takes as much room as a claim may need.
pub(super) fn take_room(connection: &Connection) -> Result<((), Effect), Fault> {
    written(connection, PROBE_PUT)
}

/// Gives back what [`take_room`] took.
pub(super) fn give_room_back(connection: &Connection) -> Result<((), Effect), Fault> {
    written(connection, PROBE_DROP)
}

fn written(connection: &Connection, sql: &str) -> Result<((), Effect), Fault> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok((
        (),
        Effect {
            wrote: true,
            purged: 0,
        },
    ))
}

fn insert(connection: &Connection, packed: &Packed) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(INSERT)?;
    bind(&mut statement, packed)?;
    let written = statement.raw_execute()? > 0;
    if written {
        put_bodies(connection, packed)?;
    }
    Ok(written)
}

fn replace(connection: &Connection, packed: &Packed) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(REPLACE)?;
    bind(&mut statement, packed)?;
    statement.raw_bind_parameter(30, packed.step.expect.map(|version| version.0))?;
    let written = statement.raw_execute()? > 0;
    if written {
        drop_bodies(connection, packed, None)?;
        put_bodies(connection, packed)?;
    }
    Ok(written)
}

fn renew(connection: &Connection, packed: &Packed) -> rusqlite::Result<bool> {
    let (step, next) = (&packed.step, &packed.step.next);
    let mut statement = connection.prepare_cached(RENEW)?;
    let changed = statement.execute(params![
        next.scope.tenant.as_uuid().as_bytes(),
        next.id.as_uuid().as_bytes(),
        next.scope.space.as_str(),
        next.key.as_str(),
        next.version.0,
        next.hold().map(|hold| hold.until.as_ms()),
        step.expect.map(|version| version.0),
    ])?;
    Ok(changed > 0)
}

fn settle(connection: &Connection, packed: &Packed) -> rusqlite::Result<bool> {
    let (step, next) = (&packed.step, &packed.step.next);
    let response = packed.response.as_ref();
    let body = response.and_then(|response| response.body.as_ref());
    let mut statement = connection.prepare_cached(SETTLE)?;
    let changed = statement.execute(params![
        next.scope.tenant.as_uuid().as_bytes(),
        next.id.as_uuid().as_bytes(),
        next.scope.space.as_str(),
        next.key.as_str(),
        next.version.0,
        response.map(|response| response.status),
        response.map(|response| response.headers.as_str()),
        body.and_then(Column::inline),
        body.and_then(Column::apart).is_some(),
        response.map(|response| response.completed_at),
        step.expect.map(|version| version.0),
    ])?;
    if changed == 0 {
        return Ok(false);
    }
    if step.purges {
        drop_bodies(connection, packed, Some("response"))?;
    }
    put_bodies(connection, packed)?;
    Ok(true)
}

/// Binds the parameters that inserting and replacing have in common.
fn bind(statement: &mut Statement<'_>, packed: &Packed) -> rusqlite::Result<()> {
    let next = &packed.step.next;
    let hold = next.hold();
    let doubt = match &next.state {
        State::InDoubt { reason, .. } => Some(reason.as_str()),
        State::Held(_) | State::Settled { .. } | State::Free | State::Expired | State::Erased => {
            None
        }
    };
    let request = packed.request.as_ref();
    let response = packed.response.as_ref();
    let body = response.and_then(|response| response.body.as_ref());
    statement.raw_bind_parameter(1, next.scope.tenant.as_uuid().as_bytes())?;
    statement.raw_bind_parameter(2, next.id.as_uuid().as_bytes())?;
    statement.raw_bind_parameter(3, next.scope.space.as_str())?;
    statement.raw_bind_parameter(4, next.key.as_str())?;
    statement.raw_bind_parameter(5, next.version.0)?;
    statement.raw_bind_parameter(6, next.state.as_str())?;
    statement.raw_bind_parameter(7, &packed.asked.fingerprint)?;
    statement.raw_bind_parameter(
        8,
        next.principal
            .as_ref()
            .map(|principal| principal.as_bytes().as_slice()),
    )?;
    statement.raw_bind_parameter(9, next.on_lost.as_str())?;
    statement.raw_bind_parameter(
        10,
        i64::try_from(next.lease.as_millis()).unwrap_or(i64::MAX),
    )?;
    statement.raw_bind_parameter(11, hold.map(|hold| hold.epoch.0.0))?;
    statement.raw_bind_parameter(12, hold.map(|hold| hold.owner.as_u128().to_be_bytes()))?;
    statement.raw_bind_parameter(13, hold.map(|hold| hold.until.as_ms()))?;
    statement.raw_bind_parameter(14, doubt)?;
    statement.raw_bind_parameter(15, packed.asked.content_hash.as_str())?;
    statement.raw_bind_parameter(16, next.request.method.as_str())?;
    statement.raw_bind_parameter(17, packed.asked.path.as_str())?;
    statement.raw_bind_parameter(18, next.request.content_type.as_str())?;
    statement.raw_bind_parameter(19, request.and_then(Column::inline))?;
    statement.raw_bind_parameter(20, request.and_then(Column::apart).is_some())?;
    statement.raw_bind_parameter(21, response.map(|response| response.status))?;
    statement.raw_bind_parameter(22, response.map(|response| response.headers.as_str()))?;
    statement.raw_bind_parameter(23, body.and_then(Column::inline))?;
    statement.raw_bind_parameter(24, body.and_then(Column::apart).is_some())?;
    statement.raw_bind_parameter(25, next.created_at.as_ms())?;
    statement.raw_bind_parameter(26, next.expires_at.as_ms())?;
    statement.raw_bind_parameter(27, response.map(|response| response.completed_at))?;
    statement.raw_bind_parameter(
        28,
        next.subject
            .as_ref()
            .map(|subject| subject.as_bytes().as_slice()),
    )?;
    statement.raw_bind_parameter(29, packed.asked.masks.as_deref())
}

fn put_bodies(connection: &Connection, packed: &Packed) -> rusqlite::Result<()> {
    let next = &packed.step.next;
    let response = packed
        .response
        .as_ref()
        .and_then(|response| response.body.as_ref());
    for (part, column) in [("request", packed.request.as_ref()), ("response", response)] {
        if let Some(body) = column.and_then(Column::apart) {
            let (tenant, id) = (next.scope.tenant.as_uuid(), next.id.as_uuid());
            connection.prepare_cached(BODY_PUT)?.execute(params![
                tenant.as_bytes(),
                id.as_bytes(),
                part,
                body
            ])?;
        }
    }
    Ok(())
}

fn drop_bodies(
    connection: &Connection,
    packed: &Packed,
    part: Option<&str>,
) -> rusqlite::Result<()> {
    let next = &packed.step.next;
    let (tenant, id) = (next.scope.tenant.as_uuid(), next.id.as_uuid());
    connection.prepare_cached(BODY_DROP)?.execute(params![
        tenant.as_bytes(),
        id.as_bytes(),
        part
    ])?;
    Ok(())
}
