//! Why a text was not taken in. It quotes no part of the text, so that a refusal may be logged.

use hapax_core::canonical::Reject;
use serde::Serialize;

/// How many faults one refusal names; the last one then says how many more there are.
pub const FAULTS_MAX: usize = 100;

/// One thing that is wrong with a document, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    /// The place, as a JSON pointer; of a missing member, where it should be.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

impl Fault {
    /// The fault `message` at `path`.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

/// A text that was not taken in. The same text is refused again, so a retry does not help.
///
/// ```
/// use hapax_intake::{Refusal, intent::Packet};
///
/// let refusal = Packet::read(br#"{"kind":"intent","kind":"intent"}"#).unwrap_err();
/// assert!(matches!(&refusal, Refusal::BadJson(reject) if reject.reason.as_str() == "duplicate_key"));
/// let refusal = Packet::read(br#"{"kind":"intent","schema_version":"v2"}"#).unwrap_err();
/// assert_eq!(refusal.code(), "unsupported_schema_version");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It is not JSON by the input rules.
    #[error("not readable as JSON: {0}")]
    BadJson(Reject),
    /// It is JSON of another shape than asked for. Every fault is listed, up to [`FAULTS_MAX`].
    #[error("{}", summary(.0))]
    Schema(Vec<Fault>),
    /// It says that it follows a version of the packet that is not known here.
    #[error("schema_version {0} is not known; leave it out or say \"v1\"")]
    UnsupportedVersion(String),
}

impl Refusal {
    /// The code of this refusal in the API.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BadJson(_) => "bad_json",
            Self::Schema(_) => "schema_validation_failed",
            Self::UnsupportedVersion(_) => "unsupported_schema_version",
        }
    }

    /// What is wrong and where; empty unless the shape is what was wrong.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::Schema(faults) => faults,
            Self::BadJson(_) | Self::UnsupportedVersion(_) => &[],
        }
    }
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        Self::BadJson(reject)
    }
}

fn summary(faults: &[Fault]) -> String {
    let named: Vec<String> = faults
        .iter()
        .take(3)
        .map(|fault| format!("{} {}", at(&fault.path), fault.message))
        .collect();
    let more = match faults.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    named.join("; ") + &more
}

fn at(path: &str) -> &str {
    if path.is_empty() {
        "the document"
    } else {
        path
    }
}

/// Gathers faults and keeps their number within [`FAULTS_MAX`].
#[derive(Default)]
pub(crate) struct Faults {
    kept: Vec<Fault>,
    more: usize,
}

impl Faults {
    pub(crate) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        if self.kept.len() + 1 < FAULTS_MAX {
            self.kept.push(Fault::new(path, message));
        } else {
            self.more += 1;
        }
    }

    /// Whether there is a fault at `path`, or above it and below the root, so that nothing more need be said.
    pub(crate) fn explain(&self, path: &str) -> bool {
        self.kept.iter().any(|fault| {
            let below = path.strip_prefix(fault.path.as_str());
            !fault.path.is_empty()
                && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// # Errors
    /// The refusal, if there was a fault; its faults are in the order of their paths.
    pub(crate) fn settle(mut self) -> Result<(), Refusal> {
        self.kept.sort_by(|one, other| one.path.cmp(&other.path));
        if self.more > 0 {
            let message = format!("has {} more faults", self.more);
            self.kept.push(Fault::new("", message));
        }
        if self.kept.is_empty() {
            Ok(())
        } else {
            Err(Refusal::Schema(self.kept))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_at_most_a_hundred_faults_and_counts_the_rest() {
        let mut faults = Faults::default();
        for number in 0..250 {
            faults.add(format!("/{number:03}"), "is wrong");
        }
        let refusal = faults.settle().unwrap_err();
        assert_eq!(refusal.faults().len(), FAULTS_MAX);
        assert_eq!(
            refusal.faults()[FAULTS_MAX - 1].message,
            "has 151 more faults"
        );
        assert_eq!(
            refusal.to_string(),
            "/000 is wrong; /001 is wrong; /002 is wrong; and 97 more"
        );
    }
}
