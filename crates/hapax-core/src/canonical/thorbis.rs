//! The verify-only profile `thorbis16`: volatile fields dropped at every depth, every array
//! sorted by the string form of its elements, objects rebuilt with sorted keys, then
//! `JSON.stringify`. Not for new data: sorting loses the order of arrays, and all objects look
//! alike to that sort.

use super::javascript::{self, Keys};
use super::number;
use super::order;
use super::reject::{Reason, Reject};
use super::tree::{self, Dialect, Text, Value};

const DROPPED: [&[u8]; 7] = [
    b"created_at",
    b"updated_at",
    b"timestamp",
    b"_metadata",
    b"request_id",
    b"trace_id",
    b"session_id",
];

/// Array indices end here; larger numbers are ordinary keys.
const INDEX_MAX: u64 = u32::MAX as u64 - 1;

pub(super) fn canonical(input: &[u8]) -> Result<Vec<u8>, Reject> {
    let mut out = Vec::with_capacity(input.len());
    let value = rebuild(tree::parse(input, Dialect::JavaScript)?)?.value;
    javascript::write(&value, Keys::Escaped, &mut out)?;
    Ok(out)
}

/// A value after the snippet's normalisation, and how `String()` takes it.
struct Rebuilt<'a> {
    value: Value<'a>,
    conversion: Conversion,
}

/// What `String(value)` does.
#[derive(Clone)]
enum Conversion {
    /// The text, as generalised UTF-8.
    Text(Vec<u8>),
    /// `null`: its own text alone, nothing inside an array.
    Null,
    /// An object that still has `Object.prototype.toString`.
    Object,
    /// It throws, or the text would depend on an array that became a prototype.
    /// The offset is that of the key to blame.
    Throws(usize),
}

fn rebuild(value: Value<'_>) -> Result<Rebuilt<'_>, Reject> {
    let conversion = match value {
        Value::Array(elements) => return array(elements),
        Value::Object(members) => return object(members),
        Value::Null => Conversion::Null,
        Value::Bool(bool) => Conversion::Text(bool.to_string().into_bytes()),
        Value::Integer(literal) => Conversion::Text(literal.as_bytes().to_vec()),
        Value::Double(double) => Conversion::Text(number::ecmascript(double).into_bytes()),
        Value::Text(ref text) => Conversion::Text(text.wtf8.to_vec()),
    };
    Ok(Rebuilt { value, conversion })
}

fn array(elements: Vec<Value<'_>>) -> Result<Rebuilt<'_>, Reject> {
    let mut rebuilt = Vec::with_capacity(elements.len());
    for element in elements {
        rebuilt.push(rebuild(element)?);
    }
    if rebuilt.len() > 1 {
        for element in &rebuilt {
            if let Conversion::Throws(offset) = element.conversion {
                return Err(Reject::new(Reason::NotSortable, offset));
            }
        }
        rebuilt.sort_by(|a, b| order::wtf8(sort_text(&a.conversion), sort_text(&b.conversion)));
    }
    let mut joined = Vec::new();
    let mut throws = None;
    for (place, element) in rebuilt.iter().enumerate() {
        if place > 0 {
            joined.push(b',');
        }
        match &element.conversion {
            Conversion::Null => {}
            Conversion::Throws(offset) => throws = throws.or(Some(*offset)),
            other => joined.extend_from_slice(sort_text(other)),
        }
    }
    let conversion = throws.map_or(Conversion::Text(joined), Conversion::Throws);
    // Not collected in place, which would keep the larger allocation.
    let mut values = Vec::with_capacity(rebuilt.len());
    values.extend(rebuilt.into_iter().map(|element| element.value));
    let value = Value::Array(values);
    Ok(Rebuilt { value, conversion })
}

fn sort_text(conversion: &Conversion) -> &[u8] {
    match conversion {
        Conversion::Text(text) => text,
        Conversion::Null => b"null",
        Conversion::Object => b"[object Object]",
        Conversion::Throws(_) => b"",
    }
}

fn object(members: Vec<(Text, Value<'_>)>) -> Result<Rebuilt<'_>, Reject> {
    let mut conversion = Conversion::Object;
    let mut rebuilt = Vec::with_capacity(members.len());
    for (key, value) in members {
        if DROPPED.contains(&&*key.wtf8) {
            continue;
        }
        let Rebuilt {
            value,
            conversion: inner,
        } = rebuild(value)?;
        match &*key.wtf8 {
            // Assigning to it sets the prototype, or does nothing for a primitive value.
            b"__proto__" => match (&value, inner) {
                (Value::Object(_), Conversion::Throws(offset)) => {
                    conversion = Conversion::Throws(offset);
                }
                (Value::Null | Value::Array(_), _) => conversion = Conversion::Throws(key.offset()),
                _ => {}
            },
            b"toString" => {
                conversion = Conversion::Throws(key.offset());
                rebuilt.push((key, value));
            }
            _ => rebuilt.push((key, value)),
        }
    }
    // The members are sorted, but ECMAScript lists array indices first and by number.
    rebuilt.sort_by_key(|(key, _)| array_index(&key.wtf8).unwrap_or(u64::MAX));
    Ok(Rebuilt {
        value: Value::Object(rebuilt),
        conversion,
    })
}

fn array_index(key: &[u8]) -> Option<u64> {
    let canonical = key == b"0" || (!key.starts_with(b"0") && key.len() <= 10);
    if key.is_empty() || !canonical || !key.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = key
        .iter()
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    (number <= INDEX_MAX).then_some(number)
}
