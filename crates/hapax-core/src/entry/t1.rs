//! Tier-1 enrichment as it is kept: batches, their items, and answers that were paid for. What is asked of a model, and
//! how, is not its business.
//!
//! A batch is a row here before anything is sent. Its items go `queued` → `answered` → `completed`, `stale`,
//! `parse_error` or `failed`; each step is written before the next is taken, so a crash between two repeats nothing
//! that was recorded. What one batch or request asks, nobody else asks until it is answered: an item that asks the same
//! is `waiting` for that answer.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::catalog::Target;
use super::fields::Fields;
use super::schema::Schema;
use crate::error::Invalid;
use crate::fingerprint::Fingerprint;
use crate::ledger::Answer;
use crate::scope::Tenant;
use crate::time::Time;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident $what:literal { $($(#[$line:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$line])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|word| word.as_str() == text)
                    .ok_or_else(|| Invalid::new($what, "is not a word that is known"))
            }
        }
    };
}

words! {
    /// How far a batch is.
    BatchStatus "batch status" {
        /// It waits here to be sent.
        Queued "queued",
        /// The provider has it.
        Submitted "submitted",
        /// The provider is done with it, and its answers are being taken in.
        Collecting "collecting",
        /// Every item has ended.
        Completed "completed",
        /// It was given up; its error says why.
        Failed "failed",
    }
}

impl BatchStatus {
    /// Whether nothing more happens to it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

words! {
    /// How far an item is.
    ItemStatus "item status" {
        /// It waits for an answer.
        Queued "queued",
        /// Somebody else asks the same; it waits for that answer.
        Waiting "waiting",
        /// Its answer is recorded, and was not looked at yet.
        Answered "answered",
        /// Its result is recorded, and with its entry if it has one.
        Completed "completed",
        /// Its entry says something else by now, so the answer is not for it.
        Stale "stale",
        /// Its answer is no result. The answer is kept.
        ParseError "parse_error",
        /// It got no answer.
        Failed "failed",
    }
}

impl ItemStatus {
    /// Whether nothing more happens to it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Waiting | Self::Answered)
    }
}

/// What a model is asked about.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ItemText {
    /// What people call it.
    pub title: Option<String>,
    /// Who wrote it.
    pub author: Option<String>,
    /// What it is.
    pub content_type: Option<String>,
    /// The text.
    pub clean_text: String,
}

impl ItemText {
    /// What a row says.
    #[must_use]
    pub fn of(fields: &Fields) -> Self {
        use super::Column;
        let text = |column| fields.text(column).map(str::to_owned);
        Self {
            title: text(Column::Title),
            author: text(Column::Author),
            content_type: text(Column::ContentType),
            clean_text: text(Column::CleanText).unwrap_or_default(),
        }
    }

    /// The same as columns.
    #[must_use]
    pub fn fields(&self) -> Fields {
        use super::Column;
        let mut fields = Fields::new();
        fields.put(Column::Title, self.title.clone());
        fields.put(Column::Author, self.author.clone());
        fields.put(Column::ContentType, self.content_type.clone());
        fields.put(Column::CleanText, self.clean_text.clone());
        fields
    }

    /// Its fingerprint, as [`enrichable`](super::enrichable) makes it of a row; `None` if there is no text.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        super::enrichable(&self.fields())
    }
}

/// A text to be put into a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewItem {
    /// The text of an entry, for which the result is. The store has the text: a large batch does not hold it.
    OfEntry {
        /// The entry.
        entry_id: i64,
        /// The fingerprint of its text.
        hash: Fingerprint,
    },
    /// A text of no entry. It has a [fingerprint](ItemText::fingerprint).
    Own(ItemText),
}

impl NewItem {
    /// The text of this row; `None` if it has none to enrich.
    #[must_use]
    pub fn of_row(row: &super::Row) -> Option<Self> {
        Some(Self::OfEntry {
            entry_id: row.entry_id,
            hash: super::enrichable(&row.fields)?,
        })
    }
}

