//! What the Bot API delivers: an update with at most one message in it.
//!
//! The number of an update says which delivery it is, never which entry: it starts anew after an idle week.

use serde_json::Value;

use super::message::{LINE_CHARS_MAX, Message, Places, hidden_links, kept};
use crate::given::Given;
use crate::refusal::{Faults, Refusal};
use crate::text::{is_blank, one_line, remove_nul};

/// Why an update without a text makes no entry.
pub const NOTHING_TO_KEEP: &str = "nothing_to_keep";

/// The members of an update that hold a message. At most one of them is there.
const MESSAGES: [&str; 6] = [
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_message",
    "edited_business_message",
];

/// An update that was read.
///
/// ```
/// use hapax_core::entry::Column;
/// use hapax_intake::{telegram::Update, url::Tracking};
/// use serde_json::json;
///
/// let update = Update::read(json!({
///     "update_id": 7,
///     "edited_message": { "message_id": 2, "date": 1_771_336_843, "chat": { "id": -5 }, "text": "hello world" },
/// }))?;
/// assert_eq!(update.delivery_key(), "tg-update:7");
/// let entry = update.message.unwrap().normalize(&Tracking::default())?;
/// assert_eq!(entry.get(Column::IdempotencyKeyPrimary), "tg:-5:2");
///
/// assert_eq!(Update::read(json!({ "update_id": 8, "poll": {} }))?.message, None);
/// assert!(Update::read(json!({ "message": {} })).is_err());
/// # Ok::<(), hapax_intake::Refusal>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Update {
    /// Which delivery it is.
    pub update_id: i64,
    /// When the message was sent, in Unix seconds.
    pub date: Option<i64>,
    /// The message. Without one, or with one that has no text, there is [`NOTHING_TO_KEEP`].
    pub message: Option<Message>,
}

impl Update {
    /// Reads an update as the Bot API delivers it.
    ///
    /// # Errors
    /// [`Refusal::Schema`] with every fault in its shape: no number, or a message with a text and without its chat or
    /// its number.
    pub fn read(mut document: Value) -> Result<Self, Refusal> {
        let nul_removed = remove_nul(&mut document);
        let mut given = Given::document(document)?;
        let mut faults = Faults::default();
        let update_id = required(&mut given, "update_id", &mut faults);
        let name = MESSAGES.into_iter().find(|name| given.has(name));
        let (date, message) = match name {
            Some(name) => read_message(name, &mut given, nul_removed, &mut faults),
            None => (None, None),
        };
        faults.settle()?;
        Ok(Self {
            update_id: update_id.unwrap_or_default(),
            date,
            message,
        })
    }

    /// The key under which the delivery is recorded, so that a redelivery is known.
    #[must_use]
    pub fn delivery_key(&self) -> String {
        format!("tg-update:{}", self.update_id)
    }
}

fn read_message(
    name: &str,
    update: &mut Given,
    nul_removed: bool,
    faults: &mut Faults,
) -> (Option<i64>, Option<Message>) {
    let mut given = update.object(name, faults);
    let date = given.take("date");
    let date_seconds = date.as_ref().and_then(Value::as_i64);
    let (text, entities) = if given.has("text") {
        (given.text("text", faults), given.take("entities"))
    } else {
        (
            given.text("caption", faults),
            given.take("caption_entities"),
        )
    };
    let Some(text) = text.filter(|text| !is_blank(text)) else {
        return (date_seconds, None);
    };
    let message_id = required(&mut given, "message_id", faults);
    let mut chat = given.object("chat", faults);
    let chat_id = required(&mut chat, "id", faults);
    let author = author(&mut given, &mut chat, faults);
    let mut about = kept(&mut given);
    about.extend(date.map(|date| ("date".to_owned(), date)));
    let message = Message {
        text,
        chat_id,
        message_id,
        author,
        hidden_links: hidden_links(entities),
        about,
        nul_removed,
        places: Places {
            chat_id: format!("/{name}/chat/id"),
            message_id: format!("/{name}/message_id"),
            url: format!("/{name}"),
        },
        ..Message::default()
    };
    (date_seconds, Some(message))
}

/// Who wrote the message: a person by name, else the chat that speaks as itself.
fn author(message: &mut Given, chat: &mut Given, faults: &mut Faults) -> Option<String> {
    let mut from = message.object("from", faults);
    let mut sender = message.object("sender_chat", faults);
    let names = [
        from.text("first_name", faults),
        from.text("last_name", faults),
    ];
    let name = names.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut candidates = [
        Some(name),
        from.text("username", faults),
        sender.text("title", faults),
        chat.text("title", faults),
    ]
    .into_iter()
    .flatten()
    .map(|name| one_line(&name));
    let name = candidates.find(|name| !name.is_empty())?;
    Some(name.chars().take(LINE_CHARS_MAX).collect())
}

fn required(given: &mut Given, name: &str, faults: &mut Faults) -> Option<i64> {
    if !given.has(name) {
        given.fault(name, "is required", faults);
    }
    given.integer(name, faults)
}
