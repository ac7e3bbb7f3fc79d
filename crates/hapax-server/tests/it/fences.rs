//! What a token that no longer holds its key gets, and other edges of the remote API.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::both::{Store, claim, on_both_stores};
use crate::http::Answer;

fn end(server: &crate::fixture::Server, claimed: &Value, verb: &str, body: &Value) -> Answer {
    let path = format!("/v1/keys/{}/{verb}", claimed["id"].as_str().unwrap());
    server.owner("POST", &path, &body.to_string())
}

fn asked(key: &str) -> Value {
    json!({"key": key, "method": "POST", "path": "/held", "body": {"a": 1}, "lease_seconds": 1})
}

/// Claims again until the first lease has run out.
fn after_the_lease(server: &crate::fixture::Server, key: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let claimed = claim(server, &asked(key));
        if claimed["action"] != "in_progress" {
            return claimed;
        }
        assert!(Instant::now() < until, "the lease does not run out");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn a_stale_token_is_told_so_even_if_its_answer_is_the_same(store: Store) {
    let server = store.serve("");
    let first = claim(&server, &asked("k"));
    let second = after_the_lease(&server, "k");
    assert_eq!(
        (&second["action"], &second["lost"]),
        (&json!("process"), &json!(true))
    );
    let complete = |token: &Value| json!({"token": token, "status": 200, "body": {"x": 1}});
    assert_eq!(
        end(&server, &second, "complete", &complete(&second["token"])).status,
        200
    );

    let made_up = json!("1-00000000000000000000000000000007");
    for token in [&first["token"], &made_up] {
        let refused = end(&server, &first, "complete", &complete(token));
        assert_eq!(refused.refusal(), (409, "lease_lost".to_owned()));
    }
    let again = end(&server, &second, "complete", &complete(&second["token"]));
    assert_eq!(
        again.status, 200,
        "its own answer got lost: the same once more is fine"
    );
}

fn a_token_of_a_key_that_was_given_back_has_lost_its_lease(store: Store) {
    let server = store.serve("");
    let claimed = claim(&server, &asked("k"));
    let token = json!({"token": claimed["token"]});
    assert_eq!(end(&server, &claimed, "release", &token).status, 200);
    let complete = json!({"token": claimed["token"], "status": 200});
    for (verb, body) in [
        ("release", &token),
        ("renew", &token),
        ("complete", &complete),
    ] {
        let refused = end(&server, &claimed, verb, body);
        assert_eq!(refused.refusal(), (409, "lease_lost".to_owned()), "{verb}");
    }
    let id = claimed["id"].as_str().unwrap();
    assert_eq!(
        server.owner("GET", &format!("/v1/keys/{id}"), "").status,
        404,
        "nobody else sees it"
    );
}

fn an_operator_finds_what_is_in_doubt(store: Store) {
    let server = store.serve("[[routes]]\npattern = \"POST:held\"\non_lost = \"hold\"\n");
    let claimed = claim(&server, &asked("k"));
    let doubted = after_the_lease(&server, "k");
    assert_eq!(doubted["action"], "in_doubt");
    let listed = server.owner("GET", "/v1/keys?state=in_doubt", "").json();
    assert_eq!(listed["items"][0]["id"], claimed["id"], "{listed}");
    assert_eq!(listed["items"][0]["state"], "in_doubt");
    let held = server.owner("GET", "/v1/keys?state=held", "").json();
    assert_eq!(held["items"], json!([]));
}

fn only_the_usual_headers_and_the_routes_are_stored(store: Store) {
    let server = store.serve("[[routes]]\npattern = \"*:*\"\nstore_headers = [\"x-kept\"]\n");
    let claimed = claim(&server, &asked("k"));
    let headers = json!({"Location": "/7", "X-Kept": "1", "X-Other": "1", "Set-Cookie": "s", "Authentication-Info": "a"});
    let complete = json!({"token": claimed["token"], "status": 201, "headers": headers});
    assert_eq!(end(&server, &claimed, "complete", &complete).status, 200);
    let replay = claim(&server, &asked("k"));
    assert_eq!(
        replay["response"]["headers"],
        json!({"location": "/7", "x-kept": "1"})
    );
}

fn a_claim_that_makes_no_sense_is_refused(store: Store) {
    let server = store.serve("");
    for (name, value) in [
        ("method", json!("GET")),
        ("ttl_seconds", json!(10_000_000_000_u64)),
        ("lease_seconds", json!(100_000_000)),
    ] {
        let mut claim = asked("k");
        claim[name] = value;
        let refused = server.owner("POST", "/v1/keys/claim", &claim.to_string());
        assert_eq!(
            refused.refusal(),
            (400, "schema_validation_failed".to_owned()),
            "{claim}"
        );
        assert_eq!(
            refused.json()["error"]["details"]["errors"][0]["path"],
            name
        );
    }
    let mut lower = asked("k");
    lower["method"] = json!("post");
    assert_eq!(claim(&server, &lower)["route_pattern"], "POST:held");
    assert_eq!(
        claim(&server, &asked("k"))["action"],
        "in_progress",
        "post and POST are one method"
    );
}

on_both_stores!(
    a_stale_token_is_told_so_even_if_its_answer_is_the_same,
    a_token_of_a_key_that_was_given_back_has_lost_its_lease,
    an_operator_finds_what_is_in_doubt,
    only_the_usual_headers_and_the_routes_are_stored,
    a_claim_that_makes_no_sense_is_refused,
);
