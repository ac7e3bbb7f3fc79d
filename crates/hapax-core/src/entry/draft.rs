//! What a caller wants to insert or change, read from JSON and checked column by column.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::column::{Column, Kind};
use super::fields::{Fields, key_text};
use crate::time::Time;

/// Why one entry was not taken. The codes are those of the API; the same entry is refused again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The code.
    pub code: &'static str,
    /// What is wrong, for a person.
    pub message: String,
    /// What is wrong where: JSON pointer and text.
    pub faults: Vec<(String, String)>,
}

impl Refused {
    /// A refusal without places.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            faults: Vec::new(),
        }
    }

    /// It does not have the shape of an entry; every fault is listed.
    #[must_use]
    pub fn shape(faults: Vec<(String, String)>) -> Self {
        let said: Vec<String> = faults
            .iter()
            .take(3)
            .map(|(path, message)| match path.as_str() {
                "" => format!("it {message}"),
                path => format!("{path} {message}"),
            })
            .collect();
        Self {
            code: "schema_validation_failed",
            message: said.join("; "),
            faults,
        }
    }
}

/// An entry to be inserted, or to go over the one that is there.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft {
    /// What it says. Its keys are trimmed and short enough for an index; an empty one counts as not there.
    pub fields: Fields,
    /// When it says it was made. Only a row that is new takes it.
    pub created_at: Option<Time>,
    /// Columns it names that only the store gives.
    pub ignored: Vec<Column>,
}

impl Draft {
    /// Reads a flat entry. `moment` reads a time. A null says nothing: it leaves what a row has. Members that an answer of ours has and an entry has not are skipped:
    /// `retrieval_update_skipped`, `action`, and what begins with `_batch`.
    ///
    /// # Errors
    /// The refusal, if a member is no column or its value not of the column's kind, or the source is missing.
    pub fn read(
        entry: &Map<String, Value>,
        moment: impl Fn(&str) -> Option<Time>,
    ) -> Result<Self, Refused> {
        read(entry, moment)?.finished()
    }

    /// The draft of fields that this program made itself, each of its column's kind and without U+0000.
    ///
    /// # Errors
    /// The refusal, if the source is missing.
    pub fn of(fields: Fields) -> Result<Self, Refused> {
        let draft = Self {
            fields,
            created_at: None,
            ignored: Vec::new(),
        };
        draft.finished()
    }

    fn finished(self) -> Result<Self, Refused> {
        let mut read = self;
        read.fields = read.fields.without_nulls();
        if read.fields.text(Column::Source).is_none_or(str::is_empty) {
            return Err(Refused::shape(vec![(
                "/source".to_owned(),
                "is missing; say where the entry comes from, such as telegram, email or web"
                    .to_owned(),
            )]));
        }
        for column in [
            Column::IdempotencyPolicyKey,
            Column::IdempotencyKeyPrimary,
            Column::IdempotencyKeySecondary,
        ] {
            match read.fields.text(column).map(|key| (key, key_text(key))) {
                Some((said, key)) if !key.is_empty() => {
                    if said != key {
                        read.fields.put(column, key);
                    }
                }
                _ => drop(read.fields.remove(column)),
            }
        }
        Ok(read)
    }

    /// Takes only an entry that says something: one without any text, title or URL could never be found or read.
    ///
    /// # Errors
    /// The refusal.
    pub fn saying_something(self) -> Result<Self, Refused> {
        const SAYING: [Column; 7] = [
            Column::Title,
            Column::CaptureText,
            Column::ExtractedText,
            Column::CleanText,
            Column::RetrievalExcerpt,
            Column::Url,
            Column::UrlCanonical,
        ];
        let says = |column: &Column| {
            let said = self.fields.text(*column).unwrap_or_default();
            !said.trim().is_empty()
        };
        if SAYING.iter().any(says) {
            return Ok(self);
        }
        Err(Refused::shape(vec![(
            String::new(),
            "has no text, title or URL; send one of clean_text, capture_text, extracted_text, title and url"
                .to_owned(),
        )]))
    }

    /// The policy it names.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.fields.text(Column::IdempotencyPolicyKey)
    }

    /// One of its keys.
    #[must_use]
    pub fn key(&self, which: Which) -> Option<&str> {
        self.fields.text(which.column())
    }
}

/// One of the two keys of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Which {
    /// The first.
    Primary,
    /// The second.
    Secondary,
}

impl Which {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Primary, Self::Secondary];

    /// Its column.
    #[must_use]
    pub const fn column(self) -> Column {
        match self {
            Self::Primary => Column::IdempotencyKeyPrimary,
            Self::Secondary => Column::IdempotencyKeySecondary,
        }
    }

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }
}

/// A change of an entry that is there.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Its number, if that is how it is named.
    pub entry_id: Option<i64>,
    /// Its UUID, if that is how it is named. If both are given, both must be its.
    pub id: Option<Uuid>,
    /// What it shall say. A null empties a column.
    pub fields: Fields,
    /// Columns it names that are never changed, among them where the entry came from: so what a normalise route answered
    /// can go over an entry of another source.
    pub ignored: Vec<Column>,
}

