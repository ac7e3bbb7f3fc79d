//! Entries as columns, and rows of the database back into them. It runs no statement.

use std::time::SystemTime;

use hapax_core::entry::{Column, ColumnKind, Fields, Merged, Policy, Row, enrichable};
use hapax_core::{Error, Fingerprint, Kind, Time};
use serde_json::Value;
use tokio_postgres::Row as Stored;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use super::super::columns::{Param, get, moment};
use crate::entry::state;

/// What the store gives comes first in a row.
const GIVEN: usize = 5;

/// The columns that callers say, in the order of a statement.
fn said() -> impl Iterator<Item = Column> {
    let all = Column::ALL.iter().copied();
    all.filter(|column| !column.is_given())
}

/// A row of a statement that lists entries.
pub(super) fn row(stored: &Stored) -> Result<Row, Error> {
    let mut fields = Fields::new();
    for (place, column) in (GIVEN..).zip(said()) {
        if let Some(value) = value(stored, place, column.kind())? {
            fields.put(column, value);
        }
    }
    Ok(Row {
        entry_id: get(stored, 0)?,
        id: get(stored, 1)?,
        created_at: time(stored, 2)?,
        updated_at: time(stored, 3)?,
        revision: u32::try_from(get::<i64>(stored, 4)?).map_err(|_| unreadable("revision"))?,
        fields,
    })
}

/// The rows of a statement that lists entries.
pub(super) fn rows(stored: &[Stored]) -> Result<Vec<Row>, Error> {
    stored.iter().map(row).collect()
}

/// Where a row of a statement that looks for words belongs.
pub(super) fn place(stored: &Stored) -> Result<i64, Error> {
    get(stored, GIVEN + said().count())
}

fn value(stored: &Stored, place: usize, kind: ColumnKind) -> Result<Option<Value>, Error> {
    fn of<'a, T: FromSql<'a> + Into<Value>>(
        stored: &'a Stored,
        place: usize,
    ) -> Result<Option<Value>, Error> {
        Ok(get::<Option<T>>(stored, place)?.map(Into::into))
    }
    match kind {
        ColumnKind::Text | ColumnKind::Moment => of::<String>(stored, place),
        ColumnKind::Count => of::<i64>(stored, place),
        ColumnKind::Number => of::<f64>(stored, place),
        ColumnKind::Flag => of::<bool>(stored, place),
        ColumnKind::Object | ColumnKind::Texts => {
            let text: Option<&str> = get(stored, place)?;
            text.map(json).transpose()
        }
    }
}

/// What a text of JSON says.
pub(super) fn json(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|_| unreadable("JSON"))
}

/// A moment in a row.
pub(super) fn time(stored: &Stored, place: usize) -> Result<Time, Error> {
    Ok(get::<SystemTime>(stored, place)?.into())
}

/// A row of `policy_list.sql`.
pub(super) fn policy(stored: &Stored) -> Result<Policy, Error> {
    let word = |_| unreadable("policy");
    Ok(Policy {
        id: get(stored, 0)?,
        key: get(stored, 1)?,
        source: get(stored, 2)?,
        content_type: get(stored, 3)?,
        conflict_action: get::<&str>(stored, 4)?.parse().map_err(word)?,
        // A person may have written a NULL among the names; it names nothing.
        update_fields: get::<Option<Vec<Option<String>>>>(stored, 5)?
            .map(|names| names.into_iter().flatten().collect()),
        secondary_match: get::<&str>(stored, 6)?.parse().map_err(word)?,
        enabled: get(stored, 7)?,
    })
}

fn unreadable(what: &str) -> Error {
    let why = format!("the {what} cannot be read");
    Error::new(Kind::Corrupt, "reading an entry").because(why)
}

/// One column of many rows.
enum Values {
    Texts(Vec<Option<String>>),
    Counts(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
    Flags(Vec<Option<bool>>),
}

impl Values {
    fn of(column: Column, rows: &[&Row]) -> Self {
        fn each<T>(
            rows: &[&Row],
            column: Column,
            read: impl Fn(&Value) -> Option<T>,
        ) -> Vec<Option<T>> {
            let read = |row: &&Row| read(row.fields.get(column));
            rows.iter().map(read).collect()
        }
        match column.kind() {
            ColumnKind::Text | ColumnKind::Moment => Self::Texts(each(rows, column, |value| {
                value.as_str().map(str::to_owned)
            })),
            ColumnKind::Count => Self::Counts(each(rows, column, Value::as_i64)),
            ColumnKind::Number => Self::Numbers(each(rows, column, Value::as_f64)),
            ColumnKind::Flag => Self::Flags(each(rows, column, Value::as_bool)),
            ColumnKind::Object | ColumnKind::Texts => Self::Texts(each(rows, column, |value| {
                (!value.is_null()).then(|| json_text(value))
            })),
        }
    }

