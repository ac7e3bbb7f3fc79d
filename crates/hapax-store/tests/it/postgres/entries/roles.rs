//! Who sees and changes what: one tenant at a time, whoever logged in.

use hapax_core::Kind;
use hapax_core::entry::Catalog;
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;

use super::super::database::Database;
use super::{ACTIVE, found, link, number, refused, tenant, thought, write};
use serde_json::json;

const TABLES: [&str; 8] = [
    "pkm.entries",
    "pkm.entry_messages",
    "pkm.entry_revisions",
    "pkm.idempotency_policies",
    "pkm.t1_batches",
    "pkm.t1_batch_items",
    "pkm.runtime_config",
    "imports",
];

/// A row of two tenants in every table.
async fn two_tenants() -> (Database, PgLedger) {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    for of in [1, 2] {
        let mode = hapax_core::entry::TestMode::Set(false);
        ledger.change_test_mode(tenant(of), mode).await.unwrap();
        let batch = vec![
            thought("t", &json!({"a": 1})),
            thought("t", &json!({"b": of.to_string()})),
        ];
        write(&ledger, of, batch).await;
    }
    let raw = database.raw().await;
    raw.batch_execute(
        "INSERT INTO pkm.entry_messages SELECT tenant_id, entry_id, sha256('a') FROM pkm.entries; \
         INSERT INTO pkm.t1_batches (tenant_id, batch_id, status, completion_window, request_count, created_at, updated_at) \
           SELECT tenant_id, id, 'queued', '24h', 1, now(), now() FROM pkm.entries; \
         INSERT INTO pkm.t1_batch_items (tenant_id, batch_id, entry_id, status, created_at, updated_at) \
           SELECT tenant_id, id, entry_id, 'queued', now(), now() FROM pkm.entries; \
         INSERT INTO imports (tenant_id, import_id, schema, path, path_hash, batch_size, insert_chunk_size, completion_window, \
             status, step, cursor_index, cursor_offset, total_messages, normalized_ok, normalize_errors, inserted, updated, \
             skipped, insert_errors, tier1_candidates, tier1_enqueued_items, errors, created_at, updated_at) \
           SELECT tenant_id, id, 'pkm', 'a', sha256('a'), 1, 1, '24h', 'running', 'reading', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
             '[]', 0, 0 FROM pkm.entries",
    )
    .await
    .unwrap();
    (database, ledger)
}

#[tokio::test]
async fn the_app_role_sees_and_writes_one_tenants_entries_only() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_app; SET hapax.words = 'tea'")
        .await
        .unwrap();
    let seen = TABLES.into_iter().chain(["pkm.entries_found"]);
    for table in seen.clone() {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&raw, &count).await, 0, "no tenant, no rows: {table}");
    }
    raw.batch_execute("SET hapax.tenant = '00000000-0000-0000-0000-000000000001'")
        .await
        .unwrap();
    for table in seen {
        let expected = if table == "pkm.idempotency_policies" {
            4
        } else {
            1
        };
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(
            number(&raw, &count).await,
            expected,
            "its own only: {table}"
        );
    }
    for table in TABLES {
        let moved =
            format!("UPDATE {table} SET tenant_id = '00000000-0000-0000-0000-000000000002'");
        assert_eq!(refused(&raw, &moved).await, "42501", "{table}");
        if !["pkm.t1_batch_items", "pkm.idempotency_policies"].contains(&table) {
            let deleted = format!("DELETE FROM {table}");
            assert_eq!(refused(&raw, &deleted).await, "42501", "{table}");
        }
    }
    let forged = "INSERT INTO pkm.entries (tenant_id, id, source) \
        SELECT '00000000-0000-0000-0000-000000000002', id, source FROM pkm.entries";
    assert_eq!(refused(&raw, forged).await, "42501", "and never 23505");
    let state = r#"UPDATE pkm.entry_revisions SET "row" = '{}'"#;
    assert_eq!(
        refused(&raw, state).await,
        "42501",
        "history stays as it was"
    );
}

