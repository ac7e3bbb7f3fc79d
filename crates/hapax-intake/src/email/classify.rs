//! Whether a mail is part of a conversation or a newsletter, and by what that was told.

use serde_json::{Value, json};

use super::header::Headers;
use super::reply::{Evidence, Reply};
use crate::subject;

/// What a mail is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailType {
    /// Sent to many, answered by few.
    Newsletter,
    /// An answer to another mail.
    CorrespondenceThread,
}

impl MailType {
    /// Its name as a content type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Newsletter => "newsletter",
            Self::CorrespondenceThread => "correspondence_thread",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Newsletter, Self::CorrespondenceThread]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// What a mail is, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Classification {
    pub(super) kind: MailType,
    rule: &'static str,
    evidence: Vec<String>,
}

/// Headers that lists and senders of newsletters set. They are noted; a reply on a list is still a reply.
const LIST_HEADERS: [&str; 7] = [
    "list-id",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "list-post",
    "feedback-id",
    "precedence",
    "auto-submitted",
];

impl Classification {
    /// The first rule that holds decides: what the caller says, a header that names the mail answered, a quoted mail in
    /// the text. Without any of them it is a newsletter. A subject that begins with `Re:` decides nothing alone; it makes
    /// a quotation of a single quoted line.
    pub(super) fn of(
        said: Option<MailType>,
        headers: &Headers,
        reply: &Reply<'_>,
        subject: &str,
    ) -> Self {
        let is_answer_subject = subject::is_answer(subject);
        let found = reply.evidence(is_answer_subject);
        let mut evidence: Vec<String> = Vec::new();
        for name in ["in-reply-to", "references"] {
            if headers.names_message(name) {
                evidence.push(name.to_owned());
            }
        }
        let has_headers = !evidence.is_empty();
        evidence.extend(found.map(|found| found.as_str().to_owned()));
        if is_answer_subject {
            evidence.push("subject_re".to_owned());
        }
        if reply.forwarded().is_some() {
            evidence.push("forwarded_message".to_owned());
        }
        let listed = LIST_HEADERS.iter().filter(|name| headers.has(name));
        evidence.extend(listed.map(|name| (*name).to_owned()));
        let (kind, rule) = match (said, found) {
            (Some(said), _) => (said, "content_type"),
            (None, _) if has_headers => (MailType::CorrespondenceThread, "reply_header"),
            (None, Some(Evidence::Attribution | Evidence::Quotation)) => {
                (MailType::CorrespondenceThread, "quoted_reply")
            }
            (None, Some(Evidence::OriginalMessage | Evidence::HeaderBlock)) => {
                (MailType::CorrespondenceThread, "outlook_header_block")
            }
            (None, None) => (MailType::Newsletter, "no_reply_evidence"),
        };
        Self {
            kind,
            rule,
            evidence,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "type": self.kind.as_str(), "rule": self.rule, "evidence": self.evidence })
    }
}
