//! The key in the `Idempotency-Key` header: bare, or an RFC 8941 string.

use hapax_core::{Invalid, Key};
use http::{HeaderMap, HeaderValue};

use super::IDEMPOTENCY_KEY;

/// Why the header is not a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// The header came more than once: which one counts is anybody's guess.
    Repeated,
    /// The value is not a key, for this reason.
    Malformed(String),
    /// The value is bare where only a quoted string is taken.
    Unquoted,
    /// The value has the form of a key that is derived for one principal.
    Reserved,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyError::Repeated => {
                f.write_str("the Idempotency-Key header came more than once; send one")
            }
            KeyError::Malformed(why) => write!(f, "the Idempotency-Key header is not a key: {why}"),
            KeyError::Unquoted => f.write_str(
                "the Idempotency-Key header is not an RFC 8941 string; write it in double quotes",
            ),
            KeyError::Reserved => f.write_str(
                "the Idempotency-Key header has the form of a derived key; send one of your own, or none",
            ),
        }
    }
}

impl std::error::Error for KeyError {}

/// The key these headers carry, if they carry one. `"k"` and `k` are the same key.
///
/// ```
/// use hapax::layer::parse_key;
/// use http::HeaderMap;
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(parse_key(&headers)?, None);
/// headers.insert("idempotency-key", r#""order-\"7\"""#.parse().unwrap());
/// assert_eq!(parse_key(&headers)?.unwrap().as_str(), r#"order-"7""#);
/// headers.insert("idempotency-key", "two words".parse().unwrap());
/// assert!(parse_key(&headers).is_err());
/// # Ok::<(), hapax::layer::KeyError>(())
/// ```
///
/// # Errors
/// [`KeyError`] when the header is there and not exactly one key of 1 to 255 visible ASCII characters.
pub fn parse_key(headers: &HeaderMap) -> Result<Option<Key>, KeyError> {
    value_of(headers)?.map(key_of).transpose()
}

/// Like [`parse_key`], taking only a quoted string, as the IETF draft has it.
///
/// ```
/// use hapax::layer::{KeyError, parse_key_strictly};
/// use http::HeaderMap;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("idempotency-key", "\"order-7\"".parse().unwrap());
/// assert_eq!(parse_key_strictly(&headers)?.unwrap().as_str(), "order-7");
/// headers.insert("idempotency-key", "order-7".parse().unwrap());
/// assert_eq!(parse_key_strictly(&headers), Err(KeyError::Unquoted));
/// # Ok::<(), KeyError>(())
/// ```
///
/// # Errors
/// Those of [`parse_key`], and [`KeyError::Unquoted`].
pub fn parse_key_strictly(headers: &HeaderMap) -> Result<Option<Key>, KeyError> {
    let value = value_of(headers)?;
    let quoted = |value: &HeaderValue| value.as_bytes().trim_ascii_start().starts_with(b"\"");
    if value.is_some_and(|value| !quoted(value)) {
        return Err(KeyError::Unquoted);
    }
    value.map(key_of).transpose()
}

fn value_of(headers: &HeaderMap) -> Result<Option<&HeaderValue>, KeyError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(KeyError::Repeated);
    }
    Ok(Some(value))
}

fn key_of(value: &HeaderValue) -> Result<Key, KeyError> {
    let malformed = |why: &str| KeyError::Malformed(why.to_owned());
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| malformed("it holds bytes that are not ASCII"))?;
    let text = text.trim_matches([' ', '\t']);
    let key = if text.starts_with('"') {
        let item: sfv::Item = sfv::Parser::new(text)
            .parse()
            .map_err(|_| malformed("it begins with a quote but is not a quoted string"))?;
        match item.bare_item {
            sfv::BareItem::String(quoted) => Key::new(quoted.as_str()),
            _other => return Err(malformed("it is not a string")),
        }
    } else {
        Key::new(text)
    };
    key.map_err(|invalid: Invalid| KeyError::Malformed(invalid.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Option<Key>, KeyError> {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_bytes(bytes).unwrap());
        parse_key(&headers)
    }

    #[test]
    fn bare_and_quoted_keys_are_the_same_key() {
        assert_eq!(parse(b"abc").unwrap(), parse(b"\"abc\"").unwrap());
        assert_eq!(parse(b"\"a\\\\b\"").unwrap().unwrap().as_str(), "a\\b");
    }

    #[test]
    fn what_is_not_one_visible_ascii_word_is_refused() {
        for bytes in [
            &b""[..],
            b"  ",
            b"a b",
            b"\"a",
            b"\"a\"b",
            b"\"\"",
            b"caf\xe9",
            "é".as_bytes(),
            &[b'k'; 256],
        ] {
            assert!(parse(bytes).is_err(), "{bytes:?}");
        }
        assert!(parse(&[b'k'; 255]).is_ok());
    }

    #[test]
    fn two_headers_are_refused_even_if_they_agree() {
        let mut headers = HeaderMap::new();
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("k"));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("k"));
        assert_eq!(parse_key(&headers), Err(KeyError::Repeated));
    }
}
