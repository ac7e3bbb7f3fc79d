//! The sha256 of content, as the lower-case hex that names its object.

use std::fmt;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

/// The sha256 of content.
///
/// ```
/// use hapax_effects::download::ContentHash;
///
/// assert!(ContentHash::parse(&"AB".repeat(32)).is_some(), "upper case is read, lower case is kept");
/// assert!(ContentHash::parse("../../etc").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash(String);

impl ContentHash {
    /// The hash that `text` writes in 64 hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        hex.then(|| Self(text.to_ascii_lowercase()))
    }

    pub(super) fn of(digest: &[u8]) -> Self {
        Self(HEXLOWER.encode(digest))
    }

    /// The 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first two digits: the folder of the object.
    #[must_use]
    pub fn shelf(&self) -> &str {
        &self.0[..2]
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ContentHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not 64 hex digits"))
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        hash.0
    }
}
