//! Who sees and changes what of enrichment: one tenant at a time; who looks for what is due sees no content.

use std::time::Duration;

use hapax_core::entry::{Asked, BatchState, BatchStatus, Batches};
use hapax_core::{Fingerprint, Kind};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use uuid::Uuid;

use super::super::super::database::Database;
use super::super::{number, refused, tenant};
use super::{add, completing, entry, items, opened, own, settle};

const TABLES: [&str; 4] = [
    "pkm.t1_batches",
    "pkm.t1_batch_items",
    "llm_answer",
    "llm_question",
];

/// A batch with an item, a paid answer and something asked, of each of two tenants.
async fn two_tenants() -> (Database, PgLedger) {
    let (database, ledger) = opened().await;
    for of in [1, 2] {
        add(&ledger, of, of, vec![own("secret")]).await;
        let answers = vec![(Fingerprint::of(b"asked"), format!("secret {of}").into())];
        ledger.keep_answers(tenant(of), answers).await.unwrap();
        let (who, hour) = (Uuid::from_u128(of), Duration::from_secs(3600));
        let asked = vec![Fingerprint::of(b"asked by two")];
        let asked = ledger.ask(tenant(of), who, hour, asked).await;
        assert_eq!(asked.unwrap(), [Asked::Ours]);
    }
    (database, ledger)
}

#[tokio::test]
async fn the_app_role_sees_and_writes_one_tenants_batches_and_answers_only() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_app").await.unwrap();
    for table in TABLES {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&raw, &count).await, 0, "no tenant, no rows: {table}");
    }
    raw.batch_execute("SET hapax.tenant = '00000000-0000-0000-0000-000000000001'")
        .await
        .unwrap();
    for table in TABLES {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&raw, &count).await, 1, "its own only: {table}");
        let moved =
            format!("UPDATE {table} SET tenant_id = '00000000-0000-0000-0000-000000000002'");
        assert_eq!(refused(&raw, &moved).await, "42501", "{table}");
    }
    for forged in [
        "INSERT INTO llm_question SELECT '00000000-0000-0000-0000-000000000002', request_key, asker, 0 FROM llm_question",
        "INSERT INTO llm_answer SELECT '00000000-0000-0000-0000-000000000002', request_key, 'mine', 0 FROM llm_answer",
        "INSERT INTO pkm.t1_batches (tenant_id, batch_id, status, completion_window, request_count, created_at, updated_at) \
         VALUES ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000002', 'queued', '', 1, now(), now())",
        "INSERT INTO pkm.t1_batch_items (tenant_id, batch_id, status, created_at, updated_at) \
         VALUES ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000002', 'queued', now(), now())",
    ] {
        assert_eq!(refused(&raw, forged).await, "42501", "and never 23505");
    }
    for change in [
        "UPDATE llm_answer SET raw = 'another'",
        "DELETE FROM llm_answer",
        "DELETE FROM pkm.t1_batches",
    ] {
        assert_eq!(refused(&raw, change).await, "42501", "{change}");
    }
}

#[tokio::test]
async fn who_looks_for_what_is_due_sees_no_content() {
    let (database, ledger) = two_tenants().await;
    let ended = BatchState {
        status: BatchStatus::Failed,
        ..ledger
            .batches(tenant(2), None, true, None, 1)
            .await
            .unwrap()[0]
            .state
            .clone()
    };
    let id = uuid::Uuid::from_u128(2);
    let schema = hapax_core::entry::Schema::Pkm;
    let changed = ledger.change_batch(tenant(2), schema, id, 1, ended).await;
    assert!(changed.unwrap().is_some());
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_janitor").await.unwrap();
    for home in ["pkm", "pkm_test"] {
        let due = format!(
            "SELECT count(*) FROM (SELECT tenant_id, batch_id, batch_seq, status, attempt, next_at FROM {home}.t1_batches) AS d"
        );
        let expected = i64::from(home == "pkm");
        assert_eq!(number(&raw, &due).await, expected, "what did not end");
        for column in [
            "import_id",
            "completion_window",
            "request_count",
            "metadata",
            "error",
            "model",
            "provider_batch_id",
            "provider_status",
            "input_file_id",
            "output_file_id",
            "error_file_id",
            "created_at",
        ] {
            let read = format!("SELECT {column} FROM {home}.t1_batches");
            assert_eq!(refused(&raw, &read).await, "42501", "{column}");
        }
        for change in [
            format!("UPDATE {home}.t1_batches SET attempt = 2"),
            format!("DELETE FROM {home}.t1_batches"),
            format!("SELECT item_id FROM {home}.t1_batch_items"),
        ] {
            assert_eq!(refused(&raw, &change).await, "42501", "{change}");
        }
    }
    let read = "SELECT tenant_id FROM llm_answer";
    assert_eq!(refused(&raw, read).await, "42501");
}

#[tokio::test]
async fn an_owner_without_superuser_and_a_restricted_login_enrich() {
    let database = Database::create().await;
    Database::migrated().await; // so that the roles are there
    let (owner, app) = (
        format!("maker_{}", database.name),
        format!("app_{}", database.name),
    );
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "CREATE ROLE {owner} LOGIN CREATEROLE; ALTER DATABASE {} OWNER TO {owner}; \
         GRANT hapax_app, hapax_janitor TO {owner} WITH ADMIN OPTION; \
         CREATE ROLE {app} LOGIN; GRANT hapax_app, hapax_janitor TO {app}",
        database.name
    ))
    .await
    .unwrap();
    for (login, of) in [(&owner, 1), (&app, 2)] {
        let url = database.url_for(login, "");
        let ledger = PgLedger::open(&url, PgOptions::default()).await.unwrap();
        let of_entry = entry(&ledger, of, "tea").await;
        let batch = add(&ledger, of, of, vec![of_entry]).await;
        let item = items(&ledger, of, &batch).await.remove(0);
        settle(&ledger, of, &batch, vec![completing(&item, "g")]).await;
        let due = ledger.due_batches(9).await.unwrap();
        assert!(due.iter().any(|due| due.tenant == tenant(of)), "{login}");
        let answers = vec![(Fingerprint::of(b"a"), "A".into())];
        ledger.keep_answers(tenant(of), answers).await.unwrap();
    }
}

#[tokio::test]
async fn answers_without_forced_row_security_are_refused() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    raw.batch_execute("ALTER TABLE llm_answer NO FORCE ROW LEVEL SECURITY")
        .await
        .unwrap();
    let error = PgLedger::open(&database.url, PgOptions::default()).await;
    assert_eq!(error.unwrap_err().kind(), Kind::Unsafe);
}
