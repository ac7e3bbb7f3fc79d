//! Answers that are none: kept with what was said, and nothing is written of them.

use hapax_effects::enrich::testing::Reply;
use serde_json::json;

use super::{House, statuses};
use crate::both::{Store, on_both_stores};

on_both_stores!(
    a_bad_answer_is_a_parse_error_and_is_paid_for_once,
    a_bad_answer_in_a_batch_leaves_its_entry_alone,
    what_stands_around_an_answer_is_taken_off_and_an_unknown_topic_is_other,
);

fn bad() -> Vec<(Reply, &'static str)> {
    let whole = r#"{"topic_primary":"food","topic_primary_confidence":0.9,"keywords":["a","b","c","d","e"],"gist":"g","flags":{}}"#;
    let not = |from: &str, to: &str| Reply::Text(whole.replace(from, to));
    vec![
        (Reply::Null, "content_null"),
        (Reply::NoChoices, "no_choices"),
        (Reply::Length, "cut_off"),
        (Reply::Declined, "declined"),
        (Reply::FourKeywords, "too_few_keywords"),
        (Reply::WrongType, "wrong_type"),
        (Reply::Text(String::new()), "empty"),
        (Reply::Text("no".to_owned()), "bad_json"),
        (Reply::Text(whole[..40].to_owned()), "bad_json"),
        (Reply::Text("[1]".to_owned()), "not_an_object"),
        (not("\"gist\":\"g\",", ""), "missing_field"),
        (not("\"g\"", "\" \""), "empty_gist"),
        (
            not("[\"a\",\"b\",\"c\",\"d\",\"e\"]", "\"a\""),
            "too_few_keywords",
        ),
    ]
}

fn a_bad_answer_is_a_parse_error_and_is_paid_for_once(store: Store) {
    let house = House::new(store);
    for (number, (reply, reason)) in bad().into_iter().enumerate() {
        let marker = format!("marker-{number}-end");
        house.provider.when_text_has(&marker, reply);
        let body = json!({"clean_text": format!("Tea is made of leaves. {marker}")});
        let before = house.provider.counts().chat;
        for _ in 0..2 {
            let answer = house.ask(&body);
            assert_eq!(
                answer.refusal(),
                (502, "parse_error".to_owned()),
                "{reason}"
            );
            let details = &answer.json()["error"]["details"];
            assert_eq!(details["reason"], reason, "{details}");
            assert!(details["raw"].is_string(), "{details}");
        }
        assert_eq!(house.provider.counts().chat, before + 1, "{reason}");
    }
}

fn a_bad_answer_in_a_batch_leaves_its_entry_alone(store: Store) {
    let house = House::new(store);
    let mut items = Vec::new();
    for (number, (reply, _)) in bad().into_iter().enumerate() {
        let marker = format!("marker-{number}-end");
        house.provider.when_text_has(&marker, reply);
        items.push(json!({"entry_id": house.entry(&format!("Tea and leaves. {marker}"))}));
    }
    items.push(json!({"entry_id": house.entry("Tea and leaves, as they should be.")}));
    let before: Vec<_> = items
        .iter()
        .map(|item| house.pull(item["entry_id"].as_i64().unwrap()))
        .collect();
    let ended = house.ended(&house.batch(&json!(items)));
    assert_eq!(ended["status"], "completed", "{ended}");
    let good = statuses(&ended).pop();
    assert_eq!(good, Some("completed"));
    for (((item, before), (_, reason)), shown) in items
        .iter()
        .zip(&before)
        .zip(bad())
        .zip(ended["items"].as_array().unwrap())
    {
        assert_eq!(shown["status"], "parse_error", "{shown}");
        assert!(
            shown["error"].as_str().unwrap().starts_with(reason),
            "{shown}"
        );
        assert!(
            shown["raw"].is_string() && shown["result"].is_null(),
            "{shown}"
        );
        assert_eq!(house.pull(item["entry_id"].as_i64().unwrap()), *before);
    }
    let last = items.last().unwrap()["entry_id"].as_i64().unwrap();
    assert_eq!(house.pull(last)["enrichment_status"], "completed");
}

fn what_stands_around_an_answer_is_taken_off_and_an_unknown_topic_is_other(store: Store) {
    let house = House::new(store);
    let replies = [
        (Reply::Fenced, None),
        (Reply::Prose, None),
        (Reply::UnknownTopic, Some("astrology-of-cats")),
    ];
    let mut items = Vec::new();
    for (number, (reply, said)) in replies.iter().enumerate() {
        let marker = format!("marker-{number}-end");
        house.provider.when_text_has(&marker, reply.clone());
        let text = format!("Tea is made of leaves. {marker}");
        let answer = house.ask(&json!({"clean_text": text}));
        assert_eq!(answer.status, 200, "{reply:?}: {}", answer.text());
        assert_eq!(answer.json()["topic_said"].as_str(), *said);
        if said.is_some() {
            assert_eq!(answer.json()["topic_primary"], "other");
        }
        items.push(json!({"entry_id": house.entry(&format!("{text} In a batch."))}));
    }
    let ended = house.ended(&house.batch(&json!(items)));
    assert_eq!(statuses(&ended), ["completed"; 3], "{ended}");
    for (item, (reply, said)) in items.iter().zip(&replies) {
        let row = house.pull(item["entry_id"].as_i64().unwrap());
        assert_eq!(
            row["metadata"]["t1"]["topic_said"].as_str(),
            *said,
            "{reply:?}: {row}"
        );
        assert_eq!(row["topic_primary"] == "other", said.is_some(), "{row}");
    }
}
