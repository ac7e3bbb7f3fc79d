//! What a claim and a settle get inside a caller's own transaction, the same for every SQL store.
//! How they are made is each store's business: `SqliteLedger::within`, `PgLedger::within`.

use std::sync::Arc;

use hapax_core::{Cause, Doubt, Lease, Outcome, Record, Swap, Time};

/// What a claim within a transaction gets.
#[derive(Debug)]
#[must_use = "only a granted claim may act"]
pub enum Claimed {
    /// Act in this transaction, then settle the lease in it.
    Granted(Box<Lease>, Cause),
    /// It happened: this is what came of it.
    Replay(Arc<Outcome>),
    /// Somebody acts under the key until this time.
    Busy(Time),
    /// The key stands for another request, or for another principal's.
    Conflict(Box<Record>),
    /// It may have happened. Nobody may run it again without a person.
    Lost(Doubt),
    /// It was used, and what was stored under it is erased.
    Erased,
}

/// What a settle within a transaction gets.
#[derive(Debug)]
#[must_use = "a transaction whose lease was lost must be rolled back"]
pub enum Settled {
    /// The outcome is recorded, if the transaction commits.
    Recorded,
    /// The lease was lost, so nothing is recorded: roll back. This is what is stored.
    LeaseLost(Option<Box<Record>>),
}

impl From<Swap> for Settled {
    fn from(swap: Swap) -> Self {
        match swap {
            Swap::Written => Settled::Recorded,
            Swap::Stale(stored) => Settled::LeaseLost(stored),
        }
    }
}
