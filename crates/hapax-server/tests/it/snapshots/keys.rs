//! The key that comes with a payload: looked at, reported, trusted for nothing.

use super::{BATCH, INGEST, course, get, ingest, send, text};
use crate::both::{Store, on_both_stores};
use crate::fixture::{path, succeed};

/// A text that every profile hashes differently.
const PAYLOAD: &str =
    r#"{"course":{"id":"k","name":"Café","credits":3.0,"serial":9007199254740993}}"#;

/// What `hapax key` makes of a text, by profile.
fn keys(of: &str) -> Vec<(&'static str, String)> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), of).unwrap();
    let profiles = ["hcj-1", "py-json", "py-json-utf8", "js-sorted"];
    profiles
        .into_iter()
        .map(|profile| {
            let key = succeed(&["key", "--profile", profile, path(file.path())]);
            (profile, key.trim().to_owned())
        })
        .collect()
}

fn the_answer_says_which_profile_made_the_key(store: Store) {
    let node = store.serve("");
    let answer = send(&node, INGEST, &[], PAYLOAD);
    assert_eq!(
        answer.header("x-idempotency-key-match"),
        None,
        "no key came"
    );
    let (id, keys) = (answer.json()["snapshotId"].clone(), keys(PAYLOAD));
    for (profile, key) in &keys {
        let quoted = format!("\"{key}\"");
        for sent in [key.as_str(), &key.to_uppercase(), &quoted] {
            let answer = send(&node, INGEST, &[("idempotency-key", sent)], PAYLOAD);
            assert_eq!(
                answer.header("x-idempotency-key-match"),
                Some(*profile),
                "{sent}"
            );
            assert_eq!(answer.json()["snapshotId"], id);
        }
    }
    for other in ["made-up", "", "two words", &"k".repeat(300)] {
        let answer = send(&node, INGEST, &[("idempotency-key", other)], PAYLOAD);
        assert_eq!(answer.status, 200, "{other}: {}", answer.text());
        assert_eq!(
            answer.header("x-idempotency-key-match"),
            Some("none"),
            "{other}"
        );
    }
    let shown = get(&node, &format!("/v1/courses/k/snapshots/{}", text(&id)));
    assert_eq!(shown["hash"], keys[0].1.as_str());
    for (profile, key) in &keys[1..] {
        assert_eq!(shown["aliases"][profile], key.as_str());
    }
    let seen = shown["observations"].as_array().unwrap();
    assert_eq!(seen.len(), 17);
    assert_eq!(
        seen[0]["key_match"],
        serde_json::Value::Null,
        "newest first"
    );
    assert_eq!(seen[4]["key_match"], "js-sorted");
}

fn a_key_with_another_body_is_no_conflict(store: Store) {
    let node = store.serve("[[routes]]\npattern = '*:*'\nrequired = true\n");
    let key = [("idempotency-key", "the-same")];
    let first = send(&node, INGEST, &key, &course("a", "A").to_string());
    let second = send(&node, INGEST, &key, &course("a", "B").to_string());
    assert_eq!(
        (first.status, second.status),
        (200, 200),
        "{}",
        second.text()
    );
    assert_ne!(first.json()["snapshotId"], second.json()["snapshotId"]);
    assert_eq!(second.header("idempotency-replayed"), None);
    assert_eq!(
        get(&node, "/v1/keys")["items"],
        serde_json::json!([]),
        "no key was claimed"
    );
    assert_eq!(
        ingest(&node, &course("a", "C"))["idempotent"],
        false,
        "nor is one required"
    );
}

fn the_key_of_a_batch_is_matched_against_the_whole_of_it(store: Store) {
    let node = store.serve("");
    let batch = format!("[{PAYLOAD}]");
    for (profile, key) in keys(&batch) {
        let answer = send(&node, BATCH, &[("idempotency-key", &key)], &batch);
        assert_eq!(answer.header("x-idempotency-key-match"), Some(profile));
    }
    let answer = send(&node, BATCH, &[("idempotency-key", "made-up")], &batch);
    assert_eq!(answer.header("x-idempotency-key-match"), Some("none"));
    let answer = send(&node, BATCH, &[], &batch);
    assert_eq!(answer.header("x-idempotency-key-match"), None);
}

on_both_stores!(
    the_answer_says_which_profile_made_the_key,
    a_key_with_another_body_is_no_conflict,
    the_key_of_a_batch_is_matched_against_the_whole_of_it,
);
