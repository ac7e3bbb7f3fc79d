//! Policies and the test mode: rows that say what a write does, read in its transaction.

use hapax_core::entry::{Policy, PolicyChange, Schema, Target, TestMode};
use hapax_core::{Error, Kind, Tenant};
use rusqlite::{Connection, OptionalExtension, params};

use super::super::fault::Fault;
use super::rows::tenant_bytes;
use super::statements::Statements;
use crate::entry::{is_on, mode_key, mode_value};

pub(super) const MODE_FIND: &str = include_str!("../../../sql/sqlite/runtime_find.sql");
const MODE_PUT: &str = include_str!("../../../sql/sqlite/runtime_put.sql");

/// The home that is meant.
pub(super) fn schema(
    connection: &Connection,
    tenant: Tenant,
    target: Target,
) -> Result<Schema, Fault> {
    match target {
        Target::Pinned(schema) => Ok(schema),
        Target::Active => mode(connection, tenant).map(Schema::of_test_mode),
    }
}

/// Whether the test mode is on, as it is stored.
pub(super) fn mode(connection: &Connection, tenant: Tenant) -> Result<bool, Fault> {
    let mut find = connection.prepare_cached(MODE_FIND)?;
    let params = params![mode_key(tenant), tenant_bytes(tenant)];
    let value: Option<String> = find.query_row(params, |row| row.get(0)).optional()?;
    Ok(is_on(value.as_deref())?)
}

/// Changes the test mode. Returns what it is then.
pub(super) fn change_mode(
    connection: &Connection,
    tenant: Tenant,
    to: TestMode,
) -> Result<bool, Fault> {
    let next = match to {
        TestMode::Set(next) => next,
        TestMode::Toggle => !mode(connection, tenant)?,
    };
    let mut put = connection.prepare_cached(MODE_PUT)?;
    put.execute(params![
        mode_key(tenant),
        tenant_bytes(tenant),
        mode_value(next)
    ])?;
    Ok(next)
}

/// The policies of a tenant, by name; none if it never looked.
pub(super) fn list(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
) -> Result<Vec<Policy>, Fault> {
    let mut list = connection.prepare_cached(&sql.policy_list)?;
    let rows = list.query_and_then([tenant_bytes(tenant)], read)?;
    rows.collect()
}

/// The policies of a tenant, by name, and whether they had to be written first.
pub(super) fn seeded(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
) -> Result<(Vec<Policy>, bool), Fault> {
    let there = list(connection, sql, tenant)?;
    if !there.is_empty() {
        return Ok((there, false));
    }
    for seed in Policy::seeds() {
        put(connection, sql, tenant, &seed)?;
    }
    Ok((list(connection, sql, tenant)?, true))
}

/// Changes a policy, or adds it.
pub(super) fn set(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    key: &str,
    change: &PolicyChange,
) -> Result<Policy, Fault> {
    let (there, _) = seeded(connection, sql, tenant)?;
    let from = there.iter().find(|policy| policy.key == key);
    let mut next = change.over(key, from);
    next.id = put(connection, sql, tenant, &next)?;
    Ok(next)
}

/// Removes a policy. Returns whether there was one.
pub(super) fn remove(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    key: &str,
) -> Result<bool, Fault> {
    let mut drop = connection.prepare_cached(&sql.policy_drop)?;
    Ok(drop.execute(params![tenant_bytes(tenant), key])? > 0)
}

fn put(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    policy: &Policy,
) -> Result<i64, Fault> {
    let fields = policy.update_fields.as_ref();
    let mut put = connection.prepare_cached(&sql.policy_put)?;
    let params = params![
        tenant_bytes(tenant),
        policy.key,
        policy.source,
        policy.content_type,
        policy.conflict_action.as_str(),
        fields.map(|fields| serde_json::json!(fields).to_string()),
        policy.secondary_match.as_str(),
        policy.enabled,
    ];
    Ok(put.query_row(params, |row| row.get(0))?)
}

/// Reads the columns in the order of policy_list.sql.
fn read(row: &rusqlite::Row<'_>) -> Result<Policy, Fault> {
    let key: String = row.get(1)?;
    let unreadable = |column: &str| {
        let why = format!("{column} of the policy {key:?} cannot be read; set it again");
        Error::new(Kind::Corrupt, "reading the policies").because(why)
    };
    let action: String = row.get(4)?;
    let fields: Option<String> = row.get(5)?;
    let reach: String = row.get(6)?;
    Ok(Policy {
        id: row.get(0)?,
        source: row.get(2)?,
        content_type: row.get(3)?,
        conflict_action: action.parse().map_err(|_| unreadable("conflict_action"))?,
        update_fields: fields
            .map(|fields| serde_json::from_str(&fields))
            .transpose()
            .map_err(|_| unreadable("update_fields"))?,
        secondary_match: reach.parse().map_err(|_| unreadable("secondary_match"))?,
        enabled: row.get(7)?,
        key,
    })
}
