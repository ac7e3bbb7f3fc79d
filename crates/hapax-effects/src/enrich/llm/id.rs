//! The provider's names for files and batches. They are opaque: kept as they came, and never taken apart. Each stands in a
//! URL as one segment, so none can hold what divides a URL.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::enrich::Invalid;

/// How long an id may be. LiteLLM makes some of more than 256 characters.
pub const ID_BYTES_MAX: usize = 2048;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $word:literal,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes it as it came.
            ///
            /// # Errors
            /// [`Invalid`] when it cannot stand in a URL or is too long.
            pub fn new(id: impl Into<String>) -> Result<Self, Invalid> {
                checked($word, id.into()).map(Self)
            }

            /// The id as it came.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(id: String) -> Result<Self, Invalid> {
                Self::new(id)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    )*};
}

ids! {
    /// A file at the provider.
    ///
    /// ```
    /// use hapax_effects::enrich::FileId;
    ///
    /// assert_eq!(FileId::new("file-bGl0ZWxsbQ==")?.as_str(), "file-bGl0ZWxsbQ==");
    /// assert!(FileId::new("..").is_err(), "it would lead elsewhere");
    /// # Ok::<(), hapax_effects::enrich::Invalid>(())
    /// ```
    FileId "file id",
    /// A batch at the provider.
    ///
    /// ```
    /// assert!(hapax_effects::enrich::BatchId::new("").is_err());
    /// ```
    BatchId "batch id",
}

fn checked(what: &'static str, id: String) -> Result<String, Invalid> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(Invalid::new(what, "is not 1 to 2048 bytes long"));
    }
    let divides = |letter: char| letter.is_control() || r"/\?#@".contains(letter);
    if id == "." || id.contains("..") || id.chars().any(divides) {
        return Err(Invalid::new(what, "cannot stand in a URL"));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_opaque_and_holds_nothing_that_divides_a_url() {
        let long = "x".repeat(ID_BYTES_MAX);
        for id in [
            "file-1",
            "bGl0ZWxsbQ==",
            "a.b",
            "gs%3A%2F%2Fbucket",
            "a b",
            "日本",
            "a:b;c,d",
            &long,
        ] {
            assert_eq!(FileId::new(id).unwrap().as_str(), id);
            assert_eq!(BatchId::new(id).unwrap().as_str(), id);
        }
        let over = "x".repeat(ID_BYTES_MAX + 1);
        for id in [
            "", ".", "..", "a..b", "../x", "a/b", "//evil", "a\\b", "x?y", "x#y", "@evil",
            ":1@evil", "a\nb", &over,
        ] {
            assert!(FileId::new(id).is_err(), "{id}");
            assert!(BatchId::new(id).is_err(), "{id}");
            let stored = serde_json::json!(id);
            assert!(serde_json::from_value::<FileId>(stored).is_err(), "{id}");
        }
    }
}
