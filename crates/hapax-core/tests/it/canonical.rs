//! Canonical JSON against the shared vectors, other implementations and random documents.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use hapax_core::canonical::{
    DEPTH_MAX, Document, Path, Profile, Reason, Selection, canonical, check, hash,
};
use proptest::prelude::*;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../spec/vectors/canonical.json"
    )))
    .unwrap()
}

fn hcj(text: &str) -> String {
    String::from_utf8(canonical(text.as_bytes(), Profile::Hcj1).unwrap()).unwrap()
}

fn refusal(text: &[u8]) -> (Reason, usize) {
    let reject = check(text).unwrap_err();
    (reject.reason, reject.offset)
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_profile_gives_what_the_vectors_say() {
    let vectors = vectors();
    let mut tested = 0;
    for case in vectors["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let input = case["input"].as_str().unwrap().as_bytes();
        for (profile, expected) in case["profiles"].as_object().unwrap() {
            let profile: Profile = profile.parse().unwrap();
            match canonical(input, profile) {
                Ok(bytes) => {
                    let text = String::from_utf8(bytes).unwrap();
                    assert_eq!(expected["canonical"], text, "{name}, {profile}");
                    assert_eq!(
                        expected["hash"],
                        hash(input, profile).unwrap(),
                        "{name}, {profile}"
                    );
                }
                Err(reject) => {
                    assert_eq!(
                        expected["refused"],
                        reject.reason.as_str(),
                        "{name}, {profile}"
                    );
                    assert_eq!(
                        hash(input, profile).unwrap_err(),
                        reject,
                        "{name}, {profile}"
                    );
                }
            }
            tested += 1;
        }
    }
    assert!(tested > 500, "only {tested} facts in the vectors");
}

#[test]
fn selections_give_what_the_vectors_say() {
    for case in vectors()["selections"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let selection =
            Selection::new(strings(&case["exclude"]), strings(&case["unordered"])).unwrap();
        let document = Document::parse(case["input"].as_str().unwrap().as_bytes()).unwrap();
        let text = String::from_utf8(document.to_vec(&selection)).unwrap();
        assert_eq!(case["canonical"], text, "{name}");
        let hex = data_encoding::HEXLOWER.encode(&document.sha256(&selection));
        assert_eq!(case["hash"], hex, "{name}");
    }
}

#[test]
fn doubles_are_written_as_rfc_8785_lists_them() {
    let samples = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];
    for (bits, expected) in samples {
        let double = f64::from_bits(bits);
        // An exponent makes the literal a double, whatever its digits.
        assert_eq!(hcj(&format!("{double:e}")), expected);
    }
}

