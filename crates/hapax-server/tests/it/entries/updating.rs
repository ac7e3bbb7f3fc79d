//! Changing an entry that is there.

use serde_json::{Value, json};

use super::{insert, keyed, posted, pull, refused, revisions, update, with};
use crate::both::{Store, on_both_stores};

fn an_entry_is_named_by_its_number_or_its_id(store: Store) {
    let node = store.serve("");
    let row = insert(&node, &json!({"source": "web", "title": "a"}));
    let other = insert(&node, &json!({"source": "web", "title": "other"}));
    let by_number = update(&node, &json!({"entry_id": row["entry_id"], "title": "b"}));
    assert_eq!(
        (&by_number["action"], &by_number["title"]),
        (&json!("updated"), &json!("b"))
    );
    let text = row["entry_id"].to_string();
    update(&node, &json!({"entry_id": text, "author": "me"}));
    let by_id = update(
        &node,
        &json!({"id": row["id"], "title": "c", "returning": ["title", "author"]}),
    );
    assert_eq!(
        (&by_id["title"], &by_id["author"]),
        (&json!("c"), &json!("me"))
    );
    let mixed = json!({"id": row["id"], "entry_id": other["entry_id"], "title": "d"});
    assert_eq!(
        posted(&node, "/db/update", &mixed),
        json!([]),
        "both must be its"
    );
    assert_eq!(pull(&node, &other["entry_id"])["title"], "other");
}

fn an_unknown_entry_answers_an_empty_list(store: Store) {
    let node = store.serve("");
    for unknown in [
        json!({"entry_id": 999, "title": "x"}),
        json!({"entry_id": -1, "title": "x"}),
        json!({"id": super::OTHER, "title": "x"}),
        json!({"entry_id": i64::MAX, "title": "x"}),
    ] {
        assert_eq!(
            posted(&node, "/db/update", &unknown),
            json!([]),
            "{unknown}"
        );
    }
    for nobody in [
        json!({"title": "x"}),
        json!({"entry_id": "seven", "title": "x"}),
        json!({"entry_id": 1.5, "title": "x"}),
        json!({"id": "' OR 1=1 --", "title": "x"}),
    ] {
        let answer = node.owner("POST", "/db/update", &nobody.to_string());
        refused(&answer, 400, "schema_validation_failed");
    }
}

fn a_change_merges_metadata_and_keeps_the_old_row(store: Store) {
    let node = store.serve("");
    let row = insert(
        &node,
        &json!({"source": "web", "title": "a", "metadata": {"x": {"y": 1}, "l": [1]}}),
    );
    let number = &row["entry_id"];
    update(
        &node,
        &json!({"entry_id": number, "metadata": {"x": {"z": 2}, "l": [2, 3]}, "gist": "short"}),
    );
    let after = pull(&node, number);
    assert_eq!(
        after["metadata"],
        json!({"x": {"y": 1, "z": 2}, "l": [2, 3]})
    );
    assert_eq!(
        (&after["gist"], &after["title"]),
        (&json!("short"), &json!("a"))
    );
    update(
        &node,
        &json!({"entry_id": number, "title": null, "metadata": null}),
    );
    let after = pull(&node, number);
    assert_eq!(after["title"], Value::Null, "null empties");
    assert_eq!(
        after["metadata"]["x"],
        json!({"y": 1, "z": 2}),
        "but not the metadata"
    );
    let old = revisions(&node, number);
    assert_eq!(old.len(), 2);
    assert_eq!(old[1]["metadata"], json!({"x": {"y": 1}, "l": [1]}));
}

fn keys_and_what_the_store_gives_are_never_changed(store: Store) {
    let node = store.serve("");
    let row = insert(&node, &keyed("telegram_link_v1", Some("p"), Some("s")));
    let before = pull(&node, &row["entry_id"]);
    let change = json!({
        "entry_id": row["entry_id"],
        "title": "new",
        "created_at": "2001-01-01T00:00:00Z",
        "updated_at": "2001-01-01T00:00:00Z",
        "revision": 70,
        "idempotency_policy_key": "telegram_thought_v1",
        "idempotency_key_primary": "stolen",
        "idempotency_key_secondary": null,
    });
    let told = update(&node, &change);
    let mut ignored: Vec<&str> = told["ignored"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    ignored.sort_unstable();
    assert_eq!(
        ignored,
        [
            "created_at",
            "idempotency_key_primary",
            "idempotency_key_secondary",
            "idempotency_policy_key",
            "revision",
            "updated_at"
        ]
    );
    let after = pull(&node, &row["entry_id"]);
    let but = |row: &Value| with(row, &json!({"title": 0, "revision": 0, "updated_at": 0}));
    assert_eq!(but(&after), but(&before));
    assert_eq!(
        (&after["title"], &after["revision"]),
        (&json!("new"), &json!(2))
    );
}

fn metadata_has_a_limit(store: Store) {
    let node = store.serve("");
    let row = insert(
        &node,
        &json!({"source": "web", "title": "t", "metadata": {"a": "x".repeat(600_000)}}),
    );
    let more = json!({"entry_id": row["entry_id"], "metadata": {"b": "x".repeat(600_000)}});
    let answer = node.owner("POST", "/db/update", &more.to_string());
    refused(&answer, 413, "payload_too_large");
    assert!(pull(&node, &row["entry_id"])["metadata"].get("b").is_none());
}

on_both_stores!(
    an_entry_is_named_by_its_number_or_its_id,
    an_unknown_entry_answers_an_empty_list,
    a_change_merges_metadata_and_keeps_the_old_row,
    keys_and_what_the_store_gives_are_never_changed,
    metadata_has_a_limit,
);
