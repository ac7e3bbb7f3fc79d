//! A small value tree for the verify-only profiles, which must accept what the old snippets
//! accepted: keys twice, lone surrogates, huge numbers. The hcj-1 profile never builds it.

use super::DEPTH_MAX;
use super::reject::{Reason, Reject};
use super::scan::{self, Unit, byte};
use super::{number, order};

/// Whose parser is reproduced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `json.loads`: integers of any size, and the words NaN, Infinity and -Infinity.
    Python,
    /// `JSON.parse`.
    JavaScript,
}

/// Python turns longer integer literals away.
const PYTHON_DIGITS_MAX: usize = 4300;

#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    /// An integer literal, kept by the Python dialect only.
    Integer(&'a str),
    Double(f64),
    Text(Text),
    Array(Vec<Value<'a>>),
    /// Of members with the same key only the last is left; the order is by UTF-16 units.
    Object(Vec<(Text, Value<'a>)>),
}

/// A string that may hold lone surrogates, as generalised UTF-8.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) wtf8: Box<[u8]>,
    offset: u32,
    /// Whether it holds a lone surrogate.
    pub(super) lone: bool,
}

impl Text {
    /// Where the string starts in the input.
    pub(super) const fn offset(&self) -> usize {
        self.offset as usize
    }
}

pub(super) fn parse(input: &[u8], dialect: Dialect) -> Result<Value<'_>, Reject> {
    let text = scan::utf8(input)?;
    let reader = Reader {
        text,
        bytes: input,
        dialect,
    };
    let (value, end) = reader.value(scan::skip_blanks(input, 0), 0)?;
    let rest = scan::skip_blanks(input, end);
    if rest < input.len() {
        return Err(Reject::syntax(rest, "more text after the value"));
    }
    Ok(value)
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    dialect: Dialect,
}

type Read<T> = Result<(T, usize), Reject>;

impl<'a> Reader<'a> {
    fn value(&self, at: usize, depth: usize) -> Read<Value<'a>> {
        match byte(self.bytes, at) {
            b'"' => self.string(at).map(|(text, end)| (Value::Text(text), end)),
            b'{' | b'[' if depth == DEPTH_MAX => Err(Reject::new(Reason::TooDeep, at)),
            b'{' => self.object(at, depth),
            b'[' => self.array(at, depth),
            b'N' | b'I' | b'-' if self.dialect == Dialect::Python => self.python_number(at),
            b'-' | b'0'..=b'9' => self.number(at),
            open => {
                let end = scan::word(self.bytes, at)?;
                let value = match open {
                    b't' => Value::Bool(true),
                    b'f' => Value::Bool(false),
                    _ => Value::Null,
                };
                Ok((value, end))
            }
        }
    }

    fn object(&self, at: usize, depth: usize) -> Read<Value<'a>> {
        let mut members = Vec::new();
        let mut at = scan::skip_blanks(self.bytes, at + 1);
        if byte(self.bytes, at) == b'}' {
            return Ok((Value::Object(members), at + 1));
        }
        loop {
            if byte(self.bytes, at) != b'"' {
                return Err(Reject::syntax(at, "expected a key"));
            }
            let (key, end) = self.string(at)?;
            at = scan::skip_blanks(self.bytes, end);
            if byte(self.bytes, at) != b':' {
                return Err(Reject::syntax(at, "expected a colon"));
            }
            let (value, end) = self.value(scan::skip_blanks(self.bytes, at + 1), depth + 1)?;
            members.push((key, value));
            at = scan::skip_blanks(self.bytes, end);
            match byte(self.bytes, at) {
                b',' => at = scan::skip_blanks(self.bytes, at + 1),
                b'}' => break,
                _ => return Err(Reject::syntax(at, "expected a comma or a closing brace")),
            }
        }
        Ok((Value::Object(last_wins(members)), at + 1))
    }

    fn array(&self, at: usize, depth: usize) -> Read<Value<'a>> {
        let mut at = scan::skip_blanks(self.bytes, at + 1);
        if byte(self.bytes, at) == b']' {
            return Ok((Value::Array(Vec::new()), at + 1));
        }
        // Many small arrays must not hold mostly free places.
        let mut elements = Vec::with_capacity(1);
        loop {
            let (value, end) = self.value(at, depth + 1)?;
            elements.push(value);
            at = scan::skip_blanks(self.bytes, end);
            match byte(self.bytes, at) {
                b',' => at = scan::skip_blanks(self.bytes, at + 1),
                b']' => {
                    elements.shrink_to_fit();
                    return Ok((Value::Array(elements), at + 1));
                }
                _ => return Err(Reject::syntax(at, "expected a comma or a closing bracket")),
            }
        }
    }

    fn string(&self, at: usize) -> Read<Text> {
        let offset = u32::try_from(at).expect("texts of 4 GiB and more were refused before");
        let (mut wtf8, mut lone) = (Vec::new(), false);
        let mut at = at + 1;
        loop {
            let end = scan::plain_end(self.bytes, at);
            wtf8.extend_from_slice(&self.bytes[at..end]);
            at = end;
            match self.bytes.get(at) {
                Some(b'"') => {
                    let wtf8 = wtf8.into_boxed_slice();
                    return Ok((Text { wtf8, offset, lone }, at + 1));
                }
                Some(b'\\') => {
                    let (unit, end) = scan::escape(self.bytes, at)?;
                    match unit {
                        Unit::Char(char) => {
                            wtf8.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        Unit::Lone(unit) => {
                            let [high, low] = unit.to_be_bytes();
                            let middle = 0x80 | (high & 0x0F) << 2 | low >> 6;
                            wtf8.extend_from_slice(&[0xED, middle, 0x80 | low & 0x3F]);
                            lone = true;
                        }
                    }
                    at = end;
                }
                Some(_) => return Err(Reject::syntax(at, "a control character in a string")),
                None => return Err(Reject::syntax(at, "a string without its closing quote")),
            }
        }
    }

    fn number(&self, at: usize) -> Read<Value<'a>> {
        let shape = scan::number(self.bytes, at)?;
        let literal = &self.text[at..shape.end];
        if self.dialect == Dialect::JavaScript || !shape.is_integer() {
            return Ok((Value::Double(number::double(literal)), shape.end));
        }
        if shape.integer_digits > PYTHON_DIGITS_MAX {
            let what = "an integer of more than 4300 digits, which Python refuses";
            return Err(Reject::because(Reason::NumberOutOfRange, at, what));
        }
        let value = Value::Integer(if literal == "-0" { "0" } else { literal });
        Ok((value, shape.end))
    }

    fn python_number(&self, at: usize) -> Read<Value<'a>> {
        let words = [
            ("NaN", f64::NAN),
            ("Infinity", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
        ];
        for (word, value) in words {
            if self.text[at..].starts_with(word) {
                return Ok((Value::Double(value), at + word.len()));
            }
        }
        self.number(at)
    }
}

/// Sorts the members by UTF-16 units and keeps the last of those with the same key.
fn last_wins(mut members: Vec<(Text, Value<'_>)>) -> Vec<(Text, Value<'_>)> {
    members.reverse();
    members.sort_by(|(a, _), (b, _)| order::wtf8(&a.wtf8, &b.wtf8));
    members.dedup_by(|(earlier, _), (kept, _)| earlier.wtf8 == kept.wtf8);
    members.shrink_to_fit();
    members
}
