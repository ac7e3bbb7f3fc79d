//! What a failure leaves: all of a batch or nothing, no lock, and an honest word.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::Kind;
use hapax_core::entry::{Action, Catalog, Incoming};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use serde_json::json;

use super::super::database::Database;
use super::{ACTIVE, link, number, row, tenant, thought, write};

async fn opened() -> (Database, PgLedger) {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    (database, ledger)
}

#[tokio::test]
async fn a_warning_on_commit_leaves_the_outcome_unknown() {
    let (database, ledger) = opened().await;
    // What a cancelled wait for a synchronous standby looks like: success, and a warning.
    let raw = database.raw().await;
    raw.batch_execute(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON pkm.entries DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION warn()",
    )
    .await
    .unwrap();
    let written = ledger.write_entries(tenant(1), ACTIVE, vec![link("a")], false);
    assert_eq!(written.await.unwrap_err().kind(), Kind::OutcomeUnknown);
    let again = write(&ledger, 1, vec![link("a")]).await;
    assert_eq!(
        row(&again[0]).0,
        Action::Skipped,
        "writing it again is harmless"
    );
}

#[tokio::test]
async fn a_row_that_stays_locked_is_unavailable_and_unchanged() {
    let (database, ledger) = opened().await;
    write(&ledger, 1, vec![thought("a", &json!({"x": 1}))]).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM pkm.entries FOR UPDATE")
        .await
        .unwrap();
    let batch = vec![link("b"), thought("a", &json!({"y": 1}))];
    let error = ledger.write_entries(tenant(1), ACTIVE, batch, false).await;
    assert_eq!(error.unwrap_err().kind(), Kind::Unavailable);
    lock.commit().await.unwrap();
    assert_eq!(number(&raw, "SELECT count(*) FROM pkm.entries").await, 1);
    assert_eq!(number(&raw, "SELECT revision FROM pkm.entries").await, 1);
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_lock_and_nothing_half_done() {
    let (database, ledger) = opened().await;
    write(&ledger, 1, vec![thought("a", &json!({"x": 1}))]).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM pkm.entries FOR UPDATE")
        .await
        .unwrap();
    let batch = vec![link("b"), thought("a", &json!({"y": 1}))];
    let dropped = ledger.write_entries(tenant(1), ACTIVE, batch.clone(), false);
    let late = tokio::time::timeout(Duration::from_millis(200), dropped).await;
    assert!(late.is_err(), "it waits for the lock");
    lock.commit().await.unwrap();
    assert_eq!(number(&raw, "SELECT count(*) FROM pkm.entries").await, 1);
    let done = write(&ledger, 1, batch).await;
    assert_eq!(row(&done[0]).0, Action::Inserted);
    assert_eq!(row(&done[1]).1.revision, 2);
}

#[tokio::test]
async fn writes_that_are_dropped_at_any_moment_are_whole_or_nothing() {
    let (database, ledger) = opened().await;
    for turn in 0..40_u64 {
        let batch: Vec<Incoming> = (0..20).map(|one| link(&format!("{turn}-{one}"))).collect();
        let dropped = ledger.write_entries(tenant(1), ACTIVE, batch, false);
        let wait = Duration::from_micros(turn * 300);
        drop(tokio::time::timeout(wait, dropped).await);
    }
    // What was on its way to the commit may still arrive: the last word is that of the locks.
    let all: Vec<Incoming> = (0..40).map(|turn| link(&format!("{turn}-0"))).collect();
    write(&ledger, 1, all).await;
    let raw = database.raw().await;
    let parts = "SELECT count(*) FROM (SELECT split_part(idempotency_key_primary, '-', 1) FROM pkm.entries \
        GROUP BY 1 HAVING count(*) NOT IN (1, 20)) AS part";
    assert_eq!(number(&raw, parts).await, 0);
}

#[tokio::test]
async fn a_row_that_somebody_inserts_by_hand_at_the_same_moment_is_met() {
    let (database, ledger) = opened().await;
    let ledger = Arc::new(ledger);
    let mut raw = database.raw().await;
    let by_hand = raw.transaction().await.unwrap();
    by_hand
        .batch_execute(
            "INSERT INTO pkm.entries (tenant_id, source, title, idempotency_policy_key, idempotency_key_primary) \
             VALUES ('00000000-0000-0000-0000-000000000001', 'hand', 'by hand', 'telegram_link_v1', 'a')",
        )
        .await
        .unwrap();
    let node = ledger.clone();
    let ours = tokio::spawn(async move { write(&node, 1, vec![link("a"), link("b")]).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    by_hand.commit().await.unwrap();
    let done = ours.await.unwrap();
    assert_eq!(row(&done[0]).0, Action::Skipped);
    assert_eq!(row(&done[0]).1.entry_id, 1);
    assert_eq!(row(&done[1]).0, Action::Inserted);
}

#[tokio::test]
async fn a_text_that_the_database_refuses_fails_its_batch_and_says_so() {
    let (database, ledger) = opened().await;
    let mut draft = hapax_core::entry::Fields::new();
    draft.put(hapax_core::entry::Column::Source, "web");
    draft.put(hapax_core::entry::Column::Title, "a\0b");
    let bad = Incoming::Insert(hapax_core::entry::Draft {
        fields: draft,
        created_at: None,
        ignored: Vec::new(),
    });
    let written = ledger.write_entries(tenant(1), ACTIVE, vec![link("a"), bad], false);
    assert_eq!(written.await.unwrap_err().kind(), Kind::Limit);
    let raw = database.raw().await;
    assert_eq!(number(&raw, "SELECT count(*) FROM pkm.entries").await, 0);
    write(&ledger, 1, vec![link("a")]).await;
}
