//! What is refused, with which code, and that nothing comes of it.

use serde_json::{Value, json};

use super::{by, get, id, leased, plan, post, posted, refused, work};
use crate::both::{Store, on_both_stores};

const NOTHING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[expect(clippy::too_many_lines, reason = "one table")]
fn the_form_of_a_body_is_checked_and_the_fault_is_named(store: Store) {
    let node = store.serve("");
    let with = |name: &str, value: Value| {
        let mut body = work(1);
        body[name] = value;
        body
    };
    let long = "x".repeat(9000);
    for (path, body, fault) in [
        ("/v1/jobs", json!({}), "work_id"),
        ("/v1/jobs", with("work_id", json!(7)), "work_id"),
        ("/v1/jobs", with("work_id", json!("")), "work_id"),
        ("/v1/jobs", with("work_id", json!("a\u{0}b")), "work_id"),
        (
            "/v1/jobs",
            with("artifact_id", json!("x".repeat(513))),
            "artifact_id",
        ),
        (
            "/v1/jobs",
            with("canonical_url", json!(long)),
            "canonical_url",
        ),
        ("/v1/jobs", with("kind", json!("Down load")), "kind"),
        ("/v1/jobs", with("kind", json!("x".repeat(65))), "kind"),
        ("/v1/jobs", with("max_attempts", json!(0)), "max_attempts"),
        ("/v1/jobs", with("unknown", json!(1)), "unknown"),
        ("/v1/jobs/lease", json!({}), "owner"),
        ("/v1/jobs/lease", json!({"owner": ""}), "owner"),
        ("/v1/jobs/lease", json!({"owner": "x".repeat(201)}), "owner"),
        ("/v1/jobs/lease", json!({"owner": "a\nb"}), "owner"),
        ("/v1/jobs/lease", json!({"owner": "w", "ttl_s": 0}), "ttl_s"),
        (
            "/v1/jobs/lease",
            json!({"owner": "w", "ttl_s": -1}),
            "ttl_s",
        ),
        (
            "/v1/jobs/lease",
            json!({"owner": "w", "ttl_s": 86_401}),
            "ttl_s",
        ),
        (
            "/v1/jobs/lease",
            json!({"owner": "w", "ttl_s": "1"}),
            "ttl_s",
        ),
        ("/v1/jobs/lease", json!({"owner": "w", "limit": 0}), "limit"),
        (
            "/v1/jobs/lease",
            json!({"owner": "w", "limit": 501}),
            "limit",
        ),
        (
            "/v1/jobs/lease",
            json!({"owner": "w", "kinds": []}),
            "kinds",
        ),
        (
            "/v1/jobs/lease",
            json!({"owner": "w", "kinds": ["a", "B"]}),
            "kinds[1]",
        ),
        ("/v1/jobs/x/advance", json!({}), "to_state"),
        (
            "/v1/jobs/x/advance",
            json!({"to_state": "head_done"}),
            "to_state",
        ),
        (
            "/v1/jobs/x/advance",
            json!({"to_state": "INDEXED", "allowed_from": ["X"]}),
            "allowed_from[0]",
        ),
        (
            "/v1/jobs/x/fail",
            json!({"retry_after_s": -1}),
            "retry_after_s",
        ),
        ("/v1/jobs/x/fail", json!({"error": "a\u{0}b"}), "error"),
        ("/v1/jobs/x/renew", json!({"ttl_s": 1e9}), "ttl_s"),
        ("/v1/ops/begin", json!({"job_id": "x"}), "kind"),
        ("/v1/ops/x/complete", json!({"token": "t"}), "result"),
        (
            "/v1/ops/x/complete",
            json!({"token": "t", "result": 1, "advance_to": "X"}),
            "advance_to",
        ),
        (
            "/v1/ops/x/fail",
            json!({"token": "t", "retryable": true}),
            "error",
        ),
        ("/v1/reconcile", json!({"dry_run": 1}), "dry_run"),
    ] {
        let details = refused(&post(&node, path, &body), 400, "schema_validation_failed");
        assert_eq!(
            details["errors"][0]["path"], fault,
            "{path} {body}: {details}"
        );
        assert!(details["errors"][0]["message"].is_string());
    }
    assert_eq!(get(&node, "/v1/jobs/stats")["total"], 0);
}

