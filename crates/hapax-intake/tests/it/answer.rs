//! Answers: every question leads on, and what does not fit says what would.

use hapax_core::Time;
use hapax_intake::intent::{
    Answer, Clarification, Field, Packet, Plan, Policy, Project, Projects, plan,
};
use serde_json::{Value, json};

use crate::moment;

fn now() -> Time {
    moment("2026-11-16T12:00:00Z")
}

fn policy() -> Policy {
    let project = |id: &str, name: &str| Project {
        id: id.into(),
        name: name.into(),
    };
    let items = vec![
        project("p-1", "Kitchen Phase 1"),
        project("p-2", "Kitchen Phase 2"),
    ];
    Policy {
        projects: Some(Projects::new(items)),
        ..Policy::default()
    }
}

fn packet(document: &Value) -> Packet {
    Packet::read(document.to_string().as_bytes()).unwrap()
}

fn question(packet: &Packet) -> Clarification {
    match plan(packet, &policy(), now()) {
        Plan::Clarify(question) => question,
        other => panic!("not a question: {other:?}"),
    }
}

fn choice(id: &str) -> Answer {
    Answer::Choice(id.to_owned())
}

fn said(text: &str) -> Answer {
    Answer::Text(text.to_owned())
}

/// A document that raises the question, and answers to it with the payload they lead to.
type Case = (Field, Value, Vec<(Answer, Value)>);

#[allow(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let task =
        |fields: Value| json!({ "kind": "intent", "intent_type": "create_task", "fields": fields });
    let update =
        |fields: Value| json!({ "kind": "intent", "intent_type": "update_task", "fields": fields });
    let made = |task: Value| json!({ "task": task });
    let patched = |patch: Value| json!({ "notion_page_id": "t-1", "patch": patch });
    vec![
        (
            Field::IntentType,
            json!({ "kind": "intent", "fields": { "title": "X" } }),
            vec![
                (choice("create_task"), made(json!({ "title": "X" }))),
                (said(" create_task "), made(json!({ "title": "X" }))),
            ],
        ),
        (
            Field::Title,
            json!({ "kind": "intent", "intent_type": "create_task", "natural_language": "Call Ada" }),
            vec![
                (choice("as_said"), made(json!({ "title": "Call Ada" }))),
                (said("Ring Ada"), made(json!({ "title": "Ring Ada" }))),
            ],
        ),
        (
            Field::Due,
            task(json!({ "title": "X", "due": "some day" })),
            vec![
                (
                    choice("today"),
                    made(json!({ "title": "X", "due": "2026-11-16" })),
                ),
                (
                    choice("next_week"),
                    made(json!({ "title": "X", "due": "2026-11-23" })),
                ),
                (choice("none"), made(json!({ "title": "X" }))),
                (
                    said("friday"),
                    made(json!({ "title": "X", "due": "2026-11-20" })),
                ),
                (said("never"), made(json!({ "title": "X" }))),
            ],
        ),
        (
            Field::Due,
            update(json!({ "task_id": "t-1", "due": "some day" })),
            vec![(choice("none"), patched(json!({ "due": null })))],
        ),
        (
            Field::Priority,
            task(json!({ "title": "X", "priority": "purple" })),
            vec![
                (
                    choice("urgent"),
                    made(json!({ "title": "X", "priority": "Urgent" })),
                ),
                (
                    said("p0"),
                    made(json!({ "title": "X", "priority": "Urgent" })),
                ),
            ],
        ),
        (
            Field::Status,
            update(json!({ "task_id": "t-1", "status": "purple" })),
            vec![
                (
                    choice("in_progress"),
                    patched(json!({ "status": "In Progress" })),
                ),
                (said("finished"), patched(json!({ "status": "Done" }))),
            ],
        ),
        (
            Field::Project,
            task(json!({ "title": "X", "project": "kitchen phase" })),
            vec![
                (
                    choice("project_2"),
                    made(
                        json!({ "title": "X", "project": "Kitchen Phase 2", "project_id": "p-2" }),
                    ),
                ),
                (
                    said("kitchen phase 1"),
                    made(
                        json!({ "title": "X", "project": "Kitchen Phase 1", "project_id": "p-1" }),
                    ),
                ),
                (choice("none"), made(json!({ "title": "X" }))),
            ],
        ),
        (
            Field::Task,
            update(json!({ "status": "done" })),
            vec![(said("t-1"), patched(json!({ "status": "Done" })))],
        ),
        (
            Field::Change,
            update(json!({ "task_id": "t-1" })),
            vec![
                (choice("done"), patched(json!({ "status": "Done" }))),
                (said("high"), patched(json!({ "priority": "High" }))),
                (said("tomorrow"), patched(json!({ "due": "2026-11-17" }))),
            ],
        ),
        (
            Field::List,
            json!({ "kind": "intent", "target": { "kind": "list" }, "natural_language": "Milk" }),
            vec![(
                said("shopping"),
                json!({ "list_item": { "list_key": "shopping", "item": "Milk" } }),
            )],
        ),
        (
            Field::Item,
            json!({ "kind": "intent", "target": { "kind": "list", "key": "shopping" } }),
            vec![(
                said("Milk"),
                json!({ "list_item": { "list_key": "shopping", "item": "Milk" } }),
            )],
        ),
        (
            Field::Content,
            json!({ "kind": "intent", "target": { "kind": "notes" } }),
            vec![(
                said("two\nlines"),
                json!({ "note": { "content": "two\nlines" } }),
            )],
        ),
    ]
}

