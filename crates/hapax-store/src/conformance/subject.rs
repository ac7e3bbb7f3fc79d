//! What a case works on: an empty ledger, its clock, and the bare loop of decide and swap.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hapax_core::{
    Action, Cause, Claim, Doubt, Epoch, Error, Fingerprint, Key, Kind, Lease, Ledger, Move, Note,
    NoteScan, Outcome, Owner, Record, Scan, Scope, Swap, Sweep, Swept, Tenant, Time, Verdict,
    Version, decide,
};
use uuid::Uuid;

use crate::clock::Clock;

/// An empty ledger and the clock it reads.
pub struct Subject {
    /// The ledger under test.
    pub ledger: Arc<dyn Ledger>,
    clock: Clock,
    owners: AtomicU64,
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

/// What a claimant got, after the loop of decide and swap.
#[allow(clippy::large_enum_variant, reason = "a test holds a few")]
#[derive(Debug)]
pub enum Taken {
    /// The claim was granted, and why.
    Granted(Lease, Cause),
    /// It had happened.
    Replay(Arc<Outcome>),
    /// Somebody holds it until then.
    Busy(Time),
    /// The key stands for another request.
    Conflict(Box<Record>),
    /// It is in doubt.
    Lost(Doubt),
    /// It was erased.
    Erased,
}

impl Taken {
    /// The lease, for cases that expect one.
    ///
    /// # Panics
    /// When the claim was not granted.
    pub fn lease(self) -> Lease {
        match self {
            Taken::Granted(lease, _) => lease,
            other => panic!("the claim should be granted, got {other:?}"),
        }
    }

    /// The cause of the grant, for cases that expect one.
    ///
    /// # Panics
    /// When the claim was not granted.
    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Taken::Granted(_, cause) => cause,
            other => panic!("the claim should be granted, got {other:?}"),
        }
    }
}

