//! Addresses, links, quality, Telegram and web pages against the shared vectors.

use hapax_core::entry::{Column, Draft, Fields};
use hapax_intake::link::links;
use hapax_intake::quality::{EXCERPT_CHARS_MAX, assess, excerpt};
use hapax_intake::text::tidy;
use hapax_intake::url::{Tracking, URL_BYTES_MAX, Unfit, canonical};
use hapax_intake::{telegram, webpage};
use serde_json::{Value, json};

use crate::{list, paths, text, vectors};

fn cases(name: &str) -> Vec<Value> {
    let mut vectors = vectors(include_str!("../../../../spec/vectors/entries.json"));
    match vectors[name].take() {
        Value::Array(cases) => cases,
        other => panic!("no cases of {name}: {other}"),
    }
}

fn said(document: Value) -> Fields {
    telegram::normalize(document, &Tracking::default()).unwrap()
}

fn page(document: Value) -> webpage::Page {
    webpage::normalize(document, &Tracking::default()).unwrap()
}

#[test]
fn addresses_have_the_spelling_of_the_vectors_and_keep_it() {
    let tracking = Tracking::default();
    for case in cases("url") {
        let address = canonical(text(&case["url"]), &tracking).unwrap();
        assert_eq!(case["canonical"], address.canonical, "{case}");
        assert_eq!(case["sha256"], address.sha256(), "{case}");
        let again = canonical(&address.canonical, &tracking).unwrap();
        assert_eq!(again.canonical, address.canonical, "{case}");
    }
    for case in cases("url_unfit") {
        let why = match canonical(text(&case["url"]), &tracking).unwrap_err() {
            Unfit::Scheme => "scheme",
            Unfit::Unreadable => "unreadable",
            Unfit::TooLong => "too_long",
        };
        assert_eq!(case["why"], why, "{case}");
    }
}

#[test]
fn credentials_are_in_no_address() {
    let address = canonical("https://ada:hush@example.org/a#b", &Tracking::default()).unwrap();
    assert!(address.credentials_removed);
    assert_eq!(address.url, "https://example.org/a#b");
    let entry = said(json!({ "text": "x", "source": { "url": "https://ada:hush@example.org/a" } }));
    assert_eq!(entry.get(Column::Metadata)["credentials_removed"], true);
    assert!(
        !Value::Object(entry.into_json())
            .to_string()
            .contains("hush")
    );
    let entry = page(json!({ "text": "x", "url": "https://ada:hush@example.org/a" }));
    assert!(
        !Value::Object(entry.into_json())
            .to_string()
            .contains("hush")
    );
}

#[test]
fn a_list_of_tracking_parameters_can_be_added_to_and_not_emptied() {
    let extra = ["Ref", " src_* ", "", "*"].map(str::to_owned);
    let tracking = Tracking::with(extra);
    let address = canonical(
        "https://example.org/?ref=1&SRC_a=2&reference=3&gclid=4",
        &tracking,
    );
    assert_eq!(
        address.unwrap().canonical,
        "https://example.org/?reference=3"
    );
}

#[test]
fn long_addresses_are_read_up_to_the_limit() {
    let tracking = Tracking::default();
    let slashes = format!("https://example.org{}", "/".repeat(4_000));
    assert_eq!(
        canonical(&slashes, &tracking).unwrap().canonical,
        "https://example.org/"
    );
    let dots = format!("https://example.org/{}", "../a/".repeat(4_000));
    assert_eq!(
        canonical(&dots, &tracking).unwrap().canonical,
        "https://example.org/a"
    );
    let pairs = format!("https://example.org/?{}", "utm_a=b&".repeat(8_000));
    assert_eq!(
        canonical(&pairs, &tracking).unwrap().canonical,
        "https://example.org/"
    );
    let long = format!("https://example.org/{}", "a".repeat(URL_BYTES_MAX));
    assert_eq!(canonical(&long, &tracking), Err(Unfit::TooLong));
    // A character of three bytes takes nine in an address: one that fits as given does not always fit as it is kept.
    let escaped = |count| format!("https://example.org/{}", "\u{fffd}".repeat(count));
    assert!(escaped(8_000).len() < URL_BYTES_MAX);
    assert_eq!(canonical(&escaped(8_000), &tracking), Err(Unfit::TooLong));
    assert!(canonical(&escaped(7_000), &tracking).is_ok());

    // Its key is short whatever it is, and its hash is of the whole.
    let long = format!("https://example.org/{}", "a".repeat(4_000));
    let entry = said(json!({ "text": long.clone() }));
    assert!(
        entry
            .text(Column::IdempotencyKeyPrimary)
            .unwrap()
            .starts_with("sha256:")
    );
    assert_eq!(entry.get(Column::UrlCanonical), &json!(long));
}

