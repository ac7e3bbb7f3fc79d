//! The bodies of the routes that insert and change: one entry, or a batch of them.

use std::collections::BTreeMap;

use hapax::problem::Problem;
use hapax_core::canonical::DEPTH_MAX;
use hapax_core::entry::{Column, Incoming, Refused};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::body::checked;
use crate::problem;

/// How much of a name that is not ours an answer repeats, in characters.
const SHOWN_CHARS_MAX: usize = 64;
/// How many columns can be asked for.
const RETURNING_MAX: usize = 100;
/// What stands around an item: the object and its list.
const AROUND_ITEM: usize = 2;

/// The members of an object as they stand in the text.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// What a body asks for.
pub(super) struct Asked {
    /// The items, in their order.
    pub(super) items: Vec<Incoming>,
    /// Whether they came as a batch.
    pub(super) is_batch: bool,
    /// Whether a fault in one item leaves nothing of the batch.
    pub(super) all_or_nothing: bool,
    /// What the rows of the answer hold.
    pub(super) columns: Vec<Column>,
}

impl Asked {
    /// Reads a body of flat fields or with `items`. `item` reads one entry.
    pub(super) fn read(
        bytes: &[u8],
        item: impl Fn(&Map<String, Value>) -> Result<Incoming, Refused>,
    ) -> Result<Self, Problem> {
        checked(bytes, DEPTH_MAX + AROUND_ITEM)?;
        let mut members = members(bytes)?;
        let columns = match members.remove("returning") {
            Some(raw) => returning(&value(raw)?)?,
            None => None,
        };
        let continue_on_error = match members.remove("continue_on_error").map(value) {
            None | Some(Ok(Value::Null)) => true,
            Some(Ok(Value::Bool(says))) => says,
            Some(_) => return Err(fault("/continue_on_error", "is neither true nor false")),
        };
        let items = members.remove("items");
        let is_batch = items.is_some();
        let items = match items {
            None => {
                // What stands around an item does not stand around this one.
                checked(bytes, DEPTH_MAX)?;
                vec![incoming(&members, &item)?]
            }
            Some(_) if !members.is_empty() => {
                return Err(fault(
                    "/items",
                    "stands beside fields; send one entry, or items",
                ));
            }
            Some(raw) => batch(raw, item)?,
        };
        Ok(Self {
            items,
            is_batch,
            all_or_nothing: is_batch && !continue_on_error,
            columns: columns.unwrap_or_else(|| Column::DEFAULT_ROW.to_vec()),
        })
    }
}

/// A whole document by the JSON rules, read member by member: each may be as deep as the rules let it.
pub(super) fn document(bytes: &[u8]) -> Result<Value, Problem> {
    checked(bytes, DEPTH_MAX)?;
    Ok(Value::Object(object(&members(bytes)?)?))
}

/// The columns that are asked for; `None` for the usual ones.
pub(super) fn returning(names: &Value) -> Result<Option<Vec<Column>>, Problem> {
    let names = match names {
        Value::Null => return Ok(None),
        Value::Array(names) if names.len() <= RETURNING_MAX => names,
        Value::Array(_) => {
            let message = format!("names more than {RETURNING_MAX} columns");
            return Err(fault("/returning", message));
        }
        _other => return Err(fault("/returning", "is not a list of columns")),
    };
    let mut columns = Vec::with_capacity(names.len());
    let mut faults = Vec::new();
    for (nth, name) in names.iter().enumerate() {
        let place = format!("/returning/{nth}");
        match name.as_str().map(|name| (name, Column::named(name))) {
            Some((_, Some(column))) => columns.push(column),
            Some((name, None)) => {
                let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
                faults.push((place, format!("{shown:?} is not a column of entries")));
            }
            None => faults.push((place, "is not the name of a column".to_owned())),
        }
    }
    if faults.is_empty() {
        Ok(Some(columns).filter(|columns| !columns.is_empty()))
    } else {
        Err(problem::schema(&faults))
    }
}