impl Subject {
    /// A subject over an empty `ledger` that reads `clock`.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, clock: Clock) -> Self {
        Self {
            ledger,
            clock,
            owners: AtomicU64::new(1),
            keep: Vec::new(),
        }
    }

    /// Keeps `guard`, such as a temporary folder, for as long as the subject lives.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.keep.push(Box::new(guard));
        self
    }

    /// Moves the ledger's clock forward.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// A claim on `key` in the default tenant's space `POST:test`, by an attempt of its own.
    ///
    /// # Panics
    /// When `key` is not a key.
    pub fn claim(&self, key: &str) -> Claim {
        self.claim_in(&space(Tenant::DEFAULT, "POST:test"), key)
    }

    /// A claim on `key` in `scope`, by an attempt of its own.
    ///
    /// # Panics
    /// When `key` is not a key.
    pub fn claim_in(&self, scope: &Scope, key: &str) -> Claim {
        let key = Key::new(key).expect("cases use valid keys");
        Claim::new(scope.clone(), key, Fingerprint::of(b"asked"), self.owner())
    }

    /// The same claim by another attempt.
    pub fn again(&self, claim: &Claim) -> Claim {
        Claim {
            owner: self.owner(),
            ..claim.clone()
        }
    }

    fn owner(&self) -> Owner {
        let count = self.owners.fetch_add(1, Ordering::Relaxed);
        Owner::from_u128(Uuid::from_u64_pair(0x0afa_0000_0000_8000, count).as_u128())
    }

    /// Loops decide and swap until there is an answer.
    ///
    /// # Panics
    /// When the ledger answers an error, or never settles on an answer.
    pub async fn take(&self, claim: &Claim) -> Taken {
        let mut seen: Option<Record> = None;
        for _ in 0..100 {
            let (step, cause) = match decide(seen.as_ref(), claim, self.ledger.now()) {
                Verdict::Grant(grant) => (Move::from_seen(seen.as_ref(), grant.next), grant.cause),
                Verdict::Replay(outcome) => return Taken::Replay(outcome.clone()),
                Verdict::Busy(until) => return Taken::Busy(until),
                Verdict::Conflict(record) => return Taken::Conflict(Box::new(record.clone())),
                Verdict::Lost(doubt) => return Taken::Lost(doubt),
                Verdict::Erased => return Taken::Erased,
            };
            let next = step.next.clone();
            match self.swap(step).await {
                Swap::Written => return Taken::Granted(lease(next), cause),
                Swap::Stale(stored) => seen = stored.map(|record| *record),
            }
        }
        panic!("decide and swap did not come to an end");
    }

    /// One move.
    ///
    /// # Panics
    /// When the ledger answers an error or not one answer.
    pub async fn swap(&self, step: Move) -> Swap {
        let mut swaps = self
            .ledger
            .swap(vec![step])
            .await
            .expect("the ledger answers");
        assert_eq!(swaps.len(), 1, "one move, one answer");
        swaps.remove(0)
    }

    /// Settles `lease` with `outcome`; whether it was written.
    pub async fn settle(&self, lease: Lease, outcome: Outcome) -> bool {
        let now = self.ledger.now();
        self.swap(lease.settle(outcome, now)).await == Swap::Written
    }

    /// The stored record of the claim's key.
    ///
    /// # Panics
    /// When the ledger answers an error.
    pub async fn stored(&self, claim: &Claim) -> Option<Record> {
        self.ledger
            .find(claim.scope.tenant, claim.id())
            .await
            .expect("the ledger answers")
    }

    /// Whether the ledger lists records. One that does not says so beforehand, and refuses every list for good.
    ///
    /// # Panics
    /// When it lists although it says that it does not, or refuses as if a retry could help.
    pub async fn lists(&self) -> bool {
        if self.ledger.capabilities().lists {
            return true;
        }
        let (ledger, of) = (&self.ledger, Tenant::DEFAULT);
        refused(ledger.scan(Scan::of(of)).await.map(drop), "a list");
        refused(ledger.doubts(of, 10).await.map(drop), "a count");
        refused(ledger.spaces(of, 10).await.map(drop), "the spaces");
        false
    }

    /// Whether the ledger keeps an audit trail. One that does not says so beforehand, refuses every note for good, and
    /// does not write a move without the note it came with.
    ///
    /// # Panics
    /// When it takes a note although it says that it keeps none, or refuses as if a retry could help.
    pub async fn audits(&self) -> bool {
        if self.ledger.capabilities().audits {
            return true;
        }
        let (ledger, now) = (&self.ledger, self.ledger.now());
        let note = Note::new(Tenant::DEFAULT, now, Action::Replay);
        refused(ledger.note(vec![note.clone()]).await, "a note");
        let trail = ledger.notes(NoteScan::of(Tenant::DEFAULT)).await;
        refused(trail.map(drop), "a look at the trail");
        let claim = self.claim("noted");
        let next = Record::granted(&claim, Version::seeded(now), now);
        let swapped = ledger.swap(vec![Move::inserting(next).noted(note)]).await;
        refused(swapped.map(drop), "a move with a note");
        assert_eq!(
            self.stored(&claim).await,
            None,
            "what is refused is not written"
        );
        false
    }

    /// Sweeps until a step does nothing, and adds up.
    ///
    /// # Panics
    /// When the ledger answers an error or does not come to an end.
    pub async fn sweep(&self, sweep: Sweep) -> Swept {
        let mut total = Swept::default();
        for _ in 0..1000 {
            let step = self.ledger.sweep(sweep).await.expect("the ledger answers");
            if step == Swept::default() {
                return total;
            }
            total.expired += step.expired;
            total.retired += step.retired;
            total.forgotten += step.forgotten;
            total.notes += step.notes;
        }
        panic!("the sweep did not come to an end");
    }
}

fn refused(answer: Result<(), Error>, what: &str) {
    let error = answer.expect_err(what);
    assert_eq!(error.kind(), Kind::Unsupported, "{what}: {error}");
    assert!(!error.is_transient());
}

/// The lease over a record that was just written as held.
///
/// # Panics
/// When the record is not held.
pub(super) fn lease(record: impl Into<Arc<Record>>) -> Lease {
    let record = record.into();
    let hold = record.hold().expect("a granted record is held");
    Lease::of(record, hold.epoch, hold.owner).expect("the hold is its own")
}

/// A second handle on the same lease, as a stalled holder would still have it.
///
/// # Panics
/// When the lease's record is not held.
pub(super) fn copy(lease: &Lease) -> Lease {
    let epoch: Epoch = lease.epoch();
    Lease::of(lease.record().clone(), epoch, lease.owner()).expect("the hold is its own")
}

/// The scope of `name` within `tenant`.
///
/// # Panics
/// When `name` is not a space.
pub(super) fn space(tenant: Tenant, name: &str) -> Scope {
    Scope::new(tenant, name).expect("cases use valid spaces")
}

/// The tenant with this number.
pub(super) fn tenant(number: u128) -> Tenant {
    Tenant::from_uuid(Uuid::from_u128(number))
}
