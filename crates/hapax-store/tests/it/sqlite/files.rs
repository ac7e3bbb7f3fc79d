//! The file itself: how it is made, migrated and refused.

use std::path::Path;
use std::sync::Barrier;
use std::thread;

use hapax_core::{Kind, Ledger, Move, State, Swap, Version};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use sha2::{Digest, Sha256};

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

    assert_eq!(
        ran,
        [
            "0001_idempotency_keys",
            "0002_token",
            "0003_audit",
            "0004_tenant_key",
            "0005_job",
            "0006_snapshot",
            "0007_entry",
            "0008_t1",
            "0009_lists",
            "0010_questions",
            "0011_shared_cache",
            "0012_job_queue",
            "0013_fewer_indexes",
            "0014_words_in_bulk",
            "0015_cheaper_checks",
            "0016_ended_session",
            "0017_shared_secret",
            "0018_doubtful_ops",
            "0019_reruns_and_readers",
            "0020_job_backoff",
            "0021_named_tokens",
            "0022_stored_masks"
        ]
    );
    let connection = rusqlite::Connection::open(&path).expect("the file opens");
    assert_eq!(
        count(&connection, "SELECT count(1) FROM schema_migration"),
        22
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

/// The file as the first two migrations left it, with a settled row whose answer lives apart and a row without.
fn file_before_erasing(path: &Path) {
    let before = rusqlite::Connection::open(path).expect("the file is made");
    let table = include_str!("../../../sql/sqlite/migration_table.sql");
    before.execute_batch(table).expect("the list is made");
    for (number, name, sql) in [
        (
            1,
            "0001_idempotency_keys",
            include_str!("../../../migrations/sqlite/0001_idempotency_keys.sql"),
        ),
        (
            2,
            "0002_token",
            include_str!("../../../migrations/sqlite/0002_token.sql"),
        ),
    ] {
        before.execute_batch(sql).expect("it migrates");
        let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(sql.as_bytes()));
        let record = include_str!("../../../sql/sqlite/migration_record.sql");
        before
            .execute(record, rusqlite::params![number, name, sha256, 0])
            .expect("it is recorded");
    }
    let claims = [claim("apart", 1), claim("plain", 1)];
    for (claim, apart) in claims.iter().zip([true, false]) {
        let (tenant, id) = (claim.scope.tenant.as_uuid(), claim.id().as_uuid());
        let (tenant, id) = (tenant.as_bytes(), id.as_bytes());
        let body = (!apart).then_some(b"\x00inline".as_slice());
        before
            .execute(
                "INSERT INTO idempotency_keys (
                     tenant_id, id, idempotency_key, route_pattern, content_hash, request_method, request_path,
                     request_content_type, response_status_code, response_body, response_body_apart, response_headers,
                     created_at, expires_at, completed_at, version, state, fingerprint, on_lost, lease_ms
                 ) VALUES (?1, ?2, ?3, ?4, '', 'POST', '/', '', 200, ?5, ?6, '[]', 1, 9000000000000, 2, 7, 'settled', ?7,
                           'retry', 1000)",
                rusqlite::params![
                    tenant,
                    id,
                    claim.key.as_str(),
                    claim.scope.space.as_str(),
                    body,
                    apart,
                    claim.fingerprint.as_bytes(),
                ],
            )
            .expect("the row is written");
        if apart {
            before
                .execute(
                    "INSERT INTO idempotency_body (tenant_id, id, part, body) VALUES (?1, ?2, 'response', ?3)",
                    rusqlite::params![tenant, id, b"\x00kept apart".as_slice()],
                )
                .expect("its body is written");
        }
    }
}

#[tokio::test]
async fn a_file_from_before_erasing_keeps_every_row_and_body() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    file_before_erasing(&path);
    let ledger = SqliteLedger::open(&path, SqliteOptions::default()).expect("it migrates");

    for (key, body) in [("apart", "kept apart"), ("plain", "inline")] {
        let claim = claim(key, 1);
        let stored = ledger.find(claim.scope.tenant, claim.id()).await;
        let stored = stored.expect("it reads").expect("it is still there");
        let State::Settled { outcome, .. } = &stored.state else {
            panic!("it is settled, not {stored:?}");
        };
        assert_eq!(outcome.whole().expect("it is kept"), body.as_bytes());
        assert_eq!((stored.version, stored.subject), (Version(7), None));
        let erased = stored.erased(ledger.now());
        let step = Move::replacing(&stored, erased.clone());
        assert_eq!(
            ledger.swap(vec![step]).await.expect("it writes"),
            [Swap::Written]
        );
        let left = ledger.find(claim.scope.tenant, claim.id()).await;
        assert_eq!(left.expect("it reads"), Some(erased));
    }
    let beside = beside(&ledger);
    assert_eq!(count(&beside, "SELECT count(1) FROM idempotency_body"), 0);
    let left_over = "SELECT count(1) FROM sqlite_schema WHERE sql LIKE '%keys_before%' OR sql LIKE '%body_before%'";
    assert_eq!(count(&beside, left_over), 0);
}
