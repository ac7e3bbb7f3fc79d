//! Entries in one file: several ledgers at once, a new start, and what people read and change by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use hapax_core::entry::{
    Action, Catalog, Column, Done, Draft, Incoming, Kept, Row, Schema, Search, Sort, Target,
    TestMode, Written,
};
use hapax_core::{Kind, Ledger, Tenant};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{beside, count, folder, open_in};
use crate::vault::vault;

const OTHER: Tenant = Tenant::from_uuid(Uuid::from_u128(0xb0b));

fn link(url: &str) -> Incoming {
    let entry = json!({
        "source": "telegram", "content_type": "link", "title": "Tea", "url": url,
        "idempotency_policy_key": "telegram_link_v1", "idempotency_key_primary": url,
    });
    draft(&entry)
}

fn draft(entry: &Value) -> Incoming {
    let entry = entry.as_object().expect("an object");
    Incoming::Insert(Draft::read(entry, |_| None).expect("it is an entry"))
}

async fn write(ledger: &SqliteLedger, tenant: Tenant, batch: Vec<Incoming>) -> Written {
    let written = ledger.write_entries(tenant, Target::Active, batch, false);
    written.await.expect("it answers")
}

async fn insert(ledger: &SqliteLedger, entry: Incoming) -> Kept {
    match write(ledger, Tenant::DEFAULT, vec![entry])
        .await
        .done
        .remove(0)
    {
        Done::Kept(kept) => *kept,
        other => panic!("it is kept, got {other:?}"),
    }
}

async fn found(ledger: &SqliteLedger, words: &str) -> Vec<Row> {
    let search = Search {
        words: Some(words.to_owned()),
        source: None,
        since: None,
        before: None,
        sort: Sort::Best,
        limit: 50,
    };
    let found = ledger.search_entries(Tenant::DEFAULT, Target::Active, search);
    found.await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_on_one_file_insert_an_entry_once() {
    let folder = folder();
    let ledgers = [0, 1].map(|_| Arc::new(open_in(&folder, SqliteOptions::default())));
    let inserts = (0..100).map(|number: usize| {
        let ledger = ledgers[number % 2].clone();
        tokio::spawn(async move { insert(&ledger, link("https://example.org/a")).await.action })
    });
    let mut inserted = 0;
    for one in inserts.collect::<Vec<_>>() {
        inserted += usize::from(one.await.expect("no panic") == Action::Inserted);
    }
    assert_eq!(inserted, 1);
    let stored = "SELECT count(1) FROM pkm_entries WHERE revision = 1";
    assert_eq!(count(&beside(&ledgers[0]), stored), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn toggles_of_two_ledgers_on_one_file_do_not_lose_each_other() {
    let folder = folder();
    let ledgers = [0, 1].map(|_| Arc::new(open_in(&folder, SqliteOptions::default())));
    let toggles = (0..50).map(|number: usize| {
        let ledger = ledgers[number % 2].clone();
        tokio::spawn(async move {
            let toggled = ledger.change_test_mode(Tenant::DEFAULT, TestMode::Toggle);
            toggled.await.expect("it answers")
        })
    });
    let mut turned_on = 0;
    for toggle in toggles.collect::<Vec<_>>() {
        turned_on += usize::from(toggle.await.expect("no panic"));
    }
    assert_eq!(turned_on, 25);
    for ledger in ledgers {
        let mode = ledger.test_mode(Tenant::DEFAULT).await;
        assert!(!mode.expect("it answers"));
    }
}

#[tokio::test]
async fn everything_kept_is_there_after_a_new_start() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let row = insert(&ledger, link("https://example.org/a")).await.row;
    let turned = ledger.change_test_mode(OTHER, TestMode::Set(true)).await;
    turned.expect("it answers");
    drop(ledger);

    let ledger = open_in(&folder, SqliteOptions::default());

    let again = insert(&ledger, link("https://example.org/a")).await;
    assert_eq!((again.action, again.row), (Action::Skipped, row));
    assert_eq!(found(&ledger, "tea").await.len(), 1);
    assert!(ledger.test_mode(OTHER).await.expect("it answers"));
}

#[tokio::test]
async fn the_mode_that_somebody_writes_by_hand_decides_the_next_write() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let raw = beside(&ledger);
    for (value, schema) in [
        ("true", Schema::PkmTest),
        ("off", Schema::Pkm),
        ("\"True\"", Schema::PkmTest),
        ("0", Schema::Pkm),
        ("YES", Schema::PkmTest),
        ("\"f\"", Schema::Pkm),
    ] {
        let changed = raw.execute(
            "UPDATE pkm_runtime_config SET value = ?1 WHERE key = 'is_test_mode'",
            [value],
        );
        assert_eq!(changed.expect("it is changed"), 1);
        let written = write(&ledger, Tenant::DEFAULT, vec![link(value)]).await;
        assert_eq!(written.schema, schema, "{value}");
        let mode = ledger.test_mode(Tenant::DEFAULT).await;
        assert_eq!(mode.expect("it answers"), schema == Schema::PkmTest);
    }
    let gone = raw.execute("DELETE FROM pkm_runtime_config", []);
    assert_eq!(gone.expect("it is gone"), 1);
    let written = write(&ledger, Tenant::DEFAULT, vec![link("x")]).await;
    assert_eq!(written.schema, Schema::Pkm, "a missing row is off");
    let toggled = ledger
        .change_test_mode(Tenant::DEFAULT, TestMode::Toggle)
        .await;
    assert!(toggled.expect("it answers"), "and can be toggled");
}

#[tokio::test]
async fn a_mode_that_says_nothing_cannot_be_written_by_hand() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    ledger
        .change_test_mode(OTHER, TestMode::Set(true))
        .await
        .expect("it answers");
    let raw = beside(&ledger);
    for value in ["", "maybe", "\"", "\"\"", "\"true", "truetrue", "2"] {
        let refused = raw.execute("UPDATE pkm_runtime_config SET value = ?1", [value]);
        assert!(refused.is_err(), "{value:?}");
    }
    // One tenant's row cannot become another's.
    let theirs = "UPDATE pkm_runtime_config SET tenant_id = randomblob(16)";
    assert!(raw.execute(theirs, []).is_err());
    let mine = "UPDATE pkm_runtime_config SET tenant_id = zeroblob(16) WHERE key <> 'is_test_mode'";
    assert!(raw.execute(mine, []).is_err());
    let other = "INSERT INTO pkm_runtime_config (key, value) VALUES ('greeting', 'maybe')";
    assert_eq!(raw.execute(other, []).expect("another key is free"), 1);
}

