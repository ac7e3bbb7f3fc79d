//! What is not taken, and why.

use serde_json::json;

use super::{BATCH, INGEST, course, get, posted, refused, send};
use crate::both::{Store, on_both_stores};

fn a_payload_of_another_shape_is_refused_with_every_fault(store: Store) {
    let node = store.serve("");
    for (payload, paths) in [
        ("[]", &[""][..]),
        ("7", &[""]),
        ("{}", &["/course"]),
        (r#"{"course":7}"#, &["/course"]),
        (r#"{"course":{}}"#, &["/course/id", "/course/name"]),
        (
            r#"{"course":{"id":"","name":7}}"#,
            &["/course/id", "/course/name"],
        ),
        (r#"{"course":{"id":7,"name":"A"}}"#, &["/course/id"]),
        (r#"{"course":{"id":"a\nb","name":"A"}}"#, &["/course/id"]),
    ] {
        let details = refused(
            &send(&node, INGEST, &[], payload),
            400,
            "schema_validation_failed",
        );
        let errors = details["errors"].as_array().unwrap();
        let found: Vec<_> = errors
            .iter()
            .map(|it| it["path"].as_str().unwrap())
            .collect();
        assert_eq!(found, paths, "{payload}");
        assert!(
            errors.iter().all(|it| it["message"].is_string()),
            "{details}"
        );
    }
    assert_eq!(get(&node, "/v1/courses")["items"], json!([]));
}

fn json_that_breaks_a_rule_is_refused_with_its_reason(store: Store) {
    let node = store.serve("");
    let deep = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"course":{{"id":"a","name":"A"}},"x":{open}1{close}}}"#)
    };
    for (payload, reason) in [
        (
            r#"{"course":{"id":"a","id":"a","name":"A"}}"#,
            "duplicate_key",
        ),
        (r#"{"course":{"id":"a","name":"\ud800"}}"#, "lone_surrogate"),
        (
            r#"{"course":{"id":"a","name":"A"},"n":1e999}"#,
            "number_out_of_range",
        ),
        ("", "syntax"),
        ("{", "syntax"),
        (&deep(128), "too_deep"),
        (&deep(100_000), "too_deep"),
    ] {
        let details = refused(&send(&node, INGEST, &[], payload), 400, "bad_json");
        assert_eq!(details["reason"], reason);
    }
    let bearer = format!("Bearer {}", node.token());
    let bytes = b"{\"course\":{\"id\":\"a\",\"name\":\"\xff\"}}";
    let answer = node.send("POST", INGEST, &[("authorization", &bearer)], bytes);
    assert_eq!(refused(&answer, 400, "bad_json")["reason"], "invalid_utf8");
    assert_eq!(
        posted(&node, INGEST, &deep(127))["ok"],
        true,
        "as deep as allowed"
    );
    assert_eq!(node.owner("GET", "/v1/courses/a", "").status, 200);
}

fn what_is_too_large_is_refused_and_what_fits_comes_back_whole(store: Store) {
    let node = store.serve("batch_body_bytes_max = 3000000\n");
    let around = course("big", "").to_string().len();
    let fits = course("big", &"x".repeat((1 << 20) - around)).to_string();
    assert_eq!(fits.len(), 1 << 20);
    assert_eq!(posted(&node, INGEST, &fits)["idempotent"], false);
    assert_eq!(posted(&node, INGEST, &fits)["idempotent"], true);
    let kept = node.owner("GET", "/v1/courses/big", "");
    assert!(kept.text().contains(&fits));
    let over = course("big", &"x".repeat((1 << 20) - around + 1)).to_string();
    refused(&send(&node, INGEST, &[], &over), 413, "payload_too_large");
    let over = format!("[{}]", [fits.as_str(); 3].join(","));
    refused(&send(&node, BATCH, &[], &over), 413, "payload_too_large");
}

fn roles_media_types_and_methods_are_asked_for_as_everywhere(store: Store) {
    let node = store.serve("");
    let payload = course("a", "A").to_string();
    let (viewer, writer) = (
        node.token_of("default", "viewer"),
        node.token_of("default", "writer"),
    );
    for (path, body) in [(INGEST, payload.clone()), (BATCH, format!("[{payload}]"))] {
        refused(
            &node.send("POST", path, &[], body.as_bytes()),
            401,
            "unauthorized",
        );
        refused(
            &node.bearing(&viewer, "POST", path, &body),
            403,
            "forbidden",
        );
        assert_eq!(node.bearing(&writer, "POST", path, &body).status, 200);
    }
    for path in [
        "/v1/courses",
        "/v1/courses/a",
        "/v1/courses/a/snapshots",
        "/v1/courses/a/diff",
    ] {
        assert_eq!(node.bearing(&viewer, "GET", path, "").status, 200, "{path}");
        refused(&node.send("GET", path, &[], b""), 401, "unauthorized");
        refused(&node.owner("DELETE", path, ""), 405, "method_not_allowed");
    }
    let bearer = format!("Bearer {}", node.token());
    let plain = [
        ("authorization", bearer.as_str()),
        ("content-type", "text/plain"),
    ];
    let answer = node.send("POST", INGEST, &plain, payload.as_bytes());
    refused(&answer, 415, "unsupported_media_type");
}

on_both_stores!(
    a_payload_of_another_shape_is_refused_with_every_fault,
    json_that_breaks_a_rule_is_refused_with_its_reason,
    what_is_too_large_is_refused_and_what_fits_comes_back_whole,
    roles_media_types_and_methods_are_asked_for_as_everywhere,
);
