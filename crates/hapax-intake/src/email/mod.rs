//! A mail becomes an entry: its text, its type, its keys and what is worth knowing of it.
//!
//! [`normalize`] takes what a client sends, [`message`] a raw message, as a mailbox file holds it. Both say what type
//! the mail is, and by which rule, in `metadata.classification`; both make the same keys of the same mail.
//!
//! `capture_text` is the text as it was sent, decoded, and out of its HTML. `clean_text` is what its writer wrote: of a
//! conversation the quotations are gone, of any mail the signature and the list's footer, unless nothing would be left.
//! No key depends on that.

mod address;
mod attribution;
mod body;
mod charset;
mod classify;
mod content_type;
mod fault;
mod footer;
mod header;
mod html;
mod input;
mod keys;
mod mail;
mod mime;
mod phrase;
mod reply;
mod word;

use hapax_core::entry::Fields;
use serde_json::Value;

pub use body::TEXT_BYTES_MAX;
pub use classify::MailType;
pub use fault::MessageFault;
pub use keys::{NEWSLETTER_POLICY, REFERENCES_POLICY, THREAD_POLICY, why_unkeyed};
pub use mime::{DEPTH_MAX, HEADERS_BYTES_MAX, MESSAGE_BYTES_MAX, PARTS_MAX};

use crate::refusal::Refusal;
use mail::Mail;

/// The entry of a mail that a client sends: `raw_text`, `from` and `subject`, and if it has them `headers`, `source`
/// with `message_id` and `date`, `content_type`,
/// `intent` and `idempotency_policy_key`.
///
/// `raw_text` is the plain text of the mail, its HTML, or the whole message with its headers. The latter is told by its
/// first lines: headers only, then an empty line, and one among them that programs write and people do not, such as
/// `MIME-Version`. What the client says then goes before what the message says.
///
/// A sender without an address, an empty subject or a missing date are no faults here: the keys that need them are null,
/// and `metadata.email.missing_keys` says why.
///
/// ```
/// use hapax_core::entry::Column;
/// use hapax_intake::email;
/// use serde_json::json;
///
/// let entry = email::normalize(json!({
///     "raw_text": "I am in.\n\nOn Mon, 16 Feb 2026 at 09:00, Bob <bob@example.org> wrote:\n> Lunch?\n",
///     "from": "Ada <ada@example.org>",
///     "subject": "RE: [team] Lunch",
/// }))?;
/// assert_eq!(entry.text(Column::ContentType), Some("correspondence_thread"));
/// assert_eq!(entry.text(Column::CleanText), Some("I am in."));
/// assert_eq!(entry.get(Column::Metadata)["email"]["subject_base"], "lunch");
///
/// let refusal = email::normalize(json!({ "raw_text": "Hello" })).unwrap_err();
/// let paths: Vec<&str> = refusal.faults().iter().map(|fault| fault.path.as_str()).collect();
/// assert_eq!(paths, ["/from", "/subject"]);
/// # Ok::<(), hapax_intake::Refusal>(())
/// ```
///
/// # Errors
/// [`Refusal::Schema`] with every fault of the input; a `raw_text` without a text in it, or beyond the limits of a
/// message, is one.
pub fn normalize(document: Value) -> Result<Fields, Refusal> {
    Ok(input::read(document)?.into_entry("email"))
}

/// The entry of a raw message. `source` says by which way it came, such as `email-batch`.
///
/// ```
/// use hapax_core::entry::Column;
/// use hapax_intake::email::{self, MessageFault};
///
/// let raw = b"From: News <news@example.org>\nSubject: =?utf-8?q?Caf=C3=A9?=\nMessage-ID: <7@example.org>\n\nFresh today.\n";
/// let entry = email::message(raw, "email-batch")?;
/// assert_eq!(entry.text(Column::Title), Some("Café"));
/// assert_eq!(entry.text(Column::IdempotencyKeyPrimary), Some("<7@example.org>"));
///
/// assert_eq!(email::message(b"Subject: empty\n\n", "email-batch"), Err(MessageFault::NoText));
/// # Ok::<(), MessageFault>(())
/// ```
///
/// # Errors
/// The message is beyond a limit, or holds no text.
pub fn message(bytes: &[u8], source: &str) -> Result<Fields, MessageFault> {
    Ok(Mail::read(bytes)?.into_entry(source))
}

/// Like [`message`], under [`REFERENCES_POLICY`]: the key is the id of the message that began the conversation.
///
/// # Errors
/// The message is beyond a limit, or holds no text.
pub fn message_by_references(bytes: &[u8], source: &str) -> Result<Fields, MessageFault> {
    let mut mail = Mail::read(bytes)?;
    mail.by_references = true;
    Ok(mail.into_entry(source))
}

/// The start of a text, at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
