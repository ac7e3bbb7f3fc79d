//! Many entries in one request: each by itself, or all or nothing.

use serde_json::{Value, json};

use super::{insert, keyed, paths, posted, pull, refused, with};
use crate::both::{Node, Store, on_both_stores};

const THREAD: &str = "email_correspondence_thread_v1";

fn count(node: &Node) -> usize {
    let rows = posted(node, "/db/read/last", &json!({"limit": 500}));
    rows.as_array().unwrap().len()
}

fn a_fresh_batch_is_inserted_and_a_second_one_is_skipped(store: Store) {
    let node = store.serve("");
    let items: Vec<Value> = (0..50)
        .map(|number| keyed("telegram_link_v1", Some(&format!("k{number}")), None))
        .collect();
    for action in ["inserted", "skipped"] {
        let rows = posted(&node, "/db/insert", &json!({ "items": items }));
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), 50);
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row["action"], action);
            assert_eq!(
                (&row["_batch_index"], &row["_batch_ok"]),
                (&json!(index), &json!(true))
            );
        }
    }
    assert_eq!(count(&node), 50);
}

fn a_bad_item_does_not_stop_the_others(store: Store) {
    let node = store.serve("");
    let items = json!([
        {"source": "web", "title": "a"},
        {"source": "telegram", "title": "t"},
        {"source": "web", "nonsense": 1},
        "no entry",
        [null, null],
        {"source": "web", "metadata": {"a": 1}, "clean_text": " "},
        keyed("nobodys", Some("k"), None),
        {"source": "web", "title": "z\u{0}"},
        {"source": "web", "title": "b"},
    ]);
    let rows = posted(&node, "/db/insert", &json!({ "items": items }));
    let rows = rows.as_array().unwrap();
    let told: Vec<&Value> = rows
        .iter()
        .map(|row| {
            row.get("error")
                .map_or(&row["action"], |error| &error["code"])
        })
        .collect();
    assert_eq!(
        told,
        [
            "inserted",
            "idempotency_fields_required",
            "schema_validation_failed",
            "schema_validation_failed",
            "schema_validation_failed",
            "schema_validation_failed",
            "unknown_policy",
            "schema_validation_failed",
            "inserted"
        ]
    );
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["_batch_index"], index);
        let ok = row.get("error").is_none();
        assert_eq!(row["_batch_ok"], ok);
        if !ok {
            assert!(row["error"]["message"].is_string(), "{row}");
        }
    }
    assert_eq!(count(&node), 2);
}

fn all_or_nothing_keeps_nothing_and_names_the_first_bad_item(store: Store) {
    let node = store.serve("");
    let there = insert(
        &node,
        &with(&keyed(THREAD, Some("p"), None), &json!({"title": "old"})),
    );
    let items = json!([
        {"source": "web", "title": "a"},
        with(&keyed(THREAD, Some("p"), None), &json!({"title": "new"})),
        {"source": "telegram", "title": "t"},
        {"source": "web", "nonsense": 1},
    ]);
    let body = json!({"items": items, "continue_on_error": false});
    let answer = node.owner("POST", "/db/insert", &body.to_string());
    let details = refused(&answer, 400, "idempotency_fields_required");
    assert_eq!(details["index"], 2);
    assert_eq!(paths(&details), ["/items/2", "/items/3/nonsense"]);
    assert_eq!(count(&node), 1);
    let after = pull(&node, &there["entry_id"]);
    assert_eq!(
        (&after["title"], &after["revision"]),
        (&json!("old"), &json!(1))
    );
    let good = json!({"items": [items[0], items[1]], "continue_on_error": false});
    let rows = posted(&node, "/db/insert", &good);
    let actions: Vec<&Value> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["action"])
        .collect();
    assert_eq!(actions, ["inserted", "updated"]);
}

fn items_of_one_batch_meet_like_requests(store: Store) {
    let node = store.serve("");
    let item = |title: &str| {
        with(
            &keyed(THREAD, Some("p"), None),
            &json!({"title": title, "metadata": {title: 1}}),
        )
    };
    let body =
        json!({"items": [item("a"), item("b"), item("c")], "returning": ["entry_id", "title"]});
    let rows = posted(&node, "/db/insert", &body);
    let told: Vec<(&Value, &Value)> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["action"], &row["title"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("inserted"), &json!("a")),
            (&json!("updated"), &json!("b")),
            (&json!("updated"), &json!("c"))
        ]
    );
    let whole = pull(&node, &rows[0]["entry_id"]);
    assert_eq!(whole["metadata"], json!({"a": 1, "b": 1, "c": 1}));
    assert_eq!(whole["revision"], 3);
    let old = super::revisions(&node, &rows[0]["entry_id"]);
    let titles: Vec<&Value> = old.iter().map(|row| &row["title"]).collect();
    assert_eq!(titles, ["b", "a"]);
}

fn a_batch_of_changes_tells_what_is_not_there(store: Store) {
    let node = store.serve("");
    let row = insert(&node, &json!({"source": "web", "title": "a"}));
    let items = json!([{"entry_id": row["entry_id"], "title": "b"}, {"entry_id": 999_999, "title": "c"}, {"title": "d"}]);
    let rows = posted(&node, "/db/update", &json!({ "items": items }));
    assert_eq!(
        (&rows[0]["action"], &rows[0]["title"]),
        (&json!("updated"), &json!("b"))
    );
    assert_eq!(rows[1]["error"]["code"], "not_found");
    assert_eq!(rows[2]["error"]["code"], "schema_validation_failed");
    let all = json!({"items": items, "continue_on_error": false});
    let answer = node.owner("POST", "/db/update", &all.to_string());
    assert_eq!(refused(&answer, 404, "not_found")["index"], 1);
}

fn a_batch_has_its_limits(store: Store) {
    let node = store.serve("");
    assert_eq!(
        posted(&node, "/db/insert", &json!({"items": []})),
        json!([])
    );
    assert_eq!(
        posted(&node, "/db/update", &json!({"items": []})),
        json!([])
    );
    let many = vec![json!({"source": "web", "title": "t"}); 2001];
    let answer = node.owner("POST", "/db/insert", &json!({ "items": many }).to_string());
    let details = refused(&answer, 413, "payload_too_large");
    assert_eq!(details["items_max"], 2000);
    assert!(answer.text().contains("2000"), "{}", answer.text());
    let rows = posted(&node, "/db/insert", &json!({ "items": many[..2000] }));
    assert_eq!(rows.as_array().unwrap().len(), 2000);
    for neither in [
        json!({"items": [], "title": "x"}),
        json!({"items": {}}),
        json!({"items": null}),
        json!({"items": [], "continue_on_error": "no"}),
    ] {
        let answer = node.owner("POST", "/db/insert", &neither.to_string());
        refused(&answer, 400, "schema_validation_failed");
    }
}

on_both_stores!(
    a_fresh_batch_is_inserted_and_a_second_one_is_skipped,
    a_bad_item_does_not_stop_the_others,
    all_or_nothing_keeps_nothing_and_names_the_first_bad_item,
    items_of_one_batch_meet_like_requests,
    a_batch_of_changes_tells_what_is_not_there,
    a_batch_has_its_limits,
);
