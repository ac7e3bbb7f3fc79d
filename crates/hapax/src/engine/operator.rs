//! What a person may do to a key: delete, settle, release and erase it. Each is one compare-and-set, with a note of who
//! said so in the same transaction. Whether a word stands, [`hapax_core::overrule()`] decides.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{
    Action, Error, Kind, Move, Note, Outcome, Receipt, Record, RecordId, Ruling, Scan, State,
    Subject, Swap, Tenant, Time, overrule,
};

use super::{Engine, ROUNDS_MAX, replayed};

/// How many records of a subject are erased in one write.
const ERASED_AT_ONCE: usize = 100;

/// What became of an operator's settle or release.
#[derive(Debug)]
#[must_use = "an operator's word may be refused"]
pub enum Ruled {
    /// The outcome is recorded; retries are answered with it.
    Recorded(Receipt),
    /// The key is given back; the next claim runs as new. This is what was stored.
    Released(Box<Record>),
    /// Refused: somebody acts under the key for at most this long.
    Held(Duration),
    /// Refused: it is settled already, with this.
    Settled(Receipt),
    /// Refused: its content was erased.
    Erased,
    /// There is no record that answers for its key.
    Absent,
}

impl Engine {
    /// Takes back whatever is stored under `id`, on an operator's word: the next claim runs as new.
    /// Returns what was there; nothing if there was no record that answers for its key.
    ///
    /// # Errors
    /// When the ledger could not say.
    pub async fn delete(
        &self,
        tenant: Tenant,
        id: RecordId,
        actor: &str,
    ) -> Result<Option<Record>, Error> {
        let change = |record: &Record, now| Some(record.freed(now));
        self.change(tenant, id, actor, Action::Deleted, change)
            .await
            .map(|found| found.map(|(seen, _)| seen))
    }

    /// Removes what is stored under `id` and leaves a mark: until the record's time is over every claim is told that it
    /// was erased, and none runs. A holder at work cannot settle any more. Erasing twice changes nothing.
    /// Returns the record as it is now; nothing if there was no record that answers for its key.
    ///
    /// # Errors
    /// When the ledger could not say.
    pub async fn erase(
        &self,
        tenant: Tenant,
        id: RecordId,
        actor: &str,
    ) -> Result<Option<Record>, Error> {
        let change = |record: &Record, now| match record.state {
            State::Erased => None,
            State::Held(_)
            | State::InDoubt { .. }
            | State::Settled { .. }
            | State::Free
            | State::Expired => Some(record.erased(now)),
        };
        self.change(tenant, id, actor, Action::Erased, change)
            .await
            .map(|found| found.map(|(_, next)| next))
    }

    /// Erases every record about `subject`, as [`Engine::erase`] does. Returns how many were erased now.
    ///
    /// What is claimed about the subject while this runs may be missed: stop that first.
    ///
    /// # Errors
    /// When the ledger could not say; what was erased before stays erased.
    pub async fn erase_subject(
        &self,
        tenant: Tenant,
        subject: Subject,
        actor: &str,
    ) -> Result<usize, Error> {
        let mut scan = Scan {
            subject: Some(subject),
            limit: ERASED_AT_ONCE,
            ..Scan::of(tenant)
        };
        let mut erased = 0;
        loop {
            let page = self.ledger.scan(scan.clone()).await?;
            erased += self.erase_all(tenant, page.records, actor).await?;
            match page.next {
                Some(next) => scan.after = Some(next),
                None => return Ok(erased),
            }
        }
    }

    async fn erase_all(
        &self,
        tenant: Tenant,
        records: Vec<Record>,
        actor: &str,
    ) -> Result<usize, Error> {
        if records.is_empty() {
            return Ok(0);
        }
        let now = self.ledger.now();
        let ids: Vec<RecordId> = records.iter().map(|record| record.id).collect();
        let moves = records.iter().map(|record| {
            let note = note(record, now, Action::Erased, actor);
            Move::replacing(record, record.erased(now)).noted(note)
        });
        let swaps = self.ledger.swap(moves.collect()).await?;
        let mut erased = 0;
        for (id, swap) in ids.into_iter().zip(swaps) {
            let is_erased = match swap {
                Swap::Written => true,
                Swap::Stale(_) => self.erase(tenant, id, actor).await?.is_some(),
            };
            self.forget(tenant, id);
            erased += usize::from(is_erased);
        }
        Ok(erased)
    }

