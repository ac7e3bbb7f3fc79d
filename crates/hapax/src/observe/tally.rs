//! The figures of each tenant since the start, in memory and bounded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::Tenant;

use super::Action;

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

/// The figures of one tenant while they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    total: AtomicU64,
    replayed: AtomicU64,
    conflicts: AtomicU64,
    expired: AtomicU64,
    lookups: Times,
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
            Action::Process
            | Action::InProgress
            | Action::InDoubt
            | Action::Erased
            | Action::Error => {}
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
    }
}
