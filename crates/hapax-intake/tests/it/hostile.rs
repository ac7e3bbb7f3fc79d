//! Entries from hostile input. These inputs are large enough that work with the square of their size would not end.

use hapax_core::entry::Column;
use hapax_intake::quality::assess;
use hapax_intake::telegram::{self, Update};
use hapax_intake::text::tidy;
use hapax_intake::url::{Tracking, canonical};
use hapax_intake::webpage::{self, NODES_MAX, Unread, article};
use proptest::prelude::*;
use serde_json::{Value, json};

const MEGABYTE: usize = 1 << 20;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        "(http|https|HTTPS|ftp)://[a-zа-я.@:/?#&=%\\[\\]()]{0,30}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let name = prop_oneof![
            Just("text"),
            Just("source"),
            Just("chat_id"),
            Just("message_id"),
            Just("url"),
            Just("entities"),
            Just("type"),
            Just("offset"),
            Just("title"),
            Just("message"),
            Just("chat"),
            Just("id"),
            Just("update_id"),
            Just("html"),
            Just("clean_text"),
            Just("caption"),
            Just("from"),
            Just("excerpt"),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6).prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_canonical_address_is_its_own(text in "(http|https|HTTPS)://[A-Za-zа-я0-9.@:-]{1,20}[/a-z.%2eE?&=_#;\\\\ +]{0,40}") {
        let tracking = Tracking::default();
        if let Ok(address) = canonical(&text, &tracking) {
            let again = canonical(&address.canonical, &tracking).unwrap();
            prop_assert_eq!(&again.canonical, &address.canonical);
            prop_assert!(!again.credentials_removed);
        }
    }

    #[test]
    fn no_text_makes_an_address_panic(text in "\\PC*") {
        let tracking = Tracking::default();
        if let Ok(address) = canonical(&text, &tracking) {
            prop_assert_eq!(canonical(&address.canonical, &tracking).unwrap().canonical, address.canonical);
        }
    }

    #[test]
    fn quality_stays_within_its_bounds(text in "([a-zа-я🍵]{0,12}|https?://[a-z()]{0,9}|[ \\n\\t\\u{a0}]){0,200}") {
        let found = assess(&text, None, "note");
        prop_assert!((0.0..=1.0).contains(&found.quality_score));
        prop_assert!((0.0..=1.0).contains(&found.link_ratio) || found.link_count > found.clean_word_count);
        prop_assert!(found.excerpt.chars().count() <= 321);
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if found.link_count == 0 {
            prop_assert!(line.starts_with(found.excerpt.trim_end_matches('…')));
        }
    }

    #[test]
    fn tidying_twice_changes_nothing_more(text in "[ a\\r\\n\\t\\u{feff}🍵]{0,60}") {
        let once = tidy(&text);
        prop_assert_eq!(tidy(&once), once);
    }

    #[test]
    fn no_document_makes_a_door_panic(document in any_json()) {
        let tracking = Tracking::default();
        let _ = telegram::normalize(document.clone(), &tracking);
        let _ = webpage::normalize(document.clone(), &tracking);
        if let Ok(Update { message: Some(message), .. }) = Update::read(document) {
            let _ = message.normalize(&tracking);
        }
    }

    #[test]
    fn no_page_makes_the_article_panic(html in "(<[/]?(p|div|b|a|table|td|svg|title|script|ul|li|article|!--)( class=[a-z]{0,5})?>|[a-zа-я &;<>\"]{0,20}){0,60}") {
        let _ = article(&html);
    }

    #[test]
    fn no_place_of_an_entity_makes_a_message_panic(text in "[a🍵й ]{1,12}", offset in any::<u64>(), length in any::<i64>()) {
        let entity = json!({ "type": "text_link", "offset": offset, "length": length, "url": "https://example.org/a" });
        let said = json!({ "text": text.clone() + "x", "entities": [entity], "source": { "chat_id": 1, "message_id": 1 } });
        let entry = telegram::normalize(said, &Tracking::default()).unwrap();
        prop_assert_eq!(entry.get(Column::IdempotencyKeyPrimary), "https://example.org/a");
    }
}

