//! The parser against good answers, every kind of bad one, and whatever chance makes up.

use std::time::{Duration, Instant};

use hapax_effects::enrich::parse::{
    FLAGS_BYTES_MAX, GIST_CHARS_MAX, KEYWORD_CHARS_MAX, KEYWORDS_MAX, KEYWORDS_MIN, RAW_BYTES_MAX,
    TOPIC_CHARS_MAX,
};
use hapax_effects::enrich::{ParseError, Parser, Reason, T1, Topics};
use proptest::prelude::*;
use serde_json::{Value, json};

fn parser() -> Parser {
    Parser::new(Topics::default())
}

/// A good answer, in which `change` may change anything.
fn said(change: impl FnOnce(&mut Value)) -> String {
    let mut answer = json!({
        "topic_primary": "food", "topic_primary_confidence": 0.9,
        "topic_secondary": "health", "topic_secondary_confidence": 0.4,
        "keywords": ["tea", "leaves", "water", "kettle", "cup"],
        "gist": "Tea is made of leaves and water.", "flags": {"has_recipe": true},
    });
    change(&mut answer);
    answer.to_string()
}

/// A good answer with one field set.
fn with(field: &str, value: Value) -> String {
    said(|answer| answer[field] = value)
}

/// A good answer without a field.
fn without(field: &str) -> String {
    said(|answer| {
        answer.as_object_mut().unwrap().remove(field);
    })
}

fn parsed(raw: &str) -> T1 {
    let t1 = parser().parse(raw);
    t1.unwrap_or_else(|error| panic!("{error} in {raw}"))
}

fn refused(raw: &str) -> ParseError {
    match parser().parse(raw) {
        Err(error) => error,
        Ok(t1) => panic!("{t1:?} of {raw}"),
    }
}

#[test]
fn a_good_answer_is_taken_field_by_field() {
    let t1 = parsed(&said(|_| {}));
    assert_eq!(
        serde_json::to_value(&t1).unwrap(),
        serde_json::from_str::<Value>(&said(|_| {})).unwrap()
    );
    let stored = serde_json::to_string(&t1).unwrap();
    assert_eq!(serde_json::from_str::<T1>(&stored).unwrap(), t1);
}

#[test]
fn what_does_not_change_the_meaning_is_accepted() {
    let same = parsed(&said(|_| {}));
    for raw in [
        format!(" \r\n{}\n", said(|_| {})),
        format!("\u{feff}{}", said(|_| {})),
        format!("```json\n{}\n```", said(|_| {})),
        format!("```{}```", said(|_| {})),
        format!("```\n{}", said(|_| {})),
        format!("Here it is:\n{}\nI hope it helps.", said(|_| {})),
        format!("\u{feff}Sure:\n```json\n{}\n```\nDone.", said(|_| {})),
        format!("As {{asked}}, of {{topics}}: {} ({{sic}})", said(|_| {})),
        format!("{}}}", said(|_| {})),
        with("keywords", json!("Tea, leaves; water,kettle\ncup")),
        with(
            "keywords",
            json!([
                "tea",
                "leaves",
                null,
                ["x"],
                "water",
                "x".repeat(KEYWORD_CHARS_MAX + 1),
                "kettle",
                "cup"
            ]),
        ),
        with("topic_primary_confidence", json!("0.9")),
        with("topic_primary_confidence", json!("90 %")),
        with("topic_primary_confidence", json!(90)),
        with("flags", json!(["has_recipe", "", 5])),
        with("flags", json!("has_recipe")),
        with("flags", json!({"has_recipe": true, "x": ["\u{0}"]})),
        with("topic_primary", json!(" Food ")),
        with("topic_secondary", json!("HEALTH")),
        with(
            "keywords",
            json!(["Tea", " leaves ", "wa\u{0}ter", "kettle", "CUP"]),
        )
        .replace("wa\\u0000ter", "water"),
        with(
            "keywords",
            json!(["tea", "leaves", "TEA", "water", "", " ", "kettle", "cup"]),
        ),
        with("gist", json!("Tea is made\n of  leaves and\u{0}water. ")),
        said(|answer| answer["language"] = json!("en")),
    ] {
        assert_eq!(parsed(&raw), same, "{raw}");
    }
    let topics = Topics::new(["open source", "other"]).unwrap();
    let spelled = with("topic_primary", json!("Open_Source"));
    let spelled = spelled.replace("\"health\"", "\"other\"");
    let t1 = Parser::new(topics).parse(&spelled).unwrap();
    assert_eq!(t1.topic_primary, "open-source");
}