#[tokio::test]
async fn a_policy_that_somebody_adds_by_hand_takes_entries_in() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let raw = beside(&ledger);
    raw.execute_batch(
        "INSERT INTO pkm_idempotency_policies (policy_key, source, content_type, conflict_action, update_fields)
         VALUES ('mine_v1', 'web', 'page', 'update', '[\"title\", \"nothing\", \"entry_id\", \"idempotency_key_primary\"]');",
    )
    .expect("it is added");
    let page = |title: &str| {
        draft(&json!({
            "source": "web", "title": title, "author": title, "idempotency_policy_key": "mine_v1",
            "idempotency_key_primary": "a",
        }))
    };
    let one = insert(&ledger, page("one")).await;

    let two = insert(&ledger, page("two")).await;

    assert_eq!(
        (one.action, two.action),
        (Action::Inserted, Action::Updated)
    );
    assert_eq!(two.row.entry_id, one.row.entry_id);
    assert_eq!(two.row.fields.text(Column::Title), Some("two"));
    assert_eq!(two.row.fields.text(Column::Author), Some("one"));
}

#[tokio::test]
async fn entries_that_somebody_writes_by_hand_are_read_and_found() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let raw = beside(&ledger);
    raw.execute_batch(
        "INSERT INTO pkm_entries (source, title, clean_text, idempotency_policy_key, idempotency_key_primary)
         VALUES ('web', 'by hand', 'green Чай', 'telegram_link_v1', 'https://example.org/hand');",
    )
    .expect("it is inserted");
    let rows = found(&ledger, "GREEN чай").await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].fields.text(Column::Title), Some("by hand"));
    let met = insert(&ledger, link("https://example.org/hand")).await;
    assert_eq!(
        (met.action, met.row.entry_id),
        (Action::Skipped, rows[0].entry_id)
    );

    let mine = insert(&ledger, link("https://example.org/mine")).await.row;
    raw.execute_batch("UPDATE pkm_entries SET title = 'changed', clean_text = 'coffee'")
        .expect("they are changed");
    assert_eq!(found(&ledger, "changed coffee").await.len(), 2);
    assert!(found(&ledger, "tea").await.is_empty());
    let again = json!({"entry_id": mine.entry_id, "clean_text": "black tea"});
    let again = hapax_core::entry::Change::read(again.as_object().expect("an object"));
    insert(&ledger, Incoming::Update(again.expect("it is a change"))).await;
    assert_eq!(found(&ledger, "changed tea").await.len(), 1);
    assert_eq!(found(&ledger, "coffee").await.len(), 1);

    raw.execute_batch("DELETE FROM pkm_entries")
        .expect("they are gone");
    assert!(found(&ledger, "changed").await.is_empty());
    let next = insert(&ledger, link("https://example.org/mine")).await;
    assert_eq!(next.action, Action::Inserted);
    assert_eq!(
        next.row.entry_id,
        mine.entry_id + 1,
        "a number is never used again"
    );
}

