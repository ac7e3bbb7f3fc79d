//! The epoch of a lease, which everybody reads who reads the job: it is no lease.

use serde_json::{Value, json};

use crate::both::{Node, Store, on_both_stores};

const DEFAULT: &str = "00000000-0000-0000-0000-000000000000";

fn plan(node: &Node) -> String {
    let work =
        json!({"work_id": "w", "artifact_id": "a", "canonical_url": "https://example.org/a"});
    let planned = node.owner("POST", "/v1/jobs", &work.to_string()).json();
    planned["job_id"].as_str().unwrap().to_owned()
}

fn post(node: &Node, token: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer = node.bearing(token, "POST", path, &body.to_string());
    (answer.status, answer.json())
}

fn an_epoch_without_an_owner_is_no_lease(store: Store) {
    let node = store.serve("");
    let id = plan(&node);
    let holder = node.token_of(DEFAULT, "writer");
    let (viewer, attacker) = (
        node.token_of(DEFAULT, "viewer"),
        node.token_of(DEFAULT, "writer"),
    );
    post(&node, &holder, "/v1/jobs/lease", &json!({"owner": "w"}));
    let asked = json!({"job_id": id, "kind": "HEAD", "context": {}, "owner": "w", "epoch": 1});
    let (status, begun) = post(&node, &holder, "/v1/ops/begin", &asked);
    assert_eq!((status, &begun["action"]), (200, &json!("execute")));
    let shown = || node.bearing(&viewer, "GET", &format!("/v1/jobs/{id}"), "");
    let before = shown();
    let epoch = before.json()["epoch"].clone();
    let token = &begun["token"];
    let op = begun["op_key"].as_str().unwrap();

    for (path, body) in [
        (format!("jobs/{id}/renew"), json!({"ttl_s": 86400})),
        (format!("jobs/{id}/release"), json!({})),
        (
            format!("jobs/{id}/advance"),
            json!({"to_state": "HEAD_DONE"}),
        ),
        (
            format!("jobs/{id}/fail"),
            json!({"error": "x", "retryable": false}),
        ),
        (
            "ops/begin".to_owned(),
            json!({"job_id": id, "kind": "GET", "context": {}}),
        ),
        // Not even with the runner's own secret.
        (
            format!("ops/{op}/complete"),
            json!({"token": token, "result": 1}),
        ),
        (
            format!("ops/{op}/fail"),
            json!({"token": token, "error": "x"}),
        ),
    ] {
        for fence in [json!({"epoch": epoch}), json!({"owner": "w"}), json!({})] {
            let mut body = body.clone();
            for (name, value) in fence.as_object().unwrap() {
                body[name] = value.clone();
            }
            let (status, answer) = post(&node, &attacker, &format!("/v1/{path}"), &body);
            let code = &answer["error"]["code"];
            assert_eq!((status, code), (409, &json!("lease_lost")), "{path} {body}");
        }
    }
    let items = json!({"items": [
        {"job_id": id, "epoch": epoch, "to_state": "HEAD_DONE"},
        {"job_id": id, "epoch": epoch, "error": "x"},
    ]});
    let (_, settled) = post(&node, &attacker, "/v1/jobs/settle", &items);
    for item in settled["items"].as_array().unwrap() {
        assert_eq!(item["error"]["code"], "lease_lost", "{item}");
    }
    assert_eq!(shown().text(), before.text(), "nothing changed");

    // The holder goes on, and whoever gives a job back leaves it to others, fence or none.
    let complete =
        json!({"token": token, "result": 1, "advance_to": "HEAD_DONE", "owner": "w", "epoch": 1});
    let (status, _) = post(&node, &holder, &format!("/v1/ops/{op}/complete"), &complete);
    assert_eq!(status, 200);
    let fence = json!({"owner": "w", "epoch": 1});
    let (status, _) = post(&node, &holder, &format!("/v1/jobs/{id}/release"), &fence);
    assert_eq!(status, 200);
    let step = json!({"to_state": "STREAMING"});
    let (status, _) = post(&node, &attacker, &format!("/v1/jobs/{id}/advance"), &step);
    assert_eq!(status, 200);
}

on_both_stores!(an_epoch_without_an_owner_is_no_lease);