fn batch(
    raw: &RawValue,
    item: impl Fn(&Map<String, Value>) -> Result<Incoming, Refused>,
) -> Result<Vec<Incoming>, Problem> {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        return Err(fault("/items", "is not a list of entries"));
    };
    let most = Incoming::BATCH_MAX;
    if items.len() > most {
        let message = format!("a batch has at most {most} items; send several");
        return Err(problem::too_large(message)
            .with_detail("items_max", most)
            .with_detail("items", items.len()));
    }
    items
        .into_iter()
        .map(|raw| {
            let Ok(members) = serde_json::from_str::<Members>(raw.get()) else {
                let faults = vec![(String::new(), "is not an object".to_owned())];
                return Ok(Incoming::Refused(Refused::shape(faults)));
            };
            incoming(&members, &item)
        })
        .collect()
}

fn incoming(
    members: &Members,
    item: &impl Fn(&Map<String, Value>) -> Result<Incoming, Refused>,
) -> Result<Incoming, Problem> {
    Ok(item(&object(members)?).unwrap_or_else(Incoming::Refused))
}

fn members(bytes: &[u8]) -> Result<Members<'_>, Problem> {
    serde_json::from_slice(bytes).map_err(|_| fault("", "must be an object"))
}

fn object(members: &Members) -> Result<Map<String, Value>, Problem> {
    let pairs = members.iter();
    pairs
        .map(|(name, raw)| Ok((name.clone(), value(raw)?)))
        .collect()
}

/// What was checked before can be read.
fn value(raw: &RawValue) -> Result<Value, Problem> {
    serde_json::from_str(raw.get()).map_err(|_| problem::internal())
}

fn fault(path: &str, message: impl Into<String>) -> Problem {
    problem::schema(&[(path.to_owned(), message.into())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::entry::Draft;

    fn read(text: &str) -> Result<Asked, Problem> {
        Asked::read(text.as_bytes(), |entry| {
            Draft::read(entry, |_| None).map(Incoming::Insert)
        })
    }

    fn code(text: &str) -> &'static str {
        read(text).err().map_or("", |problem| problem.code())
    }

    #[test]
    fn one_entry_and_a_batch_are_told_apart() {
        let one = read(r#"{"source":"web","returning":null}"#).unwrap();
        assert!(!one.is_batch && !one.all_or_nothing);
        assert_eq!(one.columns, Column::DEFAULT_ROW);
        let many = r#"{"items":[{"source":"web"},7,{"sauce":1}],"continue_on_error":false,"returning":["title"]}"#;
        let many = read(many).unwrap();
        assert!(many.is_batch && many.all_or_nothing);
        assert_eq!(many.columns, [Column::Title]);
        assert!(matches!(
            &many.items[..],
            [
                Incoming::Insert(_),
                Incoming::Refused(_),
                Incoming::Refused(_)
            ]
        ));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for neither in [
            "[]",
            r#"{"items":[],"title":"x"}"#,
            r#"{"items":{}}"#,
            r#"{"items":[],"continue_on_error":"no"}"#,
            r#"{"items":[],"returning":"title"}"#,
            r#"{"items":[],"returning":["title","tenant_id"]}"#,
            r#"{"items":[],"returning":[7]}"#,
        ] {
            assert_eq!(code(neither), "schema_validation_failed", "{neither}");
        }
        let many = vec!["{}"; Incoming::BATCH_MAX + 1].join(",");
        assert_eq!(
            code(&format!(r#"{{"items":[{many}]}}"#)),
            "payload_too_large"
        );
    }

    #[test]
    fn an_entry_may_be_as_deep_in_a_batch_as_alone() {
        let deep = |levels: usize| {
            let (open, close) = (r#"{"a":"#.repeat(levels), "}".repeat(levels));
            format!(r#"{{"source":"web","metadata":{open}1{close}}}"#)
        };
        for (levels, told) in [(DEPTH_MAX - 1, ""), (DEPTH_MAX, "bad_json")] {
            assert_eq!(code(&deep(levels)), told, "alone");
            let batch = format!(r#"{{"items":[{}]}}"#, deep(levels));
            assert_eq!(code(&batch), told, "in a batch");
        }
    }
}
