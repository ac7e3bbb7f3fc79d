//! What changed between two snapshots.

use serde_json::{Value, json};

use super::{get, ingest, text};
use crate::both::{Store, on_both_stores};

fn version(name: &str, more: &Value) -> Value {
    let mut payload = json!({"course": {"id": "c", "name": name}});
    for (key, value) in more.as_object().unwrap() {
        payload[key] = value.clone();
    }
    payload
}

fn two_snapshots_are_compared_and_secrets_stay_hidden(store: Store) {
    let node = store.serve("");
    let first = ingest(
        &node,
        &version("One", &json!({"api_key": "s3cret", "tags": ["x"]})),
    );
    let second = ingest(
        &node,
        &version("Two", &json!({"api_key": "s4cret", "hours": 4})),
    );
    let third = ingest(&node, &version("Three", &json!({"hours": 4})));
    let [first, second, third] = [&first, &second, &third].map(|told| text(&told["snapshotId"]));

    let usual = get(&node, "/v1/courses/c/diff");
    assert_eq!(
        (&usual["from"], &usual["to"]),
        (&json!(second), &json!(third))
    );
    assert_eq!(usual["courseId"], "c");
    assert_eq!(
        usual["changes"],
        json!([
            {"path": "api_key", "old": "***"},
            {"path": "course.name", "old": "Two", "new": "Three"},
        ])
    );
    assert_eq!(
        usual["diff_summary"],
        json!(["api_key: '***' → (absent)", "course.name: 'Two' → 'Three'"])
    );
    assert_eq!(usual["more"], 0);

    let asked = get(
        &node,
        &format!("/v1/courses/c/diff?from={first}&to={second}"),
    );
    let told = asked.to_string();
    assert!(
        told.contains("hours") && told.contains("tags") && !told.contains("cret"),
        "{told}"
    );
    let back = get(
        &node,
        &format!("/v1/courses/c/diff?from={third}&to={first}"),
    );
    assert_eq!((&back["from"], &back["to"]), (&json!(third), &json!(first)));
    let before = get(&node, &format!("/v1/courses/c/diff?to={second}"));
    assert_eq!(before["from"], first);
    let since = get(&node, &format!("/v1/courses/c/diff?from={first}"));
    assert_eq!(since["to"], third);
    let itself = get(
        &node,
        &format!("/v1/courses/c/diff?from={first}&to={first}"),
    );
    assert_eq!(itself["changes"], json!([]));
}

fn the_first_snapshot_changed_nothing(store: Store) {
    let node = store.serve("");
    let only = ingest(&node, &version("One", &json!({})));
    let told = get(&node, "/v1/courses/c/diff");
    assert_eq!(
        (&told["from"], &told["to"]),
        (&Value::Null, &only["snapshotId"])
    );
    assert_eq!(told["changes"], json!([]));
}

fn many_changes_are_listed_up_to_a_limit_and_counted(store: Store) {
    let node = store.serve("");
    let numbered = |offset: usize| {
        let values: Vec<usize> = (0..700).map(|n| n + offset).collect();
        version("One", &json!({"values": values}))
    };
    ingest(&node, &numbered(0));
    ingest(&node, &numbered(1));
    let told = get(&node, "/v1/courses/c/diff");
    assert_eq!(told["changes"].as_array().unwrap().len(), 499);
    assert_eq!(told["more"], 201);
    let lines = told["diff_summary"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[499]), (500, &json!("… and 201 more")));
}

on_both_stores!(
    two_snapshots_are_compared_and_secrets_stay_hidden,
    the_first_snapshot_changed_nothing,
    many_changes_are_listed_up_to_a_limit_and_counted,
);