    fn param(&self) -> Param<'_> {
        match self {
            Self::Texts(values) => values,
            Self::Counts(values) => values,
            Self::Numbers(values) => values,
            Self::Flags(values) => values,
        }
    }
}

/// Rows to be written, column by column.
pub(super) struct Columns {
    pub(super) entry_id: Vec<i64>,
    id: Vec<Uuid>,
    created_at: Vec<SystemTime>,
    updated_at: Vec<SystemTime>,
    revision: Vec<i64>,
    said: Vec<(Column, Values)>,
    text_hash: Vec<Option<Vec<u8>>>,
}

impl Columns {
    pub(super) fn of(rows: &[&Row]) -> Self {
        let hash = |row: &&Row| Some(enrichable(&row.fields)?.as_bytes().to_vec());
        Self {
            entry_id: rows.iter().map(|row| row.entry_id).collect(),
            id: rows.iter().map(|row| row.id).collect(),
            created_at: rows
                .iter()
                .map(|row| moment(row.created_at.as_ms()))
                .collect(),
            updated_at: rows
                .iter()
                .map(|row| moment(row.updated_at.as_ms()))
                .collect(),
            revision: rows.iter().map(|row| row.revision.into()).collect(),
            said: said()
                .map(|column| (column, Values::of(column, rows)))
                .collect(),
            text_hash: rows.iter().map(hash).collect(),
        }
    }

    /// The parameters of `entry_insert.sql`.
    pub(super) fn inserting<'a>(&'a self, tenant: &'a Uuid) -> Vec<Param<'a>> {
        let mut params: Vec<Param<'_>> = vec![
            tenant,
            &self.entry_id,
            &self.id,
            &self.created_at,
            &self.updated_at,
            &self.revision,
        ];
        params.extend(self.said.iter().map(|(_, values)| values.param()));
        params.push(&self.text_hash);
        params
    }

    /// The parameters of `entry_update.sql`.
    pub(super) fn updating<'a>(&'a self, tenant: &'a Uuid) -> Vec<Param<'a>> {
        let mut params: Vec<Param<'_>> =
            vec![tenant, &self.entry_id, &self.updated_at, &self.revision];
        let said = self.said.iter().filter(|(column, _)| !column.is_key());
        params.extend(said.map(|(_, values)| values.param()));
        params.push(&self.text_hash);
        params
    }
}

/// Replaced states to be kept, column by column.
#[derive(Default)]
pub(super) struct Revisions {
    pub(super) entry_id: Vec<i64>,
    revision: Vec<i64>,
    state: Vec<String>,
}

impl Revisions {
    pub(super) fn of(rows: impl Iterator<Item = Row>) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.entry_id.push(row.entry_id);
            columns.revision.push(row.revision.into());
            columns.state.push(json_text(&state(&row)));
        }
        columns
    }

    /// The parameters of `entry_revision_put.sql`.
    pub(super) fn params<'a>(&'a self, tenant: &'a Uuid, at: &'a SystemTime) -> Vec<Param<'a>> {
        vec![tenant, at, &self.entry_id, &self.revision, &self.state]
    }
}

/// Messages beside the entries that merge them, column by column.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) entry_id: Vec<i64>,
    message: Vec<Vec<u8>>,
}

impl Messages {
    pub(super) fn of(merged: impl IntoIterator<Item = Merged>) -> Self {
        let mut columns = Self::default();
        for Merged { entry_id, message } in merged {
            columns.entry_id.push(entry_id);
            columns.message.push(message.as_bytes().to_vec());
        }
        columns
    }

    /// The parameters of `entry_message_put.sql` and `entry_message_there.sql`.
    pub(super) fn params<'a>(&'a self, tenant: &'a Uuid) -> Vec<Param<'a>> {
        vec![tenant, &self.entry_id, &self.message]
    }
}

/// A row of `entry_message_there.sql`.
pub(super) fn merged(stored: &Stored) -> Result<Merged, Error> {
    let hash: &[u8] = get(stored, 1)?;
    let hash = hash.try_into().map_err(|_| unreadable("message"))?;
    Ok(Merged {
        entry_id: get(stored, 0)?,
        message: Fingerprint::from_bytes(hash),
    })
}

/// JSON as the database keeps it without changing a number's kind: it drops exponents, and would turn 1e16 into a whole
/// number.
pub(super) fn json_text(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, &mut text);
    text
}

fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => {
                let digits = float.to_string();
                text.push_str(&digits);
                if !digits.contains('.') {
                    text.push_str(".0");
                }
            }
            _ => text.push_str(&number.to_string()),
        },
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_json(value, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_json(value, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_stays_of_its_kind_without_an_exponent() {
        let value = json!([1, 1.0, 1e16, -2.5e-7, 1e300, 5e-324, u64::MAX, i64::MIN]);
        let text = json_text(&value);
        assert!(!text.contains('e'), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value));
    }
}
