//! One message: what it says, who wrote it, what it points at, and the entry that follows.

use hapax_core::entry::{Column, Fields, key_text};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{POLICY_LINK, POLICY_THOUGHT, SOURCE};
use crate::given::Given;
use crate::link::links;
use crate::quality::assess;
use crate::refusal::{Fault, Faults, Refusal};
use crate::text::{is_blank, note, one_line, remove_nul, tidy};
use crate::url::{Address, Tracking, canonical};

/// The longest title and author, in characters.
pub(super) const LINE_CHARS_MAX: usize = 2_000;

/// What a note may call its text, the first that is there counts.
const NOTE_TEXTS: [&str; 4] = ["text", "content", "body", "note"];

/// Members of a message that are kept in `metadata.telegram` as they are.
pub(super) const KEPT: [&str; 7] = [
    "date",
    "edit_date",
    "media_group_id",
    "message_thread_id",
    "forward_origin",
    "business_connection_id",
    "author_signature",
];

/// A message that was read. It is not yet known whether it has the keys that its kind needs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Message {
    /// What it says, as it came in.
    pub text: String,
    /// The chat it is in.
    pub chat_id: Option<i64>,
    /// Its number in that chat.
    pub message_id: Option<i64>,
    /// The URL it is about, if that was said beside the text.
    pub url: Option<String>,
    /// Its title, if it has one.
    pub title: Option<String>,
    /// Who wrote it.
    pub author: Option<String>,
    /// What it is kept for, if that was said.
    pub intent: Option<String>,
    /// URLs behind words of the text: the place of the words in UTF-16 units, and the URL.
    pub hidden_links: Vec<(u64, String)>,
    /// What else is kept of it.
    pub about: Map<String, Value>,
    /// Whether U+0000 was removed from it.
    pub nul_removed: bool,
    /// Where the two numbers are looked for, to name them when they are missing.
    pub(super) places: Places,
}

/// The JSON pointers of members that a fault may name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Places {
    pub(super) chat_id: String,
    pub(super) message_id: String,
    pub(super) url: String,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            chat_id: "/source/chat_id".to_owned(),
            message_id: "/source/message_id".to_owned(),
            url: "/source/url".to_owned(),
        }
    }
}

/// What kind of entry a message makes.
enum Kind {
    Link(Address),
    Note { title: String, text: String },
    Thought,
}

impl Kind {
    const fn content_type(&self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Note { .. } => "note",
            Self::Thought => "thought",
        }
    }
}

impl Message {
    /// Reads what a client sends about a message.
    ///
    /// # Errors
    /// [`Refusal::Schema`] with every fault in its shape.
    pub fn read(mut document: Value) -> Result<Self, Refusal> {
        let nul_removed = remove_nul(&mut document);
        let mut given = Given::document(document)?;
        let mut faults = Faults::default();
        let sent = given.has("text");
        let text = given.text("text", &mut faults).unwrap_or_default();
        if !sent {
            given.fault("text", "is required", &mut faults);
        } else if is_blank(&text) && !faults.explain("/text") {
            given.fault("text", "must not be blank", &mut faults);
        }
        let title = given.line("title", LINE_CHARS_MAX, &mut faults);
        let author = given.line("author", LINE_CHARS_MAX, &mut faults);
        let intent = given.line("intent", LINE_CHARS_MAX, &mut faults);
        let mut hidden = hidden_links(given.take("entities"));
        hidden.extend(hidden_links(given.take("caption_entities")));
        let mut source = given.object("source", &mut faults);
        let message = Self {
            text,
            chat_id: source.integer("chat_id", &mut faults),
            message_id: source.integer("message_id", &mut faults),
            url: source.text("url", &mut faults).filter(|url| !is_blank(url)),
            title,
            author,
            intent,
            hidden_links: hidden,
            about: kept(&mut source),
            nul_removed,
            places: Places::default(),
        };
        faults.settle()?;
        Ok(message)
    }

    /// The entry that the message makes.
    ///
    /// # Errors
    /// [`Refusal::Schema`], if its own URL is none, or if it is a thought or a note without a chat and a number.
    pub fn normalize(self, tracking: &Tracking) -> Result<Fields, Refusal> {
        let kind = self.kind(tracking)?;
        let clean_text = match &kind {
            Kind::Note { text, .. } => tidy(text),
            Kind::Link(_) | Kind::Thought => tidy(&self.text),
        };
        let content_type = kind.content_type();
        let mut fields = Fields::new();
        fields.put(Column::Source, SOURCE);
        let intent = match kind {
            Kind::Link(_) => "archive",
            Kind::Note { .. } | Kind::Thought => "think",
        };
        fields.put(Column::Intent, self.intent.as_deref().unwrap_or(intent));
        fields.put(Column::ContentType, content_type);
        let mut title = self.title.clone();
        let mut address = None;
        match kind {
            Kind::Link(link) => {
                fields.put(Column::IdempotencyPolicyKey, POLICY_LINK);
                fields.put(Column::IdempotencyKeyPrimary, key_text(&link.canonical));
                fields.put(Column::IdempotencyKeySecondary, link.sha256());
                if link.credentials_removed {
                    note(&mut fields, &json!({ "credentials_removed": true }));
                }
                address = Some(link);
            }
            Kind::Note { title: own, .. } => {
                title = title.or(Some(own));
                self.put_message_keys(&mut fields, &clean_text)?;
            }
            Kind::Thought => self.put_message_keys(&mut fields, &clean_text)?,
        }
        fields.put(Column::Title, title);
        fields.put(Column::Author, self.author.clone());
        let (url, url_canonical) = address
            .map(|address| (address.url, address.canonical))
            .unzip();
        fields.put(Column::Url, url);
        fields.put(Column::UrlCanonical, url_canonical);
        assess(&clean_text, None, content_type).put_into(&mut fields, None);
        note(&mut fields, &self.metadata());
        fields.put(Column::CaptureText, self.text);
        fields.put(Column::CleanText, clean_text);
        Ok(fields)
    }

