//! Jobs and operations as columns, and rows of the database back into them. What was planned, answered or went
//! wrong is sealed on the way. It runs no statement.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use hapax_core::job::{Hold, Job, JobId, JobKind, Op, OpKey, Place};
use hapax_core::{Error, Invalid, Kind, Tenant, Time};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::columns::{Param, get};
use super::moves::{Moves, Stood};
use crate::vault::{Ring, Seal, wanted_text};

/// Before a text that holds a NUL, which the database does not take: its bytes follow in base64.
const BINARY: &str = "\u{2}\u{2}";

/// Seals and opens the texts of one tenant.
#[derive(Clone, Copy)]
pub(in super::super) struct Sealer<'a> {
    pub(in super::super) ring: Option<&'a Ring>,
    pub(in super::super) tenant: Tenant,
}

impl Sealer<'_> {
    fn of(&self, what: &str, id: &str) -> Seal<'_> {
        let hash = Sha256::digest(format!("{what}:{id}"));
        let mut record = [0; 16];
        record.copy_from_slice(&hash[..16]);
        Seal::new(self.ring, self.tenant.as_uuid(), Uuid::from_bytes(record))
    }

    /// The column value for a text of the job or operation with this id.
    fn put(
        &self,
        (what, id): (&str, &str),
        column: &str,
        text: Option<&str>,
    ) -> Result<Option<String>, Error> {
        text.map(|text| {
            if self.ring.is_none() && text.contains('\0') {
                return Ok(format!("{BINARY}{}", BASE64.encode(text.as_bytes())));
            }
            self.of(what, id).text(column, text)
        })
        .transpose()
    }

    /// The text as it was given, from one as it is stored.
    fn open(
        &self,
        (what, id): (&str, &str),
        column: &str,
        value: Option<Arc<str>>,
    ) -> Result<Option<Arc<str>>, Error> {
        let Some(value) = value else { return Ok(None) };
        if let Some(binary) = value.strip_prefix(BINARY) {
            self.of(what, id).may_be_plain(column)?;
            let bytes = BASE64.decode(binary.as_bytes()).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            return match text {
                Some(text) => Ok(Some(text.into())),
                None => Err(corrupt("a text is not the base64 of one")),
            };
        }
        if !value.starts_with('\u{2}') {
            // Where nothing was said there is nothing to seal.
            if !value.is_empty() {
                self.of(what, id).may_be_plain(column)?;
            }
            return Ok(Some(value));
        }
        let text = self.of(what, id).open_text(column, value.to_string())?;
        Ok(Some(text.into()))
    }

    /// The column value once more, under the newest key.
    pub(in super::super) fn again(
        &self,
        of: (&str, &str),
        column: &str,
        value: String,
    ) -> Result<String, Error> {
        let plain = self.open(of, column, Some(value.into()))?;
        let again = self.put(of, column, plain.as_deref())?;
        again.ok_or_else(|| corrupt("a text is gone"))
    }

    /// The column value for the payload of a job that is planned.
    pub(super) fn payload(&self, job: &Job) -> Result<Option<String>, Error> {
        self.put(("job", job.id.as_str()), "payload", job.payload.as_deref())
    }

    /// The job as it was given, from one as it is stored.
    pub(super) fn open_job(&self, mut job: Job) -> Result<Job, Error> {
        let of = ("job", job.id.as_str());
        job.payload = self.open(of, "payload", job.payload)?;
        job.result = self.open(of, "result", job.result)?;
        job.error = self.open(of, "error", job.error)?;
        Ok(job)
    }

    /// The operation as it was given, from one as it is stored.
    pub(super) fn open_op(&self, mut op: Op) -> Result<Op, Error> {
        let of = ("op", op.key.as_str());
        op.result = self.open(of, "result", op.result)?;
        op.error = self.open(of, "error", op.error)?;
        Ok(op)
    }
}

