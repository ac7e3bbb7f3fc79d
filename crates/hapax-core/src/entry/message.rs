//! Which message of a thread a draft is, so that the thread's row merges each message once. Pure.

use sha2::{Digest, Sha256};

use super::column::Column;
use super::fields::Fields;
use crate::fingerprint::Fingerprint;

/// The content type whose rows grow message by message.
const THREAD: &str = "correspondence_thread";

/// A message that the row with this number has merged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Merged {
    /// The row.
    pub entry_id: i64,
    /// The message, as [`message`] names it.
    pub message: Fingerprint,
}

/// The name of the message that these fields are; `None` if they are no part of a thread. It is made of the mail's
/// message id, else of everything that the fields say beside their keys.
///
/// ```
/// use hapax_core::entry::{Draft, message};
/// use serde_json::json;
///
/// let mail = |said| {
///     let mut mail = json!({"source": "email", "content_type": "correspondence_thread", "clean_text": said});
///     mail["metadata"] = json!({"email": {"message_id": "<1@example.org>"}});
///     Draft::read(mail.as_object().unwrap(), |_| None).unwrap().fields
/// };
/// assert_eq!(message(&mail("Tea?")), message(&mail("Tea? (scanned)")), "the id decides");
///
/// let thought = Draft::read(json!({"source": "telegram"}).as_object().unwrap(), |_| None).unwrap();
/// assert_eq!(message(&thought.fields), None);
/// ```
#[must_use]
pub fn message(fields: &Fields) -> Option<Fingerprint> {
    if fields.text(Column::ContentType) != Some(THREAD) {
        return None;
    }
    let id = fields.get(Column::Metadata).pointer("/email/message_id");
    let id = id.and_then(|id| id.as_str()).map(str::trim);
    // A long id is stored with its end cut off, so it may be that of another message.
    let whole = id.filter(|id| !id.is_empty() && !id.ends_with('…'));
    Some(match whole {
        Some(id) => Fingerprint::of_parts(&[b"hapax message id", id.as_bytes()]),
        None => content(fields),
    })
}

/// The hash of what is said, key by key in their order.
fn content(fields: &Fields) -> Fingerprint {
    let mut hash = Sha256::new_with_prefix(b"hapax message content");
    for (column, value) in fields.iter().filter(|(column, _)| !column.is_key()) {
        let said = value.to_string();
        hash.update(column.as_str());
        hash.update((said.len() as u64).to_be_bytes());
        hash.update(said);
    }
    Fingerprint::from_bytes(hash.finalize().into())
}
