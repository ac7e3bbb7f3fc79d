//! Opening: migrations, roles, and what is refused.

use hapax_core::{Kind, Ledger, Swap};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;

use super::database::Database;
use super::{claim, inserting};

async fn refusal(database: &Database) -> hapax_core::Error {
    PgLedger::open(&database.url, PgOptions::default())
        .await
        .expect_err("it is not safe")
}

#[tokio::test]
async fn eight_nodes_migrate_at_once() {
    let database = Database::create().await;
    let nodes: Vec<_> = (0..8)
        .map(|_| {
            let url = database.url.clone();
            tokio::spawn(async move { PgLedger::open(&url, PgOptions::default()).await })
        })
        .collect();
    for node in nodes {
        node.await
            .unwrap()
            .expect("every node opens")
            .check()
            .await
            .unwrap();
    }
    let raw = database.raw().await;
    let ran = raw
        .query_one("SELECT count(*) FROM schema_migration", &[])
        .await
        .unwrap();
    assert_eq!(ran.get::<_, i64>(0), 22);
    assert!(
        PgLedger::migrate(&database.url).await.unwrap().is_empty(),
        "nothing is left to run"
    );
}

#[tokio::test]
async fn migrate_says_what_ran() {
    let database = Database::create().await;
    assert_eq!(
        PgLedger::migrate(&database.url).await.unwrap(),
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
}

#[tokio::test]
async fn a_login_that_may_not_migrate_opens_a_migrated_database() {
    let database = Database::migrated().await;
    let login = format!("app_{}", database.name);
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "CREATE ROLE {login} LOGIN; GRANT hapax_app, hapax_janitor TO {login}"
    ))
    .await
    .unwrap();

    let ledger = PgLedger::open(&database.url_for(&login, ""), PgOptions::default())
        .await
        .unwrap();

    let step = inserting(&ledger, &claim(1, "k", 1));
    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
    ledger.sweep(hapax_core::Sweep::default()).await.unwrap();
}

#[tokio::test]
async fn an_owner_who_is_no_superuser_gets_its_own_rows_through_the_restricted_role() {
    let database = Database::migrated().await;
    let login = format!("owner_{}", database.name);
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "CREATE ROLE {login} LOGIN CREATEROLE; GRANT hapax_app, hapax_janitor TO {login} WITH ADMIN OPTION; \
         ALTER TABLE idempotency_keys OWNER TO {login}; ALTER TABLE token OWNER TO {login}"
    ))
    .await
    .unwrap();
    let ledger = PgLedger::open(&database.url_for(&login, ""), PgOptions::default())
        .await
        .unwrap();
    let step = inserting(&ledger, &claim(1, "k", 1));
    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
}

#[tokio::test]
async fn the_owner_of_an_empty_database_needs_no_superuser() {
    let database = Database::create().await;
    Database::migrated().await; // so that the roles are there
    let login = format!("maker_{}", database.name);
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "CREATE ROLE {login} LOGIN CREATEROLE; ALTER DATABASE {} OWNER TO {login}; DO $$ BEGIN \
         IF current_setting('server_version_num')::integer >= 160000 THEN \
         GRANT hapax_app, hapax_janitor TO {login} WITH ADMIN OPTION; END IF; END $$",
        database.name
    ))
    .await
    .unwrap();

    let ledger = PgLedger::open(&database.url_for(&login, ""), PgOptions::default())
        .await
        .unwrap();

    let step = inserting(&ledger, &claim(1, "k", 1));
    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
    for session in ledger.sessions().await.unwrap() {
        assert_eq!(session.login, login);
        session.verify().unwrap();
    }
}

#[tokio::test]
async fn a_login_without_our_roles_is_refused_and_told_what_to_do() {
    let database = Database::migrated().await;
    let login = format!("nobody_{}", database.name);
    database
        .raw()
        .await
        .batch_execute(&format!("CREATE ROLE {login} LOGIN"))
        .await
        .unwrap();
    let error = PgLedger::open(&database.url_for(&login, ""), PgOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unsafe);
    assert!(
        error.to_string().contains("grant both to this login"),
        "{error}"
    );
}

