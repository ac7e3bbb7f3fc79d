//! Takes over the jobs of an older program, which kept them in tables under the names that are views now.
//! Every row is kept: it becomes a job or an operation, or nothing is migrated at all.

use hapax_core::job::{Class, Hold, Job, JobId, JobKind, Op, OpKey, OpState, Place, State};
use hapax_core::{Error, Kind, Tenant, Time};
use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::super::fault::{Fault, failed};
use super::keys::Keys;
use super::rows::{self, tenant_bytes};
use crate::vault::Rings;

const COLUMNS: &str = include_str!("../../../sql/sqlite/meta_columns.sql");
const JOBS_ASIDE: &str = include_str!("../../../sql/sqlite/job_old_aside.sql");
const OPS_ASIDE: &str = include_str!("../../../sql/sqlite/op_old_aside.sql");
const JOBS: &str = include_str!("../../../sql/sqlite/job_old_list.sql");
const OPS: &str = include_str!("../../../sql/sqlite/op_old_list.sql");
const ORPHANS: &str = include_str!("../../../sql/sqlite/op_old_orphans.sql");
const ORPHANS_KEEP: &str = include_str!("../../../sql/sqlite/op_old_keep.sql");
const JOBS_DROP: &str = include_str!("../../../sql/sqlite/job_old_drop.sql");
const OPS_DROP: &str = include_str!("../../../sql/sqlite/op_old_drop.sql");

const OPERATION: &str = "taking over an older program's jobs";

const OLD_JOBS: &str = "artifact_jobs";
const OLD_JOB_COLUMNS: [&str; 10] = [
    "job_id",
    "work_id",
    "artifact_id",
    "canonical_url",
    "state",
    "lease_owner",
    "lease_until",
    "created_at",
    "updated_at",
    "idempotency_key",
];
const OLD_OPS: &str = "artifact_ops";
const OLD_OP_COLUMNS: [&str; 7] = [
    "op_key",
    "job_id",
    "op_type",
    "started_at",
    "finished_at",
    "result_code",
    "result_json",
];
const META: &str = "_meta";
/// The names that must be free.
const OURS: [&str; 3] = ["job", "job_payload", "op"];

/// What an older program left, moved aside.
pub(in super::super) struct Old {
    has_ops: bool,
}

/// Moves the older program's tables aside, if there are any. Tables that only share their names are refused.
pub(in super::super) fn aside(connection: &Connection) -> Result<Option<Old>, Error> {
    for name in OURS {
        if is_there(connection, name)? {
            return Err(refused(name, "is not ours"));
        }
    }
    if is_there(connection, META)? {
        is_shaped(connection, META, &["key", "value"])?;
    }
    let (has_jobs, has_ops) = (
        is_there(connection, OLD_JOBS)?,
        is_there(connection, OLD_OPS)?,
    );
    if has_ops {
        is_shaped(connection, OLD_OPS, &OLD_OP_COLUMNS)?;
    }
    match (has_jobs, has_ops) {
        (false, false) => return Ok(None),
        (false, true) => return Err(refused(OLD_OPS, "has no table artifact_jobs beside it")),
        (true, _) => is_shaped(connection, OLD_JOBS, &OLD_JOB_COLUMNS)?,
    }
    // What else in the file names the tables goes on to name the views.
    rename_only(connection, true)?;
    let moved = |sql: &str| {
        connection
            .execute_batch(sql)
            .map_err(|error| failed(OPERATION, error))
    };
    moved(JOBS_ASIDE)?;
    if has_ops {
        moved(OPS_ASIDE)?;
    }
    rename_only(connection, false)?;
    Ok(Some(Old { has_ops }))
}

fn rename_only(connection: &Connection, on: bool) -> Result<(), Error> {
    connection
        .pragma_update(None, "legacy_alter_table", on)
        .map_err(|error| failed(OPERATION, error))
}

/// Copies what was moved aside into the new tables, and drops the old ones.
pub(in super::super) fn copy(connection: &Connection, old: &Old, now: Time) -> Result<(), Error> {
    copy_all(connection, old, now).map_err(|fault| fault.into_error(OPERATION))
}

fn copy_all(connection: &Connection, old: &Old, now: Time) -> Result<(), Fault> {
    // Kept as they were; what is written from now on is sealed, if there is a vault.
    let keys = Keys::writing(None, Rings::default(), Tenant::DEFAULT);
    copy_jobs(connection, now)?;
    if old.has_ops {
        copy_ops(connection, &keys)?;
        connection.execute_batch(OPS_DROP)?;
    }
    connection.execute_batch(JOBS_DROP)?;
    Ok(())
}

fn copy_jobs(connection: &Connection, now: Time) -> Result<(), Fault> {
    let mut jobs = connection.prepare(JOBS)?;
    let mut rows = jobs.query([])?;
    while let Some(row) = rows.next()? {
        let job = job(row)?;
        let unfit = |error: rusqlite::Error| unfit("job", job.id.as_str(), &error.to_string());
        rows::insert(connection, &job, now).map_err(unfit)?;
    }
    Ok(())
}

fn copy_ops(connection: &Connection, keys: &Keys) -> Result<(), Fault> {
    let mut ops = connection.prepare(OPS)?;
    let mut rows = ops.query(params![tenant_bytes(Tenant::DEFAULT)])?;
    while let Some(row) = rows.next()? {
        rows::put_op(connection, keys, row.get(1)?, &op(row)?)?;
    }
    let orphans: i64 = connection.query_row(ORPHANS, [], |row| row.get(0))?;
    if orphans > 0 {
        tracing::warn!(
            orphans,
            "operations without a job are kept in the table artifact_ops_orphaned"
        );
        connection.execute_batch(ORPHANS_KEEP)?;
    }
    Ok(())
}

