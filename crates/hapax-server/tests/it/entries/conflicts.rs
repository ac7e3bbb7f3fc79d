//! What a second entry of the same key does to the row that is there.

use serde_json::{Value, json};

use super::{insert, kept, keyed, posted, pull, revisions, thought, with};
use crate::both::{Store, on_both_stores};

const THREAD: &str = "email_correspondence_thread_v1";

fn the_primary_key_wins_and_the_other_row_is_left_alone(store: Store) {
    let node = store.serve("");
    let one = insert(
        &node,
        &with(
            &keyed(THREAD, Some("p1"), Some("s1")),
            &json!({"title": "one"}),
        ),
    );
    let other = insert(
        &node,
        &with(
            &keyed(THREAD, Some("p2"), Some("s2")),
            &json!({"title": "other"}),
        ),
    );
    let before = pull(&node, &other["entry_id"]);
    let both = with(
        &keyed(THREAD, Some("p1"), Some("s2")),
        &json!({"title": "new"}),
    );
    let row = insert(&node, &both);
    assert_eq!(
        (&row["action"], &row["matched_on"], &row["entry_id"]),
        (&json!("updated"), &json!("primary"), &one["entry_id"])
    );
    assert_eq!(
        row["conflicts"],
        json!([{"field": "idempotency_key_secondary", "key": "s2", "entry_id": other["entry_id"]}])
    );
    assert_eq!(
        pull(&node, &other["entry_id"]),
        before,
        "the other row is untouched"
    );
    let after = pull(&node, &one["entry_id"]);
    assert_eq!(after["title"], "new");
    assert_eq!(
        after["idempotency_key_secondary"], "s1",
        "keys are never rewritten"
    );
}

fn what_makes_an_entry_itself_is_never_rewritten(store: Store) {
    let node = store.serve("");
    let first = insert(&node, &keyed(THREAD, Some("p"), None));
    let before = pull(&node, &first["entry_id"]);
    let again = with(
        &keyed(THREAD, Some("p"), Some("s-new")),
        &json!({"title": "new", "id": super::OTHER, "entry_id": 99, "created_at": "2001-01-01T00:00:00Z"}),
    );
    assert_eq!(insert(&node, &again)["action"], "updated");
    let after = pull(&node, &first["entry_id"]);
    for name in [
        "id",
        "entry_id",
        "created_at",
        "idempotency_policy_key",
        "idempotency_key_primary",
        "idempotency_key_secondary",
    ] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert_eq!(
        (&after["title"], &after["revision"]),
        (&json!("new"), &json!(2))
    );
}

fn the_columns_of_a_policy_are_all_that_an_update_changes(store: Store) {
    let node = store.serve("");
    let set = node.owner(
        "PUT",
        &format!("/v1/policies/{THREAD}"),
        r#"{"update_fields":["title","metadata"]}"#,
    );
    assert_eq!(set.status, 200, "{}", set.text());
    let first = with(
        &keyed(THREAD, Some("p"), None),
        &json!({"title": "a", "author": "A", "metadata": {"x": {"y": 1}}}),
    );
    let row = insert(&node, &first);
    let second = with(
        &keyed(THREAD, Some("p"), None),
        &json!({"title": "b", "author": "B", "metadata": {"x": {"z": 2}}}),
    );
    insert(&node, &second);
    let after = pull(&node, &row["entry_id"]);
    assert_eq!(
        (&after["title"], &after["author"]),
        (&json!("b"), &json!("A"))
    );
    assert_eq!(after["metadata"], json!({"x": {"y": 1, "z": 2}}));
    node.owner(
        "PUT",
        &format!("/v1/policies/{THREAD}"),
        r#"{"update_fields":null}"#,
    );
    insert(&node, &second);
    assert_eq!(
        pull(&node, &row["entry_id"])["author"],
        "B",
        "null is all columns"
    );
}

fn metadata_is_merged_and_lists_are_replaced(store: Store) {
    let node = store.serve("");
    let entry = |metadata: Value| {
        with(
            &keyed(THREAD, Some("p"), None),
            &json!({ "metadata": metadata }),
        )
    };
    let row = insert(
        &node,
        &entry(json!({"a": {"b": {"c": 1}}, "tags": [1, 2], "n": 1})),
    );
    insert(
        &node,
        &entry(json!({"a": {"b": {"d": 2}, "e": 3}, "tags": [3], "n": {"now": "object"}})),
    );
    assert_eq!(
        pull(&node, &row["entry_id"])["metadata"],
        json!({"a": {"b": {"c": 1, "d": 2}, "e": 3}, "tags": [3], "n": {"now": "object"}})
    );
}

