//! What a case works on: an empty store, its clock, and short words for what every case does.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{
    Action, Catalog, Change, Column, Done, Draft, Incoming, KeyConflict, Policy, PolicyChange,
    Refused, Row, Schema, Search, Sort, Target, TestMode, Which, Written,
};
use hapax_core::{Tenant, Time};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::clock::Clock;

/// The tenant of every case.
pub(super) const TENANT: Tenant = Tenant::DEFAULT;
/// Somebody else.
pub(super) const OTHER: Tenant = Tenant::from_uuid(Uuid::from_u128(0xb0b));
/// The real home.
pub(super) const PKM: Target = Target::Pinned(Schema::Pkm);
/// The home to try things on.
pub(super) const PKM_TEST: Target = Target::Pinned(Schema::PkmTest);

/// An empty store of entries and the clock it reads.
pub struct EntrySubject {
    /// The store under test.
    pub catalog: Arc<dyn Catalog>,
    clock: Clock,
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl EntrySubject {
    /// A subject over an empty `catalog` that reads `clock`.
    #[must_use]
    pub fn new(catalog: Arc<dyn Catalog>, clock: Clock) -> Self {
        Self {
            catalog,
            clock,
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

    /// Writes a batch to the active home; each item on its own.
    pub(super) async fn write(&self, batch: Vec<Incoming>) -> Vec<Done> {
        let written = self.write_to(TENANT, Target::Active, batch, false).await;
        assert!(written.kept);
        written.done
    }

    pub(super) async fn write_to(
        &self,
        tenant: Tenant,
        target: Target,
        batch: Vec<Incoming>,
        all_or_nothing: bool,
    ) -> Written {
        let count = batch.len();
        let written = self
            .catalog
            .write_entries(tenant, target, batch, all_or_nothing)
            .await;
        let written = written.expect("the store answers");
        assert_eq!(written.done.len(), count, "one answer for each item");
        written
    }

    /// Inserts one entry that is kept.
    pub(super) async fn insert(&self, entry: Value) -> Kept {
        kept(self.write(vec![draft(entry)]).await.remove(0))
    }

    /// Inserts one entry that is kept, of this tenant and in this home.
    pub(super) async fn insert_at(&self, tenant: Tenant, target: Target, entry: Value) -> Kept {
        let written = self.write_to(tenant, target, vec![draft(entry)], false);
        kept(written.await.done.remove(0))
    }

    /// Inserts one entry that is refused, and answers its code.
    pub(super) async fn refused(&self, entry: Value) -> &'static str {
        refused(self.write(vec![draft(entry)]).await.remove(0)).code
    }

    /// Changes one entry that is there.
    pub(super) async fn update(&self, entry: Value) -> Kept {
        kept(self.write(vec![change(entry)]).await.remove(0))
    }

    /// The entry with this number, which is there.
    pub(super) async fn stored(&self, entry_id: i64) -> Row {
        let row = self.stored_at(TENANT, Target::Active, entry_id).await;
        row.expect("it is there")
    }

    pub(super) async fn stored_at(
        &self,
        tenant: Tenant,
        target: Target,
        entry_id: i64,
    ) -> Option<Row> {
        let row = self.catalog.entry(tenant, target, entry_id).await;
        row.expect("the store answers")
    }

    /// All entries of the active home, newest first.
    pub(super) async fn all(&self) -> Vec<Row> {
        self.all_at(TENANT, Target::Active).await
    }

    pub(super) async fn all_at(&self, tenant: Tenant, target: Target) -> Vec<Row> {
        let search = Search {
            words: None,
            source: None,
            since: None,
            before: None,
            sort: Sort::Newest,
            limit: Search::LIMIT_MAX,
        };
        let rows = self.catalog.search_entries(tenant, target, search).await;
        rows.expect("the store answers")
    }

    /// The titles of what these words find, sorted.
    pub(super) async fn found(&self, words: &str) -> Vec<String> {
        let mut titles = self.found_by(words, Sort::Newest, None, 50).await;
        titles.sort();
        titles
    }

    /// The titles of what these words find, in order.
    pub(super) async fn found_by(
        &self,
        words: &str,
        sort: Sort,
        since: Option<Time>,
        limit: usize,
    ) -> Vec<String> {
        let search = Search {
            words: Some(words.to_owned()),
            source: None,
            since,
            before: None,
            sort,
            limit,
        };
        let rows = self
            .catalog
            .search_entries(TENANT, Target::Active, search)
            .await;
        let rows = rows.expect("the store answers");
        rows.iter().map(title).collect()
    }

    /// The states of an entry that were replaced, newest first.
    pub(super) async fn revisions(&self, entry_id: i64) -> Vec<Row> {
        let found = self
            .catalog
            .entry_revisions(TENANT, Target::Active, entry_id, None, Search::LIMIT_MAX)
            .await;
        found.expect("the store answers")
    }

    /// Changes a policy of the active home.
    pub(super) async fn set(&self, key: &str, change: PolicyChange) -> Policy {
        self.set_at(TENANT, Target::Active, key, change).await
    }

    pub(super) async fn set_at(
        &self,
        tenant: Tenant,
        target: Target,
        key: &str,
        change: PolicyChange,
    ) -> Policy {
        change.check(key).expect("it can be set");
        let set = self
            .catalog
            .set_policy(tenant, target, key.to_owned(), change);
        set.await.expect("the store answers")
    }

    pub(super) async fn policies_at(&self, tenant: Tenant, target: Target) -> Vec<Policy> {
        let policies = self.catalog.policies(tenant, target).await;
        policies.expect("the store answers")
    }

    /// Turns the test mode on or off.
    pub(super) async fn mode(&self, mode: TestMode) -> bool {
        let is_on = self.catalog.change_test_mode(TENANT, mode).await;
        is_on.expect("the store answers")
    }
}

/// An entry to be inserted, as a door would hand it in.
#[allow(
    clippy::needless_pass_by_value,
    reason = "a case says what it sends in place"
)]
pub(super) fn draft(entry: Value) -> Incoming {
    match read(&entry) {
        Ok(draft) => Incoming::Insert(draft),
        Err(refused) => Incoming::Refused(refused),
    }
}