/// The keys that these texts are sealed under.
pub(super) fn wanted<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    ops: impl Iterator<Item = &'a Op>,
) -> Vec<Uuid> {
    let of_jobs = jobs.flat_map(|job| [&job.payload, &job.result, &job.error]);
    let of_ops = ops.flat_map(|op| [&op.result, &op.error]);
    let texts = of_jobs.chain(of_ops).filter_map(Option::as_deref);
    let mut ids: Vec<Uuid> = texts.filter_map(wanted_text).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Where a job stands in the queue: ready, resting, or off it.
pub(super) fn standing(job: &Job, now: Time) -> &'static str {
    if job.state.is_terminal() || job.available_at == Time::from_ms(i64::MAX) {
        "off"
    } else if job.is_due(now) {
        "ready"
    } else {
        "resting"
    }
}

/// Jobs to be planned, column by column.
pub(super) struct Plans<'a> {
    tenant: Uuid,
    shift_ms: i64,
    id: Vec<&'a str>,
    key: Vec<&'a str>,
    kind: Vec<&'a str>,
    place: Vec<&'a str>,
    max_attempts: Vec<i64>,
    work_id: Vec<&'a str>,
    artifact_id: Vec<&'a str>,
    canonical_url: Vec<&'a str>,
    payload: Vec<Option<String>>,
    backoff_ms: Vec<Option<i64>>,
}

impl<'a> Plans<'a> {
    pub(super) fn of(jobs: &[&'a Job], sealer: Sealer<'_>, shift_ms: i64) -> Result<Self, Error> {
        let text =
            |of: fn(&Job) -> &str| -> Vec<&'a str> { jobs.iter().copied().map(of).collect() };
        let payload = jobs.iter().map(|job| sealer.payload(job));
        Ok(Self {
            tenant: sealer.tenant.as_uuid(),
            shift_ms,
            id: text(|job| job.id.as_str()),
            key: text(|job| &job.key),
            kind: text(|job| job.kind.as_str()),
            place: text(|job| job.place.as_str()),
            max_attempts: jobs.iter().map(|job| i64::from(job.max_attempts)).collect(),
            work_id: text(|job| &job.work_id),
            artifact_id: text(|job| &job.artifact_id),
            canonical_url: text(|job| &job.canonical_url),
            payload: payload.collect::<Result<_, _>>()?,
            backoff_ms: jobs.iter().map(|job| backoff_ms(job)).collect(),
        })
    }

    /// The parameters of `job_plan.sql`.
    pub(super) fn params(&self) -> Vec<Param<'_>> {
        vec![
            &self.tenant,
            &self.shift_ms,
            &self.id,
            &self.key,
            &self.kind,
            &self.place,
            &self.max_attempts,
            &self.work_id,
            &self.artifact_id,
            &self.canonical_url,
            &self.payload,
            &self.backoff_ms,
        ]
    }

    /// The keys.
    pub(super) fn keys(&self) -> &Vec<&'a str> {
        &self.key
    }
}

/// A column of jobs that changed. What all of them have in common is given once: the database then handles one value.
struct Column<T> {
    each: Vec<Option<T>>,
    all: Option<T>,
}

impl<T: PartialEq> Column<T> {
    fn of(mut each: Vec<Option<T>>) -> Self {
        let is_same = each.windows(2).all(|two| two[0] == two[1]);
        let all = if is_same { each.pop().flatten() } else { None };
        if is_same {
            each.clear();
        }
        Self { each, all }
    }
}

/// Jobs that changed, column by column.
pub(super) struct JobColumns<'a> {
    tenant: Uuid,
    seq: Vec<i64>,
    texts: [Column<&'a str>; 5],
    numbers: [Column<i64>; 9],
    result: Column<String>,
    error: Column<String>,
}

