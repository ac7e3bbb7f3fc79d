//! Bytes of a mail made text, whatever it says they are. What is readable in them stays readable.

use std::borrow::Cow;

use mail_parser::decoders::charsets::map::charset_decoder;

/// The text of `bytes`, which claim to be in `charset`.
///
/// Bytes that claim nothing, ASCII, UTF-8 or a charset that nobody knows are UTF-8 if they can be; if they cannot, and
/// hold no character of UTF-8 beyond ASCII at all, they are read as windows-1252, as mail programs do. Where both
/// readings fail, the broken bytes become U+FFFD and the rest stays.
pub(super) fn decode(bytes: &[u8], charset: Option<&str>) -> String {
    let name = charset.unwrap_or_default().trim().to_ascii_lowercase();
    let is_plain = matches!(name.as_str(), "" | "utf-8" | "utf8" | "us-ascii" | "ascii");
    match charset_decoder(name.as_bytes()).filter(|_| !is_plain) {
        Some(decode) => {
            let text = decode(bytes);
            // Of some charsets nothing is read at all; what is ASCII in them is better than nothing.
            if text == "\u{fffd}" && bytes.len() > 1 {
                guess(bytes)
            } else {
                text
            }
        }
        None => guess(bytes),
    }
}

fn guess(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let is_ascii_beside = bytes.utf8_chunks().all(|chunk| chunk.valid().is_ascii());
    match charset_decoder(b"windows-1252") {
        Some(decode) if is_ascii_beside => decode(bytes),
        Some(_) | None => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// What a transfer encoding hides. A faulty encoding hides little: what cannot be decoded stays as it is.
pub(super) fn transferred<'a>(bytes: &'a [u8], encoding: &str) -> Cow<'a, [u8]> {
    match encoding
        .trim()
        .trim_end_matches(';')
        .to_ascii_lowercase()
        .as_str()
    {
        "base64" => base64(bytes).map_or(Cow::Borrowed(bytes), Cow::Owned),
        "quoted-printable" => Cow::Owned(quoted_printable(bytes, false)),
        _ => Cow::Borrowed(bytes),
    }
}

/// How many bytes a part has behind its transfer encoding, without decoding it.
pub(super) fn transferred_len(bytes: &[u8], encoding: &str) -> usize {
    if encoding.trim().eq_ignore_ascii_case("base64") {
        // Pieces whose count fits a byte, so that many bytes are looked at in one step.
        let count = |piece: &[u8]| {
            piece
                .iter()
                .map(|byte| u8::from(is_base64(*byte)))
                .sum::<u8>()
        };
        let counts = bytes.chunks(usize::from(u8::MAX)).map(count);
        counts.map(usize::from).sum::<usize>() * 3 / 4
    } else {
        bytes.len()
    }
}

/// Base64, with whatever is no part of it left out.
pub(super) fn base64(bytes: &[u8]) -> Option<Vec<u8>> {
    let letters: Vec<u8> = bytes
        .iter()
        .copied()
        .filter(|byte| is_base64(*byte) || *byte == b'=')
        .collect();
    mail_parser::decoders::base64::base64_decode(&letters)
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

/// Quoted-printable, of a body or of a word in a header, where `_` is a space.
pub(super) fn quoted_printable(bytes: &[u8], is_word: bool) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        // What stands for itself is most of it.
        let bare = if is_word {
            memchr::memchr2(b'=', b'_', rest)
        } else {
            memchr::memchr(b'=', rest)
        };
        let (itself, from) = rest.split_at(bare.unwrap_or(rest.len()));
        plain.extend_from_slice(itself);
        let Some((&byte, after)) = from.split_first() else {
            break;
        };
        rest = after;
        match byte {
            b'_' if is_word => plain.push(b' '),
            b'=' => match (hex(after, 0), hex(after, 1)) {
                (Some(high), Some(low)) => {
                    plain.push(high << 4 | low);
                    rest = &after[2..];
                }
                _ => match after_soft_break(after) {
                    Some(next) => rest = next,
                    None => plain.push(b'='),
                },
            },
            byte => plain.push(byte),
        }
    }
    plain
}

/// What follows the line end at the start of `bytes`, blanks before it included. Blanks are few in a real one.
fn after_soft_break(bytes: &[u8]) -> Option<&[u8]> {
    let blanks = bytes
        .iter()
        .take(80)
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
        .count();
    bytes[blanks..].strip_prefix(b"\n")
}

fn hex(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = char::from(*bytes.get(at)?).to_digit(16)?;
    u8::try_from(digit).ok()
}
