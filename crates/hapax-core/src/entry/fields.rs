//! The values of an entry, and how one set of values goes over another.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::column::Column;
use crate::fingerprint::Fingerprint;
use crate::time::Time;

/// The longest idempotency key that is kept as it is, in bytes. A longer one would not fit a database's index.
pub const KEY_BYTES_MAX: usize = 1024;

/// The key as it is kept: trimmed, and by its hash if it is longer than [`KEY_BYTES_MAX`].
///
/// ```
/// use hapax_core::entry::key_text;
///
/// assert_eq!(key_text(" <a@b> "), "<a@b>");
/// let long = key_text(&"/".repeat(4000));
/// assert!(long.starts_with("sha256:") && long.len() == 71);
/// assert_eq!(key_text(&long), long, "what is short enough stays");
/// ```
#[must_use]
pub fn key_text(key: &str) -> String {
    let key = key.trim();
    if key.len() <= KEY_BYTES_MAX {
        return key.to_owned();
    }
    let hash = Sha256::digest(key.as_bytes());
    format!("sha256:{}", data_encoding::HEXLOWER.encode(&hash))
}

/// Values by column. A column that is not there was not said; one that is null was said to be empty. Cloning it is
/// cheap: the values are shared until one of the clones changes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Fields(Arc<BTreeMap<Column, Value>>);

impl Fields {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says what `column` holds. The caller keeps to the column's [kind](super::ColumnKind).
    pub fn put(&mut self, column: Column, value: impl Into<Value>) {
        Arc::make_mut(&mut self.0).insert(column, value.into());
    }

    /// Takes back what was said of `column`.
    pub fn remove(&mut self, column: Column) -> Option<Value> {
        if !self.says(column) {
            return None;
        }
        Arc::make_mut(&mut self.0).remove(&column)
    }

    /// What `column` holds, null if nothing was said.
    #[must_use]
    pub fn get(&self, column: Column) -> &Value {
        self.0.get(&column).unwrap_or(&Value::Null)
    }

    /// The text in `column`, if there is one.
    #[must_use]
    pub fn text(&self, column: Column) -> Option<&str> {
        self.get(column).as_str()
    }

    /// Whether something was said of `column`, be it null.
    #[must_use]
    pub fn says(&self, column: Column) -> bool {
        self.0.contains_key(&column)
    }

    /// What was said, in the order of the columns.
    pub fn iter(&self) -> impl Iterator<Item = (Column, &Value)> {
        self.0.iter().map(|(column, value)| (*column, value))
    }

    /// Takes back what was said to be null.
    #[must_use]
    pub fn without_nulls(mut self) -> Self {
        if self.0.values().any(Value::is_null) {
            Arc::make_mut(&mut self.0).retain(|_, value| !value.is_null());
        }
        self
    }

    /// About how many bytes it takes: its texts, and those in its lists and objects.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.0.values().map(weight).sum()
    }

    /// As a JSON object, with what was said to be null.
    #[must_use]
    pub fn into_json(self) -> Map<String, Value> {
        Arc::unwrap_or_clone(self.0)
            .into_iter()
            .map(|(column, value)| (column.as_str().to_owned(), value))
            .collect()
    }
}

impl FromIterator<(Column, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Column, Value)>>(fields: I) -> Self {
        Self(Arc::new(fields.into_iter().collect()))
    }
}

/// A stored entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its number.
    pub entry_id: i64,
    /// Its UUID.
    pub id: Uuid,
    /// When it was inserted.
    pub created_at: Time,
    /// When it was inserted or changed last.
    pub updated_at: Time,
    /// How many states it has had, this one included.
    pub revision: u32,
    /// What callers said, as it is now. Nulls are left out.
    pub fields: Fields,
}

impl Row {
    /// An entry that is new at `now`.
    #[must_use]
    pub fn new(entry_id: i64, id: Uuid, now: Time, fields: Fields) -> Self {
        Self {
            entry_id,
            id,
            created_at: now,
            updated_at: now,
            revision: 1,
            fields: fields.without_nulls(),
        }
    }

    /// The same entry with `fields` over what it holds: the metadata merged, anything else replaced. Keys, and what the
    /// store gives, stay. `only` names the columns that may change, if not all may.
    #[must_use]
    pub fn with(&self, fields: &Fields, only: Option<&[String]>) -> Fields {
        let named = |column: Column| {
            only.is_none_or(|only| only.iter().any(|name| name == column.as_str()))
        };
        let changes = |column: Column| column.is_changeable() && named(column);
        // What is replaced is not copied first.
        let kept = self
            .fields
            .iter()
            .filter(|(column, _)| !(changes(*column) && fields.says(*column)))
            .map(|(column, value)| (column, value.clone()));
        let said = fields
            .iter()
            .filter(|(column, _)| changes(*column))
            .map(|(column, value)| {
                if column != Column::Metadata {
                    return (column, value.clone());
                }
                let mut merged = self.fields.get(Column::Metadata).clone();
                merge(&mut merged, value);
                (column, merged)
            });
        let next: Fields = kept.chain(said).collect();
        next.without_nulls()
    }

    /// What `column` holds, also of those that the store gives.
    #[must_use]
    pub fn get(&self, column: Column) -> Value {
        match column {
            Column::EntryId => self.entry_id.into(),
            Column::Id => self.id.to_string().into(),
            Column::CreatedAt => self.created_at.to_string().into(),
            Column::UpdatedAt => self.updated_at.to_string().into(),
            Column::Revision => self.revision.into(),
            said => self.fields.get(said).clone(),
        }
    }

    /// The named columns as a JSON object.
    #[must_use]
    pub fn to_json(&self, columns: &[Column]) -> Map<String, Value> {
        columns
            .iter()
            .map(|column| (column.as_str().to_owned(), self.get(*column)))
            .collect()
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| name.len() + weight(value))
            .sum(),
    }
}

/// Puts `over` over `under`: objects are merged member by member, anything else is replaced. A null says nothing of an
/// object as a whole, and replaces a member.
///
/// ```
/// use hapax_core::entry::merge;
/// use serde_json::json;
///
/// let mut under = json!({"a": {"x": 1}, "tags": [1]});
/// merge(&mut under, &json!({"a": {"y": 2}, "tags": [2, 3]}));
/// assert_eq!(under, json!({"a": {"x": 1, "y": 2}, "tags": [2, 3]}));
/// merge(&mut under, &json!(null));
/// assert_eq!(under["a"]["x"], 1);
/// ```
pub fn merge(under: &mut Value, over: &Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                match under.get_mut(name) {
                    Some(there) if there.is_object() && value.is_object() => merge(there, value),
                    Some(there) => *there = value.clone(),
                    None => {
                        under.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (_, Value::Null) => {}
        (under, over) => *under = over.clone(),
    }
}

/// Whether an entry has a text to enrich.
#[must_use]
pub fn is_enrichable(fields: &Fields) -> bool {
    let text = fields.text(Column::CleanText);
    text.is_some_and(|text| !text.trim().is_empty())
}

/// The fingerprint of what enrichment reads of an entry; `None` if it has no text to enrich.
#[must_use]
pub fn enrichable(fields: &Fields) -> Option<Fingerprint> {
    if !is_enrichable(fields) {
        return None;
    }
    let mut bytes = Vec::with_capacity(fields.text(Column::CleanText).map_or(0, str::len) + 256);
    for column in [
        Column::Title,
        Column::Author,
        Column::ContentType,
        Column::CleanText,
    ] {
        let text = fields.text(column).unwrap_or_default();
        bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    Some(Fingerprint::of(&bytes))
}
