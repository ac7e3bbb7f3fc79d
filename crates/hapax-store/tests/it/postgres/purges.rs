//! The count of taken-back outcomes across nodes: whoever is told that an outcome is taken back can rely on it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_core::{Ledger, Move, Outcome, Record, Swap, Version};
use hapax_store::conformance::Subject;
use hapax_store::postgres::PgOptions;
use hapax_store::{Clock, PgLedger};

use super::claim;
use super::database::Database;

fn watching() -> PgOptions {
    PgOptions {
        watches_purges: true,
        ..PgOptions::default()
    }
}

async fn known(ledger: &PgLedger) -> u64 {
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(count) = ledger.purges() {
            return count;
        }
        assert!(Instant::now() < patience, "the count is never known");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn settled(ledger: &PgLedger, key: &str) -> Record {
    let claim = claim(1, key, 1);
    let now = ledger.now();
    let held = Record::granted(&claim, Version::seeded(now), now);
    let settled = held.settled(Outcome::text(200, "ok"), now);
    let moves = vec![
        Move::inserting(held.clone()),
        Move::replacing(&held, settled.clone()),
    ];
    let swaps = ledger.swap(moves).await.unwrap();
    assert_eq!(swaps, [Swap::Written, Swap::Written]);
    settled
}

#[tokio::test]
async fn once_an_outcome_is_taken_back_no_node_knows_the_count_from_before() {
    let database = Database::create().await;
    let watcher = database.open(watching()).await;
    let other = database.open(PgOptions::default()).await;
    assert_eq!(other.purges(), None, "it does not watch");
    for round in 0..5 {
        let stored = settled(&other, &format!("k{round}")).await;
        let before = known(&watcher).await;
        let next = match round % 2 {
            0 => stored.freed(other.now()),
            _ => stored.erased(other.now()),
        };
        let swaps = other.swap(vec![Move::replacing(&stored, next)]).await;
        assert_eq!(swaps.unwrap(), [Swap::Written]);
        assert_ne!(watcher.purges(), Some(before));
        assert_eq!(known(&watcher).await, before + 1);
    }
    // What somebody does by hand counts too.
    let stored = settled(&other, "by-hand").await;
    let before = known(&watcher).await;
    let raw = database.raw().await;
    let delete = "DELETE FROM idempotency_keys WHERE id = $1";
    raw.execute(delete, &[&stored.id.as_uuid()]).await.unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while watcher.purges() != Some(before + 1) {
        assert!(Instant::now() < patience, "{:?}", watcher.purges());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    watcher.close().await.unwrap();
    assert_eq!(watcher.purges(), None, "who does not look does not know");
}

#[tokio::test]
async fn settling_and_expiring_take_nothing_back() {
    let database = Database::create().await;
    let watcher = database.open(watching()).await;
    let before = known(&watcher).await;
    let stored = settled(&watcher, "k").await;
    let late = stored.expires_at.plus(Duration::from_secs(1));
    let again = Record::granted(&claim(1, "k", 2), stored.version.regranted(late), late);
    let swaps = watcher.swap(vec![Move::replacing(&stored, again)]).await;
    assert_eq!(swaps.unwrap(), [Swap::Written]);
    let raw = database.raw().await;
    let count = raw.query_one("SELECT count FROM idempotency_purge", &[]);
    let count: i64 = count.await.unwrap().get(0);
    assert_eq!(u64::try_from(count).unwrap(), before);
}

#[tokio::test]
async fn nodes_that_take_back_at_once_do_not_lock_each_other_out() {
    let database = Database::create().await;
    let nodes = [
        database.open(PgOptions::default()).await,
        database.open(PgOptions::default()).await,
    ];
    let mut stored = Vec::new();
    for key in 0..40 {
        stored.push(settled(&nodes[0], &format!("k{key}")).await);
    }
    let moves = |from: usize| -> Vec<Move> {
        let own = stored.iter().skip(from).step_by(2);
        own.map(|record| Move::replacing(record, record.freed(nodes[0].now())))
            .collect()
    };
    let (one, two) = tokio::join!(nodes[0].swap(moves(0)), nodes[1].swap(moves(1)));
    let written = |swaps: Vec<Swap>| swaps.iter().all(|swap| *swap == Swap::Written);
    assert!(written(one.unwrap()) && written(two.unwrap()));
    let raw = database.raw().await;
    let count = raw.query_one("SELECT count FROM idempotency_purge", &[]);
    assert_eq!(count.await.unwrap().get::<_, i64>(0), 40);
}

async fn open() -> Subject {
    let database = Database::create().await;
    let clock = Clock::system();
    let ledger = database
        .open(PgOptions {
            clock: clock.clone(),
            ..watching()
        })
        .await;
    known(&ledger).await;
    Subject::new(Arc::new(ledger), clock).keeping(database)
}

hapax_store::conformance_cases!(open, payloads: taking_back_an_outcome_is_noticed,);
hapax_store::conformance_cases!(open, erasing: erasing_an_outcome_is_noticed,);
