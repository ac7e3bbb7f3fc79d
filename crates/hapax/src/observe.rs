//! What is counted: every claim and every end of one, by route and action, through the `metrics` facade
//! and, per tenant, in memory. It changes no answer.

mod label;
mod spread;
mod tally;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_core::{
    Cause, Claim, Doubt, Error, Lease, Outcome, Policy, Receipt, Record, Space, Swept, Tenant,
};

use crate::{Claimed, Engine, Settled};
use label::Labels;
use metrics::SharedString;
use tally::{Cleanups, Tally, Tenants};

pub use spread::Spread;
pub use tally::{Pulse, Stats};

/// What became of a request under a key, as the word that metrics use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Process,
    Replay,
    Conflict,
    InProgress,
    InDoubt,
    Erased,
    Error,
}

impl Action {
    const fn as_str(self) -> &'static str {
        match self {
            Action::Process => "process",
            Action::Replay => "replay",
            Action::Conflict => "conflict",
            Action::InProgress => "in_progress",
            Action::InDoubt => "in_doubt",
            Action::Erased => "erased",
            Action::Error => "error",
        }
    }

    const fn of(claimed: &Result<Claimed, Error>) -> Self {
        match claimed {
            Ok(Claimed::Granted(..)) => Action::Process,
            Ok(Claimed::Replay(_)) => Action::Replay,
            Ok(Claimed::Busy(_)) => Action::InProgress,
            Ok(Claimed::Conflict(_)) => Action::Conflict,
            Ok(Claimed::Lost(_)) => Action::InDoubt,
            Ok(Claimed::Erased) => Action::Erased,
            Err(_) => Action::Error,
        }
    }
}

/// Counts what an engine does for the doors in front of it. Doors that share one share their figures.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::core::{Claim, Fingerprint, Key, Outcome, Scope, Tenant};
/// use hapax::{Claimed, Engine, observe::Observer, store::MemoryLedger};
///
/// let (engine, observer) = (Engine::new(std::sync::Arc::new(MemoryLedger::new())), Observer::default());
/// let scope = Scope::new(Tenant::DEFAULT, "POST:payments")?;
/// let claim = || Claim::new(scope.clone(), Key::new("k").unwrap(), Fingerprint::of(b"10"), Engine::owner());
///
/// let Claimed::Granted(lease, _) = observer.claim(&engine, claim()).await? else { unreachable!() };
/// observer.settle(&engine, lease, Outcome::text(200, "paid")).await?;
/// assert!(matches!(observer.claim(&engine, claim()).await?, Claimed::Replay(_)));
///
/// let stats = observer.stats(Tenant::DEFAULT);
/// assert_eq!((stats.total_requests, stats.replayed_requests, stats.storage_failures), (2, 1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Observer {
    labels: Labels,
    tenants: Tenants,
    cleanups: Cleanups,
}

