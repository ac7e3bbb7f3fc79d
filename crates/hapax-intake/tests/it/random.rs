//! Random documents: one key per document in every spelling, another key for another document, and no panic.

use hapax_core::Time;
use hapax_intake::intent::{Answer, Packet, Plan, Policy, due, plan};
use hapax_intake::snapshot::{Collection, read, read_batch};
use proptest::prelude::*;
use serde_json::{Value, json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |n| n.is_finite())
            .prop_map(Value::from),
        "[a-c\"\\\\é😀\\n]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-c\"é]{0,3}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Spells a document in another way: members in reverse, blanks, escapes, and numbers with more digits.
fn respelt(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(number) if number.is_i64() => format!("{number}.0e0"),
        Value::Number(number) => number.to_string(),
        Value::String(text) => escaped(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(respelt).collect();
            format!("[ {}\t]", items.join(" ,\n"))
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{} :\r\n {}", escaped(name), respelt(value))
            };
            let members: Vec<String> = members.iter().rev().map(member).collect();
            format!("{{{} }}", members.join(", "))
        }
    }
}

fn escaped(text: &str) -> String {
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
    format!("\"{}\"", units.collect::<String>())
}

/// Whether two documents are the same JSON, numbers compared by their value.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, value)| b.get(name).is_some_and(|found| same(value, found)))
        }
        _ => one == other,
    }
}

fn intent(x: &Value) -> Value {
    json!({ "kind": "intent", "x": x })
}

fn course(x: &Value) -> Value {
    json!({ "course": { "id": "c", "name": "N" }, "x": x })
}

fn key(text: &str) -> String {
    Packet::read(text.as_bytes()).unwrap().key().to_owned()
}

fn hash(text: &str) -> String {
    read(text.as_bytes(), &Collection::courses()).unwrap().hash
}

proptest! {
    #[test]
    fn every_spelling_has_the_same_key(x in value()) {
        let (packet, payload) = (intent(&x), course(&x));
        prop_assert_eq!(key(&packet.to_string()), key(&respelt(&packet)));
        prop_assert_eq!(hash(&payload.to_string()), hash(&respelt(&payload)));
    }

    #[test]
    fn different_documents_have_different_keys(x in value(), y in value()) {
        let equal = same(&x, &y);
        prop_assert_eq!(key(&intent(&x).to_string()) == key(&intent(&y).to_string()), equal);
        prop_assert_eq!(hash(&course(&x).to_string()) == hash(&course(&y).to_string()), equal);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let courses = Collection::courses();
        let _ = Packet::read(&bytes);
        let _ = read(&bytes, &courses);
        let _ = read_batch(&bytes, &courses);
    }

    #[test]
    fn no_broken_packet_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = br#"{"kind":"intent","intent_type":"create_task","confidence":0.9,"timezone":"Europe/Berlin","target":{"kind":"list","key":"k"},"fields":{"title":"t","due":"2026-10-25T02:30","tags":["a"]}}"#.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(packet) = Packet::read(&bytes) {
            let _ = plan(&packet, &Policy::default(), Time::from_ms(0)).artifact();
        }
    }

    #[test]
    fn no_text_for_a_due_date_panics(text in "\\PC{0,30}", near in "(in|next|on)? ?[0-9]{0,6} ?(days|week|friday|-11-16T0?:.Z)?", ms in any::<i64>()) {
        for text in [text, near] {
            let _ = due::read(&text, &"Europe/Berlin".parse().unwrap(), Time::from_ms(ms));
        }
    }

    #[test]
    fn any_fields_give_a_plan_and_any_answer_an_outcome(
        fields in proptest::collection::btree_map("title|due|priority|status|project|task_id|item|content", "\\PC{0,20}|done|tomorrow", 0..6),
        intent_type in proptest::option::of("create_task|update_task|list_add_item|note_capture|noop"),
        answer in "\\PC{0,20}|today|none|high",
    ) {
        let document = json!({ "kind": "intent", "intent_type": intent_type, "fields": fields });
        let Ok(packet) = Packet::read(document.to_string().as_bytes()) else { return Ok(()) };
        let (policy, now) = (Policy::default(), Time::from_ms(1_794_787_200_000));
        let planned = plan(&packet, &policy, now);
        prop_assert_eq!(&planned, &plan(&packet, &policy, now));
        prop_assert_eq!(planned.artifact(), plan(&packet, &policy, now).artifact());
        if let Plan::Clarify(question) = planned
            && let Ok(answered) = packet.answered(&question, &Answer::Text(answer), &policy, now)
        {
            prop_assert_eq!(answered.key(), packet.key());
            if let Plan::Clarify(next) = plan(&answered, &policy, now) {
                prop_assert_ne!(next.field, question.field);
            }
        }
    }
}
