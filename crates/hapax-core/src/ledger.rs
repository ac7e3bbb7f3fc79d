//! The seam that stores implement: a compare-and-set over records. It decides nothing.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::chore::Chore;
use crate::error::Error;
use crate::fingerprint::Subject;
use crate::key::Key;
use crate::note::{Note, NotePage, NoteScan};
use crate::record::{Record, RecordId, State, Version};
use crate::scope::{Scope, Space, Tenant};
use crate::time::Time;

/// What a ledger method returns: a boxed future, so that `dyn Ledger` works everywhere.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Who is told that the lease on a record ended, wherever it ended. Called often, so it must not block.
pub type Wake = Arc<dyn Fn(RecordId) + Send + Sync>;

/// One write: put `next` in place if the stored version is still the expected one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The version that must be stored, or `None` if nothing may be stored.
    pub expect: Option<Version>,
    /// The record to write. Whoever moves it may keep it too, without a copy.
    pub next: Arc<Record>,
    /// Whether a settled outcome is taken back by this, so that caches must forget it.
    pub purges: bool,
    /// Whether every column is written: the end of the record's time moves with it, which settling otherwise leaves alone,
    /// or the same is to be stored anew.
    pub extends: bool,
    /// Whether it may be lost with the power, as long as everything else that it must do is done: nobody outside of this
    /// process is told of it before a later move of the same record, which is not provisional. A ledger may ignore it.
    pub provisional: bool,
    /// What the audit trail says of it, written in the same transaction and only if the move is.
    pub note: Option<Box<Note>>,
}

/// Which columns a move touches, so that a store need not rewrite what did not change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Write {
    /// A new row.
    Insert,
    /// Version and lease end only.
    Renew,
    /// Version, state, outcome and the time it was recorded; the request stays as it is.
    Settle,
    /// Every column but the id, the scope and the key.
    Replace,
}

impl Move {
    /// The move that writes `next` where nothing is stored.
    #[must_use]
    pub fn inserting(next: impl Into<Arc<Record>>) -> Self {
        Self {
            expect: None,
            next: next.into(),
            purges: false,
            extends: false,
            provisional: false,
            note: None,
        }
    }

    /// The move from `seen` to `next`.
    #[must_use]
    pub fn replacing(seen: &Record, next: impl Into<Arc<Record>>) -> Self {
        let next = next.into();
        let purges = matches!(seen.state, State::Settled { .. });
        let extends = seen.expires_at != next.expires_at;
        Self {
            expect: Some(seen.version),
            next,
            purges,
            extends,
            provisional: false,
            note: None,
        }
    }

    /// The move that stores what was seen once more, every column of it, and changes nothing but the version.
    #[must_use]
    pub fn rewriting(seen: &Record) -> Self {
        let next = Record {
            version: seen.version.next(),
            ..seen.clone()
        };
        Self {
            purges: false,
            extends: true,
            ..Self::replacing(seen, next)
        }
    }

    /// The same move with a note that is written in its transaction, and only if the move is.
    #[must_use]
    pub fn noted(mut self, note: Note) -> Self {
        self.note = Some(Box::new(note));
        self
    }

    /// The same move, which may be lost with the power: see [`Move::provisional`].
    #[must_use]
    pub fn provisionally(mut self) -> Self {
        self.provisional = true;
        self
    }

    /// Whether this ends a lease, so that those who wait for the key should look again.
    #[must_use]
    pub fn ends(&self) -> bool {
        self.expect.is_some() && !matches!(self.next.state, State::Held(_))
    }

    /// The move to `next` from what was seen.
    #[must_use]
    pub fn from_seen(seen: Option<&Record>, next: impl Into<Arc<Record>>) -> Self {
        match seen {
            Some(seen) => Self::replacing(seen, next),
            None => Self::inserting(next),
        }
    }

