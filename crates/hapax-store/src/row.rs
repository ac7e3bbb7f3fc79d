//! A record as column values, the same for both SQL stores, and back. It runs no statement.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{
    Body, Doubt, Epoch, Error, Fingerprint, Key, Kind, OnLost, Outcome, Owner, Principal, Record,
    RecordId, Request, Scope, State, Subject, Swap, Tenant, Time, Version, record::Hold,
};
use uuid::Uuid;

use crate::codec;
use crate::vault::{Ring, Rings, Seal};

/// The columns of `idempotency_keys`. Times are UTC milliseconds here; a store may keep them otherwise.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) route_pattern: String,
    pub(crate) idempotency_key: String,
    pub(crate) version: i64,
    pub(crate) state: String,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) principal: Option<Vec<u8>>,
    pub(crate) on_lost: String,
    pub(crate) lease_ms: i64,
    pub(crate) epoch: Option<i64>,
    pub(crate) lease_owner: Option<Uuid>,
    pub(crate) lease_until: Option<i64>,
    pub(crate) doubt: Option<String>,
    pub(crate) content_hash: String,
    pub(crate) request_method: String,
    pub(crate) request_path: String,
    pub(crate) request_content_type: String,
    pub(crate) request_body: Option<Vec<u8>>,
    /// NULL where nothing is masked but telling names, as in rows from before there were masks.
    pub(crate) request_masks: Option<String>,
    pub(crate) response_status_code: Option<i32>,
    pub(crate) response_headers: Option<String>,
    /// Absent from a settled row when the body was too large to keep.
    pub(crate) response_body: Option<Vec<u8>>,
    pub(crate) created_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) completed_at: Option<i64>,
    pub(crate) subject: Option<Vec<u8>>,
}

/// What became of a move. The stored row is made a record by whoever asked, off the thread that writes.
#[derive(Debug)]
pub(crate) enum Applied {
    Written,
    Stale(Option<Box<Row>>),
}

impl Applied {
    /// The answer, its stored row opened with the keys of its tenant.
    pub(crate) fn open(self, rings: &Rings) -> Result<Swap, Error> {
        match self {
            Applied::Written => Ok(Swap::Written),
            Applied::Stale(None) => Ok(Swap::Stale(None)),
            Applied::Stale(Some(row)) => {
                let ring = rings.get(row.tenant_id);
                Ok(Swap::Stale(Some(Box::new(row.open(ring)?))))
            }
        }
    }

    /// The stored row, if there is one.
    pub(crate) fn row(&self) -> Option<&Row> {
        match self {
            Applied::Stale(Some(row)) => Some(row),
            Applied::Stale(None) | Applied::Written => None,
        }
    }
}

