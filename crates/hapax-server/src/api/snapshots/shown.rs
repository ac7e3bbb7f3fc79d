//! Entities and snapshots as the API shows them.

use axum::http::HeaderMap;
use hapax_core::Fingerprint;
use hapax_core::snapshot::{Entity, Observation, Snapshot};
use hapax_intake::snapshot::Collection;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The id of an entity under the name that its collection has for it.
#[derive(Serialize, Clone, ToSchema)]
#[schema(as = EntityId)]
pub(super) enum Id {
    #[serde(rename = "courseId")]
    Course(String),
    #[serde(rename = "id")]
    Entity(String),
}

impl Id {
    pub(super) fn of(collection: &Collection, id: &str) -> Self {
        if is_courses(collection) {
            Self::Course(id.to_owned())
        } else {
            Self::Entity(id.to_owned())
        }
    }
}

/// What people call an entity, under the name that its collection has for that.
#[derive(Serialize, ToSchema)]
#[schema(as = EntityLabel)]
pub(super) enum Label {
    #[serde(rename = "name")]
    Name(Option<String>),
    #[serde(rename = "label")]
    Label(Option<String>),
}

impl Label {
    fn of(collection: &Collection, label: Option<&String>) -> Self {
        if is_courses(collection) {
            Self::Name(label.cloned())
        } else {
            Self::Label(label.cloned())
        }
    }
}

fn is_courses(collection: &Collection) -> bool {
    collection.name.as_str() == "courses"
}

/// An entity in a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Entity)]
pub(super) struct ShownEntity {
    #[serde(flatten)]
    id: Id,
    #[serde(flatten)]
    label: Label,
    current_snapshot_id: String,
    snapshots: u64,
    #[serde(rename = "created_at")]
    #[schema(format = DateTime)]
    created_at: String,
    /// When its current snapshot was new.
    #[serde(rename = "updated_at")]
    #[schema(format = DateTime)]
    updated_at: String,
}

impl ShownEntity {
    pub(super) fn of(collection: &Collection, entity: &Entity) -> Self {
        Self {
            id: Id::of(collection, &entity.id),
            label: Label::of(collection, entity.label.as_ref()),
            current_snapshot_id: entity.current.id.to_string(),
            snapshots: entity.snapshots,
            created_at: entity.created_at.to_string(),
            updated_at: entity.current.created_at.to_string(),
        }
    }
}

/// An entity with the payload of its current snapshot.
#[derive(Serialize, ToSchema)]
#[schema(as = EntityWithPayload)]
pub(super) struct WholeEntity {
    #[serde(flatten)]
    entity: ShownEntity,
    hash: Option<String>,
    #[schema(value_type = Value)]
    payload: Option<Box<RawValue>>,
}

impl WholeEntity {
    pub(super) fn of(collection: &Collection, entity: &Entity) -> Self {
        Self {
            entity: ShownEntity::of(collection, entity),
            hash: hash(&entity.current),
            payload: payload(&entity.current),
        }
    }
}

/// A snapshot in a history.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Snapshot)]
pub(super) struct ShownSnapshot {
    #[serde(flatten)]
    id: Id,
    snapshot_id: String,
    #[serde(flatten)]
    label: Label,
    hash: Option<String>,
    current: bool,
    #[serde(rename = "created_at")]
    #[schema(format = DateTime)]
    created_at: String,
    #[serde(rename = "seen_at")]
    #[schema(format = DateTime)]
    seen_at: String,
    /// How often it came, the first time included.
    seen: u64,
}

impl ShownSnapshot {
    pub(super) fn of(collection: &Collection, snapshot: &Snapshot) -> Self {
        Self {
            id: Id::of(collection, &snapshot.entity_id),
            snapshot_id: snapshot.id.to_string(),
            label: Label::of(collection, snapshot.label.as_ref()),
            hash: hash(snapshot),
            current: snapshot.current,
            created_at: snapshot.created_at.to_string(),
            seen_at: snapshot.seen_at.to_string(),
            seen: snapshot.seen,
        }
    }
}