#[tokio::test]
async fn the_janitor_sees_no_entry_but_what_a_search_finds() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_janitor; SET hapax.words = 'tea'")
        .await
        .unwrap();
    let partly = ["pkm.entries", "pkm.t1_batches"];
    let tables = TABLES.into_iter().filter(|table| !partly.contains(table));
    for table in tables {
        let read = format!("SELECT count(*) FROM {table}");
        assert_eq!(refused(&raw, &read).await, "42501", "{table}");
    }
    for column in ["title", "clean_text", "metadata", "idempotency_key_primary"] {
        let read = format!("SELECT {column} FROM pkm.entries");
        assert_eq!(refused(&raw, &read).await, "42501", "{column}");
    }
    let all = "SELECT count(entry_id) FROM pkm.entries";
    assert_eq!(number(&raw, all).await, 0, "no tenant");
    raw.batch_execute("SET hapax.tenant = '00000000-0000-0000-0000-000000000001'")
        .await
        .unwrap();
    assert_eq!(number(&raw, all).await, 1, "what the words find");
    for words in ["", "coffee"] {
        let set = format!("SET hapax.words = '{words}'");
        raw.batch_execute(&set).await.unwrap();
        assert_eq!(number(&raw, all).await, 0, "and nothing else: {words:?}");
    }
    assert_eq!(
        refused(&raw, "CREATE TABLE pkm.mine (id int)").await,
        "42501"
    );
}

#[tokio::test]
async fn a_search_shows_no_caller_the_words_of_another_tenant() {
    let (database, ledger) = two_tenants().await;
    write(&ledger, 2, vec![link("secret")]).await;
    assert_eq!(found(&ledger, 1, "tea").await, 1);
    assert_eq!(found(&ledger, 1, "secret").await, 0);
    assert_eq!(found(&ledger, 2, "secret").await, 1);
    let marker = "of00000000000000000000000000000002";
    assert_eq!(found(&ledger, 1, marker).await, 0, "nor by its id");
    let raw = database.raw().await;
    // A function that costs nothing is called as early as the planner dares.
    raw.batch_execute(
        "CREATE FUNCTION tattle(words tsvector) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS \
         $$ BEGIN IF words @@ 'secret' THEN RAISE EXCEPTION 'secret'; END IF; RETURN true; END $$; \
         GRANT EXECUTE ON FUNCTION tattle(tsvector) TO hapax_app; \
         SET ROLE hapax_app; SET hapax.words = 'tea'; SET hapax.tenant = '00000000-0000-0000-0000-000000000001'",
    )
    .await
    .unwrap();
    for table in ["pkm.entries_found", "pkm.entries"] {
        let leak = format!("SELECT count(*) FROM {table} WHERE tattle(found_by)");
        assert_eq!(number(&raw, &leak).await, 1, "{table}");
    }
}

#[tokio::test]
async fn an_owner_without_superuser_and_a_restricted_login_write_and_search() {
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
        write(&ledger, of, vec![link("a"), link("b")]).await;
        assert_eq!(found(&ledger, of, "leaves").await, 2, "{login}");
        assert_eq!(found(&ledger, of, "b").await, 1, "{login}");
        for session in ledger.sessions().await.unwrap() {
            session.verify().unwrap();
        }
    }
}

#[tokio::test]
async fn a_schema_with_entries_of_somebody_else_is_left_alone() {
    let database = Database::create().await;
    let raw = database.raw().await;
    raw.batch_execute("CREATE SCHEMA pkm; CREATE TABLE pkm.entries (id int)")
        .await
        .unwrap();
    let error = PgLedger::migrate(&database.url).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("rename that schema"), "{error}");
    raw.batch_execute("DROP TABLE pkm.entries").await.unwrap();
    let ledger = database.open(PgOptions::default()).await;
    write(&ledger, 0, vec![link("a")]).await;
    let there = ledger.entry(tenant(0), ACTIVE, 1).await.unwrap();
    assert!(there.is_some());
}

#[tokio::test]
async fn a_home_without_forced_row_security_is_refused() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    for table in [
        "pkm.entries",
        "pkm_test.t1_batch_items",
        "pkm.runtime_config",
    ] {
        let change = format!("ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY");
        raw.batch_execute(&change).await.unwrap();
        let error = PgLedger::open(&database.url, PgOptions::default()).await;
        assert_eq!(error.unwrap_err().kind(), Kind::Unsafe, "{table}");
        let change = format!("ALTER TABLE {table} FORCE ROW LEVEL SECURITY");
        raw.batch_execute(&change).await.unwrap();
    }
}
