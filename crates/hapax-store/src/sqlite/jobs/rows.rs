//! Single rows of jobs and operations: read as what the rule knows, written as what it says.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::{Hold, Job, JobId, JobKind, Op, OpKey, Place, Planned};
use hapax_core::{Error, Invalid, Kind, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use uuid::Uuid;

use super::super::fault::Fault;
use super::keys::{Keys, Spot};

pub(super) const FIND: &str = include_str!("../../../sql/sqlite/job_find.sql");
pub(super) const FIND_KEY: &str = include_str!("../../../sql/sqlite/job_find_key.sql");
pub(super) const FIND_SEQ: &str = include_str!("../../../sql/sqlite/job_find_seq.sql");
pub(super) const NAMED: &str = include_str!("../../../sql/sqlite/job_named.sql");
const INSERT: &str = include_str!("../../../sql/sqlite/job_insert.sql");
const PAYLOAD_PUT: &str = include_str!("../../../sql/sqlite/job_payload_put.sql");
const MOVE: &str = include_str!("../../../sql/sqlite/job_move.sql");
const SAY: &str = include_str!("../../../sql/sqlite/job_say.sql");
pub(super) const FIND_OP: &str = include_str!("../../../sql/sqlite/op_find.sql");
pub(super) const OPS: &str = include_str!("../../../sql/sqlite/op_list.sql");
const PUT_OP: &str = include_str!("../../../sql/sqlite/op_put.sql");

/// A job to be planned, with its payload in column form, made before the writer sees it.
pub(super) struct Fresh {
    job: Job,
    payload: Option<String>,
}

impl Fresh {
    pub(super) fn of(job: Job, keys: &Keys) -> Result<Self, Error> {
        let payload = job.payload.as_deref();
        let seal = |text| keys.seal(spot(job.id.as_str(), "payload"), text);
        let payload = payload.map(seal).transpose()?;
        Ok(Self { job, payload })
    }

    /// How much memory it holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        let length = |text: Option<usize>| text.unwrap_or(0);
        length(self.payload.as_ref().map(String::len))
            + length(self.job.payload.as_ref().map(|text| text.len()))
            + self.job.canonical_url.len()
    }
}

/// Plans the job if its key is new, and answers what is stored.
pub(super) fn plan(connection: &Connection, keys: &Keys, fresh: &Fresh) -> Result<Planned, Fault> {
    let stored = one_job(
        connection,
        keys,
        FIND_KEY,
        params![tenant_bytes(keys.tenant), fresh.job.key],
    )?;
    if let Some(job) = stored {
        let planned = false;
        return Ok(Planned { job, planned });
    }
    let mut job = fresh.job.clone();
    job.seq = insert(connection, &job, job.updated_at)?;
    if let Some(payload) = &fresh.payload {
        let mut put = connection.prepare_cached(PAYLOAD_PUT)?;
        put.execute(params![job.seq, payload])?;
    }
    Ok(Planned { job, planned: true })
}

/// Writes a new job without its payload, and returns its number.
pub(super) fn insert(connection: &Connection, job: &Job, now: Time) -> rusqlite::Result<i64> {
    let hold = job.lease.as_ref();
    connection.prepare_cached(INSERT)?.insert(params![
        tenant_bytes(job.tenant),
        job.id.as_str(),
        job.key,
        job.kind.as_str(),
        job.place.as_str(),
        job.state.as_str(),
        standing(job, now),
        hold.map(|hold| &*hold.owner),
        hold.map(|hold| hold.until.as_ms()),
        job.epoch,
        job.attempts,
        job.failures,
        job.max_attempts,
        job.available_at.as_ms(),
        job.redone,
        job.retried,
        job.work_id,
        job.artifact_id,
        job.canonical_url,
        job.created_at.as_ms(),
        job.updated_at.as_ms(),
        job.backoff
            .map(|first| i64::try_from(first.as_millis()).unwrap_or(i64::MAX)),
    ])
}