#[test]
fn links_begin_and_end_as_the_vectors_say() {
    for case in cases("link") {
        let words = text(&case["text"]);
        let found: Vec<&str> = links(words).map(|place| &words[place]).collect();
        assert_eq!(case["links"], json!(found), "{case}");
    }
}

#[test]
fn quality_is_what_the_vectors_say_to_the_last_digit() {
    for group in cases("quality") {
        for case in list(&group["cases"]) {
            let words = usize::try_from(case["words"].as_u64().unwrap()).unwrap();
            let found = assess(
                &vec!["wordK"; words].join(" "),
                None,
                text(&case["content_type"]),
            );
            assert_eq!(case["low_signal"], found.low_signal, "{case}");
            let score = case["quality_score"].as_f64().unwrap();
            assert_eq!(found.quality_score.to_bits(), score.to_bits(), "{case}");
        }
    }
}

#[test]
fn quality_counts_characters_and_not_bytes_or_units() {
    let tea = assess("чай 🍵 שלום", None, "thought");
    assert_eq!((tea.clean_word_count, tea.clean_char_count), (3, 10));
    let forty = |content_type| assess(&format!("{}ы", "чай ".repeat(10)), None, content_type);
    assert!(!forty("thought").low_signal);
    assert!(forty("newsletter").low_signal);
}

#[test]
fn many_links_are_boilerplate_by_share_or_by_number() {
    let text = |links: usize, words: usize| {
        format!(
            "{}{}",
            "https://example.org/a ".repeat(links),
            "word ".repeat(words)
        )
    };
    let flags = |links, words| {
        let found = assess(&text(links, words), None, "newsletter");
        (found.link_count, found.boilerplate_heavy)
    };
    assert_eq!(flags(18, 82), (18, false), "0.18 is not more than 0.18");
    assert_eq!(flags(19, 81), (19, true));
    assert_eq!(flags(24, 1_000), (24, false));
    assert_eq!(flags(25, 1_000), (25, true));
    assert!(assess("", None, "link").link_ratio.abs() < f64::EPSILON);
}

#[test]
fn an_excerpt_is_cut_at_a_space_and_leaves_links_out_if_enough_remains() {
    let long = "восемь 🍵 ".repeat(100);
    let cut = excerpt(&long);
    let body = cut.strip_suffix('…').unwrap();
    assert!(body.chars().count() <= EXCERPT_CHARS_MAX && long.starts_with(body));
    assert_eq!(long[body.len()..].chars().next(), Some(' '));

    assert_eq!(
        excerpt("see https://example.org/a"),
        "see https://example.org/a"
    );
    let enough = "a sentence that is long enough to stand without its link";
    assert_eq!(excerpt(&format!("{enough} https://example.org/a")), enough);
    assert_eq!(
        excerpt(&format!("{enough} [here](https://example.org/a) too")),
        format!("{enough} [here] too")
    );
    let word = excerpt(&"x".repeat(1_000_000));
    assert_eq!(word.chars().count(), EXCERPT_CHARS_MAX + 1);
    let early = excerpt(&format!("ab {}", "x".repeat(1_000)));
    assert_eq!(early, "ab…", "the only space is early");
    let full = format!("a {}", "x".repeat(EXCERPT_CHARS_MAX - 2));
    assert_eq!(excerpt(&full), full);
    assert_eq!(excerpt(&format!("{full} b")), format!("{full}…"));
    assert_eq!(excerpt(&format!("{full}b")), "a…");
}

