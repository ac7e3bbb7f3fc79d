//! Payloads, aliases and batches against the shared vectors.

use std::fmt::Write;

use hapax_core::Tenant;
use hapax_core::canonical::{DEPTH_MAX, Profile};
use hapax_intake::snapshot::{
    BatchRefusal, Collection, CollectionName, Pointer, Schema, key_match, read, read_batch, split,
};
use serde_json::{Value, json};

use crate::{list, paths, refused_as, text, vectors};

fn cases() -> Value {
    vectors(include_str!("../../../../spec/vectors/snapshots.json"))
}

fn collection(schema: Option<Value>) -> Collection {
    Collection {
        name: "orders".parse().unwrap(),
        id: "/order/no".parse().unwrap(),
        label: Some("/order/title".parse().unwrap()),
        schema: schema.map(|schema| Schema::compile(&schema).unwrap()),
    }
}

#[test]
fn payloads_have_the_hashes_and_aliases_of_the_vectors() {
    let courses = Collection::courses();
    for case in list(&cases()["cases"]) {
        let name = &case["name"];
        let snapshot = read(text(&case["text"]).as_bytes(), &courses).unwrap();
        assert_eq!(case["entity_id"], snapshot.entity_id, "{name}");
        assert_eq!(case["label"], json!(snapshot.label), "{name}");
        assert_eq!(
            text(&case["canonical"]).as_bytes(),
            snapshot.canonical,
            "{name}"
        );
        assert_eq!(case["hash"], snapshot.hash, "{name}");
        let aliases: serde_json::Map<String, Value> = snapshot
            .aliases
            .iter()
            .map(|(profile, hash)| (profile.to_string(), hash.clone().into()))
            .collect();
        assert_eq!(case["aliases"], Value::Object(aliases), "{name}");
        let id = snapshot.id(Tenant::DEFAULT, &courses.name);
        assert_eq!(case["snapshot_id"], id.to_string(), "{name}");
        for hash in case["aliases"].as_object().unwrap().values() {
            assert!(key_match(&snapshot, text(hash)).is_some(), "{name}");
        }
    }
}

#[test]
fn payloads_are_refused_as_the_vectors_say() {
    for case in list(&cases()["refusals"]) {
        refused_as(
            &read(text(&case["text"]).as_bytes(), &Collection::courses()).unwrap_err(),
            case,
        );
    }
}

#[test]
fn a_sent_key_is_recognised_bare_or_quoted_and_hcj_comes_first() {
    let snapshot = read(
        br#"{"course":{"id":"c","name":"N","n":1.0}}"#,
        &Collection::courses(),
    )
    .unwrap();
    let python = &snapshot.aliases[0].1;
    assert_eq!(key_match(&snapshot, &snapshot.hash), Some(Profile::Hcj1));
    assert_eq!(
        key_match(&snapshot, &format!(" \"{}\" ", snapshot.hash)),
        Some(Profile::Hcj1)
    );
    assert_eq!(
        key_match(&snapshot, &python.to_uppercase()),
        Some(Profile::PyJson)
    );
    for other in [
        "",
        "\"",
        "\"\"",
        "none",
        &python[..63],
        &format!("{python}0"),
    ] {
        assert_eq!(key_match(&snapshot, other), None, "{other}");
    }
}

