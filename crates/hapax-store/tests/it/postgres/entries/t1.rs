//! What only this store promises of enrichment: its roles, nodes that share it, what a failure leaves, what it touches,
//! and what it makes of a database from before.

mod plans;
mod roles;

use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{
    Batch, Batches, Catalog, Change, Column, Fields, Incoming, Item, ItemChange, ItemScan,
    ItemStatus, ItemText, NewBatch, NewItem, Schema,
};
use hapax_core::{Fingerprint, Kind};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use serde_json::{Map, json};
use uuid::Uuid;

use super::super::database::{Database, connect};
use super::{ACTIVE, draft, number, row, tenant, write};

async fn opened() -> (Database, PgLedger) {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    (database, ledger)
}

fn own(text: &str) -> NewItem {
    NewItem::Own(ItemText {
        clean_text: text.to_owned(),
        ..ItemText::default()
    })
}

fn new(id: u128, items: Vec<NewItem>) -> NewBatch {
    NewBatch {
        id: Uuid::from_u128(id),
        completion_window: "24h".to_owned(),
        metadata: Map::new(),
        items,
    }
}

async fn add(ledger: &PgLedger, of: u128, id: u128, items: Vec<NewItem>) -> Batch {
    let added = ledger.add_batch(tenant(of), ACTIVE, new(id, items)).await;
    added.unwrap()
}

/// An entry with this text, as an item.
async fn entry(ledger: &PgLedger, of: u128, text: &str) -> NewItem {
    let incoming = draft(&json!({"source": "web", "clean_text": text}));
    let done = write(ledger, of, vec![incoming]).await;
    NewItem::of_row(row(&done[0]).1).expect("it has a text")
}

async fn items(ledger: &PgLedger, of: u128, batch: &Batch) -> Vec<Item> {
    let scan = ItemScan {
        status: None,
        after: None,
        with_text: true,
        limit: ItemScan::LIMIT_MAX,
    };
    let items = ledger.batch_items(tenant(of), batch.schema, batch.id, scan);
    items.await.unwrap()
}

fn completing(item: &Item, gist: &str) -> ItemChange {
    let mut fields = Fields::new();
    fields.put(Column::Gist, gist);
    ItemChange {
        item_id: item.item_id,
        from: ItemStatus::Queued,
        to: ItemStatus::Completed,
        raw: Some(gist.into()),
        result: Some(json!({ "gist": gist })),
        error: None,
        missed_in: None,
        entry: Some(fields),
    }
}

