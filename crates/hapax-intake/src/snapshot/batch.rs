//! Many payloads in one array. Each is read by itself: one that is refused says nothing about the others.

use std::fmt;

use hapax_core::canonical::{DEPTH_MAX, check_with_depth};
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::collection::Collection;
use super::payload::{Snapshot, id_of_refused, read};
use crate::refusal::{Fault, Refusal};

/// How many payloads a batch may hold.
pub const ITEMS_MAX: usize = 1000;

/// A batch of which nothing was read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BatchRefusal {
    /// The text is no array of JSON documents.
    #[error(transparent)]
    Text(Refusal),
    /// It holds more than [`ITEMS_MAX`] payloads.
    #[error("the batch has {items} items; at most {ITEMS_MAX} are allowed")]
    TooMany {
        /// How many it holds.
        items: usize,
    },
}

/// One payload of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its place, from 0.
    pub index: usize,
    /// The entity it is about; of a refused payload too, where that can be told.
    pub entity_id: Option<String>,
    /// What was read.
    pub result: Result<Snapshot, Refusal>,
}

/// The texts of the payloads, exactly as they stand in the array: no number or string is written anew.
///
/// ```
/// use hapax_intake::snapshot::{BatchRefusal, split};
///
/// assert_eq!(split(b"[ 1.0, {\"a\": 1,\"a\":2} ]")?, ["1.0", "{\"a\": 1,\"a\":2}"]);
/// assert!(matches!(split(b"{}"), Err(BatchRefusal::Text(_))));
/// let many = format!("[{}1]", "1,".repeat(1000));
/// assert_eq!(split(many.as_bytes()), Err(BatchRefusal::TooMany { items: 1001 }));
/// # Ok::<(), BatchRefusal>(())
/// ```
///
/// # Errors
/// [`BatchRefusal::Text`] when the whole is not an array in JSON grammar; what the items hold is not judged here.
/// [`BatchRefusal::TooMany`] when it holds more than [`ITEMS_MAX`].
pub fn split(text: &[u8]) -> Result<Vec<&str>, BatchRefusal> {
    let Ok(items) = serde_json::from_slice::<Items<'_>>(text) else {
        // The items stand one level below the array.
        check_with_depth(text, DEPTH_MAX + 1)
            .map_err(|reject| BatchRefusal::Text(Refusal::BadJson(reject)))?;
        let fault = Fault::new("", "must be an array");
        return Err(BatchRefusal::Text(Refusal::Schema(vec![fault])));
    };
    if items.total > ITEMS_MAX {
        return Err(BatchRefusal::TooMany { items: items.total });
    }
    Ok(items.kept)
}

/// Reads every payload of an array by itself, in order.
///
/// ```
/// use hapax_intake::snapshot::{Collection, read_batch};
///
/// let items = read_batch(br#"[{"course":{"id":"a","name":"A"}},{"course":{"id":"b"}}]"#, &Collection::courses())?;
/// assert!(items[0].result.is_ok());
/// assert!(items[1].result.is_err());
/// assert_eq!(items[1].entity_id.as_deref(), Some("b"));
/// # Ok::<(), hapax_intake::snapshot::BatchRefusal>(())
/// ```
///
/// # Errors
/// Those of [`split`].
pub fn read_batch(text: &[u8], collection: &Collection) -> Result<Vec<Item>, BatchRefusal> {
    let item = |(index, text): (usize, &str)| {
        let result = read(text.as_bytes(), collection);
        let entity_id = match &result {
            Ok(snapshot) => Some(snapshot.entity_id.clone()),
            Err(_) => id_of_refused(text.as_bytes(), collection),
        };
        Item {
            index,
            entity_id,
            result,
        }
    };
    Ok(split(text)?.into_iter().enumerate().map(item).collect())
}

/// The elements of an array; those over the limit are only counted, so that a long array costs no memory.
struct Items<'a> {
    kept: Vec<&'a str>,
    total: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Elements)
    }
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Items<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Items<'de>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < ITEMS_MAX {
            match array.next_element::<&RawValue>()? {
                Some(raw) => kept.push(raw.get()),
                None => break,
            }
        }
        let mut total = kept.len();
        while array.next_element::<IgnoredAny>()?.is_some() {
            total += 1;
        }
        Ok(Items { kept, total })
    }
}
