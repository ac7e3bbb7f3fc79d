//! Large bodies lie beside the row: written once, put together when read, gone with the content.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Ledger, Move, Outcome, Record, State, Swap, Sweep};
use hapax_store::sqlite::SqliteOptions;
use hapax_store::{Clock, SqliteLedger};

use super::faults::noise;
use super::{beside, claim, count, folder, insert, open_in};

const BODIES: &str = "SELECT count(1) FROM idempotency_body";

async fn write(ledger: &SqliteLedger, step: Move) -> Record {
    let next = Record::clone(&step.next);
    assert_eq!(
        ledger.swap(vec![step]).await.expect("it answers"),
        [Swap::Written]
    );
    next
}

async fn held_with(ledger: &SqliteLedger, body: Bytes) -> Record {
    let mut claim = claim("k", 1);
    std::sync::Arc::make_mut(&mut claim.request).body = Some(body);
    write(ledger, insert(ledger, &claim)).await
}

#[tokio::test]
async fn a_large_request_outlives_the_settle_without_being_written_again_and_a_sweep_removes_it() {
    let (folder, clock) = (folder(), Clock::system());
    let ledger = open_in(
        &folder,
        SqliteOptions {
            clock: clock.clone(),
            ..SqliteOptions::default()
        },
    );
    let body = noise(5 * 1024 * 1024);
    let held = held_with(&ledger, body.clone()).await;
    let log = || {
        std::fs::metadata(folder.path().join("ledger.db-wal"))
            .expect("a log")
            .len()
    };
    let before = log();

    let renewed = write(&ledger, Move::replacing(&held, held.renewed(ledger.now()))).await;
    let settled = renewed.settled(Outcome::text(200, "ok"), ledger.now());
    let settled = write(&ledger, Move::replacing(&renewed, settled)).await;

    assert!(
        log() - before < 100_000,
        "renewing and settling wrote {} bytes",
        log() - before
    );
    let stored = ledger
        .find(held.scope.tenant, held.id)
        .await
        .expect("it answers")
        .expect("it is stored");
    assert!(
        stored == settled && stored.request.body == Some(body),
        "it comes back byte for byte"
    );
    let swaps = ledger
        .swap(vec![insert(&ledger, &claim("k", 2))])
        .await
        .expect("it answers");
    assert!(
        swaps == [Swap::Stale(Some(Box::new(settled)))],
        "whoever comes second sees it too"
    );
    assert_eq!(count(&beside(&ledger), BODIES), 1);

    clock.advance(Duration::from_secs(2 * 3600));
    ledger.sweep(Sweep::default()).await.expect("it sweeps");
    assert_eq!(count(&beside(&ledger), BODIES), 0);
}

#[tokio::test]
async fn a_large_outcome_is_replaced_whole_and_dropped_by_a_release() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let mut last = held_with(&ledger, noise(20_000)).await;
    // Large, other and large, small, not kept, large again: the later one is always the one that is read.
    for outcome in [
        Outcome::new(200, noise(30_000)),
        Outcome::new(201, noise(40_000)),
        Outcome::text(202, "small"),
        Outcome::not_kept(203),
        Outcome::new(204, noise(50_000)),
    ] {
        let next = last.settled(outcome, ledger.now());
        last = write(&ledger, Move::replacing(&last, next)).await;
        let stored = ledger
            .find(last.scope.tenant, last.id)
            .await
            .expect("it answers");
        assert!(stored.as_ref() == Some(&last));
        let apart = matches!(&last.state, State::Settled { outcome, .. } if outcome.whole().is_some_and(|b| b.len() > 9));
        assert_eq!(count(&beside(&ledger), BODIES), 1 + i64::from(apart));
    }

    let freed = last.freed(ledger.now());
    write(&ledger, Move::replacing(&last, freed)).await;
    assert_eq!(count(&beside(&ledger), BODIES), 0);
}

#[tokio::test]
async fn a_large_body_that_is_gone_is_an_error_and_never_an_omitted_one() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let held = held_with(&ledger, noise(20_000)).await;
    beside(&ledger)
        .execute_batch("DELETE FROM idempotency_body")
        .expect("somebody meddles");

    let refused = ledger
        .find(held.scope.tenant, held.id)
        .await
        .expect_err("it is noticed");

    assert_eq!(refused.kind(), hapax_core::Kind::Corrupt);
}