#[tokio::test]
async fn a_login_that_may_not_migrate_is_told_so_when_something_is_pending() {
    let database = Database::create().await;
    Database::migrated().await; // so that the roles are there
    let login = format!("late_{}", database.name);
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "CREATE ROLE {login} LOGIN; GRANT hapax_app, hapax_janitor TO {login}"
    ))
    .await
    .unwrap();
    let error = PgLedger::open(&database.url_for(&login, ""), PgOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unsafe);
    assert!(error.to_string().contains("hapax migrate"), "{error}");
}

#[tokio::test]
async fn a_table_without_forced_row_security_is_refused() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    for (table, change, word) in [
        ("idempotency_keys", "NO FORCE ROW LEVEL SECURITY", "FORCE"),
        ("token", "NO FORCE ROW LEVEL SECURITY", "FORCE"),
        ("idempotency_keys", "DISABLE ROW LEVEL SECURITY", "ENABLE"),
    ] {
        raw.batch_execute(&format!("ALTER TABLE {table} {change}"))
            .await
            .unwrap();
        let error = refusal(&database).await;
        assert_eq!(error.kind(), Kind::Unsafe);
        assert!(error.to_string().contains(word), "{error}");
        raw.batch_execute(&format!("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; ALTER TABLE {table} FORCE ROW LEVEL SECURITY"))
            .await
            .unwrap();
    }
    PgLedger::open(&database.url, PgOptions::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn tables_owned_by_the_apps_role_are_refused() {
    let database = Database::migrated().await;
    database
        .raw()
        .await
        .batch_execute("ALTER TABLE idempotency_keys OWNER TO hapax_app")
        .await
        .unwrap();
    let error = refusal(&database).await;
    assert_eq!(error.kind(), Kind::Unsafe);
    assert!(error.to_string().contains("owns"), "{error}");
}

#[tokio::test]
async fn a_role_that_may_bypass_row_security_is_refused() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    // Roles belong to the whole server: this change is seen by this transaction only, and taken back.
    raw.batch_execute("BEGIN; ALTER ROLE hapax_app BYPASSRLS; SET LOCAL ROLE hapax_app")
        .await
        .unwrap();
    let session = PgLedger::examine(&raw).await.unwrap();
    raw.batch_execute("ROLLBACK").await.unwrap();
    let error = session.verify().unwrap_err();
    assert_eq!(error.kind(), Kind::Unsafe);
    assert!(error.to_string().contains("NOBYPASSRLS"), "{error}");
}

#[tokio::test]
async fn an_edited_migration_is_refused() {
    let database = Database::migrated().await;
    database
        .raw()
        .await
        .batch_execute("UPDATE schema_migration SET sha256 = 'x' WHERE number = 1")
        .await
        .unwrap();
    assert_eq!(refusal(&database).await.kind(), Kind::Unsafe);
}

#[tokio::test]
async fn the_password_is_in_no_error() {
    let database = Database::migrated().await;
    let secret = "s3cr3t-pass";
    let good = database.url_for("nobody_such", secret);
    let away = good.replace("127.0.0.1", "127.0.0.2:1,127.0.0.1");
    for url in [
        good.clone(),
        away,
        good.replace("postgres://", "mysql://"),
        format!("{good}?sslmode=x"),
        format!("{good}?{secret}=1"),
    ] {
        let error = PgLedger::open(&url, PgOptions::default())
            .await
            .unwrap_err();
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
    }
    let ledger = PgLedger::open(
        &database
            .url
            .replace("postgres@", &format!("postgres:{secret}@")),
        PgOptions::default(),
    )
    .await
    .unwrap();
    assert!(!format!("{ledger:?}").contains(secret));
}

#[tokio::test]
async fn tables_may_live_in_another_schema() {
    let database = Database::create().await;
    database
        .raw()
        .await
        .batch_execute("CREATE SCHEMA ledger")
        .await
        .unwrap();
    let url = format!("{}?options=-csearch_path%3Dledger", database.url);
    let ledger = PgLedger::open(&url, PgOptions::default()).await.unwrap();
    let step = inserting(&ledger, &claim(1, "k", 1));
    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
    let raw = database.raw().await;
    let there = raw
        .query_one("SELECT count(*) FROM ledger.idempotency_keys", &[])
        .await
        .unwrap();
    assert_eq!(there.get::<_, i64>(0), 1);
}
