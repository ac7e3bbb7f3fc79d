//! Two tenants with the same payloads never meet.

use serde_json::{Value, json};

use super::{INGEST, course, get, ingest, items, text};
use crate::both::{Store, on_both_stores};

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

fn the_same_payload_of_two_tenants_is_two_snapshots(store: Store) {
    let node = store.serve("");
    let stranger = node.token_of(OTHER, "owner");
    let theirs = |method: &str, path: &str, body: &str| node.bearing(&stranger, method, path, body);
    let ours = ingest(&node, &course("c", "C"));
    let told = theirs("POST", INGEST, &course("c", "C").to_string()).json();
    assert_eq!(
        told["idempotent"], false,
        "what another tenant has is new here"
    );
    assert_ne!(told["snapshotId"], ours["snapshotId"]);
    theirs("POST", INGEST, &course("c", "C2").to_string());
    assert_eq!(get(&node, "/v1/courses/c")["name"], "C");
    let history = get(&node, "/v1/courses/c/snapshots");
    assert_eq!(
        (items(&history).len(), &items(&history)[0]["seen"]),
        (1, &json!(1))
    );
}

fn another_tenants_entities_and_snapshots_answer_like_none(store: Store) {
    let node = store.serve("");
    let stranger = node.token_of(OTHER, "owner");
    let sid = text(&ingest(&node, &course("ours", "C"))["snapshotId"]).to_owned();
    let told = |path: &str| {
        let answer = node.bearing(&stranger, "GET", path, "");
        let mut body = answer.json();
        body.as_object_mut().unwrap().remove("trace_id");
        (answer.status, body)
    };
    let mine = course("mine", "M").to_string();
    assert_eq!(node.bearing(&stranger, "POST", INGEST, &mine).status, 200);
    for (ours, nobodys) in [
        ("/v1/courses/ours".to_owned(), "/v1/courses/none".to_owned()),
        (
            "/v1/courses/ours/snapshots".to_owned(),
            "/v1/courses/none/snapshots".to_owned(),
        ),
        (
            "/v1/courses/ours/diff".to_owned(),
            "/v1/courses/none/diff".to_owned(),
        ),
        (
            format!("/v1/courses/ours/snapshots/{sid}"),
            "/v1/courses/ours/snapshots/00000000-0000-8000-8000-000000000000".to_owned(),
        ),
        (
            format!("/v1/courses/mine/diff?from={sid}"),
            "/v1/courses/mine/diff?from=00000000-0000-8000-8000-000000000000".to_owned(),
        ),
    ] {
        assert_eq!(told(&ours).0, 404, "{ours}");
        assert_eq!(told(&ours), told(&nobodys), "{ours}");
    }
    let listed: Vec<Value> = items(&told("/v1/courses?search=ours").1).clone();
    assert_eq!(listed, Vec::<Value>::new());
}

on_both_stores!(
    the_same_payload_of_two_tenants_is_two_snapshots,
    another_tenants_entities_and_snapshots_answer_like_none,
);
