//! The remote API: claim, complete, renew, release, list, show, remove.

use serde_json::{Value, json};

use crate::fixture::Server;
use crate::http::Answer;

fn claim(server: &Server, claim: &Value) -> Value {
    let answer = server.owner("POST", "/v1/keys/claim", &claim.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn post(server: &Server, id: &Value, verb: &str, body: &Value) -> Answer {
    let path = format!("/v1/keys/{}/{verb}", id.as_str().unwrap());
    server.owner("POST", &path, &body.to_string())
}

fn pay(key: &str, amount: u32) -> Value {
    json!({"key": key, "method": "POST", "path": "/api/v1/payments", "body": {"amount": amount}})
}

#[test]
fn a_claim_is_processed_once_and_replayed_afterwards() {
    let server = Server::start();
    let granted = claim(&server, &pay("k", 10));
    assert_eq!(
        (&granted["action"], &granted["key"]),
        (&json!("process"), &json!("k"))
    );
    assert_eq!(granted["route_pattern"], "POST:payments");
    assert_eq!(
        (&granted["expired"], &granted["lost"]),
        (&json!(false), &json!(false))
    );
    assert!(granted["expires_at"].as_str().unwrap().ends_with('Z'));

    let busy = claim(&server, &pay("k", 10));
    assert_eq!(busy["action"], "in_progress");
    assert!(busy["retry_after"].as_u64().unwrap() >= 1 && busy.get("token").is_none());

    let outcome = json!({
        "token": granted["token"], "status": 201, "body": {"id": 7},
        "headers": {"Location": "/payments/7", "Set-Cookie": "secret=1"}
    });
    let completed = post(&server, &granted["id"], "complete", &outcome);
    assert_eq!(
        (completed.status, &completed.json()["state"]),
        (200, &json!("settled"))
    );

    let replay = claim(&server, &pay("k", 10));
    assert_eq!(replay["action"], "replay");
    assert_eq!(replay["response"]["status"], 201);
    assert_eq!(
        replay["response"]["body"],
        json!({"id": 7}),
        "in the form it was given"
    );
    assert_eq!(
        replay["response"]["headers"],
        json!({"location": "/payments/7"}),
        "no secrets"
    );
    assert_eq!(replay["expires_at"], granted["expires_at"]);

    let conflict = claim(&server, &pay("k", 99));
    assert_eq!(conflict["action"], "conflict");
    let details = &conflict["conflict"];
    assert_eq!(details["original_key"], "k");
    assert_ne!(details["original_hash"], details["current_hash"]);
    assert!(
        details["diff_summary"][0]
            .as_str()
            .unwrap()
            .contains("amount"),
        "{details}"
    );
}

#[test]
fn completing_twice_the_same_way_is_harmless_and_another_way_is_refused() {
    let server = Server::start();
    let granted = claim(&server, &pay("k", 10));
    let outcome = json!({"token": granted["token"], "status": 200, "body": "done"});
    assert_eq!(
        post(&server, &granted["id"], "complete", &outcome).json()["replayed"],
        false
    );
    assert_eq!(
        post(&server, &granted["id"], "complete", &outcome).json()["replayed"],
        true
    );
    let other = json!({"token": granted["token"], "status": 200, "body": "other"});
    assert_eq!(
        post(&server, &granted["id"], "complete", &other).refusal(),
        (409, "lease_lost".to_owned())
    );
    assert_eq!(claim(&server, &pay("k", 10))["response"]["body"], "done");
}

#[test]
fn completing_twice_is_harmless_after_renewals_too_with_the_token_of_the_last_one() {
    let server = Server::start();
    let granted = claim(&server, &pay("k", 10));
    let id = &granted["id"];
    let mut token = granted["token"].clone();
    for _ in 0..3 {
        token = post(&server, id, "renew", &json!({"token": token})).json()["token"].clone();
    }
    let outcome = json!({"token": token, "status": 200, "body": "done"});
    for replayed in [false, true, true] {
        let told = post(&server, id, "complete", &outcome);
        assert_eq!(told.status, 200, "{}", told.text());
        assert_eq!(told.json()["replayed"], replayed);
    }
    let stale = json!({"token": granted["token"], "status": 200, "body": "done"});
    let told = post(&server, id, "complete", &stale);
    assert_eq!(told.refusal(), (409, "lease_lost".to_owned()));
}

#[test]
fn an_answer_that_cannot_be_kept_is_recorded_as_given() {
    let server = Server::start();
    let granted = claim(&server, &pay("k", 10));
    let told = json!({"token": granted["token"], "status": 201, "stored": false});
    for replayed in [false, true] {
        let answer = post(&server, &granted["id"], "complete", &told).json();
        assert_eq!(
            (&answer["state"], &answer["replayed"]),
            (&json!("settled"), &json!(replayed))
        );
    }
    let again = claim(&server, &pay("k", 10));
    assert_eq!(again["action"], "in_doubt", "{again}");
    assert_eq!(again["reason"], "response_not_stored", "{again}");
    assert_eq!(again.get("why"), None, "nobody said");

    let granted = claim(&server, &pay("streamed", 10));
    let told = json!({"token": granted["token"], "status": 200, "stored": false, "why": "stream"});
    let answer = post(&server, &granted["id"], "complete", &told).json();
    assert_eq!(answer["state"], "settled");
    let again = claim(&server, &pay("streamed", 10));
    assert_eq!(
        (&again["reason"], &again["why"]),
        (&json!("response_not_stored"), &json!("stream"))
    );
    let shown = server.owner(
        "GET",
        &format!("/v1/keys/{}", granted["id"].as_str().unwrap()),
        "",
    );
    assert!(
        !shown.text().contains("x-hapax-not-kept"),
        "{}",
        shown.text()
    );
}

#[test]
fn a_released_key_runs_as_new_and_its_old_token_is_worth_nothing() {
    let server = Server::start();
    let first = claim(&server, &pay("k", 10));
    let token = json!({"token": first["token"]});
    let renewed = post(&server, &first["id"], "renew", &token).json();
    assert!(renewed["lease_expires_at"].as_str() >= first["lease_expires_at"].as_str());
    assert_eq!(post(&server, &first["id"], "release", &token).status, 200);

    let second = claim(&server, &pay("k", 11));
    assert_eq!(second["action"], "process", "with another body too");
    for verb in ["renew", "release"] {
        assert_eq!(
            post(&server, &first["id"], verb, &token).refusal(),
            (409, "lease_lost".to_owned()),
            "{verb}"
        );
    }
    let late = json!({"token": first["token"], "status": 200});
    assert_eq!(
        post(&server, &first["id"], "complete", &late).refusal(),
        (409, "lease_lost".to_owned())
    );
    let done = json!({"token": second["token"], "status": 200});
    assert_eq!(
        post(&server, &second["id"], "complete", &done).status,
        200,
        "the holder still holds"
    );
}

#[test]
fn a_lost_lease_is_granted_again_and_said() {
    let server = Server::start();
    let mut request = pay("k", 10);
    // The shortest lease there is; it runs out before the next claim arrives.
    request["lease_seconds"] = json!(0);
    let first = claim(&server, &request);
    let second = loop {
        let again = claim(&server, &request);
        if again["action"] == "process" {
            break again;
        }
    };
    assert_eq!(second["lost"], true);
    assert_ne!(first["token"], second["token"]);
    let late = json!({"token": first["token"], "status": 200});
    assert_eq!(
        post(&server, &first["id"], "complete", &late).refusal(),
        (409, "lease_lost".to_owned())
    );
}

#[test]
fn an_answer_that_says_try_again_is_not_recorded() {
    let server = Server::start();
    for (n, status) in [500, 503, 408, 425, 429].into_iter().enumerate() {
        let key = format!("k{n}");
        let granted = claim(&server, &pay(&key, 10));
        let outcome = json!({"token": granted["token"], "status": status});
        assert_eq!(
            post(&server, &granted["id"], "complete", &outcome).json()["state"],
            "released",
            "{status}"
        );
        assert_eq!(
            claim(&server, &pay(&key, 10))["action"],
            "process",
            "{status}"
        );
    }
}

#[test]
fn a_quoted_key_and_a_bare_one_are_the_same() {
    let server = Server::start();
    let first = claim(&server, &pay("\"order-7\"", 10));
    assert_eq!(first["key"], "order-7");
    let again = claim(&server, &pay("order-7", 10));
    assert_eq!(
        (&again["action"], &again["id"]),
        (&json!("in_progress"), &first["id"])
    );
}

#[test]
fn without_a_key_one_is_derived_from_the_content() {
    let server = Server::start();
    let request = |path: &str, n: u32| json!({"method": "PUT", "path": path, "body": {"n": n}});
    let one = claim(&server, &request("/customers/1", 1));
    let key = one["key"].as_str().unwrap();
    assert!(
        key.starts_with("00000000000000000000000000000000:PUT:customers-{id}:"),
        "{key}"
    );
    assert_eq!(
        claim(&server, &request("/customers/1", 1))["action"],
        "in_progress"
    );
    assert_eq!(
        claim(&server, &request("/customers/2", 1))["action"],
        "process",
        "another customer"
    );
    assert_eq!(
        claim(&server, &request("/customers/1", 2))["action"],
        "process",
        "another body"
    );
}

#[test]
fn bodies_come_as_json_as_text_or_as_base64() {
    let server = Server::start();
    for (n, (name, value)) in [
        ("body", json!({"a": [1, null]})),
        ("body", json!("plain")),
        ("body_base64", json!("/wA=")),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{n}");
        let mut request = json!({"key": key, "method": "POST", "path": "/a"});
        request[name] = value.clone();
        let granted = claim(&server, &request);
        let mut outcome = json!({"token": granted["token"], "status": 200});
        outcome[name] = value.clone();
        assert_eq!(
            post(&server, &granted["id"], "complete", &outcome).status,
            200
        );
        assert_eq!(claim(&server, &request)["response"][name], value, "{name}");
    }
}

#[test]
fn a_claim_that_names_no_request_is_refused() {
    let server = Server::start();
    for (wrong, code) in [
        (json!({"method": "POST"}), "schema_validation_failed"),
        (
            json!({"method": "two words", "path": "/a"}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "a"}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "http://evil.example/a"}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "/a b"}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "/a", "body": 1, "body_base64": ""}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "/a", "content_type": "a\nb"}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "/a", "unknown": 1}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "/a", "ttl_seconds": -1}),
            "schema_validation_failed",
        ),
        (
            json!({"method": "POST", "path": "/a", "key": "two words"}),
            "idempotency_key_invalid",
        ),
        (
            json!({"method": "POST", "path": "/a", "key": ""}),
            "idempotency_key_invalid",
        ),
    ] {
        let answer = server.owner("POST", "/v1/keys/claim", &wrong.to_string());
        assert_eq!(answer.refusal(), (400, code.to_owned()), "{wrong}");
    }
    let far = json!({"method": "POST", "path": "/a", "ttl_seconds": u64::MAX});
    let answer = server.owner("POST", "/v1/keys/claim", &far.to_string());
    assert_eq!(
        answer.refusal(),
        (400, "schema_validation_failed".to_owned()),
        "a span over its limit is refused, not cut in silence"
    );
}

