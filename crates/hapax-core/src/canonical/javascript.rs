//! The verify-only profile `js-sorted`: keys by UTF-16 units, each value through
//! `JSON.stringify`, keys put between quotes as they are. Also the parts of `JSON.stringify`
//! that `thorbis16` needs. Not a general stringify: input comes from JSON text only.

use super::number;
use super::order;
use super::reject::{Reason, Reject};
use super::tree::{self, Dialect, Text, Value};

pub(super) fn canonical(input: &[u8]) -> Result<Vec<u8>, Reject> {
    let mut out = Vec::with_capacity(input.len());
    write(
        &tree::parse(input, Dialect::JavaScript)?,
        Keys::Raw,
        &mut out,
    )?;
    Ok(out)
}

/// How keys are written.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    /// As they are; refused where that would not be the key in JSON.
    Raw,
    /// As `JSON.stringify` does.
    Escaped,
}

/// Writes the members in the order in which they are.
pub(super) fn write(value: &Value<'_>, keys: Keys, out: &mut Vec<u8>) -> Result<(), Reject> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Integer(literal) => out.extend_from_slice(literal.as_bytes()),
        Value::Double(double) if !double.is_finite() => out.extend_from_slice(b"null"),
        Value::Double(double) => out.extend_from_slice(number::ecmascript(*double).as_bytes()),
        Value::Text(text) => string(text, out),
        Value::Array(elements) => {
            out.push(b'[');
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write(element, keys, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for (place, (name, member)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                match keys {
                    Keys::Raw => raw_key(name, out)?,
                    Keys::Escaped => string(name, out),
                }
                out.push(b':');
                write(member, keys, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn raw_key(name: &Text, out: &mut Vec<u8>) -> Result<(), Reject> {
    if name.lone {
        return Err(Reject::new(Reason::LoneSurrogate, name.offset()));
    }
    if name
        .wtf8
        .iter()
        .any(|byte| matches!(byte, 0..=0x1F | b'"' | b'\\'))
    {
        return Err(Reject::new(Reason::KeyNeedsEscape, name.offset()));
    }
    out.push(b'"');
    out.extend_from_slice(&name.wtf8);
    out.push(b'"');
    Ok(())
}

/// A string as `JSON.stringify` writes it: lone surrogates as `\udXXX`.
fn string(text: &Text, out: &mut Vec<u8>) {
    out.push(b'"');
    for code in order::code_points(&text.wtf8) {
        match char::from_u32(code) {
            Some(char) => out.extend_from_slice(super::scan::escaped(char, &mut [0; 6])),
            None => out.extend_from_slice(format!("\\u{code:04x}").as_bytes()),
        }
    }
    out.push(b'"');
}
