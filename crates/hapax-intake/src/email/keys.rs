//! The keys that make two mails the same entry. They are made of headers only, never of the text.

use hapax_core::entry::{Column, Fields, key_text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::classify::MailType;
use super::header::Headers;
use crate::{date, subject};

/// The policy of newsletters.
pub const NEWSLETTER_POLICY: &str = "email_newsletter_v1";
/// The policy of conversations, by their subject.
pub const THREAD_POLICY: &str = "email_correspondence_thread_v1";
/// The policy of conversations, by the message that began them. It is used when it is asked for.
pub const REFERENCES_POLICY: &str = "email_thread_refs_v1";

/// How many message ids of a header are read.
const IDS_MAX: usize = 1_000;

/// What keys are made of.
#[derive(Debug)]
pub(super) struct Material<'a> {
    pub(super) message_id: Option<&'a str>,
    pub(super) from_address: Option<String>,
    pub(super) subject: &'a str,
    pub(super) date: Option<&'a str>,
    pub(super) headers: &'a Headers,
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
        let primary = need(
            material.message_id.map(str::to_owned),
            "there is no message id",
        );
        let parts = [
            need(material.from_address.clone(), "the sender has no address"),
            need(
                Some(subject::base(material.subject)),
                "the subject has no base",
            ),
            need(material.date.and_then(date::day_bucket), "there is no date"),
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
                vec!["the subject has no base"]
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
                .and_then(|text| message_ids(text).into_iter().next())
        };
        let root = first("references").or_else(|| first("in-reply-to"));
        let root = root
            .or_else(|| material.message_id.map(str::to_owned))
            .map(|id| key_text(&id));
        let root = root.filter(|id| !id.is_empty());
        Self {
            policy: REFERENCES_POLICY,
            faults: if root.is_none() {
                vec!["there is no message id"]
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

/// The message ids of a header, each with its `<>`, in their order.
pub(super) fn message_ids(text: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let Some(len) = rest[start..].find('>') else {
            break;
        };
        ids.push(rest[start..=start + len].split_whitespace().collect());
        rest = &rest[start + len + 1..];
        if ids.len() >= IDS_MAX {
            break;
        }
    }
    if ids.is_empty() {
        ids.extend(
            text.split_whitespace()
                .find(|word| word.contains('@'))
                .map(str::to_owned),
        );
    }
    ids
}

fn sha256(text: &str) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
}
