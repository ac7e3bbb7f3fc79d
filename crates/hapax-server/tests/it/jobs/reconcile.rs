//! After dead workers: leases that ran out are over, and what they were doing is in doubt.

use std::time::Duration;

use serde_json::{Value, json};

use super::{acted, begin, get, id, lease, leased_later, plan, posted};
use crate::both::{Node, Store, on_both_stores};

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

/// A job whose lease has run out, and one that was taken over from a worker in the middle of an operation.
fn debris(node: &Node) -> (String, Value) {
    plan(node, 1);
    let job = lease(node, &json!({"owner": "dead"})).remove(0);
    let begun = begin(node, &job, "PAY", &json!({}));
    acted(node, &job, "renew", &json!({"ttl_s": 0.02}));
    leased_later(node, "alive");
    let stale = plan(node, 2);
    lease(node, &json!({"owner": "dead", "ttl_s": 0.001}));
    std::thread::sleep(Duration::from_millis(20));
    (stale, begun)
}

fn found(leases: u64, ops: u64, dry_run: bool) -> Value {
    json!({
        "leases_expired": leases, "ops_in_doubt": ops, "parts_deleted": 0, "healed": 0, "orphans": 0, "dry_run": dry_run,
    })
}

fn what_dead_workers_left_is_counted_and_put_right(store: Store) {
    let node = store.serve("");
    let (stale, begun) = debris(&node);
    let op_path = format!("/v1/ops/{}", begun["op_key"].as_str().unwrap());
    let dry = posted(&node, "/v1/reconcile", &json!({"dry_run": true}));
    assert_eq!(dry, found(1, 1, true));
    assert_eq!(
        get(&node, &op_path)["state"],
        "running",
        "a dry run changes nothing"
    );

    let stranger = node.token_of(OTHER, "owner");
    let theirs = node.bearing(&stranger, "POST", "/v1/reconcile", "");
    assert_eq!(theirs.json(), found(0, 0, false), "a tenant's own only");

    let done = node.owner("POST", "/v1/reconcile", "");
    assert_eq!((done.status, done.json()), (200, found(1, 1, false)));
    assert_eq!(get(&node, &op_path)["state"], "in_doubt");
    let job = get(&node, &format!("/v1/jobs/{stale}"));
    assert_eq!(
        (&job["owner"], &job["state"], &job["failures"]),
        (&Value::Null, &json!("LEASED"), &json!(1))
    );
    assert_eq!(
        posted(&node, "/v1/reconcile", &json!({})),
        found(0, 0, false)
    );
    let audit = get(&node, "/v1/audit?action=jobs_reconciled");
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    assert_eq!(
        audit["items"][0]["details"],
        json!({"leases_expired": 1, "ops_in_doubt": 1})
    );
    let next = lease(&node, &json!({"owner": "next"}));
    assert_eq!(id(&next[0]), stale, "and goes on");
}

fn the_command_does_the_same_for_every_tenant(store: Store) {
    let node = store.serve("");
    debris(&node);
    let stranger = node.token_of(OTHER, "owner");
    let body = super::work(7).to_string();
    assert_eq!(
        node.bearing(&stranger, "POST", "/v1/jobs", &body).status,
        201
    );
    let ask = r#"{"owner":"dead","ttl_s":0.001}"#;
    assert_eq!(
        node.bearing(&stranger, "POST", "/v1/jobs/lease", ask)
            .status,
        200
    );
    std::thread::sleep(Duration::from_millis(20));

    assert_eq!(node.command(&["reconcile", "--dry-run"]), found(2, 1, true));
    assert_eq!(node.command(&["reconcile"]), found(2, 1, false));
    let plain = String::from_utf8(node.run(&["reconcile"], 0).stdout).unwrap();
    assert!(
        plain.starts_with("ended 0 leases") && plain.lines().count() == 1,
        "{plain}"
    );
    let theirs = node.bearing(&stranger, "GET", "/v1/audit?action=jobs_reconciled", "");
    assert_eq!(theirs.json()["items"][0]["actor"], "hapax reconcile");
}

on_both_stores!(
    what_dead_workers_left_is_counted_and_put_right,
    the_command_does_the_same_for_every_tenant,
);
