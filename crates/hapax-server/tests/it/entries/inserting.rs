//! One entry comes in: inserted, skipped or updated, as its policy says.

use serde_json::{Value, json};

use super::{insert, kept, keyed, paths, posted, pull, refused, revisions, thought, with};
use crate::both::{Store, on_both_stores};

fn names(row: &Value) -> Vec<&str> {
    row.as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn a_new_entry_is_inserted_and_answers_the_default_row(store: Store) {
    let node = store.serve("");
    let row = insert(&node, &json!({"source": "web", "title": "Tea"}));
    assert_eq!(
        names(&row),
        [
            "action",
            "author",
            "content_type",
            "created_at",
            "entry_id",
            "id",
            "intent",
            "source",
            "title",
            "url",
            "url_canonical"
        ]
    );
    assert_eq!(row["action"], "inserted");
    assert!(row["entry_id"].is_u64(), "{row}");
    let again = insert(&node, &json!({"source": "web", "title": "Tea"}));
    assert_eq!(again["action"], "inserted", "without keys each is new");
    assert_ne!(again["id"], row["id"]);
    let metrics = node.send("GET", "/metrics", &[], b"").text();
    let counted = r#"hapax_entries_total{action="inserted",schema="pkm"} 2"#;
    assert!(metrics.contains(counted), "{metrics}");
}

fn the_four_policies_act_as_the_seed_says(store: Store) {
    let node = store.serve("");
    let mail = |from: &str, subject: &str, text: &str, id: Option<&str>| {
        json!({"raw_text": text, "from": from, "subject": subject,
               "source": {"message_id": id, "date": "2026-02-17T14:00:43Z"}})
    };
    let reply = |text: &str| format!("{text}\n\nOn Monday Ben wrote:\n> Well?\n> Tell me.\n");
    let cases = [
        (
            "/normalize/telegram",
            thought(1, 2, "first words"),
            thought(1, 2, "edited words"),
            "updated",
            "primary",
        ),
        (
            "/normalize/telegram",
            json!({"text": "https://example.org/a?utm_source=x"}),
            json!({"text": "again: https://Example.org/a/#top"}),
            "skipped",
            "primary",
        ),
        (
            "/normalize/email",
            mail(
                "News <n@example.org>",
                "Weekly",
                "Headlines of the week.",
                Some("<1@x>"),
            ),
            mail(
                "other@example.org",
                "Weekly",
                "Another text.",
                Some("<1@x>"),
            ),
            "skipped",
            "primary",
        ),
        (
            "/normalize/email",
            mail(
                "News <n@example.org>",
                "Monthly",
                "Headlines.",
                Some("<2@x>"),
            ),
            mail("n@example.org", "Fwd: Monthly", "Headlines.", Some("<3@x>")),
            "skipped",
            "secondary",
        ),
        (
            "/normalize/email",
            mail("a@example.org", "Re: Lunch", &reply("Noon."), None),
            mail("b@example.org", "RE: [team] lunch", &reply("One."), None),
            "updated",
            "primary",
        ),
    ];
    for (path, first, second, action, on) in cases {
        let (_, row) = kept(&node, path, &first);
        assert_eq!(row["action"], "inserted", "{first}");
        assert!(row.get("matched_on").is_none());
        let before = pull(&node, &row["entry_id"]);
        let (entry, again) = kept(&node, path, &second);
        assert_eq!(again["action"], action, "{second}");
        assert_eq!(again["matched_on"], on, "{second}");
        assert_eq!(again["entry_id"], row["entry_id"]);
        let after = pull(&node, &row["entry_id"]);
        if action == "skipped" {
            assert_eq!(after, before);
            assert_eq!(revisions(&node, &row["entry_id"]).len(), 0);
        } else {
            assert_eq!(after["clean_text"], entry["clean_text"]);
            let old = revisions(&node, &row["entry_id"]);
            assert_eq!(old, [before], "the old row is kept whole");
        }
    }
}

fn returning_takes_columns_and_nothing_else(store: Store) {
    let node = store.serve("");
    let entry = json!({"source": "web", "title": "Tea", "metadata": {"a": 1}});
    let asked = with(
        &entry,
        &json!({"returning": ["metadata", "revision", "title"]}),
    );
    let row = insert(&node, &asked);
    assert_eq!(names(&row), ["action", "metadata", "revision", "title"]);
    assert_eq!(
        (&row["metadata"], &row["revision"]),
        (&json!({"a": 1}), &json!(1))
    );
    let long = "x".repeat(10_000);
    for wrong in [
        "tenant_id",
        "*",
        "entries.title",
        "title FROM pkm.entries; DROP TABLE pkm.entries; --",
        "\"title\"",
        "text_hash",
        "Title",
        "",
        &long,
    ] {
        let asked = with(&entry, &json!({"returning": ["title", wrong]}));
        let answer = node.owner("POST", "/db/insert", &asked.to_string());
        let details = refused(&answer, 400, "schema_validation_failed");
        assert_eq!(paths(&details), ["/returning/1"]);
        assert!(answer.body.len() < 1000, "it repeats little");
    }
    let last = posted(&node, "/db/read/last", &json!({}));
    assert_eq!(
        last.as_array().unwrap().len(),
        1,
        "nothing refused was kept"
    );
}

fn what_is_no_column_or_no_value_of_it_is_named(store: Store) {
    let node = store.serve("");
    let entry = json!({
        "source": "web",
        "tenant_id": super::OTHER,
        "title\" = 'x'; --": 1,
        "clean_word_count": -1,
        "low_signal": "yes",
        "metadata": [],
        "keywords": ["a", 1],
    });
    let answer = node.owner("POST", "/db/insert", &entry.to_string());
    let details = refused(&answer, 400, "schema_validation_failed");
    let mut told = paths(&details);
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "/clean_word_count",
            "/keywords",
            "/low_signal",
            "/metadata",
            "/tenant_id",
            "/title\" = 'x'; --"
        ]
    );
    let answer = node.owner("POST", "/db/insert", r#"{"title":"no source"}"#);
    assert_eq!(
        paths(&refused(&answer, 400, "schema_validation_failed")),
        ["/source"]
    );
}

