//! Along the graph: forward only, failing and resting, given up, retried by an owner, many at a time.

use serde_json::{Value, json};

use super::{
    act, acted, advance, get, id, lease, leased, leased_later, plan, post, posted, refused, work,
};
use crate::both::{Node, Store, on_both_stores, seconds_left};

fn a_download_goes_through_every_step_to_its_end(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    for step in ["HEAD_DONE", "RESUME_OK", "STREAMING", "FINALIZED"] {
        assert_eq!(advance(&node, &job, step)["state"], step);
    }
    let end = json!({"to_state": "INDEXED", "allowed_from": ["FINALIZED"], "result": {"n": 1}});
    let done = acted(&node, &job, "advance", &end);
    assert_eq!(
        (&done["state"], &done["owner"], &done["result"]),
        (&json!("INDEXED"), &Value::Null, &json!({"n": 1}))
    );
    assert_eq!(lease(&node, &json!({"owner": "w"})), [] as [Value; 0]);
    let again = acted(&node, &job, "advance", &end_again());
    assert_eq!(
        again["state"], "INDEXED",
        "its answer got lost: the same once more is fine"
    );
}

fn end_again() -> Value {
    json!({"to_state": "INDEXED"})
}

fn a_step_back_or_ahead_is_refused_and_says_from_where(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    advance(&node, &job, "HEAD_DONE");
    for (wants, from) in [
        ("LEASED", json!(["PLANNED"])),
        ("PLANNED", json!([])),
        ("FINALIZED", json!(["STREAMING"])),
        ("INDEXED", json!(["FINALIZED"])),
        ("DEAD", json!([])),
    ] {
        let answer = act(&node, &job, "advance", &json!({"to_state": wants}));
        let details = refused(&answer, 409, "state_transition_denied");
        assert_eq!(
            (&details["have"], &details["wants"], &details["from"]),
            (&json!("HEAD_DONE"), &json!(wants), &from)
        );
    }
    let narrowed = json!({"to_state": "STREAMING", "allowed_from": ["RESUME_OK"]});
    let details = refused(
        &act(&node, &job, "advance", &narrowed),
        409,
        "state_transition_denied",
    );
    assert_eq!(
        details["from"],
        json!(["RESUME_OK"]),
        "callers narrow the graph"
    );
    let widened = json!({"to_state": "INDEXED", "allowed_from": ["HEAD_DONE"]});
    let details = refused(
        &act(&node, &job, "advance", &widened),
        409,
        "state_transition_denied",
    );
    assert_eq!(details["from"], json!([]), "and never widen it");
    let shown = get(&node, &format!("/v1/jobs/{}", id(&job)));
    assert_eq!(shown["state"], "HEAD_DONE");
}

fn other_kinds_have_nothing_to_fetch(store: Store) {
    let node = store.serve("");
    let mut asked = work(1);
    asked["kind"] = json!("enrich");
    posted(&node, "/v1/jobs", &asked);
    let job = leased(&node, "w");
    assert_eq!(advance(&node, &job, "FINALIZED")["state"], "FINALIZED");
    assert_eq!(advance(&node, &job, "DEDUPED")["state"], "DEDUPED");
}

fn a_failed_attempt_rests_and_is_leased_again(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    advance(&node, &job, "HEAD_DONE");
    let failed = acted(&node, &job, "fail", &json!({"error": "reset by peer"}));
    assert_eq!(
        (
            &failed["state"],
            &failed["error"],
            &failed["failures"],
            &failed["owner"]
        ),
        (
            &json!("FAILED"),
            &json!("reset by peer"),
            &json!(1),
            &Value::Null
        )
    );
    let told = acted(&node, &job, "fail", &json!({"error": "reset by peer"}));
    assert_eq!(told["failures"], 1, "told again, counted once");
    let next = leased_later(&node, "w");
    assert_eq!(
        (&next["state"], &next["attempts"], &next["epoch"]),
        (&json!("LEASED"), &json!(2), &json!(2))
    );
    let longer = acted(&node, &next, "fail", &json!({"retry_after_s": 3600}));
    let rest = seconds_left(&node, &longer["available_at"]);
    assert!(
        (3590..=3600).contains(&rest),
        "as long as it was asked: {rest}"
    );
    assert_eq!(lease(&node, &json!({"owner": "w"})), [] as [Value; 0]);
}

/// A job that is given up, and the lease that did it.
fn dead(node: &Node) -> Value {
    plan(node, 1);
    let job = leased(node, "w");
    let failed = acted(
        node,
        &job,
        "fail",
        &json!({"error": "410 Gone", "retryable": false}),
    );
    assert_eq!(failed["state"], "DEAD");
    job
}

fn what_no_attempt_can_help_is_given_up_until_an_owner_retries_it(store: Store) {
    let node = store.serve("");
    let job = dead(&node);
    assert_eq!(lease(&node, &json!({"owner": "w"})), [] as [Value; 0]);
    let path = format!("/v1/jobs/{}/retry", id(&job));
    let writer = node.token_of("default", "writer");
    assert_eq!(
        node.bearing(&writer, "POST", &path, "").refusal(),
        (403, "forbidden".to_owned())
    );
    let retried = node.owner("POST", &path, "");
    assert_eq!(retried.status, 200, "{}", retried.text());
    let retried = retried.json();
    assert_eq!(
        (&retried["state"], &retried["failures"], &retried["error"]),
        (&json!("PLANNED"), &json!(0), &Value::Null)
    );
    let details = refused(
        &node.owner("POST", &path, ""),
        409,
        "state_transition_denied",
    );
    assert_eq!(
        (&details["have"], &details["from"]),
        (&json!("PLANNED"), &json!(["FAILED", "DEAD"]))
    );
    let late = act(&node, &job, "advance", &json!({"to_state": "HEAD_DONE"}));
    refused(&late, 409, "lease_lost");
    let next = leased(&node, "w");
    assert!(next["epoch"].as_i64().unwrap() > 1, "{next}");

    let audit = get(&node, "/v1/audit?action=job_retried");
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    assert_eq!(audit["items"][0]["details"]["job_id"], job["job_id"]);
    assert!(audit["items"][0]["actor"].is_string(), "{audit}");
}

