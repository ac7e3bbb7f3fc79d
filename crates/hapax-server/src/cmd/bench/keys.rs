//! Keys: fresh ones, replays, and a crowd on each key whose answers are compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hapax::{Engine, Once};
use hapax_core::{Claim, Fingerprint, Key, Move, Outcome, Policy, Scope, Tenant};
use tokio::task::JoinSet;

use super::{Found, rate};

/// No part writes more keys than this.
const KEYS_MAX: usize = 20_000;
/// Keys that are asked for by a crowd.
const CROWDED: usize = 100;
/// How many of a crowd ask the same, and how many ask something else.
const SAME: usize = 8;
const OTHER: usize = 2;
/// Longer than anybody of a crowd runs.
const WAIT: Duration = Duration::from_secs(10);
const EMPTY_BATCH: usize = 500;

/// What was verified.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Keys whose effect ran, once each.
    pub(super) keys: usize,
    /// Requests that got the recorded bytes.
    pub(super) duplicates: usize,
    /// Requests that were refused, since the key stood for another one.
    pub(super) conflicts: usize,
}

/// The keys of one run.
pub(super) struct Keys {
    engine: Engine,
    scope: Scope,
    /// How many names were taken, so that all can be emptied.
    taken: Arc<AtomicUsize>,
}

impl Keys {
    pub(super) fn new(engine: Engine, tenant: Tenant) -> Result<Self> {
        Ok(Self {
            engine,
            scope: Scope::new(tenant, "bench")?,
            taken: Arc::default(),
        })
    }

    /// Fresh keys and replays, one and 64 at a time, then the crowd.
    pub(super) async fn measure(&mut self, time: Duration) -> Result<(Vec<Found>, Checked)> {
        let mut found = Vec::new();
        for at_once in [1, 64] {
            let before = self.taken.load(Ordering::Relaxed);
            found.push(self.fresh(at_once, time).await?);
            let after = self.taken.load(Ordering::Relaxed);
            found.push(self.replay(at_once, time, before..after).await?);
        }
        Ok((found, self.crowd().await?))
    }

    async fn fresh(&self, at_once: usize, time: Duration) -> Result<Found> {
        let most = self.taken.load(Ordering::Relaxed) + KEYS_MAX;
        let (begun, mut workers) = (Instant::now(), JoinSet::new());
        for _ in 0..at_once {
            let (engine, scope, taken) =
                (self.engine.clone(), self.scope.clone(), self.taken.clone());
            workers.spawn(async move {
                let mut took = Vec::new();
                while begun.elapsed() < time && taken.load(Ordering::Relaxed) < most {
                    let n = taken.fetch_add(1, Ordering::Relaxed);
                    let asked = Instant::now();
                    let answer = once(&engine, &scope, n).await?;
                    ensure!(!answer.1, "the fresh key {n} was answered with a replay");
                    took.push(asked.elapsed());
                }
                Ok(took)
            });
        }
        finish("fresh keys", at_once, begun, workers).await
    }

    async fn replay(
        &self,
        at_once: usize,
        time: Duration,
        names: std::ops::Range<usize>,
    ) -> Result<Found> {
        let (begun, mut workers) = (Instant::now(), JoinSet::new());
        for worker in 0..at_once {
            let (engine, scope, names) = (self.engine.clone(), self.scope.clone(), names.clone());
            workers.spawn(async move {
                let mut took = Vec::new();
                for n in names.cycle_from(worker) {
                    if begun.elapsed() >= time || took.len() >= KEYS_MAX {
                        break;
                    }
                    let asked = Instant::now();
                    let (bytes, replayed) = once(&engine, &scope, n).await?;
                    ensure!(replayed, "the key {n} ran a second time");
                    ensure!(
                        bytes == text(n),
                        "the key {n} was answered with other bytes"
                    );
                    took.push(asked.elapsed());
                }
                Ok(took)
            });
        }
        finish("replays", at_once, begun, workers).await
    }

