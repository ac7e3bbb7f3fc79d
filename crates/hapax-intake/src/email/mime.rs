//! The parts of a message, as slices of it, within limits. Nothing is decoded here.

use super::content_type::ContentType;
use super::fault::MessageFault;
use super::header::Headers;
use crate::text::lines;

/// How deep parts may lie in parts.
pub const DEPTH_MAX: usize = 32;
/// How many parts a message may have.
pub const PARTS_MAX: usize = 1_000;
/// How long the headers of a message or a part may be, in bytes.
pub const HEADERS_BYTES_MAX: usize = 256 * 1024;
/// How long a message may be, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 50 * 1024 * 1024;

/// A message or a part of one.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) headers: Headers,
    pub(super) kind: ContentType,
    pub(super) content: Content<'a>,
}

#[derive(Debug)]
pub(super) enum Content<'a> {
    /// Bytes, still in their transfer encoding.
    Leaf(&'a [u8]),
    /// Parts.
    Parts(Vec<Part<'a>>),
    /// A message in the message.
    Message(Box<Part<'a>>),
}

impl<'a> Part<'a> {
    /// Reads a whole message. It takes time with its length, and at most once for each level of nesting.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, MessageFault> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageFault::Bytes);
        }
        let mut parts = 0;
        Self::walk(bytes, "text/plain", 0, &mut parts)
    }

    fn walk(
        bytes: &'a [u8],
        default: &str,
        depth: usize,
        parts: &mut usize,
    ) -> Result<Self, MessageFault> {
        *parts += 1;
        if *parts > PARTS_MAX {
            return Err(MessageFault::Parts);
        }
        if depth > DEPTH_MAX {
            return Err(MessageFault::Depth);
        }
        let (headers, body) =
            Headers::read(bytes, HEADERS_BYTES_MAX).ok_or(MessageFault::Headers)?;
        let body = &bytes[body..];
        let kind = ContentType::read(headers.get("content-type").unwrap_or(default));
        let is_encoded = headers
            .get("content-transfer-encoding")
            .is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64"));
        let content = match kind.kind.as_str() {
            "message/rfc822" | "message/global" if !is_encoded => {
                Content::Message(Box::new(Self::walk(body, "text/plain", depth + 1, parts)?))
            }
            multipart if multipart.starts_with("multipart/") => {
                let default = if multipart == "multipart/digest" {
                    "message/rfc822"
                } else {
                    "text/plain"
                };
                let slices = kind
                    .parameter("boundary")
                    .map(|boundary| between(body, boundary.as_bytes()));
                match slices.transpose()?.unwrap_or_default() {
                    // Parts that nothing separates are read as the text that they look like.
                    slices if slices.is_empty() => Content::Leaf(body),
                    slices => Content::Parts(
                        slices
                            .into_iter()
                            .map(|slice| Self::walk(slice, default, depth + 1, parts))
                            .collect::<Result<_, _>>()?,
                    ),
                }
            }
            _ => Content::Leaf(body),
        };
        Ok(Self {
            headers,
            kind,
            content,
        })
    }

    /// Whether the part says that it is something to keep beside the text.
    pub(super) fn is_attached(&self) -> bool {
        self.disposition().kind == "attachment"
    }

    pub(super) fn disposition(&self) -> ContentType {
        ContentType::read(self.headers.get("content-disposition").unwrap_or_default())
    }

    pub(super) fn encoding(&self) -> &str {
        self.headers
            .get("content-transfer-encoding")
            .unwrap_or_default()
    }
}

/// The slices between the lines `--boundary`. The last one may lack its end.
fn between<'a>(body: &'a [u8], boundary: &[u8]) -> Result<Vec<&'a [u8]>, MessageFault> {
    let mut slices = Vec::new();
    let mut start = None;
    let mut at = 0;
    for line in lines(body) {
        let from = at;
        at += line.len();
        let Some(rest) = line
            .strip_prefix(b"--")
            .and_then(|line| line.strip_prefix(boundary))
        else {
            continue;
        };
        let rest = rest.trim_ascii_end();
        if !matches!(rest, b"" | b"--") {
            continue;
        }
        if let Some(start) = start.take() {
            slices.push(without_line_end(&body[start..from]));
        }
        if rest == b"--" {
            return Ok(slices);
        }
        // More are refused when they are read; there is no need to list them all.
        if slices.len() > PARTS_MAX {
            return Err(MessageFault::Parts);
        }
        start = Some(at);
    }
    slices.extend(start.map(|start| &body[start..]));
    Ok(slices)
}

/// The line end before a boundary is the boundary's.
fn without_line_end(slice: &[u8]) -> &[u8] {
    let slice = slice.strip_suffix(b"\n").unwrap_or(slice);
    slice.strip_suffix(b"\r").unwrap_or(slice)
}
