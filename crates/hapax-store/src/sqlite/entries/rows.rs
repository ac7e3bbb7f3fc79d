//! Entries as rows: what is bound to a statement, and what comes back.

use hapax_core::entry::{Column, ColumnKind, Fields, Row, enrichable};
use hapax_core::{Error, Fingerprint, Kind, Tenant, Time};
use rusqlite::types::{ToSqlOutput, Value as Owned, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, params};
use serde_json::Value;
use uuid::Uuid;

use super::super::fault::Fault;
use super::statements::Statements;
use crate::entry::{of_state, page, state_text};

/// The tenant as it is stored.
pub(super) fn tenant_bytes(tenant: Tenant) -> [u8; 16] {
    tenant.as_uuid().into_bytes()
}

/// The entry with this number.
pub(super) fn find(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    entry_id: i64,
) -> Result<Option<Row>, Fault> {
    one(
        connection,
        &sql.find,
        params![tenant_bytes(tenant), entry_id],
    )
}

/// The one entry that the statement finds.
pub(super) fn one(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Option<Row>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_row(params, |row| Ok(read(row)))
        .optional()?;
    found.transpose()
}

/// Writes a new entry. Returns its number.
pub(super) fn insert(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    row: &Row,
) -> Result<i64, Fault> {
    let (tenant, text_hash) = (tenant_bytes(tenant), enrichable(&row.fields));
    let mut bound = vec![
        blob(&tenant),
        blob(row.id.as_bytes()),
        whole(row.created_at.as_ms()),
        whole(row.updated_at.as_ms()),
        whole(row.revision.into()),
    ];
    let said = Column::ALL.iter().filter(|column| !column.is_given());
    bound.extend(said.map(|column| bind(*column, row.fields.get(*column))));
    bound.push(hash(text_hash.as_ref()));
    let mut insert = connection.prepare_cached(&sql.insert)?;
    let params = rusqlite::params_from_iter(bound);
    Ok(insert.insert(params)?)
}

/// Rewrites what may change of an entry.
pub(super) fn update(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    row: &Row,
) -> Result<(), Fault> {
    let (tenant, text_hash) = (tenant_bytes(tenant), enrichable(&row.fields));
    let mut bound = vec![
        blob(&tenant),
        whole(row.entry_id),
        whole(row.updated_at.as_ms()),
        whole(row.revision.into()),
    ];
    let said = Column::ALL.iter().filter(|column| column.is_changeable());
    bound.extend(said.map(|column| bind(*column, row.fields.get(*column))));
    bound.push(hash(text_hash.as_ref()));
    let mut update = connection.prepare_cached(&sql.update)?;
    update.execute(rusqlite::params_from_iter(bound))?;
    Ok(())
}

/// Keeps a state that is being replaced.
pub(super) fn keep(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    old: &Row,
    now: Time,
) -> Result<(), Fault> {
    let mut put = connection.prepare_cached(&sql.revision_put)?;
    put.execute(params![
        tenant_bytes(tenant),
        old.entry_id,
        old.revision,
        state_text(old)?,
        now.as_ms(),
    ])?;
    Ok(())
}

/// The states of an entry that were replaced, newest first.
pub(super) fn revisions(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    entry_id: i64,
    before: Option<u32>,
    limit: usize,
) -> Result<Vec<Row>, Fault> {
    let mut list = connection.prepare_cached(&sql.revision_list)?;
    let before = before.map_or(i64::MAX, i64::from);
    let params = params![tenant_bytes(tenant), entry_id, before, page(limit)];
    let rows = list.query_and_then(params, |row| -> Result<Row, Fault> {
        Ok(of_state(text(row, 0)?)?)
    })?;
    rows.collect()
}

/// JSON that is stored as text.
pub(super) fn json(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::new(Kind::Corrupt, "reading an entry").caused_by(error))
}

/// Reads the columns in the order of [`Column::ALL`].
fn read(row: &rusqlite::Row<'_>) -> Result<Row, Fault> {
    let mut fields = Fields::new();
    for (at, column) in Column::ALL.iter().enumerate().skip(GIVEN) {
        let value = value(*column, row, at)?;
        if !value.is_null() {
            fields.put(*column, value);
        }
    }
    let revision: i64 = row.get(4)?;
    Ok(Row {
        entry_id: row.get(0)?,
        id: Uuid::from_bytes(row.get(1)?),
        created_at: Time::from_ms(row.get(2)?),
        updated_at: Time::from_ms(row.get(3)?),
        revision: u32::try_from(revision).unwrap_or(u32::MAX),
        fields,
    })
}

/// How many columns the store gives. They come first.
const GIVEN: usize = 5;

fn value(column: Column, row: &rusqlite::Row<'_>, at: usize) -> Result<Value, Fault> {
    let stored = row.get_ref(at)?;
    if stored == ValueRef::Null {
        return Ok(Value::Null);
    }
    Ok(match column.kind() {
        ColumnKind::Text | ColumnKind::Moment => row.get::<_, String>(at)?.into(),
        ColumnKind::Count => row.get::<_, i64>(at)?.into(),
        ColumnKind::Number => row.get::<_, f64>(at)?.into(),
        ColumnKind::Flag => row.get::<_, bool>(at)?.into(),
        ColumnKind::Object | ColumnKind::Texts => json(text(row, at)?)?,
    })
}

fn text<'r>(row: &'r rusqlite::Row<'_>, at: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(at)?.as_str()?)
}

fn bind(column: Column, value: &Value) -> ToSqlOutput<'_> {
    match (column.kind(), value) {
        (_, Value::Null) => ToSqlOutput::Owned(Owned::Null),
        (_, Value::String(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        (_, Value::Bool(flag)) => whole((*flag).into()),
        (ColumnKind::Number, Value::Number(number)) => number
            .as_f64()
            .map_or_else(nothing, |number| ToSqlOutput::Owned(Owned::Real(number))),
        (_, Value::Number(number)) => number.as_i64().map_or_else(nothing, whole),
        // The same text as by its `Display`, without a formatter between.
        (_, Value::Array(_) | Value::Object(_)) => {
            let text = serde_json::to_string(value).unwrap_or_else(|_| value.to_string());
            ToSqlOutput::Owned(Owned::Text(text))
        }
    }
}

fn nothing() -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(Owned::Null)
}

fn whole(number: i64) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(Owned::Integer(number))
}

fn blob(bytes: &[u8]) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Blob(bytes))
}

fn hash(hash: Option<&Fingerprint>) -> ToSqlOutput<'_> {
    match hash {
        Some(hash) => blob(hash.as_bytes()),
        None => nothing(),
    }
}
