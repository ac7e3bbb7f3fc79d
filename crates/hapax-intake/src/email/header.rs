//! The header block of a message or a part: names and values, unfolded. It knows no meaning.

use super::charset;
use super::content_type::ContentType;
use super::{keys, word};
use crate::text::lines;

/// Headers in their order, names in lower case.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers(Vec<(String, String)>);

impl Headers {
    /// Reads the block at the start of `bytes`; gives where the body begins. `None` if the block is longer than
    /// `bytes_max`. Lines that are no header are passed over.
    pub(super) fn read(bytes: &[u8], bytes_max: usize) -> Option<(Self, usize)> {
        let mut raw: Vec<(String, Vec<u8>)> = Vec::new();
        let mut at = 0;
        for line in lines(bytes) {
            at += line.len();
            if at > bytes_max {
                return None;
            }
            let text = line.trim_ascii_end();
            if text.is_empty() {
                break;
            }
            if text[0] == b' ' || text[0] == b'\t' {
                if let Some((_, value)) = raw.last_mut() {
                    value.push(b' ');
                    value.extend_from_slice(text.trim_ascii_start());
                }
            } else if let Some((name, value)) = field(text) {
                raw.push((name, value.to_vec()));
            }
        }
        Some((Self::of(raw), at))
    }

    /// Bytes beyond ASCII that are no UTF-8 are read in the charset that the message itself is in.
    fn of(raw: Vec<(String, Vec<u8>)>) -> Self {
        let kind = raw.iter().find(|(name, _)| name == "content-type");
        let kind = kind.map(|(_, value)| ContentType::read(&String::from_utf8_lossy(value)));
        let charset = kind.as_ref().and_then(|kind| kind.parameter("charset"));
        let text = |value| {
            String::from_utf8(value)
                .unwrap_or_else(|broken| charset::decode(broken.as_bytes(), charset))
        };
        Self(
            raw.into_iter()
                .map(|(name, value)| (name, text(value)))
                .collect(),
        )
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        let mut unfolded = String::with_capacity(value.len());
        for line in value.lines() {
            if !unfolded.is_empty() {
                unfolded.push(' ');
            }
            unfolded.push_str(line.trim());
        }
        self.0.push((name.trim().to_ascii_lowercase(), unfolded));
    }

    /// Those of `other` behind these.
    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The first value under this name that says something, encoded words left as they are.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values(name).find(|value| !value.is_empty())
    }

    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(found, _)| found == name)
            .map(|(_, value)| value.trim())
    }

    /// The same as people read it.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(word::decode)
    }

    /// The id of the message, as keys have it.
    pub(super) fn message_id(&self) -> Option<String> {
        self.values("message-id").find_map(keys::message_id)
    }

    /// Whether a header of this name names a message; one with nothing between its brackets does not.
    pub(super) fn names_message(&self, name: &str) -> bool {
        self.values(name)
            .any(|value| keys::message_id(value).is_some())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// `Name: value`, of a line without its end.
pub(super) fn field(line: &[u8]) -> Option<(String, &[u8])> {
    let colon = memchr::memchr(b':', &line[..line.len().min(200)])?;
    let name = line[..colon].trim_ascii_end();
    let is_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'<' && *byte != b'>';
    if name.is_empty() || !name.iter().all(is_name) {
        return None;
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Some((name, line[colon + 1..].trim_ascii()))
}
