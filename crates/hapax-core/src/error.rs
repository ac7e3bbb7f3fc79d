//! The one error of the seams: what we were doing, why we could not find out, whether a retry helps.
//! Busy, Replay and Conflict are not here: they are answers.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Why an operation on a ledger could not be carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The store did not answer or refused work for now. Nothing was written. A retry can help.
    Unavailable,
    /// The write may or may not have been made durable. Nothing may run on the strength of it.
    /// A retry can help: the next claim finds out.
    OutcomeUnknown,
    /// What is stored cannot be read back as what was written. A retry does not help.
    Corrupt,
    /// The caller asked for something over a stated limit. A retry does not help.
    Limit,
    /// The store is set up in a way that would break a promise, so it is not used.
    Unsafe,
    /// This store does not do that, and says so by its [`Capabilities`](crate::Capabilities). A retry does not help.
    Unsupported,
}

impl Kind {
    /// The code of this kind's page in docs/errors.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Kind::Unavailable => "HX001",
            Kind::OutcomeUnknown => "HX002",
            Kind::Corrupt => "HX003",
            Kind::Limit => "HX004",
            Kind::Unsafe => "HX005",
            Kind::Unsupported => "HX006",
        }
    }
}

/// We could not find out, or could not record. Cloneable, because one failed commit answers many claims.
///
/// ```
/// use hapax_core::{Error, Kind};
///
/// let down = Error::unavailable("settling the record", std::io::Error::other("connection refused"));
/// assert!(down.is_transient(), "the caller may retry");
/// assert_eq!(down.to_string(), "settling the record: connection refused");
///
/// let torn = Error::new(Kind::Corrupt, "reading the record").because("state 'x' is not a state");
/// assert!(!torn.is_transient(), "a retry reads the same bytes");
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    operation: &'static str,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` met while doing `operation` ("settling the record").
    #[must_use]
    pub fn new(kind: Kind, operation: &'static str) -> Self {
        Self {
            kind,
            operation,
            source: None,
        }
    }

    /// The store could not be reached or refused work for now.
    pub fn unavailable(
        operation: &'static str,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind: Kind::Unavailable,
            operation,
            source: Some(Arc::new(source)),
        }
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Adds a plain reason where there is no underlying error.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        self.caused_by(Reason(reason.into()))
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What was being done.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.kind {
            Kind::Unavailable | Kind::OutcomeUnknown => true,
            Kind::Corrupt | Kind::Limit | Kind::Unsafe | Kind::Unsupported => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        match (&self.source, self.kind) {
            (Some(source), _) => write!(f, ": {source}"),
            (None, Kind::Unavailable) => f.write_str(": the store is unavailable"),
            (None, Kind::OutcomeUnknown) => f.write_str(": the outcome of the write is unknown"),
            (None, Kind::Corrupt) => f.write_str(": the stored record is not readable"),
            (None, Kind::Limit) => f.write_str(": over a limit"),
            (None, Kind::Unsafe) => f.write_str(": the store is set up unsafely"),
            (None, Kind::Unsupported) => f.write_str(": this store does not do that"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source
            .as_ref()
            .map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

#[derive(Debug)]
struct Reason(String);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Reason {}

/// A word that does not have the form its type promises, such as a key with a space in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} {problem}")]
pub struct Invalid {
    what: &'static str,
    problem: String,
}

impl Invalid {
    pub(crate) fn new(what: &'static str, problem: impl Into<String>) -> Self {
        Self {
            what,
            problem: problem.into(),
        }
    }

    /// The word that was refused: `key`, `space`, `tenant`, `fingerprint`.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }
}
