//! Mails against the shared vectors: subjects, days, keys and types.

use hapax_core::entry::{Column, Fields};
use hapax_intake::{Refusal, date, email, subject};
use serde_json::{Value, json};

use crate::{list, paths, text, vectors};

fn mail_vectors() -> Value {
    vectors(include_str!("../../../../spec/vectors/mail.json"))
}

pub(crate) fn normalized(input: Value) -> Fields {
    email::normalize(input).unwrap()
}

fn classification(entry: &Fields) -> &Value {
    &entry.get(Column::Metadata)["classification"]
}

#[test]
fn subjects_have_the_base_that_the_vectors_say() {
    for case in list(&mail_vectors()["subject_base"]) {
        assert_eq!(subject::base(text(&case[0])), text(&case[1]), "{case}");
    }
}

#[test]
fn dates_fall_on_the_day_that_the_vectors_say() {
    for case in list(&mail_vectors()["date_bucket"]) {
        let found = case[0].as_str().and_then(date::day_bucket);
        assert_eq!(found.as_deref(), case[1].as_str(), "{case}");
    }
}

#[test]
fn newsletters_have_the_secondary_key_that_the_vectors_say() {
    for case in list(&mail_vectors()["email_newsletter_secondary"]) {
        let entry = normalized(json!({
            "raw_text": "Our news.", "from": case["from"], "subject": case["subject"],
            "source": { "date": case["date"] },
        }));
        assert_eq!(
            entry.get(Column::IdempotencyPolicyKey),
            "email_newsletter_v1"
        );
        assert_eq!(
            entry.get(Column::IdempotencyKeySecondary),
            &case["sha256"],
            "{case}"
        );
        assert_eq!(entry.get(Column::IdempotencyKeyPrimary), &Value::Null);
        let missing = &entry.get(Column::Metadata)["email"]["missing_keys"];
        let expected = if case["sha256"].is_null() { 2 } else { 1 };
        assert_eq!(list(missing).len(), expected, "{missing}");
    }
}

#[test]
fn conversations_have_the_primary_key_that_the_vectors_say() {
    for case in list(&mail_vectors()["correspondence_primary"]) {
        let entry = normalized(json!({
            "raw_text": "Yes.", "from": "ada@example.org", "subject": case["subject"],
            "headers": { "In-Reply-To": "<1@example.org>" }, "source": { "message_id": "<2@example.org>" },
        }));
        assert_eq!(
            entry.get(Column::IdempotencyPolicyKey),
            "email_correspondence_thread_v1"
        );
        assert_eq!(
            entry.get(Column::IdempotencyKeyPrimary),
            &case["sha256"],
            "{case}"
        );
        assert_eq!(entry.get(Column::IdempotencyKeySecondary), &Value::Null);
        let email = &entry.get(Column::Metadata)["email"];
        assert_eq!(email["subject_base"], case["subject_base"]);
        assert_eq!(email["missing_keys"].is_null(), !case["sha256"].is_null());
    }
}

#[test]
fn types_are_told_as_the_vectors_say() {
    let mut cases = 0;
    for case in list(&mail_vectors()["classification"]) {
        let subject = case["subject"].as_str().unwrap_or("Lunch");
        let entry = normalized(json!({
            "raw_text": case["raw_text"], "from": "ada@example.org", "subject": subject,
            "headers": case["headers"], "content_type": case["content_type"],
        }));
        let name = &case["name"];
        assert_eq!(entry.get(Column::ContentType), &case["type"], "{name}");
        let found = classification(&entry);
        assert_eq!(
            (&found["type"], &found["rule"]),
            (&case["type"], &case["rule"]),
            "{name}"
        );
        if let Some(clean) = case["clean"].as_str() {
            assert_eq!(entry.text(Column::CleanText), Some(clean), "{name}");
        }
        cases += 1;
    }
    assert!(cases > 40, "only {cases} cases");
}

