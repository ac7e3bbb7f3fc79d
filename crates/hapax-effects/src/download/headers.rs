//! What the headers of an answer say, read without trust. Pure: no clock but the one in the answer.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG,
    HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER,
};

use super::error::{Code, Error};
use super::part::Version;

/// A date says which version it is only if the version was this old when it was sent: dates have whole seconds.
const SETTLED: Duration = Duration::from_secs(60);
/// The longest header that is kept.
const TEXT_BYTES_MAX: usize = 1024;

/// The value of a header that is there once, is text and not absurdly long.
pub(super) fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= TEXT_BYTES_MAX).then(|| value.to_owned())
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    number(&text(headers, &CONTENT_LENGTH)?)
}

pub(super) fn accepts_ranges(headers: &HeaderMap) -> bool {
    text(headers, &ACCEPT_RANGES).is_some_and(|value| value.eq_ignore_ascii_case("bytes"))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(&text(headers, name)?).ok()
}

/// A `Content-Range`: what it holds (nothing when the range could not be met), and the whole length if it is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    /// The first byte and the one after the last.
    pub(super) span: Option<(u64, u64)>,
    pub(super) total: Option<u64>,
}

pub(super) fn content_range(headers: &HeaderMap) -> Option<Range> {
    let value = text(headers, &CONTENT_RANGE)?;
    let rest = value.strip_prefix("bytes ")?.trim();
    let (span, total) = rest.split_once('/')?;
    let total = match total {
        "*" => None,
        total => Some(number(total)?),
    };
    let span = match span {
        "*" => None,
        span => {
            let (first, last) = span.split_once('-')?;
            let (first, last) = (number(first)?, number(last)?);
            let end = last.checked_add(1)?;
            if first >= end || total.is_some_and(|total| end > total) {
                return None;
            }
            Some((first, end))
        }
    };
    Some(Range { span, total })
}

/// How a body is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Deflate,
}

pub(super) fn encoding(headers: &HeaderMap) -> Result<Encoding, Error> {
    let mut found = Encoding::Identity;
    for value in headers.get_all(CONTENT_ENCODING) {
        let value = value.to_str().unwrap_or("?").trim().to_ascii_lowercase();
        let next = match value.as_str() {
            "" | "identity" => continue,
            "gzip" | "x-gzip" => Encoding::Gzip,
            "deflate" => Encoding::Deflate,
            _ => return Err(unsupported(&value)),
        };
        if found != Encoding::Identity {
            return Err(unsupported("one inside another"));
        }
        found = next;
    }
    Ok(found)
}

fn unsupported(what: &str) -> Error {
    let text = format!("the body is encoded as {what:.100}, which was not asked for");
    Error::fatal(Code::UnsupportedEncoding, text)
}

/// Which version of the source an answer with its whole content is.
pub(super) fn version(url: &str, final_url: &str, headers: &HeaderMap, encoded: bool) -> Version {
    let etag = text(headers, &ETAG);
    let last_modified = text(headers, &LAST_MODIFIED);
    // What is decoded on the way has other offsets than the source.
    let if_range = if_range(headers).filter(|_| !encoded);
    Version {
        url: url.to_owned(),
        final_url: final_url.to_owned(),
        if_range,
        etag,
        last_modified,
        length: content_length(headers).filter(|_| !encoded),
        content_type: text(headers, &CONTENT_TYPE),
    }
}

/// What says for sure which version it is: a strong entity tag, else a date that had settled when it was sent.
fn if_range(headers: &HeaderMap) -> Option<String> {
    if let Some(etag) = text(headers, &ETAG) {
        let is_strong = etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"');
        return is_strong.then_some(etag);
    }
    let modified = date(headers, &LAST_MODIFIED)?;
    let age = date(headers, &DATE)?.duration_since(modified).ok()?;
    text(headers, &LAST_MODIFIED).filter(|_| age >= SETTLED)
}

/// Whether an answer admits to be another version than `version`.
pub(super) fn differs(version: &Version, headers: &HeaderMap) -> bool {
    let other = |kept: &Option<String>, name| {
        text(headers, name).is_some_and(|now| kept.as_ref() != Some(&now))
    };
    if version.etag.is_some() {
        other(&version.etag, &ETAG)
    } else {
        other(&version.last_modified, &LAST_MODIFIED)
    }
}

