//! The two homes of entries, with the same tables: one for real, one to try things on.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;

/// Which of the two homes. It is a word of ours and never a caller's text, so it can name a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Schema {
    /// For real.
    Pkm,
    /// To try things on.
    PkmTest,
}

impl Schema {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pkm, Self::PkmTest];

    /// The home that the test mode points at.
    #[must_use]
    pub const fn of_test_mode(is_test_mode: bool) -> Self {
        if is_test_mode {
            Self::PkmTest
        } else {
            Self::Pkm
        }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pkm => "pkm",
            Self::PkmTest => "pkm_test",
        }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Schema {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|schema| schema.as_str() == text)
            .ok_or_else(|| Invalid::new("schema", "is neither 'pkm' nor 'pkm_test'"))
    }
}
