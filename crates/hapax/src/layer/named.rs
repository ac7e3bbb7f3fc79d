//! Route patterns as people write them: real paths are brought into the form that routes have, and what no route can
//! match is refused. Which route a request belongs to is not its business.

use std::fmt;

use hapax_core::Space;

use super::pattern::{is_id, joined};

const FORM: &str = "write POST, PUT, PATCH, DELETE or *, then :path, as in PUT:customers-* or *:*";

/// A route pattern that no request can match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidRoute {
    pattern: String,
    nearest: Option<String>,
}

impl fmt::Display for InvalidRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, nearest } = self;
        match nearest {
            Some(nearest) => write!(
                f,
                "'{pattern}' matches no request; the nearest that does is '{nearest}'"
            ),
            None => write!(f, "'{pattern}' is not a route pattern; {FORM}"),
        }
    }
}

impl std::error::Error for InvalidRoute {}

/// The pattern in the form that routes have: a real path, which begins with a slash, loses `/api` and `/vN`, its segments
/// are joined by `-`, and ids become `{id}`.
///
/// ```
/// use hapax::layer::pattern_named;
///
/// assert_eq!(pattern_named("POST:/api/v1/payments/link")?, "POST:payments-link");
/// assert_eq!(pattern_named("PUT:/customers/42/*")?, "PUT:customers-{id}-*");
/// assert_eq!(pattern_named("PUT:customers-*")?, "PUT:customers-*");
/// // The refusal: no path has a query.
/// let refused = pattern_named("POST:/payments?draft=1").unwrap_err();
/// assert_eq!(refused.nearest(), Some("POST:payments"));
/// # Ok::<(), hapax::layer::InvalidRoute>(())
/// ```
///
/// # Errors
/// [`InvalidRoute`] when it is not `METHOD:path`, or no request can match it. It names the nearest that one can.
pub fn pattern_named(text: &str) -> Result<String, InvalidRoute> {
    let (method, path) = text.split_once(':').unwrap_or((text, ""));
    let is_method = |method: &str| matches!(method, "POST" | "PUT" | "PATCH" | "DELETE" | "*");
    let nearest = near(path);
    if !is_method(method) {
        let method = method.to_ascii_uppercase();
        let known = is_method(&method) && !path.is_empty() && can_match(&nearest);
        let nearest = known.then(|| format!("{method}:{nearest}"));
        return Err(refused(text, nearest));
    }
    if path.is_empty() || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(refused(text, None));
    }
    let found = if path.starts_with('/') && !path.contains(['?', '#']) {
        joined(path)
    } else {
        path.to_owned()
    };
    if can_match(&found) {
        return Ok(format!("{method}:{found}"));
    }
    let nearest = can_match(&nearest).then(|| format!("{method}:{nearest}"));
    Err(refused(text, nearest))
}

fn refused(pattern: &str, nearest: Option<String>) -> InvalidRoute {
    InvalidRoute {
        pattern: pattern.to_owned(),
        nearest,
    }
}

impl InvalidRoute {
    /// The nearest pattern that a request can match, if there is one.
    #[must_use]
    pub fn nearest(&self) -> Option<&str> {
        self.nearest.as_deref()
    }
}

/// What `pattern` would be if every `-` in it stood between two segments, where that is another: `POST:api-v1-payments`
/// matches `/api-v1-payments` and no `/api/v1/payments`, which is `POST:payments`.
#[must_use]
pub fn pattern_meant(pattern: &str) -> Option<String> {
    let (method, path) = pattern.split_once(':')?;
    let meant = joined(&path.replace('-', "/"));
    (meant != path && can_match(&meant)).then(|| format!("{method}:{meant}"))
}

/// Whether some path is joined to what `path` matches.
fn can_match(path: &str) -> bool {
    let literal = path.bytes().filter(|byte| *byte != b'*').count();
    if literal > Space::BYTES_MAX || path.bytes().any(|byte| !(0x21..=0x7e).contains(&byte)) {
        return false;
    }
    // No segment holds these; the root alone is a slash.
    if path != "/" && path.contains(['/', '?', '#']) {
        return false;
    }
    // A segment that is an id is `{id}`, and what may precede a path is left out.
    let stars = path.contains('*');
    if !stars && !path.contains('-') && (is_id(path) || joined(path) != path) && path != "/" {
        return false;
    }
    braces_are_ids(path)
}

