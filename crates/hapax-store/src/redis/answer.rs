//! What the scripts answer, read. An answer of another shape is none.

use std::collections::HashMap;

use hapax_core::{Error, Kind, Time};
use redis::Value;

/// What the swap script did.
pub(super) enum Swapped {
    Written,
    /// Nothing was written: this is stored, or nothing.
    Stored(HashMap<String, Vec<u8>>),
}

/// The server's time at the beginning of an answer: seconds and microseconds.
pub(super) fn time(answer: &Value) -> Option<Time> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let number = |at: usize| -> Option<i64> {
        match parts.get(at)? {
            Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    };
    Some(Time::from_ms(number(0)? * 1000 + number(1)? / 1000))
}

/// What follows the time in the answer of the swap script.
pub(super) fn swapped(answer: Value) -> Option<Swapped> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let mut parts = parts.into_iter().skip(2);
    match (parts.next()?, parts.next()) {
        (Value::Int(1), None) => Some(Swapped::Written),
        (Value::Int(0), Some(stored)) => Some(Swapped::Stored(fields(stored)?)),
        (_, _) => None,
    }
}

/// The fields of a hash; none if there is no such hash.
pub(super) fn fields(answer: Value) -> Option<HashMap<String, Vec<u8>>> {
    let pairs: Vec<(Value, Value)> = match answer {
        Value::Map(pairs) => pairs,
        Value::Array(flat) => {
            let mut flat = flat.into_iter();
            let mut pairs = Vec::with_capacity(flat.len() / 2);
            while let Some(name) = flat.next() {
                pairs.push((name, flat.next()?));
            }
            pairs
        }
        _ => return None,
    };
    let text = |value: Value| match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    };
    pairs
        .into_iter()
        .map(|(name, value)| Some((String::from_utf8(text(name)?).ok()?, text(value)?)))
        .collect()
}

/// Three counts.
pub(super) fn counts(answer: &Value) -> Option<[usize; 3]> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let count = |value: &Value| match value {
        Value::Int(count) => usize::try_from(*count).ok(),
        _ => None,
    };
    let counts: Option<Vec<usize>> = parts.iter().map(count).collect();
    counts?.try_into().ok()
}

/// The error for an answer of another shape.
pub(super) fn odd(operation: &'static str) -> Error {
    Error::new(Kind::OutcomeUnknown, operation).because("its answer has another shape")
}
