//! The verify-only profiles `py-json` and `py-json-utf8`: what Python's
//! `json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))` writes, in ASCII or in
//! UTF-8. Not a general Python JSON writer: input comes from JSON text only.

use super::number;
use super::order;
use super::reject::{Reason, Reject};
use super::tree::{self, Dialect, Text, Value};

/// With `ascii` everything beyond ASCII is escaped; without it a lone surrogate is refused,
/// because Python cannot encode it.
pub(super) fn canonical(input: &[u8], ascii: bool) -> Result<Vec<u8>, Reject> {
    let mut out = Vec::with_capacity(input.len());
    write(tree::parse(input, Dialect::Python)?, ascii, &mut out)?;
    Ok(out)
}

fn write(value: Value<'_>, ascii: bool, out: &mut Vec<u8>) -> Result<(), Reject> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Integer(literal) => out.extend_from_slice(literal.as_bytes()),
        Value::Double(double) => out.extend_from_slice(number::python(double).as_bytes()),
        Value::Text(text) => string(&text, ascii, out)?,
        Value::Array(elements) => {
            out.push(b'[');
            for (place, element) in elements.into_iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write(element, ascii, out)?;
            }
            out.push(b']');
        }
        Value::Object(mut members) => {
            // Python compares code points, and so do the bytes of generalised UTF-8.
            members.sort_by(|(a, _), (b, _)| a.wtf8.cmp(&b.wtf8));
            out.push(b'{');
            for (place, (key, member)) in members.into_iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                string(&key, ascii, out)?;
                out.push(b':');
                write(member, ascii, out)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn string(text: &Text, ascii: bool, out: &mut Vec<u8>) -> Result<(), Reject> {
    if text.lone && !ascii {
        return Err(Reject::new(Reason::LoneSurrogate, text.offset()));
    }
    out.push(b'"');
    for code in order::code_points(&text.wtf8) {
        match char::from_u32(code) {
            Some(char) if code < 0x7F || !ascii => {
                out.extend_from_slice(super::scan::escaped(char, &mut [0; 6]));
            }
            Some(_) | None => {
                let (first, second) = order::split(code);
                for unit in std::iter::once(first).chain(second) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
    out.push(b'"');
    Ok(())
}
