//! Another caller behind the same door who sends what somebody else has sent, and would like the answer to that.

use serde_json::json;

use crate::both::{self, Store, on_both_stores};
use crate::fixture::{path, refused};
use crate::http::Answer;
use crate::proxy::{Proxied, is_replay};

const TENANT: &str = "00000000000000000000000000000000";

/// A proxy that derives keys on all routes, which say this of their callers.
fn deriving(store: Store, identity: &str) -> Proxied {
    let config = format!("[[routes]]\npattern = '*:*'\nderive = true\n{identity}\n");
    Proxied::on(&config, store.database())
}

fn order(proxied: &Proxied, headers: &[(&str, &str)]) -> Answer {
    proxied.send("POST", "/orders", headers, br#"{"book":1}"#)
}

/// Which call of the upstream an answer is from, and whether it is a replay.
fn from(answer: &Answer) -> (String, bool) {
    assert_eq!(answer.status, 201, "{}", answer.text());
    (answer.text(), is_replay(answer))
}

fn new(call: u32) -> (String, bool) {
    (format!("call {call}"), false)
}

fn again(call: u32) -> (String, bool) {
    (format!("call {call}"), true)
}

fn two_callers_with_equal_bodies_are_two_requests(store: Store) {
    let proxied = deriving(store, "");
    let ask = |who: &str| from(&order(&proxied, &[("authorization", who)]));
    assert_eq!(ask("Bearer ann"), new(1));
    assert_eq!(ask("Bearer bob"), new(2), "what ann was told is not bob's");
    assert_eq!(ask("Bearer ann"), again(1), "her own retry is one");
    assert_eq!(ask("Bearer bob"), again(2));
    assert_eq!(
        from(&order(&proxied, &[])),
        new(3),
        "nor is it for those who say nothing"
    );
    assert_eq!(from(&order(&proxied, &[])), again(3));
    assert_eq!(proxied.upstream.count(), 3);
}

fn two_sessions_with_equal_bodies_are_two_requests(store: Store) {
    let proxied = deriving(store, "principal_cookie = 'sid'");
    let ask = |cookies: &[&str]| {
        let headers: Vec<_> = cookies.iter().map(|cookie| ("cookie", *cookie)).collect();
        from(&order(&proxied, &headers))
    };
    assert_eq!(ask(&["sid=ann"]), new(1));
    assert_eq!(ask(&["sid=bob; theme=dark"]), new(2));
    assert_eq!(ask(&["theme=dark; sid=ann; lang=en"]), again(1));
    assert_eq!(
        ask(&["theme=dark", "sid=ann"]),
        again(1),
        "as HTTP/2 may split them"
    );
    // Which of the two the service believes is its own affair: who sends both is neither.
    assert_eq!(ask(&["sid=bob; sid=ann"]), new(3));
    assert_eq!(ask(&["sid=ann", "sid=bob"]), new(4));
    assert_eq!(ask(&["sid=ann; SID=bob"]), again(1));
    assert_eq!(proxied.upstream.count(), 4);
}

fn several_headers_are_one_caller_that_reads_in_one_way(store: Store) {
    let config = "[proxy]\nprincipal_headers = ['x-org', 'x-user']\n\
                  [[routes]]\npattern = '*:*'\nderive = true\n";
    let proxied = Proxied::on(config, store.database());
    let ask = |headers: &[(&str, &str)]| from(&order(&proxied, headers));
    assert_eq!(ask(&[("x-org", "a"), ("x-user", "bc")]), new(1));
    assert_eq!(ask(&[("x-org", "ab"), ("x-user", "c")]), new(2));
    assert_eq!(ask(&[("x-org", "a"), ("x-org", "bc")]), new(3));
    assert_eq!(ask(&[("x-user", "bc")]), new(4));
    let with_token = [
        ("x-user", "bc"),
        ("authorization", "Bearer ann"),
        ("x-org", "a"),
    ];
    assert_eq!(ask(&with_token), again(1), "exactly one source counts");
    // Where none of them is sent, `Authorization` says who it is.
    assert_eq!(ask(&[("authorization", "Bearer ann")]), new(5));
    assert_eq!(ask(&[("authorization", "Bearer bob")]), new(6));
}

fn a_request_with_cookies_and_no_identity_gets_no_derived_key(store: Store) {
    let proxied = deriving(store, "");
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for cookies in [&["sid=ann"][..], &["theme=dark"], &["a=1", "b=2"], &[""]] {
            let mut headers: Vec<_> = cookies.iter().map(|value| ("cookie", *value)).collect();
            let answer = proxied.send(method, "/orders", &headers, b"{}");
            assert_eq!(
                answer.refusal(),
                (400, "principal_required".to_owned()),
                "{method} {cookies:?}"
            );
            let error = &answer.json()["error"];
            assert_eq!(error["details"]["setting"], "principal_cookie");
            assert!(
                error["message"]
                    .as_str()
                    .unwrap()
                    .contains("principal_cookie")
            );
            headers.push(("authorization", ""));
            let empty = proxied.send(method, "/orders", &headers, b"{}");
            assert_eq!(empty.status, 400, "an empty credential is none");
        }
    }
    assert_eq!(proxied.upstream.count(), 0);
    let cookie = ("cookie", "sid=ann");
    let with_token = [cookie, ("authorization", "Bearer ann")];
    assert_eq!(from(&order(&proxied, &with_token)), new(1));
    // Under a key that the caller chose, cookies change nothing.
    let with_key = [cookie, ("idempotency-key", "k")];
    assert_eq!(from(&order(&proxied, &with_key)), new(2));
    let other_cookie = [("cookie", "sid=bob"), ("idempotency-key", "k")];
    assert_eq!(from(&order(&proxied, &other_cookie)), again(2));
    assert_eq!(proxied.send("GET", "/orders", &[cookie], b"").status, 201);
}