fn what_is_not_acceptable_json_is_refused_before_anything(store: Store) {
    let node = store.serve("");
    for path in [
        "/v1/jobs",
        "/v1/jobs/batch",
        "/v1/jobs/lease",
        "/v1/jobs/settle",
        "/v1/jobs/x/renew",
        "/v1/jobs/x/release",
        "/v1/jobs/x/advance",
        "/v1/jobs/x/fail",
        "/v1/ops/begin",
        "/v1/ops/x/complete",
        "/v1/ops/x/fail",
        "/v1/ops/x/resolve",
        "/v1/reconcile",
    ] {
        for (body, reason) in [
            ("{", "syntax"),
            (r#"{"a":1,"a":2}"#, "duplicate_key"),
            (r#"{"a":"\ud800"}"#, "lone_surrogate"),
            (r#"{"a":1e999}"#, "number_out_of_range"),
        ] {
            let details = refused(&node.owner("POST", path, body), 400, "bad_json");
            assert_eq!(details["reason"], reason, "{path} {body}");
        }
        let bearer = format!("Bearer {}", node.token());
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "text/plain"),
        ];
        let answer = node.send("POST", path, &headers, b"{}");
        assert_eq!(
            answer.refusal(),
            (415, "unsupported_media_type".to_owned()),
            "{path}"
        );
    }
}

fn what_is_not_there_is_a_404(store: Store) {
    let node = store.serve("");
    for (method, path, body) in [
        ("GET", format!("/v1/jobs/{NOTHING}"), json!(null)),
        ("GET", "/v1/jobs/%ff".to_owned(), json!(null)),
        ("GET", "/v1/jobs/a%20b".to_owned(), json!(null)),
        ("GET", format!("/v1/jobs/{}", "x".repeat(129)), json!(null)),
        ("GET", "/v1/ops/nothing".to_owned(), json!(null)),
        (
            "POST",
            format!("/v1/jobs/{NOTHING}/renew"),
            json!({"owner": "w", "epoch": 1}),
        ),
        ("POST", format!("/v1/jobs/{NOTHING}/release"), json!({})),
        (
            "POST",
            format!("/v1/jobs/{NOTHING}/advance"),
            json!({"to_state": "INDEXED"}),
        ),
        ("POST", format!("/v1/jobs/{NOTHING}/fail"), json!({})),
        ("POST", format!("/v1/jobs/{NOTHING}/retry"), json!({})),
        (
            "POST",
            "/v1/ops/begin".to_owned(),
            json!({"job_id": NOTHING, "kind": "HEAD"}),
        ),
        (
            "POST",
            "/v1/ops/x/complete".to_owned(),
            json!({"token": "t", "result": 1}),
        ),
        (
            "POST",
            "/v1/ops/x/fail".to_owned(),
            json!({"token": "t", "error": "e", "retryable": true}),
        ),
        (
            "POST",
            "/v1/ops/x/resolve".to_owned(),
            json!({"retry": true}),
        ),
    ] {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = node.owner(method, &path, &body);
        assert_eq!(
            answer.refusal(),
            (404, "not_found".to_owned()),
            "{method} {path}"
        );
    }
}

fn a_path_takes_its_methods_and_no_other(store: Store) {
    let node = store.serve("");
    for (method, path) in [
        ("DELETE", "/v1/jobs"),
        ("PUT", "/v1/jobs/x"),
        ("GET", "/v1/jobs/lease"),
        ("GET", "/v1/jobs/x/renew"),
        ("POST", "/v1/ops/x"),
        ("GET", "/v1/reconcile"),
    ] {
        let answer = node.owner(method, path, "");
        assert_eq!(
            answer.refusal(),
            (405, "method_not_allowed".to_owned()),
            "{method} {path}"
        );
        assert!(answer.header("allow").is_some(), "{method} {path}");
    }
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn a_viewer_reads_a_writer_works_and_an_owner_operates(store: Store) {
    let node = store.serve("");
    let job = {
        plan(&node, 1);
        leased(&node, "w")
    };
    let job = id(&job);
    let (viewer, writer) = (
        node.token_of("default", "viewer"),
        node.token_of("default", "writer"),
    );
    let plain = work(2).to_string();
    for (method, path, body, of_viewer, of_writer) in [
        ("GET", "/v1/jobs".to_owned(), "", 200, 200),
        ("GET", "/v1/jobs/stats".to_owned(), "", 200, 200),
        ("GET", format!("/v1/jobs/{job}"), "", 200, 200),
        ("GET", "/v1/ops/x".to_owned(), "", 404, 404),
        ("POST", "/v1/jobs".to_owned(), plain.as_str(), 403, 201),
        (
            "POST",
            "/v1/jobs/batch".to_owned(),
            r#"{"jobs":[]}"#,
            403,
            200,
        ),
        (
            "POST",
            "/v1/jobs/lease".to_owned(),
            r#"{"owner":"x"}"#,
            403,
            200,
        ),
        (
            "POST",
            "/v1/jobs/settle".to_owned(),
            r#"{"items":[]}"#,
            403,
            200,
        ),
        (
            "POST",
            format!("/v1/jobs/{job}/renew"),
            r#"{"owner":"w","epoch":1}"#,
            403,
            200,
        ),
        (
            "POST",
            format!("/v1/jobs/{job}/advance"),
            r#"{"owner":"w","epoch":1,"to_state":"HEAD_DONE"}"#,
            403,
            200,
        ),
        (
            "POST",
            "/v1/ops/begin".to_owned(),
            r#"{"job_id":"x","kind":"HEAD"}"#,
            403,
            404,
        ),
        (
            "POST",
            "/v1/ops/x/complete".to_owned(),
            r#"{"token":"t","result":1}"#,
            403,
            404,
        ),
        (
            "POST",
            "/v1/ops/x/fail".to_owned(),
            r#"{"token":"t","error":"e"}"#,
            403,
            404,
        ),
        (
            "POST",
            "/v1/ops/x/resolve".to_owned(),
            r#"{"retry":true}"#,
            403,
            403,
        ),
        (
            "POST",
            format!("/v1/jobs/{job}/fail"),
            r#"{"owner":"w","epoch":1}"#,
            403,
            200,
        ),
        (
            "POST",
            format!("/v1/jobs/{job}/release"),
            r#"{"owner":"w","epoch":1}"#,
            403,
            200,
        ),
        ("POST", format!("/v1/jobs/{job}/retry"), "", 403, 403),
        ("POST", "/v1/reconcile".to_owned(), "", 403, 403),
    ] {
        assert_eq!(
            node.send(method, &path, &[], body.as_bytes()).status,
            401,
            "{path}"
        );
        for (token, status) in [(&viewer, of_viewer), (&writer, of_writer)] {
            let answer = node.bearing(token, method, &path, body);
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
            if status == 403 {
                assert_eq!(answer.code(), "forbidden");
            }
        }
    }
}

fn an_array_is_not_read_as_an_object(store: Store) {
    let node = store.serve("");
    for (path, body) in [
        ("/v1/jobs", r#"["download","w","a","u",null,null]"#),
        ("/v1/jobs/lease", r#"["o",5,null,1]"#),
        ("/v1/keys/claim", "[1]"),
    ] {
        let answer = node.owner("POST", path, body);
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (400, Some("schema_validation_failed")),
            "{path}"
        );
    }
}

fn an_error_may_be_an_object_and_comes_back_as_one(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let begun = posted(
        &node,
        "/v1/ops/begin",
        &by(&job, &json!({"job_id": job["job_id"], "kind": "PAY"})),
    );
    let path = format!("/v1/ops/{}/fail", begun["op_key"].as_str().unwrap());
    let error = json!({"code": "no_funds", "left": 3});
    let stale = json!({"token": begun["token"], "error": error, "retryable": false, "owner": "w", "epoch": 7});
    assert_eq!(
        post(&node, &path, &stale).status,
        409,
        "a fence that is sent is looked at"
    );
    posted(
        &node,
        &path,
        &by(
            &job,
            &json!({"token": begun["token"], "error": error, "retryable": false}),
        ),
    );
    let again = posted(
        &node,
        "/v1/ops/begin",
        &by(&job, &json!({"job_id": job["job_id"], "kind": "PAY"})),
    );
    assert_eq!(
        (&again["action"], &again["error"]),
        (&json!("failed"), &error)
    );
}

on_both_stores!(
    the_form_of_a_body_is_checked_and_the_fault_is_named,
    what_is_not_acceptable_json_is_refused_before_anything,
    what_is_not_there_is_a_404,
    a_path_takes_its_methods_and_no_other,
    a_viewer_reads_a_writer_works_and_an_owner_operates,
    an_array_is_not_read_as_an_object,
    an_error_may_be_an_object_and_comes_back_as_one,
);
