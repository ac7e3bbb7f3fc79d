//! The file itself: how it is made, migrated and refused.

use std::sync::Barrier;
use std::thread;

use hapax_core::{Kind, Ledger, Swap};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::{SqliteOptions, rusqlite};

use super::{beside, claim, count, folder, insert, open_in};

#[cfg(unix)]
#[test]
fn a_new_file_and_what_lies_beside_it_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = folder();
    let path = folder.path().join("made/on/the/way/ledger.db");
    let _ledger = SqliteLedger::open(&path, SqliteOptions::default()).expect("the ledger opens");

    let mut seen = 0;
    for file in path
        .parent()
        .expect("a folder")
        .read_dir()
        .expect("the folder is there")
    {
        let file = file.expect("an entry");
        let mode = file.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.path().display());
        seen += 1;
    }
    assert!(seen >= 4, "the file, its log, its index and its purges");
}

#[test]
fn migrating_from_eight_threads_at_once_runs_each_migration_once() {
    let folder = folder();
    let path = folder.path().join("new/ledger.db");
    let start = Barrier::new(8);
    let ran: Vec<&str> = thread::scope(|scope| {
        let migrate = || {
            start.wait();
            SqliteLedger::migrate(&path).expect("it migrates")
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(migrate)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });

    assert_eq!(ran, ["0001_idempotency_keys", "0002_token"]);
    let connection = rusqlite::Connection::open(&path).expect("the file opens");
    assert_eq!(
        count(&connection, "SELECT count(1) FROM schema_migration"),
        2
    );
}

#[tokio::test]
async fn a_file_of_a_newer_version_still_opens() {
    let folder = folder();
    let first = open_in(&folder, SqliteOptions::default());
    beside(&first)
        .execute_batch(
            "INSERT INTO schema_migration (number, name, sha256, applied_at)
             VALUES (9001, '9001_later', printf('%064d', 0), 0);
             ALTER TABLE idempotency_keys ADD COLUMN later TEXT;",
        )
        .expect("the newer version migrates beside us");
    first.close().await.expect("it closes");

    let ledger = open_in(&folder, SqliteOptions::default());

    assert_eq!(
        ledger
            .swap(vec![insert(&ledger, &claim("k", 1))])
            .await
            .expect("it answers"),
        [Swap::Written]
    );
}

#[test]
fn a_changed_migration_is_refused() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    beside(&ledger)
        .execute_batch("UPDATE schema_migration SET sha256 = printf('%064d', 0) WHERE number = 1")
        .expect("it is changed");

    let refused =
        SqliteLedger::open(ledger.path(), SqliteOptions::default()).expect_err("it is refused");

    assert_eq!(refused.kind(), Kind::Unsafe);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let text = "not a database, but somebody's letter\n".repeat(200);
    std::fs::write(&path, &text).expect("a file");

    let refused = SqliteLedger::open(&path, SqliteOptions::default()).expect_err("it is refused");

    assert_eq!(refused.kind(), Kind::Corrupt);
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), text);
}

#[test]
fn a_folder_that_cannot_be_made_is_said_with_its_path() {
    let folder = folder();
    std::fs::write(folder.path().join("file"), "").expect("a file");

    let refused = SqliteLedger::open(
        &folder.path().join("file/ledger.db"),
        SqliteOptions::default(),
    );

    let refused = refused.expect_err("it is refused");
    assert_eq!(refused.kind(), Kind::Unavailable);
    assert!(refused.to_string().contains("file/ledger.db"), "{refused}");
}

#[tokio::test]
async fn closing_writes_what_was_handed_in_and_refuses_the_rest() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let claims: Vec<_> = (0..100).map(|n| claim(&format!("k{n}"), n)).collect();
    let writes: Vec<_> = claims
        .iter()
        .map(|claim| ledger.swap(vec![insert(&ledger, claim)]))
        .collect();
    let written = tokio::join!(
        async { ledger.swap(vec![insert(&ledger, &claim("k", 1))]).await },
        ledger.close()
    );

    assert_eq!(
        written.0.expect("handed in before the close"),
        [Swap::Written]
    );
    written.1.expect("it closes");
    ledger.close().await.expect("closing twice is harmless");
    for write in writes {
        assert_eq!(
            write.await.expect_err("handed in after it").kind(),
            Kind::Unavailable
        );
    }
    let read = ledger.find(claims[0].scope.tenant, claims[0].id()).await;
    assert_eq!(
        read.expect_err("closed for reads too").kind(),
        Kind::Unavailable
    );
    assert!(
        !folder.path().join("ledger.db-wal").exists(),
        "the log is back in the file"
    );
}
