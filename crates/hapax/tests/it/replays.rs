//! The shared cache in front of a ledger: it may answer a replay, and nothing else that it says counts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::core::replays::{Known, Replays};
use hapax::core::{
    Claim, Fingerprint, Key, Ledger, Move, Outcome, Policy, Record, RecordId, Scope, State, Tenant,
    Time, Version,
};
use hapax::store::{Clock, MemoryLedger};
use hapax::{Claimed, Engine, Settled};

/// A cache that says what a test tells it, and remembers what it was told.
#[derive(Default)]
struct Told {
    knows: Mutex<Option<Record>>,
    asked: AtomicUsize,
    kept: Mutex<Vec<(RecordId, u64)>>,
    forgotten: Mutex<Vec<RecordId>>,
    /// Whose outcome is taken back while the cache is asked.
    meanwhile: Mutex<Option<(Arc<MemoryLedger>, Record)>>,
}

impl Replays for Told {
    fn get(&self, _: Tenant, id: RecordId, _: u64) -> Known<'_> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let meanwhile = self.meanwhile.lock().unwrap().take();
            if let Some((ledger, record)) = meanwhile {
                let next = record.freed(ledger.now());
                ledger
                    .swap(vec![Move::replacing(&record, next)])
                    .await
                    .unwrap();
            }
            let knows = self.knows.lock().unwrap().clone();
            knows.filter(|record| record.id == id)
        })
    }

    fn put(&self, record: &Record, purges: u64, _: Time) {
        self.kept.lock().unwrap().push((record.id, purges));
    }

    fn forget(&self, _: Tenant, id: RecordId) {
        self.forgotten.lock().unwrap().push(id);
    }

    fn close(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

fn claim(asked: &[u8]) -> Claim {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    let key = Key::new("k").unwrap();
    Claim::new(scope, key, Fingerprint::of(asked), Engine::owner())
}

/// What a cache could have of `claim`, settled.
fn settled(claim: &Claim, now: Time) -> Record {
    Record::granted(claim, Version::seeded(now), now).settled(Outcome::text(200, "cached"), now)
}

fn engine(told: &Arc<Told>) -> (Engine, Arc<MemoryLedger>, Clock) {
    let clock = Clock::system();
    let ledger = Arc::new(MemoryLedger::with_clock(clock.clone()));
    let engine = Engine::new(ledger.clone()).with_replays(told.clone());
    (engine, ledger, clock)
}

#[tokio::test]
async fn a_replay_is_answered_from_it_and_then_from_memory() {
    let told = Arc::new(Told::default());
    let (engine, ledger, _) = engine(&told);
    *told.knows.lock().unwrap() = Some(settled(&claim(b"a"), ledger.now()));
    for _ in 0..3 {
        let Claimed::Replay(receipt) = engine.claim(claim(b"a")).await.unwrap() else {
            panic!("the cache has the answer");
        };
        assert_eq!(*receipt.outcome, Outcome::text(200, "cached"));
    }
    assert_eq!(told.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn whatever_is_no_replay_is_the_ledgers_word() {
    let told = Arc::new(Told::default());
    let (engine, ledger, clock) = engine(&told);
    // It stands for another request in the cache; in the ledger nobody has the key.
    *told.knows.lock().unwrap() = Some(settled(&claim(b"another"), ledger.now()));
    let claimed = engine.claim(claim(b"a")).await.unwrap();
    let Claimed::Granted(lease, _) = claimed else {
        panic!("the ledger grants it, got {claimed:?}");
    };
    assert!(engine.release(lease).await.unwrap());
    // Another principal's.
    let theirs = Claim {
        principal: Some(hapax::core::Principal::of(b"alice")),
        ..claim(b"a")
    };
    *told.knows.lock().unwrap() = Some(settled(&theirs, ledger.now()));
    let claimed = engine.claim(claim(b"a")).await.unwrap();
    assert!(matches!(claimed, Claimed::Granted(..)), "{claimed:?}");
    // Its time is over in the cache, while somebody holds it in the ledger.
    *told.knows.lock().unwrap() = Some(settled(&claim(b"a"), ledger.now()));
    clock.advance(Policy::default().ttl + Duration::from_secs(1));
    let holder = engine.claim(claim(b"a")).await.unwrap();
    let rival = engine.claim(claim(b"a")).await.unwrap();
    assert!(matches!(holder, Claimed::Granted(..)), "{holder:?}");
    assert!(matches!(rival, Claimed::Busy(_)), "{rival:?}");
}

#[tokio::test]
async fn what_is_taken_back_while_it_is_asked_is_not_replayed() {
    let told = Arc::new(Told::default());
    let (first, ledger, _) = engine(&told);
    let Claimed::Granted(lease, _) = first.claim(claim(b"a")).await.unwrap() else {
        panic!("a fresh key is granted");
    };
    let ended = first.settle(lease, Outcome::text(200, "ok")).await.unwrap();
    assert!(matches!(ended, Settled::Recorded(_)));
    let stored = ledger
        .find(Tenant::DEFAULT, claim(b"a").id())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(stored.state, State::Settled { .. }));
    *told.knows.lock().unwrap() = Some(stored.clone());
    *told.meanwhile.lock().unwrap() = Some((ledger.clone(), stored));
    // Another node: it has nothing in its own memory.
    let second = Engine::new(ledger).with_replays(told.clone());
    let claimed = second.claim(claim(b"a")).await.unwrap();
    assert!(matches!(claimed, Claimed::Granted(..)), "{claimed:?}");
}

#[tokio::test]
async fn it_is_told_what_is_recorded_and_what_is_taken_back() {
    let told = Arc::new(Told::default());
    let (engine, ledger, _) = engine(&told);
    let id = claim(b"a").id();
    let Claimed::Granted(lease, _) = engine.claim(claim(b"a")).await.unwrap() else {
        panic!("a fresh key is granted");
    };
    let ended = engine
        .settle(lease, Outcome::text(200, "ok"))
        .await
        .unwrap();
    assert!(matches!(ended, Settled::Recorded(_)));
    let purges = ledger.purges().unwrap();
    assert_eq!(*told.kept.lock().unwrap(), [(id, purges)]);
    engine.delete(Tenant::DEFAULT, id, "ann").await.unwrap();
    assert_eq!(*told.forgotten.lock().unwrap(), [id]);
}
