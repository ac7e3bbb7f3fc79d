//! The seam that stores of entries implement. What a match means is the rule's business, not a store's.

use std::sync::Arc;

use super::column::Column;
use super::draft::{Change, Draft, Refused, Which};
use super::fields::Row;
use super::judge::KeyConflict;
use super::policy::{Policy, PolicyChange};
use super::schema::Schema;
use crate::ledger::Answer;
use crate::scope::Tenant;
use crate::time::Time;

/// Which home is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The one that the stored test mode points at when the work is done, read in the same transaction.
    Active,
    /// This one.
    Pinned(Schema),
}

/// One item of a batch.
#[derive(Clone, PartialEq, Debug)]
pub enum Incoming {
    /// To be inserted.
    Insert(Draft),
    /// To be changed.
    Update(Change),
    /// Refused before it came here; it keeps its place among the answers.
    Refused(Refused),
}

impl Incoming {
    /// The most items of one batch.
    pub const BATCH_MAX: usize = 2000;
}

/// What was done with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It is new.
    Inserted,
    /// It went over the row that was there.
    Updated,
    /// The row that was there stayed.
    Skipped,
}

impl Action {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Updated => "updated",
            Self::Skipped => "skipped",
        }
    }
}

/// An entry that is there now.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// What was done.
    pub action: Action,
    /// The row after it. Items of one batch that met the same state share it.
    pub row: Arc<Row>,
    /// The key by which it met a row.
    pub matched_on: Option<Which>,
    /// The key that belongs to another row and was left out.
    pub conflict: Option<KeyConflict>,
    /// Columns that were named and are not the caller's to say.
    pub ignored: Vec<Column>,
}

/// What became of one item.
#[derive(Clone, PartialEq, Debug)]
pub enum Done {
    /// It is kept.
    Kept(Box<Kept>),
    /// It was refused.
    Refused(Refused),
    /// The row that it names is not there.
    Missing,
}

/// What became of a batch.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    /// Where it went.
    pub schema: Schema,
    /// Whether anything of it was kept: not, if it was all or nothing and an item had a fault.
    pub kept: bool,
    /// The answers, in the order of the items.
    pub done: Vec<Done>,
}

/// In which order found entries come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Those that match best first.
    Best,
    /// The newest first.
    Newest,
}

/// Which entries are looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Search {
    /// Words that all have to be in the title, the author or the clean text. It is plain text: no character of it is an
    /// operator. Without a word in it nothing is found; `None` finds everything.
    pub words: Option<String>,
    /// Only of this source.
    pub source: Option<String>,
    /// Inserted at this time or after.
    pub since: Option<Time>,
    /// Only those that come after the entry inserted then with this number, newest first. It has no meaning where the
    /// order is another.
    pub before: Option<(Time, i64)>,
    /// The order.
    pub sort: Sort,
    /// At most this many, and never more than [`Search::LIMIT_MAX`].
    pub limit: usize,
}

impl Search {
    /// The most entries of one answer.
    pub const LIMIT_MAX: usize = 500;
    /// How much of a clean text can be found by its words, in characters.
    pub const SEARCHED_CHARS: usize = 100_000;
}

/// What to do with the test mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TestMode {
    /// Turn it on or off.
    Set(bool),
    /// Turn it into the other.
    Toggle,
}

/// The store of entries and their policies.
///
/// What every store promises, and the conformance suite checks:
/// - One row per policy and key, however many insert it at once; one of them is told `inserted`.
/// - A batch is judged by [`Plan`](super::Plan) against rows that nobody else changes until it is written, in one
///   transaction. It is written whole, or not at all if the store fails.
/// - A number is given to a row that is inserted, and to nothing else; the numbers of one schema and tenant rise.
/// - Every state that is replaced is kept.
/// - The test mode is read in the transaction that writes. A missing one is off.
/// - A schema and a tenant never see another's entries or policies.
pub trait Catalog: Send + Sync + 'static {
    /// Inserts and changes entries; the answers are in the order of the items. At most [`Incoming::BATCH_MAX`]. With
    /// `all_or_nothing` a fault in one item leaves nothing of the batch.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind) when nothing was written, [`Kind::OutcomeUnknown`](crate::Kind) when the whole
    /// batch may have been: sending keyed entries again is harmless.
    fn write_entries(
        &self,
        tenant: Tenant,
        target: Target,
        batch: Vec<Incoming>,
        all_or_nothing: bool,
    ) -> Answer<'_, Written>;

    /// The entry with this number.
    fn entry(&self, tenant: Tenant, target: Target, entry_id: i64) -> Answer<'_, Option<Row>>;

    /// Entries by their words and age.
    fn search_entries(
        &self,
        tenant: Tenant,
        target: Target,
        search: Search,
    ) -> Answer<'_, Vec<Row>>;

    /// The states of an entry that were replaced, newest first, before this revision, at most `limit` and never more
    /// than [`Search::LIMIT_MAX`]. `updated_at` is when the state began.
    fn entry_revisions(
        &self,
        tenant: Tenant,
        target: Target,
        entry_id: i64,
        before: Option<u32>,
        limit: usize,
    ) -> Answer<'_, Vec<Row>>;

    /// The policies of a schema, by name. A tenant's first look writes the seed policies for it.
    fn policies(&self, tenant: Tenant, target: Target) -> Answer<'_, Vec<Policy>>;

    /// Changes a policy, or adds it. It was [checked](PolicyChange::check).
    fn set_policy(
        &self,
        tenant: Tenant,
        target: Target,
        key: String,
        change: PolicyChange,
    ) -> Answer<'_, Policy>;

    /// Removes a policy; false if there is none of this name. What was kept under it stays. A tenant that has none left
    /// gets the seeds again at its next look.
    fn remove_policy(&self, tenant: Tenant, target: Target, key: String) -> Answer<'_, bool>;

    /// Whether the test mode is on, as it is stored.
    fn test_mode(&self, tenant: Tenant) -> Answer<'_, bool>;

    /// Changes the test mode; answers what it is then. Toggles at once do not lose each other.
    fn change_test_mode(&self, tenant: Tenant, mode: TestMode) -> Answer<'_, bool>;
}
