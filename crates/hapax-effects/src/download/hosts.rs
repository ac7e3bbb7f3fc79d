//! The hosts that are asked: how many requests each gets at a time, how many of those are one tenant's, and which of them
//! asked to be left alone. All jobs of the process share it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use url::Url;

/// How many hosts are remembered before those that nobody uses are forgotten.
const HOSTS_KEPT: usize = 1024;

/// The hosts that are asked.
#[derive(Debug)]
pub(super) struct Hosts {
    per_host_max: usize,
    /// How many of those are one tenant's.
    share_max: usize,
    known: Mutex<HashMap<String, Arc<Host>>>,
}

#[derive(Debug)]
struct Host {
    turns: Arc<Semaphore>,
    shares: Mutex<HashMap<Tenant, Arc<Semaphore>>>,
    rests_until: Mutex<Option<Instant>>,
}

impl Host {
    fn rest_left(&self) -> Option<Duration> {
        let left = (*locked(&self.rests_until))?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// What this tenant may have of the turns. Shares that nobody uses are forgotten.
    fn share(&self, tenant: Tenant, most: usize) -> Arc<Semaphore> {
        let mut shares = locked(&self.shares);
        shares.retain(|of, share| *of == tenant || Arc::strong_count(share) > 1);
        let new = || Arc::new(Semaphore::new(most));
        Arc::clone(shares.entry(tenant).or_insert_with(new))
    }
}

/// The right to ask a host, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
    _share: Option<OwnedSemaphorePermit>,
}

impl Hosts {
    /// Hosts that get this many requests at a time. If tenants share them, one gets at most half, rounded up: whatever its
    /// hosts do to it, the others have the rest.
    pub(super) fn new(per_host_max: usize, shared: bool) -> Self {
        let per_host_max = per_host_max.max(1);
        Self {
            per_host_max,
            share_max: if shared {
                per_host_max.div_ceil(2)
            } else {
                per_host_max
            },
            known: Mutex::default(),
        }
    }

    /// Waits for a turn. If the host rests for longer than `patience`, that is the answer.
    ///
    /// A tenant waits within its own share first. So no more of its requests wait for the host than it may have, and
    /// where a host has one turn only, tenants have it one after the other.
    pub(super) async fn turn(
        &self,
        (url, tenant): (&Url, Tenant),
        patience: Duration,
    ) -> Result<Turn, Duration> {
        let host = self.host(url);
        loop {
            if let Some(left) = host.rest_left() {
                if left > patience {
                    return Err(left);
                }
                tokio::time::sleep(left).await;
            }
            // The semaphores are never closed.
            let share = host.share(tenant, self.share_max).acquire_owned().await;
            let turn = Arc::clone(&host.turns).acquire_owned().await;
            if host.rest_left().is_none() {
                return Ok(Turn {
                    _permit: turn.ok(),
                    _share: share.ok(),
                });
            }
        }
    }

    /// Leaves the host alone for this long, or for longer if that was said before.
    pub(super) fn rest(&self, url: &Url, span: Duration) {
        let host = self.host(url);
        let mut until = locked(&host.rests_until);
        *until = Some(Instant::now() + span).max(*until);
    }