/// Writes what changed of a job at `now`. Returns whether it is ready to be leased.
pub(super) fn write(
    connection: &Connection,
    keys: &Keys,
    seen: &Job,
    next: &Job,
    now: Time,
) -> Result<bool, Fault> {
    let (hold, standing) = (next.lease.as_ref(), standing(next, now));
    connection.prepare_cached(MOVE)?.execute(params![
        seen.seq,
        next.place.as_str(),
        next.state.as_str(),
        standing,
        hold.map(|hold| &*hold.owner),
        hold.map(|hold| hold.until.as_ms()),
        next.epoch,
        next.attempts,
        next.failures,
        next.available_at.as_ms(),
        next.redone,
        next.retried,
        next.updated_at.as_ms(),
    ])?;
    if (&seen.result, &seen.error) != (&next.result, &next.error) {
        let id = seen.id.as_str();
        let result = sealed(keys, spot(id, "result"), next.result.as_ref())?;
        let error = sealed(keys, spot(id, "error"), next.error.as_ref())?;
        connection
            .prepare_cached(SAY)?
            .execute(params![seen.seq, result, error])?;
    }
    Ok(standing == READY)
}

const READY: &str = "ready";

/// Where the job stands in the queue at `now`.
fn standing(job: &Job, now: Time) -> &'static str {
    if job.state.is_terminal() {
        "off"
    } else if job.available_at <= now {
        READY
    } else {
        "resting"
    }
}

/// The job with this id.
pub(super) fn find(connection: &Connection, keys: &Keys, id: &JobId) -> Result<Option<Job>, Fault> {
    let tenant = tenant_bytes(keys.tenant);
    one_job(connection, keys, FIND, params![tenant, id.as_str()])
}

/// The id of the job that goes by this name; the name itself if there is none.
pub(super) fn named(connection: &Connection, tenant: Tenant, name: &JobId) -> Result<JobId, Fault> {
    let mut statement = connection.prepare_cached(NAMED)?;
    let name = name.clone().normal();
    let (first, last) = name.range().unzip();
    let mut rows = statement.query(params![tenant_bytes(tenant), name.as_str(), first, last])?;
    while let Some(row) = rows.next()? {
        let (id, key): (String, String) = (row.get(0)?, row.get(1)?);
        let id = word(JobId::new(&id))?;
        if key == name.as_str() || id.goes_by(&name) {
            return Ok(id);
        }
    }
    Ok(name)
}

/// The job with this number, which must be the tenant's.
pub(super) fn find_seq(
    connection: &Connection,
    keys: &Keys,
    seq: i64,
) -> Result<Option<Job>, Fault> {
    one_job(connection, keys, FIND_SEQ, params![seq])
}

fn one_job(
    connection: &Connection,
    keys: &Keys,
    sql: &str,
    params: impl Params,
) -> Result<Option<Job>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params, |row| Ok(read(connection, keys, row)));
    found.optional()?.transpose()
}

/// The operation with this key, and the number of its job.
pub(super) fn find_op(
    connection: &Connection,
    keys: &Keys,
    key: &OpKey,
) -> Result<Option<(Op, i64)>, Fault> {
    let mut statement = connection.prepare_cached(FIND_OP)?;
    let tenant = tenant_bytes(keys.tenant);
    let found = statement.query_row(params![tenant, key.as_str()], |row| {
        Ok(read_op(connection, keys, row).and_then(|op| Ok((op, row.get(13)?))))
    });
    found.optional()?.transpose()
}

/// The operations of the job with this number, oldest first.
pub(super) fn ops(connection: &Connection, keys: &Keys, seq: i64) -> Result<Vec<Op>, Fault> {
    let mut statement = connection.prepare_cached(OPS)?;
    let tenant = tenant_bytes(keys.tenant);
    statement
        .query_and_then(params![tenant, seq], |row| read_op(connection, keys, row))?
        .collect()
}

/// Writes an operation of the job with this number.
pub(super) fn put_op(connection: &Connection, keys: &Keys, seq: i64, op: &Op) -> Result<(), Fault> {
    let spot = |column| Spot {
        table: "op",
        id: op.key.as_str(),
        column,
    };
    let result = sealed(keys, spot("result"), op.result.as_ref())?;
    let error = sealed(keys, spot("error"), op.error.as_ref())?;
    connection.prepare_cached(PUT_OP)?.execute(params![
        tenant_bytes(op.tenant),
        op.key.as_str(),
        seq,
        op.kind,
        op.state.as_str(),
        op.class.as_str(),
        op.epoch,
        op.token,
        op.tries,
        op.started_at.as_ms(),
        op.finished_at.map(Time::as_ms),
        result,
        error,
    ])?;
    Ok(())
}