pub(super) fn read(entry: &Value) -> Result<Draft, Refused> {
    Draft::read(entry.as_object().expect("an object"), |_| None)
}

/// A change, as a door would hand it in.
#[allow(
    clippy::needless_pass_by_value,
    reason = "a case says what it sends in place"
)]
pub(super) fn change(entry: Value) -> Incoming {
    match Change::read(entry.as_object().expect("an object")) {
        Ok(change) => Incoming::Update(change),
        Err(refused) => Incoming::Refused(refused),
    }
}

/// What became of an item that is kept, with a row of its own.
pub(super) struct Kept {
    pub(super) action: Action,
    pub(super) row: Row,
    pub(super) matched_on: Option<Which>,
    pub(super) conflict: Option<KeyConflict>,
    pub(super) ignored: Vec<Column>,
}

/// What became of an item that is kept.
pub(super) fn kept(done: Done) -> Kept {
    match done {
        Done::Kept(kept) => Kept {
            action: kept.action,
            row: Row::clone(&kept.row),
            matched_on: kept.matched_on,
            conflict: kept.conflict,
            ignored: kept.ignored,
        },
        Done::Refused(refused) => panic!("it is kept, got {refused:?}"),
        Done::Missing => panic!("it is kept, got missing"),
    }
}

/// Why an item was refused.
pub(super) fn refused(done: Done) -> Refused {
    match done {
        Done::Refused(refused) => refused,
        Done::Kept(kept) => panic!("it is refused, got {kept:?}"),
        Done::Missing => panic!("it is refused, got missing"),
    }
}

/// What was done with each item.
pub(super) fn actions(done: &[Done]) -> Vec<Action> {
    done.iter().map(|done| kept(done.clone()).action).collect()
}

pub(super) fn title(row: &Row) -> String {
    let title = row.fields.text(hapax_core::entry::Column::Title);
    title.unwrap_or_default().to_owned()
}

/// `entry` with the members of `over` in it.
pub(super) fn with(mut entry: Value, over: Value) -> Value {
    let (Value::Object(members), Value::Object(over)) = (&mut entry, over) else {
        panic!("two objects");
    };
    members.extend(over);
    entry
}

/// A link from Telegram: a second one is skipped.
pub(super) fn link(url: &str) -> Value {
    json!({
        "source": "telegram", "intent": "archive", "content_type": "link", "title": url, "url": url,
        "url_canonical": url, "idempotency_policy_key": "telegram_link_v1",
        "idempotency_key_primary": url, "idempotency_key_secondary": format!("hash of {url}"),
    })
}

/// A thought from Telegram: a second one of the same message goes over the first.
pub(super) fn thought(message: u32, text: &str) -> Value {
    json!({
        "source": "telegram", "intent": "think", "content_type": "thought", "title": text,
        "capture_text": text, "clean_text": text, "idempotency_policy_key": "telegram_thought_v1",
        "idempotency_key_primary": format!("tg:1:{message}"),
        "idempotency_key_secondary": format!("hash of {text}"),
    })
}

/// A newsletter: a second one is skipped, also if only its secondary key is the same.
pub(super) fn newsletter(message_id: Option<&str>, secondary: &str) -> Value {
    json!({
        "source": "email", "content_type": "newsletter", "title": secondary,
        "idempotency_policy_key": "email_newsletter_v1", "idempotency_key_primary": message_id,
        "idempotency_key_secondary": secondary,
    })
}

/// A thread of mails: a second mail goes over the first.
pub(super) fn thread(subject: &str) -> Value {
    json!({
        "source": "email", "content_type": "correspondence_thread", "title": subject,
        "idempotency_policy_key": "email_correspondence_thread_v1", "idempotency_key_primary": subject,
    })
}

/// An entry without keys.
pub(super) fn bare(title: &str) -> Value {
    json!({"source": "web", "title": title, "clean_text": title})
}

/// Writes to the active home, and again while the store is busy.
pub(super) async fn write_again(catalog: &dyn Catalog, batch: Vec<Incoming>) -> Vec<Done> {
    loop {
        let written = catalog.write_entries(TENANT, Target::Active, batch.clone(), false);
        match written.await {
            Err(error) if error.kind() == hapax_core::Kind::Unavailable => {}
            written => return written.expect("the store answers").done,
        }
    }
}
