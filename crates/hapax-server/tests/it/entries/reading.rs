//! Finding entries again.

use serde_json::{Value, json};

use super::{insert, paths, posted, pull, refused, update};
use crate::both::{Node, Store, on_both_stores};

fn titles(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().unwrap();
    rows.iter()
        .map(|row| row["title"].as_str().unwrap())
        .collect()
}

fn found(node: &Node, q: &str) -> Value {
    posted(node, "/db/read/find", &json!({ "q": q }))
}

fn the_last_entries_come_newest_first(store: Store) {
    let node = store.serve("");
    for (title, created_at) in [
        ("old", "2020-01-01T00:00:00Z"),
        ("older", "2019-01-01T00:00:00Z"),
    ] {
        insert(
            &node,
            &json!({"source": "web", "title": title, "created_at": created_at}),
        );
    }
    insert(
        &node,
        &json!({"source": "web", "title": "now", "gist": "G", "retrieval_excerpt": "E"}),
    );
    let rows = posted(&node, "/db/read/last", &json!({}));
    assert_eq!(titles(&rows), ["now", "old", "older"]);
    let rows = posted(&node, "/db/read/last", &json!({"q": "OLD", "limit": 5}));
    assert_eq!(titles(&rows), ["old"]);
    let rows = posted(&node, "/db/read/last", &json!({"q": "", "limit": 1}));
    assert_eq!(titles(&rows), ["now"]);
    for name in [
        "entry_id",
        "id",
        "created_at",
        "source",
        "retrieval_excerpt",
        "quality_score",
        "gist",
        "topic_primary",
        "topic_secondary",
    ] {
        assert!(rows[0].get(name).is_some(), "{name}");
    }
    assert_eq!(
        (&rows[0]["gist"], &rows[0]["retrieval_excerpt"]),
        (&json!("G"), &json!("E"))
    );
    assert!(rows[0].get("clean_text").is_none() && rows[0].get("action").is_none());
    let few = posted(
        &node,
        "/db/read/last",
        &json!({"limit": 2, "returning": ["title"]}),
    );
    assert_eq!(few, json!([{"title": "now"}, {"title": "old"}]));
    assert_eq!(
        titles(&posted(&node, "/db/read/last", &json!({"days": 30}))),
        ["now"]
    );
    let bare = node.owner("POST", "/db/read/last", "");
    assert_eq!(
        bare.json().as_array().unwrap().len(),
        3,
        "without a body too"
    );
}

fn all_words_have_to_be_there_in_title_author_or_text(store: Store) {
    let node = store.serve("");
    insert(
        &node,
        &json!({"source": "web", "title": "Green tea", "author": "Ada", "clean_text": "Pour the water slowly."}),
    );
    insert(
        &node,
        &json!({"source": "web", "title": "Coffee", "author": "Ben", "clean_text": "Tea is not coffee."}),
    );
    insert(
        &node,
        &json!({"source": "web", "title": "Чай и самовар", "clean_text": "Вода кипит 🫖"}),
    );
    assert_eq!(titles(&found(&node, "tea water ada")), ["Green tea"]);
    assert_eq!(titles(&found(&node, "TEA")).len(), 2);
    assert_eq!(titles(&found(&node, "tea самовар")).len(), 0);
    assert_eq!(titles(&found(&node, "самовар")), ["Чай и самовар"]);
}

fn no_character_of_the_words_is_an_operator(store: Store) {
    let node = store.serve("");
    insert(
        &node,
        &json!({"source": "web", "title": "plain", "clean_text": "tea"}),
    );
    for q in [
        "\"",
        "tea\"",
        "'",
        "tea' OR '1'='1",
        "tea OR coffee",
        "NOT tea coffee",
        "tea*x",
        "(tea",
        "tea:*x",
        "title:zzz",
        "-coffee zzz",
        "a & | ! <-> b",
        "\\",
        "%",
        "_",
        "tea; DROP TABLE entries",
        "NEAR(tea, 5)zzz",
        "{tea}zzz",
        "^zzz",
        "👍",
        "!!!",
        "\u{202e}",
    ] {
        let answer = node.owner("POST", "/db/read/find", &json!({ "q": q }).to_string());
        assert_eq!(answer.status, 200, "{q}: {}", answer.text());
    }
    assert_eq!(
        titles(&found(&node, "tea*")),
        ["plain"],
        "punctuation says nothing"
    );
    assert_eq!(titles(&found(&node, "NOT tea")).len(), 0, "not is a word");
}

