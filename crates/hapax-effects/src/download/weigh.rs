//! What an answer to a request for content, or for the rest of it, means for the part. Pure.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::error::Error;
use super::headers::{Encoding, content_range, differs, encoding, version};
use super::part::Version;

/// What was asked for besides the URL: the bytes from here on, if it is still that version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) from: u64,
    pub(super) if_range: String,
    pub(super) version: Version,
}

/// What to do with the body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Append it, up to this byte.
    Append { until: u64 },
    /// Start over with it: it is the whole content, of this version.
    Fresh(Version, Encoding),
    /// Nothing: the part has everything already.
    Whole,
    /// Nothing: it is not what was asked for. Ask for the whole content from now on.
    Distrust(String),
}

/// Weighs an answer; `None` when its status brings no content.
pub(super) fn weigh(
    url: &str,
    final_url: &str,
    (status, headers): (StatusCode, &HeaderMap),
    asked: Option<&Asked>,
) -> Result<Option<Verdict>, Error> {
    let distrust = |why: &str| Ok(Some(Verdict::Distrust(why.to_owned())));
    match (status, asked) {
        (StatusCode::OK | StatusCode::NON_AUTHORITATIVE_INFORMATION, _) => {
            let encoding = encoding(headers)?;
            let version = version(url, final_url, headers, encoding != Encoding::Identity);
            Ok(Some(Verdict::Fresh(version, encoding)))
        }
        (StatusCode::PARTIAL_CONTENT, Some(asked)) => Ok(Some(part_of(headers, asked)?)),
        (StatusCode::PARTIAL_CONTENT, None) => distrust("a part came that was not asked for"),
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(asked)) => {
            let total = content_range(headers).and_then(|range| range.total);
            let whole = asked.version.length.or(total);
            if total == Some(asked.from) && whole == total && !differs(&asked.version, headers) {
                return Ok(Some(Verdict::Whole));
            }
            distrust("the server does not have the range that was asked for")
        }
        _ => Ok(None),
    }
}

fn part_of(headers: &HeaderMap, asked: &Asked) -> Result<Verdict, Error> {
    let distrust = |why: &str| Ok(Verdict::Distrust(why.to_owned()));
    if encoding(headers)? != Encoding::Identity {
        return distrust("a part came that is encoded");
    }
    if differs(&asked.version, headers) {
        return distrust("a part of another version came");
    }
    let Some(range) = content_range(headers) else {
        return distrust("a part came that does not say which");
    };
    let Some((first, end)) = range.span else {
        return distrust("a part came that does not say which");
    };
    let total = asked.version.length;
    if first != asked.from || total.is_some() && range.total != total {
        return distrust("another part came than was asked for");
    }
    Ok(Verdict::Append { until: end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderName;

    const TAG: &str = "\"v1\"";

    fn asked(length: Option<u64>) -> Asked {
        let version = Version {
            etag: Some(TAG.to_owned()),
            length,
            ..Version::default()
        };
        Asked {
            from: 5,
            if_range: TAG.to_owned(),
            version,
        }
    }

    fn told(status: u16, pairs: &[(&str, &str)], asked: Option<&Asked>) -> Option<Verdict> {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), value.parse().unwrap())
        };
        let headers: HeaderMap = pairs.iter().map(pair).collect();
        let status = StatusCode::from_u16(status).unwrap();
        weigh("u", "u", (status, &headers), asked).unwrap()
    }

    #[test]
    fn a_part_is_appended_only_if_it_is_the_one_that_was_asked_for() {
        let asked = asked(Some(10));
        let part = |range, etag| {
            let pairs = [("content-range", range), ("etag", etag)];
            told(206, &pairs, Some(&asked))
        };
        assert_eq!(
            part("bytes 5-9/10", TAG),
            Some(Verdict::Append { until: 10 })
        );
        assert_eq!(
            part("bytes 5-7/10", TAG),
            Some(Verdict::Append { until: 8 })
        );
        for (range, etag) in [
            ("bytes 4-9/10", TAG),
            ("bytes 6-9/10", TAG),
            ("bytes 0-9/10", TAG),
            ("bytes 5-9/11", TAG),
            ("bytes 5-9/*", TAG),
            ("bytes */10", TAG),
            ("nonsense", TAG),
            ("bytes 5-9/10", "\"v2\""),
        ] {
            let found = part(range, etag);
            assert!(
                matches!(found, Some(Verdict::Distrust(_))),
                "{range} {etag}: {found:?}"
            );
        }
        let bare = told(206, &[], Some(&asked));
        assert!(
            matches!(bare, Some(Verdict::Distrust(_))),
            "no Content-Range"
        );
        let unasked = told(206, &[("content-range", "bytes 5-9/10")], None);
        assert!(
            matches!(unasked, Some(Verdict::Distrust(_))),
            "nobody asked"
        );
        let packed = [
            ("content-range", "bytes 5-9/10"),
            ("content-encoding", "gzip"),
        ];
        let packed = told(206, &packed, Some(&asked));
        assert!(
            matches!(packed, Some(Verdict::Distrust(_))),
            "other offsets"
        );
    }

    #[test]
    fn a_range_beyond_the_end_means_whole_only_if_the_length_says_so() {
        let of = |length, range| told(416, &[("content-range", range)], Some(&asked(length)));
        assert_eq!(of(None, "bytes */5"), Some(Verdict::Whole));
        assert_eq!(of(Some(5), "bytes */5"), Some(Verdict::Whole));
        for (length, range) in [
            (Some(10), "bytes */5"),
            (None, "bytes */4"),
            (None, "bytes */*"),
        ] {
            assert!(
                matches!(of(length, range), Some(Verdict::Distrust(_))),
                "{range}"
            );
        }
    }

    #[test]
    fn the_whole_content_starts_the_part_over() {
        let found = told(
            200,
            &[("etag", "\"v2\""), ("content-length", "7")],
            Some(&asked(Some(10))),
        );
        let Some(Verdict::Fresh(version, Encoding::Identity)) = found else {
            panic!("{found:?}")
        };
        assert_eq!(
            (version.length, version.if_range.as_deref()),
            (Some(7), Some("\"v2\""))
        );
        let packed = [
            ("etag", TAG),
            ("content-length", "7"),
            ("content-encoding", "gzip"),
        ];
        let Some(Verdict::Fresh(version, Encoding::Gzip)) = told(200, &packed, None) else {
            panic!("it is encoded")
        };
        assert_eq!(
            (version.length, version.if_range),
            (None, None),
            "it cannot be continued"
        );
    }

    #[test]
    fn other_statuses_bring_no_content() {
        for status in [204, 304, 404, 416, 429, 500] {
            assert_eq!(told(status, &[], None), None, "{status}");
        }
    }
}
