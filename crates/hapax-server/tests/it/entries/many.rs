//! Many clients at once: one row per key, and nothing that was merged is lost.

use std::collections::BTreeSet;
use std::sync::Barrier;

use serde_json::{Value, json};

use super::{insert, keyed, posted, pull, revisions, update, with};
use crate::both::{Store, on_both_stores};
use crate::fixture::Server;

/// What `count` clients are told who each do this at the same moment.
fn at_once(count: usize, act: impl Fn(usize) -> Value + Sync) -> Vec<Value> {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..count)
            .map(|number| {
                let (barrier, act) = (&barrier, &act);
                scope.spawn(move || {
                    barrier.wait();
                    act(number)
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    })
}

fn actions(told: &[Value], action: &str) -> usize {
    told.iter().filter(|row| row["action"] == action).count()
}

fn two_hundred_equal_inserts_at_once_are_one_row(store: Store) {
    let node = store.serve("");
    for (policy, other) in [
        ("telegram_link_v1", "skipped"),
        ("email_correspondence_thread_v1", "updated"),
    ] {
        let entry = with(
            &keyed(policy, Some("race"), None),
            &json!({"title": policy}),
        );
        let told = at_once(200, |_| insert(&node, &entry));
        assert_eq!(
            (actions(&told, "inserted"), actions(&told, other)),
            (1, 199)
        );
        let ids: BTreeSet<String> = told.iter().map(|row| row["entry_id"].to_string()).collect();
        assert_eq!(ids.len(), 1);
    }
    let rows = posted(&node, "/db/read/last", &json!({}));
    assert_eq!(rows.as_array().unwrap().len(), 2);
}

fn a_thousand_parallel_merges_lose_nothing(store: Store) {
    let node = store.serve("");
    let row = insert(
        &node,
        &json!({"source": "web", "title": "t", "metadata": {"counts": {}}}),
    );
    let number = &row["entry_id"];
    at_once(50, |client| {
        for nth in 0..20 {
            let name = format!("m{}", client * 20 + nth);
            let told = update(
                &node,
                &json!({"entry_id": number, "metadata": {"counts": {name: 1}}}),
            );
            assert_eq!(told["action"], "updated");
        }
        Value::Null
    });
    let whole = pull(&node, number);
    assert_eq!(whole["metadata"]["counts"].as_object().unwrap().len(), 1000);
    assert_eq!(whole["revision"], 1001);
    let newest = revisions(&node, number);
    assert_eq!(newest[0]["revision"], 1000);
}

fn inserts_that_merge_at_once_lose_nothing(store: Store) {
    let node = store.serve("");
    let thread = keyed("email_correspondence_thread_v1", Some("thread"), None);
    let told = at_once(40, |client| {
        let items: Vec<Value> = (0..10)
            .map(|nth| {
                with(
                    &thread,
                    &json!({"metadata": {"seen": {format!("m{client}-{nth}"): true}}}),
                )
            })
            .collect();
        posted(&node, "/db/insert", &json!({ "items": items }))
    });
    let inserted = told
        .iter()
        .flat_map(|rows| rows.as_array().unwrap())
        .filter(|row| row["action"] == "inserted");
    assert_eq!(inserted.count(), 1);
    let whole = pull(&node, &told[0][0]["entry_id"]);
    assert_eq!(whole["metadata"]["seen"].as_object().unwrap().len(), 400);
}

/// Batches that hold the same keys in other orders, which would wait for each other in a ring if locks had no order.
fn batches_in_other_orders_at_once_all_end(store: Store) {
    let node = store.serve("");
    let told = at_once(16, |client| {
        let mut items: Vec<Value> = (0..60)
            .map(|nth| {
                let (primary, secondary) = (format!("p{nth}"), format!("s{}", 59 - nth));
                let entry = keyed(
                    "email_correspondence_thread_v1",
                    Some(&primary),
                    Some(&secondary),
                );
                with(&entry, &json!({"metadata": {format!("c{client}"): 1}}))
            })
            .collect();
        items.rotate_left(client * 3);
        if client % 2 == 1 {
            items.reverse();
        }
        posted(&node, "/db/insert", &json!({ "items": items }))
    });
    let rows: Vec<&Value> = told
        .iter()
        .flat_map(|rows| rows.as_array().unwrap())
        .collect();
    assert!(rows.iter().all(|row| row["_batch_ok"] == true), "{rows:?}");
    let kept = posted(
        &node,
        "/db/read/last",
        &json!({"limit": 500, "returning": ["metadata"]}),
    );
    let kept = kept.as_array().unwrap();
    assert_eq!(kept.len(), 60);
    assert!(
        kept.iter()
            .all(|row| row["metadata"].as_object().unwrap().len() == 16),
        "{kept:?}"
    );
}

#[test]
fn equal_inserts_on_two_nodes_at_once_are_one_row() {
    let node = Store::Postgres.serve("");
    let second = Server::start_with(|command| {
        command.args(&node.store).arg("--no-worker");
    });
    let (token, entry) = (
        node.token(),
        keyed("telegram_link_v1", Some("race"), Some("s")).to_string(),
    );
    let told = at_once(60, |client| {
        let server = if client % 2 == 0 { &*node } else { &second };
        let answer = server.bearing(&token, "POST", "/db/insert", &entry);
        assert_eq!(answer.status, 200, "{}", answer.text());
        super::only(&answer.json())
    });
    assert_eq!(
        (actions(&told, "inserted"), actions(&told, "skipped")),
        (1, 59)
    );
}

on_both_stores!(
    two_hundred_equal_inserts_at_once_are_one_row,
    a_thousand_parallel_merges_lose_nothing,
    inserts_that_merge_at_once_lose_nothing,
    batches_in_other_orders_at_once_all_end,
);
