//! The figures of each tenant since the start, in memory and bounded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::Tenant;

use super::Action;
use super::spread::{Counting, Spread};

/// How many tenants have figures of their own. Those seen later share some that nobody is shown.
const TENANTS_MAX: usize = 10_000;

/// The figures of one tenant, by the names of seed 004.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// Requests under a key, refused ones included.
    pub total_requests: u64,
    /// Those answered with a recorded answer.
    pub replayed_requests: u64,
    /// Those whose key stood for another request.
    pub conflict_requests: u64,
    /// Those whose key had been used and was over its time.
    pub expired_keys: u64,
    /// Sweeps of this process.
    pub cleanup_operations: u64,
    /// Mean time of a claim in milliseconds, 0 if there was none.
    pub avg_lookup_time: f64,
    /// Mean time to record an end in milliseconds, 0 if there was none.
    pub avg_storage_time: f64,
    /// The share of look-ups answered from memory, from 0 to 1.
    pub cache_hit_rate: f64,
    /// Requests whose key was missing where one is required, or was no key.
    pub key_generation_errors: u64,
    /// Claims and ends of claims that could not be recorded.
    pub storage_failures: u64,
    /// Sweeps of this process that failed.
    pub cleanup_failures: u64,
}

/// The counters of one tenant at one moment. They only rise, while the process lives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pulse {
    /// Requests under a key, refused ones included.
    pub requests: u64,
    /// Those answered with a recorded answer.
    pub replays: u64,
    /// Those whose key stood for another request.
    pub conflicts: u64,
    /// Those whose key somebody held.
    pub in_progress: u64,
    /// Those of whose key nobody knows what became.
    pub in_doubt: u64,
    /// Those whose key had been used and was over its time.
    pub expired: u64,
    /// Those without a good key, and those that could not be looked up or recorded.
    pub errors: u64,
    /// Sweeps of this process.
    pub sweeps: u64,
    /// How long look-ups took.
    pub lookups: Spread,
}

/// The sweeps of this process.
#[derive(Debug, Default)]
pub(super) struct Cleanups {
    operations: AtomicU64,
    failures: AtomicU64,
}

impl Cleanups {
    pub(super) fn count(&self, worked: bool) {
        add(&self.operations, 1);
        if !worked {
            add(&self.failures, 1);
        }
    }
}

/// The figures of every tenant.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    own: RwLock<HashMap<Tenant, Arc<Tally>>>,
    rest: Arc<Tally>,
}

impl Tenants {
    pub(super) fn of(&self, tenant: Tenant) -> Arc<Tally> {
        // Nothing panics while either lock is held.
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = own.get(&tenant) {
            return tally.clone();
        }
        drop(own);
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        if own.len() >= TENANTS_MAX && !own.contains_key(&tenant) {
            return self.rest.clone();
        }
        own.entry(tenant).or_default().clone()
    }

    pub(super) fn stats(&self, tenant: Tenant, cleanups: &Cleanups) -> Stats {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let tally = own.get(&tenant).cloned().unwrap_or_default();
        drop(own);
        Stats {
            cleanup_operations: read(&cleanups.operations),
            cleanup_failures: read(&cleanups.failures),
            ..tally.stats()
        }
    }
}

impl Tenants {
    pub(super) fn pulse(&self, tenant: Tenant, cleanups: &Cleanups) -> Pulse {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let tally = own.get(&tenant).cloned().unwrap_or_default();
        drop(own);
        Pulse {
            sweeps: read(&cleanups.operations),
            ..tally.pulse()
        }
    }
}

/// The figures of one tenant while they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    total: AtomicU64,
    replayed: AtomicU64,
    conflicts: AtomicU64,
    in_progress: AtomicU64,
    in_doubt: AtomicU64,
    errors: AtomicU64,
    expired: AtomicU64,
    lookups: Times,
    spread: Counting,
    stores: Times,
    hits: AtomicU64,
    misses: AtomicU64,
    key_errors: AtomicU64,
    storage_failures: AtomicU64,
}

