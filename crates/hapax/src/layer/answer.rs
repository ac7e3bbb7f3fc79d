//! The answers the layer gives by itself: a replay, or why the request does not run.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::diff::{self, diff};
use hapax_core::difference::{self, Part};
use hapax_core::{Claim, Doubt, Error, Kind, NotKept, Outcome, Record, Time};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::grpc;
use super::identity::Identity;
use super::key::KeyError;
use super::route::Route;
use crate::problem::Problem;

/// The request header that carries the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that the answer was recorded earlier.
pub const X_IDEMPOTENCY_REPLAY: HeaderName = HeaderName::from_static("x-idempotency-replay");
/// Says that the answer was recorded earlier, under its other name.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Says how the request conflicts.
pub const X_IDEMPOTENCY_CONFLICT: HeaderName = HeaderName::from_static("x-idempotency-conflict");
/// Says that the key had been used before, long ago.
pub const X_IDEMPOTENCY_EXPIRED: HeaderName = HeaderName::from_static("x-idempotency-expired");

/// Says until when the answer is replayed, as an HTTP date. It comes with recorded answers, the first one included.
pub const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// The response headers that are stored and replayed.
const STORED: [HeaderName; 12] = [
    header::CONTENT_TYPE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_ENCODING,
    header::LOCATION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
    header::CACHE_CONTROL,
    header::RETRY_AFTER,
    grpc::STATUS,
    grpc::MESSAGE,
    grpc::DETAILS,
];

/// What is never stored, whatever a route says: credentials, framing and the time of the first answer.
#[must_use]
pub fn is_never_stored(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.ends_with("-authenticate")
        || name.starts_with("proxy-")
        || matches!(
            name,
            "set-cookie"
                | "authorization"
                | "date"
                | "connection"
                | "keep-alive"
                | "te"
                | "trailer"
                | "transfer-encoding"
                | "upgrade"
                | "content-length"
                | "authentication-info"
        )
}

/// The headers of `response` that are recorded.
pub(super) fn stored_headers(headers: &HeaderMap, route: &Route) -> Vec<(String, Bytes)> {
    headers
        .iter()
        .filter(|(name, _)| is_stored(name, route))
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                Bytes::copy_from_slice(value.as_bytes()),
            )
        })
        .collect()
}

/// Whether a response header is stored and replayed: the usual ones and the route's, secrets never.
#[must_use]
pub fn is_stored(name: &HeaderName, route: &Route) -> bool {
    (STORED.contains(name) || route.store_headers.contains(name)) && !is_never_stored(name)
}

/// Says until when an answer is recorded.
pub(super) fn say_expiry(headers: &mut HeaderMap, expires_at: Time) {
    // No policy keeps anything for that long; the date has four digits for the year.
    const LAST: Time = Time::from_ms(253_402_300_799_000);
    const FIRST: Time = Time::from_ms(0);
    let date = httpdate::fmt_http_date(expires_at.clamp(FIRST, LAST).into());
    if let Ok(value) = HeaderValue::try_from(date) {
        headers.insert(IDEMPOTENCY_EXPIRES, value);
    }
}

/// The recorded answer, marked as a replay.
pub(super) fn replay(outcome: &Outcome, expires_at: Time) -> Response<Bytes> {
    let mut response = Response::new(outcome.whole().cloned().unwrap_or_default());
    *response.status_mut() = StatusCode::from_u16(outcome.status).unwrap_or(StatusCode::OK);
    for (name, value) in &outcome.headers {
        if let (Ok(name), Ok(value)) = (
            HeaderName::try_from(name.as_str()),
            HeaderValue::from_maybe_shared(value.clone()),
        ) {
            response.headers_mut().append(name, value);
        }
    }
    let yes = HeaderValue::from_static("true");
    response
        .headers_mut()
        .insert(X_IDEMPOTENCY_REPLAY, yes.clone());
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, yes);
    say_expiry(response.headers_mut(), expires_at);
    response
}