#[test]
fn text_is_tidied_without_harm_to_what_it_says() {
    for (given, tidied) in [
        ("\r\n a\r\nb \r\r\n\n\n c ", "a\nb\n\n c"),
        ("fn f() {\n    1  +  1;\n}\n", "fn f() {\n    1  +  1;\n}"),
        ("👩‍👩‍👧 \u{200f}שלום\u{200f} ", "👩‍👩‍👧 \u{200f}שלום\u{200f}"),
        ("\u{feff}", ""),
        ("\\ \\n \\u0000", "\\ \\n \\u0000"),
    ] {
        assert_eq!(tidy(given), tidied, "{given:?}");
        assert_eq!(tidy(tidied), tidied, "{given:?}");
    }
}

#[test]
fn telegram_messages_become_the_entries_of_the_vectors() {
    for case in cases("telegram_thought") {
        let entry = said(json!({
            "text": case["clean_text"],
            "source": { "chat_id": case["chat_id"], "message_id": case["message_id"] },
        }));
        assert_eq!(
            entry.get(Column::IdempotencyPolicyKey),
            "telegram_thought_v1"
        );
        assert_eq!(entry.get(Column::IdempotencyKeyPrimary), &case["primary"]);
        assert_eq!(
            entry.get(Column::IdempotencyKeySecondary),
            &case["secondary"]
        );
        assert_eq!(entry.get(Column::ContentType), "thought");
    }
    for case in cases("telegram_link") {
        let entry = said(json!({ "text": case["text"] }));
        assert_eq!(entry.get(Column::IdempotencyPolicyKey), "telegram_link_v1");
        assert_eq!(entry.get(Column::IdempotencyKeyPrimary), &case["primary"]);
        assert_eq!(
            entry.get(Column::IdempotencyKeySecondary),
            &case["secondary"]
        );
        assert_eq!(entry.get(Column::UrlCanonical), &case["primary"]);
        assert_eq!(entry.get(Column::ContentType), "link");
    }
    for case in cases("telegram") {
        let entry = said(case["input"].clone());
        for (column, name) in [
            (Column::ContentType, "content_type"),
            (Column::Title, "title"),
            (Column::CleanText, "clean_text"),
            (Column::IdempotencyKeyPrimary, "primary"),
            (Column::IdempotencyKeySecondary, "secondary"),
        ] {
            assert_eq!(entry.get(column), &case[name], "{case}");
        }
        assert_eq!(entry.get(Column::CaptureText), &case["input"]["text"]);
        assert_eq!(entry.get(Column::Source), "telegram");
    }
}

#[test]
fn telegram_messages_are_refused_with_every_fault() {
    for case in cases("telegram_refused") {
        let refusal = telegram::normalize(case["input"].clone(), &Tracking::default()).unwrap_err();
        assert_eq!(refusal.code(), "schema_validation_failed");
        assert_eq!(case["paths"], json!(paths(&refusal)), "{case}");
    }
}

#[test]
fn an_entry_that_was_normalised_can_be_inserted_as_it_is() {
    let source =
        json!({ "chat_id": 1, "message_id": 2, "date": 5, "forward_origin": { "type": "user" } });
    let thought = said(json!({ "text": "hello \u{0}world", "author": "Ada", "source": source }));
    let metadata = thought.get(Column::Metadata);
    assert_eq!(metadata["nul_removed"], true);
    assert_eq!(
        metadata["telegram"],
        json!({ "chat_id": 1, "message_id": 2, "date": 5, "forward_origin": { "type": "user" } })
    );
    assert_eq!(thought.get(Column::CleanText), "hello world");
    let retrieval = &metadata["retrieval"];
    assert_eq!(&retrieval["excerpt"], thought.get(Column::RetrievalExcerpt));
    assert_eq!(
        &retrieval["quality"]["quality_score"],
        thought.get(Column::QualityScore)
    );
    for entry in [
        thought.into_json(),
        page(json!({ "text": "hello", "url": "https://example.org" })).into_json(),
        page(json!({ "text": "" })).into_json(),
    ] {
        let draft = Draft::read(&entry, |_| None).unwrap();
        assert_eq!(draft.ignored, []);
    }
}

