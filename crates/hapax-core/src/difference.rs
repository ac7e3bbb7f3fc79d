//! In which parts a request differs from the first one under its key. It says only what is known: what a record does not
//! hold differs in nothing. How the values differ is [`diff`](crate::diff)'s to say.

use std::fmt;

use crate::canonical::Selection;
use crate::claim::{Claim, Request};
use crate::content;
use crate::record::Record;

/// A part of a request that counts when two are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// The body, by what it means.
    Body,
    /// The path without its query.
    Path,
    /// The query.
    Query,
    /// The method.
    Method,
    /// The media type of a body that is not JSON on both sides.
    ContentType,
    /// Who sends it.
    Principal,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 6] = [
        Self::Body,
        Self::Path,
        Self::Query,
        Self::Method,
        Self::ContentType,
        Self::Principal,
    ];

    /// The word used in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Path => "path",
            Self::Query => "query",
            Self::Method => "method",
            Self::ContentType => "content_type",
            Self::Principal => "principal",
        }
    }
}

/// The word in a sentence.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContentType => f.write_str("content type"),
            Self::Body | Self::Path | Self::Query | Self::Method | Self::Principal => {
                f.write_str(self.as_str())
            }
        }
    }
}

/// In which parts the request of `claim` differs from that of `record`, which stands for another request. Empty where
/// nobody can tell. Another principal learns nothing else of the first request.
///
/// ```
/// use hapax_core::{decide, Claim, Fingerprint, Key, Owner, Request, Scope, Tenant, Time, Verdict};
/// use hapax_core::difference::{Part, parts};
///
/// let asked = |path: &str, body: &'static str| {
///     let request = Request { method: "POST".into(), path: path.into(), body: Some(body.into()), ..Request::default() };
///     let scope = Scope::new(Tenant::DEFAULT, "POST:orders")?;
///     let claim = Claim::new(scope, Key::new("k")?, Fingerprint::of(path.as_bytes()), Owner::from_u128(1));
///     Ok::<_, hapax_core::Invalid>(Claim { request: request.into(), ..claim })
/// };
/// let Verdict::Grant(first) = decide(None, &asked("/orders/1", "{}")?, Time::from_ms(0)) else { unreachable!() };
/// assert_eq!(parts(&first.next, &asked("/orders/2", "{}")?), [Part::Path]);
/// assert_eq!(parts(&first.next, &asked("/orders/1?dry=1", "[]")?), [Part::Body, Part::Query]);
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[must_use]
pub fn parts(record: &Record, claim: &Claim) -> Vec<Part> {
    if record.principal != claim.principal {
        return vec![Part::Principal];
    }
    let (first, second) = (&*record.request, &*claim.request);
    let ((path, query), (other_path, other_query)) = (target(first), target(second));
    let body = body_differs(first, second, &claim.selection);
    let found = [
        (Part::Body, body == Some(true)),
        (Part::Path, differ(path, other_path)),
        (Part::Query, !path.is_empty() && query != other_query),
        (Part::Method, differ(&first.method, &second.method)),
        (
            Part::ContentType,
            media_type_differs(first, second, &claim.selection),
        ),
    ];
    let found: Vec<Part> = found
        .into_iter()
        .filter(|(_, differs)| *differs)
        .map(|(part, _)| part)
        .collect();
    // Of a secret in a query only its place is kept: where all else is the same, it is the secret that differs.
    if found.is_empty() && body == Some(false) && query.is_some_and(|query| query.contains("***")) {
        return vec![Part::Query];
    }
    found
}

/// What people are told of a request that differs in these parts.
///
/// ```
/// use hapax_core::difference::{Part, sentence};
///
/// assert_eq!(sentence(&[Part::Path]), "the request's path differs from the first one's under the same idempotency key");
/// assert!(sentence(&[Part::Path, Part::Query]).starts_with("the request's path and query differ from"));
/// ```
#[must_use]
pub fn sentence(parts: &[Part]) -> String {
    let names: Vec<String> = parts.iter().map(ToString::to_string).collect();
    match &names[..] {
        [] => "the request differs from the first one under the same idempotency key".to_owned(),
        [_] if parts == [Part::Body] => {
            "Request body differs from original request with same idempotency key".to_owned()
        }
        [name] => format!(
            "the request's {name} differs from the first one's under the same idempotency key"
        ),
        [names @ .., last] => format!(
            "the request's {} and {last} differ from the first one's under the same idempotency key",
            names.join(", ")
        ),
    }
}

