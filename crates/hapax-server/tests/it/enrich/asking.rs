//! One text while the caller waits.

use std::sync::Barrier;

use hapax_effects::enrich::testing::{Endpoint, Reply};
use serde_json::json;

use super::House;
use crate::both::{Store, on_both_stores};
use crate::fixture::Server;

on_both_stores!(
    the_same_text_is_paid_for_once,
    twenty_at_once_pay_once,
    a_provider_that_fails_is_told_as_it_failed_and_asked_again_by_the_next,
    a_kill_after_the_answer_loses_nothing,
);

fn the_same_text_is_paid_for_once(store: Store) {
    let house = House::new(store);
    let body = json!({
        "title": "Tea", "author": "Ada", "content_type": "note",
        "clean_text": "Tea is made of leaves and water, and of patience above all.",
    });
    let first = house.ask(&body);
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(first.header("idempotency-replayed"), None);
    let said = first.json();
    assert!(said["topic_primary"].is_string() && said["topic_primary_confidence"].is_number());
    assert!(said["topic_secondary"].is_null() && said["topic_secondary_confidence"].is_null());
    assert!((5..=12).contains(&said["keywords"].as_array().unwrap().len()));
    assert!(said["gist"].is_string() && said["flags"].is_object());
    assert_eq!(said["clean_word_count"], 12);
    assert_eq!(said["low_signal"], false);
    assert!(said["quality_score"].is_number() && said["retrieval_excerpt"].is_string());
    assert_eq!(
        (
            &said["model"],
            &said["prompt_version"],
            &said["prompt_mode"]
        ),
        (&json!("t1-default"), &json!("t1-v2"), &json!("whole"))
    );
    let again = house.ask(&body);
    assert_eq!((again.status, again.json()), (200, said.clone()));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(house.provider.counts().chat, 1);
    let house = house.restarted(|_| {});
    assert_eq!(house.ask(&body).json(), said);
    assert_eq!(house.provider.counts().chat, 1);
    let mut other = body.clone();
    other["title"] = json!("Coffee");
    assert_eq!(house.ask(&other).status, 200);
    assert_eq!(house.provider.counts().chat, 2);
    let mut forced = body.clone();
    forced["force"] = json!(true);
    assert_eq!(house.ask(&forced).status, 200);
    assert_eq!(house.provider.counts().chat, 3);
    assert_eq!(house.ask(&body).json(), said);
    assert_eq!(house.provider.counts().chat, 3);
}

fn twenty_at_once_pay_once(store: Store) {
    let house = House::new(store);
    let barrier = Barrier::new(20);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    house.ask(&json!({"clean_text": "Tea is made of leaves."}))
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json(), answers[0].json());
    }
    assert_eq!(house.provider.counts().chat, 1);
}

fn a_provider_that_fails_is_told_as_it_failed_and_asked_again_by_the_next(store: Store) {
    let house = House::new(store);
    let body = json!({"clean_text": "Tea is made of leaves."});
    house.provider.next(Endpoint::Chat, Reply::RateLimited(7));
    let limited = house.ask(&body);
    assert_eq!(limited.refusal(), (429, "rate_limited".to_owned()));
    assert_eq!(limited.header("retry-after"), Some("7"));
    house.provider.next(Endpoint::Chat, Reply::Status(400));
    let refused = house.ask(&body);
    assert_eq!(refused.refusal(), (502, "downstream_failed".to_owned()));
    for _ in 0..3 {
        house.provider.next(Endpoint::Chat, Reply::Status(503));
    }
    let away = house.ask(&body);
    assert_eq!(away.refusal(), (503, "llm_unavailable".to_owned()));
    assert!(away.header("retry-after").is_some());
    house.provider.goes_down();
    let down = house.ask(&body);
    assert_eq!(down.refusal(), (503, "llm_unavailable".to_owned()));
    house.provider.comes_back();
    assert_eq!(house.ask(&body).status, 200);
    assert_eq!(house.provider.counts().chat_answered, 1);
}

/// Of a death before the answer is kept nobody can say more than that it was asked. After that nothing is asked again.
fn a_kill_after_the_answer_loses_nothing(store: Store) {
    let mut house = House::new(store);
    let mut deaths = 0;
    for write in 1..=16 {
        house = house.restarted(|command| {
            command.env("HAPAX_TEST_ABORT_AFTER", write.to_string());
        });
        let text = format!("Tea number {write} is made of leaves.");
        let body = json!({ "clean_text": text }).to_string();
        let bearer = format!("Bearer {}", house.token());
        let headers = [("authorization", bearer.as_str())];
        let asked = (
            house.address,
            "POST",
            "/enrich/t1",
            &headers,
            body.as_bytes(),
        );
        let answer = crate::http::try_request(asked.0, asked.1, asked.2, asked.3, asked.4);
        deaths += usize::from(answer.is_none());
        let paid = house.provider.counts().chat_answered;
        house = house.restarted(|_| {});
        let again = house.enriched(&text);
        assert!(again["gist"].is_string());
        let now = house.provider.counts().chat_answered;
        assert!(now <= paid + 1, "write {write}");
        assert!(house.provider.answers_max() <= 1, "write {write}");
    }
    assert!(deaths >= 10, "{deaths}");
}

#[test]
fn what_is_no_text_and_what_is_not_configured_is_refused() {
    let server = Server::start();
    let text = json!({"clean_text": "Tea."}).to_string();
    let items = json!({"items": [{"clean_text": "Tea."}]}).to_string();
    for (path, body) in [("/enrich/t1", &text), ("/enrich/t1/batch", &items)] {
        let answer = server.owner("POST", path, body);
        assert_eq!(answer.refusal(), (503, "llm_not_configured".to_owned()));
    }
    for body in [
        json!({}),
        json!({"clean_text": "  \n"}),
        json!({"clean_text": 7}),
        json!({"clean_text": "Tea.", "extra": 1}),
    ] {
        let answer = server.owner("POST", "/enrich/t1", &body.to_string());
        assert_eq!(
            answer.refusal(),
            (400, "schema_validation_failed".to_owned()),
            "{body}"
        );
    }
    let (_, viewer) = server.mint("00000000-0000-0000-0000-000000000000", "viewer");
    let answer = server.bearing(&viewer, "POST", "/enrich/t1", &text);
    assert_eq!(answer.refusal(), (403, "forbidden".to_owned()));
    let answer = server.bearing(&viewer, "GET", "/status/t1/batch", "");
    assert_eq!(
        (answer.status, answer.json()["items"].clone()),
        (200, json!([]))
    );
}
