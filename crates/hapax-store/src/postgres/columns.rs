//! Records as arrays of column values for `UNNEST`, and rows of the database back into records.
//! It runs no statement.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hapax_core::{Error, Kind, Move, Note, Time, ledger::Write};
use tokio_postgres::types::{FromSql, ToSql};
use uuid::Uuid;

use crate::row::Row;
use crate::vault::Ring;

/// Times beyond the year 9999 are stored as its end: nothing we promise lasts that long.
const LAST_MS: i64 = 253_402_300_799_000;

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// A move as column values.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) write: Write,
    expected: Option<i64>,
    pub(super) row: Row,
    /// Written with it, and only if it is.
    pub(super) note: Option<Box<Note>>,
    /// Whether others may wait for it.
    pub(super) ends: bool,
}

impl Step {
    /// The columns of a move, sealed if there are keys for it.
    pub(super) fn of(step: Move, ring: Option<&Ring>) -> Result<Self, Error> {
        let (write, ends) = (step.write(), step.ends());
        let row = match write {
            Write::Renew | Write::Settle => Row::without_request(&step.next, ring)?,
            Write::Insert | Write::Replace => Row::of(&step.next, ring)?,
        };
        Ok(Self {
            write,
            expected: step.expect.map(|version| version.0),
            row,
            note: step.note,
            ends,
        })
    }

    /// Whether `row` is of the same route and key, as the same id promises.
    pub(super) fn is_about(&self, row: &Row) -> bool {
        self.row.route_pattern == row.route_pattern
            && self.row.idempotency_key == row.idempotency_key
    }

    /// Roughly how many bytes it sends.
    pub(super) fn bytes(&self) -> usize {
        let body = |body: &Option<Vec<u8>>| body.as_ref().map_or(0, Vec::len);
        let note = self.note.as_ref().map_or(0, |note| note.details.len());
        512 + note + body(&self.row.request_body) + body(&self.row.response_body)
    }
}

/// One statement's worth of moves of one tenant, column by column.
pub(super) struct Columns<'a> {
    write: Write,
    tenant: Uuid,
    id: Vec<Uuid>,
    expected: Vec<Option<i64>>,
    route_pattern: Vec<&'a str>,
    idempotency_key: Vec<&'a str>,
    version: Vec<i64>,
    state: Vec<&'a str>,
    fingerprint: Vec<&'a [u8]>,
    principal: Vec<Option<&'a [u8]>>,
    on_lost: Vec<&'a str>,
    lease_ms: Vec<i64>,
    epoch: Vec<Option<i64>>,
    lease_owner: Vec<Option<Uuid>>,
    lease_until: Vec<Option<SystemTime>>,
    doubt: Vec<Option<&'a str>>,
    content_hash: Vec<&'a str>,
    request_method: Vec<&'a str>,
    request_path: Vec<&'a str>,
    request_content_type: Vec<&'a str>,
    request_body: Vec<Option<&'a [u8]>>,
    response_status_code: Vec<Option<i32>>,
    response_headers: Vec<Option<&'a str>>,
    response_body: Vec<Option<&'a [u8]>>,
    created_at: Vec<SystemTime>,
    expires_at: Vec<SystemTime>,
    completed_at: Vec<Option<SystemTime>>,
    subject: Vec<Option<&'a [u8]>>,
    request_masks: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    /// The columns of `steps`, which are all of this kind and of this tenant.
    pub(super) fn of(write: Write, tenant: Uuid, steps: &[&'a Step]) -> Self {
        fn column<'a, T>(steps: &[&'a Step], value: impl Fn(&'a Row) -> T) -> Vec<T> {
            steps.iter().map(|step| value(&step.row)).collect()
        }
        Self {
            write,
            tenant,
            id: column(steps, |row| row.id),
            expected: steps.iter().map(|step| step.expected).collect(),
            route_pattern: column(steps, |row| row.route_pattern.as_str()),
            idempotency_key: column(steps, |row| row.idempotency_key.as_str()),
            version: column(steps, |row| row.version),
            state: column(steps, |row| row.state.as_str()),
            fingerprint: column(steps, |row| row.fingerprint.as_slice()),
            principal: column(steps, |row| row.principal.as_deref()),
            on_lost: column(steps, |row| row.on_lost.as_str()),
            lease_ms: column(steps, |row| row.lease_ms),
            epoch: column(steps, |row| row.epoch),
            lease_owner: column(steps, |row| row.lease_owner),
            lease_until: column(steps, |row| row.lease_until.map(moment)),
            doubt: column(steps, |row| row.doubt.as_deref()),
            content_hash: column(steps, |row| row.content_hash.as_str()),
            request_method: column(steps, |row| row.request_method.as_str()),
            request_path: column(steps, |row| row.request_path.as_str()),
            request_content_type: column(steps, |row| row.request_content_type.as_str()),
            request_body: column(steps, |row| row.request_body.as_deref()),
            response_status_code: column(steps, |row| row.response_status_code),
            response_headers: column(steps, |row| row.response_headers.as_deref()),
            response_body: column(steps, |row| row.response_body.as_deref()),
            created_at: column(steps, |row| moment(row.created_at)),
            expires_at: column(steps, |row| moment(row.expires_at)),
            completed_at: column(steps, |row| row.completed_at.map(moment)),
            subject: column(steps, |row| row.subject.as_deref()),
            request_masks: column(steps, |row| row.request_masks.as_deref()),
        }
    }

    /// The parameters, in the order of the statement for this kind of move.
    pub(super) fn params(&self) -> Vec<Param<'_>> {
        match self.write {
            Write::Renew => vec![
                &self.tenant,
                &self.id,
                &self.expected,
                &self.version,
                &self.lease_until,
            ],
            Write::Settle => vec![
                &self.tenant,
                &self.id,
                &self.expected,
                &self.version,
                &self.response_status_code,
                &self.response_headers,
                &self.response_body,
                &self.completed_at,
            ],
            Write::Insert => self.whole(),
            Write::Replace => {
                let mut params = self.whole();
                params.push(&self.expected);
                params
            }
        }
    }

    fn whole(&self) -> Vec<Param<'_>> {
        vec![
            &self.tenant,
            &self.id,
            &self.route_pattern,
            &self.idempotency_key,
            &self.version,
            &self.state,
            &self.fingerprint,
            &self.principal,
            &self.on_lost,
            &self.lease_ms,
            &self.epoch,
            &self.lease_owner,
            &self.lease_until,
            &self.doubt,
            &self.content_hash,
            &self.request_method,
            &self.request_path,
            &self.request_content_type,
            &self.request_body,
            &self.response_status_code,
            &self.response_headers,
            &self.response_body,
            &self.created_at,
            &self.expires_at,
            &self.completed_at,
            &self.subject,
            &self.request_masks,
        ]
    }
}

