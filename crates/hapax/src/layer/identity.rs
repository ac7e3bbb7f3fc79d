//! Who sends a request: the part of it that says so, as a route names it. Nothing here checks a credential.

use hapax_core::Principal;
use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};

/// The longest name of a cookie.
const COOKIE_NAME_BYTES_MAX: usize = 256;
/// The most headers that one identity is made of.
const HEADERS_MAX: usize = 16;

/// Which part of a request says who sends it. Exactly one does; where it is absent `Authorization` does, and without
/// that the request is anonymous. For a derived key nothing stands in for what is named where cookies come along.
///
/// ```
/// use hapax::layer::{Identity, Route};
///
/// let route = Route::default().derive().identified_by(Identity::cookie("sid")?);
/// assert!(!route.identity.is_unset());
/// assert!(Identity::cookie("s;d").is_err());
/// assert!(Identity::headers(["x-user".parse().unwrap()]).is_ok());
/// assert!(Identity::headers([]).is_err());
/// # Ok::<(), hapax::layer::InvalidIdentity>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity(Source);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Source {
    #[default]
    Unset,
    /// At least one, sorted, each once.
    Headers(Vec<HeaderName>),
    Cookie(String),
    Verified,
}

/// An identity that no request could have, for this reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidIdentity(String);

impl std::fmt::Display for InvalidIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidIdentity {}

impl Identity {
    /// The values of these headers, all together. In another order they are the same identity.
    ///
    /// # Errors
    /// [`InvalidIdentity`] without a header, with over 16, and with `Cookie`, which holds more than who asks.
    pub fn headers(names: impl IntoIterator<Item = HeaderName>) -> Result<Self, InvalidIdentity> {
        let mut names: Vec<HeaderName> = names.into_iter().collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        let invalid = |why: String| Err(InvalidIdentity(why));
        if names.is_empty() || names.len() > HEADERS_MAX {
            return invalid(format!(
                "names {} headers; name 1 to {HEADERS_MAX}",
                names.len()
            ));
        }
        if names.contains(&COOKIE) {
            return invalid(
                "holds 'cookie', which changes with every cookie of the site; name the one cookie that says who asks"
                    .to_owned(),
            );
        }
        Ok(Self(Source::Headers(names)))
    }

    /// The value of this cookie. Where it comes more than once, all its values count, in their order.
    ///
    /// # Errors
    /// [`InvalidIdentity`] when no cookie can have this name.
    pub fn cookie(name: &str) -> Result<Self, InvalidIdentity> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"=;,\"\\".contains(&byte);
        if name.is_empty() || name.len() > COOKIE_NAME_BYTES_MAX || !name.bytes().all(is_plain) {
            return Err(InvalidIdentity(format!("is {name:?}, no cookie's name")));
        }
        Ok(Self(Source::Cookie(name.to_owned())))
    }

    /// `Authorization`, whatever it holds.
    #[must_use]
    pub fn authorization() -> Self {
        Self(Source::Headers(vec![AUTHORIZATION]))
    }

    /// The principal that [`caller_of`](super::IdempotencyLayer::caller_of) finds, such as the subject of a token that it
    /// has verified.
    #[must_use]
    pub fn verified() -> Self {
        Self(Source::Verified)
    }

    /// Whether nothing is named.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        self.0 == Source::Unset
    }

    /// Whether the caller is to be verified.
    pub(super) fn is_verified(&self) -> bool {
        self.0 == Source::Verified
    }

    /// Whether nothing but `Authorization` counts.
    pub(super) fn is_usual(&self) -> bool {
        self.is_unset() || *self == Self::authorization()
    }

    /// The setting that a request with cookies lacks, or whose source is not in it.
    pub(super) fn setting(&self) -> &'static str {
        match self.0 {
            Source::Unset | Source::Cookie(_) => "principal_cookie",
            Source::Headers(_) if self.is_usual() => "principal_cookie",
            Source::Headers(_) => "principal_headers",
            Source::Verified => "principal",
        }
    }

    /// Who these headers say that it is; `None` where what is named is absent or empty.
    pub(super) fn named(&self, headers: &HeaderMap) -> Option<Principal> {
        match &self.0 {
            Source::Unset | Source::Verified => None,
            Source::Headers(names) if *names == [AUTHORIZATION] => authorization(headers),
            Source::Headers(names) => of_headers(names, headers),
            Source::Cookie(name) => of_cookie(name, headers),
        }
    }
}

/// The hash of what a request authorises itself with.
pub(super) fn authorization(headers: &HeaderMap) -> Option<Principal> {
    let given = headers.get_all(AUTHORIZATION).iter();
    let given: Vec<&[u8]> = given.map(HeaderValue::as_bytes).collect();
    if given.iter().all(|value| value.is_empty()) {
        return None;
    }
    // A value holds no line feed, so no two lists are joined alike.
    Some(Principal::of(&given.join(&b"\n"[..])))
}

/// The names, how often each came, and its values: nothing of it can be read in two ways.
fn of_headers(names: &[HeaderName], headers: &HeaderMap) -> Option<Principal> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut is_named = false;
    for name in names {
        let values: Vec<_> = headers.get_all(name).iter().collect();
        parts.push(name.as_str().into());
        parts.push(values.len().to_string().into_bytes());
        for value in values {
            is_named |= !value.is_empty();
            parts.push(value.as_bytes().into());
        }
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    is_named.then(|| Principal::of_parts("headers", &parts))
}

