//! The lines of a diff, and what they must never show.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use hapax_core::canonical::{Profile, Selection, canonical};
use hapax_core::diff::{Change, Options, diff};
use proptest::prelude::*;

fn with(old: &str, new: &str, options: &Options) -> Vec<String> {
    diff(old.as_bytes(), new.as_bytes(), options)
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn lines(old: &str, new: &str) -> Vec<String> {
    with(old, new, &Options::default())
}

fn none() -> [&'static str; 0] {
    []
}

#[test]
fn changes_come_in_document_order_with_their_paths() {
    let old = r#"{"customer_info":{"name":"Ann","phone":"+1-512-555-0100"},"requested_time":"10:00","items":[{"qty":1},{"qty":2},{"qty":3}]}"#;
    let new = r#"{"requested_time":"11:00","items":[{"qty":1},{"qty":2},{"qty":4}],"customer_info":{"phone":"+1-512-555-0200","name":"Ann"}}"#;
    assert_eq!(
        lines(old, new),
        [
            "customer_info.phone: '+1-512-555-0100' → '+1-512-555-0200'",
            "requested_time: '10:00' → '11:00'",
            "items[2].qty: '3' → '4'",
        ]
    );
}

#[test]
fn equal_documents_have_no_changes() {
    assert!(
        lines(
            r#"{"a":1,"b":[1.0,"\u0041"]}"#,
            r#"{ "b": [1, "A"], "a": 1e0 }"#
        )
        .is_empty()
    );
    assert!(lines("not json", "not json").is_empty());
}

#[test]
fn a_missing_side_is_absent_and_never_quoted() {
    assert_eq!(
        lines(r#"{"a":1,"list":[1,2]}"#, r#"{"list":[1],"b":null}"#),
        [
            "a: '1' → (absent)",
            "list[1]: '2' → (absent)",
            "b: (absent) → 'null'"
        ]
    );
}

#[test]
fn containers_are_shown_as_canonical_text() {
    assert_eq!(
        lines(r#"{"a":{"y":[1.0, true],"x":"s"}}"#, r#"{"a":7}"#),
        [r#"a: '{"x":"s","y":[1,true]}' → '7'"#]
    );
    assert_eq!(lines("[]", "{}"), ["body: '[]' → '{}'"]);
    assert_eq!(lines("[1]", "[2]"), ["[0]: '1' → '2'"]);
}

#[test]
fn texts_that_look_alike_are_told_apart() {
    assert_eq!(lines(r#"{"a":1}"#, r#"{"a":"1"}"#), [r#"a: '1' → '"1"'"#]);
    assert_eq!(
        lines(r#"{"a":"null"}"#, r#"{"a":null}"#),
        [r#"a: '"null"' → 'null'"#]
    );
}

#[test]
fn odd_names_are_quoted() {
    let paths = |key: &str| lines(&format!("{{{key}:1}}"), "{}").remove(0);
    assert_eq!(paths(r#""a.b""#), r#"["a.b"]: '1' → (absent)"#);
    assert_eq!(paths(r#""a\"[0]""#), r#"["a\"[0]"]: '1' → (absent)"#);
    assert_eq!(paths(r#""""#), r#"[""]: '1' → (absent)"#);
    assert_eq!(paths(r#""a\nb""#), r#"["a\nb"]: '1' → (absent)"#);
    assert_eq!(
        lines(r#"{"x":{"a.b":{"c":1}}}"#, r#"{"x":{"a.b":{"c":2}}}"#),
        [r#"x["a.b"].c: '1' → '2'"#]
    );
}

#[test]
fn values_are_cut_and_printable() {
    let long = format!(r#"{{"a":"{}"}}"#, "é".repeat(1000));
    let line = lines(&long, r#"{"a":"x"}"#).remove(0);
    assert_eq!(line, format!("a: '{}…' → 'x'", "é".repeat(255)));
    assert_eq!(
        lines(r#"{"a":"x\u001b[31m\r\n\u202e"}"#, r#"{"a":"y"}"#),
        [r"a: 'x\u001b[31m\r\n\u202e' → 'y'"]
    );
    let key = format!(r#"{{"{}":1}}"#, "k".repeat(1000));
    assert_eq!(
        lines(&key, "{}"),
        [format!("{}…: '1' → (absent)", "k".repeat(255))]
    );
}

#[test]
fn a_late_difference_of_long_texts_is_seen() {
    let text = |end: &str| format!(r#"{{"a":"{}{end}"}}"#, "x".repeat(5000));
    let expected = format!("a: '…{0}old' → '…{0}new'", "x".repeat(32));
    assert_eq!(lines(&text("old"), &text("new")), [expected]);
}

#[test]
fn the_list_ends_with_a_count() {
    let body = |n: i32| format!("[{}]", vec![n.to_string(); 62].join(","));
    let listed = lines(&body(1), &body(2));
    assert_eq!(listed.len(), 50);
    assert_eq!(listed[48], "[48]: '1' → '2'");
    assert_eq!(listed[49], "… and 13 more");
    let exact = Options {
        changes_max: 62,
        ..Options::default()
    };
    assert_eq!(with(&body(1), &body(2), &exact).len(), 62);
    let nothing = Options {
        changes_max: 0,
        ..Options::default()
    };
    assert!(with(&body(1), &body(2), &nothing).is_empty());
}

#[test]
fn masked_values_are_never_shown() {
    let options = Options {
        masked: vec!["customer".parse().unwrap(), "lines.*.note".parse().unwrap()],
        ..Options::default()
    };
    let old = r#"{"customer":{"name":"Ann"},"lines":[{"note":"n1","qty":1}],"API_Key":"k1","a":{"userPassword":["p1"]}}"#;
    let new = r#"{"customer":{"name":"Bob"},"lines":[{"note":"n2","qty":2}],"API_Key":"k2","a":{"userPassword":["p2"]}}"#;
    assert_eq!(
        with(old, new, &options),
        [
            "customer: '***' → '***'",
            "lines[0].note: '***' → '***'",
            "lines[0].qty: '1' → '2'",
            "API_Key: '***' → '***'",
            "a.userPassword: '***' → '***'",
        ]
    );
}

#[test]
fn masked_values_stay_masked_inside_added_containers() {
    let options = Options {
        masked: vec!["lines.*.note".parse().unwrap()],
        ..Options::default()
    };
    let new = r#"{"lines":[{"note":"n2","qty":2,"deep":{"card_number":"4111","x":1}}]}"#;
    assert_eq!(
        with("{}", new, &options),
        [r#"lines: (absent) → '[{"deep":{"card_number":"***","x":1},"note":"***","qty":2}]'"#]
    );
    assert_eq!(
        with("[]", new, &options),
        [r#"body: '[]' → '{"lines":[{"deep":{"card_number":"***","x":1},"note":"***","qty":2}]}'"#]
    );
}

#[test]
fn masked_values_that_are_equal_are_no_change() {
    let old = r#"{"password":{"a":1,"b":[1]}}"#;
    assert!(lines(old, r#"{"password":{"b":[1.0],"a":1}}"#).is_empty());
}

#[test]
fn without_values_only_paths_are_shown() {
    let options = Options {
        values: false,
        ..Options::default()
    };
    assert_eq!(
        with(r#"{"a":1,"b":{"c":2}}"#, r#"{"a":2,"b":{}}"#, &options),
        ["a", "b.c"]
    );
    assert_eq!(diff(b"x", b"y", &options), [Change::Path("body".into())]);
}

#[test]
fn excluded_members_are_ignored_at_the_top_only() {
    let selection = Selection::new(["created_at"], none()).unwrap();
    let options = Options {
        selection,
        ..Options::default()
    };
    let old = r#"{"created_at":1,"a":{"created_at":1}}"#;
    let new = r#"{"a":{"created_at":2}}"#;
    assert_eq!(with(old, new, &options), ["a.created_at: '1' → '2'"]);
}

#[test]
fn the_order_of_unordered_arrays_is_no_change() {
    let selection = Selection::new(none(), ["items", "items.*.tags"]).unwrap();
    let options = Options {
        selection,
        ..Options::default()
    };
    let old = r#"{"items":[{"id":1,"tags":["a","b"]},{"id":2},{"id":3}]}"#;
    assert!(
        with(
            old,
            r#"{"items":[{"id":3},{"id":1.0,"tags":["b","a"]},{"id":2}]}"#,
            &options
        )
        .is_empty()
    );
    assert_eq!(
        with(
            old,
            r#"{"items":[{"id":3},{"id":4},{"id":1,"tags":["b","a"]},{"id":5}]}"#,
            &options
        ),
        [
            "items[1].id: '2' → '4'",
            r#"items[3]: (absent) → '{"id":5}'"#
        ]
    );
}

#[test]
fn other_bodies_are_compared_as_bytes() {
    assert_eq!(
        lines("a=1", "a=2"),
        ["body: '3 bytes, sha256 c22fea5d7428e5cf' → '3 bytes, sha256 d3043f41a0385109'"]
    );
    let mixed = lines(r#"{"a":1,"a":2}"#, "{}").remove(0);
    assert!(mixed.starts_with("body: '13 bytes, sha256 "), "{mixed}");
    assert!(
        mixed.ends_with("' → '2 bytes, sha256 44136fa355b3678a'"),
        "{mixed}"
    );
}

#[test]
fn the_deepest_documents_are_compared() {
    let body = |leaf: &str| format!("{}{leaf}{}", "[".repeat(128), "]".repeat(128));
    let listed = with(
        &body("1"),
        &body("2"),
        &Options {
            value_chars_max: 1000,
            ..Options::default()
        },
    );
    assert_eq!(listed, [format!("{}: '1' → '2'", "[0]".repeat(128))]);
    let nested = |leaf: i32| format!("{}{leaf}{}", r#"{"a":"#.repeat(128), "}".repeat(128));
    assert_eq!(lines(&nested(1), &nested(2)).len(), 1);
}

#[test]
fn large_bodies_take_no_quadratic_time() {
    let body = |shift: usize| {
        let members: Vec<_> = (0..200_000)
            .map(|n| format!("\"k{}\":{}", (n * 7919 + shift) % 200_000, n))
            .collect();
        format!("{{{}}}", members.join(","))
    };
    let listed = lines(&body(0), &body(1));
    assert_eq!(listed.len(), 50);
    let array = |shift: usize| {
        let items: Vec<_> = (0..200_000)
            .map(|n| ((n * 7919 + shift) % 200_001).to_string())
            .collect();
        format!("{{\"a\":[{}]}}", items.join(","))
    };
    let options = Options {
        selection: Selection::new(none(), ["a"]).unwrap(),
        ..Options::default()
    };
    assert!(with(&array(0), &array(1), &options).len() <= 50);
}

fn small() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1"),
        Just("1.0"),
        Just("2"),
        Just("\"a\""),
        Just("\"\\u0061\""),
        Just("null")
    ];
    leaf.prop_map(str::to_owned)
        .prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3)
                    .prop_map(|items| format!("[{}]", items.join(", "))),
                proptest::collection::btree_map("[a-c]", inner, 0..3).prop_map(|members| {
                    let members: Vec<_> = members
                        .iter()
                        .rev()
                        .map(|(k, v)| format!("\"{k}\":{v}"))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
}

proptest! {
    #[test]
    fn a_change_is_listed_when_the_canonical_bytes_differ(old in small(), new in small()) {
        let form = |text: &str| canonical(text.as_bytes(), Profile::Hcj1).unwrap();
        prop_assert_eq!(lines(&old, &new).is_empty(), form(&old) == form(&new));
    }

    #[test]
    fn unordered_changes_follow_the_selected_bytes(old in small(), new in small()) {
        let selection = Selection::new(["a"], ["", "*", "*.*"]).unwrap();
        let form = |text: &str| {
            hapax_core::canonical::Document::parse(text.as_bytes()).unwrap().to_vec(&selection)
        };
        let options = Options { selection: selection.clone(), ..Options::default() };
        prop_assert_eq!(with(&old, &new, &options).is_empty(), form(&old) == form(&new));
    }
}
