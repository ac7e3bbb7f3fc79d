//! What is not tried again, what it tells, and what it never tells.

use hapax::client::{Error, OnConflict, Resolution};
use hapax::core::Key;
use serde_json::json;

use super::client;
use super::script::{Server, Step};

fn conflict() -> Step {
    let details = json!({
        "original_key": "order-7",
        "current_hash": "aaaa",
        "original_hash": "bbbb",
        "diff_summary": ["amount: '10' → '99'", "note: 'a' → 'b'"],
        "original_timestamp": "2026-01-01T00:00:00Z",
        "retry_after": 3600,
    });
    Step::refuse(409, "IDEMPOTENCY_CONFLICT", &details)
        .with("X-Idempotency-Conflict", "body-mismatch")
}

fn order() -> Key {
    Key::new("order-7").unwrap()
}

#[tokio::test]
async fn a_refusal_is_not_tried_again() {
    for status in [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 501] {
        let server = Server::start([Step::say(status, "no"), Step::say(200, "")]).await;
        let error = client().post(&server.url).send().await.unwrap_err();
        assert!(
            matches!(error, Error::Refused { attempts: 1, .. }),
            "{status}: {error:?}"
        );
        assert!(!error.is_transient(), "{status}");
        assert_eq!(error.refusal().unwrap().body, "no");
        assert_eq!(server.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_conflict_is_not_tried_again_and_says_how_the_two_differ() {
    let server = Server::start([conflict(), Step::say(200, "")]).await;
    let error = client()
        .post(&server.url)
        .key(order())
        .send()
        .await
        .unwrap_err();

    assert!(!error.is_transient());
    assert_eq!(server.seen().len(), 1);
    let text = error.to_string();
    assert_eq!(
        text,
        "the key order-7 stands for another request (amount: '10' → '99', and 1 more)"
    );
    let Error::Conflict {
        conflict,
        attempts: 1,
        ..
    } = error
    else {
        panic!("{error:?}")
    };
    assert_eq!(
        conflict.diff_summary,
        ["amount: '10' → '99'", "note: 'a' → 'b'"]
    );
    assert_eq!(conflict.original_key.as_deref(), Some("order-7"));
    assert_eq!(conflict.current_hash.as_deref(), Some("aaaa"));
    assert_eq!(conflict.original_hash.as_deref(), Some("bbbb"));
    assert_eq!(
        conflict.original_timestamp.as_deref(),
        Some("2026-01-01T00:00:00Z")
    );
    assert_eq!(conflict.retry_after.unwrap().as_secs(), 3600);
}

#[tokio::test]
async fn in_doubt_is_its_own_case_and_not_tried_again() {
    let doubt = Step::refuse(
        409,
        "IDEMPOTENCY_IN_DOUBT",
        &json!({"reason": "runner_died"}),
    );
    let server = Server::start([doubt, Step::say(200, "")]).await;
    let error = client().post(&server.url).send().await.unwrap_err();
    assert!(!error.is_transient());
    assert_eq!(server.seen().len(), 1);
    let Error::InDoubt { refusal, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(refusal.details["reason"], "runner_died");
}

#[tokio::test]
async fn a_new_key_after_a_conflict_is_sent_only_when_asked_for() {
    let server = Server::start([conflict(), Step::say(503, ""), Step::say(201, "")]).await;
    let request = client().post(&server.url).key(order());
    let answer = request
        .on_conflict(OnConflict::RetryWithNewKey)
        .send()
        .await
        .unwrap();

    let keys: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.key().to_owned())
        .collect();
    assert_eq!(keys, ["order-7", answer.key.as_str(), answer.key.as_str()]);
    assert_ne!(keys[0], keys[1]);
    assert_eq!(answer.attempts, 3);
    assert_eq!(answer.conflict.unwrap().key, order());
}

#[tokio::test]
async fn a_second_conflict_ends_it() {
    let server = Server::start([conflict(), conflict(), Step::say(201, "")]).await;
    let request = client().post(&server.url).key(order());
    let error = request
        .on_conflict(OnConflict::RetryWithNewKey)
        .send()
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Conflict { attempts: 2, .. }),
        "{error:?}"
    );
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_callback_sees_the_conflict_and_says_which_key_is_next() {
    let server = Server::start([conflict(), Step::say(201, "")]).await;
    let ask = OnConflict::ask(|conflict| {
        assert_eq!(conflict.diff_summary.len(), 2);
        Resolution::RetryWithKey(Key::new("order-7b").unwrap())
    });
    let answer = client()
        .post(&server.url)
        .key(order())
        .on_conflict(ask)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.key.as_str(), "order-7b");
    assert_eq!(server.seen()[1].key(), "order-7b");

    let server = Server::start([conflict(), Step::say(201, "")]).await;
    let ask = OnConflict::ask(|_| Resolution::Fail);
    let error = client()
        .post(&server.url)
        .on_conflict(ask)
        .send()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_key_and_body() {
    for status in [307, 308] {
        let server = Server::start([
            Step::say(status, "").with("Location", "/there"),
            Step::say(201, ""),
        ])
        .await;
        let answer = client()
            .post(format!("{}/here", server.url))
            .body("pay")
            .send()
            .await
            .unwrap();
        assert_eq!(answer.attempts, 1);
        let seen = server.seen();
        assert_eq!(seen[1].line, "POST /there HTTP/1.1");
        assert_eq!((seen[1].key(), &seen[1].body[..]), (seen[0].key(), "pay"));
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_told_and_not_followed() {
    for status in [301, 302, 307, 308] {
        let elsewhere = Server::start([Step::say(200, "")]).await;
        let redirect = Step::say(status, "").with("Location", &elsewhere.url);
        let server = Server::start([redirect]).await;
        let error = client()
            .post(&server.url)
            .bearer("s3cret")
            .body("pay")
            .send()
            .await
            .unwrap_err();
        let Error::Redirected {
            location,
            attempts: 1,
            ..
        } = &error
        else {
            panic!("{error:?}")
        };
        assert_eq!(location.as_ref(), Some(&elsewhere.url));
        assert!(!error.is_transient());
        assert!(elsewhere.seen().is_empty(), "{status}");
    }
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let round = Step::say(308, "").with("Location", "/");
    let server = Server::start(vec![round; 20]).await;
    let error = client().post(&server.url).send().await.unwrap_err();
    assert!(matches!(error, Error::Redirected { .. }), "{error:?}");
    assert_eq!(server.seen().len(), 6, "the first and five redirects");
}

#[tokio::test]
async fn see_other_is_an_answer() {
    let server = Server::start([Step::say(303, "").with("Location", "/orders/7")]).await;
    let answer = client().post(&server.url).send().await.unwrap();
    assert_eq!(answer.headers["location"], "/orders/7");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn the_token_shows_nowhere() {
    let server = Server::start([Step::say(401, ""), Step::Close]).await;
    let request = |url: &str| {
        client()
            .post(url)
            .bearer("s3cret")
            .header("cookie", "s3cret")
    };
    let with_credentials = server.url.replace("http://", "http://user:s3cret@");
    let shown = format!(
        "{:?}",
        request(&format!("{with_credentials}/?token=s3cret"))
    );
    assert!(
        shown.contains("authorization") && !shown.contains("s3cret"),
        "{shown}"
    );

    for _ in 0..2 {
        let error = request(&server.url).attempts(1).send().await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
    let malformed = client()
        .post(&server.url)
        .bearer("s3cret\n")
        .send()
        .await
        .unwrap_err();
    assert!(!format!("{malformed} {malformed:?}").contains("s3cret"));
    assert_eq!(
        server.seen()[0].header("authorization"),
        Some("Bearer s3cret")
    );
}
