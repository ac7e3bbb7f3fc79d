//! The tenant from a claim of a bearer JWT: who gets in, as whom, and what a start refuses.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};

use super::upstream::Upstream;
use super::{Proxied, is_replay};
use crate::fixture::{Server, hapax, path};
use crate::http::Answer;

const SECRET: &str = "a secret of more than thirty-two bytes";
const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";
const CONFIG: &str = "log = 'debug'\n[proxy]\ntenant_claim = 'tenant_id'\njwt_algorithms = ['HS256']\n\
                      jwt_issuer = 'me'\njwt_audience = 'shop'\n";

/// With the secret in the variable.
fn proxied() -> Proxied {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let proxy = Server::proxy_in(folder, |command| {
        command.env("HAPAX_PROXY_JWT_SECRET", SECRET);
        command.args(["--upstream", &upstream.url(), "--config", path(&file)]);
    });
    Proxied {
        upstream,
        proxy: Some(proxy),
        config: CONFIG.to_owned(),
        database: None,
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs()
}

fn signed_by(secret: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    format!(
        "Bearer {}",
        encode(&Header::default(), claims, &key).unwrap()
    )
}

/// A token of this subject that is good for so long.
fn token(tenant: &str, subject: &str, seconds: u64) -> String {
    let claims = json!({
        "iss": "me", "aud": "shop", "sub": subject, "exp": now() + seconds, "tenant_id": tenant,
    });
    signed_by(SECRET, &claims)
}

fn post(proxied: &Proxied, authorization: &str) -> Answer {
    let headers = [("idempotency-key", "k"), ("authorization", authorization)];
    proxied.send("POST", "/a", &headers, b"{}")
}

#[test]
fn a_claim_names_the_tenant_and_the_token_goes_on_untouched() {
    let proxied = proxied();
    let (one, two) = (token(ONE, "alice", 60), token(TWO, "alice", 60));
    assert_eq!(post(&proxied, &one).text(), "call 1");
    assert_eq!(post(&proxied, &two).text(), "call 2", "another tenant");
    assert!(is_replay(&post(&proxied, &one)) && is_replay(&post(&proxied, &two)));
    let calls = proxied.upstream.calls();
    assert_eq!(calls[0].header("authorization"), Some(one.as_str()));
    assert_eq!(calls.len(), 2);
}

#[test]
fn a_refreshed_token_gets_the_replay_and_another_subject_does_not() {
    let proxied = proxied();
    let (old, new) = (token(ONE, "alice", 60), token(ONE, "alice", 600));
    assert_ne!(old, new);
    assert_eq!(post(&proxied, &old).status, 201);
    let again = post(&proxied, &new);
    assert_eq!((again.status, again.text().as_str()), (201, "call 1"));
    assert!(is_replay(&again));
    let stranger = post(&proxied, &token(ONE, "bob", 60));
    assert_eq!(stranger.refusal(), (409, "IDEMPOTENCY_CONFLICT".to_owned()));
    assert_eq!(proxied.upstream.count(), 1);
}

#[test]
fn without_a_subject_only_the_same_token_gets_the_replay() {
    let proxied = proxied();
    let of = |seconds: u64| {
        let exp = now() + seconds;
        let claims = json!({"iss": "me", "aud": "shop", "exp": exp, "tenant_id": ONE});
        signed_by(SECRET, &claims)
    };
    let (first, other) = (of(60), of(600));
    assert_eq!(post(&proxied, &first).status, 201);
    assert!(is_replay(&post(&proxied, &first)));
    assert_eq!(post(&proxied, &other).status, 409);
}

#[test]
fn writing_without_a_valid_token_is_a_401_and_reading_passes() {
    let proxied = proxied();
    let claims = |over: Value| {
        let mut claims = json!({"iss": "me", "aud": "shop", "exp": now() + 60, "tenant_id": ONE});
        for (name, value) in over.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    };
    let good = signed_by(SECRET, &claims(json!({})));
    let (message, _) = good.rsplit_once('.').unwrap();
    let (_, body) = message.split_once('.').unwrap();
    // {"alg":"none"}
    let unsigned = format!("Bearer eyJhbGciOiJub25lIn0.{body}.");
    for authorization in [
        "Basic eDp5",
        "Bearer x",
        &unsigned,
        &format!("{message}."),
        &signed_by(
            "another secret of thirty-two bytes or so",
            &claims(json!({})),
        ),
        &signed_by(SECRET, &claims(json!({"exp": now() - 3600}))),
        &signed_by(SECRET, &claims(json!({"nbf": now() + 3600}))),
        &signed_by(SECRET, &claims(json!({"iss": "you"}))),
        &signed_by(SECRET, &claims(json!({"aud": "other"}))),
    ] {
        let answer = post(&proxied, authorization);
        assert_eq!(
            answer.refusal(),
            (401, "unauthorized".to_owned()),
            "{authorization}"
        );
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = proxied.send(method, "/a", &[], b"");
        assert_eq!(
            answer.refusal(),
            (401, "unauthorized".to_owned()),
            "{method}"
        );
    }
    for wrong in [json!({"tenant_id": "acme"}), json!({"tenant_id": null})] {
        let answer = post(&proxied, &signed_by(SECRET, &claims(wrong)));
        assert_eq!(answer.refusal(), (400, "tenant_required".to_owned()));
        assert_eq!(answer.json()["error"]["details"]["claim"], "tenant_id");
    }
    assert_eq!(proxied.upstream.count(), 0);
    assert_eq!(proxied.send("GET", "/a", &[], b"").status, 201);
    assert_eq!(post(&proxied, &good).status, 201);
    let log = proxied.proxy.unwrap().log();
    assert!(log.contains("without a valid token"), "{log}");
    assert!(!log.contains(SECRET) && !log.contains(body), "{log}");
}

#[test]
fn a_secret_may_be_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let proxied = Proxied::with(&format!("{CONFIG}jwt_key_file = '{}'\n", path(&file)));
    assert_eq!(post(&proxied, &token(ONE, "alice", 60)).status, 201);
}

#[test]
fn what_says_too_little_about_tokens_does_not_start() {
    for (config, secret, expected) in [
        (CONFIG.to_owned(), "", "set HAPAX_PROXY_JWT_SECRET"),
        (CONFIG.to_owned(), "hunter2", "32 bytes"),
        (CONFIG.replace("HS256", "RS256"), SECRET, "jwt_key_file"),
        (CONFIG.replace("HS256", "none"), SECRET, "it takes HS256"),
        (
            format!("{CONFIG}tenant_header = 'x-tenant-id'\n"),
            SECRET,
            "keep the one",
        ),
        (
            "[proxy]\njwt_algorithms = ['HS256']\n".to_owned(),
            SECRET,
            "set tenant_claim",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("c.toml"), folder.path().join("data"));
        std::fs::write(&file, config).unwrap();
        let output = hapax()
            .args(["proxy", "--listen", "127.0.0.1:0", "--data", path(&data)])
            .args(["--upstream", "http://127.0.0.1:1", "--config", path(&file)])
            .env("HAPAX_PROXY_JWT_SECRET", secret)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(
            !said.contains("hunter2") && !said.contains(SECRET),
            "{said}"
        );
        assert!(!data.exists(), "nothing is left behind");
    }
}