/// The refusal of a request without a key, where `space` needs one.
#[must_use]
pub fn key_required(space: &str) -> Problem {
    let message =
        format!("{space} needs an Idempotency-Key header; send one that is new for each operation");
    Problem::new(StatusCode::BAD_REQUEST, "idempotency_key_required", message)
}

pub(super) fn key_invalid(error: &KeyError) -> Problem {
    let message = format!("{error}; use 1 to 255 visible ASCII characters");
    Problem::new(StatusCode::BAD_REQUEST, "idempotency_key_invalid", message)
}

/// A request that brings cookies and says in no way that is looked at who sends it: derived, its key would be that of
/// everybody who sends the same.
pub(super) fn principal_required(space: &str, identity: &Identity) -> Problem {
    let setting = identity.setting();
    let message = if identity.is_usual() {
        format!(
            "{space} derives its keys, this request brings cookies, and nothing says who sends it; set \
             principal_cookie (or principal_headers, or principal) for the route, or send an Idempotency-Key"
        )
    } else {
        format!(
            "{space} derives its keys, this request brings cookies, and what {setting} names is not among what it \
             sends; send that, or an Idempotency-Key"
        )
    };
    Problem::new(StatusCode::BAD_REQUEST, "principal_required", message)
        .with_detail("setting", setting)
        .with_detail("route_pattern", space)
}

pub(super) fn body_too_large(bytes_max: usize) -> Problem {
    let message =
        format!("a request with an Idempotency-Key may have a body of at most {bytes_max} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
        .with_detail("max_bytes", bytes_max)
}

/// There is no room for the body just now.
#[must_use]
pub fn overloaded() -> Problem {
    let message = "too many bodies are being sent and answered just now; nothing was done, retry the same request";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
        .retry_after(Duration::from_secs(1))
}

pub(super) fn body_unreadable() -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "body_unreadable",
        "the request body ended before it was complete; send it again",
    )
}

/// The same key for another request.
pub(super) fn conflict(record: &Record, claim: &Claim, route: &Route, now: Time) -> Problem {
    let differs = difference::parts(record, claim);
    let message = difference::sentence(&differs);
    let mut problem = Problem::new(route.mismatch_status, "IDEMPOTENCY_CONFLICT", message)
        .with_header(
            X_IDEMPOTENCY_CONFLICT,
            HeaderValue::from_static("body-mismatch"),
        );
    if let Value::Object(details) = details(record, claim, route, now, &differs) {
        for (name, value) in details {
            problem = problem.with_detail(&name, value);
        }
    }
    problem
}

/// What a conflict tells: the parts that differ, the hashes, when the first request came, and how the bodies differ.
///
/// Another principal than the first one learns neither hash nor difference.
#[must_use]
pub fn conflict_details(record: &Record, claim: &Claim, route: &Route, now: Time) -> Value {
    let differs = difference::parts(record, claim);
    details(record, claim, route, now, &differs)
}

fn details(record: &Record, claim: &Claim, route: &Route, now: Time, differs: &[Part]) -> Value {
    let same_principal = record.principal == claim.principal;
    let original_hash = same_principal.then_some(record.request.content_hash.as_str());
    json!({
        "differs": differs.iter().map(|part| part.as_str()).collect::<Vec<_>>(),
        "original_key": record.key.as_str(),
        "current_hash": claim.request.content_hash,
        "original_hash": original_hash,
        "diff_summary": if same_principal { differences(record, claim, route) } else { Vec::new() },
        "original_timestamp": record.created_at.to_string(),
        "retry_after": record.expires_at.since(now).as_secs(),
    })
}

