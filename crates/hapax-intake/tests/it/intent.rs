//! Packets, ids, plans and action keys against the shared vectors.

use hapax_core::canonical::DEPTH_MAX;
use hapax_intake::intent::{
    Origin, Packet, Plan, Policy, Project, Projects, Word, Words, Zone, plan,
};
use serde_json::{Value, json};

use crate::{list, moment, paths, refused_as, text, vectors};

fn cases() -> Value {
    vectors(include_str!("../../../../spec/vectors/intents.json"))
}

fn packet(text: &str) -> Packet {
    Packet::read(text.as_bytes()).unwrap()
}

#[test]
fn packets_have_the_keys_ids_and_plans_of_the_vectors() {
    let vectors = cases();
    let now = moment(text(&vectors["now"]));
    for case in list(&vectors["cases"]) {
        let name = &case["name"];
        for spelling in list(&case["texts"]) {
            let packet = packet(text(spelling));
            let origin = Origin::of(text(&case["tenant"]).parse().unwrap(), &packet);
            assert_eq!(case["idempotency_key"], packet.key(), "{name}");
            assert_eq!(case["source"], packet.source.as_str(), "{name}");
            assert_eq!(
                case["receipt_id"],
                origin.receipt_id().to_string(),
                "{name}"
            );
            assert_eq!(case["intent_id"], origin.intent_id().to_string(), "{name}");

            let planned = plan(&packet, &Policy::default(), now);
            let artifact = planned.artifact();
            assert_eq!(
                serde_json::from_str::<Plan>(&artifact.text).unwrap(),
                planned
            );
            match &planned {
                Plan::Actions(actions) => {
                    let stored = json!(actions);
                    let has_path = |action: &Value| action.get("path").is_some();
                    assert!(!list(&stored).iter().any(has_path), "{name}");
                    assert_eq!(planned.envelope(), json!({ "actions": case["actions"] }));
                    assert_eq!(case["artifact_hash"], artifact.hash, "{name}");
                    let keys: Vec<String> = (0..2)
                        .map(|replay| origin.action_key(&actions[0], replay))
                        .collect();
                    assert_eq!(case["action_keys"], json!(keys), "{name}");
                }
                Plan::Clarify(question) => {
                    let ids: Vec<&str> = question
                        .choices
                        .iter()
                        .map(|choice| choice.id.as_str())
                        .collect();
                    let found = json!({ "field": question.field, "reason": question.reason, "choices": ids });
                    assert_eq!(case["clarification"], found, "{name}");
                    assert_eq!(json!(question.field), question.field.as_str());
                }
                Plan::Reject(rejection) => {
                    assert_eq!(case["rejection"], json!(rejection.code), "{name}");
                }
            }
        }
    }
}

#[test]
fn packets_are_refused_as_the_vectors_say() {
    for case in list(&cases()["refusals"]) {
        refused_as(
            &Packet::read(text(&case["text"]).as_bytes()).unwrap_err(),
            case,
        );
    }
}

#[test]
fn every_known_text_has_a_limit() {
    let long = "x".repeat(30_000);
    let lines: Vec<String> = (0..60).map(|_| long.clone()).collect();
    let document = json!({
        "kind": "intent", "intent_type": long, "source": long, "natural_language": long, "request_id": long,
        "actor": long, "correlation_id": long, "trace_id": long, "timezone": long,
        "target": { "kind": long, "key": long },
        "fields": { "title": long, "due": long, "priority": long, "status": long, "project": long,
            "project_id": long, "task_id": long, "notion_page_id": long, "item": long, "content": long,
            "note": long, "text": long, "notes": long, "tags": lines },
        "unknown": long,
    });
    let refusal = Packet::read(document.to_string().as_bytes()).unwrap_err();
    assert_eq!(paths(&refusal).len(), 24, "{:?}", paths(&refusal));
    assert!(refusal.to_string().len() < 500, "the text is not repeated");
}