/// The path, and the query if there is one.
fn target(request: &Request) -> (&str, Option<&str>) {
    match request.path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&request.path, None),
    }
}

/// Whether two words differ, of which an empty one is not known.
fn differ(first: &str, second: &str) -> bool {
    !first.is_empty() && !second.is_empty() && first != second
}

/// Whether the bodies differ, or nothing where that is not known.
fn body_differs(first: &Request, second: &Request, selection: &Selection) -> Option<bool> {
    if let (Some(old), Some(new)) = (&first.body, &second.body) {
        let hash = |body: &[u8]| content::hash(&second.content_type, body, selection);
        let differs = old != new && hash(old) != hash(new);
        // Kept as it came, encoded: what it says is not known.
        let is_known = !is_encoded(first) && !is_encoded(second);
        return (is_known || !differs).then_some(differs);
    }
    // The hash holds the path and the query, and of what is not JSON the media type.
    let is_of_the_body = first.path == second.path && first.content_type == second.content_type;
    let is_known = !first.content_hash.is_empty() && !second.content_hash.is_empty();
    let differs = first.content_hash != second.content_hash;
    (is_known && (is_of_the_body || !differs)).then_some(differs)
}

/// Whether what should be text begins as a compressed body does. Such a body was kept by an older version, or could not be
/// decoded.
fn is_encoded(request: &Request) -> bool {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let media_type = &request.content_type;
    let is_text = content::is_json(media_type)
        || content::is_form(media_type)
        || media_type.starts_with("text/");
    let body = request.body.as_deref().unwrap_or_default();
    is_text && (body.starts_with(GZIP) || body.starts_with(ZSTD))
}

