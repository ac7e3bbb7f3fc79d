//! Several ledgers on one file, as several processes have it.

use hapax_core::{Kind, Ledger, Move, Outcome, Swap};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::SqliteOptions;
use std::sync::Arc;
use std::time::Duration;

use super::{beside, claim, count, folder, insert, open_in};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_on_one_file_grant_each_key_once() {
    two_grant_each_key_once(&SqliteOptions::default()).await;
}

/// Has two ledgers on one file claim the same keys at the same time.
pub(super) async fn two_grant_each_key_once(options: &SqliteOptions) {
    let folder = folder();
    let ledgers = [0, 1].map(|_| Arc::new(open_in(&folder, options.clone())));
    let mut tasks = Vec::new();
    for (number, ledger) in ledgers.iter().enumerate() {
        for n in 0..200 {
            let ledger = ledger.clone();
            tasks.push(tokio::spawn(async move {
                let claim = claim(&format!("k{n}"), number as u128 * 1000 + n + 1);
                let swaps = ledger
                    .swap(vec![insert(&*ledger, &claim)])
                    .await
                    .expect("it answers");
                let stored = ledgers_see(&ledger, &claim).await;
                match &swaps[0] {
                    Swap::Written => {
                        assert_eq!(stored.hold().map(|hold| hold.owner), Some(claim.owner));
                    }
                    Swap::Stale(seen) => assert_eq!(seen.as_deref(), Some(&stored)),
                }
                swaps[0] == Swap::Written
            }));
        }
    }
    let mut written = 0;
    for task in tasks {
        written += usize::from(task.await.expect("no panic"));
    }

    assert_eq!(written, 200);
    for ledger in &ledgers {
        ledger.close().await.expect("it files what it noted down");
    }
    let rows = "SELECT count(1) FROM idempotency_keys";
    assert_eq!(count(&beside(&ledgers[0]), rows), 200);
}

async fn ledgers_see(ledger: &SqliteLedger, claim: &hapax_core::Claim) -> hapax_core::Record {
    let stored = ledger
        .find(claim.scope.tenant, claim.id())
        .await
        .expect("it answers");
    stored.expect("whoever was first is seen")
}

/// Settles `key` and takes the outcome back.
async fn purge(ledger: &SqliteLedger, key: &str) {
    let claim = claim(key, 1);
    let grant = insert(ledger, &claim);
    let settled = grant.next.settled(Outcome::text(200, "ok"), ledger.now());
    let freed = settled.freed(ledger.now());
    let moves = vec![
        grant.clone(),
        Move::replacing(&grant.next, settled.clone()),
        Move::replacing(&settled, freed),
    ];
    let swaps = ledger.swap(moves).await.expect("it answers");
    assert!(swaps.iter().all(|swap| *swap == Swap::Written));
}

async fn write(ledger: &SqliteLedger, key: &str) {
    ledger
        .swap(vec![insert(ledger, &claim(key, 1))])
        .await
        .expect("it answers");
}

#[tokio::test]
async fn a_purge_by_one_ledger_changes_the_number_of_the_other() {
    let folder = folder();
    let [here, there] = [0, 1].map(|_| open_in(&folder, SqliteOptions::default()));
    let before = here.purges();
    assert!(before.is_some());
    write(&there, "other").await;
    assert_eq!(here.purges(), before, "a write that takes nothing back");

    purge(&there, "k").await;

    assert_ne!(here.purges(), before);
    assert_eq!(here.purges(), there.purges());
}

#[tokio::test]
async fn a_purge_whose_process_died_before_telling_is_told_by_the_next_write() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let before = ledger.purges();
    let sql = "UPDATE idempotency_purge SET count = count + 1";
    beside(&ledger)
        .execute_batch(sql)
        .expect("committed, and then it died");

    write(&ledger, "k").await;

    assert_ne!(ledger.purges(), before);
}

#[tokio::test]
async fn a_lost_or_cut_purges_file_is_noticed_and_made_good() {
    let folder = folder();
    let path = folder.path().join("ledger.db-purges");
    let [here, there] = [0, 1].map(|_| open_in(&folder, SqliteOptions::default()));
    purge(&there, "a").await;
    purge(&there, "b").await;
    let before = here.purges();

    std::fs::remove_file(&path).expect("it is removed");
    assert_eq!(here.purges(), None, "nothing may be answered from a cache");
    write(&there, "c").await;
    assert_eq!(here.purges(), before, "nothing was taken back meanwhile");

    std::fs::write(&path, "").expect("it is cut");
    assert_ne!(here.purges(), before);
    purge(&there, "d").await;
    assert!(here.purges() > before, "a number is not used twice");

    // Longer than the count, as beside a file that was put back from a backup.
    std::fs::write(&path, "x".repeat(50)).expect("it is replaced");
    let before = here.purges();
    purge(&there, "e").await;
    assert!(here.purges() > before);
}

#[tokio::test]
async fn a_ledger_that_cannot_get_the_lock_says_so_and_goes_on_later() {
    let folder = folder();
    let options = SqliteOptions {
        busy_timeout: Duration::from_millis(20),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let other = beside(&ledger);
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the other process writes");

    let claim = claim("k", 1);
    let refused = ledger
        .swap(vec![insert(&ledger, &claim)])
        .await
        .expect_err("the lock is taken");
    assert_eq!(refused.kind(), Kind::Unavailable);
    assert_eq!(
        ledger.check().await.expect_err("it takes no writes").kind(),
        Kind::Unavailable
    );
    assert_eq!(
        ledger
            .find(claim.scope.tenant, claim.id())
            .await
            .expect("reads go on"),
        None
    );

    other
        .execute_batch("COMMIT")
        .expect("the other process ends");
    assert_eq!(
        ledger
            .swap(vec![insert(&ledger, &claim)])
            .await
            .expect("it answers"),
        [Swap::Written]
    );
}

#[tokio::test]
async fn a_group_of_stale_moves_writes_nothing() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    write(&ledger, "k").await;
    let watcher = beside(&ledger);
    let before = count(&watcher, "PRAGMA data_version");

    let swaps = ledger
        .swap(vec![insert(&ledger, &claim("k", 2))])
        .await
        .expect("it answers");

    assert!(matches!(swaps[0], Swap::Stale(Some(_))));
    assert_eq!(count(&watcher, "PRAGMA data_version"), before);
}
