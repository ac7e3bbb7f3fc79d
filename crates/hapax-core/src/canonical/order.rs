//! Compares text by UTF-16 code units without converting it. It compares keys in place,
//! escapes included, so sorting an object copies nothing.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::scan::{self, Unit};

/// How a key begins: its first eight bytes as a number that orders keys as [`keys`] does, or [`UNTOLD`].
#[inline]
pub(super) fn start(text: &str, key: usize) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let Some(chunk) = text
        .as_bytes()
        .get(key + 1..)
        .and_then(|rest| rest.first_chunk())
    else {
        return UNTOLD;
    };
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let word = u64::from_le_bytes(*chunk);
    // The lowest mark is exact. What follows the closing quote is cut off; a prefix comes first.
    let quotes = zeros(word ^ (ONES * 0x22));
    let lowest = quotes & quotes.wrapping_neg();
    let own = word & (lowest >> 7).wrapping_sub(1);
    let others = (own & HIGHS) | zeros(own ^ (ONES * 0x5C));
    if others == 0 {
        own.swap_bytes()
    } else {
        UNTOLD
    }
}

/// A key whose order its first bytes do not tell: it has escapes, more than ASCII, or the text ends.
pub(super) const UNTOLD: u64 = u64::MAX;

/// Compares two valid keys of `text`, each with its offset and how it begins.
#[inline]
pub(super) fn known_keys(text: &str, left: (usize, u64), right: (usize, u64)) -> Ordering {
    if left.1 == right.1 || left.1 == UNTOLD || right.1 == UNTOLD {
        keys(text, left.0, right.0)
    } else {
        left.1.cmp(&right.1)
    }
}

/// Compares two valid keys of `text`; the offsets are those of the opening quotes.
fn keys(text: &str, left: usize, right: usize) -> Ordering {
    let bytes = text.as_bytes();
    let (left, right) = (left + 1, right + 1);
    let mut step = 0;
    loop {
        let (a, b) = (bytes[left + step], bytes[right + step]);
        if a == b'\\' || b == b'\\' {
            return escaped_keys(text, left + step, right + step);
        }
        if a != b {
            // The quote ends the key, and a prefix comes first.
            return match (a, b) {
                (b'"', _) => Ordering::Less,
                (_, b'"') => Ordering::Greater,
                _ => by_bytes(a, b),
            };
        }
        if a == b'"' {
            return Ordering::Equal;
        }
        step += 1;
    }
}

/// Orders two unequal bytes at the same place of two UTF-8 texts that agree before it.
/// UTF-16 differs from UTF-8 in one point: pairs sort before U+E000–U+FFFF.
#[inline]
fn by_bytes(a: u8, b: u8) -> Ordering {
    match (a, b) {
        (0xF0.., 0xEE | 0xEF) => Ordering::Less,
        (0xEE | 0xEF, 0xF0..) => Ordering::Greater,
        _ => a.cmp(&b),
    }
}

#[cold]
fn escaped_keys(text: &str, left: usize, right: usize) -> Ordering {
    let left = Chars { text, at: left };
    let right = Chars { text, at: right };
    left.map(rank).cmp(right.map(rank))
}

/// A number that orders characters as their UTF-16 form does.
fn rank(char: char) -> u32 {
    let code = char as u32;
    if (0xE000..=0xFFFF).contains(&code) {
        code + 0x11_0000
    } else {
        code
    }
}

/// Compares generalised UTF-8 (lone surrogates allowed) by UTF-16 code units.
pub(super) fn wtf8(left: &[u8], right: &[u8]) -> Ordering {
    units(left).cmp(units(right))
}

/// The UTF-16 code units of generalised UTF-8.
pub(super) fn units(text: &[u8]) -> impl Iterator<Item = u16> {
    code_points(text).flat_map(|code| {
        let (first, second) = split(code);
        std::iter::once(first).chain(second)
    })
}

/// One or two UTF-16 units of a code point.
pub(super) fn split(code: u32) -> (u16, Option<u16>) {
    #[expect(clippy::cast_possible_truncation, reason = "each part is below 2^16")]
    if code < 0x1_0000 {
        (code as u16, None)
    } else {
        let rest = code - 0x1_0000;
        (
            0xD800 | (rest >> 10) as u16,
            Some(0xDC00 | (rest & 0x3FF) as u16),
        )
    }
}

/// The code points of generalised UTF-8.
pub(super) fn code_points(text: &[u8]) -> impl Iterator<Item = u32> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let lead = *text.get(at)?;
        let (length, bits) = match lead {
            0..0x80 => (1, u32::from(lead)),
            0x80..0xE0 => (2, u32::from(lead & 0x1F)),
            0xE0..0xF0 => (3, u32::from(lead & 0x0F)),
            0xF0.. => (4, u32::from(lead & 0x07)),
        };
        let tail = &text[at + 1..at + length];
        at += length;
        Some(
            tail.iter()
                .fold(bits, |code, byte| code << 6 | u32::from(byte & 0x3F)),
        )
    })
}

/// The characters of a valid string, unescaped, up to its closing quote.
struct Chars<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.text.as_bytes()[self.at] {
            b'"' => None,
            b'\\' => {
                let (unit, end) = scan::escape(self.text.as_bytes(), self.at).ok()?;
                self.at = end;
                match unit {
                    Unit::Char(char) => Some(char),
                    Unit::Lone(_) => Some(char::REPLACEMENT_CHARACTER),
                }
            }
            _ => {
                let char = self.text[self.at..].chars().next()?;
                self.at += char.len_utf8();
                Some(char)
            }
        }
    }
}

/// The content of a valid string whose opening quote is at `at`; borrowed unless it has escapes.
pub(super) fn unescape(text: &str, at: usize) -> Cow<'_, str> {
    let start = at + 1;
    let end = scan::plain_end(text.as_bytes(), start);
    if text.as_bytes()[end] == b'"' {
        Cow::Borrowed(&text[start..end])
    } else {
        Cow::Owned(Chars { text, at: start }.collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn how_keys_begin_orders_them_as_their_code_units_do(
            left in "[a-c\"\\\\\u{0}é\u{e000}\u{ffff}😀]{0,10}",
            right in "[a-c\"\\\\\u{0}é\u{e000}\u{ffff}😀]{0,10}",
            tail in "[a-c\"]{0,9}",
        ) {
            let key = |text: &str| serde_json::to_string(text).expect("text is JSON");
            let text = format!("{}{}{tail}", key(&left), key(&right));
            let second = key(&left).len();
            let (a, b) = ((0, start(&text, 0)), (second, start(&text, second)));
            let expected = left.encode_utf16().cmp(right.encode_utf16());
            prop_assert_eq!(known_keys(&text, a, b), expected);
            prop_assert_eq!(keys(&text, 0, second), expected);
        }
    }

    #[test]
    fn short_plain_keys_are_told_apart_by_how_they_begin() {
        let text = r#"{"a":1,"ab":2,"b":3,"latitude":4,"longitude":5}"#;
        let starts: Vec<_> = text
            .match_indices(['{', ','])
            .map(|(at, _)| start(text, at + 1))
            .collect();
        assert!(starts.is_sorted_by(|a, b| a < b) && !starts.contains(&UNTOLD));
    }
}
