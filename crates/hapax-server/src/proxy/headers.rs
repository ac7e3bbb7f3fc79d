//! What a proxy does to headers: hop-by-hop ones end here, forwarding ones are added. Pure functions.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{Method, Version};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The protocol that a request asks to change to, if it may.
///
/// Only GET, as WebSocket has it, and never to HTTP/2, which would hide further requests from us.
pub(super) fn upgrade(
    method: &Method,
    version: Version,
    headers: &HeaderMap,
) -> Option<HeaderValue> {
    let asked = *method == Method::GET
        && version == Version::HTTP_11
        && tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let mut protocols = headers.get_all(UPGRADE).iter();
    let protocol = protocols.next().filter(|_| asked)?;
    let text = protocol.to_str().ok()?.to_ascii_lowercase();
    let http = text.split(',').any(|name| {
        let name = name.trim();
        name == "h2c" || name == "h2" || name.starts_with("http/")
    });
    (!http && protocols.next().is_none()).then(|| protocol.clone())
}

/// Removes what is between two neighbours only. `TE: trailers` stays: gRPC asks for it end to end.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let trailers = tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|token| token.parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
    let proxy: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("proxy-"))
        .cloned()
        .collect();
    for name in proxy {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Adds who asked, for which host and over what, after what proxies before us have said.
pub(super) fn forwarded(headers: &mut HeaderMap, peer: Option<IpAddr>, version: Version) {
    if let Some(peer) = peer {
        append(headers, &X_FORWARDED_FOR, &peer.to_canonical().to_string());
    }
    if !headers.contains_key(&X_FORWARDED_PROTO) {
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    if let (Some(host), false) = (
        headers.get(HOST).cloned(),
        headers.contains_key(&X_FORWARDED_HOST),
    ) {
        headers.insert(X_FORWARDED_HOST, host);
    }
    let received = match version {
        Version::HTTP_2 => "2 hapax",
        Version::HTTP_10 => "1.0 hapax",
        _ => "1.1 hapax",
    };
    append(headers, &VIA, received);
}

/// Ends what the proxy answers itself: it asks for the body when the upstream is ready to take it.
pub(super) fn strip_expect(headers: &mut HeaderMap) {
    let asks = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if headers.get(EXPECT).is_some_and(asks) {
        headers.remove(EXPECT);
    }
}

/// HTTP/2 may split cookies over several headers; HTTP/1 has one.
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let all: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(mut joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        joined.set_sensitive(true);
        headers.insert(COOKIE, joined);
    }
}

/// An answer's headers as they go on to the client.
pub(super) fn strip_answer(headers: &mut HeaderMap) {
    // The length beside an encoding is not the body's.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    // The announcement of trailers goes on with them, and only a chunked body has any.
    let trailer = headers.get(TRAILER).cloned();
    let trailer = trailer.filter(|_| headers.contains_key(TRANSFER_ENCODING));
    strip_hop_by_hop(headers);
    headers.remove(TE);
    if let Some(trailer) = trailer {
        headers.insert(TRAILER, trailer);
    }
}

/// Adds `value` to the list that a header holds.
fn append(headers: &mut HeaderMap, name: &HeaderName, value: &str) {
    let before: Vec<&[u8]> = headers
        .get_all(name)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    let list = [before, vec![value.as_bytes()]].concat().join(&b", "[..]);
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        headers.insert(name, list);
    }
}

/// The elements of a header that is a list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|token| token.split(';').next().unwrap_or("").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn hop_by_hop_headers_and_those_that_connection_names_end_here() {
        let mut found = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip, trailers;q=0.5"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("proxy-authorization", "secret"),
            ("proxy-connection", "close"),
            ("authorization", "Bearer t"),
            ("x-kept", "1"),
        ]);
        strip_hop_by_hop(&mut found);
        let names: Vec<&str> = found.keys().map(HeaderName::as_str).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(found["te"], "trailers");
        assert_eq!(
            (&found["authorization"], &found["x-kept"]),
            (&"Bearer t".parse().unwrap(), &"1".parse().unwrap())
        );
    }

    #[test]
    fn forwarding_headers_are_appended_to_what_came() {
        let mut found = headers(&[
            ("host", "shop.example"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("via", "1.1 edge"),
            ("x-forwarded-proto", "https"),
        ]);
        forwarded(
            &mut found,
            Some("127.0.0.1".parse().unwrap()),
            Version::HTTP_2,
        );
        assert_eq!(found["x-forwarded-for"], "10.0.0.1, 10.0.0.2, 127.0.0.1");
        assert_eq!(found["x-forwarded-proto"], "https");
        assert_eq!(found["x-forwarded-host"], "shop.example");
        assert_eq!(found["via"], "1.1 edge, 2 hapax");
    }

    #[test]
    fn a_get_may_change_to_anything_but_http() {
        let asks =
            |protocol| headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", protocol)]);
        let upgrade = |method: Method, headers: &HeaderMap| {
            super::upgrade(&method, Version::HTTP_11, headers)
        };
        assert_eq!(
            upgrade(Method::GET, &asks("websocket")).unwrap(),
            "websocket"
        );
        assert_eq!(upgrade(Method::POST, &asks("websocket")), None);
        for http in ["h2c", "websocket, H2C", "HTTP/2.0", "h2"] {
            assert_eq!(upgrade(Method::GET, &asks(http)), None, "{http}");
        }
        assert_eq!(
            upgrade(Method::GET, &headers(&[("upgrade", "websocket")])),
            None
        );
    }

    #[test]
    fn cookies_of_http2_become_one() {
        let mut found = headers(&[("cookie", "a=1"), ("cookie", "b=2")]);
        join_cookies(&mut found);
        assert_eq!(
            found.get_all("cookie").iter().collect::<Vec<_>>(),
            ["a=1; b=2"]
        );
    }

    #[test]
    fn a_length_beside_an_encoding_does_not_go_on() {
        let mut found = headers(&[
            ("content-length", "5"),
            ("transfer-encoding", "chunked"),
            ("x", "1"),
        ]);
        strip_answer(&mut found);
        assert_eq!(found.len(), 1);
    }
}