/// The columns in a row of `find.sql`, `stored.sql` or `scan.sql`, which name the same ones.
pub(super) fn stored(row: &tokio_postgres::Row) -> Result<Row, Error> {
    Ok(Row {
        id: get(row, 0)?,
        tenant_id: get(row, 1)?,
        route_pattern: get(row, 2)?,
        idempotency_key: get(row, 3)?,
        version: get(row, 4)?,
        state: get(row, 5)?,
        fingerprint: get(row, 6)?,
        principal: get(row, 7)?,
        on_lost: get(row, 8)?,
        lease_ms: get(row, 9)?,
        epoch: get(row, 10)?,
        lease_owner: get(row, 11)?,
        lease_until: get::<Option<SystemTime>>(row, 12)?.map(ms),
        doubt: get(row, 13)?,
        content_hash: get(row, 14)?,
        request_method: get(row, 15)?,
        request_path: get(row, 16)?,
        request_content_type: get(row, 17)?,
        request_body: get(row, 18)?,
        response_status_code: get(row, 19)?,
        response_headers: get(row, 20)?,
        response_body: get(row, 21)?,
        created_at: ms(get(row, 22)?),
        expires_at: ms(get(row, 23)?),
        completed_at: get::<Option<SystemTime>>(row, 24)?.map(ms),
        subject: get(row, 25)?,
        request_masks: get(row, 26)?,
    })
}

/// A column of a row, or the fact that it is not what it should be.
pub(super) fn get<'a, T: FromSql<'a>>(
    row: &'a tokio_postgres::Row,
    column: usize,
) -> Result<T, Error> {
    row.try_get(column).map_err(|error| {
        Error::new(Kind::Corrupt, "reading a record").because(super::fault::text(&error))
    })
}

/// A time as the database takes it.
pub(super) fn moment(time_ms: i64) -> SystemTime {
    let span = Duration::from_millis(time_ms.unsigned_abs().min(LAST_MS.unsigned_abs()));
    // Before 1970 there are only the times of a broken clock; the year 1 is early enough for those.
    if time_ms < 0 {
        UNIX_EPOCH
            .checked_sub(span.min(Duration::from_secs(62_000_000_000)))
            .unwrap_or(UNIX_EPOCH)
    } else {
        UNIX_EPOCH + span
    }
}

/// The end of time, which no stored record reaches.
pub(super) fn end_of_time() -> SystemTime {
    moment(LAST_MS)
}

fn ms(moment: SystemTime) -> i64 {
    Time::from(moment).as_ms()
}