/// The tenant as it is stored.
pub(super) fn tenant_bytes(tenant: Tenant) -> [u8; 16] {
    tenant.as_uuid().into_bytes()
}

/// The tenant behind its column.
pub(super) fn tenant(stored: [u8; 16]) -> Tenant {
    Tenant::from_uuid(Uuid::from_bytes(stored))
}

/// A word as its type, or the error that the row cannot be what was written.
pub(super) fn word<T>(read: Result<T, Invalid>) -> Result<T, Fault> {
    read.map_err(|why| {
        Error::new(Kind::Corrupt, "reading a job")
            .caused_by(why)
            .into()
    })
}

fn spot<'a>(id: &'a str, column: &'static str) -> Spot<'a> {
    Spot {
        table: "job",
        id,
        column,
    }
}

fn sealed(keys: &Keys, spot: Spot<'_>, text: Option<&Arc<str>>) -> Result<Option<String>, Error> {
    text.map(|text| keys.seal(spot, text)).transpose()
}

/// Reads the columns in the order of the statements that find jobs.
fn read(connection: &Connection, keys: &Keys, row: &Row<'_>) -> Result<Job, Fault> {
    let id: String = row.get(2)?;
    let text = |at: usize, column| -> Result<Option<Arc<str>>, Fault> {
        let value: Option<String> = row.get(at)?;
        value
            .map(|value| keys.open(connection, spot(&id, column), value))
            .transpose()
    };
    let owner: Option<String> = row.get(7)?;
    let until: Option<i64> = row.get(8)?;
    let hold = |(owner, until): (String, i64)| Hold {
        owner: owner.into(),
        until: Time::from_ms(until),
    };
    Ok(Job {
        seq: row.get(0)?,
        tenant: tenant(row.get(1)?),
        id: word(JobId::new(&id))?,
        key: row.get(3)?,
        kind: word(JobKind::new(
            row.get_ref(4)?.as_str().map_err(of_another_type)?,
        ))?,
        place: word(Place::new(
            row.get_ref(5)?.as_str().map_err(of_another_type)?,
        ))?,
        state: parsed(row, 6)?,
        lease: owner.zip(until).map(hold),
        epoch: row.get(9)?,
        attempts: row.get(10)?,
        failures: row.get(11)?,
        max_attempts: row.get(12)?,
        available_at: Time::from_ms(row.get(13)?),
        redone: row.get(14)?,
        retried: row.get(15)?,
        work_id: row.get(16)?,
        artifact_id: row.get(17)?,
        canonical_url: row.get(18)?,
        payload: text(19, "payload")?,
        result: text(20, "result")?,
        error: text(21, "error")?,
        created_at: Time::from_ms(row.get(22)?),
        updated_at: Time::from_ms(row.get(23)?),
        backoff: row
            .get::<_, Option<u32>>(24)?
            .map(|ms| Duration::from_millis(ms.into())),
    })
}

/// Reads the columns in the order of the statements that find operations.
fn read_op(connection: &Connection, keys: &Keys, row: &Row<'_>) -> Result<Op, Fault> {
    let (key, job): (String, String) = (row.get(1)?, row.get(2)?);
    let text = |at: usize, column| -> Result<Option<Arc<str>>, Fault> {
        let spot = Spot {
            table: "op",
            id: &key,
            column,
        };
        let value: Option<String> = row.get(at)?;
        value
            .map(|value| keys.open(connection, spot, value))
            .transpose()
    };
    let finished_at: Option<i64> = row.get(10)?;
    Ok(Op {
        tenant: tenant(row.get(0)?),
        key: word(OpKey::new(&key))?,
        job: word(JobId::new(&job))?,
        kind: row.get(3)?,
        state: parsed(row, 4)?,
        class: parsed(row, 5)?,
        epoch: row.get(6)?,
        token: row.get(7)?,
        tries: row.get(8)?,
        started_at: Time::from_ms(row.get(9)?),
        finished_at: finished_at.map(Time::from_ms),
        result: text(11, "result")?,
        error: text(12, "error")?,
    })
}

fn parsed<T: FromStr<Err = Invalid>>(row: &Row<'_>, at: usize) -> Result<T, Fault> {
    word(row.get_ref(at)?.as_str().map_err(of_another_type)?.parse())
}

fn of_another_type(error: rusqlite::types::FromSqlError) -> Error {
    Error::new(Kind::Corrupt, "reading a job").caused_by(error)
}