#[test]
fn a_missing_empty_or_repeated_second_topic_is_none() {
    let none = |t1: T1| (t1.topic_secondary, t1.topic_secondary_confidence) == (None, None);
    for raw in [
        without("topic_secondary"),
        with("topic_secondary", Value::Null),
        with("topic_secondary", json!("  ")),
        with("topic_secondary", json!("Food")),
        with("topic_secondary", json!(3)),
        with("topic_secondary", json!("x".repeat(TOPIC_CHARS_MAX + 1))),
        said(|answer| {
            answer["topic_secondary"] = Value::Null;
            answer["topic_secondary_confidence"] = json!(0);
        }),
    ] {
        assert!(none(parsed(&raw)), "{raw}");
    }
    for no_flags in [
        without("flags"),
        with("flags", Value::Null),
        with("flags", json!([])),
        with("flags", json!(7)),
        with("flags", json!({"a": "x".repeat(FLAGS_BYTES_MAX)})),
    ] {
        assert!(parsed(&no_flags).flags.is_empty(), "{no_flags}");
    }
}

#[test]
fn a_primary_topic_that_is_not_listed_becomes_other_and_what_was_said_is_kept() {
    let t1 = parsed(&with("topic_primary", json!(" Astrology\nof cats ")));
    assert_eq!(t1.topic_primary, "other");
    assert_eq!(t1.topic_said.as_deref(), Some("Astrology of cats"));
    assert_eq!(t1.topic_primary_confidence.to_string(), "0.9");
    // `other` itself is listed, and a missing topic says nothing.
    for (raw, said) in [
        (with("topic_primary", json!("Other")), None),
        (with("topic_primary", Value::Null), None),
        (with("topic_primary", json!("")), None),
        (with("topic_primary", json!(["food"])), None),
        (
            with("topic_primary", json!("x".repeat(TOPIC_CHARS_MAX + 1))),
            None,
        ),
        (without("topic_primary"), None),
        (
            with("topic_primary", json!("food, health")),
            Some("food, health"),
        ),
    ] {
        let t1 = parsed(&raw);
        assert_eq!(
            (t1.topic_primary.as_str(), t1.topic_said.as_deref()),
            ("other", said),
            "{raw}"
        );
    }
    assert_eq!(parsed(&said(|_| {})).topic_said, None);
    // Also where the configured list does not have it.
    let few = Parser::new(Topics::new(["tea"]).unwrap());
    let t1 = few.parse(&said(|_| {})).unwrap();
    assert_eq!(
        (t1.topic_primary.as_str(), t1.topic_said.as_deref()),
        ("other", Some("food"))
    );
}

#[test]
fn the_secondary_topic_is_free_unless_topics_are_strict() {
    for (word, kept) in [
        ("Green tea rituals", "Green tea rituals"),
        ("Open_Source", "open-source"),
        (
            "one two three four five six seven",
            "one two three four five",
        ),
    ] {
        let raw = with("topic_secondary", json!(word));
        let t1 = parsed(&raw);
        assert_eq!(t1.topic_secondary.as_deref(), Some(kept), "{raw}");
        assert_eq!(
            t1.topic_secondary_confidence.map(|sure| sure.to_string()),
            Some("0.4".to_owned())
        );
    }
    let strict = parser().strict(true);
    let free = with("topic_secondary", json!("Green tea rituals"));
    let t1 = strict.parse(&free).unwrap();
    assert_eq!(
        (t1.topic_secondary, t1.topic_secondary_confidence),
        (None, None)
    );
    assert_eq!(
        strict
            .parse(&said(|_| {}))
            .unwrap()
            .topic_secondary
            .as_deref(),
        Some("health")
    );
    let unknown = strict.parse(&with("topic_primary", json!("tea"))).unwrap();
    assert_eq!(
        (
            unknown.topic_primary.as_str(),
            unknown.topic_said.as_deref()
        ),
        ("other", Some("tea"))
    );
}

