//! The hash of a body by what it means: JSON by its canonical form, a form by its parts, anything else by its media type and
//! bytes. It decodes nothing and knows no header but the media type.

mod multipart;

use crate::canonical::{Document, Selection};
use crate::fingerprint::Fingerprint;

/// The hash of a body: JSON without the fields that do not count, `multipart/form-data` by its parts and not by what
/// stands between them, anything else byte for byte. What says it is JSON or a form and cannot be read as one counts as
/// bytes. A media type is in lower case and has no parameters; none means JSON.
///
/// ```
/// use hapax_core::canonical::Selection;
/// use hapax_core::content::hash;
///
/// let all = Selection::default();
/// let json = hash("application/json", br#"{"a":1,"b":2}"#, &all);
/// assert_eq!(json, hash("", br#"{ "b": 2, "a": 1.0 }"#, &all));
/// assert_ne!(json, hash("text/plain", br#"{"a":1,"b":2}"#, &all));
/// ```
#[must_use]
pub fn hash(media_type: &str, body: &[u8], selection: &Selection) -> Fingerprint {
    if is_json(media_type)
        && let Ok(document) = Document::parse(body)
    {
        return Fingerprint::from_bytes(document.sha256(selection));
    }
    if is_form(media_type)
        && let Some(hash) = multipart::hash(body)
    {
        return hash;
    }
    hash_bytes(media_type, body)
}

/// The hash of a body byte for byte.
#[must_use]
pub fn hash_bytes(media_type: &str, body: &[u8]) -> Fingerprint {
    Fingerprint::of_parts(&[media_type.as_bytes(), body])
}

/// Whether a body of this media type is a form of several parts.
#[must_use]
pub fn is_form(media_type: &str) -> bool {
    media_type == multipart::MEDIA_TYPE
}

/// The boundary that the first line of a form says it has.
#[must_use]
pub fn boundary(body: &[u8]) -> Option<&[u8]> {
    multipart::boundary(body)
}

/// Whether a body of this media type is JSON.
#[must_use]
pub fn is_json(media_type: &str) -> bool {
    media_type.is_empty() || media_type == "application/json" || media_type.ends_with("+json")
}
