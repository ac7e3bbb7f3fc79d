//! The remote API beyond a claim and its end: forms of bodies, what a reader sees, and other tenants.

use serde_json::{Value, json};

use crate::both::{Store, claim, completed, on_both_stores, post};

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

fn pay(key: &str) -> Value {
    json!({"key": key, "method": "POST", "path": "/payments", "body": {"amount": 10, "card": "4111", "phone": "555"}})
}

fn a_payload_may_be_as_deep_as_any_other_document(store: Store) {
    let server = store.serve("");
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let claim_of = |depth| {
        let body = format!(
            r#"{{"key":"k","method":"POST","path":"/a","body":{}}}"#,
            deep(depth)
        );
        server.owner("POST", "/v1/keys/claim", &body)
    };
    let granted = claim_of(128);
    assert_eq!(granted.status, 200, "{}", granted.text());
    let refusal = claim_of(129);
    assert_eq!(refusal.refusal(), (400, "bad_json".to_owned()));
    assert_eq!(refusal.json()["error"]["details"]["reason"], "too_deep");

    let granted = granted.json();
    let complete = format!(
        r#"{{"token":{},"status":200,"body":{}}}"#,
        granted["token"],
        deep(128)
    );
    let path = format!("/v1/keys/{}/complete", granted["id"].as_str().unwrap());
    assert_eq!(server.owner("POST", &path, &complete).status, 200);
    let replay = claim_of(128);
    assert!(
        replay.text().contains(&format!(r#""body":{}"#, deep(128))),
        "{}",
        replay.text()
    );
}

fn a_replay_has_the_digits_and_the_form_it_was_given_in(store: Store) {
    let server = store.serve("");
    for (n, form) in [
        r#""body":{ "n": 12345678901234567890123, "f": 1.0 }"#,
        r#""body":"text""#,
        r#""body_base64":"/wAB""#,
        r#""body_base64":"YWJj""#,
        r#""body":null"#,
    ]
    .iter()
    .enumerate()
    {
        let request = json!({"key": format!("k{n}"), "method": "POST", "path": "/a"});
        let granted = claim(&server, &request);
        let complete = format!(r#"{{"token":{},"status":200,{form}}}"#, granted["token"]);
        let path = format!("/v1/keys/{}/complete", granted["id"].as_str().unwrap());
        let done = server.owner("POST", &path, &complete);
        assert_eq!(done.status, 200, "{}", done.text());
        let replay = server
            .owner("POST", "/v1/keys/claim", &request.to_string())
            .text();
        // A body of null is one that was left out.
        let expected = if *form == r#""body":null"# {
            r#""body":"""#
        } else {
            form
        };
        assert!(replay.contains(expected), "{replay}");
    }
}

fn who_looks_at_a_key_sees_the_request_and_the_answer_without_secrets(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\nredact = ['phone']\n");
    let id = completed(
        &server,
        &pay("k"),
        &json!({"id": 7, "phone": "555", "token": "t"}),
    );
    let path = format!("/v1/keys/{}", id.as_str().unwrap());
    let shown = server.owner("GET", &path, "").json();
    assert_eq!(
        shown["request"]["body"],
        json!({"amount": 10, "card": "***", "phone": "***"}),
        "{shown}"
    );
    assert_eq!(
        (&shown["request"]["method"], &shown["request"]["path"]),
        (&json!("POST"), &json!("/payments"))
    );
    assert_eq!(
        shown["response"]["body"],
        json!({"id": 7, "phone": "***", "token": "***"})
    );
    let replay = claim(&server, &pay("k"));
    assert_eq!(
        replay["response"]["body"]["phone"], "555",
        "a replay is whole"
    );
}

fn what_is_masked_is_stored_with_the_key_and_needs_no_config_to_hold(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\nredact = ['phone', 'to.*.name']\n");
    let told = json!({"id": 7, "phone": "555", "to": [{"name": "Ann"}]});
    let id = completed(&server, &pay("k"), &told);
    let id = id.as_str().unwrap();
    let is_masked = |shown: &Value| {
        let asked = json!({"amount": 10, "card": "***", "phone": "***"});
        assert_eq!(shown["request"]["body"], asked, "{shown}");
        let told = json!({"id": 7, "phone": "***", "to": [{"name": "***"}]});
        assert_eq!(shown["response"]["body"], told, "{shown}");
    };
    is_masked(&server.command(&["keys", "show", id]));

    let config = server.data().parent().unwrap().join("hapax.toml");
    std::fs::write(config, "").unwrap();
    let server = server.restarted();
    is_masked(&server.owner("GET", &format!("/v1/keys/{id}"), "").json());
    let replay = claim(&server, &pay("k"));
    assert_eq!(replay["response"]["body"], told, "a replay is whole");
    let mut other = pay("k");
    other["body"]["phone"] = json!("777");
    let conflict = claim(&server, &other)["conflict"].to_string();
    assert!(conflict.contains("phone: '***' → '***'"), "{conflict}");

    // A key of a route that names nothing to mask, as those from before masks were stored.
    let plain = completed(&server, &pay("l"), &json!({"phone": "555", "token": "t"}));
    let shown = server.command(&["keys", "show", plain.as_str().unwrap()]);
    let asked = json!({"amount": 10, "card": "***", "phone": "555"});
    assert_eq!(
        shown["request"]["body"], asked,
        "telling names alone: {shown}"
    );
    assert_eq!(
        shown["response"]["body"],
        json!({"phone": "555", "token": "***"})
    );
}

fn another_tenants_key_answers_like_one_that_does_not_exist(store: Store) {
    let server = store.serve("");
    let id = completed(&server, &pay("k"), &json!("done"));
    let id = id.as_str().unwrap();
    let stranger = server.token_of(OTHER, "owner");
    let nothing = "00000000-0000-8000-8000-000000000000";
    for (method, tail, body) in [
        ("GET", "", ""),
        ("DELETE", "", ""),
        ("POST", "/complete", r#"{"token":"1-0","status":200}"#),
        ("POST", "/renew", r#"{"token":"1-0"}"#),
        ("POST", "/release", r#"{"token":"1-0"}"#),
        ("POST", "/settle", r#"{"release":true}"#),
        ("POST", "/erase", ""),
    ] {
        let of = |id: &str| {
            let path = format!("/v1/keys/{id}{tail}");
            let answer = server.bearing(&stranger, method, &path, body);
            let mut document = answer.json();
            document["trace_id"] = json!("");
            (answer.status, document)
        };
        assert_eq!(of(id), of(nothing), "{method} {tail}");
        assert_eq!(of(id).0, 404, "{method} {tail}");
    }
    let list = server.bearing(&stranger, "GET", "/v1/keys", "").json();
    assert_eq!(list["items"], json!([]));
    let theirs = server.bearing(&stranger, "POST", "/v1/keys/claim", &pay("k").to_string());
    assert_eq!(
        theirs.json()["action"],
        "process",
        "the same key of another tenant is another operation"
    );
    assert_eq!(claim(&server, &pay("k"))["action"], "replay");
}

fn a_role_allows_what_it_says_and_no_more(store: Store) {
    let server = store.serve("");
    let id = completed(&server, &pay("k"), &json!("done"));
    let id = id.as_str().unwrap();
    let viewer = server.token_of("default", "viewer");
    let writer = server.token_of("default", "writer");
    for path in ["/v1/keys", "/v1/stats", "/v1/audit"] {
        assert_eq!(
            server.bearing(&viewer, "GET", path, "").status,
            200,
            "{path}"
        );
    }
    for (method, path, body) in [
        ("DELETE", format!("/v1/keys/{id}"), ""),
        (
            "POST",
            format!("/v1/keys/{id}/settle"),
            r#"{"release":true}"#,
        ),
        ("POST", format!("/v1/keys/{id}/erase"), ""),
        ("POST", "/v1/erase".to_owned(), r#"{"subject":"s"}"#),
        ("POST", "/v1/sweep".to_owned(), ""),
    ] {
        let answer = server.bearing(&writer, method, &path, body);
        assert_eq!(answer.refusal(), (403, "forbidden".to_owned()), "{path}");
    }
    assert_eq!(
        server
            .bearing(&viewer, "POST", "/v1/keys/claim", &pay("v").to_string())
            .status,
        403
    );
}

fn an_operator_ends_doubt_and_never_pushes_a_living_holder_aside(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\non_lost = 'hold'\n");
    let held = claim(&server, &pay("alive"));
    let outcome = json!({"status": 200, "headers": {"location": "/7"}, "body": {"paid": true}});
    let refusal = post(&server, &held["id"], "settle", &outcome);
    assert_eq!(
        refusal.refusal(),
        (409, "IDEMPOTENCY_IN_PROGRESS".to_owned())
    );

    let doubted = |key: &str| {
        let mut request = pay(key);
        request["lease_seconds"] = json!(0);
        let granted = claim(&server, &request);
        while claim(&server, &request)["action"] == "in_progress" {}
        granted
    };
    let lost = doubted("settled");
    let settled = post(&server, &lost["id"], "settle", &outcome);
    assert_eq!(settled.json()["state"], "settled", "{}", settled.text());
    let replay = claim(&server, &pay("settled"));
    assert_eq!(
        (&replay["action"], &replay["response"]["body"]),
        (&json!("replay"), &json!({"paid": true}))
    );
    assert_eq!(replay["response"]["headers"]["location"], "/7");
    let late = json!({"token": lost["token"], "status": 200, "body": "late"});
    assert_eq!(
        post(&server, &lost["id"], "complete", &late).refusal(),
        (409, "lease_lost".to_owned())
    );

    let lost = doubted("released");
    let released = post(&server, &lost["id"], "settle", &json!({"release": true}));
    assert_eq!(released.json()["state"], "released", "{}", released.text());
    assert_eq!(claim(&server, &pay("released"))["action"], "process");

    for wrong in [
        json!({}),
        json!({"release": false}),
        json!({"release": true, "status": 200}),
        json!({"status": 99}),
        json!({"status": 200, "body": 1, "body_base64": ""}),
    ] {
        let answer = post(&server, &lost["id"], "settle", &wrong);
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

fn an_erased_key_is_neither_replayed_nor_run_again(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\nsubject = '/customer'\n");
    let of = |key: &str, customer: &Value| json!({"key": key, "method": "POST", "path": "/a", "body": {"customer": customer}});
    let id = completed(&server, &of("one", &json!("ann")), &json!("for ann"));
    completed(&server, &of("two", &json!("ann")), &json!("for ann"));
    completed(&server, &of("three", &json!("bob")), &json!("for bob"));

    let erased = post(&server, &id, "erase", &json!({}));
    assert_eq!(erased.status, 200, "{}", erased.text());
    let path = format!("/v1/keys/{}", id.as_str().unwrap());
    let shown = server.owner("GET", &path, "");
    assert_eq!(shown.json()["state"], "erased", "{}", shown.text());
    assert!(!shown.text().contains("ann"), "{}", shown.text());
    assert_eq!(
        claim(&server, &of("one", &json!("ann")))["action"],
        "erased"
    );

    let listed = server.owner("GET", "/v1/keys?state=erased", "").json();
    assert_eq!(listed["items"][0]["id"], id, "{listed}");

    let all = server.owner("POST", "/v1/erase", r#"{"subject":"ann"}"#);
    assert_eq!(all.json()["erased"], 1, "{}", all.text());
    assert_eq!(
        claim(&server, &of("two", &json!("ann")))["action"],
        "erased"
    );
    assert_eq!(
        claim(&server, &of("three", &json!("bob")))["action"],
        "replay"
    );
}

fn the_command_line_ends_doubt_and_erases_too(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\non_lost = 'hold'\nsubject = '/phone'\n");
    let doubted = |key: &str| {
        let mut request = pay(key);
        request["lease_seconds"] = json!(0);
        let granted = claim(&server, &request);
        while claim(&server, &request)["action"] == "in_progress" {}
        granted["id"].as_str().unwrap().to_owned()
    };
    let (happened, did_not) = (doubted("happened"), doubted("did-not"));
    let body = server.data().join("answer.json");
    std::fs::write(&body, r#"{"paid":true}"#).unwrap();
    let settled = server.command(&[
        "keys",
        "settle",
        &happened,
        "--status",
        "201",
        "--header",
        "location: /7",
        "--body",
        crate::fixture::path(&body),
    ]);
    assert_eq!(settled["state"], "settled");
    let replay = claim(&server, &pay("happened"))["response"].clone();
    assert_eq!(
        (
            &replay["status"],
            &replay["body"],
            &replay["headers"]["location"]
        ),
        (&json!(201), &json!(r#"{"paid":true}"#), &json!("/7"))
    );
    let released = server.command(&["keys", "settle", &did_not, "--release"]);
    assert_eq!(released["state"], "released");
    assert_eq!(claim(&server, &pay("did-not"))["action"], "process");

    let erased = server.command(&["keys", "erase", &happened]);
    assert_eq!(erased["erased"], 1);
    assert_eq!(claim(&server, &pay("happened"))["action"], "erased");
    let erased = server.command(&["keys", "erase", "--subject", "555"]);
    assert_eq!(erased["erased"], 1, "the one that was not erased before");
    let listed = server.command(&["keys", "list", "--state", "erased"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    let audit = server
        .owner("GET", "/v1/audit?action=key_erased", "")
        .json();
    assert_eq!(audit["items"][0]["actor"], "hapax keys erase", "{audit}");
}

on_both_stores![
    the_command_line_ends_doubt_and_erases_too,
    a_payload_may_be_as_deep_as_any_other_document,
    a_replay_has_the_digits_and_the_form_it_was_given_in,
    who_looks_at_a_key_sees_the_request_and_the_answer_without_secrets,
    what_is_masked_is_stored_with_the_key_and_needs_no_config_to_hold,
    another_tenants_key_answers_like_one_that_does_not_exist,
    a_role_allows_what_it_says_and_no_more,
    an_operator_ends_doubt_and_never_pushes_a_living_holder_aside,
    an_erased_key_is_neither_replayed_nor_run_again,
];
