//! The suites on SQLite, and what is special to it.

mod bodies;
mod erased;
mod faults;
mod files;
mod jobs;
mod kept_batches;
mod kept_entries;
mod kept_snapshots;
mod old_jobs;
mod sharing;
mod vault;
mod within;

use std::any::Any;
use std::sync::Arc;

use hapax_core::{Claim, Fingerprint, Key, Ledger, Move, Owner, Record, Scope, Tenant, Version};
use hapax_store::conformance::{
    EntrySubject, ImportSubject, QueueSubject, SnapshotSubject, Subject, T1Subject,
};
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use hapax_store::vault::Vault;
use hapax_store::{Clock, SqliteLedger, Tokens};
use tempfile::TempDir;

async fn open() -> Subject {
    let (folder, clock) = (folder(), Clock::system());
    let ledger = open_in(
        &folder,
        SqliteOptions {
            clock: clock.clone(),
            ..SqliteOptions::default()
        },
    );
    Subject::new(Arc::new(ledger), clock).keeping(folder)
}

async fn open_tokens() -> (Arc<dyn Tokens>, Box<dyn Any + Send>) {
    let folder = folder();
    (
        Arc::new(open_in(&folder, SqliteOptions::default())),
        Box::new(folder),
    )
}

async fn open_queue() -> QueueSubject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    QueueSubject::new(Arc::new(open_in(&folder, options)), clock).keeping(folder)
}

async fn open_snapshots() -> SnapshotSubject {
    snapshots_with(None)
}

/// An empty store of snapshots, sealed if there is a vault.
fn snapshots_with(vault: Option<Arc<Vault>>) -> SnapshotSubject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        vault,
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let path = ledger.path().to_owned();
    let age = move || {
        let path = path.clone();
        async move {
            let raw = rusqlite::Connection::open(path).expect("the file opens");
            let aged = raw.execute_batch(
                "UPDATE snapshot SET payload_hash = NULL, hash_state = 'missing';
                 DELETE FROM snapshot_alias;",
            );
            aged.expect("it ages");
        }
    };
    SnapshotSubject::new(Arc::new(ledger), clock, age).keeping(folder)
}

async fn open_entries() -> EntrySubject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    EntrySubject::new(Arc::new(open_in(&folder, options)), clock).keeping(folder)
}

async fn open_imports() -> ImportSubject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let path = ledger.path().to_owned();
    let hurt = move |hurts: bool| {
        let path = path.clone();
        async move {
            let raw = rusqlite::Connection::open(path).expect("the file opens");
            let changed = raw.execute_batch(if hurts {
                "CREATE TRIGGER hurt BEFORE UPDATE ON imports BEGIN SELECT RAISE(ABORT, 'hurt'); END"
            } else {
                "DROP TRIGGER hurt"
            });
            changed.expect("it is changed");
        }
    };
    ImportSubject::new(Arc::new(ledger), clock, hurt).keeping(folder)
}

async fn open_t1() -> T1Subject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let path = ledger.path().to_owned();
    let hurt = move |hurts: bool| {
        let path = path.clone();
        async move {
            let raw = rusqlite::Connection::open(path).expect("the file opens");
            let changed = raw.execute_batch(if hurts {
                "CREATE TRIGGER hurt_new BEFORE INSERT ON pkm_t1_batch_items WHEN new.entry_id = 404
                 BEGIN SELECT RAISE(ABORT, 'hurt'); END;
                 CREATE TRIGGER hurt_old BEFORE UPDATE ON pkm_t1_batch_items WHEN new.entry_id = 404
                 BEGIN SELECT RAISE(ABORT, 'hurt'); END;"
            } else {
                "DROP TRIGGER hurt_new; DROP TRIGGER hurt_old;"
            });
            changed.expect("it is changed");
        }
    };
    T1Subject::new(Arc::new(ledger), clock, hurt).keeping(folder)
}

hapax_store::entry_conformance!(open_entries);
hapax_store::import_conformance!(open_imports);
hapax_store::ledger_conformance!(open);
hapax_store::queue_conformance!(open_queue);
hapax_store::snapshot_conformance!(open_snapshots);
hapax_store::t1_conformance!(open_t1);
hapax_store::token_conformance!(open_tokens);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a test needs a folder")
}

fn open_in(folder: &TempDir, options: SqliteOptions) -> SqliteLedger {
    SqliteLedger::open(&folder.path().join("ledger.db"), options).expect("the ledger opens")
}

/// Another connection to the same file, as another program would have it.
fn beside(ledger: &SqliteLedger) -> rusqlite::Connection {
    rusqlite::Connection::open(ledger.path()).expect("the file opens")
}

fn count(connection: &rusqlite::Connection, sql: &str) -> i64 {
    connection
        .query_row(sql, [], |row| row.get(0))
        .expect("the query answers")
}

fn claim(key: &str, owner: u128) -> Claim {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").expect("a space");
    Claim::new(
        scope,
        Key::new(key).expect("a key"),
        Fingerprint::of(b"asked"),
        Owner::from_u128(owner),
    )
}

fn insert(ledger: &dyn Ledger, claim: &Claim) -> Move {
    let now = ledger.now();
    Move::inserting(Record::granted(claim, Version::seeded(now), now))
}
