//! What a case works on: an empty store, its clock, and short words for what every case does.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{
    Batch, BatchState, Batches, Catalog, Change, Column, Done, Draft, Fields, Imports, Incoming,
    Item, ItemChange, ItemScan, ItemStatus, ItemText, NewBatch, NewItem, Row, Schema, Search,
    Target, TestMode,
};
use hapax_core::{Fingerprint, Tenant, Time};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::clock::Clock;

/// The tenant of every case.
pub(super) const TENANT: Tenant = Tenant::DEFAULT;
/// Somebody else.
pub(super) const OTHER: Tenant = Tenant::from_uuid(Uuid::from_u128(0xb0b));
/// The entry whose items cannot be written while the store is hurt. No case inserts so many entries.
pub(super) const HURT: i64 = 404;

/// Makes every write of some items fail, or heals that.
type Hurt = Box<dyn Fn(bool) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// An empty store of batches, entries and imports, and the clock it reads.
pub struct T1Subject {
    /// The store under test.
    pub batches: Arc<dyn Batches>,
    /// The same store.
    pub catalog: Arc<dyn Catalog>,
    /// The same store.
    pub imports: Arc<dyn Imports>,
    clock: Clock,
    hurt: Hurt,
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl T1Subject {
    /// A subject over an empty `store` that reads `clock`. `hurt(true)` makes the store fail when an item of the real
    /// home with the `entry_id` 404 is inserted or changed, such as by a trigger on the table; `hurt(false)` heals it.
    #[must_use]
    pub fn new<S, H, F>(store: Arc<S>, clock: Clock, hurt: H) -> Self
    where
        S: Batches + Catalog + Imports,
        H: Fn(bool) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            batches: store.clone(),
            catalog: store.clone(),
            imports: store,
            clock,
            hurt: Box::new(move |hurts| Box::pin(hurt(hurts))),
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

    pub(super) async fn hurt(&self, hurts: bool) {
        (self.hurt)(hurts).await;
    }

    /// Keeps a batch of the tenant of every case in the active home.
    pub(super) async fn add(&self, number: u128, items: Vec<NewItem>) -> Batch {
        self.add_at(TENANT, Target::Active, new(number, items))
            .await
    }

    pub(super) async fn add_at(&self, tenant: Tenant, target: Target, new: NewBatch) -> Batch {
        let added = self.batches.add_batch(tenant, target, new).await;
        added.expect("the store answers")
    }

    /// Keeps a batch of one item in this home.
    pub(super) async fn add_one(&self, tenant: Tenant, schema: Schema, number: u128) -> Batch {
        let items = vec![own("a text")];
        let target = Target::Pinned(schema);
        self.add_at(tenant, target, new(number, items)).await
    }

    /// The batch as it is stored.
    pub(super) async fn stored(&self, id: Uuid) -> Batch {
        self.found(TENANT, id).await.expect("it is there")
    }

    pub(super) async fn found(&self, tenant: Tenant, id: Uuid) -> Option<Batch> {
        let found = self.batches.batch(tenant, id).await;
        found.expect("the store answers")
    }

    /// The ids of a page of batches.
    pub(super) async fn listed(
        &self,
        schema: Option<Schema>,
        include_terminal: bool,
        after: Option<u128>,
        limit: usize,
    ) -> Vec<u128> {
        let after = after.map(Uuid::from_u128);
        let listed = self
            .batches
            .batches(TENANT, schema, include_terminal, after, limit)
            .await;
        let listed = listed.expect("the store answers");
        listed.iter().map(|batch| batch.id.as_u128()).collect()
    }

    /// The numbers of the batches that are due.
    pub(super) async fn due(&self, limit: usize) -> Vec<u128> {
        let due = self.batches.due_batches(limit).await;
        let due = due.expect("the store answers");
        due.iter().map(|batch| batch.id.as_u128()).collect()
    }

    /// Changes the state of a batch as it is known.
    pub(super) async fn change(&self, batch: &Batch, state: BatchState) -> Option<Batch> {
        let (tenant, id) = (TENANT, batch.id);
        let changed = self
            .batches
            .change_batch(tenant, batch.schema, id, batch.version, state)
            .await;
        changed.expect("the store answers")
    }

    /// All items of a batch, in their order and with their texts.
    pub(super) async fn items(&self, batch: &Batch) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let scan = ItemScan {
                status: None,
                after: items.last().map(|item| item.item_id),
                with_text: true,
                limit: ItemScan::LIMIT_MAX,
            };
            let page = self.page(batch, scan).await;
            if page.is_empty() {
                return items;
            }
            items.extend(page);
        }
    }

    pub(super) async fn page(&self, batch: &Batch, scan: ItemScan) -> Vec<Item> {
        let page = self
            .batches
            .batch_items(TENANT, batch.schema, batch.id, scan)
            .await;
        page.expect("the store answers")
    }

    /// The first item of a batch.
    pub(super) async fn first(&self, batch: &Batch) -> Item {
        self.items(batch).await.remove(0)
    }

    /// How far each item of a batch is.
    pub(super) async fn statuses(&self, batch: &Batch) -> Vec<ItemStatus> {
        let items = self.items(batch).await;
        items.iter().map(|item| item.status).collect()
    }

    /// Changes items of a batch.
    pub(super) async fn settle(
        &self,
        batch: &Batch,
        changes: Vec<ItemChange>,
    ) -> Vec<Option<ItemStatus>> {
        let settled = self
            .batches
            .settle_items(TENANT, batch.schema, batch.id, changes)
            .await;
        settled.expect("the store answers")
    }

    /// Inserts an entry into the active home; answers its number and an item with its text.
    pub(super) async fn entry(&self, text: &str) -> (i64, NewItem) {
        self.entry_at(TENANT, Target::Active, text).await
    }

    pub(super) async fn entry_at(
        &self,
        tenant: Tenant,
        target: Target,
        text: &str,
    ) -> (i64, NewItem) {
        let row = self.write(tenant, target, draft(text)).await;
        let item = NewItem::of_row(&row).expect("it has a text");
        (row.entry_id, item)
    }

    /// Has an entry of the active home say another text.
    pub(super) async fn say(&self, entry_id: i64, text: &str) {
        let mut fields = Fields::new();
        fields.put(Column::CleanText, text);
        let change = Incoming::Update(Change {
            entry_id: Some(entry_id),
            id: None,
            fields,
            ignored: Vec::new(),
        });
        self.write(TENANT, Target::Active, change).await;
    }

    async fn write(&self, tenant: Tenant, target: Target, incoming: Incoming) -> Row {
        let written = self
            .catalog
            .write_entries(tenant, target, vec![incoming], true)
            .await;
        match written.expect("the store answers").done.remove(0) {
            Done::Kept(kept) => Row::clone(&kept.row),
            other => panic!("it is kept, got {other:?}"),
        }
    }

    /// The entry of the real home with this number.
    pub(super) async fn row(&self, entry_id: i64) -> Row {
        let target = Target::Pinned(Schema::Pkm);
        let row = self.catalog.entry(TENANT, target, entry_id).await;
        row.expect("the store answers").expect("it is there")
    }

    /// The states of that entry that were replaced, newest first.
    pub(super) async fn replaced(&self, entry_id: i64) -> Vec<Row> {
        let target = Target::Pinned(Schema::Pkm);
        let replaced = self
            .catalog
            .entry_revisions(TENANT, target, entry_id, None, Search::LIMIT_MAX)
            .await;
        replaced.expect("the store answers")
    }

    pub(super) async fn set_test_mode(&self, is_on: bool) {
        let mode = TestMode::Set(is_on);
        let changed = self.catalog.change_test_mode(TENANT, mode).await;
        assert_eq!(changed.expect("the store answers"), is_on);
    }
}

