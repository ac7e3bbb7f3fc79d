//! What an answer means: take it, try again, or never. It decides; nobody sends here.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};

use super::Refusal;
use super::backoff::retry_after;

/// A response, read to its end.
pub(super) struct Received {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What it means for the request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// This is the answer.
    Take { replayed: bool },
    /// Ask again, not before this long.
    Again(Option<Duration>, Refusal),
    /// The key stands for another request.
    Conflict(Refusal),
    /// It may have happened, and only a person may say.
    InDoubt(Refusal),
    /// It is to be sent elsewhere, and nobody but the caller may say whether to.
    Redirected(Option<String>),
    /// It will be refused each time.
    Never(Refusal),
}

/// What `received` means. `now` is for a `Retry-After` that is a date.
pub(super) fn judge(received: &Received, now: SystemTime) -> Verdict {
    let status = received.status;
    let replayed = is_replay(&received.headers);
    if matches!(status.as_u16(), 301 | 302 | 307 | 308) {
        let location = received
            .headers
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        return Verdict::Redirected(location.map(str::to_owned));
    }
    if !(status.is_client_error() || status.is_server_error()) {
        return Verdict::Take { replayed };
    }
    let refusal = Refusal::of(
        status,
        received.headers.clone(),
        received.body.clone(),
        replayed,
    );
    match refusal.code.as_deref() {
        Some("IDEMPOTENCY_CONFLICT") => Verdict::Conflict(refusal),
        Some("IDEMPOTENCY_IN_DOUBT") => Verdict::InDoubt(refusal),
        _ if received.headers.contains_key("x-idempotency-conflict") => Verdict::Conflict(refusal),
        Some("IDEMPOTENCY_IN_PROGRESS") => {
            Verdict::Again(retry_after(&received.headers, now), refusal)
        }
        // What was recorded is answered every time, so asking again is in vain.
        _ if is_transient(status) && !replayed => {
            Verdict::Again(retry_after(&received.headers, now), refusal)
        }
        _ => Verdict::Never(refusal),
    }
}

/// Whether a refusal with this status may be gone next time.
pub(super) fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

fn is_replay(headers: &HeaderMap) -> bool {
    ["idempotency-replayed", "x-idempotency-replay"]
        .iter()
        .any(|name| {
            headers
                .get(*name)
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn received(
        status: u16,
        headers: &[(&'static str, &'static str)],
        body: &'static str,
    ) -> Received {
        let header = |&(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        Received {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.iter().map(header).collect(),
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    fn word(received: &Received) -> &'static str {
        match judge(received, SystemTime::UNIX_EPOCH) {
            Verdict::Take { .. } => "take",
            Verdict::Again(..) => "again",
            Verdict::Conflict(_) => "conflict",
            Verdict::InDoubt(_) => "in doubt",
            Verdict::Redirected(_) => "redirected",
            Verdict::Never(_) => "never",
        }
    }

    #[test]
    fn each_status_has_its_meaning() {
        for (meaning, statuses) in [
            ("take", &[200, 201, 202, 204, 303, 304][..]),
            ("again", &[408, 425, 429, 500, 502, 503, 504]),
            ("redirected", &[301, 302, 307, 308]),
            (
                "never",
                &[400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 501, 505],
            ),
        ] {
            for &status in statuses {
                assert_eq!(word(&received(status, &[], "")), meaning, "{status}");
            }
        }
    }

    #[test]
    fn the_code_counts_for_more_than_the_status() {
        for (code, meaning) in [
            ("IDEMPOTENCY_IN_PROGRESS", "again"),
            ("IDEMPOTENCY_CONFLICT", "conflict"),
            ("IDEMPOTENCY_IN_DOUBT", "in doubt"),
            ("lease_lost", "never"),
        ] {
            let bodies = [
                format!(
                    r#"{{"error":{{"code":"{code}","message":"m","details":{{}}}},"trace_id":"t"}}"#
                ),
                format!(
                    r#"{{"type":"/docs/errors/{code}","title":"Conflict","status":409,"detail":"m","code":"{code}"}}"#
                ),
            ];
            for body in bodies {
                let mut answer = received(409, &[], "");
                answer.body = Bytes::from(body);
                assert_eq!(word(&answer), meaning, "{code}");
                answer.status = StatusCode::UNPROCESSABLE_ENTITY;
                assert_eq!(word(&answer), meaning, "{code}");
            }
        }
        assert_eq!(
            word(&received(
                409,
                &[("x-idempotency-conflict", "body-mismatch")],
                "<html>"
            )),
            "conflict"
        );
    }

    #[test]
    fn both_forms_of_a_refusal_say_the_same() {
        let envelope = r#"{"error":{"code":"c","message":"m","details":{"a":1}},"trace_id":"t"}"#;
        let problem = r#"{"type":"x","title":"y","status":400,"detail":"m","code":"c","details":{"a":1},"trace_id":"t"}"#;
        let whole = r#"{"type":"x","title":"y","status":400,"detail":"m","code":"c","details":{"a":1},"trace_id":"t",
            "error":{"code":"c","message":"m","type":"idempotency_error"}}"#;
        for body in [envelope, problem, whole] {
            let Verdict::Never(refusal) = judge(&received(400, &[], body), SystemTime::UNIX_EPOCH)
            else {
                panic!()
            };
            assert_eq!(refusal.to_string(), "400 c: m");
            assert_eq!(
                (refusal.details["a"].as_i64(), refusal.trace_id.as_deref()),
                (Some(1), Some("t"))
            );
        }
    }

    #[test]
    fn a_body_in_no_known_form_is_still_a_refusal() {
        for body in [
            "",
            "<html>",
            "[1]",
            r#"{"error":"no"}"#,
            r#"{"error":{"code":7,"details":[]}}"#,
        ] {
            let Verdict::Never(refusal) = judge(&received(404, &[], body), SystemTime::UNIX_EPOCH)
            else {
                panic!()
            };
            assert_eq!(refusal.to_string(), "404 Not Found", "{body}");
            assert_eq!(refusal.body, body);
        }
    }

    #[test]
    fn a_recorded_failure_is_not_asked_for_again() {
        assert_eq!(
            word(&received(500, &[("idempotency-replayed", "true")], "")),
            "never"
        );
        assert_eq!(
            word(&received(500, &[("idempotency-replayed", "false")], "")),
            "again"
        );
    }

    #[test]
    fn either_header_tells_a_replay() {
        for (headers, expected) in [
            (&[("x-idempotency-replay", "true")][..], true),
            (&[("idempotency-replayed", "true")], true),
            (&[("idempotency-replayed", "no")], false),
            (&[], false),
        ] {
            let verdict = judge(&received(201, headers, ""), SystemTime::UNIX_EPOCH);
            assert!(
                matches!(verdict, Verdict::Take { replayed } if replayed == expected),
                "{headers:?}"
            );
        }
    }
}
