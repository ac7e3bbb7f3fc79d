//! The text of a message, and what is attached to it.

use serde_json::{Value, json};

use super::fault::MessageFault;
use super::mime::{Content, Part};
use super::{charset, html};
use crate::text;

/// How long the decoded text of a message may be, in bytes. Attachments are not decoded, so their length is free.
pub const TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A plain text that is shorter than this beside an HTML text that is longer than the other is only a hint to look at
/// the latter.
const STUB_CHARS: usize = 100;
const STUBBED_CHARS: usize = 500;
const ATTACHMENTS_MAX: usize = 100;
const NAME_CHARS_MAX: usize = 255;

/// What a message holds.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Its text, line ends as `\n`.
    pub(super) text: String,
    /// Whether the text was HTML.
    pub(super) is_html: bool,
    /// What is beside the text: name, type and length.
    pub(super) attachments: Vec<Value>,
    /// How many more there are.
    pub(super) attachments_more: usize,
}

/// The text of one part.
#[derive(Default)]
struct Found {
    text: String,
    is_html: bool,
}

impl Found {
    fn is_blank(&self) -> bool {
        is_nothing(&self.text)
    }
}

/// Whether nothing is left of a text to be read, once every U+0000 is gone from it.
pub(super) fn is_nothing(text: &str) -> bool {
    text.split('\0').all(text::is_blank)
}

impl Body {
    /// Gathers what a message holds.
    pub(super) fn read(part: &Part<'_>) -> Result<Self, MessageFault> {
        let mut body = Self::default();
        let mut found = body.gather(part, true)?;
        if found.is_blank() {
            // What is only attached as a message, or as a text of another kind, is still better than nothing.
            found = fallback(part)?;
        }
        if found.is_blank() {
            return Err(MessageFault::NoText);
        }
        body.text = found.text;
        body.is_html = found.is_html;
        Ok(body)
    }

    /// The text of a part. A plain text is preferred to its HTML; texts side by side follow each other.
    fn gather(&mut self, part: &Part<'_>, is_top: bool) -> Result<Found, MessageFault> {
        match &part.content {
            Content::Leaf(bytes) => match part.kind.kind.as_str() {
                kind if !(is_text(kind) || is_top && kind.starts_with("multipart/")) => {
                    self.attach(part, bytes);
                    Ok(Found::default())
                }
                _ if part.is_attached() => {
                    self.attach(part, bytes);
                    Ok(Found::default())
                }
                _ => text_of(part, bytes),
            },
            Content::Parts(parts) if part.kind.kind == "multipart/alternative" => {
                self.choose(parts)
            }
            Content::Parts(parts) => {
                let mut whole = Found::default();
                for part in parts {
                    let found = self.gather(part, false)?;
                    if found.is_blank() {
                        continue;
                    }
                    if !whole.text.is_empty() {
                        whole.text.push_str("\n\n");
                    }
                    whole.text.push_str(&found.text);
                    whole.is_html |= found.is_html;
                    if whole.text.len() > TEXT_BYTES_MAX {
                        return Err(MessageFault::Text);
                    }
                }
                Ok(whole)
            }
            Content::Message(message) => {
                let name = message.headers.text("subject");
                self.list(json!({ "name": name.map(|name| short(&name)), "content_type": part.kind.kind }));
                Ok(Found::default())
            }
        }
    }

    /// Of several forms of the same text, the plain one, unless it is blank or a stub.
    fn choose(&mut self, parts: &[Part<'_>]) -> Result<Found, MessageFault> {
        let mut plain = Found::default();
        let mut rich = Found::default();
        for part in parts {
            let found = self.gather(part, false)?;
            let kept = if found.is_html { &mut rich } else { &mut plain };
            if kept.is_blank() {
                *kept = found;
            }
        }
        let is_stub = plain.text.trim().chars().nth(STUB_CHARS).is_none()
            && rich.text.chars().nth(STUBBED_CHARS).is_some();
        Ok(if plain.is_blank() || is_stub {
            rich
        } else {
            plain
        })
    }

    fn attach(&mut self, part: &Part<'_>, bytes: &[u8]) {
        let name = part
            .disposition()
            .readable("filename")
            .or_else(|| part.kind.readable("name"));
        self.list(json!({
            "name": name.map(|name| short(&name)),
            "content_type": part.kind.kind,
            "bytes": charset::transferred_len(bytes, part.encoding()),
        }));
    }

    fn list(&mut self, attachment: Value) {
        if self.attachments.len() < ATTACHMENTS_MAX {
            self.attachments.push(attachment);
        } else {
            self.attachments_more += 1;
        }
    }
}

/// The first text anywhere in the message, whatever it claims to be for.
fn fallback(part: &Part<'_>) -> Result<Found, MessageFault> {
    let parts = match &part.content {
        Content::Leaf(bytes) if part.kind.kind.starts_with("text/") && !part.is_attached() => {
            return text_of(part, bytes);
        }
        Content::Leaf(_) => return Ok(Found::default()),
        Content::Message(message) => {
            let found = Body::default().gather(message, true)?;
            return if found.is_blank() {
                fallback(message)
            } else {
                Ok(found)
            };
        }
        Content::Parts(parts) => parts,
    };
    for part in parts {
        let found = fallback(part)?;
        if !found.is_blank() {
            return Ok(found);
        }
    }
    Ok(Found::default())
}

fn is_text(kind: &str) -> bool {
    // A type without a slash is a mistake for text.
    matches!(
        kind,
        "text/plain" | "text/html" | "text/enriched" | "text/markdown"
    ) || !kind.contains('/')
}

fn text_of(part: &Part<'_>, bytes: &[u8]) -> Result<Found, MessageFault> {
    let decoded = charset::transferred(bytes, part.encoding());
    if decoded.len() > TEXT_BYTES_MAX {
        return Err(MessageFault::Text);
    }
    let is_html = part.kind.kind == "text/html";
    let said = part.kind.parameter("charset").map(str::to_owned);
    let charset = said.or_else(|| is_html.then(|| html::charset(&decoded)).flatten());
    let mut text = charset::decode(&decoded, charset.as_deref());
    if text.contains('\r') {
        text = text.replace("\r\n", "\n");
    }
    let text = if is_html { html::to_text(&text) } else { text };
    if text.len() > TEXT_BYTES_MAX {
        return Err(MessageFault::Text);
    }
    Ok(Found { text, is_html })
}

fn short(name: &str) -> String {
    name.chars()
        .filter(|c| *c != '\0')
        .take(NAME_CHARS_MAX)
        .collect()
}
