//! A record as the fields of one Redis hash, and back. The names are those of the SQL columns; a column that is NULL is
//! a field that is not there. It sends nothing.

use std::collections::HashMap;

use hapax_core::ledger::Write;
use hapax_core::{Error, Kind, OnLost, Record, State};
use uuid::Uuid;

use crate::row::Row;

/// A field's name and its value.
pub(super) type Field = (&'static str, Vec<u8>);

/// What a settle takes away.
const OF_A_LEASE: [&str; 4] = ["epoch", "lease_owner", "lease_until", "doubt"];

/// What a sweep takes away: everything that was asked or answered, and who held it.
pub(super) const OF_A_LIFE: [&str; 17] = [
    "write",
    "mac",
    "epoch",
    "lease_owner",
    "lease_until",
    "doubt",
    "content_hash",
    "request_method",
    "request_path",
    "request_content_type",
    "request_body",
    "response_status_code",
    "response_headers",
    "response_body",
    "completed_at",
    "subject",
    "request_masks",
];

/// What a write changes: whether nothing of the old record stays, which fields go, which are set.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) replaces: bool,
    pub(super) removed: &'static [&'static str],
    pub(super) set: Vec<Field>,
}

/// The change that writes `row`. A settle does not send the request again, nor a renewal anything but the lease.
pub(super) fn change(write: Write, row: Row) -> Change {
    let all = fields(row);
    let only = |names: &[&str], all: Vec<Field>| -> Vec<Field> {
        all.into_iter()
            .filter(|(name, _)| names.contains(name))
            .collect()
    };
    match write {
        Write::Insert | Write::Replace => Change {
            replaces: true,
            removed: &[],
            set: all,
        },
        Write::Renew => Change {
            replaces: false,
            removed: &[],
            set: only(&["version", "lease_until"], all),
        },
        Write::Settle => Change {
            replaces: false,
            removed: &OF_A_LEASE,
            set: only(
                &[
                    "version",
                    "state",
                    "response_status_code",
                    "response_headers",
                    "response_body",
                    "completed_at",
                ],
                all,
            ),
        },
    }
}