impl Observer {
    /// Makes labels of these route patterns, as in `PUT:customers-*`. All other routes share the label `other`, so that no
    /// caller can make one up. A layer does it for its table.
    pub fn label_routes<'a>(&self, patterns: impl Iterator<Item = &'a str>) {
        self.labels.add(patterns);
    }

    /// [`Engine::cached`], counted when it has an answer.
    #[must_use]
    pub fn cached(&self, engine: &Engine, claim: &Claim) -> Option<Receipt> {
        self.look(engine, claim).ok()
    }

    /// The same, or what the cache has of the key otherwise.
    pub(crate) fn look(
        &self,
        engine: &Engine,
        claim: &Claim,
    ) -> Result<Receipt, Option<Arc<Record>>> {
        let started = Instant::now();
        let receipt = engine.look(claim)?;
        let took = started.elapsed();
        let route = self.labels.of(&claim.scope.space);
        let tally = self.tenants.of(claim.scope.tenant);
        tally.cache(true);
        metrics::counter!("hapax_cache_hits_total").increment(1);
        looked_up(&tally, route.clone(), took);
        count(&tally, route, Action::Replay);
        Ok(receipt)
    }

    /// [`Engine::claim`], counted and timed. The time that a duplicate waits for the answer of the one
    /// in flight is no part of the look-up.
    ///
    /// # Errors
    /// Those of [`Engine::claim`].
    pub async fn claim(&self, engine: &Engine, claim: Claim) -> Result<Claimed, Error> {
        match self.look(engine, &claim) {
            Ok(receipt) => Ok(Claimed::Replay(receipt)),
            Err(seen) => self.claim_seen(engine, &claim, seen).await,
        }
    }

    /// [`Observer::claim`] after [`Observer::look`] had no answer but this.
    pub(crate) async fn claim_seen(
        &self,
        engine: &Engine,
        claim: &Claim,
        seen: Option<Arc<Record>>,
    ) -> Result<Claimed, Error> {
        let tenant = claim.scope.tenant;
        let (route, tally) = (self.labels.of(&claim.scope.space), self.tenants.of(tenant));
        tally.cache(false);
        metrics::counter!("hapax_cache_misses_total").increment(1);
        let started = Instant::now();
        let claimed = if claim.policy.wait.is_zero() {
            let claimed = engine.claim_seen(claim, seen).await;
            looked_up(&tally, route.clone(), started.elapsed());
            claimed
        } else {
            let at_once = Policy {
                wait: Duration::ZERO,
                ..claim.policy
            };
            let at_once = claim.clone().with_policy(at_once);
            let claimed = Box::pin(engine.claim_seen(&at_once, seen)).await;
            looked_up(&tally, route.clone(), started.elapsed());
            match claimed {
                Ok(Claimed::Busy(_)) => Box::pin(engine.claim(claim.clone())).await,
                known => known,
            }
        };
        if let Ok(Claimed::Granted(_, Cause::Expired)) = &claimed {
            tally.expired(1);
            metrics::counter!("hapax_keys_expired_total", "found_by" => "claim").increment(1);
        }
        if claimed.is_err() {
            self.storage_failed(tenant, "claim");
        }
        count(&tally, route, Action::of(&claimed));
        claimed
    }

    /// [`Engine::settle`], counted and timed.
    ///
    /// # Errors
    /// Those of [`Engine::settle`].
    pub async fn settle(
        &self,
        engine: &Engine,
        lease: Lease,
        outcome: Outcome,
    ) -> Result<Settled, Error> {
        let ended = Ended::of(&lease, "settle");
        self.stored(&ended, engine.settle(lease, outcome).await)
    }

    /// [`Engine::release`], counted and timed.
    ///
    /// # Errors
    /// Those of [`Engine::release`].
    pub async fn release(&self, engine: &Engine, lease: Lease) -> Result<bool, Error> {
        let ended = Ended::of(&lease, "release");
        self.stored(&ended, engine.release(lease).await)
    }

    /// [`Engine::doubt`], counted and timed.
    ///
    /// # Errors
    /// Those of [`Engine::doubt`].
    pub async fn doubt(&self, engine: &Engine, lease: Lease, reason: Doubt) -> Result<bool, Error> {
        let ended = Ended::of(&lease, "doubt");
        self.stored(&ended, engine.doubt(lease, reason).await)
    }

    /// [`Engine::hold_in_doubt`], counted and timed.
    ///
    /// # Errors
    /// Those of [`Engine::hold_in_doubt`].
    pub async fn hold_in_doubt(
        &self,
        engine: &Engine,
        lease: Lease,
        reason: Doubt,
    ) -> Result<bool, Error> {
        let ended = Ended::of(&lease, "doubt");
        self.stored(&ended, engine.hold_in_doubt(lease, reason).await)
    }

    /// A request whose key was missing where one is required, or was no key.
    pub fn key_refused(&self, tenant: Tenant, space: &Space) {
        let (route, tally) = (self.labels.of(space), self.tenants.of(tenant));
        metrics::counter!("hapax_key_errors_total", "route" => route.clone()).increment(1);
        tally.key_error();
        count(&tally, route, Action::Error);
    }

    /// One sweep that ended: what it removed for all tenants, or that it failed.
    pub fn swept(&self, swept: Result<&Swept, &Error>) {
        self.cleanups.count(swept.is_ok());
        let result = match swept {
            Ok(swept) => {
                metrics::counter!("hapax_keys_expired_total", "found_by" => "sweep")
                    .increment(swept.expired as u64);
                "ok"
            }
            Err(_) => "failed",
        };
        metrics::counter!("hapax_cleanup_operations_total", "result" => result).increment(1);
    }

    /// The figures of `tenant` since this observer was made. Cleanups are the process's.
    #[must_use]
    pub fn stats(&self, tenant: Tenant) -> Stats {
        self.tenants.stats(tenant, &self.cleanups)
    }

    /// The counters of `tenant` now, to be compared with themselves a moment later. Sweeps are the process's.
    #[must_use]
    pub fn pulse(&self, tenant: Tenant) -> Pulse {
        self.tenants.pulse(tenant, &self.cleanups)
    }

    /// Says through the `metrics` facade what each figure means. Once per process, after a recorder is set.
    pub fn describe() {
        label::describe();
    }

    fn stored<T>(&self, ended: &Ended, result: Result<T, Error>) -> Result<T, Error> {
        let took = ended.started.elapsed();
        let route = self.labels.of(&ended.space);
        metrics::histogram!("hapax_store_seconds", "route" => route).record(took.as_secs_f64());
        self.tenants.of(ended.tenant).store(took);
        if result.is_err() {
            self.storage_failed(ended.tenant, ended.doing);
        }
        result
    }

    fn storage_failed(&self, tenant: Tenant, doing: &'static str) {
        metrics::counter!("hapax_storage_failures_total", "doing" => doing).increment(1);
        self.tenants.of(tenant).storage_failure();
    }
}

fn looked_up(tally: &Tally, route: SharedString, took: Duration) {
    metrics::histogram!("hapax_lookup_seconds", "route" => route).record(took.as_secs_f64());
    tally.lookup(took);
}

fn count(tally: &Tally, route: SharedString, action: Action) {
    metrics::counter!("hapax_requests_total", "route" => route, "action" => action.as_str())
        .increment(1);
    tally.request(action);
}

/// The end of a lease while it is written.
struct Ended {
    tenant: Tenant,
    space: Space,
    started: Instant,
    doing: &'static str,
}

impl Ended {
    fn of(lease: &Lease, doing: &'static str) -> Self {
        let scope = &lease.record().scope;
        Self {
            tenant: scope.tenant,
            space: scope.space.clone(),
            started: Instant::now(),
            doing,
        }
    }
}
