//! The names of the canonical forms. What each form is stands in the files of the writers.

use std::fmt;
use std::str::FromStr;

/// A canonical form of JSON. Only [`Hcj1`](Self::Hcj1) makes new hashes; the others verify
/// hashes that older snippets made.
///
/// ```
/// use hapax_core::canonical::Profile;
///
/// assert_eq!("py-json".parse(), Ok(Profile::PyJson));
/// assert_eq!(Profile::Hcj1.to_string(), "hcj-1");
/// assert!("jcs".parse::<Profile>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// RFC 8785 with exact integers.
    #[default]
    Hcj1,
    /// Python's `json.dumps` with sorted keys, in ASCII.
    PyJson,
    /// The same with `ensure_ascii=False`.
    PyJsonUtf8,
    /// JavaScript, keys sorted and written unescaped.
    JsSorted,
    /// JavaScript, volatile fields dropped and arrays sorted; 16 hex digits.
    Thorbis16,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 5] = [
        Self::Hcj1,
        Self::PyJson,
        Self::PyJsonUtf8,
        Self::JsSorted,
        Self::Thorbis16,
    ];

    /// The name in data and config.
    ///
    /// ```
    /// assert_eq!(hapax_core::canonical::Profile::Thorbis16.name(), "thorbis16");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hcj1 => "hcj-1",
            Self::PyJson => "py-json",
            Self::PyJsonUtf8 => "py-json-utf8",
            Self::JsSorted => "js-sorted",
            Self::Thorbis16 => "thorbis16",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
            .ok_or(UnknownProfile)
    }
}

/// No profile has that name.
///
/// ```
/// let refusal = "md5".parse::<hapax_core::canonical::Profile>().unwrap_err();
/// assert!(refusal.to_string().contains("hcj-1"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownProfile;

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown profile; use hcj-1, py-json, py-json-utf8, js-sorted or thorbis16")
    }
}

impl std::error::Error for UnknownProfile {}