#[test]
fn large_messages_take_time_with_their_size_and_no_more() {
    for piece in [
        "http://",
        "://",
        "https://(",
        "http://[",
        "http://a.",
        "https://..",
        ":",
        "(",
        "https://a/?&",
        "\r\n",
        "\r",
        "{",
        "{\"title\":",
        "http://a@",
        "http://%",
        "\u{feff}",
        "🍵 ",
        "https://example.org/a ",
    ] {
        let text = piece.repeat(MEGABYTE / 4 / piece.len());
        let said =
            json!({ "text": format!("x{text}x"), "source": { "chat_id": 1, "message_id": 1 } });
        let entry = telegram::normalize(said, &Tracking::default()).unwrap();
        assert!(
            entry
                .text(Column::RetrievalExcerpt)
                .unwrap()
                .chars()
                .count()
                <= 321,
            "{piece:?}"
        );
        assert!(
            entry.text(Column::IdempotencyKeyPrimary).unwrap().len() <= 1_024,
            "{piece:?}"
        );
    }
    let entities = vec![json!({ "type": "text_link", "offset": 0, "url": "http://[" }); 50_000];
    let said =
        json!({ "text": "x", "entities": entities, "source": { "chat_id": 1, "message_id": 1 } });
    assert!(telegram::normalize(said, &Tracking::default()).is_ok());
}

#[test]
fn pages_that_would_take_too_much_are_given_up_early() {
    for (piece, unread) in [
        ("<div>", Unread::TooDeep),
        ("<ul><li>", Unread::TooDeep),
        ("<svg>", Unread::TooDeep),
        ("<table><td><div>", Unread::TooDeep),
        ("<br>", Unread::TooMany),
        ("<p>x", Unread::TooMany),
        ("<a ", Unread::TooManyAttributes),
        ("<!--", Unread::TooManyAttributes),
    ] {
        let html = piece.repeat(NODES_MAX + 1);
        assert_eq!(article(&html), Err(unread), "{piece}");
    }
    for (before, between, after) in [("<p ", " ", ">"), ("<p ", "/", ""), ("", "><body ", ">")] {
        let names: Vec<String> = (0..50_000).map(|n| format!("a{n}=''")).collect();
        let html = format!("{before}{}{after}", names.join(between));
        assert_eq!(article(&html), Err(Unread::TooManyAttributes), "{between}");
    }
    // Divs that a table puts outside itself, and formatting that every paragraph opens again.
    let fostered = format!("<table>{}", "<div>".repeat(50_000));
    assert_eq!(article(&fostered), Err(Unread::TooDeep));
    let tags: Vec<String> = (0..50_000).map(|n| format!("<b id={n}>")).collect();
    let formatting = tags.concat() + &"<p>".repeat(50_000);
    assert_eq!(article(&formatting), Err(Unread::TooDeep));
    let closed: Vec<String> = (0..5_000).map(|n| format!("<p><b id={n}></p>")).collect();
    assert_eq!(article(&closed.concat()), Err(Unread::TooDeep));
}

#[test]
fn large_pages_take_time_with_their_size_and_no_more() {
    for piece in [
        "&",
        "<",
        "&amp;",
        "\0",
        "words, and words ",
        "</p>",
        "&#1",
        "<![CDATA[",
        "чай🍵",
    ] {
        let html = format!("<p>{}", piece.repeat(MEGABYTE / 8 / piece.len()));
        assert!(article(&html).is_ok(), "{piece:?}");
    }
    let data = format!("<p><img src='data:{}'>word", "A/".repeat(MEGABYTE));
    assert_eq!(article(&data).unwrap().text, "word");
    let attribute = format!("<p><a title='{}'>word</a>", "&".repeat(MEGABYTE / 4));
    assert_eq!(article(&attribute).unwrap().text, "word");
}