    /// Which columns this move touches.
    #[must_use]
    pub fn write(&self) -> Write {
        match (&self.expect, &self.next.state) {
            (None, _) => Write::Insert,
            (Some(_), State::Settled { .. }) if !self.extends => Write::Settle,
            (Some(_), State::Held(hold)) if hold.epoch.0 != self.next.version && !self.extends => {
                Write::Renew
            }
            (
                Some(_),
                State::Held(_)
                | State::InDoubt { .. }
                | State::Settled { .. }
                | State::Free
                | State::Expired
                | State::Erased,
            ) => Write::Replace,
        }
    }
}

/// What became of a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Swap {
    /// The record is written, as durably as the ledger promises; a provisional move at least so that every process sees it.
    Written,
    /// Somebody was first: this is what is stored now.
    Stale(Option<Box<Record>>),
}

/// How much of what a ledger acknowledged survives. Shown in `/health`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Survives kill -9 and power loss.
    Full,
    /// Survives kill -9; power loss may take the last moments.
    Relaxed,
    /// May be lost on failover.
    BestEffort,
    /// Gone with the process.
    Process,
}

impl Durability {
    /// The word used in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Durability::Full => "full",
            Durability::Relaxed => "relaxed",
            Durability::BestEffort => "best_effort",
            Durability::Process => "process",
        }
    }
}

/// What a ledger does beside claims. What it does not do it refuses with [`Kind::Unsupported`](crate::Kind).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// It lists and counts records: [`Ledger::scan`] and [`Ledger::doubts`].
    pub lists: bool,
    /// It keeps the audit trail: notes on moves, [`Ledger::note`] and [`Ledger::notes`].
    pub audits: bool,
}

impl Capabilities {
    /// Everything.
    pub const ALL: Self = Self {
        lists: true,
        audits: true,
    };
}

/// Which records a scan lists, newest first. Freed and swept records are not listed.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Whose records.
    pub tenant: Tenant,
    /// Only this space.
    pub space: Option<Space>,
    /// Only this state, by its word.
    pub state: Option<&'static str>,
    /// Only about this subject.
    pub subject: Option<Subject>,
    /// Only keys that begin like this, byte for byte. It has no meaning beside a subject.
    pub prefix: Option<Key>,
    /// Only records after this one in the list, as a page's `next` gave it.
    pub after: Option<(Time, RecordId)>,
    /// At most this many, and never more than [`Scan::LIMIT_MAX`].
    pub limit: usize,
    /// How many records are looked at for one page, whether they are listed or not.
    pub looks_at: usize,
}

impl Scan {
    /// The most records on one page.
    pub const LIMIT_MAX: usize = 500;
    /// How many records are looked at for one page unless somebody says otherwise.
    pub const LOOKS_AT: usize = 20_000;

    /// Everything of `tenant`, 50 to a page.
    #[must_use]
    pub fn of(tenant: Tenant) -> Self {
        Self {
            tenant,
            space: None,
            state: None,
            subject: None,
            prefix: None,
            after: None,
            limit: 50,
            looks_at: Self::LOOKS_AT,
        }
    }
}

/// One page of a scan. No more than [`Scan::looks_at`] records were looked at for it: it may hold few, or none, and
/// still not be the last.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The records, newest first.
    pub records: Vec<Record>,
    /// Where the next page begins, if there is one.
    pub next: Option<(Time, RecordId)>,
}

/// One bounded step of cleaning up, for all tenants.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// At most this many records in this step, and never more than [`Sweep::LIMIT_MAX`].
    pub limit: usize,
    /// How long a swept record is remembered, so that the next claim is told it had expired.
    pub grace: Duration,
    /// How long notes are kept in the audit trail.
    pub audit_keep: Duration,
}

impl Sweep {
    /// The most records one step touches.
    pub const LIMIT_MAX: usize = 10_000;
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            limit: 1000,
            grace: Duration::from_secs(86_400),
            audit_keep: Duration::from_secs(30 * 86_400),
        }
    }
}