    /// Records what happened under `id`, on an operator's word, where nobody else can say: the record is in doubt, or its
    /// holder's lease ran out. A live holder is not pushed aside, and what is settled stays so.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use hapax::core::{Claim, Doubt, Fingerprint, Key, OnLost, Outcome, Policy, Scope, Tenant};
    /// use hapax::{Claimed, Engine, Ruled, store::MemoryLedger};
    ///
    /// let engine = Engine::new(std::sync::Arc::new(MemoryLedger::new()));
    /// let scope = Scope::new(Tenant::DEFAULT, "transfer")?;
    /// let hold = Policy { on_lost: OnLost::Hold, ..Policy::default() };
    /// let claim = Claim::new(scope, Key::new("t-1")?, Fingerprint::of(b"10 EUR"), Engine::owner()).with_policy(hold);
    /// let Claimed::Granted(lease, _) = engine.claim(claim.clone()).await? else { unreachable!() };
    ///
    /// // The refusal: its holder is alive.
    /// let done = Outcome::text(200, "the bank says it went through");
    /// let ruled = engine.settle_by_operator(Tenant::DEFAULT, claim.id(), done.clone(), "ann").await?;
    /// assert!(matches!(ruled, Ruled::Held(_)));
    ///
    /// engine.doubt(lease, Doubt::OutcomeUnknown).await?;
    /// let ruled = engine.settle_by_operator(Tenant::DEFAULT, claim.id(), done, "ann").await?;
    /// assert!(matches!(ruled, Ruled::Recorded(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the ledger could not say.
    pub async fn settle_by_operator(
        &self,
        tenant: Tenant,
        id: RecordId,
        outcome: Outcome,
        actor: &str,
    ) -> Result<Ruled, Error> {
        let word = |record: &Record, now| {
            let note = Note::of(record, now, Action::Settled).by(actor).saying([
                ("key", record.key.as_str().into()),
                ("status", outcome.status.into()),
            ]);
            Move::replacing(record, record.ruled(outcome.clone(), now)).noted(note)
        };
        self.rule(tenant, id, word).await
    }

    /// Gives the key back on an operator's word, so that the next claim runs as new; where [`Engine::settle_by_operator`]
    /// may settle, and nowhere else.
    ///
    /// # Errors
    /// When the ledger could not say.
    pub async fn release_by_operator(
        &self,
        tenant: Tenant,
        id: RecordId,
        actor: &str,
    ) -> Result<Ruled, Error> {
        let word = |record: &Record, now| {
            let note = note(record, now, Action::Released, actor);
            Move::replacing(record, record.freed(now)).noted(note)
        };
        self.rule(tenant, id, word).await
    }

    /// Looks, asks the rule, and writes `word` if it stands.
    async fn rule(
        &self,
        tenant: Tenant,
        id: RecordId,
        word: impl Fn(&Record, Time) -> Move,
    ) -> Result<Ruled, Error> {
        let mut seen = self.ledger.find(tenant, id).await?;
        for _ in 0..ROUNDS_MAX {
            let now = self.ledger.now();
            let record = match overrule(seen.as_ref(), now) {
                Ruling::Stands(record) => record,
                Ruling::Held(until) => return Ok(Ruled::Held(until.since(now))),
                Ruling::Settled(outcome, _) => {
                    let receipt = seen.as_ref().map(|record| replayed(record, outcome));
                    return Ok(receipt.map_or(Ruled::Absent, Ruled::Settled));
                }
                Ruling::Erased => return Ok(Ruled::Erased),
                Ruling::Absent => return Ok(Ruled::Absent),
            };
            let step = word(record, now);
            let next = step.next.clone();
            match self.swap(step, "ruling on the key").await? {
                Swap::Written => {
                    self.forget(tenant, id);
                    return Ok(match &next.state {
                        State::Settled { outcome, .. } => Ruled::Recorded(Receipt {
                            replayed: false,
                            ..replayed(&next, &Arc::clone(outcome))
                        }),
                        State::Held(_)
                        | State::InDoubt { .. }
                        | State::Free
                        | State::Expired
                        | State::Erased => Ruled::Released(Box::new(record.clone())),
                    });
                }
                Swap::Stale(stored) => seen = stored.map(|record| *record),
            }
        }
        Err(overtaken())
    }

    /// Replaces a record that answers for its key by what `change` makes of it. Returns both; they are the same where
    /// there is nothing to change.
    async fn change(
        &self,
        tenant: Tenant,
        id: RecordId,
        actor: &str,
        action: Action,
        change: impl Fn(&Record, Time) -> Option<Record>,
    ) -> Result<Option<(Record, Record)>, Error> {
        let mut seen = self.ledger.find(tenant, id).await?;
        for _ in 0..ROUNDS_MAX {
            let Some(record) = seen.filter(answers) else {
                return Ok(None);
            };
            let now = self.ledger.now();
            let Some(next) = change(&record, now) else {
                return Ok(Some((record.clone(), record)));
            };
            let step =
                Move::replacing(&record, next.clone()).noted(note(&record, now, action, actor));
            match self.swap(step, "changing the key").await? {
                Swap::Written => {
                    self.forget(tenant, id);
                    return Ok(Some((record, next)));
                }
                Swap::Stale(stored) => seen = stored.map(|record| *record),
            }
        }
        Err(overtaken())
    }

    /// Makes everyone in this process look at the record again. The shared cache is told too, for what was erased should
    /// not lie there; that it does not answer any more needs no telling.
    fn forget(&self, tenant: Tenant, id: RecordId) {
        self.cache.remove(id);
        if let Some(shared) = &self.shared {
            shared.forget(tenant, id);
        }
        self.waiting.wake(id);
    }
}

fn note(record: &Record, at: Time, action: Action, actor: &str) -> Note {
    Note::of(record, at, action).by(actor).saying([
        ("key", record.key.as_str().into()),
        ("state", record.state.as_str().into()),
    ])
}

fn overtaken() -> Error {
    Error::new(Kind::Unavailable, "changing the key").because("too many others change it")
}

/// Whether a record still answers for its key; freed and swept ones do not exist for anyone.
fn answers(record: &Record) -> bool {
    match record.state {
        State::Held(_) | State::InDoubt { .. } | State::Settled { .. } | State::Erased => true,
        State::Free | State::Expired => false,
    }
}
