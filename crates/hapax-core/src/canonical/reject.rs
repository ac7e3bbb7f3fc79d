//! Why a text was refused, and at which byte. It holds no part of the text itself, so a
//! refusal may be logged.

use std::fmt;

/// Why a JSON text was refused.
///
/// The first six are the input rules of the API; the rest belong to the verify-only profiles.
///
/// ```
/// use hapax_core::canonical::{Reason, check};
///
/// assert!(check(br#"{"a":1}"#).is_ok());
/// let refusal = check(br#"{"a":1,"a":2}"#).unwrap_err();
/// assert_eq!(refusal.reason, Reason::DuplicateKey);
/// assert_eq!(refusal.reason.as_str(), "duplicate_key");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// One object holds the same key twice, compared after unescaping.
    DuplicateKey,
    /// A `\uD800`–`\uDFFF` escape without its other half.
    LoneSurrogate,
    /// A number beyond the range of a double.
    NumberOutOfRange,
    /// More than [`DEPTH_MAX`](super::DEPTH_MAX) containers inside each other.
    TooDeep,
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// The text does not follow the JSON grammar.
    Syntax,
    /// The text has 4 GiB or more, which the index cannot address.
    TooLong,
    /// `js-sorted` only: the old snippet writes keys raw, so this key would not be JSON.
    KeyNeedsEscape,
    /// `thorbis16` only: the old snippet throws when it sorts an array with this object,
    /// or the order would depend on an array used as a prototype.
    NotSortable,
}

impl Reason {
    /// The word used in `details.reason`.
    ///
    /// ```
    /// assert_eq!(hapax_core::canonical::Reason::TooDeep.as_str(), "too_deep");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateKey => "duplicate_key",
            Self::LoneSurrogate => "lone_surrogate",
            Self::NumberOutOfRange => "number_out_of_range",
            Self::TooDeep => "too_deep",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::Syntax => "syntax",
            Self::TooLong => "too_long",
            Self::KeyNeedsEscape => "key_needs_escape",
            Self::NotSortable => "not_sortable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal: the reason, what was seen, and the byte where it was seen.
///
/// ```
/// let refusal = hapax_core::canonical::check(b"[1,]").unwrap_err();
/// assert_eq!(refusal.offset, 3);
/// assert_eq!(refusal.to_string(), "expected a value at byte 3");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// The rule that was broken.
    pub reason: Reason,
    /// The byte offset in the input.
    pub offset: usize,
    what: &'static str,
}

impl Reject {
    pub(super) const fn new(reason: Reason, offset: usize) -> Self {
        let what = match reason {
            Reason::DuplicateKey => "the same key twice in one object",
            Reason::LoneSurrogate => "a surrogate without its other half",
            Reason::NumberOutOfRange => "a number beyond the range of a double",
            Reason::TooDeep => "more than 128 containers inside each other",
            Reason::InvalidUtf8 => "bytes that are not UTF-8",
            Reason::Syntax => "not JSON",
            Reason::TooLong => "a text of 4 GiB or more",
            Reason::KeyNeedsEscape => "a key that js-sorted would write unescaped",
            Reason::NotSortable => "an object that thorbis16 cannot sort",
        };
        Self {
            reason,
            offset,
            what,
        }
    }

    pub(super) const fn because(reason: Reason, offset: usize, what: &'static str) -> Self {
        Self {
            reason,
            offset,
            what,
        }
    }

    pub(super) const fn syntax(offset: usize, what: &'static str) -> Self {
        Self::because(Reason::Syntax, offset, what)
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for Reject {}
