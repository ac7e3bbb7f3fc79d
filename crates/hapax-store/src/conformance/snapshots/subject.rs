//! What a case works on: an empty store, its clock, and short words for what every case does.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::canonical::{Profile, canonical};
use hapax_core::snapshot::{Entity, EntityScan, NewSnapshot, Put, Shelf, Snapshot, Snapshots};
use hapax_core::{Fingerprint, Tenant};
use uuid::Uuid;

use crate::clock::Clock;

/// Makes rows from before hashes of all that are stored.
type Age = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// An empty store of snapshots and the clock it reads.
pub struct SnapshotSubject {
    /// The store under test.
    pub snapshots: Arc<dyn Snapshots>,
    clock: Clock,
    age: Age,
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl SnapshotSubject {
    /// A subject over empty `snapshots` that read `clock`. `age` takes the hash and the aliases from every stored row,
    /// as if it were from before there were hashes.
    #[must_use]
    pub fn new<A, F>(snapshots: Arc<dyn Snapshots>, clock: Clock, age: A) -> Self
    where
        A: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            snapshots,
            clock,
            age: Box::new(move || Box::pin(age())),
            keep: Vec::new(),
        }
    }

    /// Keeps `guard`, such as a temporary folder, for as long as the subject lives.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.keep.push(Box::new(guard));
        self
    }

    /// Moves the store's clock forward.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Makes rows from before hashes of all that are stored.
    pub(super) async fn age(&self) {
        (self.age)().await;
    }

    /// Puts on the shelf of every case.
    pub(super) async fn put(&self, all: Vec<NewSnapshot>) -> Vec<Put> {
        self.put_on(shelf(), all).await
    }

    pub(super) async fn put_on(&self, on: Shelf, all: Vec<NewSnapshot>) -> Vec<Put> {
        let count = all.len();
        let answers = self.snapshots.put_snapshots(on, all).await;
        let answers = answers.expect("the store answers");
        assert_eq!(answers.len(), count, "one answer for each payload");
        answers
    }

    /// Puts one payload.
    pub(super) async fn put_one(&self, new: NewSnapshot) -> Put {
        self.put(vec![new]).await.remove(0)
    }

    /// The snapshot with this id, which is there.
    pub(super) async fn stored(&self, id: Uuid) -> Snapshot {
        self.stored_on(shelf(), id).await.expect("it is there")
    }

    pub(super) async fn stored_on(&self, on: Shelf, id: Uuid) -> Option<Snapshot> {
        let found = self.snapshots.snapshot(on, id).await;
        found.expect("the store answers")
    }

    /// The entity with this id, if it is there.
    pub(super) async fn entity(&self, id: &str) -> Option<Entity> {
        let found = self.snapshots.entity(shelf(), id.to_owned()).await;
        found.expect("the store answers")
    }

    /// All snapshots of an entity, newest first.
    pub(super) async fn history(&self, entity: &str) -> Vec<Snapshot> {
        self.page_of(entity, None, EntityScan::LIMIT_MAX).await
    }

    /// A page of an entity's snapshots.
    pub(super) async fn page_of(
        &self,
        entity: &str,
        before: Option<i64>,
        limit: usize,
    ) -> Vec<Snapshot> {
        let page = self
            .snapshots
            .snapshots_of(shelf(), entity.to_owned(), before, limit)
            .await;
        page.expect("the store answers")
    }

    /// The ids of a page of entities.
    pub(super) async fn listed(&self, scan: EntityScan) -> Vec<String> {
        let page = self.snapshots.entities(shelf(), scan).await;
        let page = page.expect("the store answers");
        page.into_iter().map(|entity| entity.id).collect()
    }

    /// The ids of the entities that a search finds, sorted.
    pub(super) async fn found(&self, search: &str) -> Vec<String> {
        let mut ids = self.listed(scan(Some(search), 50, 0)).await;
        ids.sort();
        ids
    }
}

/// The shelf of every case.
pub(super) fn shelf() -> Shelf {
    shelf_of(Tenant::DEFAULT, "courses")
}

pub(super) fn shelf_of(tenant: Tenant, collection: &str) -> Shelf {
    Shelf {
        tenant,
        collection: collection.into(),
    }
}

/// A payload about this entity, as its door would hand it in.
pub(super) fn new(entity: &str, payload: &str) -> NewSnapshot {
    let hash = hash(payload);
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    NewSnapshot {
        id: Uuid::from_bytes(id),
        entity_id: entity.to_owned(),
        label: Some(format!("label of {entity}")),
        hash,
        payload: payload.into(),
        aliases: aliases(payload),
        by: Some("token:1".to_owned()),
        key_match: None,
    }
}

/// The hash of a payload's canonical form, or of its text if it has none.
pub(super) fn hash(payload: &str) -> Fingerprint {
    let form = canonical(payload.as_bytes(), Profile::Hcj1);
    Fingerprint::of(&form.unwrap_or_else(|_| payload.as_bytes().to_vec()))
}

/// What older programs call a payload.
pub(super) fn aliases(payload: &str) -> Vec<(String, String)> {
    let hash = hash(payload).hex();
    ["py-json", "js-sorted"]
        .map(|profile| (profile.to_owned(), hash.clone()))
        .into()
}

/// What came of a payload that is kept: its id, whether it was there, and what is current.
pub(super) fn kept(put: &Put) -> (Uuid, bool, Uuid) {
    match put {
        Put::Kept {
            id,
            was_there,
            current,
        } => (*id, *was_there, *current),
        Put::Collision => panic!("it is kept, got a collision"),
    }
}

pub(super) fn scan(search: Option<&str>, limit: usize, offset: usize) -> EntityScan {
    EntityScan {
        search: search.map(str::to_owned),
        limit,
        offset,
    }
}