#[test]
fn a_confidence_that_says_nothing_is_zero() {
    for raw in [
        without("topic_primary_confidence"),
        with("topic_primary_confidence", Value::Null),
        with("topic_primary_confidence", json!("high")),
        with("topic_primary_confidence", json!(true)),
        with("topic_primary_confidence", json!(-0.1)),
        with("topic_primary_confidence", json!(101)),
        with("topic_primary_confidence", json!("NaN")),
        with("topic_primary_confidence", json!("inf")),
    ] {
        assert!(
            parsed(&raw).topic_primary_confidence.abs() < f64::EPSILON,
            "{raw}"
        );
    }
    let second = parsed(&without("topic_secondary_confidence"));
    assert_eq!(second.topic_secondary.as_deref(), Some("health"));
    assert!(second.topic_secondary_confidence.unwrap().abs() < f64::EPSILON);
}

#[test]
fn a_long_gist_is_cut_at_its_end() {
    let t1 = parsed(&with("gist", json!("é".repeat(GIST_CHARS_MAX + 1))));
    assert_eq!(t1.gist.chars().count(), GIST_CHARS_MAX);
    assert!(t1.gist.ends_with("é…"));
}

#[test]
fn more_than_twelve_keywords_are_cut_to_the_first_twelve() {
    let many: Vec<String> = (0..40).map(|number| format!("Word {number}")).collect();
    let t1 = parsed(&with("keywords", json!(many)));
    assert_eq!(t1.keywords.len(), KEYWORDS_MAX);
    assert_eq!(
        (t1.keywords[0].as_str(), t1.keywords[11].as_str()),
        ("word 0", "word 11")
    );
}

/// Each of these answers is refused for its reason, and kept.
fn all_refused(cases: Vec<(String, Reason)>) {
    for (raw, reason) in cases {
        let error = refused(&raw);
        assert_eq!(error.reason, reason, "{error} in {raw}");
        assert_eq!(error.raw, raw);
        assert!(error.to_string().starts_with(reason.as_str()), "{error}");
        assert!(!format!("{error:?}").contains("Tea is"), "{error:?}");
    }
}

#[test]
fn an_answer_of_another_shape_is_refused_for_its_reason_and_kept() {
    let good = said(|_| {});
    let number = |text: &str| good.replace("0.9", text);
    all_refused(vec![
        (String::new(), Reason::Empty),
        (" \n\t".to_owned(), Reason::Empty),
        ("\u{feff}".to_owned(), Reason::Empty),
        (format!("{good}{good}"), Reason::BadJson),
        (format!("first {good} second {{}}"), Reason::BadJson),
        ("```json\nnothing\n```".to_owned(), Reason::BadJson),
        (format!("```json\n{}", &good[..40]), Reason::BadJson),
        ("```json\n{}\n```".to_owned(), Reason::MissingField),
        (format!("[{good},{good}]"), Reason::NotAnObject),
        ("I cannot help with that.".to_owned(), Reason::BadJson),
        (good[..good.len() / 2].to_owned(), Reason::BadJson),
        (good.replace("true", "True"), Reason::BadJson),
        (good.replace("\"food\"", "'food'"), Reason::BadJson),
        (good.replace('}', ",}"), Reason::BadJson),
        (
            good.replacen('{', "{\"gist\":\"other\",", 1),
            Reason::BadJson,
        ),
        (good.replace("Tea is", "\\ud800"), Reason::BadJson),
        (number("1e999"), Reason::BadJson),
        (number("NaN"), Reason::BadJson),
        (format!("{{\"flags\":{}", "[".repeat(1000)), Reason::BadJson),
        (
            with("flags", json!({"a": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]})),
            Reason::BadJson,
        ),
        ("null".to_owned(), Reason::NotAnObject),
        ("42".to_owned(), Reason::NotAnObject),
        ("\"food\"".to_owned(), Reason::NotAnObject),
        (format!("[{good}]"), Reason::NotAnObject),
        ("[]".to_owned(), Reason::NotAnObject),
        ("{}".to_owned(), Reason::MissingField),
    ]);
}

#[test]
fn an_answer_with_one_bad_field_is_refused_for_its_reason_and_kept() {
    all_refused(vec![
        (without("keywords"), Reason::TooFewKeywords),
        (with("keywords", Value::Null), Reason::TooFewKeywords),
        (with("keywords", json!({"a": 1})), Reason::TooFewKeywords),
        (
            with("keywords", json!([[], {}, null, true])),
            Reason::TooFewKeywords,
        ),
        (without("gist"), Reason::MissingField),
        (with("gist", Value::Null), Reason::MissingField),
        (with("gist", json!(["Tea."])), Reason::WrongType),
    ]);
}

