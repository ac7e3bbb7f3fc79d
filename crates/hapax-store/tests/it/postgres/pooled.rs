//! The same suites through a pooler in transaction mode, and what is different there.

use std::time::Duration;

use hapax_core::{Kind, Ledger, Tenant};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;

use super::database::Database;
use super::{claim, inserting};

mod suites {
    use super::super::subjects::{self, pooled};
    use hapax_store::conformance::{
        EntrySubject, ImportSubject, QueueSubject, SnapshotSubject, Subject, T1Subject,
    };

    async fn keys() -> Subject {
        subjects::keys(pooled()).await
    }
    async fn queue() -> QueueSubject {
        subjects::queue(pooled()).await
    }
    async fn snapshots() -> SnapshotSubject {
        subjects::snapshots(pooled()).await
    }
    async fn entries() -> EntrySubject {
        subjects::entries(pooled()).await
    }
    async fn imports() -> ImportSubject {
        subjects::imports(pooled()).await
    }
    async fn t1() -> T1Subject {
        subjects::t1(pooled()).await
    }

    hapax_store::ledger_conformance!(keys);
    hapax_store::queue_conformance!(queue);
    hapax_store::snapshot_conformance!(snapshots);
    hapax_store::entry_conformance!(entries);
    hapax_store::import_conformance!(imports);
    hapax_store::t1_conformance!(t1);
}

mod tokens {
    use super::super::subjects::{self, pooled};

    async fn open() -> (
        std::sync::Arc<dyn hapax_store::Tokens>,
        Box<dyn std::any::Any + Send>,
    ) {
        subjects::tokens(pooled()).await
    }

    hapax_store::token_conformance!(open);
}

#[tokio::test]
async fn a_pooled_ledger_does_not_migrate_and_says_what_to_do() {
    let database = Database::create().await;
    for refused in [
        PgLedger::open(&database.pooled(), PgOptions::default())
            .await
            .map(drop),
        PgLedger::migrate(&database.pooled()).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), Kind::Unsafe, "{error}");
        assert!(error.to_string().contains("the server itself"), "{error}");
    }

    PgLedger::migrate(&database.url).await.unwrap();
    let ledger = PgLedger::open(&database.pooled(), PgOptions::default())
        .await
        .unwrap();
    ledger.check().await.unwrap();
}

#[tokio::test]
async fn nothing_of_ours_stays_on_a_session_that_others_use() {
    let database = Database::migrated().await;
    let ledger = PgLedger::open(&database.pooled(), PgOptions::default())
        .await
        .unwrap();
    let asked = claim(1, "k", 1);
    ledger.swap(vec![inserting(&ledger, &asked)]).await.unwrap();
    let found = ledger.find(asked.scope.tenant, asked.id()).await;
    assert!(found.unwrap().is_some());
    ledger
        .sweep(hapax_core::Sweep::default())
        .await
        .expect("the janitor sweeps");

    // The pooler has three sessions for this database: look at all of them at once.
    let (plain, _) = {
        let url = database.pooled();
        let (url, rest) = url.split_once('?').expect("the mode is in the URL");
        (url.to_owned(), rest.to_owned())
    };
    let mut open = Vec::new();
    for _ in 0..3 {
        let client = super::database::connect(&plain).await;
        client.batch_execute("BEGIN").await.unwrap();
        open.push(client);
    }
    for client in open {
        let left = client
            .simple_query(
                "SELECT current_user, current_setting('hapax.tenant', true), current_setting('lock_timeout'), \
                 current_setting('enable_seqscan'), current_setting('search_path'), \
                 (SELECT count(*) FROM pg_prepared_statements)",
            )
            .await
            .unwrap();
        let row = left
            .iter()
            .find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            })
            .expect("one row");
        assert_eq!(row.get(0), Some("postgres"));
        assert!(matches!(row.get(1), None | Some("")), "{:?}", row.get(1));
        assert_eq!(row.get(2), Some("0"));
        assert_eq!(row.get(3), Some("on"));
        assert_eq!(row.get(4), Some("\"$user\", public"));
        assert_eq!(row.get(5), Some("0"));
    }
}

#[tokio::test]
async fn every_transaction_through_the_pooler_is_bound_by_row_level_security() {
    let database = Database::migrated().await;
    let ledger = PgLedger::open(&database.pooled(), PgOptions::default())
        .await
        .unwrap();
    let theirs = claim(2, "k", 1);
    ledger
        .swap(vec![inserting(&ledger, &theirs)])
        .await
        .unwrap();
    // The same id asked for by somebody else.
    let mine = Tenant::from_uuid(uuid::Uuid::from_u128(1));
    assert_eq!(ledger.find(mine, theirs.id()).await.unwrap(), None);
    let roles: Vec<String> = ledger
        .sessions()
        .await
        .unwrap()
        .into_iter()
        .map(|session| session.role)
        .collect();
    assert_eq!(roles, ["hapax_app", "hapax_app", "hapax_janitor"]);
}

#[tokio::test]
async fn a_lease_that_ends_wakes_a_waiter_through_the_direct_url() {
    let database = Database::migrated().await;
    let options = || PgOptions {
        direct: Some(database.url.clone()),
        ..PgOptions::default()
    };
    let (one, other) = (
        PgLedger::open(&database.pooled(), options()).await.unwrap(),
        PgLedger::open(&database.pooled(), options()).await.unwrap(),
    );
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    other.subscribe(std::sync::Arc::new(move |id| {
        told.send(id).unwrap_or_default();
    }));
    let asked = claim(1, "k", 1);
    let granted = inserting(&one, &asked);
    let hold = granted.next.hold().expect("a granted record is held");
    let lease = hapax_core::Lease::of(granted.next.clone(), hold.epoch, hold.owner).unwrap();
    one.swap(vec![granted]).await.unwrap();
    // The listener connects in its own time, so the lease ends again and again until it was heard.
    let settle = lease.settle(hapax_core::Outcome::text(200, "{}"), one.now());
    one.swap(vec![settle]).await.unwrap();
    let again = async {
        for number in 0.. {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let asked = claim(1, &format!("k{number}"), 1);
            let granted = inserting(&one, &asked);
            let hold = granted.next.hold().expect("a granted record is held");
            let lease =
                hapax_core::Lease::of(granted.next.clone(), hold.epoch, hold.owner).unwrap();
            one.swap(vec![granted]).await.unwrap();
            let settle = lease.settle(hapax_core::Outcome::text(200, "{}"), one.now());
            one.swap(vec![settle]).await.unwrap();
        }
    };
    tokio::select! {
        id = heard.recv() => assert!(id.is_some()),
        () = again => unreachable!("it goes on"),
        () = tokio::time::sleep(Duration::from_secs(20)) => panic!("nobody was woken"),
    }
}