/// A batch to be kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewBatch {
    /// The id it gets.
    pub id: Uuid,
    /// How long it may take, such as `24h`.
    pub completion_window: String,
    /// What the caller wants to find again.
    pub metadata: Map<String, Value>,
    /// Its items, at least one and at most [`NewBatch::ITEMS_MAX`].
    pub items: Vec<NewItem>,
}

impl NewBatch {
    /// The most items of a batch: what `LiteLLM` takes.
    pub const ITEMS_MAX: usize = 50_000;
}

/// What the provider calls things.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provider {
    /// Its batch. Opaque, and long.
    pub batch_id: Option<String>,
    /// How far it says the batch is.
    pub status: Option<String>,
    /// The file that was sent.
    pub input_file: Option<String>,
    /// The file with answers.
    pub output_file: Option<String>,
    /// The file with failures.
    pub error_file: Option<String>,
}

/// What changes about a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchState {
    /// How far it is.
    pub status: BatchStatus,
    /// Which sending this is, from 1.
    pub attempt: u32,
    /// How often something failed since it last went on.
    pub failures: u32,
    /// Nothing is done about it before.
    pub next_at: Time,
    /// The model that was asked.
    pub model: Option<String>,
    /// What the provider calls things.
    pub provider: Provider,
    /// What went wrong last.
    pub error: Option<String>,
}

/// A stored batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Its id.
    pub id: Uuid,
    /// Where it is.
    pub schema: Schema,
    /// The import that made it.
    pub import_id: Option<Uuid>,
    /// How long it may take.
    pub completion_window: String,
    /// What the caller wants to find again.
    pub metadata: Map<String, Value>,
    /// How many items it has.
    pub request_count: u64,
    /// How many items are how far.
    pub items: BTreeMap<ItemStatus, u64>,
    /// What changes about it.
    pub state: BatchState,
    /// Raised with every change of the state; a change names the one it saw.
    pub version: i64,
    /// When it was made.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
}

/// A batch that something is to be done about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DueBatch {
    /// Whose.
    pub tenant: Tenant,
    /// Where.
    pub schema: Schema,
    /// Which.
    pub id: Uuid,
    /// How far it is.
    pub status: BatchStatus,
    /// Which sending this is.
    pub attempt: u32,
}

/// A stored item.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// Its number, in the order of the batch.
    pub item_id: i64,
    /// The entry that the result is for.
    pub entry_id: Option<i64>,
    /// The fingerprint of the text that it is about.
    pub hash: Fingerprint,
    /// How far it is.
    pub status: ItemStatus,
    /// The text as it is now, if it was asked for: that of its entry, or its own.
    pub text: Option<ItemText>,
    /// What the model answered.
    pub raw: Option<Arc<str>>,
    /// What was made of it.
    pub result: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// The first sending that brought it no answer.
    pub missed_in: Option<u32>,
    /// When it last changed.
    pub updated_at: Time,
}

/// What comes of wanting to ask something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// It was answered, and that is paid for.
    Paid(Arc<str>),
    /// Nobody else asks it: it is for the one who wants to.
    Ours,
    /// Somebody else asks it now.
    Theirs,
}

/// Which items of a batch are listed, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ItemScan {
    /// Only those that are this far; all if it names none.
    pub status: Option<ItemStatus>,
    /// Only those after this one.
    pub after: Option<i64>,
    /// Whether their texts come along.
    pub with_text: bool,
    /// At most this many, and never more than [`ItemScan::LIMIT_MAX`]. With texts a page also ends after the item that
    /// brings them over [`ItemScan::TEXT_BYTES`].
    pub limit: usize,
}

impl Asked {
    /// The most questions or answers of one call.
    pub const CALL_MAX: usize = 2000;
}

impl ItemScan {
    /// The most items of one page.
    pub const LIMIT_MAX: usize = 500;
    /// How much text one page holds, in bytes, or one item if that is larger.
    pub const TEXT_BYTES: usize = 8 << 20;
}