/// What a sweep step did. A step that did nothing ends the sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Expired records whose content was removed.
    pub expired: usize,
    /// Given-back records whose time is over; they held no content.
    pub retired: usize,
    /// Records forgotten altogether after their grace.
    pub forgotten: usize,
    /// Notes removed from the audit trail after their time.
    pub notes: usize,
}

/// The store of claims: a compare-and-set over records, batch first.
///
/// What every ledger promises, and the conformance suite checks:
/// - `swap` writes each move whose record still has the expected version and answers
///   [`Swap::Written`] only when it is as durable as [`Ledger::durability`] says. Moves are
///   independent of each other; one move is all or nothing, payload included.
/// - Any other move writes nothing and answers what is stored.
/// - Nothing of one tenant is visible to, or changed through, a scope of another.
/// - `now` is the ledger's own clock. Leases and expiry follow it and no other.
///
/// A complete toy store, good for a test:
///
/// ```
/// use std::{collections::HashMap, sync::{Arc, Mutex}};
/// use hapax_core::*;
///
/// #[derive(Default)]
/// struct Toy(Mutex<HashMap<RecordId, Record>>);
///
/// impl Ledger for Toy {
///     fn name(&self) -> &'static str { "toy" }
///     fn durability(&self) -> Durability { Durability::Process }
///     fn now(&self) -> Time { std::time::SystemTime::now().into() }
///     fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
///         let mut rows = self.0.lock().expect("no panic while held");
///         let swaps = moves.into_iter().map(|step| {
///             let stored = rows.get(&step.next.id);
///             if stored.map(|record| record.version) != step.expect {
///                 return Swap::Stale(stored.cloned().map(Box::new));
///             }
///             rows.insert(step.next.id, Arc::unwrap_or_clone(step.next));
///             Swap::Written
///         }).collect();
///         Box::pin(std::future::ready(Ok(swaps)))
///     }
///     fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
///         let found = self.0.lock().expect("no panic while held").get(&id).cloned();
///         Box::pin(std::future::ready(Ok(found.filter(|record| record.scope.tenant == tenant))))
///     }
///     fn scan(&self, _: Scan) -> Answer<'_, Page> {
///         Box::pin(std::future::ready(Ok(Page::default())))
///     }
///     fn sweep(&self, _: Sweep) -> Answer<'_, Swept> {
///         Box::pin(std::future::ready(Ok(Swept::default())))
///     }
///     fn check(&self) -> Answer<'_, ()> { Box::pin(std::future::ready(Ok(()))) }
/// }
///
/// let toy: Box<dyn Ledger> = Box::new(Toy::default());
/// assert_eq!(toy.durability().as_str(), "process");
/// ```
pub trait Ledger: Send + Sync + 'static {
    /// The store's name, for `/health` and metrics.
    fn name(&self) -> &'static str;

    /// How much of what is acknowledged survives.
    fn durability(&self) -> Durability;

    /// Whether it seals what requests and answers hold. Notes are not sealed, so they then tell nothing of a body.
    fn seals(&self) -> bool {
        false
    }

    /// What it does beside claims.
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    /// The ledger's clock. Cheap, and never earlier than a time the same ledger gave before it by more
    /// than the precision of its clock.
    fn now(&self) -> Time;

    /// Writes each move whose record has the expected version; answers in the order of the moves.
    ///
    /// Dropping the future does not take a write back.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind) when nothing was written,
    /// [`Kind::OutcomeUnknown`](crate::Kind) when any of the moves may have been.
    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>>;

    /// The record with this id, if it is this tenant's.
    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>>;

    /// A page of records, newest first.
    fn scan(&self, scan: Scan) -> Answer<'_, Page>;

    /// The spaces in which a tenant has records, swept ones included, in order and at most `limit` of them. With them a key
    /// is found whose space nobody knows. A ledger that cannot tell lists its newest records, and takes theirs.
    fn spaces(&self, tenant: Tenant, limit: usize) -> Answer<'_, Vec<Space>> {
        let newest = Scan {
            limit: Scan::LIMIT_MAX,
            ..Scan::of(tenant)
        };
        Box::pin(async move {
            let records = self.scan(newest).await?.records.into_iter();
            let spaces: BTreeSet<Space> = records.map(|record| record.scope.space).collect();
            Ok(spaces.into_iter().take(limit).collect())
        })
    }

    /// How many of the newest `looks_at` records of a tenant are in doubt. A ledger that cannot count lists them, and
    /// counts no further than a page.
    fn doubts(&self, tenant: Tenant, looks_at: usize) -> Answer<'_, u64> {
        let scan = Scan {
            state: Some("in_doubt"),
            limit: Scan::LIMIT_MAX,
            looks_at,
            ..Scan::of(tenant)
        };
        Box::pin(async move { Ok(self.scan(scan).await?.records.len() as u64) })
    }

    /// One bounded step of cleaning up: removes the content of expired records, and forgets records
    /// whose grace is over. A record with a live lease, or in doubt under `hold`, is never touched.
    ///
    /// Notes one [`Action::Cleanup`](crate::Action) per tenant whose records it touched, in the same
    /// transaction, and removes notes that are older than `audit_keep`.
    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept>;

    /// Whether the ledger takes writes now.
    fn check(&self) -> Answer<'_, ()>;

    /// Adds these notes to the audit trail, for answers that change no record.
    ///
    /// All or none are written. After an error a caller who tries again may write them twice.
    fn note(&self, notes: Vec<Note>) -> Answer<'_, ()> {
        drop(notes);
        Box::pin(std::future::ready(Ok(())))
    }

    /// A page of the audit trail, newest first.
    fn notes(&self, _scan: NoteScan) -> Answer<'_, NotePage> {
        Box::pin(std::future::ready(Ok(NotePage::default())))
    }

    /// Has `wake` called when a lease ends through another handle on the same store, on any node, as far as
    /// the ledger can tell. A call is a hint: some may be missing, so every wait needs a poll behind it.
    fn subscribe(&self, wake: Wake) {
        drop(wake);
    }

    /// A number that differs whenever anyone, in any process, took back a settled outcome in between.
    /// `None` when the ledger cannot tell: then nothing may be answered from a cache.
    fn purges(&self) -> Option<u64> {
        None
    }

    /// The same number as it was a moment ago, for less. What is read from the ledger after this may be kept under it: if
    /// the number has moved on in between, what is kept is not found, and that is all.
    fn purges_lately(&self) -> Option<u64> {
        self.purges()
    }

    /// A name of this store's own that no other store has, for what is kept of it elsewhere. `None` when it has none:
    /// then nothing of it may be kept where another store's things are.
    fn identity(&self) -> Answer<'_, Option<uuid::Uuid>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether this process is the one that does `chore`, of all that share the store, as far as it knew a moment ago.
    /// Whoever asks wants to do it: from then on the ledger tries to become the one, and another one's end is noticed
    /// within seconds.
    ///
    /// That saves work and guards nothing. Two may be told so for a moment, and a chore must be safe when two do it.
    /// A store that has no way to tell says yes to everybody.
    fn leads(&self, _chore: Chore) -> bool {
        true
    }

    /// Stops background work and waits for it. The ledger answers [`Kind::Unavailable`](crate::Kind) afterwards.
    fn close(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The record of `key` in `scope`, checked to be theirs.
///
/// # Errors
/// Whatever [`Ledger::find`] answers, and [`Kind::Corrupt`](crate::Kind) if another key has the same id.
pub async fn find(ledger: &dyn Ledger, scope: &Scope, key: &Key) -> Result<Option<Record>, Error> {
    match ledger.find(scope.tenant, RecordId::of(scope, key)).await? {
        Some(record) if record.scope != *scope || record.key != *key => {
            Err(Error::new(crate::Kind::Corrupt, "finding the record")
                .because("two keys share one id"))
        }
        found => Ok(found),
    }
}