/// A snapshot with its payload, and who sent it when.
#[derive(Serialize, ToSchema)]
#[schema(as = SnapshotWithPayload)]
pub(super) struct WholeSnapshot {
    #[serde(flatten)]
    snapshot: ShownSnapshot,
    /// What older snippets call the same text, by profile.
    aliases: Map<String, Value>,
    #[schema(value_type = Value)]
    payload: Option<Box<RawValue>>,
    observations: Vec<ShownObservation>,
}

impl WholeSnapshot {
    pub(super) fn of(
        collection: &Collection,
        snapshot: &Snapshot,
        observations: Vec<Observation>,
    ) -> Self {
        let aliases = snapshot.aliases.iter();
        Self {
            snapshot: ShownSnapshot::of(collection, snapshot),
            aliases: aliases
                .map(|(profile, hash)| (profile.clone(), hash.as_str().into()))
                .collect(),
            payload: payload(snapshot),
            observations: observations
                .into_iter()
                .map(|seen| ShownObservation {
                    at: seen.at.to_string(),
                    by: seen.by,
                    key_match: seen.key_match,
                })
                .collect(),
        }
    }
}

/// That a snapshot came.
#[derive(Serialize, ToSchema)]
#[schema(as = Observation)]
struct ShownObservation {
    at: String,
    by: Option<String>,
    key_match: Option<String>,
}

fn hash(snapshot: &Snapshot) -> Option<String> {
    snapshot.hash.as_ref().map(Fingerprint::hex)
}

/// The text as it was received. One that is not JSON, which only a row from before hashes can be, is left out.
fn payload(snapshot: &Snapshot) -> Option<Box<RawValue>> {
    RawValue::from_string(snapshot.payload.to_string()).ok()
}

/// The header that says which profile made the key that came with a payload; none unless a key came.
pub(super) type KeyMatch = Option<[(&'static str, &'static str); 1]>;

/// The key that came with a request. What is not text is nobody's hash.
pub(super) fn sent_key(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("idempotency-key")?;
    Some(value.to_str().unwrap_or_default().to_owned())
}

/// What is said of a key, if one came.
pub(super) fn key_match(key: Option<&String>, profile: Option<&'static str>) -> KeyMatch {
    key.map(|_| [("x-idempotency-key-match", profile.unwrap_or("none"))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Time;
    use serde_json::json;
    use std::sync::Arc;
    use uuid::Uuid;

    fn snapshot(payload: &str) -> Snapshot {
        Snapshot {
            id: Uuid::nil(),
            entity_id: "a".to_owned(),
            label: Some("A".to_owned()),
            hash: None,
            payload: Arc::from(payload),
            aliases: vec![("py-json".to_owned(), "00".to_owned())],
            created_at: Time::from_ms(0),
            seq: 1,
            seen_at: Time::from_ms(0),
            seen: 1,
            current: true,
        }
    }

    #[test]
    fn courses_have_their_own_words_and_other_collections_the_plain_ones() {
        let courses = Collection::courses();
        let orders = Collection {
            name: "orders".parse().unwrap(),
            ..courses.clone()
        };
        let of = |collection| {
            serde_json::to_value(ShownSnapshot::of(collection, &snapshot("{}"))).unwrap()
        };
        let (course, order) = (of(&courses), of(&orders));
        assert_eq!(
            (&course["courseId"], &course["name"]),
            (&json!("a"), &json!("A"))
        );
        assert_eq!((&order["id"], &order["label"]), (&json!("a"), &json!("A")));
        assert!(course.get("id").is_none() && order.get("courseId").is_none());
    }

    #[test]
    fn a_payload_is_shown_as_it_was_received() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(127), "]".repeat(127));
        for text in ["{ \"b\":1.0,\n\"a\":12345678901234567890123 }", &deep] {
            let shown = WholeSnapshot::of(&Collection::courses(), &snapshot(text), Vec::new());
            let shown = serde_json::to_string(&shown).unwrap();
            assert!(shown.contains(&format!("\"payload\":{text}")), "{shown}");
            assert!(shown.contains(r#""aliases":{"py-json":"00"}"#), "{shown}");
        }
    }
}
