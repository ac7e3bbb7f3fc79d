//! The keys that make two mails the same entry. They are made of headers only, never of the text.

use hapax_core::entry::{Column, Fields, key_text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::classify::MailType;
use super::header::Headers;
use crate::text::one_line;
use crate::{date, subject};

/// The policy of newsletters.
pub const NEWSLETTER_POLICY: &str = "email_newsletter_v1";
/// The policy of conversations, by their subject.
pub const THREAD_POLICY: &str = "email_correspondence_thread_v1";
/// The policy of conversations, by the message that began them. It is used when it is asked for.
pub const REFERENCES_POLICY: &str = "email_thread_refs_v1";

/// How many message ids of a header are read.
const IDS_MAX: usize = 1_000;

const NO_MESSAGE_ID: &str = "there is no Message-ID, or nothing between its brackets";

/// What keys are made of.
#[derive(Debug)]
pub(super) struct Material<'a> {
    pub(super) message_id: Option<&'a str>,
    pub(super) from_address: Option<String>,
    pub(super) subject: &'a str,
    pub(super) date: Option<&'a str>,
    pub(super) headers: &'a Headers,
}

impl Material<'_> {
    /// Why the subject makes no key.
    fn no_base(&self) -> &'static str {
        if self.subject.trim().is_empty() {
            "the subject is empty"
        } else {
            "the subject has nothing but tags and Re: or Fwd:"
        }
    }

    /// Why the date makes no key.
    fn no_day(&self) -> &'static str {
        if self.date.is_none() {
            "there is no date"
        } else {
            "the date cannot be read; it has to be a day, or a time with its zone (RFC 3339 or RFC 5322)"
        }
    }
}

/// The keys of a mail. A key whose parts are not all there is missing, and `faults` says why.
#[derive(Debug)]
pub(super) struct Keys {
    policy: &'static str,
    primary: Option<String>,
    secondary: Option<String>,
    faults: Vec<&'static str>,
}

impl Keys {
    pub(super) fn of(material: &Material<'_>, kind: MailType, by_references: bool) -> Self {
        match kind {
            _ if by_references => Self::of_references(material),
            MailType::Newsletter => Self::of_newsletter(material),
            MailType::CorrespondenceThread => Self::of_thread(material),
        }
    }

    fn of_newsletter(material: &Material<'_>) -> Self {
        let mut faults = Vec::new();
        let mut need = |part: Option<String>, fault: &'static str| {
            let part = part
                .map(|part| part.trim().to_owned())
                .filter(|part| !part.is_empty());
            if part.is_none() {
                faults.push(fault);
            }
            part
        };
        let primary = need(material.message_id.map(str::to_owned), NO_MESSAGE_ID);
        let parts = [
            need(
                material.from_address.clone(),
                "the sender has no e-mail address",
            ),
            need(Some(subject::base(material.subject)), material.no_base()),
            need(material.date.and_then(date::day_bucket), material.no_day()),
        ];
        let parts: Option<Vec<String>> = parts.into_iter().collect();
        Self {
            policy: NEWSLETTER_POLICY,
            primary: primary.map(|id| key_text(&id)),
            secondary: parts.map(|parts| sha256(&parts.join("|"))),
            faults,
        }
    }

    fn of_thread(material: &Material<'_>) -> Self {
        let base = subject::base(material.subject);
        // Every mail without a base would be one conversation.
        let primary = (!base.is_empty()).then(|| sha256(&base));
        Self {
            policy: THREAD_POLICY,
            faults: if primary.is_none() {
                vec![material.no_base()]
            } else {
                Vec::new()
            },
            primary,
            secondary: None,
        }
    }

    /// The root is the first message that the mail refers to, else the one that it answers, else the mail itself.
    fn of_references(material: &Material<'_>) -> Self {
        let first = |name: &str| {
            material
                .headers
                .get(name)
                .and_then(|text| message_ids(&text.replace('\0', "")).into_iter().next())
        };
        let root = first("references").or_else(|| first("in-reply-to"));
        let root = root
            .or_else(|| material.message_id.map(str::to_owned))
            .map(|id| key_text(&id));
        let root = root.filter(|id| !id.is_empty());
        Self {
            policy: REFERENCES_POLICY,
            faults: if root.is_none() {
                vec![NO_MESSAGE_ID]
            } else {
                Vec::new()
            },
            primary: root,
            secondary: None,
        }
    }

    /// Puts the keys into an entry; gives what is to be said about those that are missing.
    pub(super) fn put_into(self, fields: &mut Fields) -> Value {
        fields.put(Column::IdempotencyPolicyKey, self.policy);
        fields.put(Column::IdempotencyKeyPrimary, self.primary);
        fields.put(Column::IdempotencyKeySecondary, self.secondary);
        if self.faults.is_empty() {
            Value::Null
        } else {
            json!(self.faults)
        }
    }
}

/// Why the entry of a mail has no key at all, for a person; `None` if it has one.
///
/// An insert refuses such an entry by the names of its columns; this says what is wrong with the mail.
///
/// ```
/// use hapax_intake::email;
///
/// let entry = email::message(b"In-Reply-To: <1@example.org>\nSubject: Re: [list]\n\nYes.\n", "email-batch")?;
/// let why = email::why_unkeyed(&entry);
/// assert_eq!(why.as_deref(), Some("the subject has nothing but tags and Re: or Fwd:"));
///
/// let entry = email::message(b"Message-ID: <1@example.org>\n\nOur news.\n", "email-batch")?;
/// assert_eq!(email::why_unkeyed(&entry), None);
/// # Ok::<(), email::MessageFault>(())
/// ```
#[must_use]
pub fn why_unkeyed(entry: &Fields) -> Option<String> {
    let keys = [
        Column::IdempotencyKeyPrimary,
        Column::IdempotencyKeySecondary,
    ];
    if keys.iter().any(|key| entry.text(*key).is_some()) {
        return None;
    }
    let missing = entry.get(Column::Metadata)["email"]["missing_keys"].as_array()?;
    let said: Vec<&str> = missing.iter().filter_map(Value::as_str).collect();
    Some(said.join("; "))
}

/// The id of a message, from its header or as a client says it: the first in brackets, without white space; else what
/// stands there, on one line. Brackets with nothing between them are no id.
pub(super) fn message_id(text: &str) -> Option<String> {
    let bracketed = bracketed_ids(text).into_iter().next();
    let says = |c: char| !c.is_whitespace() && !matches!(c, '<' | '>');
    bracketed.or_else(|| text.contains(says).then(|| one_line(text)))
}

/// The message ids of a header, each with its `<>`, in their order; else the first word that looks like one.
pub(super) fn message_ids(text: &str) -> Vec<String> {
    let mut ids = bracketed_ids(text);
    if ids.is_empty() {
        ids.extend(
            text.split_whitespace()
                .find(|word| word.contains('@'))
                .map(str::to_owned),
        );
    }
    ids
}

fn bracketed_ids(text: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let Some(len) = rest[start..].find('>') else {
            break;
        };
        let id: String = rest[start..=start + len].split_whitespace().collect();
        // With nothing between them, brackets would be the id of every mail that has them.
        if id != "<>" {
            ids.push(id);
        }
        rest = &rest[start + len + 1..];
        if ids.len() >= IDS_MAX {
            break;
        }
    }
    ids
}

fn sha256(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
