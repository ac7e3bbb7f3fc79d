//! Items of batches: read with their texts, and settled with their entries.

use hapax_core::entry::{
    Change, Done, Fields, Incoming, Item, ItemChange, ItemScan, ItemStatus, ItemText, Plan, Row,
    Schema, enrichable,
};
use hapax_core::{Error, Fingerprint, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use uuid::Uuid;

use super::super::super::fault::Fault;
use super::super::super::queue::Effect;
use super::super::rows::{self, json, tenant_bytes};
use super::super::statements::Statements;
use super::super::writes;
use super::effect;
use crate::t1::{STALE, bytes as text_bytes, page, status_of, text_of, unreadable};

/// What a change weighs beside its texts, roughly.
const OVERHEAD_BYTES: usize = 512;

/// A page of items, in their order.
pub(super) fn list(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    batch: Uuid,
    scan: &ItemScan,
) -> Result<Vec<Item>, Fault> {
    let sql = Statements::of(schema);
    let (tenant_id, batch_id) = (tenant_bytes(tenant), batch.into_bytes());
    let (after, most) = (scan.after.unwrap_or(i64::MIN), page(scan.limit));
    let mut list = connection.prepare_cached(match scan.status {
        None => &sql.item_list,
        Some(_) => &sql.item_list_status,
    })?;
    let mut found = match scan.status {
        None => list.query(params![tenant_id, batch_id, after, scan.with_text, most])?,
        Some(status) => list.query(params![
            tenant_id,
            batch_id,
            after,
            scan.with_text,
            most,
            status.as_str()
        ])?,
    };
    let (mut items, mut bytes) = (Vec::new(), 0);
    while bytes <= ItemScan::TEXT_BYTES
        && let Some(row) = found.next()?
    {
        let mut item = read(row)?;
        if let (true, None, Some(entry_id)) = (scan.with_text, &item.text, item.entry_id) {
            item.text = text_now(connection, sql, tenant, entry_id)?;
        }
        bytes += item.text.as_ref().map_or(0, text_bytes);
        items.push(item);
    }
    Ok(items)
}

/// Reads the columns in the order of the statements that list items.
fn read(row: &rusqlite::Row<'_>) -> Result<Item, Fault> {
    let hash: Option<[u8; 32]> = row.get(2)?;
    let status: String = row.get(3)?;
    let request: Option<String> = row.get(4)?;
    let text = request.map(|request| text_of(&json(&request)?));
    let result: Option<String> = row.get(6)?;
    Ok(Item {
        item_id: row.get(0)?,
        entry_id: row.get(1)?,
        hash: fingerprint(hash)?,
        status: status_of(&status)?,
        text: text.transpose()?,
        raw: row.get(5)?,
        result: result.map(|result| json(&result)).transpose()?,
        error: row.get(7)?,
        updated_at: Time::from_ms(row.get(8)?),
        missed_in: row.get(9)?,
    })
}

/// What is asked about an entry, as it is now.
fn text_now(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    entry_id: i64,
) -> rusqlite::Result<Option<ItemText>> {
    let mut find = connection.prepare_cached(&sql.item_text)?;
    let found = find.query_row(params![tenant_bytes(tenant), entry_id], |row| {
        let clean_text: Option<String> = row.get(3)?;
        Ok(ItemText {
            title: row.get(0)?,
            author: row.get(1)?,
            content_type: row.get(2)?,
            clean_text: clean_text.unwrap_or_default(),
        })
    });
    found.optional()
}

/// Changes items one after the other, each with its entry.
pub(super) fn settle(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    batch: Uuid,
    changes: &[ItemChange],
    now: Time,
) -> Result<(Vec<Option<ItemStatus>>, Effect), Fault> {
    let sql = Statements::of(schema);
    let (tenant_id, batch_id) = (tenant_bytes(tenant), batch.into_bytes());
    let (mut settled, mut wrote) = (Vec::with_capacity(changes.len()), false);
    for change in changes {
        let params = params![change.item_id, tenant_id, batch_id];
        let mut find = connection.prepare_cached(&sql.item_find)?;
        let found = find.query_row(params, |row| Ok(seen(row))).optional()?;
        let Some(seen) = found.transpose()? else {
            settled.push(None);
            continue;
        };
        if seen.status != change.from {
            settled.push(Some(seen.status));
            continue;
        }
        let (status, error) = enrich(connection, sql, tenant, change, &seen, now)?;
        let mut settle = connection.prepare_cached(&sql.item_settle)?;
        settle.execute(params![
            change.item_id,
            tenant_id,
            batch_id,
            status.as_str(),
            change.raw,
            change.result.as_ref().map(Value::to_string),
            error.as_ref().or(change.error.as_ref()),
            now.as_ms(),
            change.missed_in,
        ])?;
        settled.push(Some(status));
        wrote = true;
    }
    Ok((settled, effect(wrote)))
}

/// How far an item is, and what it is about.
struct Seen {
    status: ItemStatus,
    entry_id: Option<i64>,
    hash: Fingerprint,
}

fn seen(row: &rusqlite::Row<'_>) -> Result<Seen, Fault> {
    let status: String = row.get(0)?;
    Ok(Seen {
        status: status_of(&status)?,
        entry_id: row.get(1)?,
        hash: fingerprint(row.get(2)?)?,
    })
}

/// Writes a result to its entry while that says what was asked about. Says what the item becomes, and what went wrong.
fn enrich(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    change: &ItemChange,
    seen: &Seen,
    now: Time,
) -> Result<(ItemStatus, Option<String>), Fault> {
    let (Some(fields), Some(entry_id)) = (&change.entry, seen.entry_id) else {
        return Ok((change.to, None));
    };
    let row = rows::find(connection, sql, tenant, entry_id)?;
    // Made of what the row says, so that a text that somebody changed by hand counts as well.
    let said = row.as_ref().and_then(|row| enrichable(&row.fields));
    let (Some(row), true) = (row, said == Some(seen.hash)) else {
        return Ok((ItemStatus::Stale, Some(STALE.to_owned())));
    };
    write(connection, sql, tenant, row, fields, now).map(|refused| match refused {
        None => (change.to, None),
        Some(message) => (ItemStatus::Failed, Some(message)),
    })
}

/// Puts `fields` over an entry by the rule of entries. Says why not, if the rule refuses.
fn write(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    row: Row,
    fields: &Fields,
    now: Time,
) -> Result<Option<String>, Fault> {
    let change = Incoming::Update(Change {
        entry_id: Some(row.entry_id),
        id: None,
        fields: fields.clone(),
        ignored: Vec::new(),
    });
    let mut plan = Plan::of(vec![change], &[], vec![row], &[], now, Uuid::now_v7);
    writes::carry_out(connection, sql, tenant, &mut plan, now)?;
    Ok(plan.answers().into_iter().find_map(|done| match done {
        Done::Kept(_) => None,
        Done::Refused(refused) => Some(refused.message),
        Done::Missing => Some("the entry that it names is not there".to_owned()),
    }))
}

fn fingerprint(hash: Option<[u8; 32]>) -> Result<Fingerprint, Error> {
    let hash = hash.ok_or_else(|| unreadable("fingerprint"))?;
    Ok(Fingerprint::from_bytes(hash))
}

/// How much memory changes hold, roughly.
pub(super) fn bytes(changes: &[ItemChange]) -> usize {
    let one = |change: &ItemChange| {
        let raw = change.raw.as_ref().map_or(0, |raw| raw.len());
        let fields = change.entry.as_ref().map_or(0, Fields::weight);
        OVERHEAD_BYTES + raw + fields
    };
    changes.iter().map(one).sum()
}
