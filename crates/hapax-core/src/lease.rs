//! The right to act under a key until a time. It does not renew itself: the engine's heartbeat does.

use std::fmt;
use std::sync::Arc;

use crate::outcome::Outcome;
use crate::record::{Hold, Record, RecordId, State, Version};
use crate::time::Time;
use crate::{Doubt, Move};

/// Which attempt holds a lease. Unique per attempt and not guessable, since it is half of a fencing token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u128);

impl Owner {
    /// The owner with this number; use a random UUID.
    #[must_use]
    pub const fn from_u128(number: u128) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Half of a fencing token: shown in part, so that logs cannot be used to settle.
        write!(f, "Owner({:08x}…)", self.0 >> 96)
    }
}

/// The fence of a lease: the version at which it was granted. Every grant has a higher one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub Version);

/// What an effect may send downstream, so that the receiver can refuse a holder that lost its lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fence {
    /// The record acted under.
    pub id: RecordId,
    /// The fence: a later holder's is higher.
    pub epoch: Epoch,
}

/// The right to act under a key until a time, fenced by its epoch.
///
/// A lease cannot be cloned, and settling consumes it: one holder settles once. Dropping it leaves the
/// record held until the lease runs out; then the policy's [`OnLost`](crate::OnLost) decides.
///
/// ```compile_fail
/// fn settle_twice(lease: hapax_core::Lease, outcome: hapax_core::Outcome, now: hapax_core::Time) {
///     lease.settle(outcome.clone(), now);
///     lease.settle(outcome, now); // the lease was consumed: this does not compile
/// }
/// ```
#[derive(Debug)]
#[must_use = "a dropped lease blocks its key until it runs out; settle or release it"]
pub struct Lease {
    held: Arc<Record>,
    hold: Hold,
}

impl Lease {
    /// The lease over `record`, if `record` is held (or in doubt) under this epoch by this owner.
    #[must_use]
    pub fn of(record: impl Into<Arc<Record>>, epoch: Epoch, owner: Owner) -> Option<Self> {
        let record = record.into();
        let hold = record.hold()?;
        (hold.epoch == epoch && hold.owner == owner).then_some(Self { held: record, hold })
    }

    /// The record as the holder last saw it.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.held
    }

    /// The same, to keep.
    #[must_use]
    pub fn shared(&self) -> Arc<Record> {
        self.held.clone()
    }

    /// The id of the record.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.held.id
    }

    /// The fence.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.hold.epoch
    }

    /// The id and the fence, to send downstream.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence {
            id: self.held.id,
            epoch: self.hold.epoch,
        }
    }

    /// The attempt that holds it.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.hold.owner
    }

    /// Until when the holder may be silent.
    #[must_use]
    pub fn until(&self) -> Time {
        self.hold.until
    }

    /// The move that records the outcome.
    #[must_use]
    pub fn settle(self, outcome: Outcome, now: Time) -> Move {
        Move::replacing(&self.held, self.held.settled(outcome, now))
    }

    /// The move that gives the key back, so that the next claim runs as new.
    #[must_use]
    pub fn release(self, now: Time) -> Move {
        Move::replacing(&self.held, self.held.freed(now))
    }

    /// The move that says "it may have happened": no claim runs it again unless the policy retries.
    #[must_use]
    pub fn doubt(self, reason: Doubt) -> Move {
        Move::replacing(&self.held, self.held.doubted(reason))
    }

    /// The move that says "it may have happened", where no claim may run it again before a person decides.
    #[must_use]
    pub fn hold_in_doubt(self, reason: Doubt) -> Move {
        Move::replacing(&self.held, self.held.held_in_doubt(reason))
    }

    /// The move that extends the lease from `now`.
    #[must_use]
    pub fn renewal(&self, now: Time) -> Move {
        Move::replacing(&self.held, self.held.renewed(now))
    }

    /// Takes over what a renewal wrote. Returns whether it is still this lease.
    pub fn renewed(&mut self, record: impl Into<Arc<Record>>) -> bool {
        let record = record.into();
        match record.hold() {
            Some(hold) if hold.epoch == self.hold.epoch && hold.owner == self.hold.owner => {
                self.held = record;
                self.hold = hold;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Whether `record` is still held (or in doubt) under this lease.
    #[must_use]
    pub fn owns(&self, record: &Record) -> bool {
        record
            .hold()
            .is_some_and(|hold| hold.epoch == self.hold.epoch && hold.owner == self.hold.owner)
    }

    /// Whether the holder is still within its time.
    #[must_use]
    pub fn is_live(&self, now: Time) -> bool {
        match &self.held.state {
            State::Held(hold) => hold.until > now,
            State::InDoubt { .. }
            | State::Settled { .. }
            | State::Free
            | State::Expired
            | State::Erased => false,
        }
    }
}
