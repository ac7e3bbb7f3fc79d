//! The session of a browser: a cookie that stands for a token without holding it. Who it lets in is decided in `auth`.
//!
//! The cookie is `holder.expiry.id.mac`. Its mac is made with the stored hash of the token, so that it ends with the token, and
//! with a secret of the server that is not in the database, so that reading the database is not enough to make one.

use std::time::Duration;

use aws_lc_rs::hmac;
use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method};
use data_encoding::HEXLOWER;
use hapax_core::Time;
use hapax_store::{SessionId, TokenId};

/// How long a session lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(43_200);
const NAME: &str = "hapax_session";
/// Its name where browsers come by https: they take a cookie with this prefix only from this very host, over https, so
/// that no page of a sister domain can plant one.
const NAME_HTTPS: &str = "__Host-hapax_session";
/// What the mac is of, so that it cannot stand for anything else.
const LABEL: &str = "hapax session v3";
/// The name of HAPAX_TOKEN among ids.
const CONFIGURED: &str = "configured";
/// A cookie is shorter than this.
const COOKIE_BYTES_MAX: usize = 256;

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holder {
    Token(TokenId),
    /// Whoever knows HAPAX_TOKEN.
    Configured,
}

impl Holder {
    fn word(self) -> String {
        match self {
            Self::Token(id) => id.to_string(),
            Self::Configured => CONFIGURED.to_owned(),
        }
    }

    fn of(word: &str) -> Option<Self> {
        if word == CONFIGURED {
            return Some(Self::Configured);
        }
        let id: TokenId = word.parse().ok()?;
        // One id has one text.
        (id.to_string() == word).then_some(Self::Token(id))
    }
}

/// What a cookie says. It is true only if its mac is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Session {
    pub(super) holder: Holder,
    pub(super) expires_at: Time,
    /// Its own name, under which it can be ended.
    pub(super) id: SessionId,
    mac: Vec<u8>,
}

impl Session {
    /// Begins now, signed with `key`.
    pub(super) fn begin(holder: Holder, id: SessionId, key: &[u8; 32], now: Time) -> Self {
        let expires_at = Time::from_ms(now.plus(LASTS).as_ms() / 1000 * 1000);
        let signed = signed(holder, expires_at, id);
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), signed.as_bytes());
        Self {
            holder,
            expires_at,
            id,
            mac: mac.as_ref().to_vec(),
        }
    }

    /// Reads the value of a cookie. Anything that is not of the form is none.
    pub(super) fn read(value: &str) -> Option<Self> {
        if value.len() > COOKIE_BYTES_MAX {
            return None;
        }
        let mut parts = value.split('.');
        let mut next = || parts.next();
        let (Some(word), Some(expiry), Some(name), Some(mac), None) =
            (next(), next(), next(), next(), next())
        else {
            return None;
        };
        let seconds: u32 = expiry.parse().ok()?;
        let id: SessionId = name.parse().ok()?;
        // One session has one text.
        if expiry != seconds.to_string() || name != id.to_string() {
            return None;
        }
        Some(Self {
            holder: Holder::of(word)?,
            expires_at: Time::from_ms(i64::from(seconds) * 1000),
            id,
            mac: HEXLOWER.decode(mac.as_bytes()).ok()?,
        })
    }

    /// Whether it was signed with this key. In constant time.
    pub(super) fn is_of(&self, key: &[u8; 32]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let signed = signed(self.holder, self.expires_at, self.id);
        hmac::verify(&key, signed.as_bytes(), &self.mac).is_ok()
    }

    fn value(&self) -> String {
        let mac = HEXLOWER.encode(&self.mac);
        format!(
            "{}.{mac}",
            signed_part(self.holder, self.expires_at, self.id)
        )
    }

    /// The Set-Cookie that begins it.
    pub(super) fn set_cookie(&self, is_https: bool) -> String {
        set_cookie(&self.value(), LASTS, is_https)
    }
}

/// The Set-Cookie that ends any session.
pub(crate) fn cleared(is_https: bool) -> String {
    set_cookie("", Duration::ZERO, is_https)
}

fn set_cookie(value: &str, lasts: Duration, is_https: bool) -> String {
    let (name, secure) = (name(is_https), if is_https { "; Secure" } else { "" });
    let lasts = lasts.as_secs();
    format!("{name}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}")
}

fn name(is_https: bool) -> &'static str {
    if is_https { NAME_HTTPS } else { NAME }
}

fn signed_part(holder: Holder, expires_at: Time, id: SessionId) -> String {
    format!("{}.{}.{id}", holder.word(), expires_at.as_ms() / 1000)
}

fn signed(holder: Holder, expires_at: Time, id: SessionId) -> String {
    format!("{LABEL}.{}", signed_part(holder, expires_at, id))
}

/// The value of the one session cookie of a request. Two are none: a page of a sister domain could have planted one.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let own = name(is_https(headers));
    let values = headers.get_all(COOKIE).iter();
    let pairs = values.filter_map(|value| value.to_str().ok());
    let pairs = pairs.flat_map(|value| value.split(';'));
    let mut found = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == own && !value.is_empty()).then_some(value)
    });
    match (found.next(), found.next()) {
        (Some(value), None) => Some(value),
        (_, _) => None,
    }
}

/// Whether a request that a browser sends the cookie along with was made by a page of ours. Reading changes nothing and
/// needs no proof; the cookie is SameSite=Strict besides.
pub(crate) fn is_ours(method: &Method, headers: &HeaderMap, authority: Option<&str>) -> bool {
    if [Method::GET, Method::HEAD].contains(method) {
        return true;
    }
    let marked = headers
        .get("x-hapax-csrf")
        .is_some_and(|value| value == "1");
    marked && is_same_origin(headers, authority)
}