#[test]
fn every_question_has_answers_that_lead_to_actions_under_the_same_key() {
    for (field, document, answers) in cases() {
        let packet = packet(&document);
        let question = question(&packet);
        assert_eq!(question.field, field);
        // It survives being stored.
        let question: Clarification = serde_json::from_value(json!(question)).unwrap();
        for (answer, payload) in answers {
            let answered = packet
                .answered(&question, &answer, &policy(), now())
                .unwrap();
            assert_eq!(answered.key(), packet.key());
            assert_eq!(answered.canonical(), packet.canonical());
            let Plan::Actions(actions) = plan(&answered, &policy(), now()) else {
                panic!("{field} {answer:?}");
            };
            assert_eq!(actions[0].payload, payload, "{field} {answer:?}");
        }
    }
}

#[test]
fn every_choice_that_is_offered_is_accepted_and_settles_its_question() {
    for (field, document, _) in cases() {
        let packet = packet(&document);
        let question = question(&packet);
        for offered in &question.choices {
            let answered = packet
                .answered(&question, &choice(&offered.id), &policy(), now())
                .unwrap();
            if let Plan::Clarify(next) = plan(&answered, &policy(), now()) {
                assert_ne!(next.field, field, "{} asks again", offered.id);
            }
        }
    }
}

#[test]
fn an_answer_that_does_not_fit_says_what_would() {
    let wanted = |field: Field, answer: Answer| {
        let (_, document, _) = cases()
            .into_iter()
            .find(|(found, _, _)| *found == field)
            .unwrap();
        let packet = packet(&document);
        let misfit = packet
            .answered(&question(&packet), &answer, &policy(), now())
            .unwrap_err();
        assert!(misfit.to_string().contains(&misfit.wanted));
        misfit.wanted
    };
    assert!(wanted(Field::IntentType, said("dance")).contains("create_task"));
    assert!(wanted(Field::Due, said("some day")).contains("tomorrow"));
    assert!(wanted(Field::Due, said("")).contains("tomorrow"));
    assert!(wanted(Field::Due, choice("yesterday")).contains("next_week"));
    assert!(wanted(Field::Priority, said("purple")).contains("Urgent"));
    assert!(wanted(Field::Status, choice("purple")).contains("in_progress"));
    assert!(wanted(Field::Project, said("kitchen phase")).contains("Kitchen Phase 2"));
    assert!(wanted(Field::Change, said("purple")).contains("status"));
    assert!(wanted(Field::Task, choice("x")).contains("text"));
    assert!(wanted(Field::Task, said("  ")).contains("blank"));
    assert!(wanted(Field::Task, said(&"x".repeat(256))).contains("255"));
    assert!(wanted(Field::Title, said(" ")).contains("something"));
    assert!(wanted(Field::Title, said(&"x".repeat(2001))).contains("2000"));
    assert!(wanted(Field::Change, said("none")).contains("status"));
    assert!(wanted(Field::Content, said("")).contains("something"));
    assert!(wanted(Field::Content, said("a\0b")).contains("U+0000"));
}

#[test]
fn a_day_is_that_of_the_answer_and_not_of_the_packet() {
    let packet = packet(
        &json!({ "kind": "intent", "intent_type": "create_task", "timezone": "America/New_York",
        "fields": { "title": "X", "due": "some day" } }),
    );
    let later = moment("2026-11-20T03:00:00Z");
    let answered = packet
        .answered(&question(&packet), &said("today"), &policy(), later)
        .unwrap();
    let Plan::Actions(actions) = plan(&answered, &policy(), now()) else {
        panic!()
    };
    assert_eq!(actions[0].payload["task"]["due"], "2026-11-19");
}

#[test]
fn answers_follow_one_another() {
    let mut packet = packet(
        &json!({ "kind": "intent", "natural_language": "Milk", "fields": { "due": "soon" } }),
    );
    for (field, answer) in [
        (Field::IntentType, choice("create_task")),
        (Field::Title, choice("as_said")),
        (Field::Due, said("in 2 days")),
    ] {
        let question = question(&packet);
        assert_eq!(question.field, field);
        packet = packet
            .answered(&question, &answer, &policy(), now())
            .unwrap();
    }
    let Plan::Actions(actions) = plan(&packet, &policy(), now()) else {
        panic!()
    };
    assert_eq!(
        actions[0].payload,
        json!({ "task": { "title": "Milk", "due": "2026-11-18" } })
    );
}

#[test]
fn an_answer_reads_as_the_api_sends_it() {
    let read = |text: &str| serde_json::from_str::<Answer>(text).ok();
    assert_eq!(read(r#"{"choice_id":"today"}"#), Some(choice("today")));
    assert_eq!(read(r#"{"answer_text":"today"}"#), Some(said("today")));
    assert_eq!(read(r#"{"choice_id":"a","answer_text":"b"}"#), None);
}
