//! Nodes tell each other which leases ended, over a connection that comes back by itself.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Claim, Doubt, Lease, Ledger, Move, Outcome, RecordId, Swap};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use tokio::sync::mpsc;

use super::database::Database;
use super::{claim, inserting};

/// Far beyond what a loaded machine needs; a test that runs into it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn heard(ledger: &PgLedger) -> mpsc::UnboundedReceiver<RecordId> {
    let (told, heard) = mpsc::unbounded_channel();
    ledger.subscribe(Arc::new(move |id| {
        // A test that has ended listens no more.
        let _ = told.send(id);
    }));
    heard
}

async fn held(ledger: &PgLedger, claim: &Claim) -> Lease {
    let step = inserting(ledger, claim);
    let record = step.next.clone();
    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
    let hold = record.hold().unwrap();
    Lease::of(record, hold.epoch, hold.owner).unwrap()
}

async fn write(ledger: &PgLedger, step: Move) {
    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
}

/// Ends leases on `ledger` until `heard` tells of the last one, as it does once the listener is connected.
async fn until_heard(ledger: &PgLedger, heard: &mut mpsc::UnboundedReceiver<RecordId>, name: &str) {
    let ends = async {
        for n in 0.. {
            let lease = held(ledger, &claim(1, &format!("{name}{n}"), 1)).await;
            let id = lease.id();
            write(ledger, lease.release(ledger.now())).await;
            // They are told in order, so none of the earlier ones comes after it.
            let told = async { while heard.recv().await != Some(id) {} };
            if tokio::time::timeout(Duration::from_millis(100), told)
                .await
                .is_ok()
            {
                return;
            }
        }
    };
    let heard_in_time = tokio::time::timeout(PATIENCE, ends).await;
    heard_in_time.expect("it is told in time");
}

#[tokio::test]
async fn every_end_of_a_lease_is_told_to_every_node_and_nothing_else_is() {
    let database = Database::create().await;
    let here = database.open(PgOptions::default()).await;
    let there = database.open(PgOptions::default()).await;
    let mut heard = heard(&there);
    until_heard(&here, &mut heard, "first").await;

    let mut expected = Vec::new();
    let now = here.now();
    let ends: [fn(Lease, hapax_core::Time) -> Move; 5] = [
        |lease, now| lease.settle(Outcome::text(200, "ok"), now),
        |lease, now| lease.release(now),
        |lease, _| lease.doubt(Doubt::OutcomeUnknown),
        |lease, now| Move::replacing(lease.record(), lease.record().erased(now)),
        |lease, now| Move::replacing(lease.record(), lease.record().freed(now)),
    ];
    for (n, end) in ends.into_iter().enumerate() {
        // Each in another tenant: what is told is not a tenant's business.
        let mut lease = held(&here, &claim(n as u128 + 1, "k", 1)).await;
        let renewal = lease.renewal(now);
        let renewed = renewal.next.clone();
        write(&here, renewal).await;
        assert!(lease.renewed(renewed));
        expected.push(lease.id());
        write(&here, end(lease, now)).await;
    }
    for id in expected {
        let told = tokio::time::timeout(PATIENCE, heard.recv()).await;
        assert_eq!(
            told.expect("it is told"),
            Some(id),
            "claims and renewals are not"
        );
    }
}

#[tokio::test]
async fn a_listener_whose_connection_is_cut_connects_again() {
    let database = Database::create().await;
    let here = database.open(PgOptions::default()).await;
    let there = database.open(PgOptions::default()).await;
    let mut heard = heard(&there);
    until_heard(&here, &mut heard, "before").await;

    let raw = database.raw().await;
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND query LIKE '%LISTEN%' AND pid <> pg_backend_pid()";
    let cut: i64 = raw.query_one(cut, &[]).await.unwrap().get(0);
    assert_eq!(
        cut, 1,
        "one connection listens, for all who want to be told"
    );
    until_heard(&here, &mut heard, "after").await;
}

#[tokio::test]
async fn a_ledger_without_notify_neither_tells_nor_listens() {
    let database = Database::create().await;
    let options = PgOptions {
        notify: false,
        ..PgOptions::default()
    };
    let silent = database.open(options).await;
    let mut deaf = heard(&silent);
    let there = database.open(PgOptions::default()).await;
    let mut listening = heard(&there);
    until_heard(&there, &mut listening, "up").await;

    let lease = held(&silent, &claim(1, "silent", 1)).await;
    write(&silent, lease.release(silent.now())).await;
    let lease = held(&there, &claim(1, "loud", 1)).await;
    let loud = lease.id();
    write(&there, lease.release(there.now())).await;
    let told = tokio::time::timeout(PATIENCE, listening.recv()).await;
    assert_eq!(
        told.expect("it is told"),
        Some(loud),
        "the silent one came first"
    );
    assert!(deaf.try_recv().is_err());
}

#[tokio::test]
async fn a_closed_ledger_listens_no_more() {
    let database = Database::create().await;
    let here = database.open(PgOptions::default()).await;
    let there = database.open(PgOptions::default()).await;
    let mut heard = heard(&there);
    until_heard(&here, &mut heard, "k").await;
    there.close().await.unwrap();
    drop(there);
    assert_eq!(heard.recv().await, None, "nobody is left who would tell");
}
