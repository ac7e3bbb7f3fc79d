//! The pattern that a request belongs to, made from its method and its path.

use std::fmt::Write;

use hapax_core::{Fingerprint, Space};
use http::Method;

/// The route a request belongs to: its method and its path without `/api` and `/vN`, segments joined by
/// `-`, and ids (numbers, UUIDs, ULIDs) as `{id}`.
///
/// ```
/// use hapax::layer::route_pattern;
/// use http::Method;
///
/// assert_eq!(route_pattern(&Method::POST, "/api/v1/bookings/hold").as_str(), "POST:bookings-hold");
/// assert_eq!(route_pattern(&Method::PUT, "/customers/42").as_str(), "PUT:customers-{id}");
/// ```
///
/// # Panics
/// Never: whatever the path, the pattern is visible ASCII within the limit.
#[must_use]
pub fn route_pattern(method: &Method, path: &str) -> Space {
    let mut pattern = format!("{method}:");
    push_joined(&mut pattern, path);
    if pattern.len() > Space::BYTES_MAX {
        let rest = Fingerprint::of(pattern.as_bytes()).short();
        pattern.truncate(Space::BYTES_MAX - rest.len() - 1);
        pattern = format!("{pattern}~{rest}");
    }
    Space::new(&pattern).expect("visible ASCII within the limit")
}

/// The segments of a path as a pattern has them.
pub(super) fn joined(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    push_joined(&mut pattern, path);
    pattern
}

fn push_joined(pattern: &mut String, path: &str) {
    let before = pattern.len();
    let mut segments = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .peekable();
    while segments
        .next_if(|segment| *segment == "api" || is_version(segment))
        .is_some()
    {}
    for (at, segment) in segments.enumerate() {
        if at > 0 {
            pattern.push('-');
        }
        if is_id(segment) {
            pattern.push_str("{id}");
        } else {
            push_visible(pattern, segment);
        }
    }
    if pattern.len() == before {
        pattern.push('/');
    }
}

/// Whether a path holds an id, so that its route stands for many concrete paths.
pub(super) fn holds_id(path: &str) -> bool {
    path.split('/').any(is_id)
}

fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

pub(super) fn is_id(segment: &str) -> bool {
    let number = !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    let ulid = segment.len() == 26
        && segment.as_bytes()[0] <= b'7'
        && segment.bytes().all(|b| {
            b.is_ascii_alphanumeric()
                && !matches!(b.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U')
        })
        && segment.bytes().any(|b| b.is_ascii_digit());
    number || ulid || uuid::Uuid::try_parse(segment).is_ok()
}

fn push_visible(pattern: &mut String, segment: &str) {
    for byte in segment.bytes() {
        if (0x21..=0x7e).contains(&byte) {
            pattern.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(pattern, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_kind_become_one_route() {
        for id in [
            "7",
            "0123",
            "11111111-1111-1111-1111-111111111111",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        ] {
            assert_eq!(
                route_pattern(&Method::PUT, &format!("/v2/jobs/{id}/notes")).as_str(),
                "PUT:jobs-{id}-notes"
            );
        }
        assert_eq!(
            route_pattern(&Method::PUT, "/jobs/7a").as_str(),
            "PUT:jobs-7a"
        );
    }

    #[test]
    fn odd_paths_still_have_a_route() {
        assert_eq!(route_pattern(&Method::POST, "/").as_str(), "POST:/");
        assert_eq!(
            route_pattern(&Method::POST, "//api//v1//").as_str(),
            "POST:/"
        );
        assert_eq!(
            route_pattern(&Method::POST, "/café").as_str(),
            "POST:caf%C3%A9"
        );
        let long =
            |tail: &str| route_pattern(&Method::POST, &format!("/{}{tail}", "x".repeat(4000)));
        assert_ne!(
            long("a"),
            long("b"),
            "long routes are shortened without meeting"
        );
    }
}
