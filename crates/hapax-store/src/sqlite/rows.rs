//! Reads rows: one by its id, and those a sweep is due for. Pages of them are in `pages`.

use std::collections::BTreeMap;

use hapax_core::{Error, Kind, RecordId, Sweep, Swept, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::fault::Fault;
use super::notes;
use super::queue::Effect;
use crate::memory::{before, cleanup};
use crate::row::Row;

const FIND: &str = include_str!("../../sql/sqlite/find.sql");
const SWEEP_DUE: &str = include_str!("../../sql/sqlite/sweep_due.sql");
const SWEEP_EXPIRE: &str = include_str!("../../sql/sqlite/sweep_expire.sql");
const SWEEP_FORGET: &str = include_str!("../../sql/sqlite/sweep_forget.sql");
const BODY_DROP: &str = include_str!("../../sql/sqlite/body_drop.sql");

/// The row with this id, if it is this tenant's.
pub(super) fn find(
    connection: &Connection,
    tenant: Tenant,
    id: RecordId,
) -> Result<Option<Row>, Fault> {
    let row = connection
        .prepare_cached(FIND)?
        .query_row(
            params![tenant.as_uuid().as_bytes(), id.as_uuid().as_bytes()],
            |row| Ok(read(row)),
        )
        .optional()?;
    row.transpose()
}

/// One bounded step of cleaning up at `now`.
pub(super) fn sweep(
    connection: &Connection,
    sweep: Sweep,
    now: Time,
) -> Result<(Swept, Effect), Fault> {
    let limit = sweep.limit.min(Sweep::LIMIT_MAX);
    let mut swept = Swept::default();
    let due = due(connection, now, limit)?;
    let mut tenants: BTreeMap<[u8; 16], Swept> = BTreeMap::new();
    for row in &due {
        let purge_at = Time::from_ms(row.expires_at).plus(sweep.grace).as_ms();
        connection
            .prepare_cached(SWEEP_EXPIRE)?
            .execute(params![row.rowid, purge_at])?;
        connection.prepare_cached(BODY_DROP)?.execute(params![
            row.tenant_id,
            row.id,
            None::<&str>
        ])?;
        let touched = tenants.entry(row.tenant_id).or_default();
        touched.expired += usize::from(!row.free);
        touched.retired += usize::from(row.free);
    }
    let left = i64::try_from(limit - due.len()).unwrap_or(0);
    for tenant in forget(connection, now, left)? {
        tenants.entry(tenant).or_default().forgotten += 1;
    }
    for (tenant, touched) in tenants {
        swept.expired += touched.expired;
        swept.retired += touched.retired;
        swept.forgotten += touched.forgotten;
        let tenant = Tenant::from_uuid(Uuid::from_bytes(tenant));
        notes::add(connection, &cleanup(tenant, now, touched))?;
    }
    swept.notes = notes::remove(connection, before(now, sweep.audit_keep), limit)?;
    let wrote = swept != Swept::default();
    // A cache goes by its record's time. Should the clock be set back, that time comes again; the content does not.
    let purged = u64::from(due.iter().any(|row| row.settled));
    Ok((swept, Effect { wrote, purged }))
}

/// Forgets rows whose grace is over. Returns whose they were.
fn forget(connection: &Connection, now: Time, limit: i64) -> rusqlite::Result<Vec<[u8; 16]>> {
    connection
        .prepare_cached(SWEEP_FORGET)?
        .query_map(params![now.as_ms(), limit], |row| row.get(0))?
        .collect()
}

struct Due {
    rowid: i64,
    tenant_id: [u8; 16],
    id: [u8; 16],
    free: bool,
    settled: bool,
    expires_at: i64,
}

fn due(connection: &Connection, now: Time, limit: usize) -> rusqlite::Result<Vec<Due>> {
    let mut statement = connection.prepare_cached(SWEEP_DUE)?;
    let rows = statement.query_map(
        params![now.as_ms(), i64::try_from(limit).unwrap_or(0)],
        |row| {
            Ok(Due {
                rowid: row.get(0)?,
                tenant_id: row.get(1)?,
                id: row.get(2)?,
                free: row.get_ref(3)?.as_str()? == "free",
                settled: row.get_ref(3)?.as_str()? == "settled",
                expires_at: row.get(4)?,
            })
        },
    )?;
    rows.collect()
}

/// How many bytes of packed bodies a row carries.
pub(super) fn bodies(row: &Row) -> usize {
    let length = |body: &Option<Vec<u8>>| body.as_ref().map_or(0, Vec::len);
    length(&row.request_body) + length(&row.response_body)
}

/// Reads the columns in the order of find.sql and scan.sql.
pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Row, Fault> {
    let request_body: Option<Vec<u8>> = row.get(18)?;
    let response_body: Option<Vec<u8>> = row.get(22)?;
    for (body, apart) in [
        (&request_body, row.get::<_, bool>(19)?),
        (&response_body, row.get(23)?),
    ] {
        if apart && body.is_none() {
            // Never taken for a body that was not kept: that would be answered as something else.
            let lost =
                Error::new(Kind::Corrupt, "reading a record").because("its large body is missing");
            return Err(lost.into());
        }
    }
    let lease_owner: Option<[u8; 16]> = row.get(11)?;
    Ok(Row {
        id: Uuid::from_bytes(row.get(0)?),
        tenant_id: Uuid::from_bytes(row.get(1)?),
        route_pattern: row.get(2)?,
        idempotency_key: row.get(3)?,
        version: row.get(4)?,
        state: row.get(5)?,
        fingerprint: row.get(6)?,
        principal: row.get(7)?,
        on_lost: row.get(8)?,
        lease_ms: row.get(9)?,
        epoch: row.get(10)?,
        lease_owner: lease_owner.map(Uuid::from_bytes),
        lease_until: row.get(12)?,
        doubt: row.get(13)?,
        content_hash: row.get(14)?,
        request_method: row.get(15)?,
        request_path: row.get(16)?,
        request_content_type: row.get(17)?,
        request_body,
        response_status_code: row.get(20)?,
        response_headers: row.get(21)?,
        response_body,
        created_at: row.get(24)?,
        expires_at: row.get(25)?,
        completed_at: row.get(26)?,
        subject: row.get(27)?,
        request_masks: row.get(28)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::SqliteOptions;
    use super::super::connection::{self, Role};
    use super::super::migrate;
    use super::*;

    #[test]
    fn every_read_goes_through_an_index_and_sorts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default();
        let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
        let mut connection = connection::open(&path, &options, Role::Writer).unwrap();
        migrate::migrate(&mut connection, options.clock.now()).unwrap();
        for (sql, index) in [
            (FIND, "sqlite_autoindex_idempotency_keys_1"),
            (notes::NOTES, "idx_audit_tenant"),
            (notes::NOTES_OF_ACTION, "idx_audit_action"),
            (notes::NOTES_OF_KEY, "idx_audit_key"),
            (notes::SWEEP_NOTES, "idx_audit_at"),
            (SWEEP_DUE, "idx_idempotency_expires"),
            (SWEEP_FORGET, "idx_idempotency_purge"),
        ] {
            let mut explain = connection
                .prepare(&["EXPLAIN QUERY PLAN ", sql].concat())
                .unwrap();
            let count = explain.parameter_count();
            let plan: Vec<String> = explain
                .query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(plan.iter().any(|step| step.contains(index)), "{plan:?}");
            assert!(
                plan.iter()
                    .all(|step| !step.contains("B-TREE") && !step.starts_with("SCAN")),
                "{plan:?}"
            );
        }
    }
}
