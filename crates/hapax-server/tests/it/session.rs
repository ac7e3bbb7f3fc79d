//! Browsers sign in with a token and get a cookie: what it is, what it allows, and when it ends.

use std::time::{Duration, Instant};

use crate::both::{Store, on_both_stores, seconds_left};
use crate::fixture::{Server, path, succeed};
use crate::http::Answer;

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

fn sign_in(server: &Server, token: &str, more: &[(&str, &str)]) -> Answer {
    let body = serde_json::json!({"token": token}).to_string();
    let headers = [&[("content-type", "application/json")][..], more].concat();
    server.send("POST", "/session", &headers, body.as_bytes())
}

/// The cookie as a browser sends it back.
fn cookie(answer: &Answer) -> String {
    assert_eq!(answer.status, 204, "{}", answer.text());
    let set = answer.header("set-cookie").unwrap();
    set.split(';').next().unwrap().to_owned()
}

fn with(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    server.send(method, path, headers, b"")
}

on_both_stores! {
    a_cookie_stands_for_its_token_everywhere,
    a_revoked_token_ends_its_sessions,
    what_is_anothers_answers_like_nothing,
}

fn a_cookie_stands_for_its_token_everywhere(store: Store) {
    let server = store.serve("");
    let token = server.token_of(OTHER, "writer");
    let answer = sign_in(&server, &token, &[]);
    let set = answer.header("set-cookie").unwrap();
    for flag in [
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
        "; Max-Age=43200",
    ] {
        assert!(set.contains(flag), "{set}");
    }
    assert!(!set.contains("; Secure"), "{set}");
    let secret = token.rsplit('_').next().unwrap();
    assert!(!set.contains(secret), "the token is not in it");
    let by_https = ("x-forwarded-proto", "https");
    let https = sign_in(&server, &token, &[by_https]);
    let set = https.header("set-cookie").unwrap();
    assert!(set.ends_with("; Secure"), "{set}");
    assert!(set.starts_with("__Host-hapax_session="), "{set}");
    let secured = cookie(&https);
    let session = with(
        &server,
        "GET",
        "/session",
        &[("cookie", &secured), by_https],
    );
    assert_eq!(session.status, 200, "{}", session.text());
    // What a page of a sister domain can plant is no session where browsers come by https.
    let planted = secured.trim_start_matches("__Host-");
    let theirs = with(&server, "GET", "/session", &[("cookie", planted), by_https]);
    assert_eq!(theirs.status, 401, "{}", theirs.text());

    let cookie = cookie(&answer);
    let mine = [("cookie", cookie.as_str())];
    let session = with(&server, "GET", "/session", &mine).json();
    assert_eq!(
        (&session["tenant"], &session["role"]),
        (&OTHER.into(), &"writer".into())
    );
    assert_eq!(session["auth"], "token");
    assert!(token.contains(session["token_id"].as_str().unwrap()));
    assert!(session["expires_at"].is_string());
    assert_eq!(with(&server, "GET", "/v1/keys", &mine).status, 200);
    let headers = [
        mine[0],
        ("x-hapax-csrf", "1"),
        ("content-type", "application/json"),
        ("idempotency-key", "k"),
    ];
    assert_eq!(server.send("POST", "/v1/echo", &headers, b"{}").status, 200);
    // Its role is the token's.
    let marked = [mine[0], ("x-hapax-csrf", "1")];
    let refused = with(&server, "POST", "/v1/sweep", &marked);
    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    let details = &refused.json()["error"]["details"];
    assert_eq!(details["needed_role"], "owner");

    let bearer = format!("Bearer {token}");
    let by_token = with(&server, "GET", "/session", &[("authorization", &bearer)]).json();
    assert_eq!(by_token["expires_at"], serde_json::Value::Null);
}

fn a_revoked_token_ends_its_sessions(store: Store) {
    let server = store.serve("");
    let made = server.command(&["token", "create", "--tenant", "default", "--role", "viewer"]);
    let cookie = cookie(&sign_in(&server, made["token"].as_str().unwrap(), &[]));
    let status = || with(&server, "GET", "/v1/keys", &[("cookie", &cookie)]).status;
    assert_eq!(status(), 200);
    server.run(&["token", "revoke", made["id"].as_str().unwrap()], 0);
    let started = Instant::now();
    while status() == 200 {
        assert!(started.elapsed() < Duration::from_secs(3), "it goes on");
    }
    assert_eq!(status(), 401);
    let again = sign_in(&server, made["token"].as_str().unwrap(), &[]);
    assert_eq!(again.refusal(), (401, "unauthorized".to_owned()));
}

