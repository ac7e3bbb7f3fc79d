//! The engine: loops decide and swap, keeps leases alive, settles before anyone is answered.
//! It decides nothing itself; [`hapax_core::decide()`] does.

mod audit;
mod cache;
mod operator;
mod outlive;
mod refused;
mod running;
mod settle;
mod waiting;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hapax_core::{
    Cause, Claim, Doubt, Epoch, Error, Fence, Key, Kind, Lease, Ledger, Move, OnLost, Outcome,
    Owner, Receipt, Record, RecordId, Replays, Scope, State, Swap, Tenant, Time, Verdict, decide,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use audit::Audit;
use cache::Cache;
use running::Running;
use waiting::{Ticket, Waiting};

pub use operator::Ruled;
pub use outlive::Outliving;
pub use settle::Settled;

/// How often decide and swap may be overtaken by others before the claim gives up for now.
const ROUNDS_MAX: usize = 32;
/// How often a waiter looks by itself, for holders in other processes that cannot wake it.
const POLL: Duration = Duration::from_millis(200);

/// What a claim gets. Only `Granted` may act.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a lease is the common answer, and is moved once"
)]
#[must_use = "a granted claim blocks its key until it is settled or released"]
pub enum Claimed {
    /// Act, then settle or release the lease.
    Granted(Lease, Cause),
    /// It happened: this is what came of it.
    Replay(Receipt),
    /// Somebody is acting; the answer may be there after this long.
    Busy(Duration),
    /// The key stands for another request: the record that has it.
    Conflict(Box<Record>),
    /// It may have happened, and only a person may say.
    Lost(Doubt),
    /// The key was used and what was stored under it is erased: nothing runs, and nothing can be replayed.
    Erased,
}

/// Claims keys on a ledger, keeps their leases alive and records their outcomes once.
///
/// Cheap to clone; clones share the waiters and the cache of settled outcomes.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::core::{Claim, Fingerprint, Key, Outcome, Scope, Tenant};
/// use hapax::{Claimed, Engine, store::MemoryLedger};
///
/// let engine = Engine::new(std::sync::Arc::new(MemoryLedger::new()));
/// let scope = Scope::new(Tenant::DEFAULT, "charge")?;
/// let claim = || Claim::new(scope.clone(), Key::new("order-7").unwrap(), Fingerprint::of(b"10 EUR"), Engine::owner());
///
/// let receipt = engine.once(claim(), async |_fence| Outcome::text(200, "charged")).await?.receipt()?;
/// assert!(!receipt.replayed);
/// // The second call does not run: it gets what the first one recorded.
/// let receipt = engine.once(claim(), async |_fence| unreachable!("never runs")).await?.receipt()?;
/// assert!(receipt.replayed);
///
/// // The refusal: the same key for another request.
/// let other = Claim { fingerprint: Fingerprint::of(b"99 EUR"), ..claim() };
/// assert!(matches!(engine.claim(other).await?, Claimed::Conflict(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    ledger: Arc<dyn Ledger>,
    waiting: Arc<Waiting>,
    cache: Arc<Cache>,
    shared: Option<Arc<dyn Replays>>,
    tasks: TaskTracker,
    running: Arc<Running>,
    audit: Option<Arc<Audit>>,
    poll: Duration,
}

/// How [`Engine::once`] ended.
#[derive(Debug)]
pub enum Once {
    /// The outcome, made now or earlier.
    Done(Receipt),
    /// Somebody is acting; try again after this long.
    Busy(Duration),
    /// The key stands for another request.
    Conflict(Box<Record>),
    /// It may have happened, and only a person may say.
    Lost(Doubt),
    /// The key was used and what was stored under it is erased.
    Erased,
}