#[test]
fn keys_are_listed_newest_first_by_page_route_and_state() {
    let server = Server::start();
    for n in 0..5 {
        claim(&server, &pay(&format!("k{n}"), n));
    }
    claim(
        &server,
        &json!({"key": "other", "method": "POST", "path": "/refunds"}),
    );
    let list = |query: &str| server.owner("GET", &format!("/v1/keys{query}"), "").json();
    assert_eq!(list("")["items"].as_array().unwrap().len(), 6);
    assert_eq!(list("")["next_cursor"], Value::Null);
    assert_eq!(list("?route=POST:refunds")["items"][0]["key"], "other");
    assert_eq!(list("?state=settled")["items"], json!([]));
    assert_eq!(
        list("?state=held&route=POST:payments")["items"]
            .as_array()
            .unwrap()
            .len(),
        5
    );

    let mut seen = Vec::new();
    let mut query = "?limit=4".to_owned();
    loop {
        let page = list(&query);
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["id"].clone()),
        );
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        query = format!("?limit=4&cursor={cursor}");
    }
    seen.sort_by_key(ToString::to_string);
    seen.dedup();
    assert_eq!(seen.len(), 6, "each once");
}

#[test]
fn a_removed_key_is_gone_and_runs_as_new() {
    let server = Server::start();
    let granted = claim(&server, &pay("k", 10));
    let outcome = json!({"token": granted["token"], "status": 200, "body": "old"});
    assert_eq!(
        post(&server, &granted["id"], "complete", &outcome).status,
        200
    );
    let path = format!("/v1/keys/{}", granted["id"].as_str().unwrap());
    let shown = server.owner("GET", &path, "").json();
    assert_eq!(
        (&shown["state"], &shown["response"]["body"]),
        (&json!("settled"), &json!("old"))
    );

    assert_eq!(server.owner("DELETE", &path, "").json()["deleted"], true);
    assert_eq!(
        server.owner("GET", &path, "").refusal(),
        (404, "not_found".to_owned())
    );
    assert_eq!(
        server.owner("DELETE", &path, "").refusal(),
        (404, "not_found".to_owned())
    );
    assert_eq!(claim(&server, &pay("k", 11))["action"], "process");
}