fn a_session_that_is_not_sent_is_asked_for(store: Store) {
    let proxied = deriving(store, "principal_cookie = 'sid'");
    for cookies in [
        "theme=dark",
        "sid=",
        "sid",
        "SID=ann",
        "xsid=ann",
        "x=sid=ann",
    ] {
        let answer = order(&proxied, &[("cookie", cookies)]);
        assert_eq!(
            answer.refusal(),
            (400, "principal_required".to_owned()),
            "{cookies}"
        );
        let details = answer.json()["error"]["details"].clone();
        assert_eq!(details["setting"], "principal_cookie");
        assert_eq!(details["route_pattern"], "POST:orders");
    }
    // A credential that all of a site share stands for no session.
    let shared = [("cookie", "theme=dark"), ("authorization", "Bearer shared")];
    let refused = (400, "principal_required".to_owned());
    assert_eq!(order(&proxied, &shared).refusal(), refused);
    assert_eq!(
        from(&order(&proxied, &[])),
        new(1),
        "without any cookie it is anonymous"
    );
}

fn nobody_takes_the_key_that_is_derived_for_another(store: Store) {
    // A subject is no secret, so the key that is derived for it can be made by anybody.
    let server = store.serve("");
    let request = |principal: &str| json!({"principal": principal, "method": "POST", "path": "/orders", "body": {"book": 1}});
    let derived = both::claim(&server, &request("ann"))["key"].clone();
    let key = derived.as_str().unwrap();
    assert!(key.starts_with(&format!("{TENANT}:POST:orders:~")), "{key}");
    let claim = json!({"key": key, "principal": "bob", "method": "POST", "path": "/orders", "body": {"book": 1}});
    let taken = server.owner("POST", "/v1/keys/claim", &claim.to_string());
    assert_eq!(taken.refusal(), (400, "idempotency_key_invalid".to_owned()));
    let proxied = deriving(store, "");
    for key in [key.to_owned(), format!("\"{key}\"")] {
        let answer = order(&proxied, &[("idempotency-key", &key)]);
        assert_eq!(
            answer.refusal(),
            (400, "idempotency_key_invalid".to_owned())
        );
    }
    assert_eq!(proxied.upstream.count(), 0);
    // On another route it is a key like any other: there it stands for nobody's request.
    assert_eq!(proxied.post("/a", key, "{}").status, 201);
}

