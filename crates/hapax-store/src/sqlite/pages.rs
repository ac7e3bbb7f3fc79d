//! Pages of rows, newest first. No more rows are looked at than the scan allows.

use hapax_core::{Error, Key, Kind, Page, Record, RecordId, Scan, Space, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, Rows, params};
use uuid::Uuid;

use super::fault::Fault;
use super::rows::{bodies, read};
use super::tenant_keys;
use crate::vault::Vault;

const SCAN: &str = include_str!("../../sql/sqlite/scan.sql");
const SCAN_FLOOR: &str = include_str!("../../sql/sqlite/scan_floor.sql");
const SCAN_SPACE: &str = include_str!("../../sql/sqlite/scan_space.sql");
const SCAN_SPACE_FLOOR: &str = include_str!("../../sql/sqlite/scan_space_floor.sql");
const SCAN_SUBJECT: &str = include_str!("../../sql/sqlite/scan_subject.sql");
const SPACES: &str = include_str!("../../sql/sqlite/spaces.sql");
const DOUBTS: &str = include_str!("../../sql/sqlite/doubts.sql");

/// A page ends early once it holds this much of bodies.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Before every id, and as an end behind none.
const NO_ID: &[u8] = &[];

/// Whether a page was filled before its rows ended.
struct Read {
    records: Vec<Record>,
    full: bool,
}

/// One page of a scan.
pub(super) fn scan(
    connection: &Connection,
    vault: Option<&Vault>,
    scan: &Scan,
    now: Time,
) -> Result<Page, Fault> {
    let seen = connection.unchecked_transaction()?;
    match scan.subject {
        Some(_) => of_subject(&seen, vault, scan, now),
        None => newest(&seen, vault, scan, now),
    }
}

fn newest(
    connection: &Connection,
    vault: Option<&Vault>,
    scan: &Scan,
    now: Time,
) -> Result<Page, Fault> {
    let (tenant, (before, id)) = (scan.tenant.as_uuid(), place(scan));
    let (tenant, id) = (tenant.as_bytes(), id.as_bytes());
    let space = scan.space.as_ref().map(Space::as_str);
    let looks_at = offset(scan);
    let floor: Option<(i64, [u8; 16])> = match space {
        None => connection
            .prepare_cached(SCAN_FLOOR)?
            .query_row(params![tenant, before, id, looks_at], pair)
            .optional()?,
        Some(space) => connection
            .prepare_cached(SCAN_SPACE_FLOOR)?
            .query_row(params![tenant, before, id, looks_at, space], pair)
            .optional()?,
    };
    let (from, from_id) = match &floor {
        Some((at, id)) => (*at, &id[..]),
        None => (i64::MIN, NO_ID),
    };
    let sql = if space.is_some() { SCAN_SPACE } else { SCAN };
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query(params![
        tenant,
        before,
        id,
        space,
        scan.state,
        ask(scan),
        now.as_ms(),
        from,
        from_id,
        scan.prefix.as_ref().map(Key::as_str),
        scan.prefix.as_ref().map(Key::beyond),
    ])?;
    let read = read_page(connection, vault, rows, scan)?;
    let last = read
        .records
        .last()
        .map(|record| (record.created_at, record.id));
    let floor =
        floor.map(|(at, id)| (Time::from_ms(at), RecordId::from_uuid(Uuid::from_bytes(id))));
    Ok(Page {
        next: if read.full { last } else { floor },
        records: read.records,
    })
}

fn of_subject(
    connection: &Connection,
    vault: Option<&Vault>,
    scan: &Scan,
    now: Time,
) -> Result<Page, Fault> {
    let (tenant, (before, id)) = (scan.tenant.as_uuid(), place(scan));
    let mut statement = connection.prepare_cached(SCAN_SUBJECT)?;
    let rows = statement.query(params![
        tenant.as_bytes(),
        before,
        id.as_bytes(),
        scan.space.as_ref().map(Space::as_str),
        scan.state,
        ask(scan),
        scan.subject.as_ref().map(hapax_core::Subject::as_bytes),
        now.as_ms()
    ])?;
    let read = read_page(connection, vault, rows, scan)?;
    let last = read.records.last().filter(|_| read.full);
    Ok(Page {
        next: last.map(|record| (record.created_at, record.id)),
        records: read.records,
    })
}

