//! An operation: one effect of a job on the world, begun once at a time and recorded once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::model::JobId;
use crate::error::Invalid;
use crate::key::visible;
use crate::scope::Tenant;
use crate::time::Time;

/// The key of an operation: 1 to 255 visible ASCII characters, unique within its tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpKey(Arc<str>);

impl OpKey {
    /// The longest key in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Checks the form of `text` and keeps it.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, too long or holds anything but visible ASCII.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        visible("op_key", text, Self::BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OpKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an effect is, and so what may be done when its runner died before it was recorded. There is no default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// It commits together with its record: unrecorded means it did not happen. Run again.
    Tx,
    /// Its key goes downstream, where the receiver knows it again. Run again with the same key.
    Keyed,
    /// The receiver can be asked what happened. In doubt until somebody asked.
    Probe,
    /// Harmless to repeat. Run again.
    Replayable,
    /// It may have happened, and nobody can tell. In doubt until a person decides.
    AtMostOnce,
}

impl Class {
    /// The word used in the API and in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Class::Tx => "tx",
            Class::Keyed => "keyed",
            Class::Probe => "probe",
            Class::Replayable => "replayable",
            Class::AtMostOnce => "at_most_once",
        }
    }

    /// Whether it may simply be run again after its runner died.
    #[must_use]
    pub const fn runs_again(self) -> bool {
        match self {
            Class::Tx | Class::Keyed | Class::Replayable => true,
            Class::Probe | Class::AtMostOnce => false,
        }
    }
}

impl FromStr for Class {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        [
            Class::Tx,
            Class::Keyed,
            Class::Probe,
            Class::Replayable,
            Class::AtMostOnce,
        ]
        .into_iter()
        .find(|class| class.as_str() == text)
        .ok_or_else(|| {
            Invalid::new(
                "class",
                "is not one of tx, keyed, probe, replayable, at_most_once",
            )
        })
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpState {
    /// Begun, and not recorded yet.
    Running,
    /// Its result is recorded.
    Done,
    /// It failed. The next begin runs it again.
    Retryable,
    /// It failed for good. The next begin is told so.
    Failed,
    /// Its runner died, or nobody knows what it did.
    InDoubt,
    /// It waits for somebody to resolve it, and its job with it.
    Waiting,
}

impl OpState {
    /// The word used in the API and in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            OpState::Running => "running",
            OpState::Done => "done",
            OpState::Retryable => "retryable",
            OpState::Failed => "failed",
            OpState::InDoubt => "in_doubt",
            OpState::Waiting => "waiting",
        }
    }
}

impl FromStr for OpState {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        use OpState::{Done, Failed, InDoubt, Retryable, Running, Waiting};
        [Running, Done, Retryable, Failed, InDoubt, Waiting]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| Invalid::new("op state", "is unknown"))
    }
}

/// A stored operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// Whose.
    pub tenant: Tenant,
    /// Its key.
    pub key: OpKey,
    /// The job it belongs to; it never changes.
    pub job: JobId,
    /// Its kind, such as HEAD; it never changes.
    pub kind: String,
    /// Where it stands.
    pub state: OpState,
    /// What it is, as its last runner declared.
    pub class: Class,
    /// The job's epoch when it was begun.
    pub epoch: i64,
    /// The secret of its last runner.
    pub token: String,
    /// How often it was begun.
    pub tries: u32,
    /// When it was last begun.
    pub started_at: Time,
    /// When its result or its final failure was recorded.
    pub finished_at: Option<Time>,
    /// The result, as JSON text.
    pub result: Option<Arc<str>>,
    /// Why it failed last.
    pub error: Option<Arc<str>>,
}

impl Op {
    /// The longest kind in bytes.
    pub const KIND_BYTES_MAX: usize = 64;
    /// The longest token in bytes.
    pub const TOKEN_BYTES_MAX: usize = 128;
    /// The largest result in bytes.
    pub const RESULT_BYTES_MAX: usize = 1 << 20;

    /// Checks the form of a kind.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, too long or holds anything but visible ASCII.
    pub fn check_kind(kind: &str) -> Result<(), Invalid> {
        visible("kind", kind, Self::KIND_BYTES_MAX)
    }

    /// Checks the form of a runner's token.
    ///
    /// # Errors
    /// [`Invalid`] when it is empty, too long or holds anything but visible ASCII.
    pub fn check_token(token: &str) -> Result<(), Invalid> {
        visible("token", token, Self::TOKEN_BYTES_MAX)
    }
}
