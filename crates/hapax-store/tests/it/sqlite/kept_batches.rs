//! Batches for enrichment in one file: files from before them, several ledgers at once, a new start, and what people
//! change by hand.

use std::sync::Arc;

use hapax_core::entry::{
    Batch, BatchStatus, Batches, Catalog, Column, Done, Draft, Fields, Incoming, Item, ItemChange,
    ItemScan, ItemStatus, NewBatch, NewItem, Row, Schema, Target,
};
use hapax_core::{Fingerprint, Tenant, Time};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use serde_json::{Map, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{beside, folder, open_in};

async fn entry(ledger: &SqliteLedger, text: &str) -> Row {
    let entry = json!({"source": "web", "title": "Tea", "clean_text": text});
    let entry = Draft::read(entry.as_object().expect("an object"), |_| None);
    let batch = vec![Incoming::Insert(entry.expect("it is an entry"))];
    let written = ledger.write_entries(Tenant::DEFAULT, Target::Active, batch, true);
    match written.await.expect("it answers").done.remove(0) {
        Done::Kept(kept) => Row::clone(&kept.row),
        other => panic!("it is kept, got {other:?}"),
    }
}

async fn add(ledger: &SqliteLedger, number: u128, row: &Row) -> Batch {
    let new = NewBatch {
        id: Uuid::from_u128(number),
        completion_window: "24h".to_owned(),
        metadata: Map::new(),
        items: vec![NewItem::of_row(row).expect("it has a text")],
    };
    let added = ledger.add_batch(Tenant::DEFAULT, Target::Active, new).await;
    added.expect("it answers")
}

async fn item(ledger: &SqliteLedger, batch: &Batch) -> Item {
    let scan = ItemScan {
        status: None,
        after: None,
        with_text: true,
        limit: 50,
    };
    let items = ledger.batch_items(Tenant::DEFAULT, batch.schema, batch.id, scan);
    items.await.expect("it answers").remove(0)
}

async fn settle(ledger: &SqliteLedger, batch: &Batch, gist: &str) -> Option<ItemStatus> {
    let mut fields = Fields::new();
    fields.put(Column::Gist, gist);
    let change = ItemChange {
        item_id: item(ledger, batch).await.item_id,
        from: ItemStatus::Queued,
        to: ItemStatus::Completed,
        raw: Some(gist.into()),
        result: Some(json!({"gist": gist})),
        error: None,
        missed_in: None,
        entry: Some(fields),
    };
    let settled = ledger.settle_items(Tenant::DEFAULT, batch.schema, batch.id, vec![change]);
    settled.await.expect("it answers").remove(0)
}

/// The file as it was before batches were sent, with one that an import had queued.
fn file_before_batches(path: &std::path::Path, hash: Fingerprint) {
    let before = rusqlite::Connection::open(path).expect("the file is made");
    let table = include_str!("../../../sql/sqlite/migration_table.sql");
    before.execute_batch(table).expect("the list is made");
    macro_rules! migrate {
        ($($number:literal $name:literal,)*) => {$(
            let sql = include_str!(concat!("../../../migrations/sqlite/", $name, ".sql"));
            before.execute_batch(sql).expect("it migrates");
            let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(sql.as_bytes()));
            let record = include_str!("../../../sql/sqlite/migration_record.sql");
            before
                .execute(record, rusqlite::params![$number, $name, sha256, 0])
                .expect("it is recorded");
        )*};
    }
    migrate! {
        1 "0001_idempotency_keys", 2 "0002_token", 3 "0003_audit", 4 "0004_tenant_key", 5 "0005_job",
        6 "0006_snapshot", 7 "0007_entry",
    }
    before
        .execute_batch(
            "INSERT INTO pkm_test_t1_batches (
                 batch_id, tenant_id, import_id, status, completion_window, request_count, created_at, updated_at
             ) VALUES (zeroblob(16), zeroblob(16), randomblob(16), 'queued', '24h', 1, 1234, 1234);
             INSERT INTO pkm_test_t1_batch_items (tenant_id, entry_id, import_id, status, created_at, updated_at)
             VALUES (zeroblob(16), 8, randomblob(16), 'candidate', 1234, 1234);",
        )
        .expect("they are written");
    let queued = "INSERT INTO pkm_test_t1_batch_items (
                      tenant_id, batch_id, entry_id, import_id, content_hash, status, created_at, updated_at
                  ) VALUES (zeroblob(16), zeroblob(16), 7, randomblob(16), ?1, 'queued', 1234, 1234)";
    let queued = before.execute(queued, [hash.as_bytes()]);
    assert_eq!(queued.expect("it is written"), 1);
}

#[tokio::test]
async fn a_batch_that_was_queued_before_is_sent_now() {
    let folder = folder();
    let hash = Fingerprint::of(b"tea");
    file_before_batches(&folder.path().join("ledger.db"), hash);

    let ledger = open_in(&folder, SqliteOptions::default());

    let batch = ledger.batch(Tenant::DEFAULT, Uuid::nil()).await;
    let batch = batch.expect("it answers").expect("it is there");
    assert_eq!(batch.schema, Schema::PkmTest);
    assert_eq!(batch.state.status, BatchStatus::Queued);
    assert_eq!((batch.version, batch.state.attempt), (1, 1));
    assert_eq!(
        batch.state.next_at,
        Time::from_ms(1234),
        "it waits since it was made"
    );
    assert_eq!(batch.items, [(ItemStatus::Queued, 1)].into());
    let kept = item(&ledger, &batch).await;
    assert_eq!((kept.entry_id, kept.hash), (Some(7), hash));
    let due = ledger.due_batches(9).await.expect("it answers");
    assert_eq!(due.len(), 1);
    let changed = ledger.change_batch(
        Tenant::DEFAULT,
        batch.schema,
        batch.id,
        1,
        batch.state.clone(),
    );
    assert!(changed.await.expect("it answers").is_some());
}

