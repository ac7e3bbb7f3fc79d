//! Who gets in, what they may do, and what strangers learn: nothing.

use crate::fixture::{Server, path, succeed};

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

#[test]
fn missing_wrong_and_revoked_credentials_get_the_same_answer() {
    let server = Server::start();
    let (id, revoked) = server.mint("default", "owner");
    succeed(&["token", "revoke", &id, "--data", path(&server.data())]);
    let (_, valid) = server.mint("default", "owner");
    let swapped = format!("hpx_{id}_{}", valid.rsplit('_').next().unwrap());
    let mut bodies = Vec::new();
    for header in [
        None,
        Some("Bearer nonsense".to_owned()),
        Some(format!("Bearer {revoked}")),
        Some(format!("Bearer {swapped}")),
        Some(format!("Basic {valid}")),
        Some(format!("Bearer {valid}x")),
        Some("Bearer ".to_owned()),
    ] {
        let headers: Vec<_> = header
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        let answer = server.send("GET", "/v1/keys", &headers, b"");
        assert_eq!(
            answer.refusal(),
            (401, "unauthorized".to_owned()),
            "{header:?}"
        );
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        bodies.push(answer.json()["error"].clone());
    }
    assert!(
        bodies.windows(2).all(|pair| pair[0] == pair[1]),
        "{bodies:?}"
    );
}

#[test]
fn a_stranger_sees_only_401() {
    let server = Server::start();
    let huge = vec![b' '; 2 << 20];
    for (method, path, headers, body) in [
        ("GET", "/v1/nothing", &[][..], &b""[..]),
        ("PUT", "/v1/keys", &[], b""),
        ("BREW", "/nothing", &[], b""),
        ("POST", "/v1/echo", &[("content-type", "text/plain")], b"x"),
        ("POST", "/v1/echo", &[], &huge),
        ("POST", "/v1/echo", &[], b"{"),
        (
            "POST",
            "/v1/echo",
            &[("idempotency-key", "two words")],
            b"{}",
        ),
        ("GET", "/v1/keys/../../etc/passwd", &[], b""),
    ] {
        assert_eq!(
            server.send(method, path, headers, body).status,
            401,
            "{method} {path}"
        );
    }
}

#[test]
fn a_role_allows_what_lower_roles_do() {
    let server = Server::start();
    let roles = ["viewer", "writer", "owner"].map(|role| server.mint("default", role).1);
    let nobody = "/v1/keys/00000000-0000-8000-8000-000000000000";
    // What each role gets: a 404 means that it was let in.
    for (method, route, body, expected) in [
        ("GET", "/v1/keys", "", [200, 200, 200]),
        ("POST", "/v1/echo", "{}", [403, 200, 200]),
        (
            "POST",
            "/v1/keys/claim",
            r#"{"method":"POST","path":"/a"}"#,
            [403, 200, 200],
        ),
        ("DELETE", nobody, "", [403, 403, 404]),
    ] {
        for (token, expected) in roles.iter().zip(expected) {
            let answer = server.bearing(token, method, route, body);
            assert_eq!(
                answer.status,
                expected,
                "{method} {route}: {}",
                answer.text()
            );
            if expected == 403 {
                assert_eq!(answer.code(), "forbidden");
            }
        }
    }
}

#[test]
fn a_revoked_token_stops_working_beside_a_running_server() {
    let server = Server::start();
    let (id, token) = server.mint("default", "viewer");
    let status = || server.bearing(&token, "GET", "/v1/keys", "").status;
    assert_eq!(status(), 200);
    succeed(&["token", "revoke", &id, "--data", path(&server.data())]);
    let started = std::time::Instant::now();
    while status() == 200 {
        // A failing server would say 200 for ever; a working one takes a second.
        assert!(started.elapsed().as_secs() < 10, "the token still works");
        std::thread::yield_now();
    }
    assert_eq!(status(), 401);
}

#[test]
fn the_variable_sets_an_owner_token_of_any_form_and_stops_working_when_it_changes() {
    let with = |token: &'static str| {
        move |command: &mut std::process::Command| {
            command.env("HAPAX_TOKEN", token);
        }
    };
    let server = Server::start_with(with("a-secret-of-16-characters-and-more"));
    assert_eq!(
        server
            .bearing("a-secret-of-16-characters-and-more", "GET", "/v1/keys", "")
            .status,
        200
    );
    assert_eq!(
        server
            .bearing("a-secret-of-16-characters-and-morf", "GET", "/v1/keys", "")
            .status,
        401
    );
    assert!(
        !server.data().join("token").exists(),
        "one is configured, so none is made"
    );
    let (_, other) = server.mint("default", "owner");
    let (_, rest, folder) = server.stop();
    assert!(
        rest.contains("$HAPAX_TOKEN") && !rest.contains("a-secret-of-16-characters-and-more"),
        "{rest}"
    );

    let server = Server::start_in(folder, with("another one, with spaces"));
    assert_eq!(
        server
            .bearing("another one, with spaces", "GET", "/v1/keys", "")
            .status,
        200
    );
    assert_eq!(
        server
            .bearing("a-secret-of-16-characters-and-more", "GET", "/v1/keys", "")
            .status,
        401,
        "the old one is gone"
    );
    assert_eq!(
        server.bearing(&other, "GET", "/v1/keys", "").status,
        200,
        "others are left alone"
    );
    assert!(!server.log().contains("a-secret-of-16-characters-and-more"));
}