#[test]
fn ids_are_texts_or_integers_and_labels_are_cut() {
    let orders = collection(None);
    let id = |no: Value| {
        let document = json!({ "order": { "no": no } }).to_string();
        read(document.as_bytes(), &orders).map(|snapshot| snapshot.entity_id)
    };
    assert_eq!(id(json!("a b")).unwrap(), "a b");
    assert_eq!(id(json!(-7)).unwrap(), "-7");
    assert_eq!(
        id(json!(9_007_199_254_740_991_i64)).unwrap(),
        "9007199254740991"
    );
    for no in [
        json!(""),
        json!(1.5),
        json!(true),
        json!([]),
        json!(9_007_199_254_740_992_i64),
        json!("a\n"),
        json!("x".repeat(256)),
        json!(null),
    ] {
        assert_eq!(paths(&id(no).unwrap_err()), ["/order/no"]);
    }
    let document = json!({ "order": { "no": 1, "title": format!("\0{}", "é".repeat(600)) } });
    let label = read(document.to_string().as_bytes(), &orders)
        .unwrap()
        .label
        .unwrap();
    assert_eq!(label.chars().count(), 500);
    assert!(label.starts_with('\u{fffd}'));
    // One number has one id, however it is spelt.
    let spelt = |no: &str| {
        read(format!(r#"{{"order":{{"no":{no}}}}}"#).as_bytes(), &orders)
            .unwrap()
            .entity_id
    };
    assert_eq!(spelt("7"), spelt("7.0"));
}

#[test]
fn a_schema_of_ones_own_lists_every_fault_and_repeats_no_value() {
    let orders = collection(Some(json!({
        "type": "object",
        "properties": { "order": { "type": "object", "properties": {
            "no": { "type": "integer" },
            "secret": { "pattern": "^[a-z]+$" },
            "a/b": { "type": "object", "required": ["c~d"] },
        } } },
        "additionalProperties": false,
    })));
    let refusal = read(
        br#"{"order":{"no":"n","secret":"HUNTER2","a/b":{}},"more":1}"#,
        &orders,
    )
    .unwrap_err();
    assert_eq!(
        paths(&refusal),
        ["", "/order/a~1b/c~0d", "/order/no", "/order/secret"]
    );
    assert!(!format!("{refusal:?}").contains("HUNTER2"));
    let refusal = read(br#"{"more":1}"#, &orders).unwrap_err();
    assert_eq!(paths(&refusal), ["", "/order/no"]);
}

#[test]
fn a_schema_reads_nothing_outside_itself() {
    for schema in [
        json!({ "$ref": "https://example.org/schema.json" }),
        json!({ "$ref": "file:///etc/hosts" }),
        json!({ "properties": { "a": { "$ref": "other.json" } } }),
        json!({ "type": 7 }),
        json!({ "pattern": "(" }),
        json!([]),
    ] {
        assert!(Schema::compile(&schema).is_err(), "{schema}");
    }
    assert!(Schema::compile(&json!({ "$defs": { "a": {} }, "$ref": "#/$defs/a" })).is_ok());
}

#[test]
fn names_and_pointers_have_one_form() {
    for name in ["a", "courses", "a-b_9", &"a".repeat(64)] {
        assert!(name.parse::<CollectionName>().is_ok(), "{name}");
    }
    for name in ["", "A", "9a", "-a", "a/b", "a b", "é", &"a".repeat(65)] {
        assert!(name.parse::<CollectionName>().is_err(), "{name}");
    }
    for pointer in ["", "a", "/a~2", "/a~", &"/a".repeat(251)] {
        assert!(pointer.parse::<Pointer>().is_err(), "{pointer}");
    }
}

#[test]
fn a_payload_as_deep_as_allowed_is_read_alone_and_in_a_batch() {
    let orders = collection(None);
    let nested = |depth: usize| {
        let inner = "[".repeat(depth - 1) + &"]".repeat(depth - 1);
        format!(r#"{{"order":{{"no":1}},"x":{inner}}}"#)
    };
    let (deep, deeper) = (nested(DEPTH_MAX), nested(DEPTH_MAX + 1));
    assert!(read(deep.as_bytes(), &orders).is_ok());
    assert_eq!(
        read(deeper.as_bytes(), &orders).unwrap_err().code(),
        "bad_json"
    );
    let items = read_batch(format!("[{deep},{deeper},{deep}]").as_bytes(), &orders).unwrap();
    let read: Vec<bool> = items.iter().map(|item| item.result.is_ok()).collect();
    assert_eq!(read, [true, false, true]);
}

#[test]
fn a_thousand_items_with_a_hundred_faulty_ones_are_read_one_by_one() {
    let mut batch = String::from("[");
    for number in 0..1000 {
        let comma = if number == 0 { "" } else { "," };
        let name = match number % 10 {
            3 if number % 20 == 3 => r#","name":"N","name":"M""#,
            3 => "",
            _ => r#","name":"N""#,
        };
        write!(
            batch,
            "{comma}{{\"course\":{{\"id\":\"c-{number}\"{name},\"n\":1.0}}}}"
        )
        .unwrap();
    }
    batch.push(']');
    let items = read_batch(batch.as_bytes(), &Collection::courses()).unwrap();
    assert_eq!(items.len(), 1000);
    for item in &items {
        assert_eq!(item.result.is_err(), item.index % 10 == 3, "{}", item.index);
        let id = format!("c-{}", item.index);
        // Where a key stands twice, nothing can be said about the entity.
        let known = item.index % 20 != 3;
        assert_eq!(item.entity_id, known.then_some(id));
        if let Ok(snapshot) = &item.result {
            // The item was not typed anew: Python still sees the 1.0 that was sent.
            let python = format!(
                r#"{{"course":{{"id":"c-{}","n":1.0,"name":"N"}}}}"#,
                item.index
            );
            assert_eq!(snapshot.aliases[0].1, sha256(&python));
        }
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(text))
}

#[test]
fn a_batch_is_an_array_of_at_most_a_thousand_items() {
    assert_eq!(split(b" [ ] ").unwrap(), Vec::<&str>::new());
    assert_eq!(
        split(b"[1.0 , \"\\ud800\",[ 1 ]]").unwrap(),
        ["1.0", "\"\\ud800\"", "[ 1 ]"]
    );
    let full = format!("[{}1]", "1,".repeat(999));
    assert_eq!(split(full.as_bytes()).unwrap().len(), 1000);
    let over = format!("[{}1]", "1,".repeat(200_000));
    assert_eq!(
        split(over.as_bytes()),
        Err(BatchRefusal::TooMany { items: 200_001 })
    );
    for text in ["", "[", "[1,]", "[1] 2", "[1 2]", "[tru]", "[\"\u{1}\"]"] {
        let Err(BatchRefusal::Text(refusal)) = split(text.as_bytes()) else {
            panic!("{text}")
        };
        assert_eq!(refusal.code(), "bad_json", "{text}");
    }
    let Err(BatchRefusal::Text(refusal)) = split(b"[\"\xff\"]") else {
        panic!()
    };
    assert_eq!(refusal.code(), "bad_json");
    for text in ["{}", "1", "null"] {
        let Err(BatchRefusal::Text(refusal)) = split(text.as_bytes()) else {
            panic!("{text}")
        };
        assert_eq!(paths(&refusal), [""], "{text}");
    }
}
