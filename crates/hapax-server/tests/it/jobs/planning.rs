//! A job is planned once per key, and its id is a UUID that is made of that key.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{acted, begin, by, get, id, leased, plan, post, posted, refused, work};
use crate::both::{Store, on_both_stores};

const VECTORS: &str = include_str!("../../../../../spec/vectors/keys.json");

fn a_job_is_planned_once_and_found_again(store: Store) {
    let node = store.serve("");
    let mut asked = work(1);
    asked["payload"] = json!({"hint": [1, null]});
    let first = post(&node, "/v1/jobs", &asked);
    assert_eq!(first.status, 201, "{}", first.text());
    let first = first.json();
    assert_eq!(
        (&first["planned"], &first["state"], &first["kind"]),
        (&json!(true), &json!("PLANNED"), &json!("download"))
    );
    let again = post(&node, "/v1/jobs", &asked);
    assert_eq!(again.status, 200);
    let again = again.json();
    assert_eq!(again["planned"], false);
    assert_eq!(again["job_id"], first["job_id"]);

    let shown = get(&node, &format!("/v1/jobs/{}", id(&first)));
    let names: Vec<&str> = shown
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for name in [
        "job_id",
        "kind",
        "state",
        "owner",
        "lease_until",
        "epoch",
        "attempts",
        "work_id",
        "artifact_id",
        "canonical_url",
        "payload",
        "result",
        "backoff_ms",
        "created_at",
        "updated_at",
        "ops",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(shown["payload"], json!({"hint": [1, null]}));
    assert_eq!(
        (&shown["epoch"], &shown["attempts"], &shown["max_attempts"]),
        (&json!(0), &json!(0), &json!(5))
    );
    for none in ["owner", "lease_until", "result", "error"] {
        assert_eq!(shown[none], Value::Null, "{none}");
    }
    assert_eq!(shown["ops"], json!([]));
}

fn an_idempotency_key_is_not_needed_and_changes_nothing(store: Store) {
    let node = store.serve("");
    let bearer = format!("Bearer {}", node.token());
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    let body = work(1).to_string();
    let of = || node.send("POST", "/v1/jobs", &headers, body.as_bytes());
    assert_eq!((of().status, of().status), (201, 200));
}

fn ids_are_those_of_the_vectors(store: Store) {
    let node = store.serve("");
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let mut seen = 0;
    for vector in vectors["job"].as_array().unwrap() {
        let mut asked = json!({});
        for name in ["kind", "work_id", "artifact_id", "canonical_url"] {
            asked[name] = vector[name].clone();
        }
        let answer = post(&node, "/v1/jobs", &asked);
        let cannot_be = |value: &Value| {
            let text = value.as_str().unwrap();
            text.is_empty() || text.chars().any(char::is_control)
        };
        // Some texts have a key and cannot be stored as ids.
        if asked.as_object().unwrap().values().any(cannot_be) {
            refused(&answer, 400, "schema_validation_failed");
            continue;
        }
        let planned = answer.json();
        assert_eq!(planned["job_key"], vector["hash"], "{vector}");
        assert_eq!(id(&planned), uuid_of(vector["hash"].as_str().unwrap()));
        seen += 1;
    }
    assert!(seen > 1);
}

/// The UUID of version 8 that the first 122 bits of a key make.
fn uuid_of(key: &str) -> String {
    let variant = ["8", "9", "a", "b"][usize::from_str_radix(&key[16..17], 16).unwrap() % 4];
    let parts = [&key[..8], &key[8..12], &format!("8{}", &key[13..16])];
    let [first, second, third] = parts;
    format!(
        "{first}-{second}-{third}-{variant}{}-{}",
        &key[17..20],
        &key[20..32]
    )
}

#[allow(
    clippy::too_many_lines,
    reason = "one walk through every route that takes an id"
)]
fn a_job_is_taken_by_its_uuid_and_by_its_key_everywhere(store: Store) {
    let node = store.serve("");
    for n in 0..2 {
        let planned = posted(&node, "/v1/jobs", &work(n));
        let (uuid, key) = (
            id(&planned),
            planned["job_key"].as_str().unwrap().to_owned(),
        );
        assert_eq!(uuid, uuid_of(&key));
        let name = if n == 0 { &uuid } else { &key };
        let upper = if n == 0 {
            uuid.to_uppercase()
        } else {
            key.clone()
        };
        for path in [
            format!("/v1/jobs/{name}"),
            format!("/v1/jobs/{upper}"),
            format!("/v1/jobs/{name}/graph"),
        ] {
            get(&node, &path);
        }
        assert_eq!(get(&node, &format!("/v1/jobs/{name}"))["job_key"], *key);
        let found = get(&node, &format!("/v1/jobs?q={name}"));
        assert_eq!(found["items"][0]["job_id"], *uuid, "{found}");

        let mut job = leased(&node, "worker");
        assert_eq!(
            (&job["job_id"], &job["job_key"]),
            (&json!(uuid), &json!(key))
        );
        job["job_id"] = json!(name);
        let begun = begin(&node, &job, "HEAD", &json!({"context": {"n": n}}));
        let ours = format!(r#"{{"job_id":"{key}","kind":"HEAD","n":{n},"v":1}}"#);
        let op_key = data_encoding::HEXLOWER.encode(&Sha256::digest(ours));
        assert_eq!(
            (&begun["op_key"], &begun["job_id"]),
            (&json!(op_key), &json!(uuid))
        );
        for (verb, more) in [
            ("renew", json!({"ttl_s": 60})),
            ("advance", json!({"to_state": "HEAD_DONE"})),
        ] {
            assert_eq!(acted(&node, &job, verb, &more)["job_id"], *uuid, "{verb}");
        }
        let items = json!({"items": [by(&job, &json!({"job_id": name, "to_state": "STREAMING"}))]});
        let settled = posted(&node, "/v1/jobs/settle", &items)["items"][0].clone();
        assert_eq!(
            (&settled["ok"], &settled["job_key"]),
            (&json!(true), &json!(key)),
            "{settled}"
        );
        acted(&node, &job, "fail", &json!({"retryable": false}));
        assert_eq!(node.command(&["jobs", "show", name])["job_key"], *key);
        assert_eq!(
            node.command(&["jobs", "retry", name])["items"][0]["job_id"],
            *uuid
        );
        acted(
            &node,
            &leased(&node, "worker"),
            "fail",
            &json!({"retryable": false}),
        );
        let retried = post(&node, &format!("/v1/jobs/{name}/retry"), &json!({}));
        assert_eq!(
            (retried.status, &retried.json()["job_id"]),
            (200, &json!(uuid))
        );
        let again = leased(&node, "worker");
        acted(&node, &again, "fail", &json!({"retryable": false}));
    }
    for other in [
        "00000000-0000-8000-8000-000000000000",
        "nothing",
        &"0".repeat(64),
    ] {
        refused(
            &node.owner("GET", &format!("/v1/jobs/{other}"), ""),
            404,
            "not_found",
        );
    }
}

fn a_job_rests_as_it_was_planned(store: Store) {
    let node = store.serve("");
    let mut asked = work(1);
    asked["backoff_ms"] = json!(0);
    let planned = posted(&node, "/v1/jobs", &asked);
    assert_eq!(planned["backoff_ms"], 0);
    for _ in 0..4 {
        let job = leased(&node, "worker");
        acted(&node, &job, "fail", &json!({"error": "again"}));
    }
    assert_eq!(
        get(&node, &format!("/v1/jobs/{}", id(&planned)))["failures"],
        4
    );
    assert_eq!(
        posted(&node, "/v1/jobs", &work(2))["backoff_ms"],
        Value::Null
    );
    for wrong in [json!(-1), json!(3_600_001), json!(0.5), json!("0")] {
        let mut asked = work(3);
        asked["backoff_ms"] = wrong.clone();
        let details = refused(
            &post(&node, "/v1/jobs", &asked),
            400,
            "schema_validation_failed",
        );
        assert_eq!(details["errors"][0]["path"], "backoff_ms", "{wrong}");
    }
}

fn operations_have_the_keys_of_the_vectors(store: Store) {
    let node = store.serve("");
    let job_id = posted(&node, "/v1/jobs", &work(1))["job_key"]
        .as_str()
        .unwrap()
        .to_owned();
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let mut seen = 0;
    for vector in vectors["op"].as_array().unwrap() {
        let canonical = vector["canonical"].as_str().unwrap();
        let of_vector = format!(r#""job_id":{}"#, vector["job_id"]);
        assert!(canonical.contains(&of_vector), "{vector}");
        let ours = canonical.replace(&of_vector, &format!(r#""job_id":"{job_id}""#));
        let key = data_encoding::HEXLOWER.encode(&Sha256::digest(&ours));
        let context = vector["context"].as_str().unwrap_or("{}");
        let body = format!(
            r#"{{"job_id":"{job_id}","kind":{},"context":{context}}}"#,
            vector["kind"]
        );
        let begun = node.owner("POST", "/v1/ops/begin", &body);
        assert_eq!(begun.status, 200, "{vector}: {}", begun.text());
        assert_eq!(begun.json()["op_key"], key.as_str(), "{vector}");
        seen += 1;
    }
    assert!(seen > 2);
}

fn a_payload_comes_back_with_its_digits_and_its_nul(store: Store) {
    let node = store.serve("");
    let payload = r#"{ "n": 12345678901234567890123, "f": 1.0, "nul": "\u0000", "é": "😀" }"#;
    let body =
        format!(r#"{{"work_id":"w","artifact_id":"a","canonical_url":"u","payload":{payload}}}"#);
    let planned = node.owner("POST", "/v1/jobs", &body);
    assert_eq!(planned.status, 201, "{}", planned.text());
    let kept = format!(r#""payload":{payload}"#);
    assert!(planned.text().contains(&kept), "{}", planned.text());
    let shown = node.owner("GET", &format!("/v1/jobs/{}", id(&planned.json())), "");
    assert!(shown.text().contains(&kept), "{}", shown.text());
}

fn a_batch_plans_each_key_once_in_the_order_asked(store: Store) {
    let node = store.serve("");
    let there = plan(&node, 1);
    let asked = json!({"jobs": [work(0), work(1), work(2), work(0)]});
    let items = posted(&node, "/v1/jobs/batch", &asked)["items"].clone();
    let planned: Vec<&Value> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["planned"])
        .collect();
    assert_eq!(
        planned,
        [&json!(true), &json!(false), &json!(true), &json!(false)]
    );
    assert_eq!(items[1]["job_id"], there.as_str());
    assert_eq!(items[0]["job_id"], items[3]["job_id"]);
    assert_eq!(items[0]["state"], "PLANNED");
    assert_eq!(
        posted(&node, "/v1/jobs/batch", &json!({"jobs": []})),
        json!({"items": []})
    );
}

fn a_batch_with_a_fault_plans_nothing_and_names_it(store: Store) {
    let node = store.serve("");
    let mut wrong = work(2);
    wrong["work_id"] = json!("");
    let mut also = work(3);
    also["max_attempts"] = json!(0);
    let asked = json!({"jobs": [work(1), wrong, also]});
    let details = refused(
        &post(&node, "/v1/jobs/batch", &asked),
        400,
        "schema_validation_failed",
    );
    assert_eq!(details["errors"][0]["path"], "jobs[1].work_id");
    assert_eq!(details["errors"][1]["path"], "jobs[2].max_attempts");
    let typed = json!({"jobs": [work(1), {"work_id": 7}]});
    let details = refused(
        &post(&node, "/v1/jobs/batch", &typed),
        400,
        "schema_validation_failed",
    );
    assert_eq!(details["errors"][0]["path"], "jobs[1].work_id");
    assert_eq!(
        get(&node, "/v1/jobs")["items"],
        json!([]),
        "nothing was planned"
    );
}

fn a_batch_has_a_thousand_jobs_and_no_more(store: Store) {
    let node = store.serve("");
    let of = |count: usize| json!({"jobs": (0..count).map(work).collect::<Vec<_>>()});
    refused(
        &post(&node, "/v1/jobs/batch", &of(1001)),
        413,
        "payload_too_large",
    );
    assert_eq!(get(&node, "/v1/jobs/stats")["total"], 0);
    let items = posted(&node, "/v1/jobs/batch", &of(1000))["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 1000);
    assert_eq!(get(&node, "/v1/jobs/stats")["total"], 1000);
}

fn a_batch_may_be_larger_than_other_bodies(store: Store) {
    let node = store.serve("");
    let jobs: Vec<Value> = (0..3)
        .map(|n| {
            let mut job = work(n);
            job["payload"] = json!("x".repeat((1 << 20) - 2));
            job
        })
        .collect();
    let items = posted(&node, "/v1/jobs/batch", &json!({"jobs": jobs}))["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 3);
}

fn a_payload_has_a_size_and_a_depth(store: Store) {
    let node = store.serve("");
    let of = |payload: &str| {
        let body = format!(
            r#"{{"work_id":"w","artifact_id":"a","canonical_url":"u","payload":{payload}}}"#
        );
        node.owner("POST", "/v1/jobs", &body)
    };
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let refusal = of(&deep(129));
    assert_eq!(refused(&refusal, 400, "bad_json")["reason"], "too_deep");
    assert_eq!(of(&deep(128)).status, 201);
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    refused(&of(&text((1 << 20) + 1)), 413, "payload_too_large");
    refused(&of(&text(2 << 20)), 413, "payload_too_large");
    assert_eq!(of(&text(1 << 20)).status, 200, "of the job that is there");
    let batch = |payload: &str| {
        let body = format!(
            r#"{{"jobs":[{{"work_id":"w2","artifact_id":"a","canonical_url":"u","payload":{payload}}}]}}"#
        );
        node.owner("POST", "/v1/jobs/batch", &body)
    };
    assert_eq!(
        refused(&batch(&deep(129)), 400, "bad_json")["reason"],
        "too_deep"
    );
    assert_eq!(batch(&deep(128)).status, 200);
    refused(&batch(&text((1 << 20) + 1)), 413, "payload_too_large");
}

on_both_stores!(
    a_job_is_planned_once_and_found_again,
    an_idempotency_key_is_not_needed_and_changes_nothing,
    ids_are_those_of_the_vectors,
    a_job_is_taken_by_its_uuid_and_by_its_key_everywhere,
    a_job_rests_as_it_was_planned,
    operations_have_the_keys_of_the_vectors,
    a_payload_comes_back_with_its_digits_and_its_nul,
    a_batch_plans_each_key_once_in_the_order_asked,
    a_batch_with_a_fault_plans_nothing_and_names_it,
    a_batch_has_a_thousand_jobs_and_no_more,
    a_batch_may_be_larger_than_other_bodies,
    a_payload_has_a_size_and_a_depth,
);