impl<'a> JobColumns<'a> {
    /// The jobs, and what `moves` says of each of them.
    pub(super) fn of(
        jobs: &[&'a Job],
        sealer: Sealer<'_>,
        now: Time,
        moves: &Moves<'_>,
    ) -> Result<Self, Error> {
        let text = |of: &dyn Fn(&'a Job) -> Option<&'a str>| {
            Column::of(jobs.iter().copied().map(of).collect())
        };
        let number =
            |of: fn(&Job) -> Option<i64>| Column::of(jobs.iter().copied().map(of).collect());
        let apart = |column: &'static str, text: fn(&Job) -> Option<&str>| {
            let put = |job: &&Job| sealer.put(("job", job.id.as_str()), column, text(job));
            let values = jobs.iter().map(put).collect::<Result<Vec<_>, Error>>()?;
            Ok::<_, Error>(Column::of(values))
        };
        Ok(Self {
            tenant: sealer.tenant.as_uuid(),
            seq: jobs.iter().map(|job| job.seq).collect(),
            texts: [
                text(&|job| Some(job.place.as_str())),
                text(&|job| Some(job.state.as_str())),
                text(&|job| Some(standing(job, now))),
                text(&|job| job.lease.as_ref().map(|hold| &*hold.owner)),
                Column::of(moves.listed_of.clone()),
            ],
            numbers: [
                number(|job| job.lease.as_ref().map(|hold| hold.until.as_ms())),
                number(|job| Some(job.epoch)),
                number(|job| Some(i64::from(job.attempts))),
                number(|job| Some(i64::from(job.failures))),
                number(|job| Some(job.available_at.as_ms())),
                number(|job| Some(job.redone)),
                number(|job| Some(job.retried)),
                number(|job| Some(job.updated_at.as_ms())),
                Column::of(moves.later_of.clone()),
            ],
            result: apart("result", |job| job.result.as_deref())?,
            error: apart("error", |job| job.error.as_deref())?,
        })
    }

    /// The parameters of `job_write.sql`.
    pub(super) fn params(&self) -> Vec<Param<'_>> {
        let [place, state, standing, owner, listed] = &self.texts;
        let [
            until,
            epoch,
            attempts,
            failures,
            at,
            redone,
            retried,
            updated,
            later,
        ] = &self.numbers;
        let (result, error) = (&self.result, &self.error);
        vec![
            &self.tenant,
            &self.seq,
            &place.each,
            &state.each,
            &standing.each,
            &owner.each,
            &until.each,
            &epoch.each,
            &attempts.each,
            &failures.each,
            &at.each,
            &redone.each,
            &retried.each,
            &result.each,
            &error.each,
            &updated.each,
            &later.each,
            &listed.each,
            &place.all,
            &state.all,
            &standing.all,
            &owner.all,
            &until.all,
            &epoch.all,
            &attempts.all,
            &failures.all,
            &at.all,
            &redone.all,
            &retried.all,
            &result.all,
            &error.all,
            &updated.all,
            &later.all,
            &listed.all,
        ]
    }
}

/// Operations that are new or changed, column by column.
pub(super) struct OpColumns<'a> {
    tenant: Uuid,
    key: Vec<&'a str>,
    job: Vec<&'a str>,
    kind: Vec<&'a str>,
    state: Vec<&'a str>,
    class: Vec<&'a str>,
    epoch: Vec<i64>,
    token: Vec<&'a str>,
    tries: Vec<i64>,
    started_at: Vec<i64>,
    finished_at: Vec<Option<i64>>,
    result: Vec<Option<String>>,
    error: Vec<Option<String>>,
}

impl<'a> OpColumns<'a> {
    pub(super) fn of(ops: &[&'a Op], sealer: Sealer<'_>) -> Result<Self, Error> {
        fn column<'a, T>(ops: &[&'a Op], value: impl Fn(&'a Op) -> T) -> Vec<T> {
            ops.iter().copied().map(value).collect()
        }
        let texts = |column: &'static str, text: fn(&Op) -> Option<&str>| {
            let put = |op: &&Op| sealer.put(("op", op.key.as_str()), column, text(op));
            ops.iter().map(put).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            tenant: sealer.tenant.as_uuid(),
            key: column(ops, |op| op.key.as_str()),
            job: column(ops, |op| op.job.as_str()),
            kind: column(ops, |op| &*op.kind),
            state: column(ops, |op| op.state.as_str()),
            class: column(ops, |op| op.class.as_str()),
            epoch: column(ops, |op| op.epoch),
            token: column(ops, |op| &*op.token),
            tries: column(ops, |op| i64::from(op.tries)),
            started_at: column(ops, |op| op.started_at.as_ms()),
            finished_at: column(ops, |op| op.finished_at.map(Time::as_ms)),
            result: texts("result", |op| op.result.as_deref())?,
            error: texts("error", |op| op.error.as_deref())?,
        })
    }

    /// The parameters of `op_insert.sql` and `op_write.sql`.
    pub(super) fn params(&self) -> Vec<Param<'_>> {
        vec![
            &self.tenant,
            &self.key,
            &self.job,
            &self.kind,
            &self.state,
            &self.class,
            &self.epoch,
            &self.token,
            &self.tries,
            &self.started_at,
            &self.finished_at,
            &self.result,
            &self.error,
        ]
    }
}