async fn settle(
    ledger: &PgLedger,
    of: u128,
    batch: &Batch,
    changes: Vec<ItemChange>,
) -> Vec<Option<ItemStatus>> {
    let settled = ledger.settle_items(tenant(of), batch.schema, batch.id, changes);
    settled.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_settle_the_same_entries_in_any_order_lose_nothing() {
    let (database, one) = opened().await;
    let other = database.open(PgOptions::default()).await;
    let nodes = [Arc::new(one), Arc::new(other)];
    let mut entries = Vec::new();
    for number in 0..10 {
        entries.push(entry(&nodes[0], 1, &format!("text {number}")).await);
    }
    let mut settles = Vec::new();
    for turn in 0..12_u128 {
        let node = nodes[usize::from(turn % 2 == 0)].clone();
        let mut asked = entries.clone();
        asked.rotate_left(usize::try_from(turn % 10).unwrap());
        if turn % 3 == 0 {
            asked.reverse();
        }
        let batch = add(&node, 1, 1 + turn, asked).await;
        let mut changes: Vec<ItemChange> = items(&node, 1, &batch)
            .await
            .iter()
            .map(|item| completing(item, &format!("gist {turn}")))
            .collect();
        if turn % 2 == 0 {
            changes.reverse();
        }
        settles.push(tokio::spawn(async move {
            settle(&node, 1, &batch, changes).await
        }));
    }
    // Somebody writes other columns of the same entries meanwhile.
    let node = nodes[0].clone();
    let numbers: Vec<i64> = entries
        .iter()
        .rev()
        .filter_map(|one| match one {
            NewItem::OfEntry { entry_id, .. } => Some(*entry_id),
            NewItem::Own(_) => None,
        })
        .collect();
    settles.push(tokio::spawn(async move {
        let change = |entry_id: &i64| {
            let mut fields = Fields::new();
            fields.put(Column::Intent, "kept");
            Incoming::Update(Change {
                entry_id: Some(*entry_id),
                id: None,
                fields,
                ignored: Vec::new(),
            })
        };
        write(&node, 1, numbers.iter().map(change).collect()).await;
        vec![Some(ItemStatus::Completed)]
    }));
    for one in settles {
        let settled = one.await.unwrap();
        assert!(
            settled
                .iter()
                .all(|status| *status == Some(ItemStatus::Completed))
        );
    }
    let raw = database.raw().await;
    let whole = "SELECT count(*) FROM pkm.entries WHERE revision = 14 AND gist IS NOT NULL AND intent = 'kept'";
    assert_eq!(number(&raw, whole).await, 10, "each once over the others");
    let states = "SELECT count(*) FROM pkm.entry_revisions";
    assert_eq!(number(&raw, states).await, 130);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_add_one_batch_while_the_mode_changes_keep_it_once() {
    let (database, one) = opened().await;
    let nodes = [
        Arc::new(one),
        Arc::new(database.open(PgOptions::default()).await),
    ];
    let adds = (0..30_u128).map(|turn| {
        let node = nodes[usize::from(turn % 2 == 0)].clone();
        tokio::spawn(async move {
            if turn % 3 == 0 {
                let mode = hapax_core::entry::TestMode::Toggle;
                node.change_test_mode(tenant(1), mode).await.unwrap();
            }
            add(&node, 1, 1 + turn % 3, vec![own("x"), own("y")])
                .await
                .id
        })
    });
    for one in adds.collect::<Vec<_>>() {
        one.await.unwrap();
    }
    let raw = database.raw().await;
    for (table, count) in [("t1_batches", 3), ("t1_batch_items", 6)] {
        let both = format!(
            "SELECT (SELECT count(*) FROM pkm.{table}) + (SELECT count(*) FROM pkm_test.{table})"
        );
        assert_eq!(number(&raw, &both).await, count, "{table}");
    }
}

#[tokio::test]
async fn a_text_that_is_changed_by_hand_makes_its_item_stale() {
    let (database, ledger) = opened().await;
    let of_entry = entry(&ledger, 1, "tea").await;
    let batch = add(&ledger, 1, 1, vec![of_entry]).await;
    let item = items(&ledger, 1, &batch).await.remove(0);
    let raw = database.raw().await;
    raw.batch_execute("UPDATE pkm.entries SET clean_text = 'coffee'")
        .await
        .unwrap();
    let settled = settle(&ledger, 1, &batch, vec![completing(&item, "of tea")]).await;
    assert_eq!(settled, [Some(ItemStatus::Stale)]);
    let written = "SELECT count(*) FROM pkm.entries WHERE gist IS NOT NULL";
    assert_eq!(number(&raw, written).await, 0);
}

#[tokio::test]
async fn an_entry_that_stays_locked_is_unavailable_and_its_item_unchanged() {
    let (database, ledger) = opened().await;
    let of_entry = entry(&ledger, 1, "tea").await;
    let batch = add(&ledger, 1, 1, vec![own("x"), of_entry]).await;
    let before = items(&ledger, 1, &batch).await;
    let changes: Vec<ItemChange> = before.iter().map(|item| completing(item, "g")).collect();
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM pkm.entries FOR UPDATE")
        .await
        .unwrap();
    let dropped = ledger.settle_items(tenant(1), batch.schema, batch.id, changes.clone());
    let late = tokio::time::timeout(Duration::from_millis(200), dropped).await;
    assert!(late.is_err(), "it waits for the lock");
    let error = ledger.settle_items(tenant(1), batch.schema, batch.id, changes.clone());
    assert_eq!(error.await.unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(items(&ledger, 1, &batch).await, before);
    lock.commit().await.unwrap();
    let settled = settle(&ledger, 1, &batch, changes).await;
    assert_eq!(settled, [Some(ItemStatus::Completed); 2]);
}

#[tokio::test]
async fn settles_that_are_dropped_at_any_moment_are_whole_or_nothing() {
    let (database, ledger) = opened().await;
    for turn in 0..40_u32 {
        let of_entry = entry(&ledger, 1, &format!("text {turn}")).await;
        let batch = add(&ledger, 1, 1 + u128::from(turn), vec![of_entry, own("x")]).await;
        let there = items(&ledger, 1, &batch).await;
        let changes = there.iter().map(|item| completing(item, "g")).collect();
        let dropped = ledger.settle_items(tenant(1), batch.schema, batch.id, changes);
        let wait = Duration::from_micros(250) * turn;
        drop(tokio::time::timeout(wait, dropped).await);
        // Whoever comes next waits until that one ended, and does what it did not.
        let changes = there.iter().map(|item| completing(item, "h")).collect();
        let settled = settle(&ledger, 1, &batch, changes).await;
        assert_eq!(settled, [Some(ItemStatus::Completed); 2]);
    }
    let raw = database.raw().await;
    let torn = "SELECT count(*) FROM pkm.t1_batches AS b WHERE \
        (SELECT count(DISTINCT t.raw) FROM pkm.t1_batch_items AS t WHERE t.batch_id = b.batch_id) <> 1";
    assert_eq!(number(&raw, torn).await, 0);
    let torn = "SELECT count(*) FROM pkm.entries AS e JOIN pkm.t1_batch_items AS t ON t.entry_id = e.entry_id \
        WHERE e.gist IS DISTINCT FROM t.raw OR e.revision <> 2";
    assert_eq!(number(&raw, torn).await, 0);
}

#[tokio::test]
async fn a_warning_on_commit_leaves_the_outcome_unknown() {
    let (database, ledger) = opened().await;
    // What a cancelled wait for a synchronous standby looks like: success, and a warning.
    let raw = database.raw().await;
    raw.batch_execute(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER warn AFTER INSERT OR UPDATE ON pkm.t1_batches DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION warn(); \
         CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON llm_answer DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION warn()",
    )
    .await
    .unwrap();
    let added = ledger.add_batch(tenant(1), ACTIVE, new(1, vec![own("x")]));
    assert_eq!(added.await.unwrap_err().kind(), Kind::OutcomeUnknown);
    let batch = add(&ledger, 1, 1, vec![own("x")]).await;
    let state = batch.state.clone();
    let changed = ledger.change_batch(tenant(1), batch.schema, batch.id, 1, state);
    assert_eq!(changed.await.unwrap_err().kind(), Kind::OutcomeUnknown);
    let answers = vec![(Fingerprint::of(b"a"), "A".into())];
    let kept = ledger.keep_answers(tenant(1), answers.clone());
    assert_eq!(kept.await.unwrap_err().kind(), Kind::OutcomeUnknown);
    ledger.keep_answers(tenant(1), answers).await.unwrap();
}

#[tokio::test]
async fn batches_from_before_wait_since_they_were_made() {
    const BEFORE: [&str; 7] = [
        include_str!("../../../../migrations/postgres/0001_idempotency_keys.sql"),
        include_str!("../../../../migrations/postgres/0002_token.sql"),
        include_str!("../../../../migrations/postgres/0003_audit.sql"),
        include_str!("../../../../migrations/postgres/0004_tenant_key.sql"),
        include_str!("../../../../migrations/postgres/0005_job.sql"),
        include_str!("../../../../migrations/postgres/0006_snapshot.sql"),
        include_str!("../../../../migrations/postgres/0007_entry.sql"),
    ];
    const NEXT: &str = include_str!("../../../../migrations/postgres/0008_t1.sql");
    let database = Database::create().await;
    Database::migrated().await; // so that the roles are there
    let owner = format!("maker_{}", database.name);
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "CREATE ROLE {owner} LOGIN; ALTER DATABASE {} OWNER TO {owner}; GRANT hapax_app, hapax_janitor TO {owner}",
        database.name
    ))
    .await
    .unwrap();
    let owner = connect(&database.url_for(&owner, "")).await;
    for migration in BEFORE {
        owner.batch_execute(migration).await.unwrap();
    }
    raw.batch_execute(
        "INSERT INTO pkm_test.t1_batches (tenant_id, batch_id, status, completion_window, request_count, created_at, updated_at) \
         SELECT gen_random_uuid(), gen_random_uuid(), 'queued', '24h', 1, now() - n * interval '1 hour', now() \
           FROM generate_series(1, 5) AS n",
    )
    .await
    .unwrap();
    owner.batch_execute(NEXT).await.unwrap();
    let waits = "SELECT count(*) FROM pkm_test.t1_batches WHERE next_at = created_at AND version = 1 AND attempt = 1";
    assert_eq!(number(&raw, waits).await, 5);
    let forced =
        "SELECT count(*) FROM pg_class WHERE relforcerowsecurity AND relname = 't1_batches'";
    assert_eq!(number(&raw, forced).await, 2);
}

#[tokio::test]
async fn what_is_more_than_one_statement_carries_is_kept_and_settled() {
    let (_database, ledger) = opened().await;
    // Eighteen megabytes, and a settling of twice as much.
    let long = "a long text ".repeat(100_000);
    let batch = add(&ledger, 1, 1, vec![own(&long); 16]).await;
    assert_eq!((batch.schema, batch.request_count), (Schema::Pkm, 16));
    let page = items(&ledger, 1, &batch).await;
    assert_eq!(page.len(), ItemScan::TEXT_BYTES / long.len() + 1);
    let bare = ItemScan {
        status: None,
        after: None,
        with_text: false,
        limit: ItemScan::LIMIT_MAX,
    };
    let bare = ledger.batch_items(tenant(1), batch.schema, batch.id, bare);
    let bare = bare.await.unwrap();
    let changes = bare.iter().map(|item| completing(item, &long)).collect();
    let settled = settle(&ledger, 1, &batch, changes).await;
    assert_eq!(settled, [Some(ItemStatus::Completed); 16]);
}
