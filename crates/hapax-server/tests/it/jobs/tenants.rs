//! Two tenants with the same jobs never meet.

use serde_json::{Value, json};

use super::{begin, get, id, leased, plan, posted, work};
use crate::both::{Node, Store, on_both_stores};

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

fn as_other(node: &Node, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut answer = node.bearing(token, method, path, &body);
    let status = answer.status;
    // The trace id differs from answer to answer.
    answer.headers.clear();
    let mut told = answer.json();
    if let Some(told) = told.as_object_mut() {
        told.remove("trace_id");
    }
    (status, told)
}

fn another_tenants_jobs_and_operations_answer_like_none(store: Store) {
    let node = store.serve("");
    let stranger = node.token_of(OTHER, "owner");
    plan(&node, 1);
    let job = leased(&node, "w");
    let begun = begin(&node, &job, "HEAD", &json!({}));
    let (job_id, op_key) = (id(&job), begun["op_key"].as_str().unwrap().to_owned());
    let nothing = "0".repeat(64);
    let holder = json!({"owner": "w", "epoch": 1});
    let step = json!({"owner": "w", "epoch": 1, "to_state": "HEAD_DONE"});
    let complete = json!({"token": begun["token"], "result": 1});
    let fail = json!({"token": begun["token"], "error": "x", "retryable": false});
    for (method, prefix, of, tail, body) in [
        ("GET", "/v1/jobs/", &job_id, "", &Value::Null),
        ("POST", "/v1/jobs/", &job_id, "/renew", &holder),
        ("POST", "/v1/jobs/", &job_id, "/release", &holder),
        ("POST", "/v1/jobs/", &job_id, "/advance", &step),
        ("POST", "/v1/jobs/", &job_id, "/fail", &holder),
        ("POST", "/v1/jobs/", &job_id, "/retry", &Value::Null),
        ("GET", "/v1/ops/", &op_key, "", &Value::Null),
        ("POST", "/v1/ops/", &op_key, "/complete", &complete),
        ("POST", "/v1/ops/", &op_key, "/fail", &fail),
        (
            "POST",
            "/v1/ops/",
            &op_key,
            "/resolve",
            &json!({"retry": true}),
        ),
    ] {
        let told = as_other(
            &node,
            &stranger,
            method,
            &format!("{prefix}{of}{tail}"),
            body,
        );
        let of_none = as_other(
            &node,
            &stranger,
            method,
            &format!("{prefix}{nothing}{tail}"),
            body,
        );
        assert_eq!(told.0, 404, "{method} {prefix}{tail}");
        assert_eq!(told, of_none, "{method} {prefix}{tail}");
    }
    let begun = json!({"job_id": job_id, "kind": "HEAD", "owner": "w", "epoch": 1});
    assert_eq!(
        as_other(&node, &stranger, "POST", "/v1/ops/begin", &begun).0,
        404
    );
    let settle =
        json!({"items": [{"job_id": job_id, "owner": "w", "epoch": 1, "to_state": "HEAD_DONE"}]});
    let (_, settled) = as_other(&node, &stranger, "POST", "/v1/jobs/settle", &settle);
    assert_eq!(settled["items"][0]["error"]["code"], "not_found");
    let shown = get(&node, &format!("/v1/jobs/{job_id}"));
    assert_eq!(
        (&shown["state"], &shown["ops"][0]["state"]),
        (&json!("LEASED"), &json!("running"))
    );
}

fn the_same_job_and_the_same_operation_are_two(store: Store) {
    let node = store.serve("");
    let stranger = node.token_of(OTHER, "owner");
    let other =
        |method: &str, path: &str, body: &Value| as_other(&node, &stranger, method, path, body);
    let ours = posted(&node, "/v1/jobs", &work(1));
    let (status, theirs) = other("POST", "/v1/jobs", &work(1));
    assert_eq!((status, &theirs["planned"]), (201, &json!(true)));
    assert_eq!(
        ours["job_id"], theirs["job_id"],
        "the id says nothing of the tenant"
    );

    let leased_by_them = other("POST", "/v1/jobs/lease", &json!({"owner": "w", "limit": 9})).1;
    assert_eq!(leased_by_them["jobs"].as_array().unwrap().len(), 1);
    let job = leased(&node, "w");
    let begun = begin(&node, &job, "HEAD", &json!({"op_key": "shared"}));
    let asked = json!({"job_id": job["job_id"], "kind": "PUT", "op_key": "shared", "owner": "w", "epoch": 1});
    let (status, begun_by_them) = other("POST", "/v1/ops/begin", &asked);
    assert_eq!((status, &begun_by_them["action"]), (200, &json!("execute")));
    let wrong = json!({"token": begun["token"], "result": 1, "owner": "w", "epoch": 1});
    assert_eq!(other("POST", "/v1/ops/shared/complete", &wrong).0, 409);
    let right =
        json!({"token": begun_by_them["token"], "result": "theirs", "owner": "w", "epoch": 1});
    assert_eq!(other("POST", "/v1/ops/shared/complete", &right).0, 200);
    assert_eq!(get(&node, "/v1/ops/shared")["state"], "running");

    for path in ["/v1/jobs", "/v1/jobs/stats"] {
        let items = other("GET", path, &Value::Null).1["items"].clone();
        assert_eq!(items.as_array().unwrap().len(), 1, "{path}");
    }
    let shown = other("GET", &format!("/v1/jobs/{}", id(&job)), &Value::Null).1;
    assert_eq!(shown["ops"].as_array().unwrap().len(), 1);
    assert_eq!(shown["ops"][0]["result"], "theirs");
}

on_both_stores!(
    another_tenants_jobs_and_operations_answer_like_none,
    the_same_job_and_the_same_operation_are_two,
);
