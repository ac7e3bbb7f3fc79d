//! Encryption at rest on SQLite: the whole suite once more with a vault, and the promises of every vault.

use std::sync::Arc;

use hapax_core::{Error, Kind, Ledger, Outcome};
use hapax_store::conformance::{QueueSubject, SnapshotSubject, Subject};
use hapax_store::sqlite::rusqlite::{Connection, TransactionBehavior};
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use hapax_store::vault::Vault;
use hapax_store::within::{Claimed, Settled};
use hapax_store::{Clock, SqliteLedger};
use tempfile::TempDir;

use super::{beside, count, folder, open_in, snapshots_with};
use crate::vault::{Place, claim, settled, vault};

async fn open() -> Subject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        vault: vault(&[1]),
        ..SqliteOptions::default()
    };
    Subject::new(Arc::new(open_in(&folder, options)), clock).keeping(folder)
}

async fn open_queue() -> QueueSubject {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        vault: vault(&[1]),
        ..SqliteOptions::default()
    };
    QueueSubject::new(Arc::new(open_in(&folder, options)), clock).keeping(folder)
}

async fn open_snapshots() -> SnapshotSubject {
    snapshots_with(vault(&[1]))
}

mod with_a_vault {
    use super::{open, open_queue, open_snapshots};
    hapax_store::ledger_conformance!(open);
    hapax_store::queue_conformance!(open_queue);
    hapax_store::snapshot_conformance!(open_snapshots);
}

struct File(TempDir);

async fn place() -> File {
    File(folder())
}

impl File {
    fn raw(&self) -> Connection {
        rusqlite::Connection::open(self.0.path().join("ledger.db")).expect("the file opens")
    }
}

impl Place for File {
    type Store = SqliteLedger;

    async fn open(&self, vault: Option<Arc<Vault>>) -> Result<SqliteLedger, Error> {
        let options = SqliteOptions {
            vault,
            ..SqliteOptions::default()
        };
        SqliteLedger::open(&self.0.path().join("ledger.db"), options)
    }

    async fn stolen(&self) -> Vec<u8> {
        let files = std::fs::read_dir(self.0.path()).expect("a folder");
        files
            .flat_map(|file| std::fs::read(file.expect("a file").path()).expect("readable"))
            .collect()
    }

    async fn execute(&self, sql: &str) {
        self.raw().execute_batch(sql).expect("it runs");
    }

    fn bytes(&self, hex: &str) -> String {
        format!("x'{hex}'")
    }

    fn tenant(&self, tenant: u128) -> String {
        format!("x'{}'", uuid::Uuid::from_u128(tenant).simple())
    }

    async fn count(&self, sql: &str) -> i64 {
        count(&self.raw(), sql)
    }
}

crate::vault::vault_promises!(place:
    a_stolen_database_tells_neither_bodies_nor_paths_nor_hashes,
    without_a_vault_the_same_search_finds_what_is_planted,
    a_value_moved_to_another_row_column_or_tenant_is_refused,
    a_new_master_key_takes_over_from_the_old_one,
    an_encrypted_database_is_not_opened_without_its_key,
    what_was_written_before_it_was_turned_on_stays_readable,
    a_renewed_data_key_seals_what_is_new_and_the_old_stays_readable,
    once_everything_is_sealed_what_is_not_is_refused,
    a_tenant_met_with_a_vault_is_sealed_from_the_beginning,
    that_everything_is_sealed_survives_a_new_master_key_and_an_older_row,
    a_shredded_tenant_is_unreadable_and_the_others_are_not,
    nodes_that_meet_a_new_tenant_at_once_agree_on_one_key,
);

#[tokio::test]
async fn a_callers_transaction_seals_with_the_ledgers_vault_and_is_refused_without_it() {
    let (folder, vault) = (folder(), vault(&[1]));
    let options = SqliteOptions {
        vault: vault.clone(),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let vault = vault.expect("a vault");
    let mut caller = beside(&ledger);
    let claim = claim(1, "k");
    for commit in [false, true] {
        let tx = caller
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .expect("the lock is free");
        let claimed = SqliteLedger::within(&tx)
            .sealed(&vault)
            .claim(&claim, ledger.now());
        let Ok(Claimed::Granted(lease, _)) = claimed else {
            panic!("nothing was left behind, got {claimed:?}")
        };
        let settled = SqliteLedger::within(&tx).sealed(&vault).settle(
            *lease,
            Outcome::text(201, "paid"),
            ledger.now(),
        );
        assert!(matches!(settled, Ok(Settled::Recorded)), "{settled:?}");
        if commit { tx.commit() } else { tx.rollback() }.expect("it ends");
    }
    let stored = ledger.find(claim.scope.tenant, claim.id()).await;
    let stored = stored.expect("it answers").expect("it committed");
    assert_eq!(stored.request, claim.request);
    assert_eq!(count(&caller, "SELECT count(1) FROM tenant_key"), 1);

    let tx = caller.transaction().expect("the lock is free");
    let refused = SqliteLedger::within(&tx).claim(&claim, ledger.now());
    assert_eq!(refused.expect_err("it is sealed").kind(), Kind::Unsafe);
}

#[tokio::test]
async fn shredding_tells_every_cache() {
    let folder = folder();
    let place = File(folder);
    let ledger = place.open(vault(&[1])).await.expect("it opens");
    let record = settled(&ledger, 1, "k").await;
    let before = ledger.purges();
    hapax_store::vault::TenantKeys::shred(&ledger, record.scope.tenant)
        .await
        .expect("it shreds");
    assert_ne!(ledger.purges(), before);
}