impl Once {
    /// The receipt, where any other answer is an error to the caller.
    ///
    /// # Errors
    /// [`NotDone`] says which other answer it was.
    pub fn receipt(self) -> Result<Receipt, NotDone> {
        match self {
            Once::Done(receipt) => Ok(receipt),
            Once::Busy(after) => Err(NotDone(format!(
                "another attempt holds the key; retry after {after:?}"
            ))),
            Once::Conflict(record) => Err(NotDone(format!(
                "the key {} stands for another request",
                record.key
            ))),
            Once::Lost(doubt) => Err(NotDone(format!(
                "it is in doubt whether it happened: {}",
                doubt.as_str()
            ))),
            Once::Erased => Err(NotDone(
                "the key was used, and what was stored under it is erased".to_owned(),
            )),
        }
    }
}

/// The answer was not an outcome.
#[derive(Debug)]
pub struct NotDone(String);

impl std::fmt::Display for NotDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotDone {}

impl Engine {
    /// An engine over `ledger`, with 64 MiB of cache for settled outcomes.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self::with_cache_bytes(ledger, 64 * 1024 * 1024)
    }

    /// An engine over `ledger` that keeps at most about `cache_bytes` of settled outcomes in memory.
    #[must_use]
    pub fn with_cache_bytes(ledger: Arc<dyn Ledger>, cache_bytes: usize) -> Self {
        let waiting = Arc::new(Waiting::default());
        // Weak: the ledger may outlive the engine, and must not keep its waiters.
        let woken = Arc::downgrade(&waiting);
        ledger.subscribe(Arc::new(move |id| {
            if let Some(waiting) = woken.upgrade() {
                waiting.wake(id);
            }
        }));
        Self {
            ledger,
            waiting,
            cache: Arc::new(Cache::new(cache_bytes)),
            shared: None,
            tasks: TaskTracker::new(),
            running: Arc::default(),
            audit: None,
            poll: POLL,
        }
    }

    /// The same engine, whose waiters look by themselves this often, for when a wake-up from another node is missed.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll.max(Duration::from_millis(1));
        self
    }

    /// The same engine with a cache of settled outcomes that nodes share. It is asked for what this process does not
    /// know, may answer a replay, and never grants anything.
    #[must_use]
    pub fn with_replays(mut self, shared: Arc<dyn Replays>) -> Self {
        self.shared = Some(shared);
        self
    }

    /// A new attempt: unique, and not guessable.
    #[must_use]
    pub fn owner() -> Owner {
        Owner::from_u128(uuid::Uuid::new_v4().as_u128())
    }

    /// The ledger behind it.
    #[must_use]
    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.ledger
    }

    /// What `claim` gets, waiting up to its policy's `wait` for the answer of one in flight.
    ///
    /// Dropping the future while it claims may leave the key held; it is then free, or in doubt, when
    /// the lease runs out.
    ///
    /// # Errors
    /// When the ledger could not say. Nothing may be done then: the claim is not granted.
    ///
    /// # Panics
    /// Never: a granted record is held, and a replay is of a record.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, Error> {
        let seen = self.cache.get(claim.id(), || self.ledger.purges());
        self.claim_seen(&claim, seen).await
    }

    /// What `claim` gets, of which the cache says `seen`. By reference, since its future is a part of every keyed
    /// request's; what is rare in it is boxed for the same reason.
    pub(crate) async fn claim_seen(
        &self,
        claim: &Claim,
        mut seen: Option<Arc<Record>>,
    ) -> Result<Claimed, Error> {
        let deadline = Instant::now() + claim.policy.bounded().wait;
        if seen.is_none() && self.shared.is_some() {
            seen = Box::pin(self.recall(claim)).await;
        }
        let mut ticket = None;
        let mut overtaken = 0;
        loop {
            let now = self.ledger.now();
            match decide(seen.as_deref(), claim, now) {
                Verdict::Grant(grant) => {
                    let step = Move::from_seen(seen.as_deref(), grant.next);
                    let step = self.noting_grant(step, grant.cause, now);
                    let step = if may_be_lost(claim, grant.cause) {
                        step.provisionally()
                    } else {
                        step
                    };
                    match self.grant(step, grant.cause).await? {
                        Ok(granted) => return Ok(granted),
                        Err(stored) => seen = stored,
                    }
                    overtaken += 1;
                    if overtaken > ROUNDS_MAX {
                        return Err(Error::new(Kind::Unavailable, "claiming the key")
                            .because("too many others claim it"));
                    }
                }
                Verdict::Replay(outcome) => {
                    let record = seen.as_ref().expect("a replay is of a record");
                    self.note_replay(record, outcome, now);
                    return Ok(Claimed::Replay(replayed(record, outcome)));
                }
                Verdict::Conflict(record) => {
                    self.note_conflict(record, claim, now);
                    return Ok(Claimed::Conflict(Box::new(record.clone())));
                }
                Verdict::Lost(doubt) => return Ok(Claimed::Lost(doubt)),
                Verdict::Erased => return Ok(Claimed::Erased),
                Verdict::Busy(until) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(Claimed::Busy(until.since(now)));
                    }
                    // The ticket is taken before the record is read again, so no wake-up falls in between.
                    let Some(ticket) = ticket.get_or_insert_with(|| self.waiting.join(claim.id()))
                    else {
                        return Ok(Claimed::Busy(until.since(now)));
                    };
                    let pause = left
                        .min(self.poll)
                        .min(until.since(now).max(Duration::from_millis(1)));
                    seen = Box::pin(self.wait(claim, ticket, pause)).await?;
                }
            }
        }
    }

    /// The record after its holder has ended, or after `pause` if that is sooner.
    async fn wait(
        &self,
        claim: &Claim,
        ticket: &Ticket,
        pause: Duration,
    ) -> Result<Option<Arc<Record>>, Error> {
        let woken = ticket.woken();
        let seen = self.reread(claim).await?;
        if !still_busy(seen.as_deref(), claim, self.ledger.now()) {
            return Ok(seen);
        }
        // Woken or not, the record is read again: a wake-up is a hint, never an answer.
        let _hint = tokio::time::timeout(pause, woken).await;
        self.reread(claim).await
    }

    /// The recorded outcome for `claim`, if it is at hand without asking the ledger.
    #[must_use]
    pub fn cached(&self, claim: &Claim) -> Option<Receipt> {
        self.look(claim).ok()
    }

    /// The same, or what the cache has of the key otherwise.
    pub(crate) fn look(&self, claim: &Claim) -> Result<Receipt, Option<Arc<Record>>> {
        let seen = self.cache.get(claim.id(), || self.ledger.purges());
        let record = seen.ok_or(None)?;
        let now = self.ledger.now();
        match decide(Some(&record), claim, now) {
            Verdict::Replay(outcome) => {
                self.note_replay(&record, outcome, now);
                Ok(replayed(&record, outcome))
            }
            Verdict::Grant(_)
            | Verdict::Busy(_)
            | Verdict::Conflict(_)
            | Verdict::Lost(_)
            | Verdict::Erased => Err(Some(record)),
        }
    }

    /// Runs `work` under `claim` once and records what it answers; everyone else gets that.
    ///
    /// The lease is kept alive while `work` runs. If the lease is lost all the same, nothing is recorded
    /// and the answer is what the new holder makes of it.
    ///
    /// # Errors
    /// When the ledger could not say or could not record. In the latter case `work` did run.
    pub async fn once<W>(&self, claim: Claim, work: W) -> Result<Once, Error>
    where
        W: AsyncFnOnce(Fence) -> Outcome,
    {
        let claim = claim.acting_here();
        match self.claim(claim.clone()).await? {
            Claimed::Granted(lease, _) => {
                let work = work(lease.fence());
                let (lease, outcome) = self.run(lease, work).await;
                match self.settle(lease, outcome).await? {
                    Settled::Recorded(receipt) => Ok(Once::Done(receipt)),
                    Settled::Lost(_) => match self
                        .claim(Claim {
                            owner: Self::owner(),
                            ..claim
                        })
                        .await?
                    {
                        Claimed::Replay(receipt) => Ok(Once::Done(receipt)),
                        Claimed::Busy(after) => Ok(Once::Busy(after)),
                        Claimed::Conflict(record) => Ok(Once::Conflict(record)),
                        Claimed::Lost(doubt) => Ok(Once::Lost(doubt)),
                        Claimed::Erased => Ok(Once::Erased),
                        Claimed::Granted(lease, _) => {
                            // The work ran and was not recorded: a second run needs a caller who asks for it.
                            self.release(lease).await?;
                            Ok(Once::Lost(Doubt::OutcomeUnknown))
                        }
                    },
                }
            }
            Claimed::Replay(receipt) => Ok(Once::Done(receipt)),
            Claimed::Busy(after) => Ok(Once::Busy(after)),
            Claimed::Conflict(record) => Ok(Once::Conflict(record)),
            Claimed::Lost(doubt) => Ok(Once::Lost(doubt)),
            Claimed::Erased => Ok(Once::Erased),
        }
    }

    /// Runs `work` while a heartbeat extends the lease every third of its length.
    ///
    /// A heartbeat that fails is tried again at the next beat; one that finds the lease lost ends the
    /// heartbeats, and settling will say so. Dropping the future drops `work` with it.
    pub async fn run<T>(&self, mut lease: Lease, work: impl Future<Output = T>) -> (Lease, T) {
        let _entered = self.running.enter(&lease);
        let value = {
            let mut work = pin!(work);
            // Made when it is first needed: most work is done before its lease needs anything.
            let mut held = Some(&mut lease);
            let mut beats = None;
            poll_fn(|context| {
                if let Poll::Ready(value) = work.as_mut().poll(context) {
                    return Poll::Ready(value);
                }
                if let Some(lease) = held.take() {
                    beats = Some(Box::pin(self.beat(lease)));
                }
                // Side by side: a store that is slow to renew does not hold up the work.
                match beats.as_mut().map(|beats| beats.as_mut().poll(context)) {
                    Some(Poll::Ready(never)) => match never {},
                    Some(Poll::Pending) | None => Poll::Pending,
                }
            })
            .await
        };
        (lease, value)
    }

    /// Extends the lease every third of its length, until it is lost or nobody polls any more.
    async fn beat(&self, lease: &mut Lease) -> Infallible {
        let pause = (lease.record().lease / 3).max(Duration::from_millis(1));
        loop {
            tokio::time::sleep(pause).await;
            match self.renew(lease).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(id = %lease.id(), "the lease was lost while its holder was at work");
                    return std::future::pending().await;
                }
                Err(error) => {
                    tracing::warn!(id = %lease.id(), %error, "a heartbeat failed; trying again");
                }
            }
        }
    }

    /// Waits until all work that outlives its callers has ended, and everything noted is written, at most `patience`.
    /// Returns whether it has.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.tasks.close();
        tokio::time::timeout(patience, self.tasks.wait())
            .await
            .is_ok()
    }

    /// The record of `key` in `scope`, whatever its state.
    ///
    /// # Errors
    /// When the ledger could not say.
    pub async fn find(&self, scope: &Scope, key: &Key) -> Result<Option<Record>, Error> {
        hapax_core::ledger::find(&*self.ledger, scope, key).await
    }

    /// The lease behind a fencing token, if it still holds.
    ///
    /// # Errors
    /// When the ledger could not say.
    pub async fn resume(
        &self,
        tenant: Tenant,
        id: RecordId,
        epoch: Epoch,
        owner: Owner,
    ) -> Result<Option<Lease>, Error> {
        let found = self.ledger.find(tenant, id).await?;
        Ok(found.and_then(|record| Lease::of(record, epoch, owner)))
    }

    async fn grant(
        &self,
        step: Move,
        cause: Cause,
    ) -> Result<Result<Claimed, Option<Arc<Record>>>, Error> {
        let purges = self.ledger.purges_lately();
        let next = step.next.clone();
        match self.swap(step, "claiming the key").await? {
            Swap::Written => {
                self.cache.remove(next.id);
                let hold = next.hold().expect("a granted record is held");
                let lease = Lease::of(next, hold.epoch, hold.owner).expect("the hold is its own");
                Ok(Ok(Claimed::Granted(lease, cause)))
            }
            Swap::Stale(stored) => {
                let stored = stored.map(Arc::from);
                if let Some(record) = &stored {
                    self.remember(record, purges);
                }
                Ok(Err(stored))
            }
        }
    }

    async fn reread(&self, claim: &Claim) -> Result<Option<Arc<Record>>, Error> {
        let purges = self.ledger.purges();
        if let Some(record) = self.cache.get(claim.id(), || purges) {
            return Ok(Some(record));
        }
        let found = self.find(&claim.scope, &claim.key).await?.map(Arc::new);
        if let Some(record) = &found {
            self.remember(record, purges);
        }
        Ok(found)
    }

    /// What the shared cache knows of the key, if it is the answer to this very claim. It is used for replays and for
    /// nothing else: whatever it would say otherwise, the ledger is asked.
    async fn recall(&self, claim: &Claim) -> Option<Arc<Record>> {
        let (shared, purges) = (self.shared.as_ref()?, self.ledger.purges()?);
        let record = shared.get(claim.scope.tenant, claim.id(), purges).await?;
        let is_replay = matches!(
            decide(Some(&record), claim, self.ledger.now()),
            Verdict::Replay(_)
        );
        // Asking takes a moment, in which an outcome may have been taken back.
        if !is_replay || self.ledger.purges() != Some(purges) {
            return None;
        }
        let record = Arc::new(record);
        self.cache.put(record.clone(), purges);
        Some(record)
    }

    /// Keeps a settled record for later replays. `purges` was read before the record was.
    fn remember(&self, record: &Arc<Record>, purges: Option<u64>) {
        if let (State::Settled { .. }, Some(purges)) = (&record.state, purges) {
            self.cache.put(record.clone(), purges);
            if let Some(shared) = &self.shared {
                shared.put(record, purges, self.ledger.now());
            }
        }
    }

    async fn swap(&self, step: Move, doing: &'static str) -> Result<Swap, Error> {
        let mut swaps = self.ledger.swap(vec![step]).await?;
        swaps
            .pop()
            .ok_or_else(|| Error::new(Kind::Corrupt, doing).because("the ledger answered nothing"))
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("ledger", &self.ledger.name())
            .finish_non_exhaustive()
    }
}

