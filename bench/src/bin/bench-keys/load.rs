//! The load: connections that each ask, wait, check the answer and ask again, for a while.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax_bench::latency::Latencies;
use tokio::task::LocalSet;

use crate::sizes;
use crate::talk::Talk;
use crate::wire::Wire;

/// Which keys are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keys {
    /// Each key once.
    Fresh,
    /// A few keys that were answered before, again and again.
    Replayed,
    /// Keys taken at random from this many that [`crate::sizes`] stored.
    Stored(u64),
}

impl Keys {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Keys::Fresh => "fresh",
            Keys::Replayed => "replay",
            Keys::Stored(_) => "replay from the store",
        }
    }
}

/// What is sent to a server, or to several that connections are dealt out to.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) talk: Talk,
    pub(crate) keys: Keys,
    pub(crate) connections: usize,
}

/// What the connections saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) operations: u64,
    pub(crate) took: Duration,
    pub(crate) latencies: Latencies,
}

/// Names keys, so that no two rounds of a run share a fresh one.
#[derive(Debug)]
pub(crate) struct Names {
    run: String,
    next: Cell<u64>,
}

/// What each replayed key must be answered with; nothing when keys are fresh.
pub(crate) type Recorded = Option<Rc<Vec<Vec<u8>>>>;

/// How many keys are replayed in turn.
const REPLAYED_KEYS: usize = 256;

impl Names {
    pub(crate) fn new() -> Self {
        Self {
            run: uuid::Uuid::new_v4().simple().to_string(),
            next: Cell::new(0),
        }
    }

    /// A key like those of most clients: random, so that it falls anywhere in an index.
    pub(crate) fn fresh(&self) -> String {
        let n = self.number();
        format!("{:016x}-{}-{n:x}", spread(n), self.run)
    }

    /// A number that was not given before in this run.
    fn number(&self) -> u64 {
        let n = self.next.get();
        self.next.set(n + 1);
        n
    }

    pub(crate) fn replayed(&self, n: usize) -> String {
        format!("again-{}-{n:06}", self.run)
    }
}

impl Load {
    /// Has every key that will be replayed answered; the answers.
    ///
    /// # Errors
    /// When an answer is wrong.
    pub(crate) async fn prepare(&self, names: &Names) -> Result<Recorded> {
        match self.keys {
            Keys::Fresh | Keys::Stored(_) => return Ok(None),
            Keys::Replayed => {}
        }
        let mut wire = Wire::open(self.address(0)).await?;
        let mut recorded = Vec::with_capacity(REPLAYED_KEYS);
        for n in 0..REPLAYED_KEYS {
            recorded.push(self.talk.prime(&mut wire, &names.replayed(n)).await?);
        }
        Ok(Some(Rc::new(recorded)))
    }

    /// Sends for `time` and says what was seen.
    ///
    /// # Errors
    /// When an answer is wrong: the figures of a server that answers wrongly mean nothing.
    pub(crate) async fn run(
        &self,
        names: &Rc<Names>,
        recorded: Recorded,
        time: Duration,
    ) -> Result<Seen> {
        let begun = Instant::now();
        let until = begun + time;
        let mut seen = Seen::default();
        let local = LocalSet::new();
        let connections: Vec<_> = (0..self.connections)
            .map(|n| {
                let one = self.clone();
                local.spawn_local(one.connection(n, Rc::clone(names), recorded.clone(), until))
            })
            .collect();
        local.await;
        for connection in connections {
            let latencies = connection.await.context("a connection panicked")??;
            seen.operations += latencies.len() as u64;
            seen.latencies.merge(latencies);
        }
        seen.took = begun.elapsed();
        Ok(seen)
    }

    fn address(&self, connection: usize) -> SocketAddr {
        self.addresses[connection % self.addresses.len()]
    }

    async fn connection(
        self,
        n: usize,
        names: Rc<Names>,
        recorded: Recorded,
        until: Instant,
    ) -> Result<Latencies> {
        let mut wire = Wire::open(self.address(n)).await?;
        let mut latencies = Latencies::default();
        // Connections begin at different keys, so that they do not follow each other.
        let mut turn = n * 7919;
        while Instant::now() < until {
            turn = (turn + 1) % REPLAYED_KEYS;
            let (key, stored) = match self.keys {
                Keys::Fresh => (names.fresh(), None),
                Keys::Replayed => (names.replayed(turn), None),
                Keys::Stored(count) => {
                    let key = sizes::key(spread(names.number()) % count);
                    let answer = sizes::answer(&key);
                    (key, Some(answer))
                }
            };
            let recorded = recorded.as_ref().map(|recorded| &recorded[turn][..]);
            let answer = stored.as_deref().map(str::as_bytes).or(recorded);
            let asked = Instant::now();
            self.talk.once(&mut wire, &key, answer).await?;
            latencies.add(asked.elapsed());
        }
        Ok(latencies)
    }
}

/// A number that looks random, another for every `n`.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
