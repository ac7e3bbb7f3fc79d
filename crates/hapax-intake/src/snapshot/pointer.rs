//! A JSON pointer (RFC 6901): one place in a document.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// A place in a document, such as `/course/id`.
///
/// ```
/// use hapax_intake::snapshot::Pointer;
///
/// let pointer: Pointer = "/a~1b/0".parse()?;
/// assert_eq!(pointer.find(&serde_json::json!({"a/b": [7]})), Some(&7.into()));
/// assert_eq!(pointer.find(&serde_json::json!({})), None);
/// assert!("course/id".parse::<Pointer>().is_err(), "a slash comes first");
/// # Ok::<(), hapax_intake::snapshot::pointer::InvalidPointer>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pointer(String);

impl Pointer {
    /// The longest pointer in bytes.
    pub const BYTES_MAX: usize = 500;

    /// The value at this place.
    #[must_use]
    pub fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        document.pointer(&self.0)
    }

    /// The pointer as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The place of the member `name` of the object at `path`.
    pub(super) fn member(path: &str, name: &str) -> String {
        format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
    }
}

impl FromStr for Pointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Self, InvalidPointer> {
        let escapes = || {
            text.split('~')
                .skip(1)
                .all(|rest| rest.starts_with(['0', '1']))
        };
        let fits = text.starts_with('/') && text.len() <= Self::BYTES_MAX && escapes();
        fits.then(|| Self(text.to_owned())).ok_or(InvalidPointer)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no pointer into a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a JSON pointer begins with '/', has '~' only as ~0 or ~1, and at most 500 bytes")]
pub struct InvalidPointer;