fn two_messages_with_the_same_words_are_two_thoughts(store: Store) {
    let node = store.serve("");
    let (_, one) = kept(&node, "/normalize/telegram", &thought(1, 1, "good morning"));
    let (_, two) = kept(&node, "/normalize/telegram", &thought(1, 2, "good morning"));
    assert_eq!(two["action"], "inserted");
    assert_ne!(one["entry_id"], two["entry_id"]);
    assert_eq!(two["conflicts"][0]["field"], "idempotency_key_secondary");
    assert_eq!(two["conflicts"][0]["entry_id"], one["entry_id"]);
    let whole = pull(&node, &two["entry_id"]);
    assert_eq!(whole["idempotency_key_primary"], "tg:1:2");
    assert_eq!(
        whole["idempotency_key_secondary"],
        Value::Null,
        "it is left out"
    );
}

fn every_update_keeps_the_old_row(store: Store) {
    let node = store.serve("");
    let entry = |title: &str| with(&keyed(THREAD, Some("p"), None), &json!({ "title": title }));
    let row = insert(&node, &entry("v1"));
    for version in 2..=5 {
        insert(&node, &entry(&format!("v{version}")));
    }
    let old = revisions(&node, &row["entry_id"]);
    let titles: Vec<&Value> = old.iter().map(|row| &row["title"]).collect();
    assert_eq!(titles, ["v4", "v3", "v2", "v1"]);
    let path = format!("/v1/entries/{}/revisions?limit=3", row["entry_id"]);
    let page = super::get(&node, &path);
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = super::get(&node, &format!("{path}&cursor={cursor}"));
    assert_eq!(rest["items"][0]["title"], "v1");
    assert_eq!(rest["next_cursor"], Value::Null);
    for wrong in ["x", "%C3%BD1", "99999999999999999999"] {
        let path = format!("/v1/entries/{wrong}/revisions");
        let told = node.owner("GET", &path, "");
        assert_eq!(told.refusal(), (404, "not_found".to_owned()), "{wrong}");
    }
    let unknown = node.owner("GET", "/v1/entries/999999/revisions", "");
    assert_eq!(unknown.refusal(), (404, "not_found".to_owned()));
}

fn an_entry_that_changes_nothing_makes_no_revision(store: Store) {
    let node = store.serve("");
    let entry = with(&keyed(THREAD, Some("p"), None), &json!({"title": "same"}));
    let row = insert(&node, &entry);
    assert_eq!(insert(&node, &entry)["action"], "updated");
    assert_eq!(revisions(&node, &row["entry_id"]).len(), 0);
    assert_eq!(pull(&node, &row["entry_id"])["revision"], 1);
}

fn long_keys_are_kept_by_their_hash_and_still_match(store: Store) {
    let node = store.serve("");
    let long = "/".repeat(4000);
    let entry = keyed("telegram_link_v1", Some(&long), None);
    let row = insert(&node, &entry);
    assert_eq!(insert(&node, &entry)["action"], "skipped");
    let other = keyed("telegram_link_v1", Some(&format!("{long}x")), None);
    assert_eq!(insert(&node, &other)["action"], "inserted");
    let key = pull(&node, &row["entry_id"])["idempotency_key_primary"].clone();
    assert!(key.as_str().unwrap().starts_with("sha256:"), "{key}");
    let rows = posted(&node, "/db/read/last", &json!({}));
    assert_eq!(rows.as_array().unwrap().len(), 2);
}

on_both_stores!(
    the_primary_key_wins_and_the_other_row_is_left_alone,
    what_makes_an_entry_itself_is_never_rewritten,
    the_columns_of_a_policy_are_all_that_an_update_changes,
    metadata_is_merged_and_lists_are_replaced,
    two_messages_with_the_same_words_are_two_thoughts,
    every_update_keeps_the_old_row,
    an_entry_that_changes_nothing_makes_no_revision,
    long_keys_are_kept_by_their_hash_and_still_match,
);
