//! Migrating beside those who work: a migration that waits keeps nobody waiting, and what is newer is left alone.

use std::time::{Duration, Instant};

use hapax_store::PgLedger;

use super::database::Database;

#[tokio::test]
async fn a_migration_that_waits_for_a_table_lets_others_through() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    // As it was before the migration that adds this index.
    raw.batch_execute(
        "DROP INDEX idx_op_waiting; DELETE FROM schema_migration WHERE name = '0010_questions'",
    )
    .await
    .unwrap();
    // Somebody writes, and does not come to an end.
    let writer = database.raw().await;
    writer
        .batch_execute("BEGIN; LOCK TABLE op IN ROW EXCLUSIVE MODE")
        .await
        .unwrap();
    let url = database.url.clone();
    let migrating = tokio::spawn(async move { PgLedger::migrate(&url).await });
    let waits =
        "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'op'::regclass AND NOT granted)";
    let until = Instant::now() + Duration::from_secs(60);
    while !raw.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(Instant::now() < until && !migrating.is_finished());
    }

    // Others write meanwhile. They stand behind the migration in the queue for the table, so it must leave it.
    let other = database.raw().await;
    other
        .batch_execute("SET lock_timeout = '20s'")
        .await
        .unwrap();
    for _ in 0..5 {
        other
            .batch_execute("BEGIN; LOCK TABLE op IN ROW EXCLUSIVE MODE; COMMIT")
            .await
            .expect("the migration lets it through");
    }
    assert!(!migrating.is_finished(), "it still has no table");
    writer.batch_execute("COMMIT").await.unwrap();
    assert_eq!(migrating.await.unwrap().unwrap(), ["0010_questions"]);
}

#[tokio::test]
async fn what_a_newer_program_ran_is_named_and_stays() {
    let database = Database::migrated().await;
    assert!(PgLedger::newer(&database.url).await.unwrap().is_empty());
    let raw = database.raw().await;
    raw.batch_execute(
        "INSERT INTO schema_migration (number, name, sha256) VALUES (9999, '9999_tomorrow', 'x')",
    )
    .await
    .unwrap();
    assert_eq!(
        PgLedger::newer(&database.url).await.unwrap(),
        ["9999_tomorrow"]
    );
    assert!(PgLedger::migrate(&database.url).await.unwrap().is_empty());
    assert_eq!(
        PgLedger::newer(&database.url).await.unwrap(),
        ["9999_tomorrow"]
    );
}
