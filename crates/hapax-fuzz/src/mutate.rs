//! Changes inputs a little: bits, bytes, pieces of the same and of other inputs, numbers and words that parsers trip over.

use hapax_check::Dice;

/// No input grows past this.
pub const BYTES_MAX: usize = 16 * 1024;

/// What parsers trip over.
const WORDS: [&[u8]; 40] = [
    b"\0",
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\u0000",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b":",
    b",",
    b"null",
    b"-0",
    b"1e400",
    b"1e-7",
    b"9007199254740993",
    b"0.1",
    b"From a@b Thu Jan  1 00:00:00 1970\n",
    b">From ",
    b"Content-Length: 3\n",
    b"--b\r\n",
    b"=?utf-8?q?=41?=",
    b"=3D",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"ffffffffffffffff",
    b"re: fwd: [x] ",
    b"http://",
    b"%2e%2E/",
    b"xn--",
    b"?utm_source=a&b=c",
    b"{\"custom_id\":\"t1:pkm:1:1\"}",
];

/// `input` with one to eight changes; `other` is another input to take from.
#[must_use]
pub fn mutated(input: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=dice.below(8) {
        change(&mut bytes, other, dice);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = dice.index(bytes.len() + 1);
    let end = (at + dice.index(16)).min(bytes.len());
    match dice.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        1 if at < bytes.len() => bytes[at] = dice.next_u64().to_le_bytes()[0],
        2 => drop(bytes.drain(at..end)),
        3 => {
            let word = WORDS[dice.index(WORDS.len())];
            bytes.splice(at..at, word.iter().copied());
        }
        4 => {
            let word = WORDS[dice.index(WORDS.len())];
            bytes.splice(at..end, word.iter().copied());
        }
        5 => {
            let piece = bytes[at..end].to_vec();
            let to = dice.index(bytes.len() + 1);
            bytes.splice(to..to, piece);
        }
        6 => {
            let from = dice.index(other.len() + 1);
            let to = (from + dice.index(64)).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        7 => {
            // Depth and length: a piece many times.
            let piece = bytes[at..end].repeat(1 + dice.index(200));
            bytes.splice(at..at, piece);
            bytes.truncate(BYTES_MAX);
        }
        _ => bytes.insert(at, dice.next_u64().to_le_bytes()[0]),
    }
}
