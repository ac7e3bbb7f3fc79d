//! Who a mail is from and to: names and addresses out of a header. What has no `@` is no address.

use serde_json::{Value, json};

use super::word;

/// How many mailboxes of one header are read.
const MAILBOXES_MAX: usize = 100;
/// How much of a header is read for mailboxes, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// One mailbox of a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mailbox {
    pub(super) name: Option<String>,
    pub(super) address: String,
}

impl Mailbox {
    /// The address as keys use it.
    pub(super) fn key(&self) -> String {
        self.address.to_lowercase()
    }

    /// What people call its owner.
    pub(super) fn person(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.address)
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "name": self.name, "address": self.address })
    }
}

/// The mailboxes of a header, encoded words not yet decoded.
pub(super) fn mailboxes(text: &str) -> Vec<Mailbox> {
    let text = super::cut(text, TEXT_BYTES_MAX);
    let mut found = Vec::new();
    let mut parts = Parts::default();
    let has_quotes = text.matches('"').count().is_multiple_of(2);
    let has_comments = text.matches('(').count() == text.matches(')').count();
    let (mut in_quotes, mut comments, mut escaped) = (false, 0_usize, false);
    for c in text.chars() {
        match c {
            _ if escaped => {
                escaped = false;
                parts.push(c, comments > 0);
            }
            '\\' if in_quotes || comments > 0 => escaped = true,
            '"' if has_quotes && comments == 0 => in_quotes = !in_quotes,
            _ if in_quotes => parts.push(c, false),
            '(' if has_comments => comments += 1,
            ')' if comments > 0 => comments -= 1,
            _ if comments > 0 => parts.push(c, true),
            '<' => parts.open(),
            '>' => parts.is_angle_open = false,
            ':' if !parts.is_angle_open && !parts.has_at => parts.phrase.clear(),
            ',' | ';' if !parts.is_angle_open => {
                found.extend(parts.finish());
                if found.len() >= MAILBOXES_MAX {
                    return found;
                }
            }
            c => parts.push(c, false),
        }
    }
    found.extend(parts.finish());
    found
}

/// What was read of a mailbox so far.
#[derive(Default)]
struct Parts {
    /// A name with a comma in it, unquoted: what stood before the comma.
    carried: String,
    phrase: String,
    has_at: bool,
    angle: Option<String>,
    is_angle_open: bool,
    comment: String,
}

impl Parts {
    fn push(&mut self, c: char, in_comment: bool) {
        match &mut self.angle {
            _ if in_comment => self.comment.push(c),
            Some(angle) if self.is_angle_open => angle.push(c),
            Some(_) | None => {
                self.has_at |= c == '@';
                self.phrase.push(c);
            }
        }
    }

    fn open(&mut self) {
        self.is_angle_open = true;
        self.angle = Some(String::new());
    }

    /// The mailbox, if there is an address; what is read next is another one.
    fn finish(&mut self) -> Option<Mailbox> {
        let parts = std::mem::take(self);
        let angle = parts.angle.unwrap_or_default();
        let mut words = parts.phrase.split_whitespace();
        let (address, name) = if let Some(address) = routed(&angle) {
            (address, parts.phrase)
        } else if let Some(address) = words.find(|word| word.contains('@')) {
            let name = parts.phrase.split_whitespace();
            let name: Vec<&str> = name.filter(|word| *word != address).collect();
            (address.to_owned(), name.join(" "))
        } else {
            self.carried = parts.carried;
            if !parts.phrase.trim().is_empty() {
                self.carried.push_str(parts.phrase.trim());
                self.carried.push_str(", ");
            }
            return None;
        };
        let named = [parts.carried + &name, parts.comment];
        let name = named
            .iter()
            .map(|name| crate::text::one_line(&word::decode(name.trim())))
            .map(|name| name.trim_matches(['\'', ',', ' ']).to_owned())
            .find(|name| !name.is_empty() && *name != address);
        Some(Mailbox { name, address })
    }
}

/// The address in angle brackets, without a route before it and without blanks.
fn routed(angle: &str) -> Option<String> {
    let address = angle.rsplit(':').next().unwrap_or(angle);
    let address: String = address.chars().filter(|c| !c.is_whitespace()).collect();
    let address = address.trim_matches(['<', '\'', '"']).to_owned();
    address.contains('@').then_some(address)
}