#[test]
fn a_page_has_its_text_in_both_columns_and_its_quality() {
    let found = page(json!({
        "text": "Water first,\r\nthen leaves. ", "capture_text": "tea?", "excerpt": " how  to ",
        "url": "https://Example.org/tea/?utm_source=x", "content_type": "note", "title": "Tea",
    }));
    assert!(!found.retrieval_update_skipped);
    let fields = found.fields;
    for (column, value) in [
        (Column::Source, json!("web")),
        (Column::ContentType, json!("note")),
        (Column::Title, json!("Tea")),
        (Column::CaptureText, json!("tea?")),
        (
            Column::ExtractedText,
            json!("Water first,\r\nthen leaves. "),
        ),
        (Column::CleanText, json!("Water first,\nthen leaves.")),
        (Column::ExtractedCharCount, json!(27)),
        (Column::CleanCharCount, json!(25)),
        (Column::RetrievalExcerpt, json!("how to")),
        (Column::Url, json!("https://Example.org/tea/?utm_source=x")),
        (Column::UrlCanonical, json!("https://example.org/tea")),
        (Column::IdempotencyPolicyKey, Value::Null),
    ] {
        assert_eq!(fields.get(column), &value, "{column:?}");
    }
    assert_eq!(
        fields.get(Column::Metadata)["retrieval"]["excerpt"],
        "how to"
    );
    assert!(!fields.says(Column::Author), "nobody said who wrote it");

    let both = page(json!({
        "text": "raw", "clean_text": "clean", "url": "https://example.org/a",
        "url_canonical": "https://example.org/b/#c",
    }));
    assert_eq!(both.fields.get(Column::ExtractedText), "raw");
    assert_eq!(both.fields.get(Column::CleanText), "clean");
    assert_eq!(
        both.fields.get(Column::UrlCanonical),
        "https://example.org/b"
    );
}

#[test]
fn a_page_without_text_leaves_the_retrieval_fields_alone() {
    for (document, extracted_text) in [
        (json!({ "text": " \n\u{0}" }), " \n"),
        (json!({ "text": "", "clean_text": " " }), ""),
        (json!({ "clean_text": " " }), ""),
        (json!({ "html": "<script>1</script><nav></nav>" }), ""),
    ] {
        let found = page(document.clone());
        assert!(found.retrieval_update_skipped, "{document}");
        assert_eq!(found.fields.get(Column::CleanText), "");
        assert_eq!(found.fields.get(Column::ExtractedText), extracted_text);
        for column in [
            Column::RetrievalExcerpt,
            Column::QualityScore,
            Column::CleanWordCount,
            Column::LowSignal,
        ] {
            assert!(!found.fields.says(column), "{document}");
        }
        assert!(found.fields.get(Column::Metadata)["retrieval"].is_null());
        assert_eq!(found.into_json()["retrieval_update_skipped"], true);
    }
}

#[test]
fn a_page_is_refused_with_every_fault() {
    let refused = |document: Value| {
        let refusal = webpage::normalize(document, &Tracking::default()).unwrap_err();
        paths(&refusal).join(" ")
    };
    assert_eq!(refused(json!([])), "");
    assert_eq!(refused(json!({ "text": null })), "/text");
    assert_eq!(
        refused(
            json!({ "text": 1, "url": "example.org", "url_canonical": "ftp://x.example", "title": "x".repeat(2_001) })
        ),
        "/text /title /url /url_canonical"
    );
    assert_eq!(refused(json!({ "html": "<b>".repeat(2_000) })), "/html");
}