    fn kind(&self, tracking: &Tracking) -> Result<Kind, Refusal> {
        if let Some(url) = &self.url {
            return match canonical(url, tracking) {
                Ok(address) => Ok(Kind::Link(address)),
                Err(unfit) => {
                    let fault = Fault::new(&self.places.url, unfit.to_string());
                    Err(Refusal::Schema(vec![fault]))
                }
            };
        }
        if let Some((title, text)) = titled_note(&self.text) {
            return Ok(Kind::Note { title, text });
        }
        Ok(self.first_link(tracking).map_or(Kind::Thought, Kind::Link))
    }

    /// The first address in the text, whether it is written out or stands behind words.
    fn first_link(&self, tracking: &Tracking) -> Option<Address> {
        let mut found: Vec<(u64, &str)> = self
            .hidden_links
            .iter()
            .map(|(place, url)| (*place, url.as_str()))
            .collect();
        let (mut bytes, mut units) = (0, 0);
        for place in links(&self.text) {
            units += self.text[bytes..place.start].encode_utf16().count() as u64;
            bytes = place.start;
            found.push((units, &self.text[place]));
        }
        found.sort_by_key(|(place, _)| *place);
        found
            .into_iter()
            .find_map(|(_, url)| canonical(url, tracking).ok())
    }

    fn put_message_keys(&self, fields: &mut Fields, clean_text: &str) -> Result<(), Refusal> {
        let (Some(chat_id), Some(message_id)) = (self.chat_id, self.message_id) else {
            return Err(self.without_numbers());
        };
        let secondary = data_encoding::HEXLOWER.encode(&Sha256::digest(clean_text.as_bytes()));
        fields.put(Column::IdempotencyPolicyKey, POLICY_THOUGHT);
        let primary = format!("tg:{chat_id}:{message_id}");
        fields.put(Column::IdempotencyKeyPrimary, primary);
        fields.put(Column::IdempotencyKeySecondary, secondary);
        Ok(())
    }

    fn without_numbers(&self) -> Refusal {
        let places = [
            (self.chat_id, &self.places.chat_id),
            (self.message_id, &self.places.message_id),
        ];
        let missing = places.into_iter().filter(|(number, _)| number.is_none());
        let needed = "is required for a message without a link";
        Refusal::Schema(
            missing
                .map(|(_, place)| Fault::new(place, needed))
                .collect(),
        )
    }

    fn metadata(&self) -> Value {
        let mut about = self.about.clone();
        for (name, number) in [("chat_id", self.chat_id), ("message_id", self.message_id)] {
            if let Some(number) = number {
                about.insert(name.to_owned(), number.into());
            }
        }
        let mut metadata = json!({ SOURCE: about });
        if self.nul_removed {
            metadata["nul_removed"] = true.into();
        }
        metadata
    }
}

/// The members of a message that are kept as they are.
pub(super) fn kept(given: &mut Given) -> Map<String, Value> {
    KEPT.into_iter()
        .filter_map(|name| Some((name.to_owned(), given.take(name)?)))
        .collect()
}

/// The URLs that stand behind words. What is not as Telegram writes it is passed over: the text still counts.
pub(super) fn hidden_links(entities: Option<Value>) -> Vec<(u64, String)> {
    let Some(Value::Array(entities)) = entities else {
        return Vec::new();
    };
    entities
        .into_iter()
        .filter(|entity| entity["type"] == "text_link")
        .filter_map(|entity| {
            let url = entity["url"].as_str()?.to_owned();
            Some((entity["offset"].as_u64().unwrap_or(u64::MAX), url))
        })
        .collect()
}

/// Title and text of a note that was written as a JSON object. Without a text the title is what it says.
fn titled_note(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    let members: Map<String, Value> = serde_json::from_str(text).ok()?;
    let said = |name: &str| {
        members
            .get(name)
            .and_then(Value::as_str)
            // An escape in the text can still stand for a U+0000.
            .map(|said| said.replace('\0', ""))
            .filter(|said| !is_blank(said))
    };
    let title: String = one_line(&said("title")?)
        .chars()
        .take(LINE_CHARS_MAX)
        .collect();
    let body = NOTE_TEXTS.into_iter().find_map(said);
    let body = body.unwrap_or_else(|| title.clone());
    Some((title, body))
}