#[tokio::test]
async fn a_batch_that_the_file_refuses_leaves_nothing_and_uses_no_number() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let first = insert(&ledger, link("https://example.org/1")).await.row;
    let raw = beside(&ledger);
    raw.execute_batch(
        "CREATE TRIGGER hurt BEFORE INSERT ON pkm_entries WHEN new.url = 'https://example.org/3'
         BEGIN SELECT RAISE(ABORT, 'hurt'); END",
    )
    .expect("it is hurt");
    let batch = ["https://example.org/2", "https://example.org/3"].map(link);

    let failed = ledger
        .write_entries(Tenant::DEFAULT, Target::Active, batch.into(), false)
        .await;

    assert_eq!(failed.expect_err("it is refused").kind(), Kind::Corrupt);
    assert_eq!(count(&raw, "SELECT count(1) FROM pkm_entries"), 1);
    assert!(
        found(&ledger, "tea").await.len() == 1,
        "its words are gone, too"
    );
    raw.execute_batch("DROP TRIGGER hurt")
        .expect("it is healed");
    let next = insert(&ledger, link("https://example.org/3")).await.row;
    assert_eq!(next.entry_id, first.entry_id + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_refused_batch_of_a_group_takes_no_other_along() {
    let folder = folder();
    let ledger = Arc::new(open_in(&folder, SqliteOptions::default()));
    let raw = beside(&ledger);
    raw.execute_batch(
        "CREATE TRIGGER hurt BEFORE INSERT ON pkm_entries WHEN new.url LIKE '%bad%'
         BEGIN SELECT RAISE(ABORT, 'hurt'); END",
    )
    .expect("it is hurt");
    let writes = (0..60).map(|number: usize| {
        let ledger = ledger.clone();
        let kind = if number.is_multiple_of(3) {
            "bad"
        } else {
            "good"
        };
        let batch = vec![
            link(&format!("https://example.org/first/{number}")),
            link(&format!("https://example.org/{kind}/{number}")),
        ];
        tokio::spawn(async move {
            let written = ledger.write_entries(Tenant::DEFAULT, Target::Active, batch, false);
            written.await.is_ok()
        })
    });
    let mut kept = 0;
    for write in writes.collect::<Vec<_>>() {
        kept += usize::from(write.await.expect("no panic"));
    }
    assert_eq!(kept, 40);
    assert_eq!(count(&raw, "SELECT count(1) FROM pkm_entries"), 80);
    assert_eq!(count(&raw, "SELECT max(entry_id) FROM pkm_entries"), 80);
}

#[tokio::test]
async fn a_full_disk_leaves_nothing_of_a_batch() {
    let folder = folder();
    let options = SqliteOptions {
        pages_max: Some(400),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    insert(&ledger, link("https://example.org/1")).await;
    let huge = json!({"source": "web", "title": "huge", "clean_text": "x ".repeat(1 << 20)});
    let batch = vec![link("https://example.org/2"), draft(&huge)];

    let failed = ledger
        .write_entries(Tenant::DEFAULT, Target::Active, batch, false)
        .await;

    assert_eq!(failed.expect_err("it is full").kind(), Kind::Unavailable);
    assert_eq!(
        count(&beside(&ledger), "SELECT count(1) FROM pkm_entries"),
        1
    );
    let next = insert(&ledger, link("https://example.org/2")).await.row;
    assert_eq!(next.entry_id, 2);
}

#[tokio::test]
async fn with_a_vault_entries_are_readable_all_the_same() {
    let folder = folder();
    let options = SqliteOptions {
        vault: vault(&[1]),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    insert(&ledger, link("https://example.org/a")).await;
    let title: String = beside(&ledger)
        .query_row("SELECT title FROM pkm_entries", [], |row| row.get(0))
        .expect("people read it");
    assert_eq!(title, "Tea");
    assert_eq!(found(&ledger, "tea").await.len(), 1);
    ledger.close().await.expect("it closes");
}

#[test]
fn both_homes_have_the_same_tables() {
    let folder = folder();
    let path = folder.path().join("ledger.db");
    SqliteLedger::migrate(&path).expect("it migrates");
    let raw = rusqlite::Connection::open(&path).expect("the file opens");
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE 'pkm%'";
    let mut statement = raw.prepare(sql).expect("it is one");
    let made = statement.query_map([], |row| row.get::<_, String>(0));
    let words = |sql: String| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let made = made
        .expect("it answers")
        .map(|sql| words(sql.expect("a text")));
    let (test, mut real): (BTreeSet<String>, BTreeSet<String>) =
        made.partition(|sql| sql.contains("pkm_test"));
    real.retain(|sql| !sql.contains("pkm_runtime_config"));
    let test: BTreeSet<String> = test
        .iter()
        .map(|sql| sql.replace("pkm_test", "pkm"))
        .collect();
    assert!(real.len() > 15, "{}", real.len());
    let other: Vec<_> = test.symmetric_difference(&real).collect();
    assert!(other.is_empty(), "{other:#?}");
}