fn what_is_anothers_answers_like_nothing(store: Store) {
    let server = store.serve("");
    let owner = server.token_of("default", "owner");
    let stored = server.bearing(
        &owner,
        "POST",
        "/db/insert",
        r#"{"source":"web","title":"t","clean_text":"hidden"}"#,
    );
    assert_eq!(stored.status, 200, "{}", stored.text());
    let number = stored.json()[0]["entry_id"].to_string();
    let job = r#"{"work_id":"w","artifact_id":"a","canonical_url":"https://example.org/"}"#;
    let planned = server.bearing(&owner, "POST", "/v1/jobs", job).json();
    let job = planned["job_id"].as_str().unwrap().to_owned();
    let cookie = cookie(&sign_in(&server, &server.token_of(OTHER, "owner"), &[]));
    let theirs = |path: &str| with(&server, "GET", path, &[("cookie", &cookie)]);
    for path in [
        format!("/v1/entries/{number}"),
        format!("/v1/jobs/{job}/graph"),
    ] {
        assert_eq!(
            server.bearing(&owner, "GET", &path, "").status,
            200,
            "{path}"
        );
        assert_eq!(
            theirs(&path).refusal(),
            (404, "not_found".to_owned()),
            "{path}"
        );
    }
    for path in [
        "/v1/entries?q=hidden",
        "/v1/entries?source=web",
        "/v1/jobs?q=w",
        "/v1/keys?q=k",
    ] {
        assert_eq!(
            theirs(path).json()["items"],
            serde_json::json!([]),
            "{path}"
        );
    }
    let now = theirs("/v1/overview").json()["now"].clone();
    assert_eq!(now["jobs"]["ready"], 0, "{now}");
}

#[test]
fn with_a_cookie_only_our_own_pages_write() {
    let server = Server::start();
    let cookie = cookie(&sign_in(&server, &server.token(), &[]));
    let host = server.address.to_string();
    let own = format!("http://{host}");
    let mark = ("x-hapax-csrf", "1");
    let swept = |more: &[(&str, &str)]| {
        let headers = [&[("cookie", cookie.as_str())], more].concat();
        with(&server, "POST", "/v1/sweep", &headers)
    };
    assert_eq!(swept(&[mark]).status, 200);
    assert_eq!(swept(&[mark, ("origin", &own)]).status, 200);
    assert_eq!(
        swept(&[mark, ("sec-fetch-site", "same-origin")]).status,
        200
    );
    for refused in [
        &[][..],
        &[("origin", own.as_str())],
        &[mark, ("origin", "https://evil.example")],
        &[mark, ("origin", "null")],
        &[mark, ("sec-fetch-site", "cross-site")],
        &[mark, ("sec-fetch-site", "same-site")],
    ] {
        let answer = swept(refused);
        assert_eq!(
            answer.refusal(),
            (403, "forbidden".to_owned()),
            "{refused:?}"
        );
        assert_eq!(answer.json()["error"]["details"]["reason"], "csrf");
    }
    // A token needs none of it, also beside a cookie.
    let bearer = format!("Bearer {}", server.token());
    assert_eq!(swept(&[("authorization", &bearer)]).status, 200);
    // And a wrong token is not helped by a cookie.
    assert_eq!(swept(&[("authorization", "Bearer x"), mark]).status, 401);
    let strange = sign_in(
        &server,
        &server.token(),
        &[("origin", "https://evil.example")],
    );
    assert_eq!(strange.refusal(), (403, "forbidden".to_owned()));
}

