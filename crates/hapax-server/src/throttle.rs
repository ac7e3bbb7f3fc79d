//! Counts failed sign-ins per address and per token id, in bounded memory.
//! It never looks at a valid credential: others' failures lock nobody out.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hapax_store::TokenId;

/// How many failures a window takes before the answer is "slow down".
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// How many addresses, and how many ids, are told apart; the rest of a window shares one count.
const ENTRIES_MAX: usize = 8192;

/// How many wrong credentials of one address the store is asked about in a window.
const LOOKS_MAX: u32 = 30;

/// The credentials of the last minute that the store was asked about and did not confirm.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<Counts<IpAddr>>);

impl Looks {
    /// How long the store is asked about nothing more from this address, if it was asked too often.
    pub(crate) fn used_up(&self, peer: IpAddr, now: Instant) -> Option<Duration> {
        locked(&self.0).over(network(peer), LOOKS_MAX, now)
    }

    pub(crate) fn wrong(&self, peer: IpAddr, now: Instant) {
        locked(&self.0).count(network(peer), now);
    }
}

/// The failures of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    by_peer: Mutex<Counts<IpAddr>>,
    by_id: Mutex<Counts<TokenId>>,
}

impl Failures {
    /// Counts a failure. Answers how long to stay away if there were too many.
    pub(crate) fn count(
        &self,
        peer: IpAddr,
        id: Option<TokenId>,
        now: Instant,
    ) -> Option<Duration> {
        let by_peer = locked(&self.by_peer).count(network(peer), now);
        let by_id = id.and_then(|id| locked(&self.by_id).count(id, now));
        by_peer.max(by_id)
    }
}

/// Nothing panics while this is held.
fn locked<K>(counts: &Mutex<Counts<K>>) -> MutexGuard<'_, Counts<K>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts of one window per key. `None` collects what does not fit.
#[derive(Debug)]
struct Counts<K> {
    windows: HashMap<Option<K>, Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    ends: Instant,
    failures: u32,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self {
            windows: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq> Counts<K> {
    /// How long the window of this key lasts, if it has so many failures already.
    fn over(&self, key: K, failures_max: u32, now: Instant) -> Option<Duration> {
        let key = Some(key);
        let own = self.windows.get(&key);
        let shared = || {
            self.windows
                .get(&None)
                .filter(|_| self.windows.len() >= ENTRIES_MAX)
        };
        let window = own.or_else(shared)?;
        (window.ends > now && window.failures >= failures_max).then(|| window.ends - now)
    }

    fn count(&mut self, key: K, now: Instant) -> Option<Duration> {
        let mut key = Some(key);
        if self.windows.len() >= ENTRIES_MAX && !self.windows.contains_key(&key) {
            self.windows.retain(|_, window| window.ends > now);
            if self.windows.len() >= ENTRIES_MAX {
                key = None;
            }
        }
        let window = self.windows.entry(key).or_insert(Window {
            ends: now + WINDOW,
            failures: 0,
        });
        if window.ends <= now {
            *window = Window {
                ends: now + WINDOW,
                failures: 0,
            };
        }
        window.failures = window.failures.saturating_add(1);
        (window.failures > FAILURES_MAX).then(|| window.ends - now)
    }
}

/// The address, or its /64 where one client commonly has a whole network.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn the_eleventh_failure_in_a_minute_is_told_to_wait_for_the_rest_of_it() {
        let (failures, start) = (Failures::default(), Instant::now());
        for _ in 0..10 {
            assert_eq!(failures.count(PEER, None, start), None);
        }
        assert_eq!(
            failures.count(PEER, None, start + WINDOW / 4),
            Some(WINDOW / 4 * 3)
        );
        assert_eq!(
            failures.count(PEER, None, start + WINDOW),
            None,
            "a new minute"
        );
    }

    #[test]
    fn an_id_is_counted_over_all_addresses() {
        let (failures, now, id) = (Failures::default(), Instant::now(), TokenId(Uuid::nil()));
        let peer = |last| IpAddr::from([10, 0, 0, last]);
        assert!((0..10).all(|last| failures.count(peer(last), Some(id), now).is_none()));
        assert!(failures.count(peer(10), Some(id), now).is_some());
        assert_eq!(
            failures.count(peer(11), None, now),
            None,
            "another address without that id goes on"
        );
    }

    #[test]
    fn one_network_of_ipv6_is_one_client() {
        let (failures, now) = (Failures::default(), Instant::now());
        let peer = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, last]);
        assert!((0..10).all(|last| failures.count(peer(last), None, now).is_none()));
        assert!(failures.count(peer(10), None, now).is_some());
    }

    #[test]
    fn an_address_uses_up_its_looks_and_has_them_again_after_the_window() {
        let (looks, now) = (Looks::default(), Instant::now());
        let other = IpAddr::from([10, 0, 0, 1]);
        for _ in 0..LOOKS_MAX {
            assert_eq!(looks.used_up(PEER, now), None);
            looks.wrong(PEER, now);
        }
        assert_eq!(looks.used_up(PEER, now), Some(WINDOW));
        assert_eq!(looks.used_up(other, now), None);
        assert_eq!(looks.used_up(PEER, now + WINDOW), None);
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let (failures, now) = (Failures::default(), Instant::now());
        for number in 0..(ENTRIES_MAX as u128 * 2) {
            failures.count(PEER, Some(TokenId(Uuid::from_u128(number))), now);
        }
        assert!(failures.by_id.lock().unwrap().windows.len() <= ENTRIES_MAX + 1);
        failures.count(PEER, Some(TokenId(Uuid::max())), now + WINDOW);
        assert_eq!(
            failures.by_id.lock().unwrap().windows.len(),
            1,
            "what is over is forgotten when room is needed"
        );
    }
}