/// Every field of `row`.
pub(super) fn fields(row: Row) -> Vec<Field> {
    let text = |number: i64| number.to_string().into_bytes();
    let mut all: Vec<Field> = vec![
        ("id", row.id.as_bytes().to_vec()),
        ("tenant_id", row.tenant_id.as_bytes().to_vec()),
        ("route_pattern", row.route_pattern.into_bytes()),
        ("idempotency_key", row.idempotency_key.into_bytes()),
        ("version", text(row.version)),
        ("state", row.state.into_bytes()),
        ("fingerprint", row.fingerprint),
        ("on_lost", row.on_lost.into_bytes()),
        ("lease_ms", text(row.lease_ms)),
        ("content_hash", row.content_hash.into_bytes()),
        ("request_method", row.request_method.into_bytes()),
        ("request_path", row.request_path.into_bytes()),
        (
            "request_content_type",
            row.request_content_type.into_bytes(),
        ),
        ("created_at", text(row.created_at)),
        ("expires_at", text(row.expires_at)),
    ];
    let status = row.response_status_code.map(i64::from);
    let optional: [(&'static str, Option<Vec<u8>>); 12] = [
        ("principal", row.principal),
        ("epoch", row.epoch.map(text)),
        (
            "lease_owner",
            row.lease_owner.map(|owner| owner.as_bytes().to_vec()),
        ),
        ("lease_until", row.lease_until.map(text)),
        ("doubt", row.doubt.map(String::into_bytes)),
        ("request_body", row.request_body),
        ("response_status_code", status.map(text)),
        (
            "response_headers",
            row.response_headers.map(String::into_bytes),
        ),
        ("response_body", row.response_body),
        ("completed_at", row.completed_at.map(text)),
        ("subject", row.subject),
        ("request_masks", row.request_masks.map(String::into_bytes)),
    ];
    all.extend(
        optional
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    all
}

/// The row in these fields, as `HGETALL` answers them.
pub(super) fn row(fields: HashMap<String, Vec<u8>>) -> Result<Row, Error> {
    let mut fields = Fields(fields);
    let status = fields
        .optional_number("response_status_code")?
        .map(|status| i32::try_from(status).map_err(|_| damaged("response_status_code")))
        .transpose()?;
    Ok(Row {
        id: fields.uuid("id")?.ok_or_else(|| damaged("id"))?,
        tenant_id: fields
            .uuid("tenant_id")?
            .ok_or_else(|| damaged("tenant_id"))?,
        route_pattern: fields.text("route_pattern")?,
        idempotency_key: fields.text("idempotency_key")?,
        version: fields.number("version")?,
        state: fields.text("state")?,
        fingerprint: fields
            .take("fingerprint")
            .ok_or_else(|| damaged("fingerprint"))?,
        principal: fields.take("principal"),
        on_lost: fields.text("on_lost")?,
        lease_ms: fields.number("lease_ms")?,
        epoch: fields.optional_number("epoch")?,
        lease_owner: fields.uuid("lease_owner")?,
        lease_until: fields.optional_number("lease_until")?,
        doubt: fields.optional_text("doubt")?,
        // A swept record has lost what was asked.
        content_hash: fields.optional_text("content_hash")?.unwrap_or_default(),
        request_method: fields.optional_text("request_method")?.unwrap_or_default(),
        request_path: fields.optional_text("request_path")?.unwrap_or_default(),
        request_content_type: fields
            .optional_text("request_content_type")?
            .unwrap_or_default(),
        request_body: fields.take("request_body"),
        response_status_code: status,
        response_headers: fields.optional_text("response_headers")?,
        response_body: fields.take("response_body"),
        created_at: fields.number("created_at")?,
        expires_at: fields.number("expires_at")?,
        completed_at: fields.optional_number("completed_at")?,
        subject: fields.take("subject"),
        request_masks: fields.optional_text("request_masks")?,
    })
}

/// When a record first no longer answers for its key, in milliseconds; never while only a person may end it.
pub(super) fn due_ms(record: &Record) -> Option<i64> {
    let expires_at = record.expires_at;
    let due = match (&record.state, record.on_lost) {
        (State::Held(_) | State::InDoubt { .. }, OnLost::Hold) => return None,
        (State::Held(hold), OnLost::Retry) => expires_at.max(hold.until),
        (State::InDoubt { .. }, OnLost::Retry)
        | (State::Settled { .. } | State::Free | State::Expired | State::Erased, _) => expires_at,
    };
    Some(due.as_ms())
}

struct Fields(HashMap<String, Vec<u8>>);

impl Fields {
    fn take(&mut self, name: &str) -> Option<Vec<u8>> {
        self.0.remove(name)
    }

    fn optional_text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        self.take(name)
            .map(|value| String::from_utf8(value).map_err(|_| damaged(name)))
            .transpose()
    }

    fn text(&mut self, name: &'static str) -> Result<String, Error> {
        self.optional_text(name)?.ok_or_else(|| damaged(name))
    }

    fn optional_number(&mut self, name: &'static str) -> Result<Option<i64>, Error> {
        self.optional_text(name)?
            .map(|text| text.parse().map_err(|_| damaged(name)))
            .transpose()
    }

    fn number(&mut self, name: &'static str) -> Result<i64, Error> {
        self.optional_number(name)?.ok_or_else(|| damaged(name))
    }

    fn uuid(&mut self, name: &'static str) -> Result<Option<Uuid>, Error> {
        self.take(name)
            .map(|bytes| Uuid::from_slice(&bytes).map_err(|_| damaged(name)))
            .transpose()
    }
}

fn damaged(name: &'static str) -> Error {
    Error::new(Kind::Corrupt, "reading a record from Redis")
        .because(format!("the field {name} is missing or not readable"))
}
