//! A family of payloads: what they are called, where their id stands, and what shape they have.

use std::fmt;
use std::str::FromStr;

use serde_json::json;

use super::pointer::Pointer;
use super::schema::Schema;

/// The name of a collection: `[a-z][a-z0-9_-]{0,63}`, so that it can be part of a path.
///
/// ```
/// use hapax_intake::snapshot::CollectionName;
///
/// assert_eq!("courses".parse::<CollectionName>()?.as_str(), "courses");
/// assert!("Courses".parse::<CollectionName>().is_err());
/// assert!("../x".parse::<CollectionName>().is_err());
/// # Ok::<(), hapax_intake::snapshot::collection::InvalidName>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CollectionName(String);

impl CollectionName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CollectionName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let later = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
        };
        let fits = text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(later);
        fits.then(|| Self(text.to_owned())).ok_or(InvalidName)
    }
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that cannot name a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a collection's name is 1 to 64 of a-z, 0-9, '_' and '-', a letter first")]
pub struct InvalidName;

/// A family of payloads. Payloads are objects; which one a payload is about stands at `id`.
///
/// ```
/// use hapax_intake::snapshot::{Collection, read};
///
/// let orders = Collection {
///     name: "orders".parse()?,
///     id: "/number".parse()?,
///     label: None,
///     schema: None,
/// };
/// assert_eq!(read(br#"{"number":7}"#, &orders)?.entity_id, "7");
/// assert!(read(br#"{"number":7.5}"#, &orders).is_err(), "an id is a text or an integer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Collection {
    /// What it is called.
    pub name: CollectionName,
    /// Where the entity's id stands.
    pub id: Pointer,
    /// Where its name for people stands.
    pub label: Option<Pointer>,
    /// The shape of its payloads.
    pub schema: Option<Schema>,
}

impl Collection {
    /// The built-in collection `courses`: `{course: {id, name, …}, …}`, the id a text that is not empty.
    ///
    /// # Panics
    /// Never: its words and its schema are fixed.
    #[must_use]
    pub fn courses() -> Self {
        let schema = json!({
            "type": "object",
            "required": ["course"],
            "properties": {
                "course": {
                    "type": "object",
                    "required": ["id", "name"],
                    "properties": {
                        "id": { "type": "string", "minLength": 1, "maxLength": 255 },
                        "name": { "type": "string" },
                    },
                },
            },
        });
        Self {
            name: CollectionName("courses".to_owned()),
            id: "/course/id".parse().expect("it begins with a slash"),
            label: Some("/course/name".parse().expect("it begins with a slash")),
            schema: Some(Schema::compile(&schema).expect("it is a schema")),
        }
    }
}