/// What an item becomes, if it is as far as `from` says. Otherwise it stays.
#[derive(Clone, PartialEq, Debug)]
pub struct ItemChange {
    /// Which.
    pub item_id: i64,
    /// How far it has to be.
    pub from: ItemStatus,
    /// How far it is then.
    pub to: ItemStatus,
    /// What the model answered; `None` leaves what is there.
    pub raw: Option<Arc<str>>,
    /// What was made of it; `None` leaves what is there.
    pub result: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// The sending that brought it no answer; one that is there already stays.
    pub missed_in: Option<u32>,
    /// What its entry says from now on, if its text is still the one that the item is about. If it is not, the item is
    /// [`ItemStatus::Stale`] and the entry stays.
    pub entry: Option<Fields>,
}

/// The store of batches.
///
/// What every store promises, and the conformance suite checks:
/// - A batch and its items are written in one transaction, or not at all.
/// - A change of a batch is written if its version is the one that the caller saw; so two workers cannot both go on.
/// - An item changes once from a given state; its entry changes in the same transaction and by the rule of entries,
///   with the old state kept, and only while its text is the one that was asked about.
/// - An answer that was paid for is kept under what was asked. The first one stays.
/// - What one asker asks, nobody else is told to ask, until it is answered, the asker stops, or its time is over. A batch
///   that ends stops asking in the same transaction.
/// - Both schemas are looked through, whatever the test mode is; neither can keep the other waiting.
pub trait Batches: Send + Sync + 'static {
    /// Keeps a batch. The same id again answers what is there.
    fn add_batch(&self, tenant: Tenant, target: Target, new: NewBatch) -> Answer<'_, Batch>;

    /// The batch with this id, in whichever schema it is.
    fn batch(&self, tenant: Tenant, id: Uuid) -> Answer<'_, Option<Batch>>;

    /// A page of batches, newest first, after the one with this id; of one schema or of both; at most `limit`, never
    /// more than [`ItemScan::LIMIT_MAX`].
    fn batches(
        &self,
        tenant: Tenant,
        schema: Option<Schema>,
        include_terminal: bool,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<'_, Vec<Batch>>;

    /// How many batches of both schemas are not terminal, each schema's counted up to `at_most`.
    fn open_batches(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64>;

    /// Batches of all tenants and both schemas that are not terminal and whose time has come, those that waited longest
    /// first, the schemas in turn; at most `limit`.
    fn due_batches(&self, limit: usize) -> Answer<'_, Vec<DueBatch>>;

    /// Changes the state of a batch if its version is `version`. `None` if it is not, or there is no such batch.
    fn change_batch(
        &self,
        tenant: Tenant,
        schema: Schema,
        id: Uuid,
        version: i64,
        state: BatchState,
    ) -> Answer<'_, Option<Batch>>;

    /// A page of the items of a batch.
    fn batch_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        scan: ItemScan,
    ) -> Answer<'_, Vec<Item>>;

    /// Changes items, all in one transaction; answers how far each is then, `None` for one that is not of this batch.
    /// At most [`ItemScan::LIMIT_MAX`].
    fn settle_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        changes: Vec<ItemChange>,
    ) -> Answer<'_, Vec<Option<ItemStatus>>>;

    /// The answers that were paid for under these keys.
    fn paid_answers(
        &self,
        tenant: Tenant,
        keys: Vec<Fingerprint>,
    ) -> Answer<'_, Vec<Option<Arc<str>>>>;

    /// Has `asker` ask these, for so long. Asking again is answered the same, and begins the time anew. An asker that is
    /// a batch has the batch's id.
    fn ask(
        &self,
        tenant: Tenant,
        asker: Uuid,
        lasting: Duration,
        keys: Vec<Fingerprint>,
    ) -> Answer<'_, Vec<Asked>>;

    /// Has `asker` ask nothing any more.
    fn stop_asking(&self, tenant: Tenant, asker: Uuid) -> Answer<'_, ()>;

    /// Keeps answers under what was asked, which nobody asks then. One that is there stays.
    fn keep_answers(&self, tenant: Tenant, answers: Vec<(Fingerprint, Arc<str>)>)
    -> Answer<'_, ()>;
}
