//! What only this store promises of entries: its roles, its errors, nodes that share it, and what it touches.

mod faults;
mod plans;
mod roles;
mod t1;

use std::sync::Arc;

use hapax_core::Tenant;
use hapax_core::entry::{
    Action, Catalog, Done, Draft, Incoming, Policy, Row, Schema, Search, Sort, Target, TestMode,
};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use super::database::Database;

const ACTIVE: Target = Target::Active;

fn tenant(number: u128) -> Tenant {
    Tenant::from_uuid(Uuid::from_u128(number))
}

fn draft(entry: &Value) -> Incoming {
    Incoming::Insert(Draft::read(entry.as_object().unwrap(), |_| None).unwrap())
}

/// A link: the second one with this key is skipped.
fn link(key: &str) -> Incoming {
    draft(&json!({
        "source": "telegram", "title": format!("tea {key}"), "clean_text": "green leaves",
        "idempotency_policy_key": "telegram_link_v1", "idempotency_key_primary": key,
    }))
}

/// A thought: the second one with this key goes over the first.
fn thought(key: &str, metadata: &Value) -> Incoming {
    draft(&json!({
        "source": "telegram", "title": format!("tea {key}"), "clean_text": "green leaves", "metadata": metadata,
        "idempotency_policy_key": "telegram_thought_v1", "idempotency_key_primary": key,
    }))
}

async fn write(ledger: &PgLedger, of: u128, batch: Vec<Incoming>) -> Vec<Done> {
    let written = ledger.write_entries(tenant(of), ACTIVE, batch, false).await;
    written.unwrap().done
}

fn row(done: &Done) -> (Action, &Row) {
    match done {
        Done::Kept(kept) => (kept.action, &kept.row),
        other => panic!("it is kept, got {other:?}"),
    }
}