impl Tally {
    pub(super) fn request(&self, action: Action) {
        add(&self.total, 1);
        match action {
            Action::Replay => add(&self.replayed, 1),
            Action::Conflict => add(&self.conflicts, 1),
            Action::InProgress => add(&self.in_progress, 1),
            Action::InDoubt => add(&self.in_doubt, 1),
            Action::Error => add(&self.errors, 1),
            Action::Process | Action::Erased => {}
        }
    }

    pub(super) fn expired(&self, count: u64) {
        add(&self.expired, count);
    }

    pub(super) fn cache(&self, hit: bool) {
        add(if hit { &self.hits } else { &self.misses }, 1);
    }

    pub(super) fn lookup(&self, took: Duration) {
        self.lookups.add(took);
        self.spread.add(took);
    }

    pub(super) fn store(&self, took: Duration) {
        self.stores.add(took);
    }

    pub(super) fn key_error(&self) {
        add(&self.key_errors, 1);
    }

    pub(super) fn storage_failure(&self) {
        add(&self.storage_failures, 1);
    }

    fn pulse(&self) -> Pulse {
        Pulse {
            requests: read(&self.total),
            replays: read(&self.replayed),
            conflicts: read(&self.conflicts),
            in_progress: read(&self.in_progress),
            in_doubt: read(&self.in_doubt),
            expired: read(&self.expired),
            errors: read(&self.errors),
            sweeps: 0,
            lookups: self.spread.read(),
        }
    }

    fn stats(&self) -> Stats {
        let (hits, misses) = (read(&self.hits), read(&self.misses));
        Stats {
            total_requests: read(&self.total),
            replayed_requests: read(&self.replayed),
            conflict_requests: read(&self.conflicts),
            expired_keys: read(&self.expired),
            avg_lookup_time: self.lookups.mean_ms(),
            avg_storage_time: self.stores.mean_ms(),
            cache_hit_rate: share(hits, hits + misses),
            key_generation_errors: read(&self.key_errors),
            storage_failures: read(&self.storage_failures),
            ..Stats::default()
        }
    }
}

/// How often something took how long altogether.
#[derive(Debug, Default)]
struct Times {
    count: AtomicU64,
    micros: AtomicU64,
}

impl Times {
    fn add(&self, took: Duration) {
        add(&self.count, 1);
        add(
            &self.micros,
            u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        );
    }

    fn mean_ms(&self) -> f64 {
        share(read(&self.micros), read(&self.count)) / 1000.0
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a mean needs no more than 52 bits"
)]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn add(counter: &AtomicU64, count: u64) {
    // Wraps after centuries; the figures stand alone, so no order between them is needed.
    counter.fetch_add(count, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_past_the_limit_sees_no_other_tenants_figures() {
        let (tenants, cleanups) = (Tenants::default(), Cleanups::default());
        let tenant = |n: usize| Tenant::from_uuid(uuid::Uuid::from_u128(n as u128));
        for n in 0..TENANTS_MAX + 2 {
            tenants.of(tenant(n)).request(Action::Replay);
        }
        assert_eq!(tenants.stats(tenant(0), &cleanups).total_requests, 1);
        let late = tenants.stats(tenant(TENANTS_MAX + 1), &cleanups);
        assert_eq!(late, Stats::default());
    }

    #[test]
    fn nothing_counted_is_zero_and_not_a_division_by_it() {
        assert_eq!(Tally::default().stats(), Stats::default());
        assert_eq!(Tally::default().pulse(), Pulse::default());
    }

    #[test]
    fn every_answer_is_counted_under_its_word() {
        let tally = Tally::default();
        for action in [
            Action::InProgress,
            Action::InDoubt,
            Action::Error,
            Action::Process,
        ] {
            tally.request(action);
        }
        tally.lookup(Duration::from_micros(7));
        let pulse = tally.pulse();
        assert_eq!(
            (
                pulse.requests,
                pulse.in_progress,
                pulse.in_doubt,
                pulse.errors
            ),
            (4, 1, 1, 1)
        );
        assert_eq!(pulse.lookups.percentile_us(50), 7);
    }
}
