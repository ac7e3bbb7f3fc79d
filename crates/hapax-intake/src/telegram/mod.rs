//! Telegram: a message becomes an entry of a knowledge base, with its keys.
//!
//! - [`normalize`] reads what a client sends about a message.
//! - [`Update`] reads what the Bot API itself delivers.
//!
//! A message is a `link` if it has a URL of its own, a `note` if its text is a JSON object with a title, a `link` if
//! there is a link in its text, and else a `thought`. A note comes before a link in the text: a link that is there
//! already is skipped, and what someone wrote down must not be lost with it.
//!
//! A thought and a note are kept under `tg:{chat_id}:{message_id}`, because a message keeps its number when it is
//! edited. A link is kept under its canonical URL.

mod message;
mod update;

use hapax_core::entry::Fields;
use serde_json::Value;

use crate::refusal::Refusal;
use crate::url::Tracking;

pub use message::Message;
pub use update::{NOTHING_TO_KEEP, Update};

/// The source of every entry that is made here.
pub const SOURCE: &str = "telegram";

/// The policy of thoughts and notes.
pub const POLICY_THOUGHT: &str = "telegram_thought_v1";

/// The policy of links.
pub const POLICY_LINK: &str = "telegram_link_v1";

/// A message as a client sends it, made into an entry.
///
/// The document has `text`; `source` with `chat_id` and `message_id`, which a thought and a note need, and perhaps with
/// `url`, `date`, `edit_date`, `media_group_id`, `message_thread_id`, `forward_origin`; and perhaps `title`, `author`,
/// `intent`, and `entities` as Telegram gives them. Numbers may be written as text. U+0000 is removed, and
/// `metadata.nul_removed` then says so; a user name and a password in the URL are removed, and
/// `metadata.credentials_removed` then says so.
///
/// # Errors
/// [`Refusal::Schema`] with every fault.
///
/// ```
/// use hapax_core::entry::Column;
/// use hapax_intake::{telegram::normalize, url::Tracking};
/// use serde_json::json;
///
/// let tracking = Tracking::default();
/// let said = json!({ "text": "hello world", "source": { "chat_id": -1001234567890_i64, "message_id": 2 } });
/// let thought = normalize(said, &tracking)?;
/// assert_eq!(thought.get(Column::IdempotencyKeyPrimary), "tg:-1001234567890:2");
///
/// let link = normalize(json!({ "text": "Look: https://example.org/tea/?utm_source=x" }), &tracking)?;
/// assert_eq!(link.get(Column::IdempotencyKeyPrimary), "https://example.org/tea");
///
/// let refusal = normalize(json!({ "text": "hello world" }), &tracking).unwrap_err();
/// let paths: Vec<&str> = refusal.faults().iter().map(|fault| fault.path.as_str()).collect();
/// assert_eq!(paths, ["/source/chat_id", "/source/message_id"]);
/// # Ok::<(), hapax_intake::Refusal>(())
/// ```
pub fn normalize(document: Value, tracking: &Tracking) -> Result<Fields, Refusal> {
    Message::read(document)?.normalize(tracking)
}