fn job(row: &Row<'_>) -> Result<Job, Fault> {
    let (id, state): (String, String) = (row.get(0)?, row.get(4)?);
    let kept = |why: hapax_core::Invalid| unfit("job", &id, &why.to_string());
    let state: State = state.parse().map_err(kept)?;
    let (owner, until): (Option<String>, Option<f64>) = (row.get(5)?, row.get(6)?);
    let (created_at, updated_at) = (ms(row.get(7)?), ms(row.get(8)?));
    let hold = |(owner, until): (String, f64)| Hold {
        owner: owner.into(),
        until: ms(until),
    };
    let lease = owner.zip(until).map(hold);
    let lease = lease.filter(|_| !state.is_terminal());
    Ok(Job {
        tenant: Tenant::DEFAULT,
        seq: 0,
        key: row.get(9)?,
        kind: JobKind::DOWNLOAD,
        place: Place::default(),
        state,
        epoch: 0,
        attempts: 0,
        failures: 0,
        max_attempts: Job::ATTEMPTS_MAX,
        backoff: None,
        available_at: lease.as_ref().map_or(updated_at, |hold| hold.until),
        lease,
        redone: -1,
        retried: -1,
        work_id: row.get(1)?,
        artifact_id: row.get(2)?,
        canonical_url: row.get(3)?,
        payload: None,
        result: None,
        error: None,
        created_at,
        updated_at,
        id: JobId::new(&id).map_err(kept)?,
    })
}

/// How an old operation stands: done if its result is whole, to be run again if it failed, else in doubt.
fn op(row: &Row<'_>) -> Result<Op, Fault> {
    let key: String = row.get(0)?;
    let kept = |why: hapax_core::Invalid| unfit("operation", &key, &why.to_string());
    let finished: Option<f64> = row.get(4)?;
    let (code, result): (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
    let is_json = result
        .as_deref()
        .is_some_and(|text| serde_json::from_str::<Value>(text).is_ok());
    let (state, result, error) = match (finished, code.as_deref()) {
        (None, _) | (_, Some("ABANDONED")) => (OpState::InDoubt, None, None),
        (Some(_), Some("ERROR")) => (OpState::Retryable, None, Some(reason(result.as_deref()))),
        (Some(_), _) if is_json => (OpState::Done, result, None),
        (Some(_), _) => (OpState::InDoubt, None, Some(NOT_WHOLE.to_owned())),
    };
    Ok(Op {
        tenant: Tenant::DEFAULT,
        key: OpKey::new(&key).map_err(kept)?,
        job: JobId::new(row.get_ref(7)?.as_str().map_err(rusqlite::Error::from)?).map_err(kept)?,
        kind: row.get(2)?,
        state,
        class: Class::AtMostOnce,
        epoch: 0,
        // No runner has this one, so nobody ends it by token.
        token: String::new(),
        tries: 1,
        started_at: ms(row.get(3)?),
        finished_at: finished.filter(|_| state == OpState::Done).map(ms),
        result: result.map(Into::into),
        error: error.map(Into::into),
    })
}

const NOT_WHOLE: &str =
    "its result was not kept whole by the older program; find out what it did and resolve it";

/// The text of an old error: the member `error` if it is JSON with one, else all of it.
fn reason(result: Option<&str>) -> String {
    let text = result.unwrap_or("it failed under an older program");
    let told = serde_json::from_str::<Value>(text).ok();
    let told = told.as_ref().and_then(|told| told.get("error")?.as_str());
    let text = told.unwrap_or(text);
    let is_whole = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(Job::ERROR_BYTES_MAX))
        .rev()
        .find(is_whole);
    text[..end.unwrap_or(0)].to_owned()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a cast to integer stays within the bounds of time"
)]
fn ms(seconds: f64) -> Time {
    Time::from_ms((seconds * 1000.0).round() as i64)
}

fn is_there(connection: &Connection, name: &str) -> Result<bool, Error> {
    Ok(!columns(connection, name)?.is_empty())
}

fn is_shaped(connection: &Connection, name: &str, shape: &[&str]) -> Result<(), Error> {
    let found = columns(connection, name)?;
    let fits = found.len() == shape.len()
        && found
            .iter()
            .zip(shape)
            .all(|((column, kind), wanted)| column == wanted && kind == "table");
    if fits {
        return Ok(());
    }
    Err(refused(name, "has other columns than the older program's"))
}

fn columns(connection: &Connection, name: &str) -> Result<Vec<(String, String)>, Error> {
    let columns = || -> rusqlite::Result<Vec<(String, String)>> {
        let mut statement = connection.prepare(COLUMNS)?;
        let rows = statement.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    columns().map_err(|error| failed(OPERATION, error))
}

fn refused(name: &str, why: &str) -> Error {
    let why = format!(
        "the table {name} in this file {why}; rename it, or use a file of its own for hapax"
    );
    Error::new(Kind::Unsafe, OPERATION).because(why)
}

fn unfit(what: &str, id: &str, why: &str) -> Error {
    let why = format!("{what} '{id}' cannot be kept: {why}; nothing was changed");
    Error::new(Kind::Unsafe, OPERATION).because(why)
}