#[test]
fn an_answer_with_too_few_keywords_or_an_empty_gist_is_refused_and_kept() {
    all_refused(vec![
        (
            with("keywords", json!(["a", "b", "c", "d"])),
            Reason::TooFewKeywords,
        ),
        (with("keywords", json!([])), Reason::TooFewKeywords),
        (
            with("keywords", json!("a, b, c, d,")),
            Reason::TooFewKeywords,
        ),
        (
            with("keywords", json!(["a", "A", " a ", "b", "c", "d"])),
            Reason::TooFewKeywords,
        ),
        (
            with("keywords", json!(["a", "b", "c", "d", " "])),
            Reason::TooFewKeywords,
        ),
        (
            with(
                "keywords",
                json!(["a", "b", "c", "d", "x".repeat(KEYWORD_CHARS_MAX + 1)]),
            ),
            Reason::TooFewKeywords,
        ),
        (with("gist", json!("")), Reason::EmptyGist),
        (with("gist", json!(" \n\u{0}")), Reason::EmptyGist),
    ]);
}

#[test]
fn a_huge_answer_is_refused_in_time_and_its_beginning_is_kept() {
    let began = Instant::now();
    for raw in [
        "{".repeat(1 << 20),
        "{\"".repeat(1 << 20),
        "{ ".repeat(1 << 19),
        "[{\"a\":".repeat(1 << 18),
        "```".repeat(1 << 19),
        format!("é{}", "/".repeat(1 << 20)),
        format!("{{\"keywords\":[{}\"a\"]}}", "\"a\",".repeat(1 << 18)),
        "é".repeat(1 << 20),
    ] {
        let error = parser().parse(&raw).unwrap_err();
        assert!(error.raw.len() <= RAW_BYTES_MAX && raw.starts_with(&error.raw));
    }
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

/// What must hold of whatever is accepted.
fn holds(t1: &T1) {
    let topics = Topics::default();
    let known = |topic: &str| topics.names().iter().any(|name| name == topic);
    assert!(known(&t1.topic_primary));
    assert!(t1.topic_said.is_none() || t1.topic_primary == "other");
    assert!((0.0..=1.0).contains(&t1.topic_primary_confidence));
    assert_eq!(
        t1.topic_secondary.is_some(),
        t1.topic_secondary_confidence.is_some()
    );
    assert!(
        t1.topic_secondary
            .as_deref()
            .is_none_or(|topic| !topic.is_empty() && topic != t1.topic_primary)
    );
    assert!(
        t1.topic_secondary_confidence
            .is_none_or(|sure| (0.0..=1.0).contains(&sure))
    );
    assert!((KEYWORDS_MIN..=KEYWORDS_MAX).contains(&t1.keywords.len()));
    let mut different = t1.keywords.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), t1.keywords.len());
    let is_clean =
        |text: &str| !text.is_empty() && text == text.trim() && !text.contains(char::is_control);
    for keyword in &t1.keywords {
        assert!(
            is_clean(keyword) && *keyword == keyword.to_lowercase(),
            "{keyword:?}"
        );
    }
    assert!(is_clean(&t1.gist) && t1.gist.chars().count() <= GIST_CHARS_MAX);
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1.0..2.0).prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        prop::sample::select(vec!["food", "Health", "OTHER", "tea"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 24, 14, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..14).prop_map(Value::from),
            prop::collection::vec("\\PC{0,8}", 0..16).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_text_is_refused_or_holds(raw in "\\PC{0,200}|[{}\\[\\]\",:a-z0-9` \n]{0,200}") {
        if let Ok(t1) = parser().parse(&raw) {
            holds(&t1);
        }
    }

    #[test]
    fn any_field_of_any_type_is_refused_or_holds(
        field in prop::sample::select(vec![
            "topic_primary", "topic_primary_confidence", "topic_secondary", "topic_secondary_confidence", "keywords",
            "gist", "flags",
        ]),
        value in values(),
    ) {
        match parser().parse(&with(field, value)) {
            Ok(t1) => holds(&t1),
            Err(error) => prop_assert!(!error.detail.is_empty()),
        }
    }

    #[test]
    fn any_end_of_a_good_answer_is_refused(cut in 0_usize..100) {
        let good = said(|_| {});
        let raw = &good[..good.len() * cut / 100];
        prop_assert!(parser().parse(raw).is_err());
    }
}