#[test]
fn a_missing_member_is_named_and_so_is_every_other_fault() {
    let refusal = email::normalize(json!({})).unwrap_err();
    assert_eq!(refusal.code(), "schema_validation_failed");
    assert_eq!(paths(&refusal), ["/from", "/raw_text", "/subject"]);
    let refusal = email::normalize(json!([])).unwrap_err();
    assert_eq!(paths(&refusal), [""]);
    let refusal = email::normalize(json!({
        "raw_text": " \n", "from": 7, "subject": null, "headers": { "a/b": 1, "ok": null, "list": ["x", {}] },
        "source": { "date": [], "message_id": 5 }, "content_type": "poem", "idempotency_policy_key": "telegram_link_v1",
    }))
    .unwrap_err();
    let expected = [
        "/content_type",
        "/from",
        "/headers/a~1b",
        "/headers/list",
        "/idempotency_policy_key",
        "/raw_text",
        "/source/date",
        "/source/message_id",
        "/subject",
    ];
    assert_eq!(paths(&refusal), expected);
    assert!(matches!(
        email::normalize(json!({ "raw_text": "<p></p>", "from": "a@b", "subject": "" })),
        Err(Refusal::Schema(_))
    ));
}

#[test]
fn an_empty_subject_is_no_fault_and_makes_no_key() {
    let entry =
        normalized(json!({ "raw_text": "Hello", "from": "ada@example.org", "subject": "" }));
    assert_eq!(entry.get(Column::Title), &Value::Null);
    assert_eq!(entry.get(Column::IdempotencyKeySecondary), &Value::Null);
}

#[test]
fn source_from_addr_and_source_subject_are_not_used() {
    let plain = json!({ "raw_text": "Hello", "from": "ada@example.org", "subject": "One", "source": { "date": "2026-02-17" } });
    let mut other = plain.clone();
    other["source"]["from_addr"] = "eve@example.org".into();
    other["source"]["subject"] = "Two".into();
    assert_eq!(normalized(plain), normalized(other));
}

#[test]
fn a_conversation_by_references_has_its_root_for_a_key() {
    let key = |headers: Value, message_id: Value| {
        let entry = normalized(json!({
            "raw_text": "Yes.", "from": "ada@example.org", "subject": "Re: Lunch", "headers": headers,
            "source": { "message_id": message_id }, "idempotency_policy_key": "email_thread_refs_v1",
        }));
        assert_eq!(
            entry.get(Column::IdempotencyPolicyKey),
            "email_thread_refs_v1"
        );
        assert_eq!(entry.get(Column::IdempotencyKeySecondary), &Value::Null);
        entry.get(Column::IdempotencyKeyPrimary).clone()
    };
    let references = json!({ "References": "<root@x>\r\n <mid@x>", "In-Reply-To": "<mid@x>" });
    assert_eq!(key(references, json!("<own@x>")), "<root@x>");
    assert_eq!(
        key(json!({ "In-Reply-To": "<mid@x>" }), json!("<own@x>")),
        "<mid@x>"
    );
    assert_eq!(key(json!({}), json!(" <own@x> ")), "<own@x>");
    assert_eq!(key(json!({}), Value::Null), Value::Null);
}

#[test]
fn a_message_id_keeps_its_brackets_and_a_long_one_is_hashed() {
    let key = |id: &str| {
        let entry = normalized(
            json!({ "raw_text": "x", "from": "a@b.c", "subject": "s", "source": { "message_id": id } }),
        );
        text(entry.get(Column::IdempotencyKeyPrimary)).to_owned()
    };
    assert_eq!(key("  <1@example.org>\n"), "<1@example.org>");
    assert_eq!(key("1@example.org"), "1@example.org");
    assert!(key(&format!("<{}@x>", "a".repeat(2_000))).starts_with("sha256:"));
}