async fn found(ledger: &PgLedger, of: u128, words: &str) -> usize {
    let search = Search {
        words: Some(words.to_owned()),
        source: None,
        since: None,
        before: None,
        sort: Sort::Best,
        limit: 50,
    };
    let found = ledger.search_entries(tenant(of), ACTIVE, search).await;
    found.unwrap().len()
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn refused(client: &Client, sql: &str) -> String {
    let error = client.batch_execute(sql).await.unwrap_err();
    error.code().map_or("", |state| state.code()).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_toggles_on_two_nodes_end_where_they_began() {
    let database = Database::create().await;
    let (one, other) = (
        Arc::new(database.open(PgOptions::default()).await),
        Arc::new(database.open(PgOptions::default()).await),
    );
    for of in [0, 7] {
        let toggles = (0..50).map(|turn| {
            let node = if turn % 2 == 0 { &one } else { &other }.clone();
            tokio::spawn(async move {
                let toggled = node.change_test_mode(tenant(of), TestMode::Toggle).await;
                usize::from(toggled.unwrap())
            })
        });
        let mut on = 0;
        for toggle in toggles.collect::<Vec<_>>() {
            on += toggle.await.unwrap();
        }
        assert_eq!(on, 25, "every second one turns it on");
        for node in [&one, &other] {
            assert!(!node.test_mode(tenant(of)).await.unwrap());
        }
    }
}

#[tokio::test]
async fn a_mode_that_is_changed_by_hand_decides_the_next_write() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let raw = database.raw().await;
    let set = |value: &str| {
        format!("UPDATE pkm.runtime_config SET value = '{value}' WHERE key = 'is_test_mode'")
    };
    let where_to = async || {
        let written = ledger.write_entries(tenant(0), ACTIVE, vec![link("a")], false);
        written.await.unwrap().schema
    };
    for (value, schema) in [
        ("true", Schema::PkmTest),
        ("\"False\"", Schema::Pkm),
        ("ON", Schema::PkmTest),
        ("0", Schema::Pkm),
        ("\"1\"", Schema::PkmTest),
    ] {
        raw.batch_execute(&set(value)).await.unwrap();
        assert_eq!(where_to().await, schema, "{value}");
    }
    for value in ["maybe", "", "\"", "true\nfalse"] {
        assert_eq!(refused(&raw, &set(value)).await, "23514", "{value:?}");
    }
    raw.batch_execute("DELETE FROM pkm.runtime_config")
        .await
        .unwrap();
    assert_eq!(where_to().await, Schema::Pkm, "a missing one is off");
    let mode = ledger.change_test_mode(tenant(0), TestMode::Toggle).await;
    assert!(mode.unwrap());
    assert_eq!(where_to().await, Schema::PkmTest);
    for row in [
        "('is_test_mode/00000000-0000-0000-0000-000000000002', 'true', DEFAULT)",
        "('is_test_mode/00000000-0000-0000-0000-000000000002', 'true', '00000000-0000-0000-0000-000000000003')",
        "('colour', 'red', '00000000-0000-0000-0000-000000000003')",
    ] {
        let forged = format!("INSERT INTO pkm.runtime_config VALUES {row}");
        assert_eq!(refused(&raw, &forged).await, "23514", "{row}");
    }
}

#[tokio::test]
async fn the_seed_policies_are_those_of_the_rule_and_people_change_them_by_hand() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let raw = database.raw().await;
    for schema in Schema::ALL {
        let mut seeds = Policy::seeds();
        seeds.sort_by(|one, other| one.key.cmp(&other.key));
        let target = Target::Pinned(schema);
        for of in [0, 5] {
            let mut there = ledger.policies(tenant(of), target).await.unwrap();
            assert!(there.iter().all(|policy| policy.id > 0));
            for policy in &mut there {
                policy.id = 0;
            }
            assert_eq!(there, seeds, "{schema}");
        }
    }
    raw.batch_execute(
        "INSERT INTO pkm.idempotency_policies (policy_key, source, content_type, conflict_action, update_fields) \
         VALUES ('mine', '*', '*', 'update', ARRAY['title', NULL, 'entry_id'])",
    )
    .await
    .unwrap();
    let mine = |title: &str| {
        draft(&json!({
            "source": "web", "title": title, "gist": title,
            "idempotency_policy_key": "mine", "idempotency_key_primary": "k",
        }))
    };
    let done = write(&ledger, 0, vec![mine("one"), mine("two")]).await;
    let (action, row) = row(&done[1]);
    assert_eq!(action, Action::Updated);
    let said = |column| row.fields.text(column).unwrap_or_default();
    assert_eq!(said(hapax_core::entry::Column::Title), "two");
    assert_eq!(said(hapax_core::entry::Column::Gist), "one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_write_the_same_at_once_keep_it_once() {
    let database = Database::create().await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Arc::new(database.open(PgOptions::default()).await));
    }
    let writes = (0..45).map(|turn: usize| {
        let node = nodes[turn % 3].clone();
        let mut batch: Vec<Incoming> = (0..12)
            .map(|one| match one % 2 {
                0 => link(&one.to_string()),
                _ => thought(&one.to_string(), &json!({ turn.to_string(): true })),
            })
            .collect();
        batch.rotate_left(turn % 12);
        tokio::spawn(async move { write(&node, 1, batch).await })
    });
    let mut fresh = 0;
    for one in writes.collect::<Vec<_>>() {
        let done = one.await.unwrap();
        let is_new = |done: &&Done| row(done).0 == Action::Inserted;
        fresh += done.iter().filter(is_new).count();
    }
    assert_eq!(fresh, 12);
    let raw = database.raw().await;
    assert_eq!(number(&raw, "SELECT count(*) FROM pkm.entries").await, 12);
    let merged = "SELECT min((SELECT count(*) FROM jsonb_object_keys(metadata))) FROM pkm.entries \
         WHERE idempotency_policy_key = 'telegram_thought_v1'";
    assert_eq!(number(&raw, merged).await, 45, "no merge is lost");
    let states = "SELECT count(*) FROM pkm.entry_revisions";
    assert_eq!(number(&raw, states).await, 6 * 44);
    let drawn = "SELECT last_value FROM pkm.entries_entry_id_seq";
    assert_eq!(number(&raw, drawn).await, 12, "a conflict burns no number");
}

#[tokio::test]
async fn people_query_and_add_entries_with_sql_of_their_own() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let raw = database.raw().await;
    raw.batch_execute(
        "INSERT INTO pkm.entries (source, title, clean_text) VALUES ('hand', 'Кофе', 'strong-black')",
    )
    .await
    .unwrap();
    assert_eq!(found(&ledger, 0, "КОФЕ black").await, 1);
    write(
        &ledger,
        0,
        vec![thought("t", &json!({"mood": {"is": "calm"}}))],
    )
    .await;
    let calm = "SELECT count(*) FROM pkm.entries WHERE metadata #>> '{mood,is}' = 'calm' \
        AND created_at > now() - interval '1 hour' AND keywords IS NULL";
    assert_eq!(number(&raw, calm).await, 1);
    raw.batch_execute("UPDATE pkm.entries SET title = 'Kakao' WHERE source = 'hand'")
        .await
        .unwrap();
    assert_eq!(found(&ledger, 0, "кофе").await, 0);
    assert_eq!(found(&ledger, 0, "kakao").await, 1);
}

#[tokio::test]
async fn what_the_database_knows_no_word_in_finds_nothing() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    write(&ledger, 0, vec![link("a")]).await;
    let long = "a".repeat(5000);
    for words in ["½", "²³", &long, &format!("tea {long}"), "'", "tea & !x"] {
        assert_eq!(found(&ledger, 0, words).await, 0, "{words}");
    }
    assert_eq!(found(&ledger, 0, "tea").await, 1);
}