#[test]
fn only_words_that_are_known_can_be_written_by_hand() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let raw = beside(&ledger);
    for home in Schema::ALL {
        raw.execute_batch(
            &"INSERT INTO {home}_t1_batches (
                  batch_id, tenant_id, status, completion_window, request_count, created_at, updated_at
              ) VALUES (zeroblob(16), zeroblob(16), 'queued', '24h', 1, 1, 1);
              INSERT INTO {home}_t1_batch_items (tenant_id, content_hash, status, created_at, updated_at)
              VALUES (zeroblob(16), zeroblob(32), 'candidate', 1, 1);"
                .replace("{home}", home.as_str()),
        )
        .expect("they are written");
        let set = |table: &str, word: &str| {
            let sql = "UPDATE {home}_{table} SET status = ?1";
            let sql = sql
                .replace("{home}", home.as_str())
                .replace("{table}", table);
            raw.execute(&sql, [word]).is_ok()
        };
        for word in BatchStatus::ALL {
            assert!(set("t1_batches", word.as_str()), "{word:?}");
        }
        for word in ItemStatus::ALL {
            assert!(set("t1_batch_items", word.as_str()), "{word:?}");
        }
        assert!(!set("t1_batches", "done") && !set("t1_batches", ""));
        assert!(!set("t1_batch_items", "submitted") && !set("t1_batch_items", "Queued"));
    }
}

#[tokio::test]
async fn a_text_that_somebody_changes_by_hand_is_not_overwritten() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let row = entry(&ledger, "tea").await;
    let batch = add(&ledger, 1, &row).await;
    let raw = beside(&ledger);
    let changed = raw.execute("UPDATE pkm_entries SET clean_text = 'coffee'", []);
    assert_eq!(changed.expect("it is changed"), 1);

    assert_eq!(
        settle(&ledger, &batch, "of tea").await,
        Some(ItemStatus::Stale)
    );

    let kept = ledger.entry(Tenant::DEFAULT, Target::Active, row.entry_id);
    let kept = kept.await.expect("it answers").expect("it is there");
    assert_eq!(kept.fields.text(Column::CleanText), Some("coffee"));
    assert_eq!((kept.fields.text(Column::Gist), kept.revision), (None, 1));
}

#[tokio::test]
async fn an_entry_that_somebody_deletes_by_hand_makes_its_item_stale() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let row = entry(&ledger, "tea").await;
    let batch = add(&ledger, 1, &row).await;
    let gone = beside(&ledger).execute("DELETE FROM pkm_entries", []);
    assert_eq!(gone.expect("it is gone"), 1);

    assert_eq!(item(&ledger, &batch).await.text, None);
    assert_eq!(
        settle(&ledger, &batch, "of tea").await,
        Some(ItemStatus::Stale)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_ledgers_on_one_file_one_goes_on_with_a_batch() {
    let folder = folder();
    let ledgers = [0, 1].map(|_| Arc::new(open_in(&folder, SqliteOptions::default())));
    let row = entry(&ledgers[0], "tea").await;
    let batch = add(&ledgers[0], 1, &row).await;
    let tries = (0..40).map(|number: usize| {
        let (ledger, batch) = (ledgers[number % 2].clone(), batch.clone());
        tokio::spawn(async move {
            let mut state = batch.state.clone();
            state.status = BatchStatus::Submitted;
            let changed = ledger.change_batch(Tenant::DEFAULT, batch.schema, batch.id, 1, state);
            let changed = changed.await.expect("it answers").is_some();
            let settled = settle(&ledger, &batch, &number.to_string()).await;
            (changed, settled)
        })
    });
    let mut won = 0;
    for one in tries.collect::<Vec<_>>() {
        let (changed, settled) = one.await.expect("no panic");
        won += usize::from(changed);
        assert_eq!(settled, Some(ItemStatus::Completed));
    }
    assert_eq!(won, 1);
    let kept = ledgers[1].entry(Tenant::DEFAULT, Target::Active, row.entry_id);
    let kept = kept.await.expect("it answers").expect("it is there");
    assert_eq!(kept.revision, 2, "one result is written");
}

#[tokio::test]
async fn batches_and_answers_are_there_after_a_new_start() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let row = entry(&ledger, "tea").await;
    let batch = add(&ledger, 1, &row).await;
    settle(&ledger, &batch, "of tea").await;
    let key = Fingerprint::of(b"what is tea");
    let kept = ledger.keep_answers(Tenant::DEFAULT, vec![(key, "hot water".into())]);
    kept.await.expect("it answers");
    let before = (
        ledger
            .batch(Tenant::DEFAULT, batch.id)
            .await
            .expect("it answers"),
        item(&ledger, &batch).await,
    );
    drop(ledger);

    let ledger = open_in(&folder, SqliteOptions::default());

    let after = (
        ledger
            .batch(Tenant::DEFAULT, batch.id)
            .await
            .expect("it answers"),
        item(&ledger, &batch).await,
    );
    assert_eq!(after, before);
    let paid = ledger.paid_answers(Tenant::DEFAULT, vec![key]).await;
    assert_eq!(paid.expect("it answers")[0].as_deref(), Some("hot water"));
}
