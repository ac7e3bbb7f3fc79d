//! Reads single tokens of a JSON text: runs of plain string bytes, escapes, numbers, blanks.
//! It knows no containers and keeps no state.

use super::reject::{Reason, Reject};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// What one escape sequence stands for.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Char(char),
    Lone(u16),
}

/// A number literal that follows the grammar.
#[derive(Clone, Copy)]
pub(super) struct Literal {
    pub(super) end: usize,
    pub(super) integer_digits: usize,
    pub(super) fraction_digits: usize,
    pub(super) exponent: bool,
}

impl Literal {
    pub(super) const fn is_integer(&self) -> bool {
        self.fraction_digits == 0 && !self.exponent
    }
}

/// The byte at `at`, or 0 past the end: no token of the grammar starts with 0.
#[inline]
pub(super) fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// The first offset from `at` on that is no blank.
#[inline]
pub(super) fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while matches!(byte(text, at), b' ' | b'\n' | b'\r' | b'\t') {
        at += 1;
    }
    at
}

/// How many bytes of a long string are looked at together: a few registers of any processor.
const BLOCK_BYTES: usize = 32;

/// Whether a block of a string holds a quote, a backslash or a control byte. Without a way out of the loop, so that the
/// compiler compares many bytes at a time.
#[inline]
fn is_plain(block: &[u8; BLOCK_BYTES]) -> bool {
    let hits = block.iter().fold(0, |hits, byte| {
        hits | u8::from(*byte < 0x20) | u8::from(*byte == b'"') | u8::from(*byte == b'\\')
    });
    hits == 0
}

/// The first offset from `at` on that holds a quote, a backslash or a control byte, or the end.
#[inline]
pub(super) fn plain_end(text: &[u8], mut at: usize) -> usize {
    while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        if !is_plain(block) {
            break;
        }
        at += BLOCK_BYTES;
    }
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5C);
        // A borrow can only mark a byte above a true hit, so the lowest mark is exact.
        let hits = ((word.wrapping_sub(ONES * 0x20) & !word)
            | (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash))
            & HIGHS;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < text.len() && !matches!(text[at], 0..=0x1F | b'"' | b'\\') {
        at += 1;
    }
    at
}

/// The offset after the closing quote of a string that is known to be valid.
/// `at` is the offset after the opening quote.
#[inline]
pub(super) fn string_end(text: &[u8], mut at: usize) -> usize {
    loop {
        at = plain_end(text, at);
        if byte(text, at) != b'\\' {
            return at + 1;
        }
        // Whatever the escape is, its second byte cannot end the string.
        at += 2;
    }
}

/// Decodes the escape sequence whose backslash is at `at`. Returns the offset after it.
pub(super) fn escape(text: &[u8], at: usize) -> Result<(Unit, usize), Reject> {
    let simple = match byte(text, at + 1) {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(text, at),
        _ => return Err(Reject::syntax(at, "an unknown escape")),
    };
    Ok((Unit::Char(simple), at + 2))
}

fn unicode_escape(text: &[u8], at: usize) -> Result<(Unit, usize), Reject> {
    let first = hex4(text, at + 2)?;
    let end = at + 6;
    if let Some(char) = char::from_u32(u32::from(first)) {
        return Ok((Unit::Char(char), end));
    }
    let is_high = first < 0xDC00;
    if is_high && byte(text, end) == b'\\' && byte(text, end + 1) == b'u' {
        let second = hex4(text, end + 2)?;
        if (0xDC00..=0xDFFF).contains(&second) {
            let code = 0x1_0000 + (u32::from(first - 0xD800) << 10) + u32::from(second - 0xDC00);
            let char = char::from_u32(code).expect("a surrogate pair is a scalar value");
            return Ok((Unit::Char(char), end + 6));
        }
    }
    Ok((Unit::Lone(first), end))
}