/// Whether the media types differ so that it counts: that of JSON does not.
fn media_type_differs(first: &Request, second: &Request, selection: &Selection) -> bool {
    if first.content_type == second.content_type || first.method.is_empty() {
        return false;
    }
    match &second.body {
        Some(body) => {
            let hash = |media_type: &str| content::hash(media_type, body, selection);
            hash(&first.content_type) != hash(&second.content_type)
        }
        None => !(content::is_json(&first.content_type) && content::is_json(&second.content_type)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::{Fingerprint, Principal};
    use crate::{Key, Owner, Scope, Tenant, Time, Verdict, decide};

    fn request(path: &str, content_type: &str, body: &str) -> Request {
        Request {
            method: "PUT".to_owned(),
            path: path.to_owned(),
            content_type: content_type.to_owned(),
            content_hash: Fingerprint::of(body.as_bytes()).short(),
            body: Some(body.to_owned().into()),
            masks: Vec::new(),
        }
    }

    fn claim(request: Request) -> Claim {
        let scope = Scope::new(Tenant::DEFAULT, "PUT:things").unwrap();
        let key = Key::new("k").unwrap();
        let mut claim = Claim::new(scope, key, Fingerprint::of(b"1"), Owner::from_u128(1));
        claim.selection = Selection::new(["at"], [""; 0]).unwrap();
        claim.request = request.into();
        claim
    }

    fn compared(first: &Claim, second: &Claim) -> Vec<Part> {
        match decide(None, first, Time::from_ms(1)) {
            Verdict::Grant(grant) => parts(&grant.next, second),
            other => panic!("a new key is granted: {other:?}"),
        }
    }

    #[test]
    fn each_part_is_named_and_no_other() {
        let first = request("/things/1?a=1", "application/json", r#"{"n":1,"at":1}"#);
        let with = |path: &str, content_type: &str, body: &str| {
            let second = request(path, content_type, body);
            compared(&claim(first.clone()), &claim(second))
        };
        let (path, json) = ("/things/1?a=1", "application/json");
        let body = r#"{"n":1,"at":1}"#;
        assert_eq!(with(path, json, r#"{"n":2}"#), [Part::Body]);
        assert_eq!(with("/things/2?a=1", json, body), [Part::Path]);
        assert_eq!(with("/things/1?a=2", json, body), [Part::Query]);
        assert_eq!(with("/things/1", json, body), [Part::Query]);
        assert_eq!(with(path, "text/plain", body), [Part::ContentType]);
        assert_eq!(
            with("/things/2", "text/plain", "[]"),
            [Part::Body, Part::Path, Part::Query, Part::ContentType]
        );
        let mut patched = request(path, json, body);
        patched.method = "PATCH".to_owned();
        assert_eq!(compared(&claim(first), &claim(patched)), [Part::Method]);
    }

    #[test]
    fn what_means_the_same_is_no_difference() {
        let first = request("/t", "application/json", r#"{"n":1,"at":1}"#);
        for (content_type, body) in [
            ("application/json", r#"{ "at": 2, "n": 1.0 }"#),
            ("application/vnd.x+json", r#"{"n":1}"#),
            ("", r#"{"n":1}"#),
        ] {
            let second = request("/t", content_type, body);
            let found = compared(&claim(first.clone()), &claim(second));
            assert_eq!(found, [], "{content_type} {body}");
        }
    }

    #[test]
    fn another_principal_is_told_of_nothing_else() {
        let (mut first, mut second) =
            (claim(request("/a", "", "1")), claim(request("/b", "", "2")));
        first.principal = Some(Principal::of(b"ann"));
        second.principal = Some(Principal::of(b"bob"));
        assert_eq!(compared(&first, &second), [Part::Principal]);
        second.principal = None;
        assert_eq!(compared(&first, &second), [Part::Principal]);
    }

    #[test]
    fn what_a_record_does_not_hold_differs_in_nothing() {
        let nothing = claim(Request::default());
        let second = claim(request("/b?c", "text/plain", "2"));
        assert_eq!(compared(&nothing, &second), []);

        let mut hashed = request("/b", "text/plain", "1");
        hashed.body = None;
        let with = |path: &str, content_type: &str, body: &str| {
            let second = claim(request(path, content_type, body));
            compared(&claim(hashed.clone()), &second)
        };
        assert_eq!(with("/b", "text/plain", "2"), [Part::Body]);
        assert_eq!(with("/b", "text/plain", "1"), []);
        assert_eq!(
            with("/c", "text/plain", "2"),
            [Part::Path],
            "the hash may hold it"
        );
    }

    #[test]
    fn a_body_that_was_kept_encoded_is_not_called_another() {
        let mut first = request("/t", "application/json", "");
        first.body = Some(vec![0x1f, 0x8b, 8, 0].into());
        let second = |path: &str| claim(request(path, "application/json", "{}"));
        assert_eq!(compared(&claim(first.clone()), &second("/t")), []);
        assert_eq!(compared(&claim(first.clone()), &second("/u")), [Part::Path]);
        first.content_type = "image/png".to_owned();
        let mut other = request("/t", "image/png", "");
        other.body = Some(vec![0x1f, 0x8b, 8, 1].into());
        assert_eq!(compared(&claim(first), &claim(other)), [Part::Body]);
    }

    #[test]
    fn a_masked_query_differs_where_nothing_else_can() {
        let masked = |body: &str| claim(request("/t?token=***", "", body));
        assert_eq!(compared(&masked("1"), &masked("1")), [Part::Query]);
        assert_eq!(compared(&masked("1"), &masked("2")), [Part::Body]);
    }

    #[test]
    fn the_sentence_names_the_parts() {
        for (parts, words) in [
            (
                &[Part::Body][..],
                "Request body differs from original request",
            ),
            (&[Part::ContentType], "the request's content type differs"),
            (&[Part::Principal], "the request's principal differs"),
            (
                &[Part::Body, Part::Path, Part::Method],
                "the request's body, path and method differ from",
            ),
            (&[], "the request differs"),
        ] {
            assert!(sentence(parts).starts_with(words), "{}", sentence(parts));
        }
    }
}