#[test]
fn what_is_not_a_session_is_a_stranger() {
    let server = Server::start();
    let cookie = cookie(&sign_in(&server, &server.token(), &[]));
    let (name, value) = cookie.split_once('=').unwrap();
    let parts: Vec<&str> = value.split('.').collect();
    let later: u64 = parts[1].parse::<u64>().unwrap() + 1;
    let another = |text: &str| {
        let first = if text.starts_with('2') { '3' } else { '2' };
        format!("{first}{}", &text[1..])
    };
    let (flipped, renamed) = (another(parts[3]), another(parts[2]));
    for value in [
        String::new(),
        "x".to_owned(),
        format!("{}.{later}.{}.{}", parts[0], parts[2], parts[3]),
        format!("{}.{}.{}.{flipped}", parts[0], parts[1], parts[2]),
        format!("{}.{}.{renamed}.{}", parts[0], parts[1], parts[3]),
        format!("configured.{}.{}.{}", parts[1], parts[2], parts[3]),
        format!("{}.1.{}.{}", parts[0], parts[2], parts[3]),
    ] {
        let forged = format!("{name}={value}");
        let answer = with(&server, "GET", "/session", &[("cookie", &forged)]);
        assert_eq!(
            answer.refusal(),
            (401, "unauthorized".to_owned()),
            "{forged}"
        );
        // Who it is comes before what it wants.
        let answer = with(&server, "POST", "/v1/sweep", &[("cookie", &forged)]);
        assert!([401, 429].contains(&answer.status), "{forged}");
    }
    let twice = format!("{cookie}; {cookie}");
    assert_eq!(
        with(&server, "GET", "/session", &[("cookie", &twice)]).status,
        401
    );
}

#[test]
fn a_session_says_when_it_ends_and_one_that_has_ended_is_a_stranger() {
    let server = Server::start();
    let cookie = cookie(&sign_in(&server, &server.token(), &[]));
    let session = with(&server, "GET", "/session", &[("cookie", &cookie)]).json();
    let left = seconds_left(&server, &session["expires_at"]);
    assert!((43_190..=43_200).contains(&left), "{left}");
    // A cookie of yesterday, made as the server makes it.
    let token = server.token();
    let (id, secret) = token.strip_prefix("hpx_").unwrap().split_once('_').unwrap();
    let of = |expiry: i64| {
        let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret.as_bytes());
        // The secret of the server, which only its own folder holds.
        let kept = std::fs::read_to_string(server.data().join("session-secret")).unwrap();
        let kept = data_encoding::HEXLOWER
            .decode(kept.trim().as_bytes())
            .unwrap();
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &kept);
        let key = aws_lc_rs::hmac::sign(&key, hash.as_ref());
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key.as_ref());
        let name = cookie.split('.').nth(2).unwrap();
        let signed = format!("hapax session v3.{id}.{expiry}.{name}");
        let mac = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
        let mac = data_encoding::HEXLOWER.encode(mac.as_ref());
        let cookie = format!("hapax_session={id}.{expiry}.{name}.{mac}");
        with(&server, "GET", "/session", &[("cookie", &cookie)]).status
    };
    let ends: i64 = cookie.split('.').nth(1).unwrap().parse().unwrap();
    assert_eq!((of(ends), of(ends - 43_201)), (200, 401));
}

#[test]
fn guessing_a_token_at_the_door_is_slowed_down() {
    let server = Server::start();
    let answers: Vec<Answer> = (0..12).map(|_| sign_in(&server, "guess", &[])).collect();
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!((statuses[0], statuses[11]), (401, 429), "{statuses:?}");
    let wait = answers[11].header("retry-after").unwrap();
    assert!((1..=60).contains(&wait.parse::<u64>().unwrap()), "{wait}");
    assert_eq!(
        sign_in(&server, &server.token(), &[]).status,
        204,
        "the owner gets in"
    );
}

#[test]
fn signing_out_takes_the_cookie_back() {
    let server = Server::start();
    let cookie = cookie(&sign_in(&server, &server.token(), &[]));
    let refused = with(&server, "DELETE", "/session", &[("cookie", &cookie)]);
    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    let headers = [("cookie", cookie.as_str()), ("x-hapax-csrf", "1")];
    let out = with(&server, "DELETE", "/session", &headers);
    assert_eq!(out.status, 204);
    assert!(
        out.header("set-cookie")
            .unwrap()
            .starts_with("hapax_session=; Path=/; Max-Age=0")
    );
    assert_eq!(with(&server, "DELETE", "/session", &[]).status, 204);
}

#[test]
fn the_configured_token_signs_in_and_its_sessions_end_with_it() {
    let start = |token: &'static str, folder| {
        Server::start_in(folder, |command| {
            command.env("HAPAX_TOKEN", token);
        })
    };
    let server = start("a-long-configured-token", tempfile::tempdir().unwrap());
    let cookie = cookie(&sign_in(&server, "a-long-configured-token", &[]));
    let session = with(&server, "GET", "/session", &[("cookie", &cookie)]).json();
    assert_eq!(
        (&session["token_id"], &session["role"]),
        (&"HAPAX_TOKEN".into(), &"owner".into())
    );
    let (_, _, folder) = server.stop();
    let server = start("another-configured-token", folder);
    assert_eq!(
        with(&server, "GET", "/session", &[("cookie", &cookie)]).status,
        401
    );
}

