//! What the normalise routes answer: a flat entry with its keys.

use serde_json::{Value, json};

use super::{kept, paths, posted, refused, thought};
use crate::both::{Store, on_both_stores};

/// What the contract lists of every entry.
const LISTED: [&str; 22] = [
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
];

fn newsletter() -> Value {
    json!({
        "raw_text": "The harvest was good this year. ".repeat(20),
        "from": "Sender Name <Sender@Example.com>",
        "subject": "Fwd: Weekly Update",
        "source": {"message_id": "<one@example.com>", "date": "2026-02-17T14:00:43Z"},
    })
}

fn reply() -> Value {
    json!({
        "raw_text": "Noon is fine.\n\nOn Mon, 16 Feb 2026, Ben wrote:\n> Shall we meet at noon?\n> Ben\n",
        "from": "ada@example.org",
        "subject": "RE: [team] Lunch",
    })
}

fn every_listed_column_is_in_the_answer_for_a_message_and_a_mail(store: Store) {
    let node = store.serve("");
    for (path, document) in [
        ("/normalize/telegram", thought(1, 2, "hello world")),
        ("/normalize/email", newsletter()),
        ("/normalize/email", reply()),
    ] {
        let entry = posted(&node, path, &document);
        let entry = entry.as_object().unwrap();
        for name in LISTED {
            assert!(entry.contains_key(name), "{path}: {name}");
        }
        let retrieval = &entry["metadata"]["retrieval"];
        assert!(retrieval["version"].is_string(), "{retrieval}");
        assert_eq!(retrieval["excerpt"], entry["retrieval_excerpt"]);
        assert_eq!(
            retrieval["quality"]["quality_score"],
            entry["quality_score"]
        );
    }
}

fn a_thought_has_the_keys_of_the_vectors(store: Store) {
    let node = store.serve("");
    let entry = posted(&node, "/normalize/telegram", &thought(1, 2, "hello world"));
    assert_eq!(
        (&entry["source"], &entry["content_type"]),
        (&json!("telegram"), &json!("thought"))
    );
    assert_eq!(entry["idempotency_policy_key"], "telegram_thought_v1");
    assert_eq!(entry["idempotency_key_primary"], "tg:1:2");
    assert_eq!(
        entry["idempotency_key_secondary"],
        "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
    );
    let group = thought(-1_001_234_567_890, 7, "hello");
    let group = posted(&node, "/normalize/telegram", &group);
    assert_eq!(group["idempotency_key_primary"], "tg:-1001234567890:7");
}

fn a_link_has_the_keys_of_the_vectors(store: Store) {
    let node = store.serve("");
    for (text, canonical, sha256) in [
        (
            "Check this https://example.com/path?utm_source=x#frag",
            "https://example.com/path",
            "5faa4bf4918ff56562141cc328545ec8f7b6dd27470cbdf4a7487593b3e83738",
        ),
        (
            "HTTPS://Example.COM/A/B/?b=2&a=1&utm_medium=q&fbclid=z",
            "https://example.com/A/B?b=2&a=1",
            "9309edd06bf3a14e0693579bdcf839d3a0b5293c06b3dd5b0447acaa9c8b270a",
        ),
    ] {
        let entry = posted(&node, "/normalize/telegram", &json!({ "text": text }));
        assert_eq!(entry["content_type"], "link");
        assert_eq!(entry["idempotency_policy_key"], "telegram_link_v1");
        assert_eq!(entry["idempotency_key_primary"], canonical);
        assert_eq!(entry["url_canonical"], canonical);
        assert_eq!(entry["idempotency_key_secondary"], sha256);
    }
}

fn mails_have_the_keys_of_the_vectors(store: Store) {
    let node = store.serve("");
    let entry = posted(&node, "/normalize/email", &newsletter());
    assert_eq!(
        (&entry["source"], &entry["content_type"]),
        (&json!("email"), &json!("newsletter"))
    );
    assert_eq!(entry["idempotency_policy_key"], "email_newsletter_v1");
    assert_eq!(entry["idempotency_key_primary"], "<one@example.com>");
    assert_eq!(
        entry["idempotency_key_secondary"],
        "13ac7956ddc1bf2f5676a1a2b2f5933923420f0854f34e663848d9e78d5ecf0e"
    );
    let entry = posted(&node, "/normalize/email", &reply());
    assert_eq!(entry["content_type"], "correspondence_thread");
    assert_eq!(
        entry["idempotency_policy_key"],
        "email_correspondence_thread_v1"
    );
    assert_eq!(
        entry["idempotency_key_primary"],
        "f3bb79e48a7a8af1d028f6acb7fa34b0c7f75da596fc205907d2a708fe28ebef"
    );
    assert_eq!(entry["idempotency_key_secondary"], Value::Null);
}

