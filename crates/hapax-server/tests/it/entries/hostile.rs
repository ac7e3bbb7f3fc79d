//! Texts that break things: none does, and none is slow.

use serde_json::{Value, json};

use super::{insert, kept, posted, pull, refused, thought};
use crate::both::{Store, on_both_stores};

const ALL: [&str; 9] = [
    "/normalize/telegram",
    "/normalize/email",
    "/normalize/webpage",
    "/ingest/telegram/update",
    "/db/insert",
    "/db/update",
    "/db/read/last",
    "/db/read/find",
    "/db/read/pull",
];

fn json_that_is_none_is_told_apart(store: Store) {
    let node = store.serve("");
    let bearer = format!("Bearer {}", node.token());
    let headers = [("authorization", bearer.as_str())];
    let deep = format!(r#"{{"metadata":{}1{}}}"#, "[".repeat(140), "]".repeat(140));
    let cases: [(&[u8], &str); 6] = [
        (b"{\"text\":\"\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xf0\x9f\x91\x8b \xff\xfe\"}", "invalid_utf8"),
        (br#"{"text":"a","text":"b"}"#, "duplicate_key"),
        (br#"{"text":"\ud800"}"#, "lone_surrogate"),
        (br#"{"text":1e999}"#, "number_out_of_range"),
        (deep.as_bytes(), "too_deep"),
        (b"{", "syntax"),
    ];
    for path in ALL {
        for (body, reason) in cases {
            let answer = node.send("POST", path, &headers, body);
            let details = refused(&answer, 400, "bad_json");
            assert_eq!(details["reason"], reason, "{path}");
        }
        let plain = [headers[0], ("content-type", "text/plain")];
        let answer = node.send("POST", path, &plain, b"{}");
        refused(&answer, 415, "unsupported_media_type");
        let answer = node.owner("POST", path, "[]");
        assert_eq!(answer.status, 400, "{path}");
    }
}

fn nul_is_removed_by_normalising_and_refused_by_inserting(store: Store) {
    let node = store.serve("");
    for (path, document) in [
        ("/normalize/telegram", thought(1, 1, "a\u{0}b")),
        (
            "/normalize/email",
            json!({"raw_text": "a\u{0}b", "from": "x@example.org", "subject": "s\u{0}t", "source": {"message_id": "<1@x>"}}),
        ),
        ("/normalize/webpage", json!({"text": "a\u{0}b"})),
    ] {
        let (entry, row) = kept(&node, path, &document);
        assert_eq!(entry["clean_text"], "ab", "{path}");
        assert_eq!(entry["metadata"]["nul_removed"], true, "{path}");
        assert_eq!(row["action"], "inserted");
    }
    for entry in [
        json!({"source": "web", "title": "a\u{0}b"}),
        json!({"source": "web", "metadata": {"a\u{0}b": 1}}),
        json!({"source": "web", "metadata": {"a": ["b", {"c": "\u{0}"}]}}),
        json!({"source": "a\u{0}"}),
    ] {
        let answer = node.owner("POST", "/db/insert", &entry.to_string());
        refused(&answer, 400, "schema_validation_failed");
    }
    let change = json!({"entry_id": 1, "title": "\u{0}"});
    let answer = node.owner("POST", "/db/update", &change.to_string());
    refused(&answer, 400, "schema_validation_failed");
}

fn an_address_of_four_thousand_slashes_is_kept_once(store: Store) {
    let node = store.serve("");
    let text = format!("see https://example.org{}x", "/".repeat(4000));
    let (entry, row) = kept(&node, "/normalize/telegram", &json!({ "text": text }));
    assert_eq!(entry["content_type"], "link");
    assert!(
        entry["idempotency_key_primary"]
            .as_str()
            .unwrap()
            .starts_with("sha256:")
    );
    assert_eq!(row["action"], "inserted");
    let (_, again) = kept(&node, "/normalize/telegram", &json!({ "text": text }));
    assert_eq!(again["action"], "skipped");
    assert_eq!(again["entry_id"], row["entry_id"]);
}

fn a_subject_of_a_megabyte_is_kept_once(store: Store) {
    let node = store.serve("");
    for subject in [
        "Re: ".repeat(250_000) + "x",
        "[".repeat(1_000_000),
        "слово ".repeat(90_000),
    ] {
        let mail = json!({
            "raw_text": "All is well here.",
            "from": "a@example.org",
            "subject": subject,
            "source": {"message_id": format!("<{}@example.org>", subject.len()), "date": "2026-02-17"},
        });
        let (_, row) = kept(&node, "/normalize/email", &mail);
        assert_eq!(row["action"], "inserted");
        let (_, again) = kept(&node, "/normalize/email", &mail);
        assert_eq!(again["action"], "skipped");
    }
}

fn every_script_comes_back_as_it_went_in(store: Store) {
    let node = store.serve("");
    let text = "Привет 👋🏽 мир \\ \" ' \u{202e}abc\u{202c} \u{fffd} \u{10ffff} עברית ไทย \u{7f}";
    let row = insert(
        &node,
        &json!({"source": "web", "title": text, "clean_text": text, "metadata": {text: text}, "keywords": [text]}),
    );
    let whole = pull(&node, &row["entry_id"]);
    assert_eq!(
        (&whole["title"], &whole["clean_text"]),
        (&json!(text), &json!(text))
    );
    assert_eq!(whole["metadata"], json!({text: text}));
    assert_eq!(whole["keywords"], json!([text]));
}

fn metadata_may_be_as_deep_as_any_payload(store: Store) {
    let node = store.serve("");
    let deep = |leaf: &str| format!("{}{leaf}{}", r#"{"a":"#.repeat(127), "}".repeat(127));
    let body = format!(r#"{{"source":"web","title":"t","metadata":{}}}"#, deep("1"));
    let answer = node.owner("POST", "/db/insert", &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let number = answer.json()[0]["entry_id"].clone();
    let change = format!(
        r#"{{"items":[{{"entry_id":{number},"metadata":{}}}]}}"#,
        deep("2")
    );
    let answer = node.owner("POST", "/db/update", &change);
    assert_eq!(answer.json()[0]["action"], "updated", "{}", answer.text());
    let whole = node.owner(
        "POST",
        "/db/read/pull",
        &json!({"entry_id": number}).to_string(),
    );
    assert!(whole.text().contains(r#"{"a":2}"#), "{}", whole.text());
    let old = node.owner("GET", &format!("/v1/entries/{number}/revisions"), "");
    assert!(old.text().contains(r#"{"a":1}"#), "{}", old.text());
}

fn large_bodies_have_a_limit_and_normalising_a_large_text_is_quick(store: Store) {
    let node = store.serve("");
    for unit in [
        "a ",
        "> ",
        "/",
        "(",
        "https://",
        "<div>",
        "On Mon wrote:\n> ",
        "\u{1f44d}",
    ] {
        let text = unit.repeat(2_000_000 / unit.len());
        posted(&node, "/normalize/telegram", &thought(1, 1, &text));
        let mail = json!({"raw_text": text, "from": "a@example.org", "subject": "s"});
        let answer = node.owner("POST", "/normalize/email", &mail.to_string());
        assert!(
            [200, 400].contains(&answer.status),
            "{unit}: {}",
            answer.text()
        );
        posted(&node, "/normalize/webpage", &json!({ "text": text }));
        let answer = node.owner(
            "POST",
            "/normalize/webpage",
            &json!({ "html": text }).to_string(),
        );
        assert!(
            [200, 400].contains(&answer.status),
            "{unit}: {}",
            answer.text()
        );
    }
    let small = store.serve("batch_body_bytes_max = 100000");
    let big = json!({"text": "x".repeat(100_000)}).to_string();
    for path in ["/normalize/webpage", "/db/insert"] {
        refused(&small.owner("POST", path, &big), 413, "payload_too_large");
    }
    let over = json!({"q": "x".repeat(1 << 20)}).to_string();
    refused(
        &node.owner("POST", "/db/read/find", &over),
        413,
        "payload_too_large",
    );
}

fn a_large_entry_is_stored_and_found(store: Store) {
    let node = store.serve("");
    let text: String =
        (0..400_000).fold(String::new(), |text, number| text + &format!("w{number} "));
    let row = insert(
        &node,
        &json!({"source": "web", "title": "large", "clean_text": text, "capture_text": text}),
    );
    let whole = pull(&node, &row["entry_id"]);
    assert_eq!(whole["clean_text"], text.as_str());
    let found = posted(&node, "/db/read/find", &json!({"q": "w17"}));
    assert_eq!(found[0]["title"], "large");
    let words: Value = posted(&node, "/db/read/find", &json!({"q": "w399999"}));
    assert_eq!(words, json!([]), "only so much of a text is searched");
}

on_both_stores!(
    json_that_is_none_is_told_apart,
    nul_is_removed_by_normalising_and_refused_by_inserting,
    an_address_of_four_thousand_slashes_is_kept_once,
    a_subject_of_a_megabyte_is_kept_once,
    every_script_comes_back_as_it_went_in,
    metadata_may_be_as_deep_as_any_payload,
    large_bodies_have_a_limit_and_normalising_a_large_text_is_quick,
    a_large_entry_is_stored_and_found,
);