#[test]
fn without_tokens_everybody_here_is_signed_in() {
    let server = Server::start_with(|command| {
        command.arg("--insecure-no-auth");
    });
    let session = with(&server, "GET", "/session", &[]).json();
    assert_eq!(
        (&session["auth"], &session["role"]),
        (&"none".into(), &"owner".into())
    );
    assert_eq!(session["token_id"], serde_json::Value::Null);
    let evil = with(
        &server,
        "GET",
        "/session",
        &[("origin", "https://evil.example")],
    );
    assert_eq!(evil.status, 403);
}

#[test]
fn two_nodes_on_postgres_know_the_same_session() {
    let url = crate::postgres::database();
    let start = || {
        Server::start_with(|command| {
            command.args(["--database", &url]).env(
                "HAPAX_SESSION_SECRET",
                "shared by all the nodes of this place",
            );
        })
    };
    let (one, two) = (start(), start());
    let cookie = cookie(&sign_in(&one, &one.token(), &[]));
    let id = with(&two, "GET", "/session", &[("cookie", &cookie)]).json()["token_id"].clone();
    let id = id.as_str().unwrap();
    succeed(&[
        "token",
        "revoke",
        id,
        "--database",
        &url,
        "--data",
        path(&one.data()),
    ]);
    let started = Instant::now();
    while with(&two, "GET", "/session", &[("cookie", &cookie)]).status == 200 {
        assert!(started.elapsed() < Duration::from_secs(3), "it goes on");
    }
}

#[test]
fn a_node_with_another_secret_does_not_know_the_session() {
    let url = crate::postgres::database();
    let start = || {
        Server::start_with(|command| {
            command.args(["--database", &url]);
        })
    };
    let (one, two) = (start(), start());
    let cookie = cookie(&sign_in(&one, &one.token(), &[]));
    let status = |server| with(server, "GET", "/session", &[("cookie", &cookie)]).status;
    assert_eq!((status(&one), status(&two)), (200, 401));
}

#[test]
fn whoever_reads_the_database_can_make_no_session() {
    let server = Server::start();
    let (id, token) = server.mint("default", "owner");
    let cookie = cookie(&sign_in(&server, &token, &[]));
    let (_, value) = cookie.split_once('=').unwrap();
    let (expiry, name) = (
        value.split('.').nth(1).unwrap(),
        value.split('.').nth(2).unwrap(),
    );
    // Everything the database knows of the token.
    let secret = token.rsplit_once('_').unwrap().1;
    let hashes = [secret.as_bytes(), token.as_bytes()].map(<sha2::Sha256 as sha2::Digest>::digest);
    for hash in hashes {
        for label in ["hapax session v2", "hapax session v3"] {
            let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &hash);
            let signed = format!("{label}.{id}.{expiry}.{name}");
            let mac = aws_lc_rs::hmac::sign(&key, signed.as_bytes());
            let mac = data_encoding::HEXLOWER.encode(mac.as_ref());
            let forged = format!("hapax_session={id}.{expiry}.{name}.{mac}");
            assert_eq!(forged.len(), cookie.len(), "it has the form of one");
            let answer = with(&server, "GET", "/session", &[("cookie", &forged)]);
            assert_eq!(answer.status, 401, "{label}");
        }
    }
    assert_eq!(
        with(&server, "GET", "/session", &[("cookie", &cookie)]).status,
        200
    );
}

#[test]
fn a_session_outlives_a_restart_and_not_its_secret() {
    let server = Server::start();
    let cookie = cookie(&sign_in(&server, &server.token(), &[]));
    let status = |server: &Server| with(server, "GET", "/session", &[("cookie", &cookie)]).status;
    let (_, _, folder) = server.stop();
    let server = Server::start_in(folder, |_| {});
    assert_eq!(status(&server), 200);
    let secret = server.data().join("session-secret");
    let (_, _, folder) = server.stop();
    std::fs::remove_file(secret).unwrap();
    let server = Server::start_in(folder, |_| {});
    assert_eq!(status(&server), 401);
}

#[test]
fn a_secret_that_is_too_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = crate::fixture::hapax()
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            path(&folder.path().join("data")),
        ])
        .env("HAPAX_SESSION_SECRET", "short")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("at least 32 characters"), "{said}");
}