/// How long the source asks to be left alone, at most `longest`.
pub(super) fn retry_after(
    headers: &HeaderMap,
    now: SystemTime,
    longest: Duration,
) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?;
    let span = match number(&value) {
        Some(seconds) => Duration::from_secs(seconds),
        None => httpdate::parse_http_date(&value)
            .ok()?
            .duration_since(now)
            .unwrap_or_default(),
    };
    Some(span.min(longest))
}

/// The error of a status that brings no content.
pub(super) fn refusal(status: StatusCode, after: Option<Duration>) -> Error {
    let text = format!("the server answered {status}");
    let transient = matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error();
    if transient {
        Error::retryable(Code::HttpStatus, text).after(after)
    } else {
        Error::fatal(Code::HttpStatus, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_content_range_is_read_whole_or_not_at_all() {
        let read = |value| content_range(&headers(&[("content-range", value)]));
        let some = |span, total| Some(Range { span, total });
        assert_eq!(read("bytes 5-9/10"), some(Some((5, 10)), Some(10)));
        assert_eq!(read("bytes 0-0/*"), some(Some((0, 1)), None));
        assert_eq!(read("bytes */10"), some(None, Some(10)));
        for bad in [
            "bytes 5-9",
            "bytes 9-5/10",
            "bytes 5-10/10",
            "bytes -5/10",
            "bytes +5-9/10",
            "items 5-9/10",
            "bytes 0-18446744073709551615/*",
            "5-9/10",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_a_strong_tag_or_a_settled_date_says_which_version_it_is() {
        let (old, new) = (
            "Wed, 21 Oct 2015 07:27:00 GMT",
            "Wed, 21 Oct 2015 07:28:00 GMT",
        );
        let late = "Wed, 21 Oct 2015 07:27:01 GMT";
        for (pairs, want) in [
            (vec![("etag", "\"v1\"")], Some("\"v1\"")),
            (vec![("etag", "W/\"v1\"")], None),
            (vec![("etag", "v1")], None),
            (vec![("etag", "\"\"")], None),
            (vec![("last-modified", old), ("date", new)], Some(old)),
            (vec![("last-modified", late), ("date", new)], None),
            (vec![("last-modified", new), ("date", old)], None),
            (vec![("last-modified", old)], None),
            (
                vec![("etag", "W/\"v1\""), ("last-modified", old), ("date", new)],
                None,
            ),
        ] {
            assert_eq!(if_range(&headers(&pairs)).as_deref(), want, "{pairs:?}");
        }
    }

    #[test]
    fn a_retry_after_is_seconds_or_a_date_and_never_longer_than_the_limit() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let read = |value| {
            let headers = headers(&[("retry-after", value)]);
            retry_after(&headers, now, Duration::from_secs(100)).map(|span| span.as_secs())
        };
        assert_eq!(read("7"), Some(7));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:30 GMT"), Some(30));
        assert_eq!(read("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0));
        assert_eq!(read("999999999"), Some(100));
        assert_eq!(read("Thu, 22 Oct 2015 07:28:30 GMT"), Some(100));
        assert_eq!(read("soon"), None);
        assert_eq!(read("-1"), None);
    }

    #[test]
    fn an_encoding_that_is_not_known_is_refused() {
        let read = |value| encoding(&headers(&[("content-encoding", value)])).map_err(|e| e.code());
        assert_eq!(read("identity"), Ok(Encoding::Identity));
        assert_eq!(read("GZIP"), Ok(Encoding::Gzip));
        assert_eq!(read("deflate"), Ok(Encoding::Deflate));
        for bad in ["br", "zstd", "gzip, br", "gzip, gzip"] {
            assert_eq!(read(bad), Err(Code::UnsupportedEncoding), "{bad}");
        }
        let twice: HeaderMap = [(CONTENT_ENCODING, "gzip"), (CONTENT_ENCODING, "gzip")]
            .into_iter()
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value.parse().unwrap());
                map
            });
        assert!(encoding(&twice).is_err());
    }

    #[test]
    fn a_status_says_whether_another_try_can_help() {
        for (status, retryable) in [
            (400, false),
            (401, false),
            (403, false),
            (404, false),
            (410, false),
            (304, false),
            (408, true),
            (425, true),
            (429, true),
            (500, true),
            (502, true),
            (503, true),
            (504, true),
        ] {
            let error = refusal(StatusCode::from_u16(status).unwrap(), None);
            assert_eq!(error.is_retryable(), retryable, "{status}");
        }
    }
}
