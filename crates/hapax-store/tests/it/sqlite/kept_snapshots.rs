//! Snapshots in one file: several ledgers at once, a new start, the name that older tools know, and what is sealed.

use std::sync::Arc;

use hapax_core::canonical::{Profile, canonical};
use hapax_core::snapshot::{NewSnapshot, Put, Shelf, Snapshots};
use hapax_core::{Fingerprint, Kind, Ledger, Tenant};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use hapax_store::vault::TenantKeys;
use uuid::Uuid;

use super::{beside, count, folder, open_in};
use crate::vault::vault;

fn shelf() -> Shelf {
    Shelf {
        tenant: Tenant::DEFAULT,
        collection: "courses".into(),
    }
}

fn course(entity: &str, payload: &str) -> NewSnapshot {
    let form = canonical(payload.as_bytes(), Profile::Hcj1).expect("it is JSON");
    let hash = Fingerprint::of(&form);
    let mut id = [0; 16];
    id.copy_from_slice(&hash.as_bytes()[..16]);
    NewSnapshot {
        id: Uuid::from_bytes(id),
        entity_id: entity.to_owned(),
        label: Some("tell-tale-label".to_owned()),
        hash,
        payload: payload.into(),
        aliases: vec![("py-json".to_owned(), "abc".to_owned())],
        by: None,
        key_match: None,
    }
}

async fn put(ledger: &SqliteLedger, all: Vec<NewSnapshot>) -> Vec<Put> {
    let answers = ledger.put_snapshots(shelf(), all).await;
    answers.expect("it answers")
}

fn sealed() -> SqliteOptions {
    SqliteOptions {
        vault: vault(&[1]),
        ..SqliteOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_on_one_file_keep_a_payload_once() {
    let folder = folder();
    let ledgers = [0, 1].map(|_| Arc::new(open_in(&folder, SqliteOptions::default())));
    let puts = (0..100).map(|number: usize| {
        let ledger = ledgers[number % 2].clone();
        tokio::spawn(async move { put(&ledger, vec![course("c-1", "[1]")]).await })
    });
    let mut fresh = 0;
    for one in puts.collect::<Vec<_>>() {
        let Put::Kept { was_there, .. } = one.await.expect("no panic")[0] else {
            panic!("it is kept")
        };
        fresh += usize::from(!was_there);
    }
    assert_eq!(fresh, 1);
    let stored = "SELECT count(1) FROM snapshot WHERE seen = 100";
    assert_eq!(count(&beside(&ledgers[0]), stored), 1);
}

#[tokio::test]
async fn everything_kept_is_there_after_a_new_start() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    put(&ledger, vec![course("c-1", "[1]"), course("c-1", "[2]")]).await;
    let before = ledger.entity(shelf(), "c-1".to_owned()).await;
    drop(ledger);

    let ledger = open_in(&folder, SqliteOptions::default());

    let after = ledger.entity(shelf(), "c-1".to_owned()).await;
    let after = after.expect("it answers");
    assert!(after.is_some());
    assert_eq!(after, before.expect("it answers"));
}

#[tokio::test]
async fn older_tools_find_snapshots_of_courses_under_the_name_they_know() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let asked = course("c-1", r#"{"course":{"id":"c-1"}}"#);
    put(&ledger, vec![asked.clone()]).await;
    let books = Shelf {
        collection: "books".into(),
        ..shelf()
    };
    let other = ledger.put_snapshots(books, vec![course("b-1", "[1]")]);
    other.await.expect("it answers");

    let sql = "SELECT id, course_id, payload, payload_hash, created_at FROM course_snapshots";
    let row: [String; 5] = beside(&ledger)
        .query_row(sql, [], |row| {
            Ok([
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ])
        })
        .expect("it is there, alone");

    let told = [
        &asked.id.to_string(),
        "c-1",
        &asked.payload,
        &asked.hash.hex(),
    ];
    assert_eq!(row[..4], told);
    assert!(row[4].ends_with('Z') && row[4].len() == 24, "{}", row[4]);
}

#[test]
fn a_table_of_that_name_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    let raw = rusqlite::Connection::open(&path).expect("the file opens");
    raw.execute_batch(
        "CREATE TABLE course_snapshots (id TEXT); INSERT INTO course_snapshots VALUES ('mine');",
    )
    .expect("it is made");

    SqliteLedger::migrate(&path).expect("it migrates");

    let kept = "SELECT count(1) FROM course_snapshots WHERE id = 'mine'";
    assert_eq!(count(&raw, kept), 1);
}

