//! How many requests a second each tenant may send. One node counts by itself; nodes with a Redis count together, and
//! by themselves again while it is away.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hapax_core::Tenant;
use hapax_store::redis::RedisRates;

use crate::config::Config;
use crate::problem::{self, Refusal};
use crate::store::Store;

/// Counts a request of this tenant, if there is a limit, or says how long to wait.
pub(crate) async fn admit(rates: Option<&Rates>, tenant: Tenant) -> Result<(), Refusal> {
    match rates {
        Some(rates) => rates
            .admit(tenant)
            .await
            .map_err(|wait| problem::too_many_requests(wait).into()),
        None => Ok(()),
    }
}

/// How many tenants are remembered before those that are silent are forgotten.
const TENANTS_MAX: usize = 8192;
/// For how long a node may use what it took out of the shared rate.
const SHARE_LASTS: Duration = Duration::from_millis(500);
/// What a node takes at a time: a fraction of a second's requests, so that no node keeps much from the others.
const SHARES_PER_SECOND: u32 = 20;

/// The rates of all tenants.
#[derive(Debug)]
pub(crate) struct Rates {
    per_second: NonZeroU32,
    shared: Option<Arc<RedisRates>>,
    tenants: Mutex<HashMap<Tenant, Arc<tokio::sync::Mutex<Share>>>>,
}

/// What this node knows of one tenant's rate.
#[derive(Debug)]
struct Share {
    own: Bucket,
    /// Taken out of the shared rate and not used yet.
    credits: u32,
    credits_until: Instant,
    /// The shared rate is used up until then.
    refused_until: Instant,
}

impl Rates {
    /// So many for each tenant, or no limit at all if that is 0.
    pub(crate) fn new(per_second: u32, shared: Option<Arc<RedisRates>>) -> Option<Self> {
        Some(Self {
            per_second: NonZeroU32::new(per_second)?,
            shared,
            tenants: Mutex::default(),
        })
    }

    /// What the configuration says, shared where the store has a Redis.
    pub(crate) fn of(config: &Config, store: &Store) -> Option<Arc<Self>> {
        let rates = Self::new(config.tenant_requests_per_second, store.rates.clone());
        rates.map(Arc::new)
    }

    /// Counts a request of this tenant.
    ///
    /// # Errors
    /// How long to wait until there is room for one.
    pub(crate) async fn admit(&self, tenant: Tenant) -> Result<(), Duration> {
        let share = self.share(tenant, Instant::now());
        // One request at a time asks Redis for its tenant; those behind it find what it took.
        let mut share = share.lock().await;
        let admitted = self.count(tenant, &mut share).await;
        if admitted.is_err() {
            metrics::counter!("hapax_rate_limited_total").increment(1);
        }
        admitted
    }

    async fn count(&self, tenant: Tenant, share: &mut Share) -> Result<(), Duration> {
        let now = Instant::now();
        if share.credits > 0 && now < share.credits_until {
            share.credits -= 1;
            return Ok(());
        }
        if now < share.refused_until {
            return Err(share.refused_until - now);
        }
        let Some(shared) = &self.shared else {
            return share.own.take(self.per_second, now);
        };
        let wanted = (self.per_second.get() / SHARES_PER_SECOND).max(1);
        let taken = shared.take(tenant, self.per_second.get(), wanted).await;
        let now = Instant::now();
        match taken {
            Some(taken) if taken.requests > 0 => {
                (share.credits, share.credits_until) = (taken.requests - 1, now + SHARE_LASTS);
                Ok(())
            }
            Some(taken) => {
                share.refused_until = now + taken.wait;
                Err(taken.wait)
            }
            None => share.own.take(self.per_second, now),
        }
    }

    fn share(&self, tenant: Tenant, now: Instant) -> Arc<tokio::sync::Mutex<Share>> {
        let mut tenants = self.tenants();
        if tenants.len() >= TENANTS_MAX && !tenants.contains_key(&tenant) {
            // Who has not asked for a second has a whole rate again, which is what a new one has.
            tenants.retain(|_, share| share.try_lock().map_or(true, |share| !share.is_silent(now)));
        }
        let share = tenants
            .entry(tenant)
            .or_insert_with(|| Arc::new(tokio::sync::Mutex::new(Share::new(now))));
        Arc::clone(share)
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<Tenant, Arc<tokio::sync::Mutex<Share>>>> {
        // Nothing panics while this is held.
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn new(now: Instant) -> Self {
        Self {
            own: Bucket { unused_at: now },
            credits: 0,
            credits_until: now,
            refused_until: now,
        }
    }

    fn is_silent(&self, now: Instant) -> bool {
        self.own.unused_at <= now && self.credits_until <= now && self.refused_until <= now
    }
}

/// One node's own count: as many requests at once as there are in a second, then one after the other.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When nothing of the rate is in use any more.
    unused_at: Instant,
}

impl Bucket {
    fn take(&mut self, per_second: NonZeroU32, now: Instant) -> Result<(), Duration> {
        let each = Duration::from_secs(1) / per_second.get();
        let unused_at = self.unused_at.max(now) + each;
        match (unused_at - now).checked_sub(Duration::from_secs(1)) {
            None | Some(Duration::ZERO) => {
                self.unused_at = unused_at;
                Ok(())
            }
            Some(wait) => Err(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(number: u128) -> Tenant {
        Tenant::from_uuid(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn a_second_of_requests_may_come_at_once_and_then_one_after_the_other() {
        let (mut bucket, start) = (
            Bucket {
                unused_at: Instant::now(),
            },
            Instant::now(),
        );
        let five = NonZeroU32::new(5).unwrap();
        assert!((0..5).all(|_| bucket.take(five, start).is_ok()));
        let wait = bucket.take(five, start).unwrap_err();
        assert!(wait <= Duration::from_millis(200), "{wait:?}");
        assert!(bucket.take(five, start + wait).is_ok());
        assert!(bucket.take(five, start + wait).is_err(), "one, not more");
        let later = start + Duration::from_secs(9);
        let served = (0..20).filter(|_| bucket.take(five, later).is_ok()).count();
        assert_eq!(served, 5, "silence saves up no more than a second");
    }

    #[tokio::test]
    async fn tenants_do_not_use_up_each_others_rate() {
        let rates = Rates::new(2, None).unwrap();
        let mut served = [0, 0];
        for _ in 0..10 {
            served[0] += u32::from(rates.admit(tenant(1)).await.is_ok());
        }
        served[1] += u32::from(rates.admit(tenant(2)).await.is_ok());
        assert!((2..10).contains(&served[0]) && served[1] == 1, "{served:?}");
    }

    #[tokio::test]
    async fn tenants_that_are_silent_are_forgotten_when_room_is_needed() {
        let rates = Rates::new(1_000_000, None).unwrap();
        for number in 0..(TENANTS_MAX as u128 + 10) {
            assert!(rates.admit(tenant(number)).await.is_ok());
        }
        assert!(rates.tenants().len() <= TENANTS_MAX + 1);
    }

    #[test]
    fn nothing_is_counted_without_a_limit() {
        assert!(Rates::new(0, None).is_none());
    }
}
