//! The first step: what does the source have? Harmless to repeat, and what it says is a hint:
//! the answer that brings the content has the last word.

use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED, RANGE};
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};

use super::ask::{Answer, Asker};
use super::error::{Code, Error};
use super::headers::{accepts_ranges, content_length, content_range, text};

/// What the source said it has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The status of the answer.
    pub status: u16,
    /// The URL that answered, after redirects.
    pub final_url: String,
    /// The entity tag.
    pub etag: Option<String>,
    /// When it was last modified.
    pub last_modified: Option<String>,
    /// The length in bytes.
    pub length: Option<u64>,
    /// Whether it says that it can be asked for a part.
    pub accepts_ranges: bool,
    /// The media type.
    pub content_type: Option<String>,
}

/// Statuses with which servers say that they do not answer HEAD, whatever they would say to GET.
fn may_not_know_head(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 403 | 404 | 405 | 406 | 501)
}

/// Asks with HEAD, and if the server does not answer that, with GET for the first byte.
pub(super) async fn head(asker: &Asker, url: &str) -> Result<Head, Error> {
    let answer = asker.ask(&Method::HEAD, url, &HeaderMap::new()).await?;
    let status = answer.response.status();
    let head = if may_not_know_head(status) {
        let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=0-0"))]);
        let answer = asker.ask(&Method::GET, url, &headers).await?;
        // The body is not read: a server without ranges would send it all.
        of_first_byte(asker, &answer)?
    } else if status.is_success() {
        read(&answer, content_length(answer.response.headers()))
    } else {
        return Err(asker.refused(&answer.response));
    };
    let most = asker.limits().size_bytes_max;
    match head.length {
        Some(length) if length > most => Err(too_large(length, most)),
        _ => Ok(head),
    }
}

fn of_first_byte(asker: &Asker, answer: &Answer) -> Result<Head, Error> {
    let headers = answer.response.headers();
    let range = content_range(headers);
    match answer.response.status() {
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            let total = range.and_then(|range| range.total);
            Ok(Head {
                accepts_ranges: range.is_some(),
                ..read(answer, total)
            })
        }
        status if status.is_success() => Ok(read(answer, content_length(headers))),
        _ => Err(asker.refused(&answer.response)),
    }
}

fn read(answer: &Answer, length: Option<u64>) -> Head {
    let headers = answer.response.headers();
    Head {
        status: answer.response.status().as_u16(),
        final_url: answer.url.to_string(),
        etag: text(headers, &ETAG),
        last_modified: text(headers, &LAST_MODIFIED),
        length,
        accepts_ranges: accepts_ranges(headers),
        content_type: text(headers, &CONTENT_TYPE),
    }
}

pub(super) fn too_large(length: u64, most: u64) -> Error {
    let text = format!("the content has {length} bytes and at most {most} are fetched");
    Error::fatal(Code::TooLarge, text)
}
