//! Encoded words: the form in which headers carry letters beyond ASCII. What is not one stays as it is.

use super::charset;

/// The longest encoded word that is read, in bytes. The standard allows 75.
const WORD_BYTES_MAX: usize = 1_024;

struct Word<'a> {
    charset: &'a str,
    bytes: Vec<u8>,
    len: usize,
}

/// The text with its encoded words decoded. Words that follow each other are joined, and a character that was cut in
/// two between them is whole again.
pub(super) fn decode(text: &str) -> String {
    if !text.contains("=?") {
        return text.to_owned();
    }
    let mut decoded = String::with_capacity(text.len());
    let mut pending: Option<(&str, Vec<u8>)> = None;
    let mut rest = text;
    while let Some(start) = rest.find("=?") {
        let (before, from) = rest.split_at(start);
        let Some(word) = read(from) else {
            flush(&mut pending, &mut decoded);
            decoded.push_str(&rest[..start + 2]);
            rest = &from[2..];
            continue;
        };
        let follows = pending.is_some() && before.trim().is_empty();
        match &mut pending {
            Some((charset, bytes)) if follows && is_joinable(charset, word.charset) => {
                bytes.extend_from_slice(&word.bytes);
            }
            Some(_) | None => {
                flush(&mut pending, &mut decoded);
                if !follows {
                    decoded.push_str(before);
                }
                pending = Some((word.charset, word.bytes));
            }
        }
        rest = &from[word.len..];
    }
    flush(&mut pending, &mut decoded);
    decoded.push_str(rest);
    decoded
}

/// Whether the bytes of two words can be one text. A charset that switches with escapes begins each word anew.
fn is_joinable(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) && !one.to_ascii_lowercase().starts_with("iso-2022")
}

fn flush(pending: &mut Option<(&str, Vec<u8>)>, decoded: &mut String) {
    if let Some((charset, bytes)) = pending.take() {
        decoded.push_str(&charset::decode(&bytes, Some(charset)));
    }
}

/// The word at the start of `text`: `=?charset?B|Q?letters?=`.
fn read(text: &str) -> Option<Word<'_>> {
    let inside = text.strip_prefix("=?")?;
    let head = inside.as_bytes();
    let charset_len = memchr::memchr(b'?', &head[..head.len().min(64)])?;
    let encoding = *head.get(charset_len + 1)?;
    if charset_len == 0 || head.get(charset_len + 2) != Some(&b'?') {
        return None;
    }
    let letters_at = charset_len + 3;
    let reach = &head[letters_at..head.len().min(letters_at + WORD_BYTES_MAX)];
    let letters_len =
        memchr::memmem::find(reach, b"?=").filter(|end| !opens_inside(&reach[..*end]))?;
    let letters = &reach[..letters_len];
    let bytes = match encoding {
        b'b' | b'B' => charset::base64(letters)?,
        b'q' | b'Q' => charset::quoted_printable(letters, true),
        _ => return None,
    };
    let charset = inside.get(..charset_len)?;
    Some(Word {
        // A language may stand behind the charset.
        charset: charset.split('*').next().unwrap_or(charset),
        bytes,
        len: 2 + letters_at + letters_len + 2,
    })
}

/// Whether another word begins within these letters: then the first one has no end.
fn opens_inside(letters: &[u8]) -> bool {
    memchr::memmem::find(letters, b"=?").is_some()
}
