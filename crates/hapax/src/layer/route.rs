//! Routes: the pattern a request belongs to, and the options that apply to it.
//! Nothing here reads a configuration file.

use std::fmt::Write;
use std::time::Duration;

use hapax_core::canonical::{Path, Selection};
use hapax_core::{Fingerprint, OnLost, Policy, Space};
use http::{HeaderName, Method, StatusCode};

/// The top-level fields that do not count when two bodies are compared, unless a route says otherwise.
const EXCLUDED: [&str; 7] = [
    "created_at",
    "updated_at",
    "timestamp",
    "_metadata",
    "request_id",
    "trace_id",
    "session_id",
];

const NO_PATHS: [&str; 0] = [];

/// What applies to the requests of a route.
#[derive(Clone, Debug)]
pub struct Route {
    /// Refuse a request without a key, unless one can be derived.
    pub required: bool,
    /// Derive the key from the content when the request carries none.
    pub derive: bool,
    /// How long an answer is kept, a lease lasts, a duplicate waits, and what a lost lease means.
    pub policy: Policy,
    /// The status of "same key, other request": 409, or 422 as the IETF draft has it.
    pub mismatch_status: StatusCode,
    /// The top-level fields that do not count, and the arrays whose order does not.
    pub selection: Selection,
    /// What a conflict must not show, beside names that tell by themselves (password, token, card, …).
    pub redact: Vec<Path>,
    /// Response headers that are stored beside the usual ones.
    pub store_headers: Vec<HeaderName>,
    /// The largest request body under a key.
    pub max_body_bytes: usize,
    /// The largest response that is kept for a replay.
    pub max_response_bytes: usize,
}

impl Default for Route {
    fn default() -> Self {
        Self {
            required: false,
            derive: false,
            policy: Policy::default(),
            mismatch_status: StatusCode::CONFLICT,
            selection: Selection::new(EXCLUDED, NO_PATHS).expect("no path, so none is malformed"),
            redact: Vec::new(),
            store_headers: Vec::new(),
            max_body_bytes: 8 * 1024 * 1024,
            max_response_bytes: 8 * 1024 * 1024,
        }
    }
}

impl Route {
    /// The same route whose answers live for `ttl`.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = ttl;
        self
    }

    /// The same route where a duplicate waits up to `wait` for the answer of the one in flight.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.policy.wait = wait;
        self
    }

    /// The same route with this meaning of a lost lease.
    #[must_use]
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.policy.on_lost = on_lost;
        self
    }

    /// The same route where a key must be given or derived.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same route where a missing key is derived from the content.
    #[must_use]
    pub fn derive(mut self) -> Self {
        self.derive = true;
        self
    }
}

/// Which route applies to which requests.
///
/// Without a table every POST, PUT, PATCH and DELETE that carries a key is keyed. With one, only the
/// requests that match a pattern are; the longest matching pattern wins, `*` stands for anything.
///
/// ```
/// use hapax::layer::{Route, Routes};
/// use std::time::Duration;
///
/// let routes = Routes::table()
///     .with("*:*", Route::default())?
///     .with("PUT:customers-*", Route::default().ttl(Duration::from_secs(60)))?;
/// assert_eq!(routes.find("PUT:customers-{id}").unwrap().policy.ttl, Duration::from_secs(60));
/// assert_eq!(routes.find("POST:bookings-hold").unwrap().policy.ttl, Duration::from_secs(3600));
/// assert!(Routes::table().find("POST:bookings-hold").is_none(), "an empty table keys nothing");
/// assert!(Routes::table().with("customers", Route::default()).is_err(), "a pattern names a method");
/// # Ok::<(), hapax::layer::InvalidRoute>(())
/// ```
#[derive(Clone, Debug)]
pub struct Routes {
    /// Sorted so that the longest pattern comes first.
    table: Vec<(String, Route)>,
    otherwise: Option<Route>,
}

/// A route pattern that does not say `METHOD:path`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidRoute(String);

impl std::fmt::Display for InvalidRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "'{}' is not a route pattern; write METHOD:path, as in PUT:customers-* or *:*",
            self.0
        )
    }
}

impl std::error::Error for InvalidRoute {}

impl Default for Routes {
    fn default() -> Self {
        Self::any(Route::default())
    }
}

impl Routes {
    /// No table: `route` applies to every request.
    #[must_use]
    pub fn any(route: Route) -> Self {
        Self {
            table: Vec::new(),
            otherwise: Some(route),
        }
    }

    /// An empty table: nothing is keyed until a pattern is added.
    #[must_use]
    pub fn table() -> Self {
        Self {
            table: Vec::new(),
            otherwise: None,
        }
    }

    /// The same table with one more pattern.
    ///
    /// # Errors
    /// [`InvalidRoute`] when the pattern is not `METHOD:path`.
    pub fn with(mut self, pattern: &str, route: Route) -> Result<Self, InvalidRoute> {
        let valid = pattern
            .split_once(':')
            .is_some_and(|(method, path)| !method.is_empty() && !path.is_empty());
        if !valid {
            return Err(InvalidRoute(pattern.to_owned()));
        }
        self.table.push((pattern.to_owned(), route));
        self.table
            .sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.len()));
        Ok(self)
    }

    /// The route that applies to `route_pattern`, if any does.
    #[must_use]
    pub fn find(&self, route_pattern: &str) -> Option<&Route> {
        let matching = self
            .table
            .iter()
            .find(|(pattern, _)| matches(pattern.as_bytes(), route_pattern.as_bytes()));
        matching.map(|(_, route)| route).or(self.otherwise.as_ref())
    }
}

/// Whether `pattern` matches all of `text`. Linear: only the last star is ever tried again.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
        } else if p < pattern.len() && pattern[p] == text[t] {
            p += 1;
            t += 1;
        } else if let Some((after, from)) = star {
            p = after;
            t = from + 1;
            star = Some((after, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

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
    let mut segments = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .peekable();
    while segments
        .next_if(|segment| *segment == "api" || is_version(segment))
        .is_some()
    {}
    let mut pattern = format!("{method}:");
    for (at, segment) in segments.enumerate() {
        if at > 0 {
            pattern.push('-');
        }
        if is_id(segment) {
            pattern.push_str("{id}");
        } else {
            push_visible(&mut pattern, segment);
        }
    }
    if pattern.ends_with(':') {
        pattern.push('/');
    }
    if pattern.len() > Space::BYTES_MAX {
        let rest = Fingerprint::of(pattern.as_bytes()).short();
        pattern.truncate(Space::BYTES_MAX - rest.len() - 1);
        pattern = format!("{pattern}~{rest}");
    }
    Space::new(&pattern).expect("visible ASCII within the limit")
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

fn is_id(segment: &str) -> bool {
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

    #[test]
    fn the_longest_pattern_wins_and_stars_match_anything() {
        for (pattern, text, expected) in [
            ("*:*", "POST:a", true),
            ("PUT:customers-*", "PUT:customers-{id}", true),
            ("PUT:customers-*", "PUT:customers", false),
            ("POST:*-hold", "POST:bookings-hold", true),
            ("POST:*a*a*a*b", "POST:aaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