fn an_entry_without_any_text_title_or_url_is_refused(store: Store) {
    let node = store.serve("");
    let nothing = [
        json!({"source": "web"}),
        json!({"source": "web", "author": "me", "metadata": {"a": 1}, "gist": "short"}),
        json!({"source": "web", "title": " ", "clean_text": "", "url": null}),
        json!({"source": "telegram", "idempotency_policy_key": "telegram_thought_v1", "idempotency_key_primary": "tg:1:1"}),
    ];
    for entry in &nothing {
        let answer = node.owner("POST", "/db/insert", &entry.to_string());
        let details = refused(&answer, 400, "schema_validation_failed");
        assert_eq!(paths(&details), [""], "{entry}");
    }
    let rows = posted(&node, "/db/insert", &json!({ "items": nothing }));
    for row in rows.as_array().unwrap() {
        assert_eq!(row["error"]["code"], "schema_validation_failed", "{row}");
    }
    assert_eq!(posted(&node, "/db/read/last", &json!({})), json!([]));
    for column in [
        "title",
        "capture_text",
        "extracted_text",
        "clean_text",
        "url",
    ] {
        let row = insert(
            &node,
            &json!({"source": "web", column: "https://example.org/"}),
        );
        assert_eq!(row["action"], "inserted", "{column}");
    }
}

fn messages_and_mails_are_not_inserted_without_their_keys(store: Store) {
    let node = store.serve("");
    for source in ["telegram", "email", "email-batch", " Email "] {
        for more in [
            json!({}),
            json!({"idempotency_policy_key": "telegram_thought_v1"}),
            json!({"idempotency_key_primary": "k"}),
            json!({"idempotency_policy_key": "telegram_thought_v1", "idempotency_key_primary": " "}),
            json!({"idempotency_policy_key": null, "idempotency_key_primary": null, "idempotency_key_secondary": null}),
        ] {
            let entry = with(&json!({"source": source, "title": "x"}), &more);
            let answer = node.owner("POST", "/db/insert", &entry.to_string());
            refused(&answer, 400, "idempotency_fields_required");
        }
    }
    assert_eq!(posted(&node, "/db/read/last", &json!({})), json!([]));
}