#[test]
fn both_doors_make_the_key_of_a_message_id_that_the_vectors_say() {
    for case in list(&mail_vectors()["message_id"]) {
        let id = text(&case[0]);
        let sent = normalized(
            json!({ "raw_text": "x", "from": "a@b.c", "subject": "s", "source": { "message_id": id, "date": "2026-02-17" } }),
        );
        // A header goes on in the next line if that begins with a space, and ends where it does not.
        let raw = format!(
            "Message-ID: {}\nFrom: a@b.c\nSubject: s\nDate: Tue, 17 Feb 2026 14:00:43 +0000\n\nx\n",
            id.trim_end()
        );
        let read = email::message(raw.as_bytes(), "email-batch").unwrap();
        for entry in [sent, read] {
            assert_eq!(entry.get(Column::IdempotencyKeyPrimary), &case[1], "{case}");
            assert!(!entry.get(Column::IdempotencyKeySecondary).is_null());
            let email = &entry.get(Column::Metadata)["email"];
            assert_eq!(email["message_id"], case[1], "{case}");
            assert_eq!(email["missing_keys"].is_null(), !case[1].is_null());
            assert_eq!(email::why_unkeyed(&entry), None);
        }
    }
}

#[test]
fn empty_brackets_give_way_to_an_id_elsewhere_and_are_nobody_s_root() {
    let raw = "Message-ID: <>\nMessage-ID: <2@x>\nReferences: <> <\0>\nMIME-Version: 1.0\nSubject: s\n\nx\n";
    let read = email::message_by_references(raw.as_bytes(), "email-batch").unwrap();
    assert_eq!(read.text(Column::IdempotencyKeyPrimary), Some("<2@x>"));
    let sent = normalized(
        json!({ "raw_text": raw, "from": "a@b.c", "subject": "s", "source": { "message_id": "<>" } }),
    );
    assert_eq!(sent.text(Column::IdempotencyKeyPrimary), Some("<2@x>"));
    let nul = email::message(b"Message-ID: <\0>\n\nx\n", "email-batch").unwrap();
    assert!(nul.get(Column::IdempotencyKeyPrimary).is_null());
    let root = email::message_by_references(b"Message-ID: < >\n\nx\n", "email-batch").unwrap();
    assert!(root.get(Column::IdempotencyKeyPrimary).is_null());
}

#[test]
fn a_missing_key_is_explained_to_a_person() {
    let missing = |input: Value| {
        let entry = normalized(input);
        let why = email::why_unkeyed(&entry).unwrap();
        let missing = &entry.get(Column::Metadata)["email"]["missing_keys"];
        let missing: Vec<&str> = list(missing).iter().map(text).collect();
        assert_eq!(why, missing.join("; "));
        why
    };
    let reply = json!({ "In-Reply-To": "<1@x>" });
    assert_eq!(
        missing(
            json!({ "raw_text": "x", "from": "a@b.c", "subject": "Re: [list]", "headers": reply })
        ),
        "the subject has nothing but tags and Re: or Fwd:"
    );
    assert_eq!(
        missing(json!({ "raw_text": "x", "from": "a@b.c", "subject": " ", "headers": reply })),
        "the subject is empty"
    );
    assert_eq!(
        missing(
            json!({ "raw_text": "x", "from": "Ada", "subject": "News", "source": { "message_id": "<>" } })
        ),
        "there is no Message-ID, or nothing between its brackets; the sender has no e-mail address; there is no date"
    );
    assert!(
        missing(json!({ "raw_text": "x", "from": "a@b.c", "subject": "News", "source": { "date": "some day" } }))
            .contains("the date cannot be read")
    );
}