#[test]
fn a_limit_counts_characters_and_not_bytes() {
    let with =
        |count: usize| json!({ "kind": "intent", "request_id": "é".repeat(count) }).to_string();
    assert!(Packet::read(with(255).as_bytes()).is_ok());
    assert!(Packet::read(with(256).as_bytes()).is_err());
}

#[test]
fn a_packet_as_deep_as_allowed_is_read() {
    let nested = |depth: usize| {
        let inner = "[".repeat(depth - 1) + &"]".repeat(depth - 1);
        format!(r#"{{"kind":"intent","x":{inner}}}"#)
    };
    assert!(Packet::read(nested(DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(
        Packet::read(nested(DEPTH_MAX + 1).as_bytes())
            .unwrap_err()
            .code(),
        "bad_json"
    );
}

#[test]
fn null_counts_as_absent_and_is_still_part_of_the_key() {
    let (bare, null) = (
        r#"{"kind":"intent"}"#,
        r#"{"kind":"intent","source":null,"schema_version":null}"#,
    );
    assert_eq!(packet(bare).source, packet(null).source);
    assert_ne!(packet(bare).key(), packet(null).key());
}

#[test]
fn the_policy_says_what_is_sure_enough_which_zone_counts_and_which_words_are_known() {
    let now = moment("2026-11-16T03:00:00Z");
    let task = packet(
        r#"{"kind":"intent","intent_type":"create_task","confidence":0.5,
            "fields":{"title":"X","due":"today","priority":"blue"}}"#,
    );
    assert!(matches!(
        plan(&task, &Policy::default(), now),
        Plan::Reject(_)
    ));
    let policy = Policy {
        confidence_min: 0.5,
        timezone: "America/New_York".parse::<Zone>().unwrap(),
        priorities: Words::new(vec![Word {
            value: "Blue".into(),
            also: Vec::new(),
        }]),
        ..Policy::default()
    };
    let Plan::Actions(actions) = plan(&task, &policy, now) else {
        panic!()
    };
    assert_eq!(
        actions[0].payload,
        json!({ "task": { "title": "X", "due": "2026-11-15", "priority": "Blue" } })
    );
}

#[test]
fn a_project_is_matched_or_asked_for() {
    let now = moment("2026-11-16T03:00:00Z");
    let project = |id: &str, name: &str| Project {
        id: id.into(),
        name: name.into(),
    };
    let items = vec![
        project("p-1", "Kitchen Phase 1"),
        project("p-2", "Kitchen Phase 2"),
        project("p-3", "Garden"),
    ];
    let policy = Policy {
        projects: Some(Projects::new(items)),
        ..Policy::default()
    };
    let named = |name: &str| {
        let document = json!({ "kind": "intent", "intent_type": "create_task", "fields": { "title": "X", "project": name } });
        plan(&packet(&document.to_string()), &policy, now)
    };
    let Plan::Actions(actions) = named("the garden") else {
        panic!()
    };
    assert_eq!(actions[0].payload["task"]["project_id"], "p-3");
    assert_eq!(actions[0].payload["task"]["project"], "Garden");

    let Plan::Clarify(question) = named("kitchen phase") else {
        panic!()
    };
    let labels: Vec<&str> = question
        .choices
        .iter()
        .map(|choice| choice.label.as_str())
        .collect();
    assert_eq!(labels[..2], ["Kitchen Phase 1", "Kitchen Phase 2"]);
    let Plan::Clarify(question) = named("xyz") else {
        panic!()
    };
    assert_eq!(
        question.choices.len(),
        1,
        "none is close; there is still no project"
    );
}

#[test]
fn a_question_repeats_only_the_beginning_of_a_long_text() {
    let document = json!({ "kind": "intent", "intent_type": "create_task", "fields": { "title": "X", "due": "é".repeat(200) } });
    let Plan::Clarify(question) = plan(
        &packet(&document.to_string()),
        &Policy::default(),
        moment("2026-11-16T03:00:00Z"),
    ) else {
        panic!()
    };
    assert!(question.question.chars().count() < 140);
    assert!(question.question.contains('…'));
}
