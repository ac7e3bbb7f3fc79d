//! Due dates against the shared vectors.

use hapax_intake::intent::due::{Unread, read};
use hapax_intake::intent::{Due, Zone};

use crate::{list, moment, text, vectors};

#[test]
fn due_dates_are_read_as_the_vectors_say() {
    let vectors = vectors(include_str!("../../../../spec/vectors/due.json"));
    let mut read_cases = 0;
    for case in list(&vectors["cases"]) {
        let zone: Zone = text(&case["timezone"]).parse().unwrap();
        let found = read(text(&case["text"]), &zone, moment(text(&case["now"])));
        let name = &case["name"];
        match found {
            Ok(Due::On(day)) => assert_eq!(case["due"], day, "{name}"),
            Ok(Due::Never) => assert_eq!(case["never"], true, "{name}"),
            Err(Unread::Unclear) => assert_eq!(case["unclear"], true, "{name}"),
            Err(Unread::Twofold(both)) => {
                assert_eq!(case["twofold"], serde_json::json!(both), "{name}");
            }
        }
        read_cases += 1;
    }
    assert!(read_cases > 60, "only {read_cases} cases");
}

#[test]
fn no_moment_on_the_clock_makes_reading_panic() {
    for ms in [
        i64::MIN,
        -62_135_596_800_001,
        -1,
        0,
        253_402_300_799_999,
        i64::MAX,
    ] {
        let now = hapax_core::Time::from_ms(ms);
        for words in [
            "today",
            "in 3650 days",
            "next week",
            "9999-12-31T23:59:59-23:59",
        ] {
            for zone in ["UTC", "Pacific/Kiritimati", "America/New_York"] {
                let _ = read(words, &zone.parse().unwrap(), now);
            }
        }
    }
}
