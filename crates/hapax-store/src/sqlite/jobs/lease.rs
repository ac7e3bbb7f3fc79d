//! Leasing: what is due, in its order, however much waits, rests or is finished beside it.

use std::time::Duration;

use hapax_core::job::{Ask, Job, JobKind, Place, Taken, take};
use hapax_core::{Kind, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::fault::Fault;
use super::super::queue::Effect;
use super::ANSWER_BYTES_MAX;
use super::keys::Keys;
use super::lists::IS_RESTED;
use super::rows::{self, tenant_bytes, word};

pub(super) const RESTED: &str = include_str!("../../../sql/sqlite/job_rested.sql");
pub(super) const READY: &str = include_str!("../../../sql/sqlite/job_ready.sql");
const POSTPONE: &str = include_str!("../../../sql/sqlite/job_postpone.sql");
pub(super) const KIND_READY: &str = include_str!("../../../sql/sqlite/job_kind_ready.sql");
pub(super) const KIND_RESTING: &str = include_str!("../../../sql/sqlite/job_kind_resting.sql");

/// How many jobs of a kind one lease brings back from their rest at most. Beyond it the order among those that
/// come back is that of their rests.
const RESTED_MAX: i64 = 10_000;
/// How often one lease looks again for those it could not give, because it gave them up.
const ROUNDS_MAX: usize = 64;
/// How long a job that cannot be read is put off.
const UNREADABLE_FOR: Duration = Duration::from_secs(3600);
/// How many jobs of a kind a round looks at, at least.
const LOOK_MIN: usize = 16;

/// Leases what is due, and gives up what ran out too often.
pub(super) fn lease(
    connection: &Connection,
    keys: &Keys,
    tenant: Tenant,
    ask: &Ask,
    now: Time,
) -> Result<(Vec<Job>, Effect), Fault> {
    let limit = ask.limit.min(Ask::LIMIT_MAX);
    let kinds = match &ask.kinds {
        Some(kinds) => {
            let mut kinds = kinds.clone();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        }
        None => waiting_kinds(connection, tenant, &ask.place)?,
    };
    let mut effect = Effect::default();
    for kind in &kinds {
        effect.wrote |= rested(connection, tenant, &ask.place, kind, now)?;
    }
    let (mut leased, mut bytes) = (Vec::new(), 0);
    for _ in 0..ROUNDS_MAX {
        let look = (limit - leased.len()).max(LOOK_MIN);
        let first = first(connection, tenant, &ask.place, &kinds, look)?;
        let seen_all = first.is_empty();
        for seq in first {
            if leased.len() == limit || bytes > ANSWER_BYTES_MAX {
                return Ok((leased, effect));
            }
            effect.wrote = true;
            let Some(job) = readable(connection, keys, seq, now)? else {
                continue;
            };
            if job.is_held(now) {
                // The clock was set back since its lease ran out: it rests again.
                rows::write(connection, keys, &job, &job, now)?;
                continue;
            }
            match take(&job, &ask.owner, ask.ttl, now) {
                Taken::Leased(next) => {
                    rows::write(connection, keys, &job, &next, now)?;
                    bytes += next.payload.as_ref().map_or(0, |payload| payload.len());
                    leased.push(next);
                }
                Taken::Dead(next) => {
                    rows::write(connection, keys, &job, &next, now)?;
                }
            }
        }
        if seen_all || leased.len() == limit {
            break;
        }
    }
    Ok((leased, effect))
}

/// The job with this number. One that cannot be read, because its key was deleted or it was damaged, is put off
/// with its error in the log: it must not keep the others from being leased.
fn readable(
    connection: &Connection,
    keys: &Keys,
    seq: i64,
    now: Time,
) -> Result<Option<Job>, Fault> {
    match rows::find_seq(connection, keys, seq) {
        Err(Fault::Own(error)) if error.kind() == Kind::Corrupt => {
            tracing::error!(seq, %error, "a job cannot be read, so it is not leased");
            let later = now.plus(UNREADABLE_FOR).as_ms();
            connection
                .prepare_cached(POSTPONE)?
                .execute(params![seq, later])?;
            Ok(None)
        }
        read => read,
    }
}

/// Marks jobs ready whose rest is over; whether there were any.
fn rested(
    connection: &Connection,
    tenant: Tenant,
    place: &Place,
    kind: &JobKind,
    now: Time,
) -> Result<bool, Fault> {
    // Marking is dear even when there is nothing to mark, and that is so at most leases.
    let is_any: bool = connection.prepare_cached(IS_RESTED)?.query_row(
        params![
            tenant_bytes(tenant),
            place.as_str(),
            kind.as_str(),
            now.as_ms()
        ],
        |row| row.get(0),
    )?;
    if !is_any {
        return Ok(false);
    }
    let marked = connection.prepare_cached(RESTED)?.execute(params![
        tenant_bytes(tenant),
        place.as_str(),
        kind.as_str(),
        now.as_ms(),
        RESTED_MAX
    ])?;
    Ok(marked > 0)
}

/// The numbers of the first `look` jobs of each kind that are ready, put in one order.
fn first(
    connection: &Connection,
    tenant: Tenant,
    place: &Place,
    kinds: &[JobKind],
    look: usize,
) -> Result<Vec<i64>, Fault> {
    let mut ready: Vec<(i64, i64)> = Vec::new();
    let mut statement = connection.prepare_cached(READY)?;
    for kind in kinds {
        let look = i64::try_from(look).unwrap_or(i64::MAX);
        let rows = statement.query_map(
            params![tenant_bytes(tenant), place.as_str(), kind.as_str(), look],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        for row in rows {
            ready.push(row?);
        }
    }
    ready.sort_unstable();
    ready.truncate(look);
    Ok(ready.into_iter().map(|(_, seq)| seq).collect())
}

/// The kinds of which the tenant has jobs in this place that are neither held back for good nor finished.
pub(super) fn waiting_kinds(
    connection: &Connection,
    tenant: Tenant,
    place: &Place,
) -> Result<Vec<JobKind>, Fault> {
    let mut kinds: Vec<JobKind> = Vec::new();
    for sql in [KIND_READY, KIND_RESTING] {
        let mut statement = connection.prepare_cached(sql)?;
        let mut after = String::new();
        loop {
            let next: Option<String> = statement
                .query_row(
                    params![tenant_bytes(tenant), place.as_str(), after],
                    |row| row.get(0),
                )
                .optional()?;
            let Some(next) = next else { break };
            kinds.push(word(JobKind::new(&next))?);
            after = next;
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    Ok(kinds)
}
