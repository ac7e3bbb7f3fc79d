//! One payload: checked against its collection, hashed as it was received.

use std::collections::BTreeMap;
use std::fmt;

use hapax_core::Tenant;
use hapax_core::canonical::{Document, Profile, Selection, hash};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::collection::{Collection, CollectionName};
use crate::derive;
use crate::refusal::{Fault, Faults, Refusal};

/// The longest id of an entity, in characters.
pub const ID_CHARS_MAX: usize = 255;
/// How much of a name is kept as a label, in characters. The payload keeps all of it.
pub const LABEL_CHARS_MAX: usize = 500;

/// Integers beyond this are not the same number to every reader.
const INTEGER_MAX: i64 = (1 << 53) - 1;

/// The profiles of the old snippets, which a stored snapshot can be found by.
const ALIASES: [Profile; 3] = [Profile::PyJson, Profile::PyJsonUtf8, Profile::JsSorted];

/// A payload that was taken in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Which entity of the collection it is about.
    pub entity_id: String,
    /// What people call the entity.
    pub label: Option<String>,
    /// The lower-case hex SHA-256 of `canonical`: the snapshot's name.
    pub hash: String,
    /// The hcj-1 form of the text as received.
    pub canonical: Vec<u8>,
    /// What older snippets would have called the same text. A profile that refuses the text is left out.
    pub aliases: Vec<(Profile, String)>,
}

/// The id of a snapshot. The same payload in the same collection of a tenant has the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SnapshotId(Uuid);

impl SnapshotId {
    /// The id as a UUID, of version 8.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Snapshot {
    /// The id that follows from the tenant, the collection and the hash.
    ///
    /// ```
    /// use hapax_core::Tenant;
    /// use hapax_intake::snapshot::{Collection, read};
    ///
    /// let courses = Collection::courses();
    /// let id = |text: &str| read(text.as_bytes(), &courses).map(|snapshot| snapshot.id(Tenant::DEFAULT, &courses.name));
    /// let first = id(r#"{"course":{"id":"a","name":"A"}}"#)?;
    /// assert_eq!(first, id(r#"{"course":{"name":"A","id":"\u0061"}}"#)?);
    /// assert_ne!(first, id(r#"{"course":{"id":"a","name":"B"}}"#)?);
    /// # Ok::<(), hapax_intake::Refusal>(())
    /// ```
    #[must_use]
    pub fn id(&self, tenant: Tenant, collection: &CollectionName) -> SnapshotId {
        let tenant = tenant.to_string();
        let parts = ["snapshot", &tenant, collection.as_str(), &self.hash];
        SnapshotId(derive::id(&parts))
    }
}

/// Reads a payload of a collection from the text as received.
///
/// An id is a text of 1 to [`ID_CHARS_MAX`] characters without control characters, or an integer, which is kept as
/// its digits.
///
/// # Errors
/// [`Refusal::BadJson`] by the input rules of the API; [`Refusal::Schema`] with every fault.
pub fn read(text: &[u8], collection: &Collection) -> Result<Snapshot, Refusal> {
    let canonical = Document::parse(text)?.to_vec(&Selection::default());
    let Some(document) = tree(&canonical) else {
        return Err(Refusal::Schema(vec![Fault::new("", "must be an object")]));
    };
    let mut faults = Faults::default();
    if let Some(schema) = &collection.schema {
        schema.judge(&document, &mut faults);
    }
    let entity_id = id(&document, collection).unwrap_or_else(|fault| {
        if !faults.explain(collection.id.as_str()) {
            faults.add(collection.id.as_str(), fault);
        }
        String::new()
    });
    faults.settle()?;
    let alias = |profile| Some((profile, hash(text, profile).ok()?));
    Ok(Snapshot {
        entity_id,
        label: label(&document, collection),
        hash: data_encoding::HEXLOWER.encode(&Sha256::digest(&canonical)),
        canonical,
        aliases: ALIASES.into_iter().filter_map(alias).collect(),
    })
}

/// Which profile makes the hash that a client sent as its key, bare or as an RFC 8941 string.
///
/// The answer is for the `X-Idempotency-Key-Match` header. It is never a reason to refuse or to accept.
#[must_use]
pub fn key_match(snapshot: &Snapshot, header: &str) -> Option<Profile> {
    let sent = header.trim();
    let sent = sent
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(sent);
    let own = std::iter::once((Profile::Hcj1, snapshot.hash.as_str()));
    let aliases = snapshot.aliases.iter();
    own.chain(aliases.map(|(profile, hash)| (*profile, hash.as_str())))
        .find(|(_, hash)| hash.eq_ignore_ascii_case(sent))
        .map(|(profile, _)| profile)
}

/// The id of an item that was refused, if it has one nevertheless: it helps people to find the item.
pub(super) fn id_of_refused(text: &[u8], collection: &Collection) -> Option<String> {
    Document::parse(text).ok()?;
    id(&tree(text)?, collection).ok()
}

/// The document as a tree, if it is an object. The text has passed the input rules.
fn tree(text: &[u8]) -> Option<Value> {
    // Member by member: a reader of the whole would stop one level short of the depth allowed.
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(text).ok()?;
    members
        .into_iter()
        .map(|(name, raw)| Some((name, serde_json::from_str(raw.get()).ok()?)))
        .collect::<Option<serde_json::Map<_, _>>>()
        .map(Value::Object)
}

fn id(document: &Value, collection: &Collection) -> Result<String, &'static str> {
    match collection.id.find(document) {
        Some(Value::String(text)) if text.is_empty() => Err("must not be empty"),
        Some(Value::String(text)) if text.chars().nth(ID_CHARS_MAX).is_some() => {
            Err("is longer than the 255 characters allowed")
        }
        Some(Value::String(text)) if text.contains(char::is_control) => {
            Err("must not hold a control character")
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Number(number)) => number
            .as_i64()
            .filter(|number| (-INTEGER_MAX..=INTEGER_MAX).contains(number))
            .map(|number| number.to_string())
            .ok_or("must be a string, or an integer below 2^53"),
        Some(_) => Err("must be a string, or an integer below 2^53"),
        None => Err("is required"),
    }
}

fn label(document: &Value, collection: &Collection) -> Option<String> {
    let text = collection.label.as_ref()?.find(document)?.as_str()?;
    let kept = text.chars().take(LABEL_CHARS_MAX);
    // A label is looked at and searched, and no database column holds U+0000.
    Some(
        kept.map(|c| if c == '\0' { '\u{fffd}' } else { c })
            .collect(),
    )
}
