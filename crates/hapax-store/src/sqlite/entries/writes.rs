//! Writing a batch: everything it meets is read, the rule decides, and what it decided is written, in one transaction.

use std::collections::{BTreeSet, HashMap};

use hapax_core::entry::{Done, Incoming, Merged, Plan, Row, Schema, Target, Which, Written};
use hapax_core::{Tenant, Time};
use rusqlite::{Connection, params};
use serde_json::Value;
use uuid::Uuid;

use super::super::fault::Fault;
use super::super::queue::Effect;
use super::statements::Statements;
use super::{policies, rows, search};

/// What an item weighs beside its texts, roughly.
const OVERHEAD_BYTES: usize = 1024;

/// Writes a batch to where `target` points now.
pub(super) fn write(
    connection: &Connection,
    tenant: Tenant,
    target: Target,
    batch: Vec<Incoming>,
    all_or_nothing: bool,
    now: Time,
) -> Result<(Written, Effect), Fault> {
    let schema = policies::schema(connection, tenant, target)?;
    let (kept, done, wrote) = write_to(connection, tenant, schema, batch, all_or_nothing, now)?;
    let written = Written { schema, kept, done };
    Ok((written, Effect { wrote, purged: 0 }))
}

/// Writes a batch to this home. Says whether anything of it was kept, what became of each item, and whether any row was
/// written.
pub(super) fn write_to(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    batch: Vec<Incoming>,
    all_or_nothing: bool,
    now: Time,
) -> Result<(bool, Vec<Done>, bool), Fault> {
    let sql = Statements::of(schema);
    let (policies, seeded) = policies::seeded(connection, sql, tenant)?;
    let found = found(connection, sql, tenant, &batch)?;
    let merged = merged(connection, sql, tenant, Plan::merges(&batch, &found))?;
    let mut plan = Plan::of(batch, &policies, found, &merged, now, Uuid::now_v7);
    // Nothing is written before it is known whether everything is, so a fault uses no number up.
    if all_or_nothing && plan.has_a_fault() {
        return Ok((false, plan.answers(), seeded));
    }
    let wrote = carry_out(connection, sql, tenant, &mut plan, now)?;
    Ok((true, plan.answers(), seeded || wrote))
}

/// Writes what a plan decided. Says whether any row was written.
pub(super) fn carry_out(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    plan: &mut Plan,
    now: Time,
) -> Result<bool, Fault> {
    let mut wrote = false;
    let mut numbers = Vec::with_capacity(plan.numbers_needed());
    for row in plan.inserts() {
        numbers.push(rows::insert(connection, sql, tenant, row)?);
        wrote = true;
    }
    plan.number(numbers);
    // What is stored: the first state of each that is replaced.
    let mut stored: HashMap<i64, Row> = HashMap::new();
    for old in plan.replaced() {
        rows::keep(connection, sql, tenant, &old, now)?;
        stored.entry(old.entry_id).or_insert(old);
    }
    for row in plan.updates() {
        rows::update(connection, sql, tenant, row)?;
        wrote = true;
    }
    let mut remember = connection.prepare_cached(&sql.message_put)?;
    for Merged { entry_id, message } in plan.merged() {
        let params = params![rows::tenant_bytes(tenant), entry_id, message.as_bytes()];
        wrote |= remember.execute(params)? > 0;
    }
    // The words of all of them last and in the order of their numbers, of which the new ones are the highest: the index
    // gathers what it gets, and any other statement in between, or a number below the last, makes it write that down and
    // merge it.
    let mut updates: Vec<&Row> = plan.updates().collect();
    updates.sort_unstable_by_key(|row| row.entry_id);
    for row in updates {
        search::index(connection, sql, row, stored.get(&row.entry_id))?;
    }
    for row in plan.inserts() {
        search::index(connection, sql, row, None)?;
    }
    Ok(wrote)
}

/// The rows that a batch may meet. This is the writer's transaction: nobody changes them until it ends.
fn found(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    batch: &[Incoming],
) -> Result<Vec<Row>, Fault> {
    let mut found = Vec::new();
    let tenant_bytes = rows::tenant_bytes(tenant);
    for lookup in Plan::lookups(batch) {
        let statement = match lookup.which {
            Which::Primary => &sql.find_primary,
            Which::Secondary => &sql.find_secondary,
        };
        let params = params![tenant_bytes, lookup.policy, lookup.key];
        found.extend(rows::one(connection, statement, params)?);
    }
    // Each once: many changes of one long text do not read it as often.
    let (numbers, ids) = Plan::named(batch);
    for number in numbers.into_iter().collect::<BTreeSet<_>>() {
        found.extend(rows::find(connection, sql, tenant, number)?);
    }
    for id in ids.into_iter().collect::<BTreeSet<_>>() {
        let params = params![tenant_bytes, id.as_bytes()];
        found.extend(rows::one(connection, &sql.find_id, params)?);
    }
    Ok(found)
}

/// Those of the merges that happened before.
fn merged(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    merges: Vec<Merged>,
) -> Result<Vec<Merged>, Fault> {
    let mut known = Vec::new();
    let mut there = connection.prepare_cached(&sql.message_there)?;
    for merge in merges {
        let params = params![
            rows::tenant_bytes(tenant),
            merge.entry_id,
            merge.message.as_bytes()
        ];
        if there.query_row(params, |row| row.get(0))? {
            known.push(merge);
        }
    }
    Ok(known)
}

/// How much memory a batch holds, roughly.
pub(super) fn bytes<'a>(batch: impl IntoIterator<Item = &'a Incoming>) -> usize {
    let one = |incoming: &Incoming| {
        let fields = match incoming {
            Incoming::Insert(draft) => &draft.fields,
            Incoming::Update(change) => &change.fields,
            Incoming::Refused(_) => return OVERHEAD_BYTES,
        };
        let said: usize = fields.iter().map(|(_, value)| weight(value)).sum();
        OVERHEAD_BYTES + said
    };
    batch.into_iter().map(one).sum()
}

fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(weight).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| name.len() + weight(value))
                .sum(),
        }
}