#[test]
fn what_the_client_says_goes_before_what_the_message_says() {
    let raw = "Message-ID: <inner@x>\nDate: Tue, 17 Feb 2026 14:00:43 +0000\nFrom: Inner <inner@example.org>\n\
               Subject: Inner\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\nHello\n";
    let entry = normalized(
        json!({ "raw_text": raw, "from": "Outer <outer@example.org>", "subject": "Outer" }),
    );
    assert_eq!(entry.text(Column::CleanText), Some("Hello"));
    assert_eq!(entry.text(Column::Author), Some("Outer"));
    assert_eq!(entry.text(Column::Title), Some("Outer"));
    assert_eq!(entry.text(Column::IdempotencyKeyPrimary), Some("<inner@x>"));
    assert!(!entry.get(Column::IdempotencyKeySecondary).is_null());
    let entry = normalized(json!({
        "raw_text": raw, "from": "o@example.org", "subject": "O", "source": { "message_id": "<outer@x>" },
    }));
    assert_eq!(entry.text(Column::IdempotencyKeyPrimary), Some("<outer@x>"));
}

#[test]
fn keys_do_not_depend_on_the_text() {
    let keys = |raw_text: &str| {
        let entry = normalized(json!({
            "raw_text": raw_text, "from": "ada@example.org", "subject": "Lunch", "content_type": "newsletter",
            "source": { "date": "2026-02-17", "message_id": "<1@x>" },
        }));
        [
            Column::IdempotencyKeyPrimary,
            Column::IdempotencyKeySecondary,
        ]
        .map(|column| entry.get(column).clone())
    };
    assert_eq!(keys("One"), keys("Two\n\n> three\n-- \nAda"));
}

#[test]
fn nul_is_removed_and_said() {
    let entry =
        normalized(json!({ "raw_text": "a\0b", "from": "A\0da <a@b.c>", "subject": "s\0t" }));
    assert_eq!(entry.text(Column::CleanText), Some("ab"));
    assert_eq!(entry.text(Column::Title), Some("st"));
    assert_eq!(entry.get(Column::Metadata)["nul_removed"], true);
    assert!(
        !Value::Object(entry.into_json())
            .to_string()
            .contains("\\u0000")
    );
    let entry = email::message(b"Subject: a\0b\nFrom: x@y.z\n\nc\0d\n", "email-batch").unwrap();
    assert_eq!(entry.text(Column::CleanText), Some("cd"));
    assert_eq!(entry.get(Column::Metadata)["nul_removed"], true);
}

#[test]
fn an_entry_says_what_the_contract_lists() {
    let entry = normalized(
        json!({ "raw_text": "Our news of the week.", "from": "News <news@example.org>", "subject": "Weekly" }),
    );
    let entry = Value::Object(entry.into_json());
    for name in [
        "source",
        "intent",
        "content_type",
        "title",
        "author",
        "capture_text",
        "clean_text",
        "url",
        "url_canonical",
        "retrieval_excerpt",
        "clean_word_count",
        "clean_char_count",
        "extracted_char_count",
        "link_count",
        "link_ratio",
        "boilerplate_heavy",
        "low_signal",
        "quality_score",
        "metadata",
        "idempotency_policy_key",
        "idempotency_key_primary",
        "idempotency_key_secondary",
    ] {
        assert!(entry.get(name).is_some(), "{name} in {entry}");
    }
    assert_eq!(entry["source"], "email");
    assert!(entry["metadata"]["retrieval"]["quality"].is_object());
}

#[test]
fn a_forwarded_mail_says_whose_it_was() {
    let entry = normalized(json!({
        "raw_text": "---------- Forwarded message ---------\nFrom: News <news@example.org>\nDate: Mon\nSubject: Weekly\nTo: A\n\nOur news.\n",
        "from": "ada@example.org", "subject": "Fwd: Weekly",
    }));
    let forwarded = &entry.get(Column::Metadata)["email"]["forwarded"];
    assert_eq!(
        forwarded,
        &json!({ "from": "News <news@example.org>", "date": "Mon", "subject": "Weekly" })
    );
    assert_eq!(entry.text(Column::CleanText), Some("Our news."));
}