/// Whether braces stand around `id` only, and that for a whole segment. Clients encode every other brace.
fn braces_are_ids(path: &str) -> bool {
    const ID: &str = "{id}";
    let around = path.replace(ID, "");
    let is_whole = |(at, _): (usize, &str)| {
        let before = path[..at].bytes().next_back();
        let after = path[at + ID.len()..].bytes().next();
        [before, after]
            .iter()
            .all(|byte| byte.is_none_or(|byte| b"-*".contains(&byte)))
    };
    !around.contains(['{', '}']) && path.match_indices(ID).all(is_whole)
}

/// The nearest path that can be matched: without query, as a real path, and with every name in braces an id.
fn near(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut named = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, inner)) = rest.split_once('{') {
        let (_, after) = inner.split_once('}').unwrap_or(("", ""));
        named.push_str(&before.replace('}', ""));
        if !(named.is_empty() || named.ends_with(['-', '/', '*'])) {
            named.push('-');
        }
        named.push_str("{id}");
        if !(after.is_empty() || after.starts_with(['-', '/', '*'])) {
            named.push('-');
        }
        rest = after;
    }
    named.push_str(&rest.replace('}', ""));
    joined(&named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::route_pattern;
    use http::Method;

    #[test]
    fn a_real_path_is_the_pattern_of_its_requests() {
        for path in [
            "/api/v1/payments/link",
            "/customers/42",
            "/v2/jobs/11111111-1111-1111-1111-111111111111/notes",
            "/café",
            "/api/v1",
            "/",
            "/api-keys",
        ] {
            let pattern = pattern_named(&format!("PUT:{path}")).unwrap();
            assert_eq!(
                pattern,
                route_pattern(&Method::PUT, path).as_str(),
                "{path}"
            );
        }
        for (written, pattern) in [
            ("*:/api/v1/customers/*", "*:customers-*"),
            ("POST:/*", "POST:*"),
            ("PUT:/customers/{id}/notes", "PUT:customers-{id}-notes"),
            ("PUT:customers-{id}", "PUT:customers-{id}"),
            ("POST:*-{id}", "POST:*-{id}"),
            ("POST:payments-link", "POST:payments-link"),
        ] {
            assert_eq!(pattern_named(written).unwrap(), pattern);
        }
    }

    #[test]
    fn what_no_request_matches_is_refused_with_the_nearest_that_one_does() {
        for (written, nearest) in [
            ("POST:payments/link", Some("POST:payments-link")),
            ("POST:api/v1/payments", Some("POST:payments")),
            ("POST:/payments?draft=1", Some("POST:payments")),
            ("PUT:/customers/{customer_id}", Some("PUT:customers-{id}")),
            ("PUT:customers{id}", Some("PUT:customers-{id}")),
            ("PUT:{order}-lines", Some("PUT:{id}-lines")),
            ("PUT:42", Some("PUT:{id}")),
            ("POST:v1", Some("POST:/")),
            ("POST:*/notes", Some("POST:*-notes")),
            ("post:/payments", Some("POST:payments")),
            ("customers", None),
            ("GET:customers", None),
            ("PUT:", None),
            (":a", None),
            ("PUT:a b", None),
        ] {
            let refused = pattern_named(written).unwrap_err();
            assert_eq!(refused.nearest(), nearest, "{written}");
            let text = refused.to_string();
            assert!(text.contains(written), "{text}");
            assert!(text.contains(nearest.unwrap_or("write POST")), "{text}");
        }
        let long = format!("POST:{}", "x".repeat(Space::BYTES_MAX + 1));
        assert!(pattern_named(&long).is_err());
    }

    #[test]
    fn a_nearest_pattern_is_one_that_is_taken() {
        for written in [
            "POST:a/b{c",
            "POST:}{",
            "PUT:x{a}{b}y",
            "POST:#",
            "POST:?",
            "PUT:/a//{/}",
        ] {
            if let Err(refused) = pattern_named(written)
                && let Some(nearest) = refused.nearest()
            {
                assert_eq!(pattern_named(nearest).unwrap(), nearest, "{written}");
            }
        }
    }

    #[test]
    fn what_reads_like_a_path_with_dashes_is_known() {
        for (pattern, meant) in [
            ("POST:api-v1-payments", Some("POST:payments")),
            ("PUT:customers-42", Some("PUT:customers-{id}")),
            ("PUT:customers-{id}", None),
            ("POST:payments-link", None),
            ("*:*", None),
            ("POST:/", None),
        ] {
            assert_eq!(pattern_meant(pattern).as_deref(), meant, "{pattern}");
        }
    }
}
