//! Text made fit to keep: without U+0000, with one kind of line end, and without stray white space.
//! It does not touch what a line says: code, emoji and writing from right to left stay as they are.

use hapax_core::entry::{Column, Fields, merge};
use serde_json::{Value, json};

/// The lines of bytes, each with its end.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        Some(line)
    })
}

/// Tidies a text that people read.
///
/// Line ends become `\n`, white space at the end of a line goes, of several empty lines one stays, and the whole is
/// trimmed. Indentation and spaces within a line stay.
///
/// ```
/// use hapax_intake::text::tidy;
///
/// assert_eq!(tidy("\u{feff} one \r\n\r\n\r\n  two  three\t\r"), "one\n\n  two  three");
/// ```
#[must_use]
pub fn tidy(text: &str) -> String {
    let text = text.trim_matches(is_empty);
    let mut tidied = String::with_capacity(text.len());
    let mut empty = 0;
    // A `\r\n` gives an empty piece more; what follows cannot tell it from an empty line, so it goes first.
    for line in text.split('\n').flat_map(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.split('\r')
    }) {
        let line = line.trim_end();
        if line.is_empty() {
            empty += 1;
            continue;
        }
        if !tidied.is_empty() {
            tidied.push_str(if empty > 0 { "\n\n" } else { "\n" });
        }
        empty = 0;
        tidied.push_str(line);
    }
    tidied
}

/// Whether there is nothing to read in a text.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_empty)
}

/// White space, or the mark that some editors put at the start of a file.
fn is_empty(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// A text on one line: white space, however much, becomes one space.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Removes every U+0000 from the texts and names of a value; says whether there was one. PostgreSQL stores none.
pub fn remove_nul(value: &mut Value) -> bool {
    match value {
        Value::String(text) => remove_nul_from(text),
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| remove_nul(item) | found),
        Value::Object(members) => {
            let mut found = false;
            if members.keys().any(|name| name.contains('\0')) {
                found = true;
                let renamed = std::mem::take(members).into_iter();
                members.extend(renamed.map(|(name, value)| (name.replace('\0', ""), value)));
            }
            members
                .values_mut()
                .fold(found, |found, value| remove_nul(value) | found)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn remove_nul_from(text: &mut String) -> bool {
    let found = text.contains('\0');
    if found {
        text.retain(|c| c != '\0');
    }
    found
}

/// Adds `more` to the metadata of an entry.
pub(crate) fn note(fields: &mut Fields, more: &Value) {
    let mut metadata = fields.remove(Column::Metadata).unwrap_or(Value::Null);
    if metadata.is_null() {
        metadata = json!({});
    }
    merge(&mut metadata, more);
    fields.put(Column::Metadata, metadata);
}