fn where_was_i_comes_newest_first(store: Store) {
    let node = store.serve("");
    insert(
        &node,
        &json!({"source": "web", "title": "best", "clean_text": "tea tea tea tea", "created_at": "2020-01-01T00:00:00Z"}),
    );
    insert(
        &node,
        &json!({"source": "web", "title": "newest", "clean_text": format!("tea {}", "and words ".repeat(200))}),
    );
    let go_on = |more: &Value| {
        posted(
            &node,
            "/db/read/continue",
            &super::with(&json!({"q": "tea"}), more),
        )
    };
    assert_eq!(titles(&go_on(&json!({}))), ["newest", "best"]);
    assert_eq!(titles(&go_on(&json!({"limit": 1}))), ["newest"]);
    assert_eq!(titles(&go_on(&json!({"days": 7}))), ["newest"]);
    assert_eq!(titles(&found(&node, "tea")), ["best", "newest"]);
}

fn a_changed_text_is_found_by_its_new_words(store: Store) {
    let node = store.serve("");
    let row = insert(
        &node,
        &json!({"source": "web", "title": "x", "clean_text": "kettle"}),
    );
    update(
        &node,
        &json!({"entry_id": row["entry_id"], "clean_text": "samovar"}),
    );
    assert_eq!(titles(&found(&node, "samovar")), ["x"]);
    assert_eq!(titles(&found(&node, "kettle")).len(), 0);
}

fn one_entry_is_pulled_whole(store: Store) {
    let node = store.serve("");
    let row = insert(
        &node,
        &json!({"source": "web", "clean_text": "all of it", "metadata": {"a": 1}, "keywords": ["k"], "flags": {"f": true}}),
    );
    let whole = pull(&node, &row["entry_id"]);
    assert_eq!(
        (&whole["clean_text"], &whole["metadata"]),
        (&json!("all of it"), &json!({"a": 1}))
    );
    assert_eq!(
        (&whole["keywords"], &whole["flags"]),
        (&json!(["k"]), &json!({"f": true}))
    );
    let columns = super::get(&node, "/config")["columns"].clone();
    let mut columns: Vec<&str> = columns
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    columns.sort_unstable();
    let names: Vec<&String> = whole.as_object().unwrap().keys().collect();
    assert_eq!(names, columns, "every column and nothing else");
    let text = json!({"entry_id": row["entry_id"].to_string()});
    assert_eq!(posted(&node, "/db/read/pull", &text), whole);
    let answer = node.owner("POST", "/db/read/pull", r#"{"entry_id":424242}"#);
    refused(&answer, 404, "not_found");
}

fn what_is_out_of_bounds_is_named(store: Store) {
    let node = store.serve("");
    for (path, body, place) in [
        ("/db/read/last", json!({"limit": 0}), "limit"),
        ("/db/read/last", json!({"limit": 501}), "limit"),
        ("/db/read/last", json!({"days": 0}), "days"),
        ("/db/read/last", json!({"days": 36_501}), "days"),
        (
            "/db/read/last",
            json!({"returning": ["tenant_id"]}),
            "/returning/0",
        ),
        ("/db/read/find", json!({"q": "  "}), "q"),
        ("/db/read/find", json!({"q": "a\u{0}b"}), "q"),
        ("/db/read/find", json!({"q": "ы".repeat(1001)}), "q"),
        ("/db/read/find", json!({"q": "a ".repeat(101)}), "q"),
        (
            "/db/read/continue",
            json!({"q": "a", "limit": 501}),
            "limit",
        ),
        ("/db/read/pull", json!({"entry_id": "1; --"}), "entry_id"),
    ] {
        let answer = node.owner("POST", path, &body.to_string());
        let details = refused(&answer, 400, "schema_validation_failed");
        assert_eq!(paths(&details), [place], "{body}");
    }
    for body in [
        json!({"limit": -1}),
        json!({"limit": 1.5}),
        json!({"lmit": 1}),
        json!([]),
    ] {
        let answer = node.owner("POST", "/db/read/last", &body.to_string());
        refused(&answer, 400, "schema_validation_failed");
    }
    let answer = node.owner("POST", "/db/read/find", "{}");
    refused(&answer, 400, "schema_validation_failed");
    assert_eq!(
        posted(&node, "/db/read/find", &json!({"q": "ы".repeat(1000)})),
        json!([])
    );
}

on_both_stores!(
    the_last_entries_come_newest_first,
    all_words_have_to_be_there_in_title_author_or_text,
    no_character_of_the_words_is_an_operator,
    where_was_i_comes_newest_first,
    a_changed_text_is_found_by_its_new_words,
    one_entry_is_pulled_whole,
    what_is_out_of_bounds_is_named,
);
