//! Another caller who makes a token, or has one of his own, and would like to be somebody else by its subject.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::both::{Store, on_both_stores};
use crate::fixture::path;
use crate::http::Answer;
use crate::proxy::{Proxied, is_replay};

const SECRET: &str = "a secret of more than thirty-two bytes";

/// A proxy whose callers are the subjects of their tokens; keys are derived on `/orders`.
fn proxied(store: Store) -> (Proxied, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, SECRET).unwrap();
    let config = format!(
        "[proxy]\nprincipal = 'jwt:sub'\njwt_algorithms = ['HS256']\njwt_key_file = '{}'\n\
         [[routes]]\npattern = 'POST:orders'\nderive = true\n\
         [[routes]]\npattern = 'POST:webhooks'\nprincipal_headers = ['authorization']\n\
         [[routes]]\npattern = '*:*'\n",
        path(&file)
    );
    (Proxied::on(&config, store.database()), folder)
}

fn signed(secret: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    format!(
        "Bearer {}",
        encode(&Header::default(), claims, &key).unwrap()
    )
}

fn claims(subject: &str, seconds: i64) -> Value {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = i64::try_from(since.as_secs()).unwrap();
    json!({"sub": subject, "exp": now + seconds})
}

fn token(subject: &str, seconds: i64) -> String {
    signed(SECRET, &claims(subject, seconds))
}

fn order(proxied: &Proxied, authorization: &str) -> Answer {
    let headers = [("authorization", authorization)];
    proxied.send("POST", "/orders", &headers, b"{}")
}

fn a_replay_survives_a_new_token_of_the_same_subject_and_no_other(store: Store) {
    let (proxied, _folder) = proxied(store);
    let (old, new) = (token("ann", 60), token("ann", 600));
    assert_ne!(old, new);
    assert_eq!(order(&proxied, &old).text(), "call 1");
    let again = order(&proxied, &new);
    assert!(is_replay(&again) && again.text() == "call 1");
    assert_eq!(order(&proxied, &token("bob", 60)).text(), "call 2");
    let keyed = |authorization: &str| {
        let headers = [("idempotency-key", "k"), ("authorization", authorization)];
        proxied.send("POST", "/pay", &headers, b"{}")
    };
    assert_eq!(keyed(&old).text(), "call 3");
    assert!(is_replay(&keyed(&new)));
    assert_eq!(
        keyed(&token("bob", 60)).refusal(),
        (409, "IDEMPOTENCY_CONFLICT".to_owned())
    );
    assert_eq!(proxied.upstream.count(), 3);
}

fn only_a_verified_token_says_who_somebody_is(store: Store) {
    let (proxied, _folder) = proxied(store);
    let good = token("ann", 60);
    assert_eq!(order(&proxied, &good).status, 201);
    let (message, _) = good.rsplit_once('.').unwrap();
    let (_, body) = message.split_once('.').unwrap();
    for forged in [
        &signed(
            "another secret of thirty-two bytes or so",
            &claims("ann", 60),
        ),
        &token("ann", -3600),
        // {"alg":"none"}
        &format!("Bearer eyJhbGciOiJub25lIn0.{body}."),
        &format!("{message}."),
        "Bearer ann",
        "Basic YW5uOng=",
    ] {
        let answer = order(&proxied, forged);
        assert_eq!(
            answer.refusal(),
            (401, "unauthorized".to_owned()),
            "{forged}"
        );
        let keyed = [("idempotency-key", "k"), ("authorization", forged)];
        assert_eq!(proxied.send("POST", "/pay", &keyed, b"{}").status, 401);
    }
    let two = [
        ("authorization", good.as_str()),
        ("authorization", good.as_str()),
    ];
    assert_eq!(proxied.send("POST", "/orders", &two, b"{}").status, 401);
    assert_eq!(proxied.upstream.count(), 1);
    assert!(is_replay(&order(&proxied, &token("ann", 600))));
}

fn who_has_no_token_is_nobody_and_what_is_not_keyed_passes(store: Store) {
    let (proxied, _folder) = proxied(store);
    assert_eq!(proxied.send("POST", "/login", &[], b"{}").status, 201);
    let opaque = [("authorization", "Bearer opaque")];
    assert_eq!(proxied.send("POST", "/login", &opaque, b"{}").status, 201);
    let with_cookie = proxied.send("POST", "/orders", &[("cookie", "sid=ann")], b"{}");
    assert_eq!(
        with_cookie.refusal(),
        (400, "principal_required".to_owned())
    );
    assert_eq!(
        with_cookie.json()["error"]["details"]["setting"],
        "principal"
    );
    // A route of its own mind takes any credential.
    let keyed = [("idempotency-key", "k"), opaque[0]];
    assert_eq!(proxied.send("POST", "/webhooks", &keyed, b"{}").status, 201);
    assert!(is_replay(&proxied.send("POST", "/webhooks", &keyed, b"{}")));
}

fn a_token_without_a_subject_is_a_caller_of_its_own(store: Store) {
    let (proxied, _folder) = proxied(store);
    let nameless = |seconds: i64| {
        let mut claims = claims("", seconds);
        claims.as_object_mut().unwrap().remove("sub");
        signed(SECRET, &claims)
    };
    let (one, two) = (nameless(60), nameless(600));
    assert_eq!(order(&proxied, &one).text(), "call 1");
    assert_eq!(order(&proxied, &two).text(), "call 2");
    assert!(is_replay(&order(&proxied, &one)));
}

on_both_stores!(
    a_replay_survives_a_new_token_of_the_same_subject_and_no_other,
    only_a_verified_token_says_who_somebody_is,
    who_has_no_token_is_nobody_and_what_is_not_keyed_passes,
    a_token_without_a_subject_is_a_caller_of_its_own,
);