#[test]
fn a_refusal_says_where() {
    assert_eq!(
        refusal(br#"{"a":1,"b":2,"a":3}"#),
        (Reason::DuplicateKey, 13)
    );
    assert_eq!(
        refusal(br#"{"b":1,"a":2,"b":3}"#),
        (Reason::DuplicateKey, 13)
    );
    assert_eq!(refusal(br#"["ok","x\ud800"]"#), (Reason::LoneSurrogate, 8));
    assert_eq!(refusal(b"[1,1e400]"), (Reason::NumberOutOfRange, 3));
    assert_eq!(refusal(b"\"a\xC3\""), (Reason::InvalidUtf8, 2));
    assert_eq!(refusal(b"\"\xED\xA0\x80\""), (Reason::InvalidUtf8, 1));
    assert_eq!(refusal(b"[1 2]"), (Reason::Syntax, 3));
    let message = check(br#"{"a":1,"a":2}"#).unwrap_err().to_string();
    assert_eq!(message, "the same key twice in one object at byte 7");
}

#[test]
fn deep_text_is_refused_without_deep_recursion() {
    for open in ["[", r#"{"a":"#, r#"[{"a":"#] {
        let text = open.repeat(100_000);
        assert_eq!(refusal(text.as_bytes()).0, Reason::TooDeep);
        for profile in Profile::ALL {
            let reject = canonical(text.as_bytes(), profile).unwrap_err();
            assert_eq!(reject.reason, Reason::TooDeep, "{profile}");
        }
    }
    let deepest = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
    for profile in Profile::ALL {
        assert_eq!(
            canonical(deepest.as_bytes(), profile).unwrap(),
            deepest.as_bytes()
        );
    }
}

#[test]
fn no_cut_of_a_valid_text_panics() {
    let text = "{\"é\\ud83d\\ude00\":[1.5e-3,-0,true,{\"a\\n\":null}],\"b\":\"x\"}".as_bytes();
    for end in 0..text.len() {
        for profile in Profile::ALL {
            assert!(
                canonical(&text[..end], profile).is_err(),
                "{profile} at {end}"
            );
        }
    }
}

#[test]
fn keys_of_a_large_shuffled_object_come_in_order() {
    let member = |n: usize| format!("\"k{:05}\":{n}", n * 7919 % 50_000);
    let text = (0..50_000).map(member).collect::<Vec<_>>().join(", ");
    let out = hcj(&format!("{{{text}}}"));
    let expected = serde_json_canonicalizer::to_string(
        &serde_json::from_str::<Value>(&format!("{{{text}}}")).unwrap(),
    );
    assert_eq!(out, expected.unwrap());
}

#[test]
fn a_hash_does_not_depend_on_how_its_bytes_arrive() {
    use hapax_core::canonical::{Sha256Sink, Sink};
    use sha2::Digest;
    let bytes: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
    let expected: [u8; 32] = sha2::Sha256::digest(&bytes).into();
    for size in [1, 63, 64, 4095, 4096, 4097, 10_000, 80_000] {
        let mut sink = Sha256Sink::default();
        bytes.chunks(size).for_each(|chunk| sink.put(chunk));
        assert_eq!(sink.finish(), expected, "in pieces of {size}");
    }
}

#[test]
fn paths_are_read_as_they_are_written() {
    for text in [
        "",
        "a",
        "a.b",
        "a.*.c",
        "*",
        r#"a["b.c"].d"#,
        r#"["\"]"]"#,
        r#"[""]"#,
    ] {
        assert_eq!(text.parse::<Path>().unwrap().to_string(), text);
    }
    assert_eq!("a[2].b".parse::<Path>(), "a.2.b".parse());
    for text in [
        ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a]", "a[\"b]", "a[\"b\"x", "[0]a",
    ] {
        assert!(text.parse::<Path>().is_err(), "{text}");
    }
}

/// JSON text with free spelling: blanks, escapes, number forms, keys in any order.
fn document() -> impl Strategy<Value = String> {
    let word = prop_oneof![Just("null"), Just("true"), Just("false")].prop_map(str::to_owned);
    let number = prop_oneof![
        any::<i32>().prop_map(|n| n.to_string()),
        any::<f64>()
            .prop_filter("finite", |n| n.is_finite())
            .prop_map(|n| format!("{n:e}")),
        (any::<i16>(), 0_u32..1000, 0..4_usize)
            .prop_map(|(a, b, z)| format!("{a}.{b}{}", "0".repeat(z))),
        (1_i64..1000, -30..30).prop_map(|(m, e)| format!("{m}E{e}")),
    ];
    let leaf = prop_oneof![word, number, text()];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let blank = prop_oneof![3 => Just(""), 1 => Just(" "), 1 => Just("\n\t")];
        prop_oneof![
            (
                proptest::collection::vec(inner.clone(), 0..6),
                blank.clone()
            )
                .prop_map(|(items, blank)| format!(
                    "[{blank}{}{blank}]",
                    items.join(&format!("{blank},"))
                )),
            (proptest::collection::vec((text(), inner), 0..6), blank).prop_map(
                |(members, blank)| {
                    let mut seen = std::collections::HashSet::new();
                    let members: Vec<_> = members
                        .into_iter()
                        .filter(|(key, _)| {
                            seen.insert(serde_json::from_str::<String>(key).unwrap())
                        })
                        .map(|(key, value)| format!("{key}{blank}:{blank}{value}"))
                        .collect();
                    format!("{{{blank}{}{blank}}}", members.join(&format!(",{blank}")))
                }
            ),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        4 => proptest::char::range('a', 'e'),
        1 => proptest::sample::select(vec!['"', '\\', '/', '\n', '\0', '\u{1f}', '\u{7f}', ' ', '!']),
        1 => any::<char>(),
    ];
    let spelled = (char, any::<bool>()).prop_map(|(char, escape)| {
        if escape {
            let units = char.encode_utf16(&mut [0; 2]).to_vec();
            units
                .iter()
                .fold(String::new(), |text, unit| text + &format!("\\u{unit:04X}"))
        } else {
            let quoted = serde_json::to_string(&char).unwrap();
            quoted[1..quoted.len() - 1].to_owned()
        }
    });
    proptest::collection::vec(spelled, 0..12).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

/// The selected form, made the slow way from a value tree.
fn selected(value: &Value, exclude: &[&str], routes: &[&[&str]]) -> String {
    let below = |name: &str| -> Vec<&[&str]> {
        let steps = routes.iter().filter_map(|route| route.split_first());
        steps
            .filter(|(step, _)| **step == "*" || **step == name)
            .map(|(_, rest)| rest)
            .collect()
    };
    match value {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let mut items: Vec<_> = items
                .map(|(place, item)| selected(item, &[], &below(&place.to_string())))
                .collect();
            if routes.iter().any(|route| route.is_empty()) {
                items.sort();
            }
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let mut keys: Vec<_> = members
                .keys()
                .filter(|key| !exclude.contains(&key.as_str()))
                .collect();
            keys.sort_by_key(|key| key.encode_utf16().collect::<Vec<_>>());
            let member = |key: &&String| {
                let name = serde_json_canonicalizer::to_string(key).unwrap();
                format!("{name}:{}", selected(&members[*key], &[], &below(key)))
            };
            format!(
                "{{{}}}",
                keys.iter().map(member).collect::<Vec<_>>().join(",")
            )
        }
        scalar => serde_json_canonicalizer::to_string(scalar).unwrap(),
    }
}

proptest! {
    #[test]
    fn selections_agree_with_a_slow_model(text in document(), which in 0..6_usize) {
        let exclude = ["", "a", "b"];
        let routes: [&[&str]; 6] = [&[], &["*"], &["a"], &["*", "*"], &["0", "*", "*"], &["*", "1"]];
        let routes = &routes[which..];
        let paths: Vec<_> = routes.iter().map(|route| route.join(".")).collect();
        let selection = Selection::new(exclude, paths).unwrap();
        let bytes = Document::parse(text.as_bytes()).unwrap().to_vec(&selection);
        let value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(String::from_utf8(bytes).unwrap(), selected(&value, &exclude, routes));
    }

    #[test]
    fn hcj_agrees_with_another_implementation(text in document()) {
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(hcj(&text), serde_json_canonicalizer::to_string(&value).unwrap());
    }

    #[test]
    fn canonical_text_is_its_own_canonical_text(text in document()) {
        let once = hcj(&text);
        prop_assert_eq!(hcj(&once), once);
    }

    #[test]
    fn the_hash_is_that_of_the_bytes(text in document(), exclude in "[a-e]{0,2}") {
        use sha2::Digest;
        let selection = Selection::new([exclude], ["*", "a.*"]).unwrap();
        let document = Document::parse(text.as_bytes()).unwrap();
        let expected: [u8; 32] = sha2::Sha256::digest(document.to_vec(&selection)).into();
        prop_assert_eq!(document.sha256(&selection), expected);
        // The selected text is canonical too.
        let bytes = document.to_vec(&selection);
        prop_assert_eq!(canonical(&bytes, Profile::Hcj1).unwrap(), bytes);
    }

    #[test]
    fn integers_keep_their_value(digits in "[1-9][0-9]{0,330}", negative in any::<bool>()) {
        let literal = format!("{}{digits}", if negative { "-" } else { "" });
        let double: f64 = literal.parse().unwrap();
        match canonical(literal.as_bytes(), Profile::Hcj1) {
            Ok(bytes) if bytes != literal.as_bytes() => {
                prop_assert_eq!(format!("{double:.0}"), literal);
                let read_back: f64 = String::from_utf8(bytes).unwrap().parse().unwrap();
                prop_assert_eq!(read_back.to_bits(), double.to_bits());
            }
            Ok(_) => prop_assert!(double.is_finite()),
            Err(reject) => {
                prop_assert_eq!(reject.reason, Reason::NumberOutOfRange);
                prop_assert!(double.is_infinite());
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        for profile in Profile::ALL {
            let _ = canonical(&bytes, profile);
        }
    }

    #[test]
    fn no_broken_text_panics(text in document(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        // What the strict rules accept, a lenient reader accepts too.
        let strict = check(&bytes).is_ok();
        prop_assert!(!strict || serde_json::from_slice::<Value>(&bytes).is_ok());
        for profile in Profile::ALL {
            let _ = canonical(&bytes, profile);
        }
    }
}