/// Whether a grant may be lost with the power: its loss means "run again", which is what its policy says of a runner that
/// died with the machine.
fn may_be_lost(claim: &Claim, cause: Cause) -> bool {
    claim.acts_here && cause == Cause::Fresh && claim.policy.on_lost == OnLost::Retry
}

fn still_busy(seen: Option<&Record>, claim: &Claim, now: Time) -> bool {
    matches!(decide(seen, claim, now), Verdict::Busy(_))
}

/// The receipt of an outcome that `record` had recorded.
fn replayed(record: &Record, outcome: &Arc<Outcome>) -> Receipt {
    let settled_at = match &record.state {
        State::Settled { at, .. } => *at,
        State::Held(_) | State::InDoubt { .. } | State::Free | State::Expired | State::Erased => {
            record.created_at
        }
    };
    Receipt {
        id: record.id,
        outcome: outcome.clone(),
        settled_at,
        expires_at: record.expires_at,
        replayed: true,
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Fingerprint, Policy};

    use super::*;

    #[test]
    fn only_a_fresh_grant_that_is_acted_on_here_and_may_run_again_may_be_lost() {
        let scope = Scope::new(Tenant::DEFAULT, "POST:payments").unwrap();
        let key = Key::new("order-7").unwrap();
        let claim = Claim::new(scope, key, Fingerprint::of(b"10"), Engine::owner());
        assert!(may_be_lost(&claim.clone().acting_here(), Cause::Fresh));

        assert!(!may_be_lost(&claim, Cause::Fresh), "somebody else was told");
        for cause in [Cause::Expired, Cause::Lost, Cause::Mine] {
            assert!(!may_be_lost(&claim.clone().acting_here(), cause));
        }
        let on_lost = OnLost::Hold;
        let hold = Policy {
            on_lost,
            ..Policy::default()
        };
        let doubted = claim.acting_here().with_policy(hold);
        assert!(
            !may_be_lost(&doubted, Cause::Fresh),
            "nobody may run it again"
        );
    }
}
