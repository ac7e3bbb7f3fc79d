//! Lists and counts: pages for people, what polls ask, and what the reconciler looks at.

use std::collections::HashMap;

use hapax_core::job::judge::ABANDONED_AFTER;
use hapax_core::job::{JobId, JobKind, JobPage, JobScan, OpKey, Place, Stale, State, Tally};
use hapax_core::{Tenant, Time};
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::super::fault::Fault;
use super::ANSWER_BYTES_MAX;
use super::keys::Keys;
use super::lease::waiting_kinds;
use super::rows::{self, tenant, tenant_bytes, word};

pub(super) const KIND: &str = include_str!("../../../sql/sqlite/job_kind.sql");
pub(super) const PAGE: &str = include_str!("../../../sql/sqlite/job_page.sql");
pub(super) const PAGE_WORK: &str = include_str!("../../../sql/sqlite/job_page_work.sql");
pub(super) const PAGE_HELD: &str = include_str!("../../../sql/sqlite/job_page_held.sql");
pub(super) const PAGE_WAITING: &str = include_str!("../../../sql/sqlite/job_page_waiting.sql");
pub(super) const PAGE_DOUBT: &str = include_str!("../../../sql/sqlite/job_page_doubt.sql");
pub(super) const DOUBTFUL: &str = include_str!("../../../sql/sqlite/op_doubtful.sql");
pub(super) const TALLY: &str = include_str!("../../../sql/sqlite/job_tally.sql");
pub(super) const HELD: &str = include_str!("../../../sql/sqlite/job_held.sql");
pub(super) const IS_READY: &str = include_str!("../../../sql/sqlite/job_is_ready.sql");
pub(super) const IS_RESTED: &str = include_str!("../../../sql/sqlite/job_is_rested.sql");
pub(super) const TENANT_READY: &str = include_str!("../../../sql/sqlite/job_tenant_ready.sql");
pub(super) const TENANT_RESTING: &str = include_str!("../../../sql/sqlite/job_tenant_resting.sql");
pub(super) const STALE: &str = include_str!("../../../sql/sqlite/job_stale.sql");
pub(super) const STALE_ALL: &str = include_str!("../../../sql/sqlite/job_stale_all.sql");
pub(super) const STALE_OPS: &str = include_str!("../../../sql/sqlite/op_stale.sql");
pub(super) const STALE_OPS_ALL: &str = include_str!("../../../sql/sqlite/op_stale_all.sql");

/// One page of jobs, newest first.
pub(super) fn page(
    connection: &Connection,
    keys: &Keys,
    scan: &JobScan,
    now: Time,
) -> Result<JobPage, Fault> {
    let limit = scan.limit.clamp(1, JobScan::LIMIT_MAX);
    // One more than the page holds tells whether there is another page.
    let mut numbers = numbers(connection, scan, signed(limit + 1), now)?;
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.truncate(limit + 1);
    let mut page = JobPage::default();
    let mut bytes = 0;
    for seq in numbers {
        if page.jobs.len() == limit || bytes > ANSWER_BYTES_MAX {
            page.next = page.jobs.last().map(|job| job.seq);
            break;
        }
        if let Some(job) = rows::find_seq(connection, keys, seq)? {
            let length =
                |text: &Option<std::sync::Arc<str>>| text.as_ref().map_or(0, |text| text.len());
            bytes += length(&job.payload) + length(&job.result);
            page.jobs.push(job);
        }
    }
    Ok(page)
}

/// The numbers of at least the newest `ask` jobs that the scan lists, in no order.
fn numbers(
    connection: &Connection,
    scan: &JobScan,
    ask: i64,
    now: Time,
) -> Result<Vec<i64>, Fault> {
    let tenant = tenant_bytes(scan.tenant);
    let before = scan.before.unwrap_or(i64::MAX);
    let kind = scan.kind.as_ref().map(JobKind::as_str);
    let state = scan.state.map(State::as_str);
    let work = scan.work_id.as_deref();
    if let Some(waits_in) = &scan.waits_in {
        let params = params![tenant, waits_in, before, kind, ask];
        return Ok(column(connection, PAGE_WAITING, params)?);
    }
    if scan.in_doubt {
        let params = params![tenant, before, kind, ask];
        return Ok(column(connection, PAGE_DOUBT, params)?);
    }
    if scan.held {
        let params = params![tenant, before, now.as_ms(), kind, state, work, ask];
        return Ok(column(connection, PAGE_HELD, params)?);
    }
    if work.is_some() {
        let params = params![tenant, work, before, kind, state, ask];
        return Ok(column(connection, PAGE_WORK, params)?);
    }
    let kinds = match kind {
        Some(kind) => vec![kind.to_owned()],
        None => kinds(connection, tenant)?,
    };
    let states = scan.states();
    let mut numbers = Vec::new();
    for kind in &kinds {
        for state in &states {
            let params = params![tenant, kind, state.as_str(), before, ask];
            numbers.extend(column(connection, PAGE, params)?);
        }
    }
    Ok(numbers)
}

