//! The seam that stores of snapshots implement: one snapshot per payload, and a history per entity.
//! How a payload is read and hashed is not its business.

use std::sync::Arc;

use uuid::Uuid;

use crate::fingerprint::Fingerprint;
use crate::ledger::Answer;
use crate::scope::Tenant;
use crate::time::Time;

/// Whose payloads, and of which collection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Shelf {
    /// Whose.
    pub tenant: Tenant,
    /// The collection's name, checked by whoever made it.
    pub collection: Arc<str>,
}

/// What a client saw or sent again: when, and on whose word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// When.
    pub at: Time,
    /// By whom, as the audit trail names callers.
    pub by: Option<String>,
    /// Which profile made the key that was sent along, if one did.
    pub key_match: Option<String>,
}

/// A payload to be kept, checked and hashed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSnapshot {
    /// The id it gets if it is new. The same payload has the same one.
    pub id: Uuid,
    /// Which entity of the collection it is about.
    pub entity_id: String,
    /// What people call the entity.
    pub label: Option<String>,
    /// The hash of its canonical form: what makes it the same payload.
    pub hash: Fingerprint,
    /// The text as received.
    pub payload: Arc<str>,
    /// What older snippets call the same text: profile and hash.
    pub aliases: Vec<(String, String)>,
    /// That it was seen, now.
    pub by: Option<String>,
    /// Which profile made the key that was sent along, if one did.
    pub key_match: Option<String>,
}

impl NewSnapshot {
    /// The most payloads of one put.
    pub const BATCH_MAX: usize = 1000;
}

/// What came of a payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is kept.
    Kept {
        /// The snapshot's id.
        id: Uuid,
        /// Whether it was there before.
        was_there: bool,
        /// The current snapshot of its entity: the one that was new last.
        current: Uuid,
    },
    /// Another payload has the same hash. Nothing was written.
    Collision,
}

/// A stored payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its id.
    pub id: Uuid,
    /// Which entity it is about.
    pub entity_id: String,
    /// What people called the entity then.
    pub label: Option<String>,
    /// The hash of its canonical form; `None` for a row from before hashes, until it is filled in.
    pub hash: Option<Fingerprint>,
    /// The text as received.
    pub payload: Arc<str>,
    /// What older snippets call the same text: profile and hash.
    pub aliases: Vec<(String, String)>,
    /// When it was new.
    pub created_at: Time,
    /// Its place in the order in which snapshots were new.
    pub seq: i64,
    /// When it was seen last.
    pub seen_at: Time,
    /// How often it was seen, the first time included.
    pub seen: u64,
    /// Whether it is the current one of its entity.
    pub current: bool,
}

/// An entity and its current snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entity {
    /// Its id within the collection.
    pub id: String,
    /// What people call it.
    pub label: Option<String>,
    /// Its current snapshot: the one that was new last.
    pub current: Snapshot,
    /// How many snapshots it has.
    pub snapshots: u64,
    /// When its first snapshot was new.
    pub created_at: Time,
}

/// Which entities are listed: by id or label, those that changed last first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntityScan {
    /// Only those whose id or label holds this, whatever the case of its ASCII letters.
    pub search: Option<String>,
    /// At most this many, and never more than [`EntityScan::LIMIT_MAX`].
    pub limit: usize,
    /// Skip this many.
    pub offset: usize,
}

impl EntityScan {
    /// The most entities on one page.
    pub const LIMIT_MAX: usize = 500;
}

/// What filling in missing hashes came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filled {
    /// Rows that have a hash now.
    pub filled: u64,
    /// Rows whose payload is kept under another id already; they stay without a hash.
    pub duplicates: u64,
    /// Rows whose payload cannot be hashed; they stay without one.
    pub unreadable: u64,
}

/// What a row without a hash gets; `None` if its payload cannot be hashed.
pub type Hasher<'a> =
    &'a (dyn Fn(&Shelf, &str) -> Option<(Fingerprint, Vec<(String, String)>)> + Send + Sync);

/// The store of snapshots.
///
/// What every store promises, and the conformance suite checks:
/// - One snapshot per shelf and hash, however many put it at once; the others are told its id.
/// - On an equal hash the canonical bytes are compared: another payload is a [`Put::Collision`].
/// - The current snapshot of an entity is the one that was new last. Putting an old one again does not move it.
/// - Every put of a payload that is kept is an observation.
/// - Nothing of one tenant is visible to, or changed by, another.
pub trait Snapshots: Send + Sync + 'static {
    /// Keeps each payload, independently of the others; answers in their order. At most [`NewSnapshot::BATCH_MAX`].
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind) when nothing was written, [`Kind::OutcomeUnknown`](crate::Kind) when
    /// something may have been: putting it again is harmless.
    fn put_snapshots(&self, shelf: Shelf, snapshots: Vec<NewSnapshot>) -> Answer<'_, Vec<Put>>;

    /// The snapshot with this id.
    fn snapshot(&self, shelf: Shelf, id: Uuid) -> Answer<'_, Option<Snapshot>>;

    /// The snapshots of an entity, newest first, before the one with this `seq`; at most `limit`, and never more than
    /// [`EntityScan::LIMIT_MAX`].
    fn snapshots_of(
        &self,
        shelf: Shelf,
        entity: String,
        before: Option<i64>,
        limit: usize,
    ) -> Answer<'_, Vec<Snapshot>>;

    /// An entity.
    fn entity(&self, shelf: Shelf, id: String) -> Answer<'_, Option<Entity>>;

    /// A page of entities.
    fn entities(&self, shelf: Shelf, scan: EntityScan) -> Answer<'_, Vec<Entity>>;

    /// When and by whom a snapshot was seen, newest first, at most `limit`. Old ones may have been removed.
    fn observations(&self, shelf: Shelf, id: Uuid, limit: usize) -> Answer<'_, Vec<Observation>>;

    /// One bounded step of filling in missing hashes, for all tenants, at most `limit` rows. A step that did nothing
    /// ends it.
    fn fill_hashes<'a>(&'a self, hasher: Hasher<'a>, limit: usize) -> Answer<'a, Filled>;
}
