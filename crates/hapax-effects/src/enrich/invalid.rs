//! A name or a list that is not one. It is a caller's mistake, told before anything is sent.

use std::fmt;

/// What was given is not what it should be.
///
/// ```
/// let refused = hapax_effects::enrich::FileId::new("").unwrap_err();
/// assert_eq!(refused.to_string(), "file id is not 1 to 2048 bytes long");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalid {
    what: &'static str,
    why: &'static str,
}

impl Invalid {
    pub(super) const fn new(what: &'static str, why: &'static str) -> Self {
        Self { what, why }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.why)
    }
}

impl std::error::Error for Invalid {}