fn a_job_planned_with_one_attempt_has_one(store: Store) {
    let node = store.serve("");
    let mut asked = work(1);
    asked["max_attempts"] = json!(1);
    posted(&node, "/v1/jobs", &asked);
    let job = leased(&node, "w");
    assert_eq!(acted(&node, &job, "fail", &json!({}))["state"], "DEAD");
}

fn many_jobs_are_settled_each_by_itself(store: Store) {
    let node = store.serve("");
    for n in 0..5 {
        let mut asked = work(n);
        asked["kind"] = json!("enrich");
        posted(&node, "/v1/jobs", &asked);
    }
    let jobs = lease(&node, &json!({"owner": "w", "limit": 5}));
    let item = |job: &Value, more: &Value| {
        let mut item = super::by(job, more);
        item["job_id"] = job["job_id"].clone();
        item
    };
    let stale =
        json!({"job_id": jobs[3]["job_id"], "owner": "w", "epoch": 0, "to_state": "FINALIZED"});
    let large = "x".repeat(1 << 20);
    let items = json!({"items": [
        item(&jobs[0], &json!({"to_state": "FINALIZED"})),
        item(&jobs[0], &json!({"to_state": "INDEXED", "result": {"n": 7}})),
        item(&jobs[1], &json!({"error": "later", "retry_after_s": 60})),
        item(&jobs[2], &json!({"retryable": false})),
        stale,
        item(&jobs[4], &json!({"to_state": "FINALIZED", "result": large})),
        item(&jobs[4], &json!({"to_state": "INDEXED"})),
        {"job_id": "nothing", "to_state": "FINALIZED"},
        item(&jobs[4], &json!({"to_state": "FAILED", "error": "by its state"})),
    ]});
    let answers = posted(&node, "/v1/jobs/settle", &items)["items"].clone();
    let told: Vec<&Value> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| match &answer["ok"] {
            Value::Bool(true) => &answer["state"],
            _ => &answer["error"]["code"],
        })
        .collect();
    assert_eq!(
        told,
        [
            "FINALIZED",
            "INDEXED",
            "FAILED",
            "DEAD",
            "lease_lost",
            "payload_too_large",
            "state_transition_denied",
            "not_found",
            "FAILED"
        ],
        "{answers}"
    );
    assert_eq!(answers[4]["error"]["details"]["owner"], "w");
    assert_eq!(answers[6]["error"]["details"]["from"], json!(["FINALIZED"]));
    let shown = get(&node, &format!("/v1/jobs/{}", id(&jobs[0])));
    assert_eq!(shown["result"], json!({"n": 7}));
    let shown = get(&node, &format!("/v1/jobs/{}", id(&jobs[4])));
    assert_eq!(shown["error"], "by its state");
}

fn an_item_that_says_two_things_or_nothing_refuses_the_batch(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let good = json!({"job_id": job["job_id"], "owner": "w", "epoch": 1, "to_state": "HEAD_DONE"});
    for wrong in [
        json!({"job_id": "j"}),
        json!({"job_id": "j", "to_state": "INDEXED", "error": "x"}),
        json!({"job_id": "j", "error": "x", "result": 1}),
        json!({"job_id": "j", "to_state": "NOWHERE"}),
        json!({"job_id": "j", "to_state": "INDEXED", "epoch": "1"}),
        json!({"job_id": "", "to_state": "INDEXED"}),
        json!({"to_state": "INDEXED"}),
        json!({"job_id": "j", "to_state": "INDEXED", "unknown": 1}),
    ] {
        let body = json!({"items": [good, wrong]});
        let answer = post(&node, "/v1/jobs/settle", &body);
        let details = refused(&answer, 400, "schema_validation_failed");
        let path = details["errors"][0]["path"].as_str().unwrap();
        assert!(path.starts_with("items[1]"), "{wrong}: {path}");
    }
    let shown = get(&node, &format!("/v1/jobs/{}", id(&job)));
    assert_eq!(shown["state"], "LEASED", "nothing was done");
    let many: Vec<&Value> = std::iter::repeat_n(&good, 1001).collect();
    let answer = post(&node, "/v1/jobs/settle", &json!({"items": many}));
    refused(&answer, 413, "payload_too_large");
}

on_both_stores!(
    a_download_goes_through_every_step_to_its_end,
    a_step_back_or_ahead_is_refused_and_says_from_where,
    other_kinds_have_nothing_to_fetch,
    a_failed_attempt_rests_and_is_leased_again,
    what_no_attempt_can_help_is_given_up_until_an_owner_retries_it,
    a_job_planned_with_one_attempt_has_one,
    many_jobs_are_settled_each_by_itself,
    an_item_that_says_two_things_or_nothing_refuses_the_batch,
);
