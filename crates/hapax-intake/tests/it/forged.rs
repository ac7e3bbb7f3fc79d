//! Payloads that the old snippets could not tell apart, or took for others. Under hcj-1 they never meet.

use hapax_core::canonical::{Profile, canonical};
use hapax_intake::intent::Packet;
use hapax_intake::snapshot::{Collection, key_match, read};

/// The members that differ in each pair.
const PAIRS: [(&str, &str); 14] = [
    // JavaScript's snippet wrote keys unescaped, so one key could pose as two members.
    (r#""a\":1,\"b":2"#, r#""a":1,"b":2"#),
    (r#""a\":{\"b\":1},\"c":2"#, r#""a":{"b":1},"c":2"#),
    // JavaScript rounds integers.
    (r#""n":9007199254740993"#, r#""n":9007199254740992"#),
    (
        r#""n":123456789012345678901"#,
        r#""n":123456789012345678902"#,
    ),
    (r#""n":-9007199254740993"#, r#""n":-9007199254740992"#),
    // Values that are loosely equal.
    (r#""n":1"#, r#""n":true"#),
    (r#""n":0"#, r#""n":false"#),
    (r#""n":0"#, r#""n":null"#),
    (r#""n":1"#, r#""n":"1""#),
    (r#""n":null"#, r#""m":null"#),
    (r#""n":[]"#, r#""n":{}"#),
    (r#""n":"\u00e9""#, r#""n":"e\u0301""#),
    (r#""n":[1,2]"#, r#""n":[2,1]"#),
    (r#""n":"\\u0041""#, r#""n":"\u0041""#),
];

fn course(members: &str) -> String {
    format!(r#"{{"course":{{"id":"c","name":"N"}},{members}}}"#)
}

fn intent(members: &str) -> String {
    format!(r#"{{"kind":"intent",{members}}}"#)
}

#[test]
fn forged_pairs_are_two_snapshots_and_two_intents() {
    let courses = Collection::courses();
    for (one, other) in PAIRS {
        let snapshot = |members: &str| read(course(members).as_bytes(), &courses).unwrap();
        assert_ne!(snapshot(one).hash, snapshot(other).hash, "{one}");
        assert_ne!(snapshot(one).canonical, snapshot(other).canonical, "{one}");
        let key = |members: &str| {
            Packet::read(intent(members).as_bytes())
                .unwrap()
                .key()
                .to_owned()
        };
        assert_ne!(key(one), key(other), "{one}");
    }
}

#[test]
fn a_forged_key_has_no_alias_by_which_it_could_pose_as_another() {
    let courses = Collection::courses();
    let (forged, honest) = PAIRS[0];
    let forged = read(course(forged).as_bytes(), &courses).unwrap();
    let honest = read(course(honest).as_bytes(), &courses).unwrap();
    assert!(
        forged
            .aliases
            .iter()
            .all(|(profile, _)| *profile != Profile::JsSorted)
    );
    for (_, alias) in &honest.aliases {
        assert_eq!(key_match(&forged, alias), None);
    }
}

#[test]
fn an_alias_may_be_shared_and_the_hash_still_differs() {
    // JavaScript rounds both to one number: the alias is for recognising, never for telling apart.
    let courses = Collection::courses();
    let (one, other) = PAIRS[2];
    let (one, other) = (course(one), course(other));
    assert_eq!(
        canonical(one.as_bytes(), Profile::JsSorted).unwrap(),
        canonical(other.as_bytes(), Profile::JsSorted).unwrap()
    );
    let (one, other) = (
        read(one.as_bytes(), &courses).unwrap(),
        read(other.as_bytes(), &courses).unwrap(),
    );
    assert_ne!(one.hash, other.hash);
}

#[test]
fn python_tells_1_from_1_0_and_hcj_does_not() {
    let courses = Collection::courses();
    let one = read(course(r#""n":1"#).as_bytes(), &courses).unwrap();
    let same = read(course(r#""n":1.0"#).as_bytes(), &courses).unwrap();
    assert_eq!(one.hash, same.hash);
    assert_eq!(one.canonical, same.canonical);
    assert_ne!(
        one.aliases[0].1, same.aliases[0].1,
        "the alias is of the text received"
    );
}

#[test]
fn keys_that_collide_only_after_unescaping_are_refused() {
    for members in [r#""a":1,"\u0061":2"#, r#""course":1"#] {
        let refusal = read(course(members).as_bytes(), &Collection::courses()).unwrap_err();
        assert_eq!(refusal.code(), "bad_json");
    }
}