    /// Everybody asks for the same keys at once: the effect of each runs once, and all get its bytes.
    async fn crowd(&self) -> Result<Checked> {
        let first = self.taken.fetch_add(CROWDED, Ordering::Relaxed);
        let ran: Arc<Vec<AtomicUsize>> =
            Arc::new((0..CROWDED).map(|_| AtomicUsize::new(0)).collect());
        let mut askers = JoinSet::new();
        for at in 0..CROWDED {
            for asker in 0..SAME {
                let (engine, ran) = (self.engine.clone(), ran.clone());
                let claim = claim(&self.scope, first + at, b"same")?;
                askers.spawn(async move {
                    let answer = format!("answer of {asker}");
                    let done = engine
                        .once(claim, async |_fence| {
                            ran[at].fetch_add(1, Ordering::Relaxed);
                            Outcome::text(200, &answer)
                        })
                        .await?;
                    Ok::<_, anyhow::Error>((at, done))
                });
            }
        }
        let mut answers: Vec<Vec<bytes::Bytes>> = vec![Vec::new(); CROWDED];
        while let Some(asked) = askers.join_next().await {
            let (at, done) = asked??;
            let receipt = done.receipt()?;
            answers[at].extend(receipt.outcome.whole().cloned());
        }
        for (at, answers) in answers.iter().enumerate() {
            let times = ran[at].load(Ordering::Relaxed);
            ensure!(times == 1, "an effect ran {times} times under one key");
            ensure!(
                answers.len() == SAME && answers.iter().all(|answer| *answer == answers[0]),
                "the answers of one key differ"
            );
        }
        for at in 0..CROWDED * OTHER {
            let claim = claim(&self.scope, first + at % CROWDED, b"other")?;
            let other = self
                .engine
                .once(claim, async |_| Outcome::text(200, "other"));
            ensure!(
                matches!(other.await?, Once::Conflict(_)),
                "another request under a used key was not refused"
            );
        }
        Ok(Checked {
            keys: CROWDED,
            duplicates: CROWDED * (SAME - 1),
            conflicts: CROWDED * OTHER,
        })
    }

    /// Takes the content of every key back. Says how many there were.
    pub(super) async fn empty(&self) -> Result<usize> {
        let taken = self.taken.load(Ordering::Relaxed);
        let (ledger, mut emptied) = (self.engine.ledger(), 0);
        let names: Vec<usize> = (0..taken).collect();
        for names in names.chunks(EMPTY_BATCH) {
            let mut moves = Vec::with_capacity(names.len());
            for n in names {
                if let Some(record) = self.engine.find(&self.scope, &name(*n)?).await? {
                    let freed = record.freed(ledger.now());
                    moves.push(Move::replacing(&record, freed));
                }
            }
            emptied += moves.len();
            ledger.swap(moves).await?;
        }
        Ok(emptied)
    }
}

/// A range walked in a circle, from one of its places.
trait Circle {
    fn cycle_from(self, at: usize) -> impl Iterator<Item = usize>;
}

impl Circle for std::ops::Range<usize> {
    fn cycle_from(self, at: usize) -> impl Iterator<Item = usize> {
        let length = self.len().max(1);
        self.cycle().skip(at % length)
    }
}

/// Runs under the `n`th key: the bytes of the answer, and whether it was a replay.
async fn once(engine: &Engine, scope: &Scope, n: usize) -> Result<(String, bool)> {
    let work = async |_fence| Outcome::text(200, &text(n));
    let receipt = engine
        .once(claim(scope, n, b"same")?, work)
        .await?
        .receipt()?;
    let bytes = receipt.outcome.whole().map(|bytes| bytes.to_vec());
    Ok((
        String::from_utf8(bytes.unwrap_or_default())?,
        receipt.replayed,
    ))
}

fn claim(scope: &Scope, n: usize, asked: &[u8]) -> Result<Claim> {
    let policy = Policy {
        wait: WAIT,
        ..Policy::default()
    };
    let claim = Claim::new(
        scope.clone(),
        name(n)?,
        Fingerprint::of(asked),
        Engine::owner(),
    );
    Ok(claim.with_policy(policy))
}

fn name(n: usize) -> Result<Key> {
    Ok(Key::new(&format!("bench-{n:08}"))?)
}

/// About 200 bytes.
fn text(n: usize) -> String {
    format!(
        r#"{{"number":{n},"note":"{}"}}"#,
        "leave it at the door ".repeat(8)
    )
}

async fn finish(
    what: &'static str,
    at_once: usize,
    begun: Instant,
    mut workers: JoinSet<Result<Vec<Duration>>>,
) -> Result<Found> {
    let mut took: Vec<Duration> = Vec::new();
    while let Some(worker) = workers.join_next().await {
        took.extend(worker??);
    }
    let per_second = rate(took.len(), begun);
    took.sort_unstable();
    let at = |of_hundred: usize| {
        let rank = (took.len() * of_hundred).div_ceil(100).max(1) - 1;
        took.get(rank).map(|took| took.as_secs_f64() * 1e6)
    };
    Ok(Found {
        what,
        at_once,
        rate: per_second,
        unit: "requests",
        took_us: at(50).zip(at(99)),
    })
}
