//! Credentials that the store confirmed lately, and how often it is asked about others. Who a credential stands for is
//! decided in `auth`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hapax_core::Error;
use tokio::sync::Semaphore;

use super::Identity;
use crate::problem::{self, Refusal};
use crate::throttle::Looks;

/// How long a verified token is trusted without asking the store, and so how late its revocation may act.
const TRUSTED_FOR: Duration = Duration::from_millis(900);
/// How long a credential that was right may be asked about whatever others at its address did.
const KNOWN_FOR: Duration = Duration::from_secs(600);
const KNOWN_MAX: usize = 4096;
/// How many credentials that are not known the store is asked about at a time.
const LOOKS_AT_ONCE: usize = 32;

/// What was confirmed, and when.
pub(super) struct Confirmed {
    known: Mutex<HashMap<[u8; 32], (Instant, Identity)>>,
    turns: Semaphore,
    looks: Looks,
}

impl Default for Confirmed {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            turns: Semaphore::new(LOOKS_AT_ONCE),
            looks: Looks::default(),
        }
    }
}

impl Confirmed {
    /// The identity behind the credential with this hash, if it was confirmed a moment ago.
    pub(super) fn trusted(&self, hash: &[u8; 32], now: Instant) -> Option<Identity> {
        let known = self.locked();
        let (since, identity) = known.get(hash)?;
        (now.saturating_duration_since(*since) < TRUSTED_FOR).then(|| identity.clone())
    }

    /// Asks the store about a credential with `ask`. A peer that was wrong too often is told to wait, and the store is not
    /// asked; a credential that was right lately is not held up by what others at its address did.
    pub(super) async fn look(
        &self,
        hash: &[u8; 32],
        peer: IpAddr,
        ask: impl Future<Output = Result<Option<Identity>, Error>>,
    ) -> Result<Option<Identity>, Refusal> {
        let mut turn = None;
        if !self.is_known(hash, Instant::now()) {
            self.admit(peer)?;
            turn = self.turns.acquire().await.ok();
            // One in a row of guesses sees what came of those before it.
            self.admit(peer)?;
        }
        metrics::counter!("hapax_auth_lookups_total").increment(1);
        let found = ask.await?;
        drop(turn);
        let now = Instant::now();
        if let Some(identity) = &found {
            self.keep(*hash, now, identity.clone());
        } else {
            self.looks.wrong(peer, now);
            self.locked().remove(hash);
        }
        Ok(found)
    }

    /// Refuses a peer that was wrong too often.
    fn admit(&self, peer: IpAddr) -> Result<(), Refusal> {
        match self.looks.used_up(peer, Instant::now()) {
            None => Ok(()),
            Some(wait) => {
                metrics::counter!("hapax_auth_failures_total").increment(1);
                Err(problem::rate_limited(wait).into())
            }
        }
    }

    fn is_known(&self, hash: &[u8; 32], now: Instant) -> bool {
        let known = self.locked();
        let since = known.get(hash).map(|(since, _)| *since);
        since.is_some_and(|since| now.saturating_duration_since(since) < KNOWN_FOR)
    }

    fn keep(&self, hash: [u8; 32], now: Instant, identity: Identity) {
        let mut known = self.locked();
        if known.len() >= KNOWN_MAX && !known.contains_key(&hash) {
            for lasts in [KNOWN_FOR, TRUSTED_FOR] {
                if known.len() >= KNOWN_MAX {
                    known.retain(|_, (since, _)| now.saturating_duration_since(*since) < lasts);
                }
            }
        }
        if known.len() < KNOWN_MAX || known.contains_key(&hash) {
            known.insert(hash, (now, identity));
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, Identity)>> {
        // Nothing panics while this is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::owner_by_configuration;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn hash(number: u32) -> [u8; 32] {
        crate::token::sha256(&number.to_le_bytes())
    }

    async fn look(confirmed: &Confirmed, number: u32, right: bool) -> Option<bool> {
        let ask = async { Ok(right.then(owner_by_configuration)) };
        let looked = confirmed.look(&hash(number), PEER, ask).await;
        looked.ok().map(|found| found.is_some())
    }

    #[tokio::test]
    async fn the_store_is_not_asked_about_more_and_more_wrong_credentials_of_one_peer() {
        let confirmed = Confirmed::default();
        assert_eq!(look(&confirmed, 1, true).await, Some(true));
        let mut asked = 0;
        for number in 100..1100 {
            asked += u32::from(look(&confirmed, number, false).await.is_some());
        }
        assert!((1..=64).contains(&asked), "{asked}");
        assert_eq!(
            look(&confirmed, 1, true).await,
            Some(true),
            "it was right lately"
        );
        assert_eq!(look(&confirmed, 2, true).await, None, "nobody knows it");
        assert_eq!(
            look(&confirmed, 1, false).await,
            Some(false),
            "it was revoked"
        );
        assert_eq!(look(&confirmed, 1, true).await, None);
    }

    #[tokio::test]
    async fn guesses_at_once_are_looked_at_no_oftener_than_in_turn() {
        let confirmed = std::sync::Arc::new(Confirmed::default());
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let guesses = (0..1000).map(|number| {
            let (confirmed, asked) = (confirmed.clone(), asked.clone());
            tokio::spawn(async move {
                let ask = async {
                    asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    Ok(None)
                };
                let _ = confirmed.look(&hash(number), PEER, ask).await;
            })
        });
        for guess in guesses.collect::<Vec<_>>() {
            guess.await.unwrap();
        }
        assert!(asked.load(std::sync::atomic::Ordering::SeqCst) <= 64);
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let confirmed = Confirmed::default();
        for number in 0..u32::try_from(KNOWN_MAX).unwrap() + 10 {
            look(&confirmed, number, true).await;
        }
        assert!(confirmed.locked().len() <= KNOWN_MAX);
    }
}