/// All values of the cookie: which of two the service takes is not known here, and whoever sends both is neither.
fn of_cookie(name: &str, headers: &HeaderMap) -> Option<Principal> {
    // HTTP/2 may send each cookie in a header of its own.
    let pairs = headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let values = pairs.filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        (pair[..at].trim_ascii() == name.as_bytes()).then(|| &pair[at + 1..])
    });
    let parts: Vec<&[u8]> = std::iter::once(name.as_bytes()).chain(values).collect();
    let is_named = parts[1..]
        .iter()
        .any(|value| !value.trim_ascii().is_empty());
    is_named.then(|| Principal::of_parts("cookie", &parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    fn sid(cookies: &[&'static str]) -> Option<Principal> {
        let pairs: Vec<_> = cookies.iter().map(|value| ("cookie", *value)).collect();
        Identity::cookie("sid").unwrap().named(&headers(&pairs))
    }

    #[test]
    fn a_cookie_is_found_among_others_however_they_are_sent() {
        let alone = sid(&["sid=a"]);
        assert!(alone.is_some());
        for same in [
            &["theme=dark; sid=a; lang=en"][..],
            &["theme=dark", "sid=a", "lang=en"],
            &["theme=dark;sid=a"],
            &["theme=dark;  sid=a;"],
            &["nonsense; sid=a"],
            &["sid =a"],
        ] {
            assert_eq!(sid(same), alone, "{same:?}");
        }
        for other in ["sid=b", "sid=a=", "sid=a ; x", "sid=\"a\""] {
            assert!(
                sid(&[other]).is_some_and(|found| Some(found) != alone),
                "{other}"
            );
        }
        for absent in [
            "SID=a",
            "xsid=a",
            "sidx=a",
            "sid",
            "sid=",
            "sid= ",
            "",
            "x=sid=a",
            "x=1,sid=a",
        ] {
            assert_eq!(sid(&[absent]), None, "{absent}");
        }
        assert_eq!(sid(&[]), None);
    }

    #[test]
    fn whoever_sends_a_cookie_twice_is_nobody_that_sends_it_once() {
        let (mine, yours) = (sid(&["sid=a"]), sid(&["sid=b"]));
        for both in [
            sid(&["sid=a; sid=b"]),
            sid(&["sid=b; sid=a"]),
            sid(&["sid=a", "sid=b"]),
            sid(&["sid=a; sid=a"]),
            sid(&["sid=; sid=a"]),
        ] {
            assert!(both.is_some() && both != mine && both != yours);
        }
        assert_eq!(sid(&["sid=a; sid=b"]), sid(&["sid=a", "sid=b"]));
        assert_ne!(sid(&["sid=a; sid=b"]), sid(&["sid=b; sid=a"]));
    }

    #[test]
    fn several_headers_are_one_identity_that_reads_in_one_way() {
        let names = ["x-org", "x-user"].map(HeaderName::from_static);
        let identity = Identity::headers(names.clone()).unwrap();
        let [org, user] = names;
        assert_eq!(
            Identity::headers([user.clone(), org, user]).unwrap(),
            identity
        );
        let of = |pairs: &[(&'static str, &'static str)]| identity.named(&headers(pairs));
        let ann = of(&[("x-org", "a"), ("x-user", "ann")]);
        assert_eq!(
            ann,
            of(&[("x-user", "ann"), ("x-org", "a"), ("x-other", "1")])
        );
        for other in [
            of(&[("x-org", "aann"), ("x-user", "")]),
            of(&[("x-org", "a")]),
            of(&[("x-user", "ann")]),
            of(&[("x-org", "a"), ("x-org", "ann")]),
            of(&[("x-org", "ann"), ("x-user", "a")]),
            of(&[("x-org", "a"), ("x-user", "ann"), ("x-user", "ann")]),
        ] {
            assert!(other.is_some() && other != ann);
        }
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("x-org", "")]), None);
    }

    #[test]
    fn authorization_alone_is_the_principal_it_has_always_been() {
        let identity = Identity::authorization();
        let of = |values: &[&'static str]| {
            let pairs: Vec<_> = values
                .iter()
                .map(|value| ("authorization", *value))
                .collect();
            identity.named(&headers(&pairs))
        };
        assert_eq!(of(&["Bearer a"]), Some(Principal::of(b"Bearer a")));
        assert_eq!(of(&["a", "b"]), Some(Principal::of(b"a\nb")));
        assert_eq!((of(&[]), of(&[""])), (None, None));
        let named = Identity::headers([AUTHORIZATION]).unwrap();
        assert_eq!(named, identity);
    }

    #[test]
    fn a_source_never_stands_for_another() {
        let header = Identity::headers([HeaderName::from_static("x-sid")]).unwrap();
        let by_header = header.named(&headers(&[("x-sid", "a")]));
        let by_authorization = authorization(&headers(&[("authorization", "a")]));
        assert!(by_header != sid(&["sid=a"]) && by_header != by_authorization);
        assert_ne!(by_authorization, sid(&["sid=a"]));
    }

    #[test]
    fn an_identity_that_no_request_has_is_refused() {
        assert!(Identity::headers([AUTHORIZATION, COOKIE]).is_err());
        for name in ["", "a b", "a;b", "a=b", "a,b", "é", &"x".repeat(257)] {
            assert!(Identity::cookie(name).is_err(), "{name}");
        }
    }
}
