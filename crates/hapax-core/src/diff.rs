//! What changed between two JSON bodies, as short lines for people: `path: 'old' → 'new'`.
//! It is no patch format: values are cut, secrets are masked, and the list has an end.

mod mask;
mod paths;
mod show;
mod walk;

use std::fmt;

use crate::canonical::{Document, Path, Selection, Sha256Sink, Sink};

pub use mask::{masked, masked_query};
pub use paths::{Kind, Paths, paths};

/// What to compare and how much of it to show.
///
/// ```
/// use hapax_core::diff::Options;
///
/// let options = Options { masked: vec!["customer.phone".parse()?], ..Options::default() };
/// assert_eq!((options.changes_max, options.value_chars_max, options.values), (50, 256, true));
/// # Ok::<(), hapax_core::canonical::InvalidPath>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The top-level members left out and the arrays whose order does not count.
    pub selection: Selection,
    /// Values at and beneath these paths are shown as `'***'`. Members with a telling name
    /// (password, token, card, …) are masked in any case. An absent side stays `(absent)`.
    pub masked: Vec<Path>,
    /// Without values only paths are shown: for a reader who may not see the first body.
    pub values: bool,
    /// How many changes are listed; the last line then counts the rest.
    pub changes_max: usize,
    /// How many characters of a path or a value are shown.
    pub value_chars_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            masked: Vec::new(),
            values: true,
            changes_max: 50,
            value_chars_max: 256,
        }
    }
}

/// One line of a diff. `Display` writes it as the API shows it.
///
/// ```
/// use hapax_core::diff::Change;
///
/// let added = Change::Value { path: "a".into(), old: None, new: Some("1".into()) };
/// assert_eq!(added.to_string(), "a: (absent) → '1'");
/// assert_eq!(Change::Path("a".into()).to_string(), "a");
/// assert_eq!(Change::More(12).to_string(), "… and 12 more");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A value differs; `None` stands for an absent member or element.
    Value {
        /// Where, such as `items[2].qty`; `body` for the document itself.
        path: String,
        /// The value in the first body, cut and masked.
        old: Option<String>,
        /// The value in the second body, cut and masked.
        new: Option<String>,
    },
    /// A value differs, and neither side may be shown.
    Path(String),
    /// So many further changes are not listed.
    More(usize),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { path, old, new } => {
                let side = |f: &mut fmt::Formatter<'_>, value: &Option<String>| match value {
                    Some(value) => write!(f, "'{value}'"),
                    None => f.write_str("(absent)"),
                };
                write!(f, "{path}: ")?;
                side(f, old)?;
                f.write_str(" → ")?;
                side(f, new)
            }
            Self::Path(path) => f.write_str(path),
            Self::More(count) => write!(f, "… and {count} more"),
        }
    }
}

/// The changes from `old` to `new` in the order of the old body, additions of an object last.
///
/// Values equal in hcj-1 form are no change, nor is the order of keys. Arrays are compared
/// element by element; in an unordered array equal elements cancel out first. A body that the
/// JSON rules refuse is compared as bytes, in one line. Time and memory grow with the size of
/// the bodies, not with its square.
///
/// ```
/// use hapax_core::diff::{Options, diff};
///
/// let lines = |old: &str, new: &str| -> Vec<String> {
///     let changes = diff(old.as_bytes(), new.as_bytes(), &Options::default());
///     changes.iter().map(ToString::to_string).collect()
/// };
/// assert_eq!(
///     lines(r#"{"a":{"b":"x"},"n":1}"#, r#"{"n":1.0,"a":{"b":"y"},"token":"t"}"#),
///     ["a.b: 'x' → 'y'", "token: (absent) → '***'"],
/// );
/// assert!(lines("not json", "{}")[0].starts_with("body: '8 bytes, sha256 "));
/// ```
#[must_use]
pub fn diff(old: &[u8], new: &[u8], options: &Options) -> Vec<Change> {
    if old == new || options.changes_max == 0 {
        return Vec::new();
    }
    match (Document::parse_whole(old), Document::parse_whole(new)) {
        (Ok(old), Ok(new)) => walk::changes(&old, &new, options),
        (Err(_), _) | (_, Err(_)) => {
            let path = show::BODY.to_owned();
            let change = if options.values {
                Change::Value {
                    path,
                    old: Some(digest(old)),
                    new: Some(digest(new)),
                }
            } else {
                Change::Path(path)
            };
            vec![change]
        }
    }
}

fn digest(body: &[u8]) -> String {
    let mut sink = Sha256Sink::default();
    sink.put(body);
    let hex = data_encoding::HEXLOWER.encode(&sink.finish());
    format!("{} bytes, sha256 {}", body.len(), &hex[..16])
}