/// Whether a request came from our own origin, as far as the browser says where it came from.
pub(crate) fn is_same_origin(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let own = host.or(authority);
    let is_own = |origin: &str| {
        let place = origin.split_once("://").map(|(_, place)| place);
        place
            .zip(own)
            .is_some_and(|(place, own)| place.eq_ignore_ascii_case(own))
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    sites.all(|site| site == "same-origin")
        && origins.all(|origin| origin.to_str().is_ok_and(is_own))
}

/// Whether the client came by https, to this server or to the proxy in front of it. It only makes the cookie stricter.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let says = |name: &str, text: &str| {
        let values = headers.get_all(name).iter();
        let mut values = values.filter_map(|value| value.to_str().ok());
        values.any(|value| value.to_ascii_lowercase().contains(text))
    };
    says("x-forwarded-proto", "https") || says("forwarded", "proto=https")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    const ID: SessionId = SessionId(uuid::Uuid::from_u128(9));

    fn now() -> Time {
        Time::from_ms(1_760_000_000_123)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<Vec<(axum::http::HeaderName, axum::http::HeaderValue)>>()
            .into_iter()
            .collect()
    }

    #[test]
    fn a_session_reads_back_and_holds_neither_the_token_nor_its_hash() {
        for holder in [
            Holder::Configured,
            Holder::Token(TokenId(uuid::Uuid::from_u128(7))),
        ] {
            let session = Session::begin(holder, ID, &KEY, now());
            let read = Session::read(&session.value()).unwrap();
            assert_eq!(read, session);
            assert!(read.is_of(&KEY) && !read.is_of(&[8; 32]));
            assert!(!session.value().contains(&HEXLOWER.encode(&KEY)));
            assert_eq!(read.expires_at.as_ms(), 1_760_043_200_000);
        }
    }

    #[test]
    fn a_longer_life_or_another_holder_needs_another_mac() {
        let value = Session::begin(Holder::Configured, ID, &KEY, now()).value();
        let longer = value.replace("1760043200", "1760043201");
        assert_ne!(longer, value);
        assert!(!Session::read(&longer).unwrap().is_of(&KEY));
        let other = value.replace("configured", &TokenId(uuid::Uuid::nil()).to_string());
        assert!(!Session::read(&other).unwrap().is_of(&KEY));
        let renamed = value.replace(&ID.to_string(), &SessionId(uuid::Uuid::nil()).to_string());
        assert!(!Session::read(&renamed).unwrap().is_of(&KEY));
        for cut in 0..value.len() {
            let is_of = Session::read(&value[..cut]).is_some_and(|session| session.is_of(&KEY));
            assert!(!is_of, "{}", &value[..cut]);
        }
        for wrong in [
            "",
            "...",
            "a.b.c.d",
            "configured.1.00",
            "configured.1.0g.00",
            "configured.01.00000000000000000000000000000009.00",
        ] {
            assert_eq!(Session::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_cookie_is_for_this_server_alone_and_no_script_reads_it() {
        let session = Session::begin(Holder::Configured, ID, &KEY, now());
        let set = session.set_cookie(false);
        assert!(set.starts_with("hapax_session=configured.1760043200."));
        assert!(set.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"));
        let set = session.set_cookie(true);
        assert!(set.starts_with("__Host-hapax_session=") && set.ends_with("; Secure"));
        assert!(!set.contains("Domain") && set.contains("; Path=/;"));
        assert!(cleared(false).starts_with("hapax_session=; Path=/; Max-Age=0;"));
    }

    #[test]
    fn one_cookie_is_found_among_others_and_two_are_none() {
        let found = |value: &str| cookie(&headers(&[("cookie", value)])).map(str::to_owned);
        assert_eq!(found("a=b; hapax_session=x.y"), Some("x.y".to_owned()));
        assert_eq!(found("hapax_session2=x; hapax_session="), None);
        assert_eq!(found("hapax_session=x; hapax_session=y"), None);
        let by_https = |value: &str| {
            let headers = headers(&[("cookie", value), ("x-forwarded-proto", "https")]);
            cookie(&headers).map(str::to_owned)
        };
        let planted = "hapax_session=theirs; __Host-hapax_session=ours";
        assert_eq!(by_https(planted), Some("ours".to_owned()));
        assert_eq!(by_https("hapax_session=theirs"), None);
    }

    #[test]
    fn only_our_own_pages_may_write() {
        let own = ("host", "h.example:8088");
        let is = |method: &str, more: &[(&'static str, &str)]| {
            let all = headers(&[&[own], more].concat());
            is_ours(&method.parse().unwrap(), &all, None)
        };
        let mark = ("x-hapax-csrf", "1");
        assert!(is("GET", &[]) && is("HEAD", &[("origin", "https://evil.example")]));
        assert!(!is("POST", &[]) && !is("DELETE", &[("x-hapax-csrf", "0")]));
        assert!(is("POST", &[mark]));
        assert!(is("POST", &[mark, ("origin", "https://h.example:8088")]));
        assert!(is("PUT", &[mark, ("sec-fetch-site", "same-origin")]));
        for strange in [
            ("origin", "https://evil.example"),
            ("origin", "http://h.example"),
            ("origin", "null"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "none"),
        ] {
            assert!(!is("POST", &[mark, strange]), "{strange:?}");
        }
    }
}