#[test]
fn guessing_is_slowed_down_but_locks_nobody_out() {
    let server = Server::start();
    let token = server.token();
    let guess = |n: u32| server.bearing(&format!("guess-{n}"), "GET", "/v1/keys", "");
    assert!((0..10).all(|n| guess(n).status == 401));
    let slowed = guess(10);
    assert_eq!(slowed.refusal(), (429, "rate_limited".to_owned()));
    let wait: u64 = slowed.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(
        server.bearing(&token, "GET", "/v1/keys", "").status,
        200,
        "same address, valid token"
    );
    let (_, fresh) = server.mint("default", "viewer");
    assert_eq!(
        server.bearing(&fresh, "GET", "/v1/keys", "").status,
        200,
        "and one never seen before"
    );
    assert_eq!(
        server.send("GET", "/v1/keys", &[], b"").status,
        401,
        "no credential is no guess"
    );
}

#[test]
fn tenants_do_not_see_each_other() {
    let server = Server::start();
    let (_, theirs) = server.mint(OTHER, "owner");
    let claim = r#"{"key":"k","method":"POST","path":"/payments","body":{"n":1}}"#;
    let ours = server.owner("POST", "/v1/keys/claim", claim).json();
    assert_eq!(ours["action"], "process");
    let id = ours["id"].as_str().unwrap();
    let missing = "/v1/keys/00000000-0000-8000-8000-000000000000";
    for (method, suffix, body) in [
        ("GET", "", ""),
        ("DELETE", "", ""),
        (
            "POST",
            "/release",
            &*format!(r#"{{"token":{}}}"#, ours["token"]),
        ),
    ] {
        let seen = server.bearing(&theirs, method, &format!("/v1/keys/{id}{suffix}"), body);
        let none = server.bearing(&theirs, method, &format!("{missing}{suffix}"), body);
        assert_eq!(seen.status, 404, "{method} {suffix}");
        assert_eq!(
            seen.json()["error"],
            none.json()["error"],
            "{method} {suffix}"
        );
    }
    assert_eq!(
        server.bearing(&theirs, "GET", "/v1/keys", "").json()["items"],
        serde_json::json!([])
    );
    let claimed = server
        .bearing(&theirs, "POST", "/v1/keys/claim", claim)
        .json();
    assert_eq!(
        claimed["action"], "process",
        "the same key of another tenant is another key"
    );
    assert_eq!(
        server.owner("GET", &format!("/v1/keys/{id}"), "").json()["state"],
        "held",
        "ours is untouched"
    );
}

#[test]
fn metrics_can_be_closed() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_METRICS_OPEN", "false");
    });
    assert_eq!(server.send("GET", "/metrics", &[], b"").status, 401);
    assert_eq!(server.owner("GET", "/metrics", "").status, 200);
    assert_eq!(server.send("GET", "/health", &[], b"").status, 200);
}

#[test]
fn a_secret_never_reaches_the_log_or_the_database() {
    let server = Server::start();
    let token = server.token();
    let secret = token.rsplit('_').next().unwrap().to_owned();
    server.owner(
        "POST",
        "/v1/echo?token=planted-query",
        r#"{"planted":"planted-body"}"#,
    );
    assert!(server.log().contains("/v1/echo"));
    assert!(!server.log().contains(&secret) && !server.log().contains("planted"));
    let (_, _, folder) = server.stop();
    for file in std::fs::read_dir(folder.path().join("data"))
        .unwrap()
        .map(|file| file.unwrap().path())
    {
        let holds = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).contains(&secret);
        assert_eq!(holds, file.ends_with("token"), "{}", file.display());
    }
}

#[test]
fn a_tenant_that_sends_too_many_requests_is_told_to_wait_and_others_are_served() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_TENANT_REQUESTS_PER_SECOND", "2");
    });
    let (_, other) = server.mint(OTHER, "owner");
    // However slow this machine is, some two of these come within half a second.
    let refused = (0..200)
        .map(|_| server.owner("GET", "/v1/stats", ""))
        .find(|answer| answer.status == 429);
    let refused = refused.expect("nothing was refused");
    assert_eq!(refused.refusal(), (429, "rate_limited".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(server.bearing(&other, "GET", "/v1/stats", "").status, 200);
    assert_eq!(server.send("GET", "/health", &[], b"").status, 200);
    let unknown = server.bearing("nobody", "GET", "/v1/stats", "");
    assert_eq!(
        unknown.refusal(),
        (401, "unauthorized".to_owned()),
        "a stranger uses nobody's rate"
    );
}
