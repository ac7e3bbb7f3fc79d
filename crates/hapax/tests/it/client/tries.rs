//! When the client tries again, with what, and when it gives up.

use std::time::{Duration, Instant, SystemTime};

use hapax::client::Error;
use hapax::core::Key;
use serde_json::json;

use super::script::{Server, Step};
use super::{client, quick};

#[tokio::test]
async fn every_try_sends_the_same_request_under_the_same_key() {
    let steps = [
        Step::say(503, ""),
        Step::Close,
        Step::say(201, r#"{"id":7}"#),
    ];
    let server = Server::start(steps).await;

    let request = client().post(format!("{}/pay?shop=1", server.url));
    let answer = request
        .bearer("s3cret")
        .json(&json!({"amount": 10}))
        .send()
        .await
        .unwrap();

    assert_eq!(
        (answer.status.as_u16(), answer.attempts, answer.replayed),
        (201, 3, false)
    );
    assert_eq!(
        answer.json::<serde_json::Value>().unwrap(),
        json!({"id": 7})
    );
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    for request in &seen {
        assert_eq!(request.key(), answer.key.as_str());
        assert_eq!(request.line, "POST /pay?shop=1 HTTP/1.1");
        assert_eq!(request.body, r#"{"amount":10}"#);
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("authorization"), Some("Bearer s3cret"));
    }
}

#[tokio::test]
async fn an_answer_cut_in_the_middle_is_asked_for_again() {
    let server = Server::start([Step::Cut, Step::say(201, "whole")]).await;
    let answer = client().put(&server.url).body("x").send().await.unwrap();
    assert_eq!((&answer.body[..], answer.attempts), (&b"whole"[..], 2));
    let seen = server.seen();
    assert_eq!(seen[0].key(), seen[1].key());
}

#[tokio::test]
async fn every_status_that_may_pass_is_tried_again() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let server = Server::start([Step::say(status, ""), Step::say(200, "")]).await;
        let answer = client().patch(&server.url).send().await.unwrap();
        assert_eq!(answer.attempts, 2, "{status}");
    }
}

#[tokio::test]
async fn a_key_in_progress_is_waited_for() {
    let busy = Step::refuse(409, "IDEMPOTENCY_IN_PROGRESS", &json!({"key": "k"}));
    let done = Step::say(201, "done").with("Idempotency-Replayed", "true");
    let server = Server::start([busy.clone(), busy, done]).await;
    let answer = client().post(&server.url).send().await.unwrap();
    assert_eq!((answer.attempts, answer.replayed), (3, true));
}

#[tokio::test]
async fn a_try_that_takes_too_long_is_ended_and_made_again() {
    let server = Server::start([Step::Hang, Step::say(200, ""), Step::say(200, "")]).await;
    let request = client()
        .post(&server.url)
        .timeout_per_try(Duration::from_millis(300));
    assert!(request.send().await.unwrap().attempts > 1);
}

#[tokio::test]
async fn the_tries_end_at_their_number_and_the_last_refusal_is_told() {
    let busy = || Step::refuse(503, "store_unavailable", &json!({"reason": "down"}));
    let server = Server::start([busy(), busy(), busy()]).await;
    let error = client()
        .post(&server.url)
        .attempts(2)
        .send()
        .await
        .unwrap_err();

    assert_eq!((error.attempts(), server.seen().len()), (2, 2));
    assert!(error.is_transient());
    assert_eq!(error.status().unwrap(), 503);
    assert_eq!(error.key().unwrap().as_str(), server.seen()[0].key());
    let Error::Refused { refusal, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(refusal.code.as_deref(), Some("store_unavailable"));
    assert_eq!(refusal.details["reason"], "down");
    assert_eq!(refusal.trace_id.as_deref(), Some("t1"));
}

#[tokio::test]
async fn nobody_there_is_told_with_its_cause_and_the_key() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let key = Key::new("order-7").unwrap();
    let request = client()
        .post(format!("http://{free}/?token=s3cret"))
        .key(key);
    let error = request.attempts(3).send().await.unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { attempts: 3, .. }),
        "{error:?}"
    );
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(
        text.contains("refused") && text.contains("order-7"),
        "{text}"
    );
    assert!(!format!("{error:?}").contains("s3cret"));
}

#[tokio::test]
async fn the_deadline_ends_the_tries() {
    let server = Server::start(vec![Step::Hang; 4]).await;
    let request = client()
        .post(&server.url)
        .deadline(Duration::from_millis(500));
    let error = request.send().await.unwrap_err();
    let Error::DeadlineExceeded {
        attempts: 1,
        last: Some(last),
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert!(matches!(**last, Error::Unreachable { .. }));
    assert!(error.is_transient());
    assert_eq!(error.key().unwrap().as_str(), server.seen()[0].key());
}

#[tokio::test]
async fn with_no_time_at_all_nothing_is_sent() {
    let server = Server::start([Step::say(200, "")]).await;
    let error = client()
        .post(&server.url)
        .deadline(Duration::ZERO)
        .send()
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::DeadlineExceeded {
                attempts: 0,
                last: None,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_retry_after_beyond_the_deadline_is_not_waited_for() {
    let in_an_hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
    for after in ["3600", &in_an_hour] {
        let busy = Step::say(503, "").with("Retry-After", after);
        let server = Server::start([busy, Step::say(200, "")]).await;
        let begun = Instant::now();
        let error = client().post(&server.url).send().await.unwrap_err();
        assert!(
            matches!(error, Error::DeadlineExceeded { attempts: 1, .. }),
            "{error:?}"
        );
        assert_eq!(error.status().unwrap(), 503);
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the default deadline is 60 s"
        );
    }
}

#[tokio::test]
async fn the_next_try_comes_no_sooner_than_retry_after() {
    let busy = Step::say(429, "").with("Retry-After", "1");
    let server = Server::start([busy, Step::say(200, "")]).await;
    let begun = Instant::now();
    assert_eq!(client().post(&server.url).send().await.unwrap().attempts, 2);
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn an_answer_over_the_limit_is_dropped() {
    let small = quick().response_bytes_max(2048).build().unwrap();
    for step in [Step::say(200, &"x".repeat(2049)), Step::Stream(3)] {
        let server = Server::start([step]).await;
        let error = small.post(&server.url).send().await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::TooLarge {
                    attempts: 1,
                    bytes_max: 2048,
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(!error.is_transient(), "the next answer would be as large");
    }
    for step in [Step::say(200, &"x".repeat(2048)), Step::Stream(2)] {
        let server = Server::start([step]).await;
        assert_eq!(
            small.post(&server.url).send().await.unwrap().body.len(),
            2048
        );
    }
}
