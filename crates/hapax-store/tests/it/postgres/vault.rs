//! Encryption at rest on PostgreSQL: the whole suite once more with a vault, and the promises of every vault.

use std::sync::Arc;

use hapax_core::{Error, Kind, Ledger, Outcome};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use hapax_store::vault::Vault;
use hapax_store::within::{Claimed, Settled};

use super::database::Database;
use crate::vault::{Place, claim, settled, vault};

mod with_a_vault {
    use super::super::subjects::{self, Way};
    use super::vault;
    use hapax_store::conformance::{QueueSubject, SnapshotSubject, Subject};

    fn sealed() -> Way {
        Way {
            vault: vault(&[1]),
            ..Way::default()
        }
    }

    async fn keys() -> Subject {
        subjects::keys(sealed()).await
    }
    async fn queue() -> QueueSubject {
        subjects::queue(sealed()).await
    }
    async fn snapshots() -> SnapshotSubject {
        subjects::snapshots(sealed()).await
    }

    hapax_store::ledger_conformance!(keys);
    hapax_store::queue_conformance!(queue);
    hapax_store::snapshot_conformance!(snapshots);
}

async fn place() -> Database {
    Database::create().await
}

impl Place for Database {
    type Store = PgLedger;

    async fn open(&self, vault: Option<Arc<Vault>>) -> Result<PgLedger, Error> {
        let options = PgOptions {
            vault,
            readers: 2,
            ..PgOptions::default()
        };
        PgLedger::open(&self.url, options).await
    }

    async fn stolen(&self) -> Vec<u8> {
        let raw = self.raw().await;
        let mut all = Vec::new();
        for table in ["idempotency_keys", "tenant_key", "audit_log"] {
            let sql = format!("SELECT t::text FROM {table} AS t");
            for row in raw.query(&sql, &[]).await.unwrap() {
                all.extend(row.get::<_, String>(0).into_bytes());
            }
        }
        all
    }

    async fn execute(&self, sql: &str) {
        self.raw().await.batch_execute(sql).await.unwrap();
    }

    fn bytes(&self, hex: &str) -> String {
        format!("'\\x{hex}'::bytea")
    }

    fn tenant(&self, tenant: u128) -> String {
        format!("'{}'", uuid::Uuid::from_u128(tenant))
    }

    async fn count(&self, sql: &str) -> i64 {
        let raw = self.raw().await;
        raw.query_one(sql, &[]).await.unwrap().get(0)
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
    let (database, vault) = (place().await, vault(&[1]).unwrap());
    let ledger = Place::open(&database, Some(vault.clone())).await.unwrap();
    let mut caller = database.raw().await;
    let claim = claim(1, "k");
    for commit in [false, true] {
        let mut tx = caller.transaction().await.unwrap();
        let claimed = PgLedger::within(&mut tx).sealed(&vault).claim(&claim).await;
        let Ok(Claimed::Granted(lease, _)) = claimed else {
            panic!("nothing was left behind, got {claimed:?}")
        };
        let settled = PgLedger::within(&mut tx)
            .sealed(&vault)
            .settle(*lease, Outcome::text(201, "paid"))
            .await;
        assert!(matches!(settled, Ok(Settled::Recorded)), "{settled:?}");
        if commit {
            tx.commit().await
        } else {
            tx.rollback().await
        }
        .unwrap();
    }
    let stored = ledger.find(claim.scope.tenant, claim.id()).await.unwrap();
    assert_eq!(stored.unwrap().request, claim.request);
    let keys = "SELECT count(*) FROM tenant_key";
    assert_eq!(database.count(keys).await, 1);

    let mut tx = caller.transaction().await.unwrap();
    let refused = PgLedger::within(&mut tx).claim(&claim).await;
    assert_eq!(refused.unwrap_err().kind(), Kind::Unsafe);
}

#[tokio::test]
async fn keys_that_row_level_security_does_not_guard_are_not_used() {
    let database = Database::migrated().await;
    for unsafe_table in [
        "ALTER TABLE tenant_key NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE tenant_key DISABLE ROW LEVEL SECURITY",
    ] {
        database.execute(unsafe_table).await;
        let refused = Place::open(&database, vault(&[1])).await;
        assert_eq!(refused.err().unwrap().kind(), Kind::Unsafe);
    }
}

#[tokio::test]
async fn the_app_sees_and_adds_keys_of_its_tenant_only_and_deletes_none() {
    let database = place().await;
    let ledger = Place::open(&database, vault(&[1])).await.unwrap();
    for tenant in [1, 2] {
        settled(&ledger, tenant, "k").await;
    }
    let app = database.raw().await;
    app.batch_execute("SET ROLE hapax_app").await.unwrap();
    let keys = "SELECT count(*) FROM tenant_key";
    let seen: i64 = app.query_one(keys, &[]).await.unwrap().get(0);
    assert_eq!(seen, 0, "no tenant, no keys");
    let tenant = uuid::Uuid::from_u128(1);
    app.batch_execute(&format!("SET hapax.tenant = '{tenant}'"))
        .await
        .unwrap();
    let seen: i64 = app.query_one(keys, &[]).await.unwrap().get(0);
    assert_eq!(seen, 1);
    for refused in [
        "DELETE FROM tenant_key",
        "UPDATE tenant_key SET kek_id = 'x'",
        "INSERT INTO tenant_key (tenant_id, number, key_id, kek_id, wrapped, created_at) \
         SELECT gen_random_uuid(), 1, gen_random_uuid(), 'x', ''::bytea, now()",
    ] {
        let error = app.batch_execute(refused).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{refused}");
    }
}
