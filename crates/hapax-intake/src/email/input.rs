//! What a client says of a mail, checked. It knows the names of the members, not what a mail means.

use serde_json::Value;

use super::body::{Body, TEXT_BYTES_MAX, is_nothing};
use super::classify::MailType;
use super::fault::MessageFault;
use super::header::{self, Headers};
use super::html;
use super::keys::{self, NEWSLETTER_POLICY, REFERENCES_POLICY, THREAD_POLICY};
use super::mail::Mail;
use super::mime::HEADERS_BYTES_MAX;
use super::word;
use crate::given::Given;
use crate::refusal::{Faults, Refusal};
use crate::text;

/// How many headers a client may name.
const HEADERS_MAX: usize = 1_000;
const INTENT_CHARS_MAX: usize = 128;

/// Headers that programs write; a text that people write does not begin with them.
const MACHINE_HEADERS: [&str; 8] = [
    "mime-version",
    "message-id",
    "received",
    "return-path",
    "delivered-to",
    "content-transfer-encoding",
    "content-type",
    "dkim-signature",
];

pub(super) fn read(mut document: Value) -> Result<Mail, Refusal> {
    let nul_removed = text::remove_nul(&mut document);
    let mut given = Given::document(document)?;
    let mut faults = Faults::default();
    let mut source = given.object("source", &mut faults);
    let headers = headers(&mut given, &mut faults);
    let raw_text = required(&mut given, "raw_text", &mut faults);
    let from = required(&mut given, "from", &mut faults);
    // A mail may have an empty subject, so that only a missing one is a fault.
    if !given.has("subject") {
        given.fault("subject", "is required", &mut faults);
    }
    let subject = given.text("subject", &mut faults);
    let intent = given.line("intent", INTENT_CHARS_MAX, &mut faults);
    let message_id = source.text("message_id", &mut faults);
    let date = source.text("date", &mut faults);
    let policy = given.text("idempotency_policy_key", &mut faults);
    let said_type = given.text("content_type", &mut faults);
    let said_type = kind(said_type.as_deref(), policy.as_deref(), &mut faults);
    let mut mail = raw_text
        .map(|raw_text| mail_of(&raw_text, &mut faults))
        .unwrap_or_default();
    faults.settle()?;

    let own = std::mem::replace(&mut mail.headers, headers);
    mail.headers.append(own);
    mail.from = from;
    mail.subject = subject
        .map(|subject| word::decode(&subject))
        .unwrap_or_default();
    mail.intent = intent;
    mail.message_id = message_id
        .and_then(|id| keys::message_id(&id))
        .or_else(|| mail.headers.message_id());
    mail.date = date
        .map(|date| date.trim().to_owned())
        .filter(|date| !date.is_empty())
        .or_else(|| mail.headers.get("date").map(str::to_owned));
    mail.said_type = said_type;
    mail.by_references = policy.as_deref() == Some(REFERENCES_POLICY);
    mail.remove_nul();
    mail.nul_removed |= nul_removed;
    Ok(mail)
}

/// The type that the client names, or that the policy it names is for.
fn kind(said_type: Option<&str>, policy: Option<&str>, faults: &mut Faults) -> Option<MailType> {
    let named = said_type.and_then(MailType::named);
    if named.is_none() && said_type.is_some() {
        faults.add(
            "/content_type",
            "is neither \"newsletter\" nor \"correspondence_thread\"",
        );
    }
    let implied = match policy {
        None | Some(REFERENCES_POLICY) => None,
        Some(NEWSLETTER_POLICY) => Some(MailType::Newsletter),
        Some(THREAD_POLICY) => Some(MailType::CorrespondenceThread),
        Some(_) => {
            faults.add(
                "/idempotency_policy_key",
                "is no policy that keys of a mail are made for",
            );
            None
        }
    };
    if named.is_some() && implied.is_some() && named != implied {
        faults.add(
            "/idempotency_policy_key",
            "is the policy of another content_type",
        );
    }
    named.or(implied)
}

/// The mail in a text: a whole message, HTML, or plain.
fn mail_of(raw_text: &str, faults: &mut Faults) -> Mail {
    let mut refuse = |fault: MessageFault| {
        faults.add("/raw_text", format!("cannot be kept: {fault}"));
        Mail::default()
    };
    let raw_text = raw_text.trim_start_matches(['\u{feff}', '\r', '\n']);
    if is_message(raw_text) {
        return Mail::read(raw_text.as_bytes()).unwrap_or_else(refuse);
    }
    let is_html = html::looks_like(raw_text);
    let text = if is_html {
        html::to_text(raw_text)
    } else {
        raw_text.replace("\r\n", "\n")
    };
    if is_nothing(&text) {
        return refuse(MessageFault::NoText);
    }
    if text.len() > TEXT_BYTES_MAX {
        return refuse(MessageFault::Text);
    }
    Mail {
        body: Body {
            text,
            is_html,
            ..Body::default()
        },
        ..Mail::default()
    }
}

/// Whether a text is a whole message: headers, one of them a program's, and an empty line.
fn is_message(text: &str) -> bool {
    let block = super::cut(text, HEADERS_BYTES_MAX + 2);
    let mut has_headers = false;
    for line in block.as_bytes().split(|byte| *byte == b'\n') {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            break;
        }
        if matches!(line[0], b' ' | b'\t') && has_headers {
            continue;
        }
        if header::field(line).is_none() {
            return false;
        }
        has_headers = true;
    }
    let ends = block.contains("\n\n") || block.contains("\n\r\n");
    // Headers beyond the limit are a message too, and refused as one.
    let is_long = block.len() > HEADERS_BYTES_MAX && has_headers;
    has_headers
        && (ends || is_long)
        && Headers::read(block.as_bytes(), usize::MAX).is_some_and(|(headers, _)| {
            headers.len() > 1 && MACHINE_HEADERS.iter().any(|name| headers.has(name))
        })
}

/// `headers`: a text, or a list of texts, under each name.
fn headers(given: &mut Given, faults: &mut Faults) -> Headers {
    const FAULT: &str = "must be a string or an array of strings";
    let mut headers = Headers::default();
    let named = match given.take("headers") {
        None => return headers,
        Some(Value::Object(named)) => named,
        Some(_) => {
            given.fault("headers", "must be an object", faults);
            return headers;
        }
    };
    for (name, value) in named {
        let values = match value {
            Value::Array(values) => values,
            Value::Null => continue,
            value => vec![value],
        };
        for value in values {
            match value {
                Value::String(text) => headers.add(&name, &text),
                _ => given.fault(
                    &format!("headers/{}", name.replace('~', "~0").replace('/', "~1")),
                    FAULT,
                    faults,
                ),
            }
        }
    }
    if headers.len() > HEADERS_MAX {
        let message = format!("has more than the {HEADERS_MAX} values allowed");
        given.fault("headers", message, faults);
    }
    headers
}

fn required(given: &mut Given, name: &str, faults: &mut Faults) -> Option<String> {
    if !given.has(name) {
        given.fault(name, "is required", faults);
        return None;
    }
    let text = given.text(name, faults)?;
    if text.trim().is_empty() {
        given.fault(name, "must not be blank", faults);
        return None;
    }
    Some(text)
}
