//! Canonical JSON: one byte form, and so one hash, for every spelling of the same document.
//! It reads text and writes text; it is no general JSON library and keeps no value tree.
//!
//! `hcj-1` is RFC 8785 with one exception: an integer literal that no double equals keeps its
//! digits, because rounding would give two payloads one key. There is no Unicode normalisation.
//! The other [profiles](Profile) reproduce older snippets, to verify hashes that they made.
//!
//! ```
//! use hapax_core::canonical::{self, Profile, Reason};
//!
//! let bytes = canonical::canonical(br#"{"b":1.0,"a":9007199254740993}"#, Profile::Hcj1)?;
//! assert_eq!(bytes, br#"{"a":9007199254740993,"b":1}"#);
//!
//! let refusal = canonical::canonical(br#"["\ud800"]"#, Profile::Hcj1).unwrap_err();
//! assert_eq!(refusal.reason, Reason::LoneSurrogate);
//! # Ok::<(), hapax_core::canonical::Reject>(())
//! ```

mod document;
mod index;
mod javascript;
mod number;
mod order;
mod path;
mod profile;
mod python;
mod reject;
mod scan;
mod sink;
mod thorbis;
mod tree;
mod walk;
mod write;

pub use document::{Document, Selection};
pub use path::{InvalidPath, Path};
pub use profile::{Profile, UnknownProfile};
pub use reject::{Reason, Reject};
pub use sink::{Sha256Sink, Sink};

pub(crate) use path::{Routes, descend, is_plain, quoted};
pub(crate) use walk::Node;

/// How many containers may stand inside each other, in every profile.
///
/// ```
/// use hapax_core::canonical::{DEPTH_MAX, Reason, check};
///
/// let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
/// assert!(check(nested(DEPTH_MAX).as_bytes()).is_ok());
/// assert_eq!(check(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err().reason, Reason::TooDeep);
/// ```
pub const DEPTH_MAX: usize = 128;

/// The canonical bytes of a JSON text.
///
/// # Errors
/// What the profile's own parser or writer refuses. For `hcj-1` these are the input rules.
///
/// ```
/// use hapax_core::canonical::{Profile, canonical};
///
/// let text = r#"{"é":70.0}"#.as_bytes();
/// assert_eq!(canonical(text, Profile::Hcj1)?, r#"{"é":70}"#.as_bytes());
/// assert_eq!(canonical(text, Profile::PyJson)?, br#"{"\u00e9":70.0}"#);
/// assert!(canonical(br#"{"a\nb":1}"#, Profile::JsSorted).is_err());
/// # Ok::<(), hapax_core::canonical::Reject>(())
/// ```
pub fn canonical(input: &[u8], profile: Profile) -> Result<Vec<u8>, Reject> {
    match profile {
        Profile::Hcj1 => Ok(Document::parse(input)?.to_vec(&Selection::default())),
        Profile::PyJson => python::canonical(input, true),
        Profile::PyJsonUtf8 => python::canonical(input, false),
        Profile::JsSorted => javascript::canonical(input),
        Profile::Thorbis16 => thorbis::canonical(input),
    }
}

/// The lower-case hex SHA-256 of the canonical bytes; for `thorbis16` its first 16 digits.
///
/// # Errors
/// Those of [`canonical`].
///
/// ```
/// use hapax_core::canonical::{Profile, hash};
///
/// assert_eq!(hash(b"{ }", Profile::Thorbis16)?, "44136fa355b3678a");
/// assert!(hash(b"{,}", Profile::Thorbis16).is_err());
/// # Ok::<(), hapax_core::canonical::Reject>(())
/// ```
pub fn hash(input: &[u8], profile: Profile) -> Result<String, Reject> {
    let digest = if profile == Profile::Hcj1 {
        Document::parse(input)?.sha256(&Selection::default())
    } else {
        let mut sink = Sha256Sink::default();
        sink.put(&canonical(input, profile)?);
        sink.finish()
    };
    let mut hex = data_encoding::HEXLOWER.encode(&digest);
    if profile == Profile::Thorbis16 {
        hex.truncate(16);
    }
    Ok(hex)
}

/// Checks a JSON text against the input rules of the API and nothing more.
///
/// # Errors
/// The first rule broken, and where.
///
/// ```
/// use hapax_core::canonical::{Reason, check};
///
/// assert!(check(br#"{"a":[1,2]}"#).is_ok());
/// assert_eq!(check(b"\xff").unwrap_err().reason, Reason::InvalidUtf8);
/// ```
pub fn check(input: &[u8]) -> Result<(), Reject> {
    Document::parse(input).map(drop)
}

/// Like [`check`], with another limit to the nesting: a document that carries a payload of
/// [`DEPTH_MAX`] is itself deeper than that.
///
/// # Errors
/// Those of [`check`]. `depth_max` is not itself checked: the pass recurses once per container.
///
/// ```
/// use hapax_core::canonical::{DEPTH_MAX, Reason, check_with_depth};
///
/// let payload = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
/// let wrapped = format!(r#"{{"body":{payload}}}"#);
/// assert!(check_with_depth(wrapped.as_bytes(), DEPTH_MAX + 1).is_ok());
/// assert_eq!(check_with_depth(wrapped.as_bytes(), DEPTH_MAX).unwrap_err().reason, Reason::TooDeep);
/// ```
pub fn check_with_depth(input: &[u8], depth_max: usize) -> Result<(), Reject> {
    Document::parse_to_depth(input, depth_max).map(drop)
}
