//! Many payloads in one request, each by itself.

use serde_json::{Value, json};

use super::{BATCH, course, get, ingest, posted, refused, send};
use crate::both::{Store, on_both_stores};

fn of(payloads: &[Value]) -> String {
    Value::from(payloads).to_string()
}

fn of_a_thousand_with_a_hundred_invalid_nine_hundred_are_kept(store: Store) {
    let node = store.serve("");
    let payloads: Vec<Value> = (0..1000)
        .map(|n| match n % 10 {
            // Every tenth has no name, or nothing that could be an id.
            3 if n % 20 == 3 => json!({"course": {"id": format!("c-{n}")}}),
            3 => json!({"course": 7}),
            _ => course(&format!("c-{n}"), &format!("Course {n}")),
        })
        .collect();
    let told = posted(&node, BATCH, &of(&payloads));
    assert_eq!(
        (
            &told["ok"],
            &told["processed"],
            &told["succeeded"],
            &told["failed"]
        ),
        (&json!(false), &json!(1000), &json!(900), &json!(100))
    );
    let errors = told["errors"].as_array().unwrap();
    let places: Vec<u64> = errors
        .iter()
        .map(|it| it["index"].as_u64().unwrap())
        .collect();
    assert_eq!(places, (0..100).map(|n| n * 10 + 3).collect::<Vec<u64>>());
    assert_eq!(errors[0]["error"], "schema_validation_failed");
    assert_eq!(errors[0]["courseId"], "c-3");
    assert_eq!(errors[0]["details"]["errors"][0]["path"], "/course/name");
    assert_eq!(errors[1].get("courseId"), None);
    let results = told["results"].as_array().unwrap();
    assert_eq!(results.len(), 900);
    let single = ingest(&node, &payloads[17]);
    let seventeenth = results.iter().find(|it| it["index"] == 17).unwrap();
    assert_eq!(
        seventeenth,
        &json!({
            "index": 17, "courseId": "c-17", "snapshotId": single["snapshotId"], "ok": true, "idempotent": false
        })
    );
    assert_eq!(single["idempotent"], true);

    let again = posted(&node, BATCH, &of(&payloads));
    let results = again["results"].as_array().unwrap();
    assert!(results.iter().all(|it| it["idempotent"] == true));
    let mut kept = 0;
    let mut path = "/v1/courses?limit=500".to_owned();
    loop {
        let page = get(&node, &path);
        kept += page["items"].as_array().unwrap().len();
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/courses?limit=500&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(kept, 900);
}

fn a_batch_without_a_fault_is_ok_and_says_nothing_of_errors(store: Store) {
    let node = store.serve("");
    let told = posted(
        &node,
        BATCH,
        &of(&[course("a", "A"), course("b", "B"), course("a", "A")]),
    );
    assert_eq!(
        (&told["ok"], &told["succeeded"], told.get("errors")),
        (&json!(true), &json!(3), None)
    );
    let results = told["results"].as_array().unwrap();
    let seen: Vec<_> = results.iter().map(|it| it["idempotent"] == true).collect();
    assert_eq!(seen, [false, false, true], "the third is the first again");
    assert_eq!(results[0]["snapshotId"], results[2]["snapshotId"]);
    let empty = posted(&node, BATCH, "[]");
    assert_eq!(
        empty,
        json!({"ok": true, "processed": 0, "succeeded": 0, "failed": 0, "results": []})
    );
    // Two of one entity: the later is current.
    posted(&node, BATCH, &of(&[course("c", "Old"), course("c", "New")]));
    assert_eq!(get(&node, "/v1/courses/c")["name"], "New");
}

fn a_batch_that_is_too_long_or_no_list_is_refused_whole(store: Store) {
    let node = store.serve("");
    let many: Vec<Value> = (0..1001).map(|n| course(&format!("c-{n}"), "C")).collect();
    let details = refused(
        &send(&node, BATCH, &[], &of(&many)),
        413,
        "payload_too_large",
    );
    assert_eq!(details["items_max"], 1000);
    let details = refused(
        &send(&node, BATCH, &[], &course("a", "A").to_string()),
        400,
        "schema_validation_failed",
    );
    assert_eq!(details["errors"][0]["message"], "must be an array");
    let details = refused(&send(&node, BATCH, &[], "[{]"), 400, "bad_json");
    assert_eq!(details["reason"], "syntax");
    assert_eq!(get(&node, "/v1/courses")["items"], json!([]));
}

fn an_item_that_breaks_a_rule_of_json_or_a_limit_fails_alone(store: Store) {
    let node = store.serve("body_bytes_max = 2000\n");
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"course":{{"id":"deep","name":"D"}},"x":{open}1{close}}}"#)
    };
    let long = course("long", &"x".repeat(3000));
    let texts = [
        r#"{"course":{"id":"a","id":"b","name":"A"}}"#.to_owned(),
        r#"{"course":{"id":"s","name":"\ud800"}}"#.to_owned(),
        r#"{"course":{"id":"n","name":"N"},"n":1e400}"#.to_owned(),
        deep(128),
        deep(127),
        long.to_string(),
        course("fine", "F").to_string(),
    ];
    let body = format!("[{}]", texts.join(","));
    let told = posted(&node, BATCH, &body);
    assert_eq!(
        (&told["succeeded"], &told["failed"]),
        (&json!(2), &json!(5))
    );
    let errors = told["errors"].as_array().unwrap();
    let faults: Vec<_> = errors
        .iter()
        .map(|it| {
            (
                it["error"].as_str().unwrap(),
                it["details"]["reason"].as_str(),
            )
        })
        .collect();
    assert_eq!(
        faults,
        [
            ("bad_json", Some("duplicate_key")),
            ("bad_json", Some("lone_surrogate")),
            ("bad_json", Some("number_out_of_range")),
            ("bad_json", Some("too_deep")),
            ("payload_too_large", None),
        ]
    );
    assert_eq!(errors[4]["courseId"], "long");
    assert_eq!(
        get(&node, "/v1/courses")["items"].as_array().unwrap().len(),
        2
    );
}

on_both_stores!(
    of_a_thousand_with_a_hundred_invalid_nine_hundred_are_kept,
    a_batch_without_a_fault_is_ok_and_says_nothing_of_errors,
    a_batch_that_is_too_long_or_no_list_is_refused_whole,
    an_item_that_breaks_a_rule_of_json_or_a_limit_fails_alone,
);