impl Row {
    /// The columns of `record`, sealed if there are keys for it.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn of(record: &Record, ring: Option<&Ring>) -> Result<Self, Error> {
        Self::with_request(record, &record.request, ring)
    }

    /// The same without what was asked, for a write that leaves that as it is: there is no need to pack it.
    pub(crate) fn without_request(record: &Record, ring: Option<&Ring>) -> Result<Self, Error> {
        Self::with_request(record, &Request::default(), ring)
    }

    fn with_request(
        record: &Record,
        request: &Request,
        ring: Option<&Ring>,
    ) -> Result<Self, Error> {
        let (tenant_id, id) = (record.scope.tenant.as_uuid(), record.id.as_uuid());
        let seal = Seal::new(ring, tenant_id, id);
        let (fingerprint, content_hash) = seal.asked(&record.fingerprint, &request.content_hash)?;
        let hold = record.hold();
        let settled = match &record.state {
            State::Settled { outcome, at } => Some((outcome, *at)),
            State::Held(_)
            | State::InDoubt { .. }
            | State::Free
            | State::Expired
            | State::Erased => None,
        };
        let doubt = match &record.state {
            State::InDoubt { reason, .. } => Some(reason.as_str().to_owned()),
            State::Held(_)
            | State::Settled { .. }
            | State::Free
            | State::Expired
            | State::Erased => None,
        };
        Ok(Self {
            id,
            tenant_id,
            route_pattern: record.scope.space.as_str().to_owned(),
            idempotency_key: record.key.as_str().to_owned(),
            version: record.version.0,
            state: record.state.as_str().to_owned(),
            fingerprint,
            principal: record
                .principal
                .map(|principal| principal.as_bytes().to_vec()),
            on_lost: record.on_lost.as_str().to_owned(),
            lease_ms: i64::try_from(record.lease.as_millis()).unwrap_or(i64::MAX),
            epoch: hold.map(|hold| hold.epoch.0.0),
            lease_owner: hold.map(|hold| Uuid::from_u128(hold.owner.as_u128())),
            lease_until: hold.map(|hold| hold.until.as_ms()),
            doubt,
            content_hash,
            request_method: request.method.clone(),
            request_path: seal.text("request_path", &request.path)?,
            request_content_type: request.content_type.clone(),
            request_body: request
                .body
                .as_ref()
                .map(|body| seal.body("request_body", body))
                .transpose()?,
            request_masks: codec::pack_masks(&request.masks),
            response_status_code: settled.map(|(outcome, _)| i32::from(outcome.status)),
            response_headers: settled
                .map(|(outcome, _)| seal.headers(&outcome.headers))
                .transpose()?,
            response_body: settled
                .and_then(|(outcome, _)| outcome.whole())
                .map(|body| seal.body("response_body", body))
                .transpose()?,
            created_at: record.created_at.as_ms(),
            expires_at: record.expires_at.as_ms(),
            completed_at: settled.map(|(_, at)| at.as_ms()),
            subject: record.subject.map(|subject| subject.as_bytes().to_vec()),
        })
    }

    /// The record in these columns. What is sealed is opened with `ring`, and only by the right one.
    pub(crate) fn open(self, ring: Option<&Ring>) -> Result<Record, Error> {
        let mut row = self;
        let seal = Seal::new(ring, row.tenant_id, row.id);
        let state = state(&mut row, seal)?;
        let binds = match &state {
            State::Held(_) | State::InDoubt { .. } | State::Settled { .. } => true,
            State::Free | State::Expired | State::Erased => false,
        };
        let (fingerprint, content_hash) =
            seal.open_asked(row.fingerprint, row.content_hash, binds)?;
        let scope =
            Scope::new(Tenant::from_uuid(row.tenant_id), &row.route_pattern).map_err(damaged)?;
        let key = Key::new(&row.idempotency_key).map_err(damaged)?;
        let on_lost = match row.on_lost.as_str() {
            "retry" => OnLost::Retry,
            "hold" => OnLost::Hold,
            other => return Err(unknown("on_lost", other)),
        };
        Ok(Record {
            id: RecordId::from_uuid(row.id),
            scope,
            key,
            version: Version(row.version),
            fingerprint: Fingerprint::from_bytes(hash("fingerprint", fingerprint)?),
            principal: row
                .principal
                .map(|bytes| hash("principal", bytes))
                .transpose()?
                .map(Principal::from_bytes),
            subject: row
                .subject
                .map(|bytes| hash("subject", bytes))
                .transpose()?
                .map(Subject::from_bytes),
            on_lost,
            lease: Duration::from_millis(u64::try_from(row.lease_ms).unwrap_or(0)),
            request: Arc::new(Request {
                method: row.request_method,
                path: seal.open_text("request_path", row.request_path)?,
                content_type: row.request_content_type,
                content_hash,
                body: row
                    .request_body
                    .map(|body| seal.open_body("request_body", body))
                    .transpose()?,
                masks: row
                    .request_masks
                    .as_deref()
                    .map_or(Ok(Vec::new()), codec::unpack_masks)?,
            }),
            created_at: Time::from_ms(row.created_at),
            expires_at: Time::from_ms(row.expires_at),
            state,
        })
    }
}

fn state(row: &mut Row, seal: Seal<'_>) -> Result<State, Error> {
    match row.state.as_str() {
        "held" => Ok(State::Held(hold(row)?)),
        "in_doubt" => {
            let reason = match row.doubt.as_deref() {
                Some("outcome_unknown") => Doubt::OutcomeUnknown,
                Some("runner_died") => Doubt::RunnerDied,
                Some("response_not_stored") => Doubt::ResponseNotStored(None),
                other => return Err(unknown("doubt", other.unwrap_or("NULL"))),
            };
            Ok(State::InDoubt {
                reason,
                hold: hold(row)?,
            })
        }
        "settled" => {
            let status = row
                .response_status_code
                .and_then(|code| u16::try_from(code).ok());
            let status = status.ok_or_else(|| unknown("response_status_code", "NULL"))?;
            let headers = row
                .response_headers
                .as_deref()
                .map_or(Ok(Vec::new()), |headers| seal.open_headers(headers))?;
            let body = match row.response_body.take() {
                Some(body) => Body::Whole(seal.open_body("response_body", body)?),
                None => Body::Omitted,
            };
            let at = row
                .completed_at
                .ok_or_else(|| unknown("completed_at", "NULL"))?;
            Ok(State::Settled {
                outcome: Arc::new(Outcome {
                    status,
                    headers,
                    body,
                }),
                at: Time::from_ms(at),
            })
        }
        "free" => Ok(State::Free),
        "expired" => Ok(State::Expired),
        "erased" => Ok(State::Erased),
        other => Err(unknown("state", other)),
    }
}

fn hold(row: &Row) -> Result<Hold, Error> {
    match (row.epoch, row.lease_owner, row.lease_until) {
        (Some(epoch), Some(owner), Some(until)) => Ok(Hold {
            epoch: Epoch(Version(epoch)),
            owner: Owner::from_u128(owner.as_u128()),
            until: Time::from_ms(until),
        }),
        (_, _, _) => Err(unknown("lease", "NULL")),
    }
}

fn hash(column: &'static str, bytes: Vec<u8>) -> Result<[u8; 32], Error> {
    bytes
        .try_into()
        .map_err(|_| unknown(column, "of another length"))
}

fn unknown(column: &str, value: &str) -> Error {
    Error::new(Kind::Corrupt, "reading a record").because(format!("{column} is {value}"))
}

fn damaged(error: hapax_core::Invalid) -> Error {
    Error::new(Kind::Corrupt, "reading a record").caused_by(error)
}
