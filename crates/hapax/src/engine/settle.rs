//! The end of a lease: recorded, given back, or in doubt. Each is one compare-and-set, tried again while
//! the store is away for a moment.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Doubt, Error, Lease, Move, Outcome, Receipt, Record, State, Swap};

use super::Engine;

/// How often a write that ends a lease is tried while the store is away.
const TRIES_MAX: u32 = 6;
/// The pause after the first failed try; it doubles.
const PAUSE: Duration = Duration::from_millis(20);

/// What became of a settle.
#[derive(Debug)]
pub enum Settled {
    /// The outcome is recorded, durably, and this is its receipt.
    Recorded(Receipt),
    /// Somebody else has the key now, and what is stored stays as it is: this. After a failure of the store one of several
    /// tries may have been written before that, and was followed by others.
    Lost(Option<Box<Record>>),
}

/// What became of the last write of a lease.
enum Ended {
    Written(Arc<Record>),
    Lost(Option<Box<Record>>),
}

impl Engine {
    /// Records the outcome once. If the lease was lost, nothing is written.
    ///
    /// # Errors
    /// When the ledger could not record it, after a few tries. The key stays held until the lease runs
    /// out; then its policy decides.
    pub async fn settle(&self, lease: Lease, outcome: Outcome) -> Result<Settled, Error> {
        let purges = self.ledger.purges_lately();
        let ended = self
            .end(lease, |lease, engine| {
                lease.settle(outcome.clone(), engine.ledger.now())
            })
            .await?;
        let record = match ended {
            Ended::Written(record) => record,
            Ended::Lost(stored) => return Ok(Settled::Lost(stored)),
        };
        let State::Settled { outcome, at } = &record.state else {
            return Ok(Settled::Lost(Some(Box::new((*record).clone()))));
        };
        let receipt = Receipt {
            id: record.id,
            outcome: outcome.clone(),
            settled_at: *at,
            expires_at: record.expires_at,
            replayed: false,
        };
        self.remember(&record, purges);
        self.waiting.wake(record.id);
        Ok(Settled::Recorded(receipt))
    }

    /// Gives the key back, so that the next claim runs as new. Returns false if the lease was lost.
    ///
    /// # Errors
    /// When the ledger could not record it; the key is then free when the lease runs out.
    pub async fn release(&self, lease: Lease) -> Result<bool, Error> {
        let id = lease.id();
        let ended = self
            .end(lease, |lease, engine| lease.release(engine.ledger.now()))
            .await?;
        self.waiting.wake(id);
        Ok(matches!(ended, Ended::Written(_)))
    }

    /// Says that it may have happened. Returns false if the lease was lost.
    ///
    /// # Errors
    /// When the ledger could not record it; the key is then in doubt when the lease runs out.
    pub async fn doubt(&self, lease: Lease, reason: Doubt) -> Result<bool, Error> {
        let id = lease.id();
        let ended = self.end(lease, |lease, _| lease.doubt(reason)).await?;
        self.waiting.wake(id);
        Ok(matches!(ended, Ended::Written(_)))
    }

    /// Says that it may have happened, and that nobody runs it again before a person decides, whatever the policy says of a
    /// lost lease. Returns false if the lease was lost.
    ///
    /// # Errors
    /// When the ledger could not record it; the policy decides when the lease runs out.
    pub async fn hold_in_doubt(&self, lease: Lease, reason: Doubt) -> Result<bool, Error> {
        let id = lease.id();
        let ended = self
            .end(lease, |lease, _| lease.hold_in_doubt(reason))
            .await?;
        self.waiting.wake(id);
        Ok(matches!(ended, Ended::Written(_)))
    }

    /// Extends the lease from now. Returns false if it was lost: stop acting.
    ///
    /// # Errors
    /// When the ledger could not say.
    pub async fn renew(&self, lease: &mut Lease) -> Result<bool, Error> {
        let step = lease.renewal(self.ledger.now());
        let next = step.next.clone();
        match self.swap(step, "renewing the lease").await? {
            Swap::Written => Ok(lease.renewed(next)),
            // An earlier beat whose answer got lost did arrive: take over what it wrote.
            Swap::Stale(Some(stored)) => Ok(lease.renewed(*stored)),
            Swap::Stale(None) => Ok(false),
        }
    }

    /// Writes the last move of a lease. A transient failure is tried again; a try whose answer got lost
    /// is recognised by what it wrote.
    async fn end(
        &self,
        lease: Lease,
        step: impl Fn(Lease, &Engine) -> Move,
    ) -> Result<Ended, Error> {
        let (epoch, owner) = (lease.epoch(), lease.owner());
        let mut record = lease.shared();
        let mut pause = PAUSE;
        let mut tried: Option<Arc<Record>> = None;
        for attempt in 1.. {
            let Some(lease) = Lease::of(record.clone(), epoch, owner) else {
                return Ok(Ended::Lost(Some(Box::new((*record).clone()))));
            };
            let write = step(lease, self);
            let next = write.next.clone();
            match self.swap(write, "ending the lease").await {
                Ok(Swap::Written) => return Ok(Ended::Written(next)),
                Ok(Swap::Stale(Some(stored)))
                    if tried.as_ref().is_some_and(|tried| same_end(tried, &stored)) =>
                {
                    return Ok(Ended::Written(Arc::from(stored)));
                }
                Ok(Swap::Stale(Some(stored)))
                    if Lease::of((*stored).clone(), epoch, owner).is_some()
                        && attempt < TRIES_MAX =>
                {
                    record = Arc::from(stored);
                }
                Ok(Swap::Stale(stored)) => return Ok(Ended::Lost(stored)),
                Err(error) if error.is_transient() && attempt < TRIES_MAX => {
                    tracing::warn!(id = %next.id, %error, attempt, "the end of a lease was not recorded; trying again");
                    tried = Some(next);
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }
}

/// Whether `stored` is what an earlier try wrote: the same version, and the same end.
fn same_end(tried: &Record, stored: &Record) -> bool {
    if tried.version != stored.version {
        return false;
    }
    match (&tried.state, &stored.state) {
        (
            State::Settled { outcome: ours, .. },
            State::Settled {
                outcome: theirs, ..
            },
        ) => ours == theirs,
        (ours, theirs) => ours == theirs,
    }
}
