//! The integration tests of hapax-intake, in one binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with the place it failed at"
)]

mod answer;
mod due;
mod entry;
mod extraction;
mod forged;
mod hostile;
mod intent;
mod mail;
mod mail_corpus;
mod mail_random;
mod mailbox;
mod message;
mod random;
mod snapshot;
mod update;

use serde_json::Value;

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The paths of all faults, sorted.
fn paths(refusal: &hapax_intake::Refusal) -> Vec<&str> {
    let mut paths: Vec<&str> = refusal
        .faults()
        .iter()
        .map(|fault| fault.path.as_str())
        .collect();
    paths.sort_unstable();
    paths
}

/// Compares a refusal with what the vectors say of it.
fn refused_as(refusal: &hapax_intake::Refusal, case: &Value) {
    use hapax_intake::Refusal;

    assert_eq!(case["code"], refusal.code(), "{case}");
    match refusal {
        Refusal::BadJson(reject) => assert_eq!(case["reason"], reject.reason.as_str(), "{case}"),
        Refusal::Schema(_) => {
            assert_eq!(case["paths"], serde_json::json!(paths(refusal)), "{case}");
        }
        Refusal::UnsupportedVersion(_) => {}
    }
}

/// A moment by its RFC 3339 text in UTC.
fn moment(text: &str) -> hapax_core::Time {
    let moment: jiff::Timestamp = text.parse().unwrap();
    hapax_core::Time::from_ms(moment.as_millisecond())
}