/// A batch to be kept.
pub(super) fn new(number: u128, items: Vec<NewItem>) -> NewBatch {
    NewBatch {
        id: Uuid::from_u128(number),
        completion_window: "24h".to_owned(),
        metadata: Map::new(),
        items,
    }
}

/// An item with a text of its own.
pub(super) fn own(text: &str) -> NewItem {
    NewItem::Own(ItemText {
        clean_text: text.to_owned(),
        ..ItemText::default()
    })
}

/// An item of the entry whose items cannot be written while the store is hurt.
pub(super) fn hurting() -> NewItem {
    NewItem::OfEntry {
        entry_id: HURT,
        hash: Fingerprint::of(b"it hurts"),
    }
}

/// An item that becomes something, and nothing else.
pub(super) fn becoming(item: &Item, from: ItemStatus, to: ItemStatus) -> ItemChange {
    ItemChange {
        item_id: item.item_id,
        from,
        to,
        raw: None,
        result: None,
        error: None,
        missed_in: None,
        entry: None,
    }
}

/// An item that is completed, with this gist for its entry.
pub(super) fn completing(item: &Item, gist: &str) -> ItemChange {
    ItemChange {
        raw: Some(raw_of(gist).into()),
        result: Some(json!({"gist": gist})),
        entry: Some(gist_fields(gist)),
        ..becoming(item, ItemStatus::Queued, ItemStatus::Completed)
    }
}

/// What a model answers.
pub(super) fn raw_of(gist: &str) -> String {
    json!({"gist": gist}).to_string()
}

/// Columns with a gist.
pub(super) fn gist_fields(gist: &str) -> Fields {
    let mut fields = Fields::new();
    fields.put(Column::Gist, gist);
    fields
}

/// The gist of an entry.
pub(super) fn gist(row: &Row) -> Option<&str> {
    row.fields.text(Column::Gist)
}

/// Everything of a state but when it goes on.
pub(super) fn due_at(batch: &Batch, next_at: Time) -> BatchState {
    BatchState {
        next_at,
        ..batch.state.clone()
    }
}

fn draft(text: &str) -> Incoming {
    let about: String = text.chars().take(20).collect();
    let entry: Value = json!({
        "source": "web", "content_type": "page", "title": format!("About {about}"), "author": "Ada", "clean_text": text,
    });
    let entry = entry.as_object().expect("an object");
    Incoming::Insert(Draft::read(entry, |_| None).expect("cases use entries that can be read"))
}
