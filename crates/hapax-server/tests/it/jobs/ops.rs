//! Operations: begun by one runner at a time, recorded once, in doubt when the runner is gone.

use serde_json::{Value, json};

use super::{
    acted, advance, begin, get, id, leased, leased_later, op, plan, post, posted, refused,
};
use crate::both::{Node, Store, on_both_stores};

fn an_operation_runs_once_and_is_replayed_afterwards(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let context = json!({"context": {"url": "https://example.org/1.pdf"}});
    let begun = begin(&node, &job, "HEAD", &context);
    assert_eq!(begun["action"], "execute", "{begun}");
    let token = &begun["token"];
    assert!(token.as_str().unwrap().len() >= 32, "{begun}");
    let other = begin(&node, &job, "HEAD", &context);
    assert_eq!(
        (&other["action"], &other["op_key"], other.get("token")),
        (&json!("in_progress"), &begun["op_key"], None)
    );

    let result = r#"{ "status": 200, "length": 12345678901234567890123, "f": 1.0 }"#;
    let body = format!(
        r#"{{"token":{token},"result":{result},"advance_to":"HEAD_DONE","owner":"w","epoch":1}}"#
    );
    let path = format!("/v1/ops/{}/complete", begun["op_key"].as_str().unwrap());
    for time in ["first", "told again"] {
        let done = node.owner("POST", &path, &body);
        assert_eq!(done.status, 200, "{time}: {}", done.text());
        let done = done.json();
        assert_eq!(
            (&done["state"], &done["job_state"]),
            (&json!("done"), &json!("HEAD_DONE")),
            "{time}"
        );
    }
    let another = json!({"token": token, "result": {"status": 500}});
    refused(
        &op(&node, &begun, "complete", &another),
        409,
        "key_conflict",
    );

    let asked = json!({
        "job_id": job["job_id"], "kind": "HEAD", "owner": "w", "epoch": 1, "context": context["context"]
    });
    let replay = post(&node, "/v1/ops/begin", &asked);
    assert_eq!(replay.json()["action"], "replay");
    assert!(
        replay.text().contains(&format!(r#""result":{result}"#)),
        "as it was received: {}",
        replay.text()
    );
    let shown = get(&node, &format!("/v1/jobs/{}", id(&job)));
    assert_eq!(shown["state"], "HEAD_DONE");
    let shown_op = &shown["ops"][0];
    let names: Vec<&String> = shown_op.as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 10, "{names:?}");
    assert!(
        !shown.to_string().contains(token.as_str().unwrap()),
        "no secret is shown"
    );
    let alone = get(
        &node,
        &format!("/v1/ops/{}", begun["op_key"].as_str().unwrap()),
    );
    assert_eq!(&alone, shown_op);
    for (name, value) in [
        ("kind", json!("HEAD")),
        ("state", json!("done")),
        ("class", json!("at_most_once")),
        ("epoch", json!(1)),
        ("tries", json!(1)),
        ("error", Value::Null),
        ("job_id", job["job_id"].clone()),
    ] {
        assert_eq!(alone[name], value, "{name}");
    }
    assert!(alone["started_at"].is_string() && alone["finished_at"].is_string());
}

fn the_key_is_given_or_made_from_the_context(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let begun = begin(&node, &job, "INDEX", &json!({}));
    let same = begin(
        &node,
        &job,
        "INDEX",
        &json!({"context": {}, "op_key": begun["op_key"]}),
    );
    assert_eq!(
        same["op_key"], begun["op_key"],
        "no context is an empty one"
    );
    let ours = begin(
        &node,
        &job,
        "INDEX",
        &json!({"context": {"v": 2, "kind": "X", "job_id": "y"}}),
    );
    assert_eq!(
        ours["op_key"], begun["op_key"],
        "a context overrides nothing of ours"
    );
    let given = begin(&node, &job, "INDEX", &json!({"op_key": "my/key%1"}));
    assert_eq!(given["op_key"], "my/key%1");
    let shown = get(&node, "/v1/ops/my%2Fkey%251");
    assert_eq!(shown["op_key"], "my/key%1");
    for (wrong, path) in [
        (json!({"op_key": "other", "context": {}}), "op_key"),
        (json!({"op_key": "two words"}), "op_key"),
        (json!({"op_key": ""}), "op_key"),
        (json!({"context": []}), "context"),
        (json!({"context": "x"}), "context"),
        (json!({"class": "never"}), "class"),
        (json!({"token": ""}), "token"),
        (json!({"token": "x".repeat(129)}), "token"),
        (json!({"kind": ""}), "kind"),
        (json!({"epoch": 1.5}), "epoch"),
    ] {
        let mut body = json!({"job_id": job["job_id"], "kind": "INDEX", "owner": "w", "epoch": 1});
        for (name, value) in wrong.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = post(&node, "/v1/ops/begin", &body);
        let details = refused(&answer, 400, "schema_validation_failed");
        assert_eq!(details["errors"][0]["path"], path, "{wrong}");
    }
}

fn one_key_on_two_jobs_or_kinds_is_a_conflict(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let first = leased(&node, "w");
    plan(&node, 2);
    let second = leased(&node, "w");
    begin(&node, &first, "HEAD", &json!({"op_key": "shared"}));
    for (job, kind) in [(&second, "HEAD"), (&first, "STREAM")] {
        let body = json!({
            "job_id": job["job_id"], "kind": kind, "op_key": "shared", "owner": "w", "epoch": 1
        });
        let details = refused(&post(&node, "/v1/ops/begin", &body), 409, "key_conflict");
        assert_eq!(
            (&details["job_id"], &details["kind"]),
            (&first["job_id"], &json!("HEAD"))
        );
    }
}

fn a_runner_whose_answer_got_lost_asks_again_with_its_token(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let mine = json!({"token": "my-own-token"});
    for _ in 0..2 {
        let begun = begin(&node, &job, "STREAM", &mine);
        assert_eq!(
            (&begun["action"], &begun["token"], &begun["tries"]),
            (&json!("execute"), &json!("my-own-token"), &json!(1))
        );
    }
    let other = json!({"token": "another"});
    assert_eq!(
        begin(&node, &job, "STREAM", &other)["action"],
        "in_progress"
    );
}

fn a_failure_is_for_now_or_for_good(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let begun = begin(&node, &job, "HEAD", &json!({}));
    let now = json!({"token": begun["token"], "error": "busy", "retryable": true});
    assert_eq!(op(&node, &begun, "fail", &now).json()["state"], "retryable");
    let again = begin(&node, &job, "HEAD", &json!({}));
    assert_eq!(
        (&again["action"], &again["tries"]),
        (&json!("execute"), &json!(2))
    );
    refused(&op(&node, &again, "fail", &now), 409, "lease_lost");
    let good = json!({"token": again["token"], "error": "404", "retryable": false});
    let failed = op(&node, &again, "fail", &good).json();
    assert_eq!(
        (&failed["state"], &failed["error"]),
        (&json!("failed"), &json!("404"))
    );
    let told = begin(&node, &job, "HEAD", &json!({}));
    assert_eq!(
        (&told["action"], &told["error"], told.get("token")),
        (&json!("failed"), &json!("404"), None)
    );

    acted(&node, &job, "fail", &json!({"retryable": false}));
    assert_eq!(
        node.owner("POST", &format!("/v1/jobs/{}/retry", id(&job)), "")
            .status,
        200
    );
    let next = leased(&node, "w");
    let revived = begin(&node, &next, "HEAD", &json!({}));
    assert_eq!(
        revived["action"], "execute",
        "an owner wants it tried again"
    );
}

/// An operation of a worker that is gone, and the lease of the next one.
fn abandoned(node: &Node, class: &Value) -> (Value, Value) {
    plan(node, 1);
    let job = leased(node, "worker-1");
    let begun = begin(node, &job, "PAY", class);
    acted(node, &job, "renew", &json!({"ttl_s": 0.05}));
    (begun, leased_later(node, "worker-2"))
}

fn what_a_dead_runner_did_is_in_doubt_until_somebody_says(store: Store) {
    for (said, action) in [
        (json!({"result": {"paid": true}}), "replay"),
        (json!({"result": null}), "replay"),
        (json!({"retry": true}), "execute"),
        (json!({"error": "never sent"}), "failed"),
    ] {
        let node = store.serve("");
        let (begun, job) = abandoned(&node, &json!({}));
        let doubted = begin(&node, &job, "PAY", &json!({}));
        assert_eq!(
            (&doubted["action"], doubted.get("token")),
            (&json!("in_doubt"), None)
        );
        let late = json!({"token": begun["token"], "result": 1});
        refused(&op(&node, &begun, "complete", &late), 409, "lease_lost");
        let late = json!({"token": begun["token"], "error": "late", "retryable": true});
        refused(&op(&node, &begun, "fail", &late), 409, "lease_lost");

        let resolved = op(&node, &begun, "resolve", &said);
        assert_eq!(resolved.status, 200, "{said}: {}", resolved.text());
        let next = begin(&node, &job, "PAY", &json!({}));
        assert_eq!(next["action"], action, "{said}");
        if let Some(result) = said.get("result") {
            assert_eq!(next.get("result"), Some(result), "{next}");
        }
        let details = refused(
            &op(&node, &begun, "resolve", &said),
            409,
            "state_transition_denied",
        );
        assert!(details["have"].is_string(), "{details}");
        let audit = get(&node, "/v1/audit?action=op_resolved");
        assert_eq!(
            audit["items"][0]["details"]["op_key"], begun["op_key"],
            "{audit}"
        );
    }
}

fn operations_in_doubt_are_listed_and_counted_until_a_person_says(store: Store) {
    let node = store.serve("");
    let listed = || get(&node, "/v1/ops?state=in_doubt");
    let count = || get(&node, "/v1/jobs/stats")["ops_in_doubt"].clone();
    let (begun, job) = abandoned(&node, &json!({}));
    assert_eq!((&listed()["items"], count()), (&json!([]), json!(0)));

    begin(&node, &job, "PAY", &json!({}));
    let page = listed();
    let item = &page["items"][0];
    assert_eq!(
        (&item["op_key"], &item["job_id"], &item["state"]),
        (&begun["op_key"], &job["job_id"], &json!("in_doubt")),
        "{page}"
    );
    assert_eq!(
        (&item["work_id"], &item["job_kind"]),
        (&job["work_id"], &job["kind"])
    );
    assert_eq!((&page["next_cursor"], count()), (&json!(null), json!(1)));
    assert_eq!(get(&node, "/v1/overview")["now"]["ops_in_doubt"], 1);

    op(&node, &begun, "resolve", &json!({"retry": true}));
    assert_eq!((&listed()["items"], count()), (&json!([]), json!(0)));

    for query in [
        "",
        "state=done",
        "state=in_doubt&limit=0",
        "state=in_doubt&limit=501",
        "state=in_doubt&cursor=x",
        "state=in_doubt&unknown=1",
    ] {
        let answer = node.owner("GET", &format!("/v1/ops?{query}"), "");
        refused(&answer, 400, "schema_validation_failed");
    }
}

fn what_is_harmless_to_repeat_runs_again(store: Store) {
    for class in ["replayable", "keyed", "tx"] {
        let node = store.serve("");
        let class = json!({"class": class});
        let (begun, job) = abandoned(&node, &class);
        let again = begin(&node, &job, "PAY", &class);
        assert_eq!(
            (&again["action"], &again["tries"], &again["op_key"]),
            (&json!("execute"), &json!(2), &begun["op_key"]),
            "{class}"
        );
    }
}

fn the_holder_who_asked_around_may_end_the_doubt_and_no_other_writer(store: Store) {
    let node = store.serve("");
    let probe = json!({"class": "probe"});
    let (begun, job) = abandoned(&node, &probe);
    assert_eq!(begin(&node, &job, "PAY", &probe)["action"], "in_doubt");
    let writer = node.token_of("default", "writer");
    let path = format!("/v1/ops/{}/resolve", begun["op_key"].as_str().unwrap());
    let resolve = |body: &Value| node.bearing(&writer, "POST", &path, &body.to_string());
    refused(&resolve(&json!({"result": 1})), 403, "forbidden");
    refused(
        &resolve(&json!({"result": 1, "epoch": 2})),
        403,
        "forbidden",
    );
    let stale = json!({"result": 1, "owner": "worker-1", "epoch": 1});
    refused(&resolve(&stale), 409, "lease_lost");
    let other = json!({"result": 1, "owner": "worker-1", "epoch": 2});
    refused(&resolve(&other), 409, "lease_lost");
    let holder = json!({"result": {"found": true}, "owner": "worker-2", "epoch": 2});
    assert_eq!(resolve(&holder).status, 200);
    assert_eq!(
        begin(&node, &job, "PAY", &probe)["result"],
        json!({"found": true})
    );
    for wrong in [
        json!({}),
        json!({"result": 1, "retry": true}),
        json!({"retry": false}),
        json!({"retry": true, "error": "x"}),
        json!({"error": 7}),
        json!({"error": "a\u{0}b"}),
    ] {
        let answer = op(&node, &begun, "resolve", &wrong);
        refused(&answer, 400, "schema_validation_failed");
    }
}

fn a_result_is_kept_whole_or_refused(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let begun = begin(&node, &job, "HEAD", &json!({}));
    let of = |bytes: usize| json!({"token": begun["token"], "result": "x".repeat(bytes - 2)});
    for bytes in [2 << 20, (1 << 20) + 1] {
        refused(
            &op(&node, &begun, "complete", &of(bytes)),
            413,
            "payload_too_large",
        );
    }
    let path = format!("/v1/ops/{}", begun["op_key"].as_str().unwrap());
    assert_eq!(
        get(&node, &path)["state"],
        "running",
        "nothing was cut short"
    );
    let details = refused(
        &act_with_result(&node, &job, (1 << 20) + 1),
        413,
        "payload_too_large",
    );
    assert_eq!(details["bytes_max"], 1 << 20);

    assert_eq!(op(&node, &begun, "complete", &of(1 << 20)).status, 200);
    let replay = begin(&node, &job, "HEAD", &json!({}));
    assert_eq!(replay["result"].as_str().unwrap().len(), (1 << 20) - 2);
    assert_eq!(act_with_result(&node, &job, 1 << 20).status, 200);
}

fn act_with_result(node: &Node, job: &Value, bytes: usize) -> crate::http::Answer {
    let step = json!({"to_state": "HEAD_DONE", "result": "x".repeat(bytes - 2)});
    super::act(node, job, "advance", &step)
}

fn a_step_that_is_denied_records_nothing(store: Store) {
    let node = store.serve("");
    plan(&node, 1);
    let job = leased(&node, "w");
    let begun = begin(&node, &job, "INDEX", &json!({}));
    let leap = json!({"token": begun["token"], "result": 1, "advance_to": "INDEXED"});
    let answer = op(&node, &begun, "complete", &leap);
    let details = refused(&answer, 409, "state_transition_denied");
    assert_eq!(details["have"], "LEASED");
    let path = format!("/v1/ops/{}", begun["op_key"].as_str().unwrap());
    assert_eq!(get(&node, &path)["state"], "running");
    for step in ["HEAD_DONE", "STREAMING", "FINALIZED"] {
        advance(&node, &job, step);
    }
    let done = op(&node, &begun, "complete", &leap);
    assert_eq!(done.status, 200, "{}", done.text());
    let shown = get(&node, &format!("/v1/jobs/{}", id(&job)));
    assert_eq!(
        (&shown["state"], &shown["result"]),
        (&json!("INDEXED"), &json!(1))
    );
}

fn an_operation_may_be_begun_without_a_lease_where_nobody_holds_the_job(store: Store) {
    let node = store.serve("");
    let planned = plan(&node, 1);
    let body = json!({"job_id": planned, "kind": "HEAD"});
    let begun = posted(&node, "/v1/ops/begin", &body);
    assert_eq!(begun["action"], "execute");
    let done = json!({"token": begun["token"], "result": null});
    assert_eq!(op(&node, &begun, "complete", &done).status, 200);
    assert_eq!(posted(&node, "/v1/ops/begin", &body)["result"], Value::Null);
    leased(&node, "w");
    let answer = post(&node, "/v1/ops/begin", &body);
    let details = refused(&answer, 409, "lease_lost");
    assert_eq!(
        (&details["owner"], &details["epoch"]),
        (&json!("w"), &json!(1))
    );
}

on_both_stores!(
    an_operation_runs_once_and_is_replayed_afterwards,
    the_key_is_given_or_made_from_the_context,
    one_key_on_two_jobs_or_kinds_is_a_conflict,
    a_runner_whose_answer_got_lost_asks_again_with_its_token,
    a_failure_is_for_now_or_for_good,
    what_a_dead_runner_did_is_in_doubt_until_somebody_says,
    operations_in_doubt_are_listed_and_counted_until_a_person_says,
    what_is_harmless_to_repeat_runs_again,
    the_holder_who_asked_around_may_end_the_doubt_and_no_other_writer,
    a_result_is_kept_whole_or_refused,
    a_step_that_is_denied_records_nothing,
    an_operation_may_be_begun_without_a_lease_where_nobody_holds_the_job,
);
