//! What is asked now and by whom, and the answers that were paid for: kept under what was asked, the first one for good.

use std::sync::Arc;

use hapax_core::entry::Asked;
use hapax_core::{Fingerprint, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::super::super::fault::Fault;
use super::super::super::queue::Effect;
use super::super::rows::tenant_bytes;
use super::effect;

pub(in super::super) const ANSWER_FIND: &str =
    include_str!("../../../../sql/sqlite/answer_find.sql");
const ANSWER_PUT: &str = include_str!("../../../../sql/sqlite/answer_put.sql");
const ASK: &str = include_str!("../../../../sql/sqlite/question_ask.sql");
pub(in super::super) const END: &str = include_str!("../../../../sql/sqlite/question_end.sql");
pub(in super::super) const STOP: &str = include_str!("../../../../sql/sqlite/question_stop.sql");

/// What was answered under these keys.
pub(super) fn paid(
    connection: &Connection,
    tenant: Tenant,
    keys: &[Fingerprint],
) -> Result<Vec<Option<Arc<str>>>, Fault> {
    let mut find = connection.prepare_cached(ANSWER_FIND)?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let params = params![key.as_bytes(), tenant_bytes(tenant)];
        let raw: Option<Arc<str>> = find.query_row(params, |row| row.get(0)).optional()?;
        found.push(raw);
    }
    Ok(found)
}

/// Has somebody ask these from `now` until then, as far as they are not answered and nobody else asks them.
pub(super) fn ask(
    connection: &Connection,
    tenant: Tenant,
    who: Uuid,
    (now, until): (Time, Time),
    keys: &[Fingerprint],
) -> Result<(Vec<Asked>, Effect), Fault> {
    let mut ask = connection.prepare_cached(ASK)?;
    let mut written = 0;
    let mut asked = Vec::with_capacity(keys.len());
    for (key, paid) in keys.iter().zip(paid(connection, tenant, keys)?) {
        if let Some(raw) = paid {
            asked.push(Asked::Paid(raw));
            continue;
        }
        let changed = ask.execute(params![
            tenant_bytes(tenant),
            key.as_bytes(),
            who.as_bytes(),
            until.as_ms(),
            now.as_ms(),
        ])?;
        written += changed;
        asked.push(if changed > 0 {
            Asked::Ours
        } else {
            Asked::Theirs
        });
    }
    Ok((asked, effect(written > 0)))
}

/// Keeps answers, and nobody asks for them any more.
pub(super) fn keep(
    connection: &Connection,
    tenant: Tenant,
    answers: &[(Fingerprint, Arc<str>)],
    now: Time,
) -> Result<((), Effect), Fault> {
    let mut put = connection.prepare_cached(ANSWER_PUT)?;
    let mut end = connection.prepare_cached(END)?;
    let mut written = 0;
    for (key, raw) in answers {
        let params = params![tenant_bytes(tenant), key.as_bytes(), raw, now.as_ms()];
        written += put.execute(params)?;
        written += end.execute(params![key.as_bytes(), tenant_bytes(tenant)])?;
    }
    Ok(((), effect(written > 0)))
}

/// This asker asks nothing any more; how much it asked until now.
pub(super) fn stop(connection: &Connection, tenant: Tenant, who: Uuid) -> Result<usize, Fault> {
    let mut stop = connection.prepare_cached(STOP)?;
    Ok(stop.execute(params![tenant_bytes(tenant), who.as_bytes()])?)
}
