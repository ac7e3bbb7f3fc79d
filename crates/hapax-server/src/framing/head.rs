//! Judges one request head: what follows it, or why that can be read in two ways.
//! What is malformed in any other way is left to hyper, which refuses it.

use memchr::memchr;

use super::end_to_end::EndToEnd;

/// What follows a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Follows {
    Bytes(u64),
    Chunks,
}

/// Where the first head in `bytes` ends, looking from `from` on. Lines end as hyper's do: LF, or CR LF.
pub(super) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from.saturating_sub(2);
    while let Some(found) = memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// What follows `head`, or why nobody can tell for sure what it says.
pub(super) fn judge(head: &[u8], end_to_end: &EndToEnd) -> Result<Follows, &'static str> {
    let mut lines = lines(head);
    let request_line = lines.next().unwrap_or_default();
    let mut length: Option<u64> = None;
    let mut chunked = false;
    for line in lines {
        if line
            .first()
            .is_some_and(|byte| matches!(byte, b' ' | b'\t'))
        {
            return Err("a header is folded over two lines");
        }
        if memchr(b'\r', line).is_some() {
            return Err("a line holds a carriage return");
        }
        let Some(colon) = memchr(b':', line) else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match Framing::named(name)? {
            Some(Framing::Connection) if end_to_end.are_named_in(value) => {
                return Err("Connection names a header that is for the whole way");
            }
            Some(Framing::Connection) | None => {}
            Some(Framing::Length) => {
                let this = number(value).ok_or("Content-Length is not a number")?;
                if length.is_some_and(|length| length != this) {
                    return Err("there are two different Content-Lengths");
                }
                length = Some(this);
            }
            Some(Framing::Encoding) => {
                if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err("Transfer-Encoding is not chunked alone");
                }
                chunked = true;
            }
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err("there are both Content-Length and Transfer-Encoding"),
        (None, true) if !request_line.ends_with(b"HTTP/1.1") => {
            Err("HTTP/1.0 has no Transfer-Encoding")
        }
        (None, true) => Ok(Follows::Chunks),
        (length, false) => Ok(Follows::Bytes(length.unwrap_or(0))),
    }
}

/// The lines of a head, without what ends them.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = Some(head);
    std::iter::from_fn(move || {
        let bytes = left?;
        let end = memchr(b'\n', bytes);
        left = end.map(|end| &bytes[end + 1..]);
        let line = &bytes[..end.unwrap_or(bytes.len())];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

enum Framing {
    Length,
    Encoding,
    Connection,
}

impl Framing {
    /// The header of this name that says where a request ends, or which headers go on. One that another server could take for it is refused.
    fn named(name: &[u8]) -> Result<Option<Self>, &'static str> {
        // As a server reads it that skips what is no letter, or takes an underscore for a hyphen.
        let reads_as = |wanted: &[u8]| {
            let plain = name.iter().filter(|byte| byte.is_ascii_graphic());
            plain
                .map(|byte| match byte {
                    b'_' => b'-',
                    byte => byte.to_ascii_lowercase(),
                })
                .eq(wanted.iter().copied())
        };
        if reads_as(b"connection") || reads_as(b"proxy-connection") {
            return Ok(Some(Self::Connection));
        }
        let (framing, plain): (_, &[u8]) = if reads_as(b"content-length") {
            (Self::Length, b"content-length")
        } else if reads_as(b"transfer-encoding") {
            (Self::Encoding, b"transfer-encoding")
        } else {
            return Ok(None);
        };
        if name.eq_ignore_ascii_case(plain) {
            Ok(Some(framing))
        } else {
            Err("a header is almost, but not quite, one that says how long the body is")
        }
    }
}

/// Digits alone: a sign, a list or a space in between is no number.
fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(headers: &str) -> Result<Follows, &'static str> {
        let head = format!("POST / HTTP/1.1\r\nhost: h\r\n{headers}\r\n");
        judge(head.as_bytes(), &EndToEnd::with(["x-tenant"]))
    }

    fn judged_as_1_0(headers: &str) -> Result<Follows, &'static str> {
        let head = format!("POST / HTTP/1.0\r\n{headers}\r\n");
        judge(head.as_bytes(), &EndToEnd::default())
    }

    #[test]
    fn a_connection_that_names_what_is_for_the_whole_way_is_refused() {
        for headers in [
            "connection: authorization\r\n",
            "Connection:Idempotency-Key\r\n",
            "connection: close\r\nCONNECTION:\tkeep-alive ,\tCookie\r\n",
            "connection: close\nconnection: x-tenant\n",
            "Proxy-Connection: x-forwarded-for\r\n",
            "proxy_connection: host\r\n",
            "content-length: 0\r\nconnection: content-length\r\n",
        ] {
            assert!(judged(headers).is_err(), "{headers:?}");
            assert_eq!(judged_as_1_0(headers).is_ok(), headers.contains("x-tenant"));
        }
        let plain = "connection: keep-alive, Upgrade\r\nproxy-connection: keep-alive\r\n";
        assert_eq!(judged(plain), Ok(Follows::Bytes(0)));
    }

    #[test]
    fn one_length_or_chunks_alone_are_clear() {
        assert_eq!(judged(""), Ok(Follows::Bytes(0)));
        assert_eq!(judged("Content-Length: 7\r\n"), Ok(Follows::Bytes(7)));
        assert_eq!(
            judged("content-length:7\ncontent-length: 7 \r\n"),
            Ok(Follows::Bytes(7))
        );
        assert_eq!(
            judged("transfer-encoding:\tChunked\r\n"),
            Ok(Follows::Chunks)
        );
    }

    #[test]
    fn whatever_can_be_read_in_two_ways_is_refused() {
        for headers in [
            "content-length: 6\r\ntransfer-encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
            "content-length: 6\r\ncontent-length: 7\r\n",
            "content-length: 6, 6\r\n",
            "content-length: +6\r\n",
            "content-length: 0x6\r\n",
            "content-length: -1\r\n",
            "content-length:\r\n",
            "content-length: 99999999999999999999\r\n",
            "transfer-encoding: gzip\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: chunked, identity\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding: xchunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding : chunked\r\n",
            "transfer_encoding: chunked\r\n",
            "content-length\t: 6\r\n",
            "transfer-encoding:\r\n chunked\r\n",
            "x: a\r\n content-length: 6\r\n",
            "x: a\rtransfer-encoding: chunked\r\n",
        ] {
            assert!(judged(headers).is_err(), "{headers:?}");
        }
        assert!(judged_as_1_0("transfer-encoding: chunked\r\n").is_err());
    }

    #[test]
    fn a_head_ends_at_the_first_empty_line() {
        for (bytes, expected) in [
            (&b"a\r\n\r\nb"[..], Some(5)),
            (b"a\n\nb", Some(3)),
            (b"a\n\r\nb\r\n\r\n", Some(4)),
            (b"a\r\nb\r\n", None),
            (b"a\r\n\r", None),
        ] {
            assert_eq!(end(bytes, 0), expected, "{bytes:?}");
            // However it comes in pieces.
            for cut in 0..bytes.len() {
                let first = end(&bytes[..cut], 0);
                assert_eq!(
                    first.or_else(|| end(bytes, cut)),
                    expected,
                    "{bytes:?} at {cut}"
                );
            }
        }
    }
}