fn headers_and_underscores_tell_a_thread_from_a_newsletter(store: Store) {
    let node = store.serve("");
    let kind = |more: Value| {
        let mail =
            json!({"raw_text": "All is well here.", "from": "a@example.org", "subject": "News"});
        let entry = posted(&node, "/normalize/email", &super::with(&mail, &more));
        entry["content_type"].clone()
    };
    assert_eq!(kind(json!({})), "newsletter");
    assert_eq!(
        kind(json!({"headers": {"In-Reply-To": "<x@example.org>"}})),
        "correspondence_thread"
    );
    assert_eq!(
        kind(json!({"headers": {"References": "<x@example.org>", "List-Id": "<l.example.org>"}})),
        "correspondence_thread"
    );
    let outlook = "Yes.\n\n-----Original Message-----\nFrom: Ben\nSent: Monday\nTo: Ada\nSubject: News\n\nWell?";
    assert_eq!(
        kind(json!({ "raw_text": outlook })),
        "correspondence_thread"
    );
    let underscores = "Headlines\n____________________\nMore headlines below the line.";
    assert_eq!(kind(json!({ "raw_text": underscores })), "newsletter");
}

fn a_web_page_is_measured_and_keeps_its_text(store: Store) {
    let node = store.serve("");
    let text = "A word or two about tea. ".repeat(30);
    let page =
        json!({"text": text, "url": "https://Example.org/tea/?utm_source=x", "title": "Tea"});
    let (entry, row) = kept(&node, "/normalize/webpage", &page);
    assert_eq!(entry["extracted_text"], text.as_str());
    assert_eq!(entry["url_canonical"], "https://example.org/tea");
    assert_eq!(entry["clean_word_count"], 180);
    assert!(entry["metadata"]["retrieval"]["quality"].is_object());
    assert_eq!(entry["idempotency_key_primary"], Value::Null);
    assert_eq!(row["action"], "inserted");
    let given = json!({"text": text, "excerpt": "About tea.", "clean_text": "Short."});
    let given = posted(&node, "/normalize/webpage", &given);
    assert_eq!(given["retrieval_excerpt"], "About tea.");
    assert_eq!(given["clean_text"], "Short.");
}

fn a_page_without_text_leaves_retrieval_alone(store: Store) {
    let node = store.serve("");
    let page = json!({"text": "A word or two about tea. ".repeat(30), "title": "Tea"});
    let (_, row) = kept(&node, "/normalize/webpage", &page);
    let empty = posted(&node, "/normalize/webpage", &json!({"text": " \n\t "}));
    assert_eq!(empty["clean_text"], "");
    assert_eq!(empty["retrieval_update_skipped"], true);
    for name in ["retrieval_excerpt", "clean_word_count", "quality_score"] {
        assert!(empty.get(name).is_none(), "{empty}");
    }
    // Sent on as it is, it takes nothing of retrieval away.
    let over = super::with(&empty, &json!({"entry_id": row["entry_id"]}));
    super::update(&node, &over);
    let whole = super::pull(&node, &row["entry_id"]);
    assert_eq!(whole["clean_word_count"], 180);
    assert_eq!(whole["title"], "Tea");
}

fn an_article_is_taken_out_of_html(store: Store) {
    let node = store.serve("");
    let article = "The kettle was invented long ago, and people have argued about it ever since. ";
    let html = format!(
        "<html><head><title>Kettles</title></head><body><nav><a href='/a'>Home</a><a href='/b'>Shop</a></nav>\
         <article><h1>Kettles</h1><p>{}</p><p>{}</p><p>{}</p></article><footer>All rights reserved</footer></body></html>",
        article.repeat(4),
        article.repeat(5),
        article.repeat(6)
    );
    let entry = posted(&node, "/normalize/webpage", &json!({ "html": html }));
    let text = entry["clean_text"].as_str().unwrap();
    assert!(text.contains("kettle was invented"), "{text}");
    assert!(!text.contains("Shop") && !text.contains('<'), "{text}");
    assert_eq!(entry["title"], "Kettles");
}

fn what_is_missing_is_named_all_at_once(store: Store) {
    let node = store.serve("");
    for (path, document, missing) in [
        ("/normalize/telegram", json!({}), &["/text"][..]),
        (
            "/normalize/telegram",
            json!({"text": "hello"}),
            &["/source/chat_id", "/source/message_id"],
        ),
        (
            "/normalize/email",
            json!({}),
            &["/from", "/raw_text", "/subject"],
        ),
        ("/normalize/webpage", json!({"title": "x"}), &["/text"]),
    ] {
        let answer = node.owner("POST", path, &document.to_string());
        let details = refused(&answer, 400, "schema_validation_failed");
        let mut told = paths(&details);
        told.sort_unstable();
        assert_eq!(told, missing, "{path}");
    }
}

fn more_tracking_parameters_can_be_configured(store: Store) {
    let node = store.serve("tracking_parameters = ['ref', 'spm_*']");
    let text = "https://example.org/a?q=1&ref=me&spm_x=2&utm_source=3";
    let entry = posted(&node, "/normalize/telegram", &json!({ "text": text }));
    assert_eq!(entry["url_canonical"], "https://example.org/a?q=1");
}

on_both_stores!(
    every_listed_column_is_in_the_answer_for_a_message_and_a_mail,
    a_thought_has_the_keys_of_the_vectors,
    a_link_has_the_keys_of_the_vectors,
    mails_have_the_keys_of_the_vectors,
    headers_and_underscores_tell_a_thread_from_a_newsletter,
    a_web_page_is_measured_and_keeps_its_text,
    a_page_without_text_leaves_retrieval_alone,
    an_article_is_taken_out_of_html,
    what_is_missing_is_named_all_at_once,
    more_tracking_parameters_can_be_configured,
);
