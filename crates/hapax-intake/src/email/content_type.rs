//! `type/subtype; name=value` as Content-Type and Content-Disposition carry it, old and broken forms included.

use super::{charset, word};

/// How many parameters are read; more say nothing that is used.
const PARAMETERS_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct ContentType {
    /// `type/subtype`, or the disposition, in lower case.
    pub(super) kind: String,
    parameters: Vec<(String, String)>,
}

impl ContentType {
    pub(super) fn read(text: &str) -> Self {
        let mut pieces = pieces(text).into_iter();
        let kind = pieces
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        let parameters = pieces.take(PARAMETERS_MAX).filter_map(|piece| {
            let (name, value) = piece.split_once('=')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        });
        Self {
            kind,
            parameters: parameters.collect(),
        }
    }

    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(found, value)| found == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// A parameter for people, such as a file's name: encoded words, percent signs and pieces put together.
    pub(super) fn readable(&self, name: &str) -> Option<String> {
        if let Some(value) = self.parameter(name) {
            return Some(word::decode(value));
        }
        if let Some(value) = self.parameter(&format!("{name}*")) {
            return Some(extended(value));
        }
        let mut whole = String::new();
        for number in 0.. {
            let plain = self.parameter(&format!("{name}*{number}"));
            let encoded = self.parameter(&format!("{name}*{number}*"));
            let Some(piece) = plain.or(encoded) else {
                break;
            };
            whole.push_str(piece);
        }
        // The first piece says whether the whole is in percent signs; a character may be cut between two pieces.
        let is_extended = self.parameter(&format!("{name}*0*")).is_some();
        let whole = if is_extended { extended(&whole) } else { whole };
        (!whole.is_empty()).then_some(whole)
    }
}

/// `charset'language'percent-encoded`.
fn extended(value: &str) -> String {
    let mut parts = value.splitn(3, '\'');
    let (charset, letters) = match (parts.next(), parts.next(), parts.next()) {
        (Some(charset), Some(_), Some(letters)) => (Some(charset), letters),
        _ => (None, value),
    };
    let letters = letters.replace('=', "=3D").replace('%', "=");
    charset::decode(
        &charset::quoted_printable(letters.as_bytes(), false),
        charset,
    )
}

/// The text cut at each `;` outside quotes and comments, quotes resolved, comments gone. A quote without an end is a
/// character like others.
fn pieces(text: &str) -> Vec<String> {
    let quotes_end = text.rfind('"').unwrap_or(0);
    let mut pieces = vec![String::new()];
    let (mut in_quotes, mut comments, mut escaped) = (false, 0_usize, false);
    for (at, c) in text.char_indices() {
        let piece = pieces.len() - 1;
        match c {
            _ if escaped => {
                escaped = false;
                pieces[piece].push(c);
            }
            '\\' if in_quotes => escaped = true,
            '"' if in_quotes => in_quotes = false,
            '"' if at < quotes_end && comments == 0 => in_quotes = true,
            '(' if !in_quotes => comments += 1,
            ')' if comments > 0 => comments -= 1,
            _ if comments > 0 => {}
            ';' if !in_quotes => pieces.push(String::new()),
            c => pieces[piece].push(c),
        }
    }
    pieces
}
