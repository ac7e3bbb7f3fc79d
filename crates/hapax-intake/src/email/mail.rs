//! A mail that was read, and the entry that it becomes.

use hapax_core::entry::{Column, Fields};
use serde_json::{Map, Value, json};

use super::address::{self, Mailbox};
use super::body::Body;
use super::classify::{Classification, MailType};
use super::fault::MessageFault;
use super::header::Headers;
use super::keys::{self, Keys, Material};
use super::mime::Part;
use super::reply::Reply;
use super::word;
use crate::{quality, subject, text};

/// How much of a title, a name or an id is kept, in characters. Keys are made of all of it.
const TITLE_CHARS_MAX: usize = 2_000;
const WORD_CHARS_MAX: usize = 500;
/// How many of the messages that a mail refers to are named.
const REFERENCES_MAX: usize = 50;

/// A mail, wherever it came from.
#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) headers: Headers,
    pub(super) body: Body,
    /// Who sent it, as it stands in the header.
    pub(super) from: Option<String>,
    /// The subject as people read it.
    pub(super) subject: String,
    pub(super) message_id: Option<String>,
    pub(super) date: Option<String>,
    pub(super) said_type: Option<MailType>,
    pub(super) intent: Option<String>,
    pub(super) by_references: bool,
    pub(super) nul_removed: bool,
}

impl Mail {
    /// Reads a raw message.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, MessageFault> {
        let part = Part::read(bytes)?;
        let body = Body::read(&part)?;
        let headers = part.headers;
        let mut mail = Self {
            from: headers
                .get("from")
                .or_else(|| headers.get("sender"))
                .map(str::to_owned),
            subject: headers.text("subject").unwrap_or_default(),
            message_id: headers.message_id(),
            date: headers.get("date").map(str::to_owned),
            headers,
            body,
            ..Self::default()
        };
        mail.remove_nul();
        Ok(mail)
    }

    /// U+0000 is in no text that is kept: PostgreSQL stores none.
    pub(super) fn remove_nul(&mut self) {
        let texts = [
            Some(&mut self.body.text),
            Some(&mut self.subject),
            self.from.as_mut(),
            self.message_id.as_mut(),
        ];
        for text in texts.into_iter().flatten() {
            if text.contains('\0') {
                text.retain(|c| c != '\0');
                self.nul_removed = true;
            }
        }
        // What was left of an id may be its brackets.
        self.message_id = self.message_id.take().and_then(|id| keys::message_id(&id));
    }

    pub(super) fn into_entry(self, source: &str) -> Fields {
        let capture_text = self
            .body
            .text
            .trim_end()
            .trim_start_matches(['\n', '\u{feff}']);
        let reply = Reply::read(capture_text);
        let classification =
            Classification::of(self.said_type, &self.headers, &reply, &self.subject);
        let kind = classification.kind;
        let clean_text = text::tidy(&reply.own(kind == MailType::CorrespondenceThread));
        let sender = self
            .from
            .as_deref()
            .and_then(|from| address::mailboxes(from).into_iter().next());
        let author = match (&sender, &self.from) {
            (Some(sender), _) => Some(sender.person().to_owned()),
            (None, Some(from)) => Some(text::one_line(&word::decode(from))),
            (None, None) => None,
        };
        let material = Material {
            message_id: self.message_id.as_deref(),
            from_address: sender.as_ref().map(Mailbox::key),
            subject: &self.subject,
            date: self.date.as_deref(),
            headers: &self.headers,
        };

        let mut fields = Fields::new();
        fields.put(Column::Source, source);
        fields.put(Column::Intent, self.intent.as_deref().unwrap_or("archive"));
        fields.put(Column::ContentType, kind.as_str());
        let title = text::one_line(&self.subject);
        fields.put(
            Column::Title,
            (!title.is_empty()).then(|| short(&title, TITLE_CHARS_MAX)),
        );
        fields.put(
            Column::Author,
            author.map(|author| short(&author, WORD_CHARS_MAX)),
        );
        fields.put(Column::CaptureText, capture_text);
        fields.put(Column::Url, Value::Null);
        fields.put(Column::UrlCanonical, Value::Null);
        let quality = quality::assess(
            &clean_text,
            Some(capture_text.chars().count()),
            kind.as_str(),
        );
        quality.put_into(&mut fields, None);
        fields.put(Column::CleanText, clean_text);
        let missing = Keys::of(&material, kind, self.by_references).put_into(&mut fields);
        let email = self.about(sender.as_ref(), &reply, &missing);
        let mut more = json!({ "classification": classification.to_json(), "email": email });
        if self.nul_removed {
            more["nul_removed"] = true.into();
        }
        text::remove_nul(&mut more);
        text::note(&mut fields, &more);
        fields
    }

    /// What is worth knowing of the mail beside its text. Every member is there, null if there is nothing to say: the
    /// next mail of a conversation is merged over this one, and must not leave it standing in part.
    fn about(&self, sender: Option<&Mailbox>, reply: &Reply<'_>, missing_keys: &Value) -> Value {
        let one = |text: Option<&str>| text.map(|text| short(text, WORD_CHARS_MAX));
        let people = |name: &str| -> Vec<Value> {
            let found = self.headers.get(name).map(address::mailboxes);
            let found = found.unwrap_or_default().into_iter();
            found.map(|mailbox| bounded(mailbox.to_json())).collect()
        };
        let references = self.headers.get("references").map(keys::message_ids);
        let references: Vec<String> = references
            .unwrap_or_default()
            .iter()
            .take(REFERENCES_MAX)
            .map(|id| short(id, WORD_CHARS_MAX))
            .collect();
        let forwarded = reply
            .forwarded()
            .map(|[from, date, subject]| json!({ "from": from, "date": date, "subject": subject }));
        json!({
            "message_id": one(self.message_id.as_deref()),
            "from": sender.map(|sender| bounded(sender.to_json())),
            "to": people("to"),
            "cc": people("cc"),
            "date": one(self.date.as_deref()),
            "subject_base": short(&subject::base(&self.subject), WORD_CHARS_MAX),
            "in_reply_to": one(self.headers.get("in-reply-to")),
            "references": references,
            "list_id": one(self.headers.text("list-id").as_deref()),
            "attachments": self.body.attachments,
            "attachments_more": self.body.attachments_more,
            "html": self.body.is_html,
            "forwarded": forwarded,
            "missing_keys": missing_keys,
        })
    }
}

fn bounded(mut value: Value) -> Value {
    for member in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(text) = member.as_str() {
            *member = short(text, WORD_CHARS_MAX).into();
        }
    }
    value
}

/// The text, or its start and `…`.
fn short(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