    fn host(&self, url: &Url) -> Arc<Host> {
        let port = url.port_or_known_default().unwrap_or(0);
        // With or without the dot of the root it is the same host.
        let name = url.host_str().unwrap_or_default().trim_end_matches('.');
        let name = format!("{name}:{port}");
        let mut hosts = locked(&self.known);
        if hosts.len() >= HOSTS_KEPT {
            hosts.retain(|_, host| {
                let is_used = Arc::strong_count(host) > 1
                    || host.turns.available_permits() < self.per_host_max;
                is_used || host.rest_left().is_some()
            });
        }
        let new = || {
            Arc::new(Host {
                turns: Arc::new(Semaphore::new(self.per_host_max)),
                shares: Mutex::default(),
                rests_until: Mutex::default(),
            })
        };
        hosts.entry(name).or_insert_with(new).clone()
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: Tenant = Tenant::DEFAULT;

    fn bob() -> Tenant {
        "22222222-2222-2222-2222-222222222222".parse().unwrap()
    }

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_gets_so_many_requests_at_a_time_and_others_are_not_held_up() {
        let hosts = Hosts::new(2, false);
        let patience = Duration::from_secs(1);
        let (first, _second) = (
            hosts
                .turn((&url("http://a/1"), ADA), patience)
                .await
                .unwrap(),
            hosts
                .turn((&url("http://a:80/2"), ADA), patience)
                .await
                .unwrap(),
        );
        let target = url("http://a/3");
        let third = hosts.turn((&target, ADA), patience);
        tokio::pin!(third);
        assert!(
            tokio::time::timeout(patience * 9, &mut third)
                .await
                .is_err()
        );
        hosts
            .turn((&url("http://b/"), ADA), patience)
            .await
            .unwrap();
        hosts
            .turn((&url("http://a:81/"), ADA), patience)
            .await
            .unwrap();
        drop(first);
        third.await.unwrap();
    }

    /// The turns of a tenant that come while nobody gives one back.
    async fn turns_of(hosts: &Hosts, tenant: Tenant, most: usize) -> Vec<Turn> {
        let (target, patience) = (url("http://a/"), Duration::from_secs(1));
        let mut turns = Vec::new();
        for _ in 0..most {
            let turn = hosts.turn((&target, tenant), patience);
            match tokio::time::timeout(patience, turn).await {
                Ok(turn) => turns.push(turn.unwrap()),
                Err(_) => break,
            }
        }
        turns
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_has_half_of_a_host_and_the_rest_is_for_the_others() {
        for (places, own) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
            let hosts = Hosts::new(places, true);
            let ada = turns_of(&hosts, ADA, 9).await;
            let bob = turns_of(&hosts, bob(), 9).await;
            assert_eq!((ada.len(), bob.len()), (own, places - own), "{places}");
            drop(ada);
            assert_eq!(turns_of(&hosts, ADA, 9).await.len(), own, "{places}");
        }
        let alone = Hosts::new(4, false);
        assert_eq!(turns_of(&alone, ADA, 9).await.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn no_spelling_of_a_host_brings_more_turns_or_ends_its_rest() {
        let hosts = Hosts::new(1, true);
        let one = hosts.host(&url("http://example.org/"));
        for same in [
            "http://example.org./",
            "http://EXAMPLE.ORG.:80/a",
            "http://example.org../",
            "http://example\u{3002}org/",
            "http://ex%61mple.org./",
            "http://e\u{ad}xample.org/",
        ] {
            assert!(Arc::ptr_eq(&one, &hosts.host(&url(same))), "{same}");
        }
        for other in ["http://example.org:81/", "http://www.example.org/"] {
            assert!(!Arc::ptr_eq(&one, &hosts.host(&url(other))), "{other}");
        }
        hosts.rest(&url("http://example.org/"), Duration::from_secs(50));
        let dotted = url("http://example.org./");
        assert!(hosts.turn((&dotted, ADA), Duration::ZERO).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_only_turn_of_a_host_goes_from_tenant_to_tenant() {
        let (hosts, target) = (Hosts::new(1, true), url("http://a/"));
        let first = turns_of(&hosts, ADA, 1).await;
        let order = Mutex::new(Vec::new());
        let next = |tenant, name: &'static str| {
            let (hosts, target, order) = (&hosts, &target, &order);
            async move {
                let _turn = hosts.turn((target, tenant), Duration::ZERO).await.unwrap();
                locked(order).push(name);
            }
        };
        let give_back = async { drop(first) };
        tokio::join!(
            next(ADA, "ada"),
            next(ADA, "ada again"),
            next(bob(), "bob"),
            give_back
        );
        assert_eq!(*locked(&order), ["bob", "ada", "ada again"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_asked_for_rest_is_left_alone_by_everyone() {
        let hosts = Hosts::new(2, false);
        let (target, begun) = (url("http://a/"), Instant::now());
        hosts.rest(&target, Duration::from_secs(5));
        hosts.rest(&target, Duration::from_secs(2));
        hosts
            .turn((&target, ADA), Duration::from_secs(10))
            .await
            .unwrap();
        assert!(
            begun.elapsed() >= Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );

        hosts.rest(&target, Duration::from_secs(50));
        let left = hosts
            .turn((&target, ADA), Duration::from_secs(10))
            .await
            .unwrap_err();
        assert!(
            left > Duration::from_secs(49),
            "the wait is told instead: {left:?}"
        );
    }

    #[tokio::test]
    async fn hosts_that_nobody_uses_are_forgotten() {
        let hosts = Hosts::new(1, true);
        let kept = url("http://kept/");
        let _turn = hosts.turn((&kept, ADA), Duration::ZERO).await.unwrap();
        for number in 0..3 * HOSTS_KEPT {
            hosts.host(&url(&format!("http://h{number}/")));
        }
        let known = hosts.known.lock().unwrap();
        assert!(known.len() <= HOSTS_KEPT && known.contains_key("kept:80"));
        let host = Arc::clone(&known["kept:80"]);
        for number in 0..100 {
            let tenant = format!("00000000-0000-0000-0000-{number:012}");
            host.share(tenant.parse().unwrap(), 1);
        }
        assert!(locked(&host.shares).len() <= 2, "and so are shares");
    }
}