fn differences(record: &Record, claim: &Claim, route: &Route) -> Vec<String> {
    let mut lines = Vec::new();
    if record.request.method != claim.request.method {
        lines.push(format!(
            "(method): '{}' → '{}'",
            record.request.method, claim.request.method
        ));
    }
    if record.request.path != claim.request.path {
        lines.push(format!(
            "(path): '{}' → '{}'",
            cut(&record.request.path),
            cut(&claim.request.path)
        ));
    }
    let options = diff::Options {
        selection: route.selection.clone(),
        masked: record.request.masks_with(&route.redact),
        ..Default::default()
    };
    if let (Some(old), Some(new)) = (&record.request.body, &claim.request.body) {
        let left = options.changes_max - lines.len();
        lines.extend(
            diff(
                old,
                new,
                &diff::Options {
                    changes_max: left,
                    ..options
                },
            )
            .iter()
            .map(ToString::to_string),
        );
    }
    if lines.is_empty() && record.request.content_type != claim.request.content_type {
        lines.push(format!(
            "(content-type): '{}' → '{}'",
            cut(&record.request.content_type),
            cut(&claim.request.content_type)
        ));
    }
    lines
}

fn cut(text: &str) -> String {
    if text.chars().count() <= 256 {
        text.to_owned()
    } else {
        text.chars().take(256).chain(['…']).collect()
    }
}

/// Somebody is running it.
pub(super) fn in_progress(claim: &Claim, held_for: Duration) -> Problem {
    let message = format!("key {} is being worked on; retry after 1 s", claim.key);
    Problem::new(StatusCode::CONFLICT, "IDEMPOTENCY_IN_PROGRESS", message)
        .with_detail("key", claim.key.as_str())
        .with_detail("lease_seconds_left", held_for.as_secs())
        .retry_after(Duration::from_secs(1))
}

/// It may have happened.
pub(super) fn in_doubt(claim: &Claim, doubt: Doubt) -> Problem {
    let message = match doubt {
        Doubt::RunnerDied => {
            "the request was started and its runner died; an operator must settle or release the key"
        }
        Doubt::OutcomeUnknown => {
            "the request was started and its outcome is unknown; an operator must settle or release the key"
        }
        Doubt::ResponseNotStored(Some(NotKept::TooLarge)) => {
            "the request was carried out; its answer was too large to keep and went to its first caller only"
        }
        Doubt::ResponseNotStored(Some(NotKept::Stream)) => {
            "the request was carried out; its answer was a stream too long to keep and went to its first caller only"
        }
        Doubt::ResponseNotStored(Some(NotKept::Trailers)) => {
            "the request was carried out; its answer ended with trailers, which are not kept, and went to its first caller only"
        }
        Doubt::ResponseNotStored(None) => {
            "the request was carried out; its answer could not be kept and went to its first caller only"
        }
    };
    let problem = Problem::new(StatusCode::CONFLICT, "IDEMPOTENCY_IN_DOUBT", message)
        .with_detail("key", claim.key.as_str())
        .with_detail("reason", doubt.as_str());
    match doubt.not_kept() {
        Some(why) => problem.with_detail("why", why.as_str()),
        None => problem,
    }
}

/// It was used, and what was stored under it is gone on purpose. A retry can never help.
pub(super) fn erased() -> Problem {
    let message = "the key was used and what was stored under it is erased; nothing runs again under it, \
                   use another key for another operation";
    Problem::new(StatusCode::GONE, "erased", message)
}

/// The ledger could not say, before anything ran.
pub(super) fn not_claimed(error: &Error) -> Problem {
    match error.kind() {
        Kind::Unavailable => Problem::store_unavailable(),
        Kind::OutcomeUnknown => {
            Problem::store_unavailable().with_detail("reason", "outcome_unknown")
        }
        Kind::Corrupt | Kind::Limit | Kind::Unsafe | Kind::Unsupported => Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the stored record cannot be used; see the log",
        ),
    }
}

/// The request ran, and its answer could not be recorded.
pub(super) fn not_recorded() -> Problem {
    let message = "the request was carried out, but its answer could not be recorded; retry with the same key";
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "store_unavailable",
        message,
    )
    .with_detail("reason", "outcome_unknown")
    .retry_after(Duration::from_secs(1))
}