/// The spaces in which a tenant has rows, in order.
pub(super) fn spaces(
    connection: &Connection,
    tenant: Tenant,
    limit: usize,
) -> Result<Vec<Space>, Fault> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let tenant = tenant.as_uuid();
    let mut statement = connection.prepare_cached(SPACES)?;
    let mut rows = statement.query(params![tenant.as_bytes(), limit])?;
    let mut spaces = Vec::new();
    while let Some(row) = rows.next()? {
        let damaged = |why| Error::new(Kind::Corrupt, "listing spaces").caused_by(why);
        let name: String = row.get(0)?;
        spaces.push(Space::new(&name).map_err(damaged)?);
    }
    Ok(spaces)
}

/// How many of the newest rows are in doubt.
pub(super) fn doubts(
    connection: &Connection,
    tenant: Tenant,
    looks_at: usize,
    now: Time,
) -> Result<u64, Fault> {
    let looks_at = i64::try_from(looks_at).unwrap_or(i64::MAX);
    let tenant = tenant.as_uuid();
    let mut statement = connection.prepare_cached(DOUBTS)?;
    let params = params![tenant.as_bytes(), looks_at, now.as_ms()];
    let count: i64 = statement.query_row(params, |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn read_page(
    connection: &Connection,
    vault: Option<&Vault>,
    mut rows: Rows<'_>,
    scan: &Scan,
) -> Result<Read, Fault> {
    let limit = scan.limit.clamp(1, Scan::LIMIT_MAX);
    let (mut records, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if records.len() == limit || bytes > PAGE_BYTES_MAX {
            let full = true;
            return Ok(Read { records, full });
        }
        let row = read(row)?;
        bytes += bodies(&row);
        records.push(tenant_keys::open(connection, vault, row)?);
    }
    let full = false;
    Ok(Read { records, full })
}

/// Before which place the page begins.
fn place(scan: &Scan) -> (i64, Uuid) {
    match scan.after {
        Some((created_at, id)) => (created_at.as_ms(), id.as_uuid()),
        None => (i64::MAX, Uuid::max()),
    }
}

/// One more than the page holds tells whether there is another page.
fn ask(scan: &Scan) -> i64 {
    let limit = scan.limit.clamp(1, Scan::LIMIT_MAX);
    i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1
}

/// How many rows are skipped to come to the last one that is looked at.
fn offset(scan: &Scan) -> i64 {
    i64::try_from(scan.looks_at.max(1) - 1).unwrap_or(i64::MAX)
}

fn pair<T: rusqlite::types::FromSql>(row: &rusqlite::Row<'_>) -> rusqlite::Result<(T, [u8; 16])> {
    Ok((row.get(0)?, row.get(1)?))
}

#[cfg(test)]
mod tests {
    use super::super::connection::{self, Role};
    use super::super::{SqliteOptions, migrate};
    use super::*;

    #[test]
    fn every_page_is_found_through_an_index_and_sorts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default();
        let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
        let mut connection = connection::open(&path, &options, Role::Writer).unwrap();
        migrate::migrate(&mut connection, options.clock.now()).unwrap();
        for (sql, index) in [
            (
                SCAN,
                "INDEX idx_idempotency_created (tenant_id=? AND (created_at,id)>(?,?) AND (created_at,id)<(?,?))",
            ),
            (
                SCAN_FLOOR,
                "COVERING INDEX idx_idempotency_created (tenant_id=? AND (created_at,id)<(?,?))",
            ),
            (
                SCAN_SPACE,
                "INDEX idx_idempotency_route (tenant_id=? AND route_pattern=? AND (created_at,id)>(?,?)",
            ),
            (
                SCAN_SPACE_FLOOR,
                "COVERING INDEX idx_idempotency_route (tenant_id=? AND route_pattern=?",
            ),
            (
                SPACES,
                "COVERING INDEX idx_idempotency_route (tenant_id=? AND route_pattern>?)",
            ),
            (SCAN_SUBJECT, "INDEX idx_idempotency_subject"),
            (DOUBTS, "INDEX idx_idempotency_created (tenant_id=?)"),
        ] {
            let explain = ["EXPLAIN QUERY PLAN ", sql].concat();
            let mut explain = connection.prepare(&explain).unwrap();
            let blank = vec![rusqlite::types::Null; explain.parameter_count()];
            let steps = explain.query_map(rusqlite::params_from_iter(blank), |row| row.get(3));
            let plan: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
            assert!(
                plan.iter().any(|step| step.contains(index)),
                "{sql}: {plan:?}"
            );
            assert!(
                !plan.iter().any(|step| step.contains("B-TREE")),
                "{sql}: {plan:?}"
            );
        }
    }
}