impl Change {
    /// Reads a flat change: `id` or `entry_id`, and the columns to change. The source and the keys of an entry stay.
    ///
    /// # Errors
    /// The refusal, if neither is there or readable, or as [`Draft::read`].
    pub fn read(entry: &Map<String, Value>) -> Result<Self, Refused> {
        let mut faults = Vec::new();
        let mut fault = |name: &str, message: &str| {
            faults.push((format!("/{name}"), message.to_owned()));
        };
        let number = match entry.get("entry_id") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let number = value
                    .as_i64()
                    .or_else(|| value.as_str().and_then(|text| text.parse().ok()));
                if number.is_none() {
                    fault("entry_id", "is not a whole number");
                }
                number
            }
        };
        let id = match entry.get("id") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let id = value.as_str().and_then(|text| Uuid::parse_str(text).ok());
                if id.is_none() {
                    fault("id", "is not a UUID");
                }
                id
            }
        };
        if number.is_none() && id.is_none() && faults.is_empty() {
            faults.push((
                "/entry_id".to_owned(),
                "is missing; name the entry by entry_id or id".to_owned(),
            ));
        }
        if !faults.is_empty() {
            return Err(Refused::shape(faults));
        }
        // Whatever time it says, it is not a change.
        let read = read(entry, |_| Some(Time::from_ms(0)))?;
        let named = [Column::EntryId, Column::Id];
        let mut ignored: Vec<Column> = read
            .ignored
            .into_iter()
            .filter(|column| !named.contains(column))
            .collect();
        let mut fields = read.fields;
        let keys = Column::ALL.iter().filter(|column| column.is_key());
        for column in keys.chain([&Column::Source]) {
            if fields.remove(*column).is_some() {
                ignored.push(*column);
            }
        }
        if read.created_at.is_some() {
            ignored.push(Column::CreatedAt);
        }
        Ok(Self {
            entry_id: number,
            id,
            fields,
            ignored,
        })
    }
}

/// What our own answers carry beside columns, so that they can be sent back as they are.
fn is_of_an_answer(name: &str) -> bool {
    matches!(
        name,
        "action" | "retrieval_update_skipped" | "matched_on" | "conflicts" | "ignored"
    ) || name.starts_with("_batch")
}

fn read(
    entry: &Map<String, Value>,
    moment: impl Fn(&str) -> Option<Time>,
) -> Result<Draft, Refused> {
    let mut draft = Draft {
        fields: Fields::new(),
        created_at: None,
        ignored: Vec::new(),
    };
    let mut faults = Vec::new();
    for (name, value) in entry {
        let Some(column) = Column::named(name) else {
            if !is_of_an_answer(name) {
                faults.push((pointer(name), "is not a column of entries".to_owned()));
            }
            continue;
        };
        if column == Column::CreatedAt {
            draft.created_at = value.as_str().and_then(&moment);
            if draft.created_at.is_none() && !value.is_null() {
                faults.push((pointer(name), "is not an RFC 3339 time".to_owned()));
            }
        } else if column.is_given() {
            draft.ignored.push(column);
        } else if let Some(problem) = problem(column, value) {
            faults.push((pointer(name), problem.to_owned()));
        } else if holds_nul(value) {
            let message = "holds the character U+0000, which cannot be stored";
            faults.push((pointer(name), message.to_owned()));
        } else if column.kind() == Kind::Number {
            // A whole number in such a column comes back as a double, so it is one from the start.
            draft.fields.put(column, value.as_f64());
        } else {
            draft.fields.put(column, value.clone());
        }
    }
    if faults.is_empty() {
        Ok(draft)
    } else {
        Err(Refused::shape(faults))
    }
}

/// The largest count that is stored: every reader of JSON still gets it whole.
const COUNT_MAX: u64 = (1 << 53) - 1;

fn problem(column: Column, value: &Value) -> Option<&'static str> {
    let (fits, problem) = match (column.kind(), value) {
        (_, Value::Null) => (true, ""),
        (Kind::Text | Kind::Moment, value) => (value.is_string(), "is not a text"),
        (Kind::Count, value) => (
            value.as_u64().is_some_and(|count| count <= COUNT_MAX),
            "is not a whole number from 0 on",
        ),
        (Kind::Number, value) => (value.is_number(), "is not a number"),
        (Kind::Flag, value) => (value.is_boolean(), "is neither true nor false"),
        (Kind::Object, value) => (value.is_object(), "is not an object"),
        (Kind::Texts, value) => (
            value
                .as_array()
                .is_some_and(|texts| texts.iter().all(Value::is_string)),
            "is not a list of texts",
        ),
    };
    (!fits).then_some(problem)
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn pointer(name: &str) -> String {
    const SHOWN: usize = 64;
    let short: String = name.chars().take(SHOWN).collect();
    format!("/{}", short.replace('~', "~0").replace('/', "~1"))
}