fn an_unknown_and_a_disabled_policy_refuse(store: Store) {
    let node = store.serve("");
    let answer = node.owner(
        "POST",
        "/db/insert",
        &keyed("nobodys", Some("k"), None).to_string(),
    );
    refused(&answer, 400, "unknown_policy");
    let off = node.owner(
        "PUT",
        "/v1/policies/telegram_link_v1",
        r#"{"enabled":false}"#,
    );
    assert_eq!(off.status, 200, "{}", off.text());
    let entry = keyed("telegram_link_v1", Some("k"), None);
    let answer = node.owner("POST", "/db/insert", &entry.to_string());
    refused(&answer, 400, "policy_disabled");
    node.owner(
        "PUT",
        "/v1/policies/telegram_link_v1",
        r#"{"enabled":true}"#,
    );
    assert_eq!(insert(&node, &entry)["action"], "inserted");
}

fn what_the_store_gives_is_not_the_callers_to_say(store: Store) {
    let node = store.serve("");
    let entry = json!({
        "source": "web",
        "title": "t",
        "entry_id": 7_000_000,
        "id": super::OTHER,
        "revision": 9,
        "updated_at": "2001-01-01T00:00:00Z",
        "created_at": "2020-02-03T04:05:06Z",
        "returning": ["entry_id", "id", "revision", "created_at"],
    });
    let row = insert(&node, &entry);
    assert_ne!(row["entry_id"], 7_000_000);
    assert_ne!(row["id"], super::OTHER);
    assert_eq!(row["revision"], 1);
    assert_eq!(row["created_at"], "2020-02-03T04:05:06.000Z");
    let mut ignored: Vec<&str> = row["ignored"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    ignored.sort_unstable();
    assert_eq!(ignored, ["entry_id", "id", "revision", "updated_at"]);
}

fn a_conflict_burns_no_number(store: Store) {
    let node = store.serve("");
    let entry = keyed("telegram_link_v1", Some("k"), None);
    let first = insert(&node, &entry)["entry_id"].as_u64().unwrap();
    for _ in 0..5 {
        insert(&node, &entry);
        let refused = node.owner("POST", "/db/insert", r#"{"source":"telegram","title":"x"}"#);
        assert_eq!(refused.status, 400);
        let all = json!({"continue_on_error": false, "items": [{"source": "web", "title": "x"}, {"source": "telegram", "title": "x"}]});
        assert_eq!(
            node.owner("POST", "/db/insert", &all.to_string()).status,
            400
        );
    }
    let next = insert(&node, &json!({"source": "web", "title": "x"}))["entry_id"]
        .as_u64()
        .unwrap();
    assert_eq!(next, first + 1);
}

fn the_answer_of_an_insert_can_be_sent_again(store: Store) {
    let node = store.serve("");
    let entry = with(
        &keyed("email_correspondence_thread_v1", Some("k"), None),
        &json!({"title": "x", "returning": ["source", "title", "idempotency_policy_key", "idempotency_key_primary"]}),
    );
    insert(&node, &entry);
    let row = insert(&node, &entry);
    assert_eq!(row["matched_on"], "primary");
    assert_eq!(insert(&node, &row)["action"], "updated");
}

on_both_stores!(
    a_new_entry_is_inserted_and_answers_the_default_row,
    the_four_policies_act_as_the_seed_says,
    returning_takes_columns_and_nothing_else,
    what_is_no_column_or_no_value_of_it_is_named,
    an_entry_without_any_text_title_or_url_is_refused,
    messages_and_mails_are_not_inserted_without_their_keys,
    an_unknown_and_a_disabled_policy_refuse,
    what_the_store_gives_is_not_the_callers_to_say,
    a_conflict_burns_no_number,
    the_answer_of_an_insert_can_be_sent_again,
);