/// A row of a statement that lists jobs, its texts as they are stored.
pub(super) fn job(row: &Row) -> Result<Job, Error> {
    let owner: Option<&str> = get(row, 7)?;
    let until: Option<i64> = get(row, 8)?;
    let lease = owner.zip(until).map(|(owner, until)| Hold {
        owner: owner.into(),
        until: Time::from_ms(until),
    });
    Ok(Job {
        tenant: Tenant::from_uuid(get(row, 0)?),
        seq: get(row, 1)?,
        id: word(JobId::new(get(row, 2)?))?,
        key: get(row, 3)?,
        kind: word(JobKind::new(get(row, 4)?))?,
        place: word(Place::new(get(row, 5)?))?,
        state: word(get::<&str>(row, 6)?.parse())?,
        lease,
        epoch: get(row, 9)?,
        attempts: count(row, 10)?,
        failures: count(row, 11)?,
        max_attempts: count(row, 12)?,
        available_at: time(row, 13)?,
        redone: get(row, 14)?,
        retried: get(row, 15)?,
        work_id: get(row, 16)?,
        artifact_id: get(row, 17)?,
        canonical_url: get(row, 18)?,
        payload: text(row, 19)?,
        result: text(row, 20)?,
        error: text(row, 21)?,
        created_at: time(row, 22)?,
        updated_at: time(row, 23)?,
        backoff: get::<Option<i64>>(row, 24)?.map(span).transpose()?,
    })
}

/// Where the job of a row stands, as the statements that lock tell it.
pub(super) fn stood(row: &Row, job: &Job) -> Result<Stood, Error> {
    let listed: Option<&str> = get(row, 27)?;
    Ok(Stood {
        is_ready: get::<&str>(row, 25)? == "ready",
        place: job.place.clone(),
        attempts: job.attempts,
        is_held: job.lease.is_some(),
        available_at: job.available_at,
        later: get(row, 26)?,
        listed: listed.map_or(Ok(job.state), |state| word(state.parse()))?,
    })
}

/// A row of a statement that lists operations, its texts as they are stored.
pub(super) fn op(row: &Row) -> Result<Op, Error> {
    Ok(Op {
        tenant: Tenant::from_uuid(get(row, 0)?),
        key: word(OpKey::new(get(row, 1)?))?,
        job: word(JobId::new(get(row, 2)?))?,
        kind: get(row, 3)?,
        state: word(get::<&str>(row, 4)?.parse())?,
        class: word(get::<&str>(row, 5)?.parse())?,
        epoch: get(row, 6)?,
        token: get(row, 7)?,
        tries: count(row, 8)?,
        started_at: time(row, 9)?,
        finished_at: get::<Option<i64>>(row, 10)?.map(Time::from_ms),
        result: text(row, 11)?,
        error: text(row, 12)?,
    })
}

fn text(row: &Row, column: usize) -> Result<Option<Arc<str>>, Error> {
    Ok(get::<Option<&str>>(row, column)?.map(Arc::from))
}

fn time(row: &Row, column: usize) -> Result<Time, Error> {
    get(row, column).map(Time::from_ms)
}

/// The first rest as it is stored.
fn backoff_ms(job: &Job) -> Option<i64> {
    let first = job.backoff?;
    Some(i64::try_from(first.as_millis()).unwrap_or(i64::MAX))
}

fn span(stored: i64) -> Result<Duration, Error> {
    let ms = u64::try_from(stored).map_err(|_| corrupt("a span is negative"))?;
    Ok(Duration::from_millis(ms))
}

fn count(row: &Row, column: usize) -> Result<u32, Error> {
    let stored: i64 = get(row, column)?;
    u32::try_from(stored).map_err(|_| corrupt("a count is out of range"))
}

pub(super) fn word<T>(read: Result<T, Invalid>) -> Result<T, Error> {
    read.map_err(|invalid| corrupt(&invalid.to_string()))
}

fn corrupt(why: &str) -> Error {
    Error::new(Kind::Corrupt, "reading a job").because(why)
}