fn a_claim_for_one_principal_is_not_anothers(store: Store) {
    let server = store.serve("");
    let request = |principal: Option<&str>| {
        let mut claim = json!({"method": "POST", "path": "/orders", "body": {"book": 1}});
        if let Some(principal) = principal {
            claim["principal"] = principal.into();
        }
        claim
    };
    let ann = both::completed(&server, &request(Some("ann@shop.example")), &json!("ann's"));
    let bob = both::completed(&server, &request(Some("bob@shop.example")), &json!("bob's"));
    let nobody = both::completed(&server, &request(None), &json!("nobody's"));
    assert!(ann != bob && bob != nobody && ann != nobody);
    let retried = both::claim(&server, &request(Some("ann@shop.example")));
    assert_eq!(retried["action"], "replay");
    assert_eq!(retried["response"]["body"], "ann's");
    let plain = both::claim(&server, &request(None))["key"].clone();
    let form = format!("{TENANT}:POST:orders:");
    let hash = plain
        .as_str()
        .unwrap()
        .strip_prefix(&form)
        .unwrap()
        .to_owned();
    assert!(
        hash.len() == 16 && !hash.contains('~'),
        "the documented form: {plain}"
    );
    for wrong in [json!(""), json!("x".repeat(8193)), json!(7)] {
        let mut claim = request(None);
        claim["principal"] = wrong;
        let answer = server.owner("POST", "/v1/keys/claim", &claim.to_string());
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
}

fn under_one_key_another_principal_conflicts_and_sees_nothing(store: Store) {
    let server = store.serve("");
    let request = |principal: Option<&str>, pin: u32| {
        let mut claim =
            json!({"key": "k", "method": "POST", "path": "/orders", "body": {"pin": pin}});
        if let Some(principal) = principal {
            claim["principal"] = principal.into();
        }
        claim
    };
    let id = both::completed(
        &server,
        &request(Some("ann@shop.example"), 4711),
        &json!("hers"),
    );
    for (who, pin) in [
        (Some("bob"), 4711),
        (Some("bob"), 1),
        (None, 4711),
        (None, 1),
    ] {
        let conflict = both::claim(&server, &request(who, pin));
        assert_eq!(conflict["action"], "conflict", "{who:?}");
        let details = &conflict["conflict"];
        assert!(details["original_hash"].is_null(), "{details}");
        assert_eq!(details["diff_summary"], json!([]));
        let text = conflict.to_string();
        assert!(!text.contains("hers") && !text.contains("ann@"), "{text}");
        assert!(pin == 4711 || !text.contains("4711"), "{text}");
    }
    assert_eq!(
        both::claim(&server, &request(Some("ann@shop.example"), 4711))["action"],
        "replay"
    );
    // Nowhere does the server say, or keep, who that was.
    let shown = server.owner("GET", &format!("/v1/keys/{}", id.as_str().unwrap()), "");
    let audit = server.owner("GET", "/v1/audit", "");
    for text in [shown.text(), audit.text(), server.log()] {
        assert!(!text.contains("ann@shop.example"), "{text}");
    }
    for file in std::fs::read_dir(server.data()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
        let needle = b"ann@shop.example";
        assert!(!bytes.windows(needle.len()).any(|window| window == needle));
    }
}

fn two_tokens_of_one_tenant_with_equal_bodies_are_two_requests(store: Store) {
    let server = store.serve("[[routes]]\npattern = 'POST:echo'\nderive = true\n");
    let (one, two) = (
        server.token_of("default", "writer"),
        server.token_of("default", "writer"),
    );
    let echo = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("cookie", "theme=dark")];
        let answer = server.send("POST", "/v1/echo", &headers, b"{}");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let first = echo(&one);
    assert_ne!(echo(&two)["id"], first["id"]);
    assert_eq!(echo(&one)["id"], first["id"]);
}

on_both_stores!(
    two_callers_with_equal_bodies_are_two_requests,
    two_sessions_with_equal_bodies_are_two_requests,
    several_headers_are_one_caller_that_reads_in_one_way,
    a_request_with_cookies_and_no_identity_gets_no_derived_key,
    a_session_that_is_not_sent_is_asked_for,
    nobody_takes_the_key_that_is_derived_for_another,
    a_claim_for_one_principal_is_not_anothers,
    under_one_key_another_principal_conflicts_and_sees_nothing,
    two_tokens_of_one_tenant_with_equal_bodies_are_two_requests,
);

#[test]
fn an_identity_that_cannot_be_followed_or_verified_does_not_start() {
    for (config, expected) in [
        (
            "[proxy]\nprincipal = 'jwt:sub'\n",
            "jwt_algorithms is empty",
        ),
        (
            "[[routes]]\npattern = 'POST:a'\nprincipal = 'jwt:sub'\n",
            "principal of route 'POST:a'",
        ),
        ("[proxy]\nprincipal = 'jwt:email'\n", "proxy.principal"),
        (
            "[proxy]\nprincipal_cookie = 'sid'\nprincipal_headers = ['x-user']\n",
            "twice",
        ),
        (
            "[[routes]]\npattern = 'POST:a'\nprincipal_cookie = 'a b'\n",
            "principal_cookie",
        ),
        (
            "[proxy]\nprincipal_headers = ['cookie']\n",
            "principal_headers",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("c.toml"), folder.path().join("data"));
        std::fs::write(&file, config).unwrap();
        let shared = [
            "--listen",
            "127.0.0.1:0",
            "--data",
            path(&data),
            "--config",
            path(&file),
        ];
        let proxy = [&["proxy", "--upstream", "http://127.0.0.1:1"], &shared[..]].concat();
        for arguments in [proxy, [&["serve"], &shared[..]].concat()] {
            let why = refused(&arguments, 2);
            assert!(why.contains(expected), "{config}: {why}");
        }
        assert!(!data.exists(), "nothing is left behind");
    }
}
