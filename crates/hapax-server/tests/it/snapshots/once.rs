//! The same payload is the same snapshot; another one is a new snapshot, and what was current stays in the history.

use serde_json::json;

use super::{INGEST, course, get, ingest, items, posted, text};
use crate::both::{Store, on_both_stores};

fn the_same_payload_twice_is_one_snapshot(store: Store) {
    let node = store.serve("");
    let payload = course("course_123", "Algebra");
    let first = ingest(&node, &payload);
    assert_eq!(
        first,
        json!({
            "ok": true,
            "courseId": "course_123",
            "snapshotId": first["snapshotId"],
            "idempotent": false,
            "current": true,
            "latestSnapshotId": first["snapshotId"],
        })
    );
    let second = ingest(&node, &payload);
    assert_eq!(second["snapshotId"], first["snapshotId"]);
    assert_eq!(second["idempotent"], true);
    let history = get(&node, "/v1/courses/course_123/snapshots");
    assert_eq!(items(&history).len(), 1);
    assert_eq!(items(&history)[0]["seen"], 2);
}

fn another_payload_is_a_new_snapshot_and_the_old_one_stays(store: Store) {
    let node = store.serve("");
    let first = ingest(&node, &course("c", "One"));
    let second = ingest(&node, &course("c", "Two"));
    assert_ne!(first["snapshotId"], second["snapshotId"]);
    assert_eq!(second["idempotent"], false);
    let history = get(&node, "/v1/courses/c/snapshots");
    let ids: Vec<_> = items(&history).iter().map(|it| &it["snapshotId"]).collect();
    assert_eq!(ids, [&second["snapshotId"], &first["snapshotId"]]);
    let shown = get(&node, "/v1/courses/c");
    assert_eq!(shown["payload"], course("c", "Two"));
    let old = format!("/v1/courses/c/snapshots/{}", text(&first["snapshotId"]));
    assert_eq!(get(&node, &old)["payload"], course("c", "One"));
}

fn a_late_retry_of_an_old_payload_moves_nothing(store: Store) {
    let node = store.serve("");
    let a = ingest(&node, &course("c", "A"));
    let b = ingest(&node, &course("c", "B"));
    let late = ingest(&node, &course("c", "A"));
    assert_eq!(late["snapshotId"], a["snapshotId"]);
    assert_eq!(
        (&late["idempotent"], &late["current"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(late["latestSnapshotId"], b["snapshotId"]);
    let shown = get(&node, "/v1/courses/c");
    assert_eq!(shown["currentSnapshotId"], b["snapshotId"]);
    assert_eq!(
        (&shown["name"], &shown["snapshots"]),
        (&json!("B"), &json!(2))
    );
}

fn other_spellings_of_a_document_are_the_same_payload(store: Store) {
    let node = store.serve("");
    let texts = [
        r#"{"course":{"id":"c","name":"Café","n":1},"tags":["a","b"]}"#,
        r#"{ "tags" : ["a", "b"], "course" : {"name":"Caf\u00e9", "n":1.0, "id":"\u0063"} }"#,
        "{\"course\":{\"n\":1e0,\"id\":\"c\",\"name\":\"Caf\\u00E9\"},\n\"tags\":[\"\\u0061\",\"b\"]}\n",
    ];
    let ids: Vec<_> = texts
        .iter()
        .map(|text| posted(&node, INGEST, text)["snapshotId"].clone())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let kept = node.owner("GET", "/v1/courses/c", "");
    assert!(
        kept.text().contains(&format!("\"payload\":{}", texts[0])),
        "the first text as it was received: {}",
        kept.text()
    );
    // What the old snippets take for the same, or a double does, is another payload.
    for other in [
        r#"{"course":{"id":"c","name":"Café","n":true},"tags":["a","b"]}"#,
        r#"{"course":{"id":"c","name":"Café","n":1},"tags":["b","a"]}"#,
        r#"{"course":{"id":"c","name":"Café","n":9007199254740993},"tags":["a","b"]}"#,
        r#"{"course":{"id":"c","name":"Café","n":9007199254740992},"tags":["a","b"]}"#,
        r#"{"course":{"id":"c","name":"Café"},"a\":1,\"b":2}"#,
        r#"{"course":{"id":"c","name":"Café"},"a":1,"b":2}"#,
    ] {
        assert_eq!(posted(&node, INGEST, other)["idempotent"], false, "{other}");
    }
    assert_eq!(get(&node, "/v1/courses/c")["snapshots"], 7);
}

fn what_is_kept_outlives_a_restart(store: Store) {
    let node = store.serve("");
    let a = ingest(&node, &course("c", "A"));
    let b = ingest(&node, &course("c", "B"));
    let paths = [
        "/v1/courses",
        "/v1/courses/c",
        "/v1/courses/c/snapshots",
        "/v1/courses/c/diff",
    ];
    let before = paths.map(|path| get(&node, path));
    let node = node.restarted();
    assert_eq!(paths.map(|path| get(&node, path)), before);
    let late = ingest(&node, &course("c", "A"));
    assert_eq!(
        (
            &late["snapshotId"],
            &late["idempotent"],
            &late["latestSnapshotId"]
        ),
        (&a["snapshotId"], &json!(true), &b["snapshotId"])
    );
}

fn a_nul_in_a_payload_comes_back_as_sent(store: Store) {
    let node = store.serve("");
    let payload = r#"{"course":{"id":"n","name":"a\u0000b"},"x\u0000":"\u0000"}"#;
    assert_eq!(posted(&node, INGEST, payload)["idempotent"], false);
    assert_eq!(posted(&node, INGEST, payload)["idempotent"], true);
    let kept = node.owner("GET", "/v1/courses/n", "");
    assert_eq!(kept.status, 200, "{}", kept.text());
    assert!(kept.text().contains(payload), "{}", kept.text());
}

on_both_stores!(
    the_same_payload_twice_is_one_snapshot,
    another_payload_is_a_new_snapshot_and_the_old_one_stays,
    a_late_retry_of_an_old_payload_moves_nothing,
    other_spellings_of_a_document_are_the_same_payload,
    what_is_kept_outlives_a_restart,
    a_nul_in_a_payload_comes_back_as_sent,
);