fn hex4(text: &[u8], at: usize) -> Result<u16, Reject> {
    let mut value = 0;
    for offset in at..at + 4 {
        let digit = match byte(text, offset) {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            digit @ b'A'..=b'F' => digit - b'A' + 10,
            _ => return Err(Reject::syntax(offset, "expected four hex digits")),
        };
        value = value << 4 | u16::from(digit);
    }
    Ok(value)
}

/// Writes `char` as hcj-1 and `JSON.stringify` do inside a string: escaped only if it must be.
pub(super) fn escaped(char: char, buffer: &mut [u8; 6]) -> &[u8] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match char {
        '"' => b'"',
        '\\' => b'\\',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\0'..='\u{1f}' => {
            let code = char as usize;
            *buffer = [b'\\', b'u', b'0', b'0', HEX[code >> 4], HEX[code & 15]];
            return buffer;
        }
        _ => return char.encode_utf8(buffer).as_bytes(),
    };
    buffer[..2].copy_from_slice(&[b'\\', short]);
    &buffer[..2]
}

/// Reads the number literal at `at`, which holds a digit or a minus sign.
#[expect(
    clippy::inline_always,
    reason = "handed back through memory, the parts of a literal are waited for"
)]
#[inline(always)]
pub(super) fn number(text: &[u8], at: usize) -> Result<Literal, Reject> {
    let start = at + usize::from(byte(text, at) == b'-');
    let mut end = digits_end(text, start);
    let integer_digits = end - start;
    if integer_digits == 0 {
        return Err(Reject::syntax(start, "expected a digit"));
    }
    if integer_digits > 1 && text[start] == b'0' {
        return Err(Reject::syntax(start, "a number with a leading zero"));
    }
    let mut fraction_digits = 0;
    if byte(text, end) == b'.' {
        let from = end + 1;
        end = digits_end(text, from);
        fraction_digits = end - from;
        if fraction_digits == 0 {
            return Err(Reject::syntax(from, "expected a digit after the point"));
        }
    }
    let exponent = matches!(byte(text, end), b'e' | b'E');
    if exponent {
        let from = end + 1 + usize::from(matches!(byte(text, end + 1), b'+' | b'-'));
        end = digits_end(text, from);
        if end == from {
            return Err(Reject::syntax(from, "expected a digit in the exponent"));
        }
    }
    Ok(Literal {
        end,
        integer_digits,
        fraction_digits,
        exponent,
    })
}

#[inline]
fn digits_end(text: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // A digit is 0x30 to 0x39. Six more than that carries into the upper half from 0x3A on, and no byte carries
        // into the next one, because its highest bit is taken away.
        let low = word & !HIGHS;
        let others = ((low ^ (ONES * 0x30)) | ((low + ONES * 0x06) ^ (ONES * 0x30)))
            & (ONES * 0xF0)
            | word & HIGHS;
        if others != 0 {
            return at + (others.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while byte(text, at).is_ascii_digit() {
        at += 1;
    }
    at
}

/// The offset after `true`, `false` or `null` at `at`.
pub(super) fn word(text: &[u8], at: usize) -> Result<usize, Reject> {
    for word in [&b"true"[..], b"false", b"null"] {
        if text[at.min(text.len())..].starts_with(word) {
            return Ok(at + word.len());
        }
    }
    Err(Reject::syntax(
        at,
        if at < text.len() {
            "expected a value"
        } else {
            "expected a value, found the end"
        },
    ))
}

/// Checks the encoding and the length that the offsets can address.
pub(super) fn utf8(input: &[u8]) -> Result<&str, Reject> {
    if u32::try_from(input.len()).is_err() {
        return Err(Reject::new(Reason::TooLong, 0));
    }
    let text = match simdutf8::basic::from_utf8(input) {
        Ok(text) => text,
        // Only the slower one says where.
        Err(_) => std::str::from_utf8(input)
            .map_err(|error| Reject::new(Reason::InvalidUtf8, error.valid_up_to()))?,
    };
    if text.starts_with('\u{feff}') {
        return Err(Reject::syntax(0, "a byte order mark"));
    }
    Ok(text)
}