/// Every kind of which a tenant has jobs.
fn kinds(connection: &Connection, tenant: [u8; 16]) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(KIND)?;
    let mut kinds: Vec<String> = Vec::new();
    loop {
        let after = kinds.last().map_or("", String::as_str);
        let next = statement.query_row(params![tenant, after], |row| row.get(0));
        match next.optional()? {
            Some(next) => kinds.push(next),
            None => return Ok(kinds),
        }
    }
}

fn column(connection: &Connection, sql: &str, params: impl Params) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, |row| row.get(0))?;
    rows.collect()
}

/// How many operations of a tenant are in doubt, up to a number.
pub(super) fn doubtful(
    connection: &Connection,
    tenant: Tenant,
    at_most: u64,
) -> Result<u64, Fault> {
    let most = i64::try_from(at_most).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(DOUBTFUL)?;
    let count: i64 = statement.query_row(params![tenant_bytes(tenant), most], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// How many jobs a tenant has, by kind and state, each up to a number.
pub(super) fn tally(
    connection: &Connection,
    tenant: Tenant,
    at_most: u64,
    now: Time,
) -> Result<Vec<Tally>, Fault> {
    let tenant = tenant_bytes(tenant);
    let most = i64::try_from(at_most).unwrap_or(i64::MAX);
    let mut held: HashMap<(String, String), u64> = HashMap::new();
    let mut statement = connection.prepare_cached(HELD)?;
    let rows = statement.query_map(params![tenant, now.as_ms(), most], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    for row in rows {
        *held.entry(row?).or_default() += 1;
    }
    let mut statement = connection.prepare_cached(TALLY)?;
    let mut all = Vec::new();
    for kind in kinds(connection, tenant)? {
        for state in State::ALL {
            let params = params![tenant, kind, state.as_str(), most];
            let count: i64 = statement.query_row(params, |row| row.get(0))?;
            if count > 0 {
                let of = (kind.clone(), state.as_str().to_owned());
                all.push(Tally {
                    kind: word(JobKind::new(&kind))?,
                    state,
                    count: count.unsigned_abs(),
                    held: held.get(&of).copied().unwrap_or(0),
                });
            }
        }
    }
    Ok(all)
}

/// Tenants that have something to lease now.
pub(super) fn due(
    connection: &Connection,
    kinds: Option<&[JobKind]>,
    place: &Place,
    limit: usize,
    now: Time,
) -> Result<Vec<Tenant>, Fault> {
    let (mut due, mut after) = (Vec::new(), Vec::new());
    while due.len() < limit {
        let mut next: Option<[u8; 16]> = None;
        for sql in [TENANT_READY, TENANT_RESTING] {
            let mut statement = connection.prepare_cached(sql)?;
            let found: Option<[u8; 16]> = statement
                .query_row(params![after], |row| row.get(0))
                .optional()?;
            next = match (next, found) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        let Some(next) = next else { break };
        if has_due(connection, tenant(next), kinds, place, now)? {
            due.push(tenant(next));
        }
        after = next.to_vec();
    }
    Ok(due)
}

fn has_due(
    connection: &Connection,
    tenant: Tenant,
    kinds: Option<&[JobKind]>,
    place: &Place,
    now: Time,
) -> Result<bool, Fault> {
    let found;
    let kinds = if let Some(kinds) = kinds {
        kinds
    } else {
        found = waiting_kinds(connection, tenant, place)?;
        &found
    };
    let (tenant, place) = (tenant_bytes(tenant), place.as_str());
    for kind in kinds {
        let kind = kind.as_str();
        let mut is_ready = connection.prepare_cached(IS_READY)?;
        if is_ready.query_row(params![tenant, place, kind], |row| row.get(0))? {
            return Ok(true);
        }
        let mut is_rested = connection.prepare_cached(IS_RESTED)?;
        let params = params![tenant, place, kind, now.as_ms()];
        if is_rested.query_row(params, |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Leases that ran out, and operations that nobody can be at.
pub(super) fn stale(
    connection: &Connection,
    of: Option<Tenant>,
    limit: usize,
    now: Time,
) -> Result<Stale, Fault> {
    let (limit, now) = (signed(limit), now.as_ms());
    let long_ago = now.saturating_sub(i64::try_from(ABANDONED_AFTER.as_millis()).unwrap_or(0));
    let of = of.map(tenant_bytes);
    let mut leases = connection.prepare_cached(of.map_or(STALE_ALL, |_| STALE))?;
    let mut rows = match of {
        Some(of) => leases.query(params![of, now, limit])?,
        None => leases.query(params![now, limit])?,
    };
    let mut stale = Stale::default();
    while let Some(row) = rows.next()? {
        let id: String = row.get(1)?;
        let lease = (tenant(row.get(0)?), word(JobId::new(&id))?, row.get(2)?);
        stale.leases.push(lease);
    }
    let mut ops = connection.prepare_cached(of.map_or(STALE_OPS_ALL, |_| STALE_OPS))?;
    let mut rows = match of {
        Some(of) => ops.query(params![of, now, long_ago, limit])?,
        None => ops.query(params![now, long_ago, limit])?,
    };
    while let Some(row) = rows.next()? {
        let key: String = row.get(1)?;
        stale
            .ops
            .push((tenant(row.get(0)?), word(OpKey::new(&key))?));
    }
    Ok(stale)
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
