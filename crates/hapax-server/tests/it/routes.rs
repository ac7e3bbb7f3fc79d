//! The route table of the config file, seen through the server's own writes and through remote claims.

use serde_json::json;

use crate::both::{Store, claim, completed, on_both_stores, post, seconds_left};
use crate::fixture::{Server, path, refused};
use crate::http::Answer;

/// A write to the server's own route, with these headers beside the token.
fn echo(server: &Server, headers: &[(&str, &str)], body: &str) -> Answer {
    let bearer = format!("Bearer {}", server.token());
    let headers = [&[("authorization", bearer.as_str())], headers].concat();
    server.send("POST", "/v1/echo", &headers, body.as_bytes())
}

fn the_table_rules_the_servers_own_writes(store: Store) {
    let server = store.serve(
        "[[routes]]\npattern = 'POST:echo'\nrequired = true\nmismatch_status = 422\n\
         exclude = ['nonce']\nunordered = ['tags']\nredact = ['phone']\n",
    );
    let refusal = echo(&server, &[], "{}").refusal();
    assert_eq!(refusal, (400, "idempotency_key_required".to_owned()));

    let key = [("idempotency-key", "k")];
    let first = echo(&server, &key, r#"{"tags":[1,2],"nonce":1,"phone":"555"}"#);
    assert_eq!(first.status, 200);
    let again = echo(&server, &key, r#"{"tags":[2,1],"nonce":2,"phone":"555"}"#);
    assert_eq!(again.body, first.body, "order and nonce do not count here");
    assert_eq!(again.header("idempotency-replayed"), Some("true"));

    let other = echo(&server, &key, r#"{"tags":[1,2],"phone":"666"}"#);
    assert_eq!(other.refusal(), (422, "IDEMPOTENCY_CONFLICT".to_owned()));
    let diff = other.json()["error"]["details"]["diff_summary"].to_string();
    assert!(diff.contains("phone") && !diff.contains("555"), "{diff}");
}

fn what_is_not_in_the_table_passes(store: Store) {
    let server = store.serve("[[routes]]\npattern = 'POST:other'\n");
    let key = [("idempotency-key", "k")];
    let first = echo(&server, &key, "{}").json();
    let second = echo(&server, &key, "{}").json();
    assert_ne!(first["id"], second["id"], "it runs each time");
}

fn a_refusal_of_the_servers_own_binds_no_key(store: Store) {
    let server = store.serve("body_bytes_max = 4096\n");
    let (json, text) = ("application/json", "text/plain");
    let large = format!("\"{}\"", "x".repeat(4096));
    for (key, content_type, body, refusal) in [
        ("form", json, "[1,]", (400, "bad_json")),
        ("type", text, "hello", (415, "unsupported_media_type")),
        ("size", json, large.as_str(), (413, "payload_too_large")),
    ] {
        let send = |content_type, body| {
            let headers = [("idempotency-key", key), ("content-type", content_type)];
            echo(&server, &headers, body)
        };
        for _ in 0..2 {
            let refused = send(content_type, body);
            let (status, code) = refusal;
            assert_eq!(refused.refusal(), (status, code.to_owned()));
            assert_eq!(refused.header("idempotency-replayed"), None, "{key}");
        }
        let corrected = send(json, r#"{"a":1}"#);
        assert_eq!(corrected.status, 200, "{key}: {}", corrected.text());
        let again = send(json, r#"{"a":1}"#);
        assert_eq!(again.body, corrected.body);
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(send(json, "[]").status, 409, "now it is bound");
    }
}

fn a_batch_that_is_refused_binds_no_key(store: Store) {
    let server = store.serve("");
    let send = |body: &str| {
        let bearer = format!("Bearer {}", server.token());
        let headers = [
            ("authorization", bearer.as_str()),
            ("idempotency-key", "batch"),
            ("content-type", "application/json"),
        ];
        server.send("POST", "/enrich/t1/batch", &headers, body.as_bytes())
    };
    let refused = send(r#"{"items":7}"#);
    assert_eq!(
        refused.refusal(),
        (400, "schema_validation_failed".to_owned())
    );
    let corrected = send(r#"{"items":[]}"#);
    assert_ne!(corrected.status, 409, "{}", corrected.text());
    assert_eq!(corrected.header("idempotency-replayed"), None);
}

fn a_derived_key_makes_equal_requests_one(store: Store) {
    let server = store.serve("[[routes]]\npattern = 'POST:echo'\nderive = true\n");
    let first = echo(&server, &[], r#"{"a":1,"b":2}"#);
    let again = echo(&server, &[], r#"{"b":2,"a":1.0}"#);
    assert_eq!((first.status, &first.body), (200, &again.body));
    assert_ne!(echo(&server, &[], r#"{"a":2}"#).body, first.body);
}

fn the_ietf_profile_speaks_as_the_draft_does(store: Store) {
    let server = store.serve("profile = 'ietf'\nstrict_keys = true\n");
    let bare = echo(&server, &[("idempotency-key", "k")], "1");
    let document = bare.json();
    assert_eq!(bare.status, 400);
    assert_eq!(document["code"], "idempotency_key_invalid", "{document}");
    assert_eq!(
        bare.header("content-type"),
        Some("application/problem+json"),
        "nobody asked for it"
    );
    let key = [("idempotency-key", "\"k\"")];
    assert_eq!(echo(&server, &key, "1").status, 200);
    let other = echo(&server, &key, "2");
    assert_eq!(
        (other.status, other.header("content-type")),
        (422, Some("application/problem+json"))
    );
    assert_eq!(other.json()["code"], "IDEMPOTENCY_CONFLICT");
    assert_eq!(
        other.header("x-idempotency-conflict"),
        Some("body-mismatch")
    );
}

fn a_remote_claim_follows_its_route(store: Store) {
    let server = store.serve(
        "[[routes]]\npattern = 'PUT:customers-*'\nttl_seconds = 600\nlease_seconds = 7\nredact = ['phone']\n\
         [[routes]]\npattern = 'POST:money'\nrequired = true\n",
    );
    let request =
        json!({"key": "k", "method": "PUT", "path": "/v1/customers/7", "body": {"phone": "555"}});
    let granted = claim(&server, &request);
    assert_eq!(granted["route_pattern"], "PUT:customers-{id}");
    let (ttl, lease) = (
        seconds_left(&server, &granted["expires_at"]),
        seconds_left(&server, &granted["lease_expires_at"]),
    );
    assert!((500..=600).contains(&ttl), "{ttl}");
    assert!((0..=7).contains(&lease), "{lease}");

    let mut other = request.clone();
    other["body"] = json!({"phone": "666"});
    let conflict = claim(&server, &other)["conflict"].to_string();
    assert!(
        conflict.contains("phone") && !conflict.contains("555"),
        "{conflict}"
    );

    let mut longer = request.clone();
    longer["key"] = json!("longer");
    longer["ttl_seconds"] = json!(6000);
    let ttl = seconds_left(&server, &claim(&server, &longer)["expires_at"]);
    assert!(ttl > 5000, "what the claim says wins: {ttl}");

    let keyless = json!({"method": "POST", "path": "/money"});
    let refusal = server.owner("POST", "/v1/keys/claim", &keyless.to_string());
    assert_eq!(
        refusal.refusal(),
        (400, "idempotency_key_required".to_owned())
    );
    let unlisted = json!({"key": "k", "method": "POST", "path": "/unlisted"});
    assert_eq!(claim(&server, &unlisted)["action"], "process");
}

fn a_conflict_of_a_remote_claim_says_what_differs(store: Store) {
    let server = store.serve("");
    let request = json!({
        "key": "k", "method": "PUT", "path": "/v1/customers/7", "body": {"a": 1}, "principal": "ann"
    });
    completed(&server, &request, &json!("done"));
    for (name, value, part) in [
        ("path", json!("/v1/customers/8"), "path"),
        ("path", json!("/v1/customers/7?dry=1"), "query"),
        ("body", json!({"a": 2}), "body"),
        ("content_type", json!("text/plain"), "content_type"),
        ("principal", json!("bob"), "principal"),
    ] {
        let mut other = request.clone();
        other[name] = value;
        let answer = claim(&server, &other);
        assert_eq!(answer["action"], "conflict", "{answer}");
        assert_eq!(answer["conflict"]["differs"], json!([part]), "{answer}");
    }
}

fn a_remote_claim_compares_compressed_bodies_by_what_they_decode_to(store: Store) {
    use std::io::Write;

    let server = store.serve("");
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        data_encoding::BASE64.encode(&encoder.finish().unwrap())
    };
    let request = |body: &str| {
        json!({
            "key": "k", "method": "POST", "path": "/orders", "content_type": "application/json",
            "content_encoding": "gzip", "body_base64": gzip(body),
        })
    };
    assert_eq!(claim(&server, &request(r#"{"a":1}"#))["action"], "process");
    assert_eq!(
        claim(&server, &request(r#"{ "a": 1.0 }"#))["action"],
        "in_progress"
    );
    let other = claim(&server, &request(r#"{"a":2}"#));
    assert_eq!(other["conflict"]["diff_summary"], json!(["a: '1' → '2'"]));
    assert_eq!(other["conflict"]["differs"], json!(["body"]));
}

fn a_route_says_which_answers_are_final_and_how_large_they_may_be(store: Store) {
    let server = store.serve(
        "[[routes]]\npattern = 'POST:picky'\nstore_statuses = ['2xx']\nmax_response_bytes = 10\nmax_body_bytes = 30\n",
    );
    let request = json!({"key": "k", "method": "POST", "path": "/picky", "body": 1});
    let granted = claim(&server, &request);
    let refused = json!({"token": granted["token"], "status": 404, "body": "no"});
    let done = post(&server, &granted["id"], "complete", &refused).json();
    assert_eq!(done["state"], "released", "a 404 is not final here");

    completed(&server, &request, &json!("longer than ten bytes"));
    let again = claim(&server, &request);
    assert_eq!(
        (&again["action"], &again["reason"]),
        (&json!("in_doubt"), &json!("response_not_stored"))
    );
    assert_eq!(again["why"], "too_large");

    let large = json!({"key": "l", "method": "POST", "path": "/picky", "body": "x".repeat(31)});
    let answer = server.owner("POST", "/v1/keys/claim", &large.to_string());
    assert_eq!(answer.refusal(), (413, "payload_too_large".to_owned()));
}

fn an_ambiguous_status_leaves_a_remote_claim_in_doubt(store: Store) {
    let server = store.serve("[[routes]]\npattern = 'POST:gateway'\non_status_hold = [502]\n");
    let request = json!({"key": "k", "method": "POST", "path": "/gateway", "body": 1});
    let granted = claim(&server, &request);
    let answered = json!({"token": granted["token"], "status": 502});
    for _ in 0..2 {
        let done = post(&server, &granted["id"], "complete", &answered).json();
        assert_eq!(done["state"], "in_doubt", "{done}");
    }
    let again = claim(&server, &request);
    assert_eq!(
        (&again["action"], &again["reason"]),
        (&json!("in_doubt"), &json!("outcome_unknown"))
    );
    let release = json!({"release": true});
    assert_eq!(
        post(&server, &granted["id"], "settle", &release).status,
        200
    );
    assert_eq!(claim(&server, &request)["action"], "process");
}

fn a_lost_lease_under_hold_is_in_doubt_for_a_remote_claim_too(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\non_lost = 'hold'\n");
    let mut request = json!({"key": "k", "method": "POST", "path": "/a", "body": 1});
    request["lease_seconds"] = json!(0);
    assert_eq!(claim(&server, &request)["action"], "process");
    let doubt = loop {
        let answer = claim(&server, &request);
        if answer["action"] != "in_progress" {
            break answer;
        }
    };
    assert_eq!(
        (&doubt["action"], &doubt["reason"]),
        (&json!("in_doubt"), &json!("runner_died"))
    );
}

on_both_stores![
    the_table_rules_the_servers_own_writes,
    what_is_not_in_the_table_passes,
    a_refusal_of_the_servers_own_binds_no_key,
    a_batch_that_is_refused_binds_no_key,
    a_derived_key_makes_equal_requests_one,
    the_ietf_profile_speaks_as_the_draft_does,
    a_remote_claim_follows_its_route,
    a_conflict_of_a_remote_claim_says_what_differs,
    a_remote_claim_compares_compressed_bodies_by_what_they_decode_to,
    a_route_says_which_answers_are_final_and_how_large_they_may_be,
    an_ambiguous_status_leaves_a_remote_claim_in_doubt,
    a_lost_lease_under_hold_is_in_doubt_for_a_remote_claim_too,
];

#[test]
fn a_table_that_cannot_be_followed_stops_the_start_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    for (line, key) in [
        ("ttl_seconds = 0", "ttl_seconds"),
        ("on_lost = 'maybe'", "on_lost"),
        ("mismatch_status = 400", "mismatch_status"),
        ("store_headers = ['set-cookie']", "store_headers"),
        ("on_status_hold = [200]", "on_status_hold"),
        ("on_status_hold = [403]", "on_status_hold"),
        ("nonsense = 1", "nonsense"),
    ] {
        std::fs::write(
            &file,
            format!("[[routes]]\npattern = 'PUT:customers-*'\n{line}\n"),
        )
        .unwrap();
        let data = path(folder.path());
        let said = refused(&["serve", "--data", data, "--config", path(&file)], 2);
        assert!(
            said.contains("PUT:customers-*") && said.contains(key),
            "{line}: {said}"
        );
    }
}

#[test]
fn the_example_table_is_accepted_as_it_is() {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/thorbis.toml");
    let server = Server::start_with(|command| {
        command.args(["--config", table]);
    });
    for (method, route, seconds) in [
        ("POST", "/api/v1/bookings/hold", 1800),
        ("POST", "/api/v1/estimates/draft", 86_400),
        ("POST", "/api/v1/payments/link", 604_800),
        ("PUT", "/api/v1/customers/7", 3600),
        ("PUT", "/api/v1/jobs/7", 14_400),
        ("POST", "/api/v1/anything", 3600),
    ] {
        let granted = claim(
            &server,
            &json!({"key": "k", "method": method, "path": route}),
        );
        let left = seconds_left(&server, &granted["expires_at"]);
        assert!(
            (seconds - 120..=seconds).contains(&left),
            "{route}: {left} of {seconds}"
        );
    }
}

#[test]
fn without_a_table_the_seeds_times_apply() {
    let server = Server::start();
    let granted = claim(
        &server,
        &json!({"key": "k", "method": "POST", "path": "/bookings/hold"}),
    );
    assert!(seconds_left(&server, &granted["expires_at"]) <= 1800);
}

#[test]
fn a_table_without_times_keeps_the_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    let table = "[[routes]]\npattern = 'POST:*'\nwait_ms = 10\n\
                 [[routes]]\npattern = 'POST:payments-*'\nttl_seconds = 60\n";
    std::fs::write(&file, table).unwrap();
    let server = Server::start_with(|command| {
        command.args(["--config", path(&file)]);
    });
    for (method, route, seconds) in [
        ("POST", "/bookings/hold", 1800),
        ("POST", "/jobs/7", 14_400),
        ("POST", "/anything", 3600),
        ("POST", "/payments/link", 60),
        ("PUT", "/payments/link", 604_800),
        ("PUT", "/anything", 3600),
    ] {
        let request = json!({"key": "k", "method": method, "path": route});
        let left = seconds_left(&server, &claim(&server, &request)["expires_at"]);
        assert!(
            (seconds - 50..=seconds).contains(&left),
            "{method} {route}: {left} of {seconds}"
        );
    }
}