#[tokio::test]
async fn seeing_a_payload_again_does_not_rewrite_it() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    put(&ledger, vec![course("c-1", &large)]).await;
    let log = folder.path().join("ledger.db-wal");
    let raw = beside(&ledger);
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("the log is emptied");

    for _ in 0..5 {
        put(&ledger, vec![course("c-1", &large)]).await;
    }

    let bytes = std::fs::metadata(log).expect("the log is there").len();
    assert!(bytes > 0 && bytes < 200_000, "{bytes} bytes were written");
}

/// Everything that lies in the folder, as a thief would have it.
fn stolen(folder: &tempfile::TempDir) -> String {
    let files = std::fs::read_dir(folder.path()).expect("a folder");
    let bytes =
        files.flat_map(|file| std::fs::read(file.expect("a file").path()).expect("readable"));
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

#[tokio::test]
async fn with_a_vault_payloads_are_sealed_and_labels_are_not() {
    for (options, is_sealed) in [(SqliteOptions::default(), false), (sealed(), true)] {
        let folder = folder();
        let ledger = open_in(&folder, options);
        let asked = course("c-1", r#""tell-tale-payload""#);
        put(&ledger, vec![asked.clone()]).await;
        let read = ledger.snapshot(shelf(), asked.id).await;
        let read = read.expect("it answers").expect("it is there");
        assert_eq!(read.payload, asked.payload);
        ledger.close().await.expect("it closes");

        let stolen = stolen(&folder);

        assert_eq!(!stolen.contains("tell-tale-payload"), is_sealed);
        assert!(stolen.contains("tell-tale-label"));
    }
}

#[tokio::test]
async fn a_sealed_payload_moved_to_another_snapshot_is_refused() {
    let folder = folder();
    let ledger = open_in(&folder, sealed());
    put(&ledger, vec![course("c-1", "[1]"), course("c-1", "[2]")]).await;
    let swap =
        "UPDATE snapshot_payload SET payload = (SELECT other.payload FROM snapshot_payload AS other
                 WHERE other.snapshot_seq <> snapshot_payload.snapshot_seq)";
    let swapped = beside(&ledger).execute(swap, []);
    assert_eq!(swapped.expect("it is changed"), 2);

    let read = ledger.snapshots_of(shelf(), "c-1".to_owned(), None, 9);
    assert_eq!(read.await.expect_err("it is refused").kind(), Kind::Corrupt);
    let again = ledger.put_snapshots(shelf(), vec![course("c-1", "[1]")]);
    assert_eq!(
        again.await.expect_err("it is refused").kind(),
        Kind::Corrupt
    );
}

#[tokio::test]
async fn what_was_shredded_is_unreadable_when_hashes_are_filled_in() {
    let folder = folder();
    let ledger = open_in(&folder, sealed());
    put(&ledger, vec![course("c-1", "[1]")]).await;
    ledger.shred(Tenant::DEFAULT).await.expect("it shreds");
    put(&ledger, vec![course("c-1", "[2]")]).await;
    let age = "UPDATE snapshot SET payload_hash = NULL, hash_state = 'missing'";
    beside(&ledger).execute_batch(age).expect("it ages");

    let hasher = |_: &Shelf, text: &str| Some((Fingerprint::of(text.as_bytes()), Vec::new()));
    let filled = ledger.fill_hashes(&hasher, 100).await.expect("it answers");

    assert_eq!((filled.filled, filled.unreadable), (1, 1));
}
