//! The hosts that are asked: how many requests each gets at a time, and which of them asked to be left alone.
//! All jobs of the process share it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use url::Url;

/// How many hosts are remembered before those that nobody uses are forgotten.
const HOSTS_KEPT: usize = 1024;

/// The hosts that are asked.
#[derive(Debug)]
pub(super) struct Hosts {
    per_host_max: usize,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

#[derive(Debug)]
struct Host {
    turns: Arc<Semaphore>,
    rests_until: Mutex<Option<Instant>>,
}

impl Host {
    fn rest_left(&self) -> Option<Duration> {
        let until = *self
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let left = until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// The right to ask a host, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Hosts {
    pub(super) fn new(per_host_max: usize) -> Self {
        Self {
            per_host_max: per_host_max.max(1),
            hosts: Mutex::default(),
        }
    }

    /// Waits for a turn. If the host rests for longer than `patience`, that is the answer.
    pub(super) async fn turn(&self, url: &Url, patience: Duration) -> Result<Turn, Duration> {
        let host = self.host(url);
        loop {
            if let Some(left) = host.rest_left() {
                if left > patience {
                    return Err(left);
                }
                tokio::time::sleep(left).await;
            }
            // The semaphore is never closed.
            let permit = host.turns.clone().acquire_owned().await.ok();
            if host.rest_left().is_none() {
                return Ok(Turn { _permit: permit });
            }
        }
    }

    /// Leaves the host alone for this long, or for longer if that was said before.
    pub(super) fn rest(&self, url: &Url, span: Duration) {
        let host = self.host(url);
        let mut until = host
            .rests_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *until = Some(Instant::now() + span).max(*until);
    }

    fn host(&self, url: &Url) -> Arc<Host> {
        let port = url.port_or_known_default().unwrap_or(0);
        let name = format!("{}:{port}", url.host_str().unwrap_or_default());
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
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
                rests_until: Mutex::default(),
            })
        };
        hosts.entry(name).or_insert_with(new).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_gets_so_many_requests_at_a_time_and_others_are_not_held_up() {
        let hosts = Hosts::new(2);
        let patience = Duration::from_secs(1);
        let (first, _second) = (
            hosts.turn(&url("http://a/1"), patience).await.unwrap(),
            hosts.turn(&url("http://a:80/2"), patience).await.unwrap(),
        );
        let target = url("http://a/3");
        let third = hosts.turn(&target, patience);
        tokio::pin!(third);
        assert!(
            tokio::time::timeout(patience * 9, &mut third)
                .await
                .is_err()
        );
        hosts.turn(&url("http://b/"), patience).await.unwrap();
        hosts.turn(&url("http://a:81/"), patience).await.unwrap();
        drop(first);
        third.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_asked_for_rest_is_left_alone_by_everyone() {
        let hosts = Hosts::new(2);
        let (target, begun) = (url("http://a/"), Instant::now());
        hosts.rest(&target, Duration::from_secs(5));
        hosts.rest(&target, Duration::from_secs(2));
        hosts.turn(&target, Duration::from_secs(10)).await.unwrap();
        assert!(
            begun.elapsed() >= Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );

        hosts.rest(&target, Duration::from_secs(50));
        let left = hosts
            .turn(&target, Duration::from_secs(10))
            .await
            .unwrap_err();
        assert!(
            left > Duration::from_secs(49),
            "the wait is told instead: {left:?}"
        );
    }

    #[tokio::test]
    async fn hosts_that_nobody_uses_are_forgotten() {
        let hosts = Hosts::new(1);
        let kept = url("http://kept/");
        let _turn = hosts.turn(&kept, Duration::ZERO).await.unwrap();
        for number in 0..3 * HOSTS_KEPT {
            hosts.host(&url(&format!("http://h{number}/")));
        }
        let known = hosts.hosts.lock().unwrap();
        assert!(known.len() <= HOSTS_KEPT && known.contains_key("kept:80"));
    }
}
