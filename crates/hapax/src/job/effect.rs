//! What an effect is, how its run can fail, and what came of it. It runs nothing; `run.rs` does.

use std::fmt;
use std::time::Duration;

use hapax_core::job::{Class, OpKey, Refusal, State, op_key};
use hapax_core::{Error, Invalid};
use serde_json::Value;

use super::held::{Held, HeldError};

/// One effect of a job on the world: its kind, its class and what it is about.
///
/// The kind, the job and the context make its key, so that the same effect has the same key in every attempt. There
/// is no default class: whoever writes an effect says what a crash in the middle of it means.
///
/// ```
/// use hapax::job::{Class, Effect, State};
///
/// let head = Effect::new("HEAD", Class::Replayable)
///     .context(serde_json::json!({"url": "https://example.org/paper.pdf"}))
///     .advances_to(State::HeadDone);
/// assert_eq!(head.kind(), "HEAD");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    pub(super) kind: String,
    pub(super) class: Class,
    pub(super) context: Option<Value>,
    pub(super) enters: Option<State>,
    pub(super) advance_to: Option<State>,
    pub(super) begins_late: bool,
}

impl Effect {
    /// An effect of this kind and class.
    #[must_use]
    pub fn new(kind: &str, class: Class) -> Self {
        Self {
            kind: kind.to_owned(),
            class,
            context: None,
            enters: None,
            advance_to: None,
            begins_late: false,
        }
    }

    /// The same, about this: a JSON object that is part of its key.
    #[must_use]
    pub fn context(mut self, context: Value) -> Self {
        self.context = Some(context);
        self
    }

    /// The same, for which the job goes to `state` before it is begun, unless it is past that already.
    #[must_use]
    pub fn enters(mut self, state: State) -> Self {
        self.enters = Some(state);
        self
    }

    /// The same, which moves the job to `state` in the transaction that records its result.
    #[must_use]
    pub fn advances_to(mut self, state: State) -> Self {
        self.advance_to = Some(state);
        self
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Its class.
    #[must_use]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its key under the job of `held`.
    ///
    /// # Errors
    /// [`Invalid`] when the context is not a JSON object that has a canonical form.
    pub fn key(&self, held: &Held) -> Result<OpKey, Invalid> {
        hapax_core::job::Op::check_kind(&self.kind)?;
        let context = self.context.as_ref().map(Value::to_string);
        op_key(&self.kind, &held.job().id, context.as_deref())
    }
}

/// What the receiver of an effect says when it is asked whether it happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Probed<T> {
    /// It happened, and this came of it.
    Happened(T),
    /// It did not happen: it may be run.
    DidNot,
    /// The receiver does not know either.
    Unknown,
}

/// How a run failed: what, whether another try can help, and not before when.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// What went wrong.
    pub error: String,
    /// Whether another try can help.
    pub retryable: bool,
    /// At least this long until the next try.
    pub after: Option<Duration>,
    /// What a person is asked, if this is no failure but a wait.
    pub(super) asks: Option<Box<Value>>,
}

impl Fault {
    /// Another try can help.
    pub fn retryable(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            retryable: true,
            after: None,
            asks: None,
        }
    }

    /// No other try can help.
    pub fn fatal(error: impl Into<String>) -> Self {
        Self {
            retryable: false,
            ..Self::retryable(error)
        }
    }

    /// No failure, but a wait: the run stops here, and goes on with the answer that somebody gives by resolving the
    /// operation.
    #[must_use]
    pub fn waits(asks: Value) -> Self {
        Self {
            asks: Some(Box::new(asks)),
            ..Self::retryable("waits for an answer")
        }
    }

    /// The same, with at least this long until the next try.
    #[must_use]
    pub fn after(mut self, after: Duration) -> Self {
        self.after = Some(after);
        self
    }

    /// Whether this is a wait for somebody's answer.
    #[must_use]
    pub fn is_wait(&self) -> bool {
        self.asks.is_some()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)
    }
}

impl std::error::Error for Fault {}

/// What came of an effect, and whether it was now or earlier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran<T> {
    /// The recorded result, read back from its record.
    pub value: T,
    /// Whether it was recorded before this call.
    pub replayed: bool,
    /// The key it is recorded under.
    pub op: OpKey,
}

/// Why an effect gave no result.
#[derive(Debug)]
pub enum EffectError {
    /// The lease is lost: stop. Nothing was recorded.
    Lost,
    /// Somebody is at the same effect.
    InProgress,
    /// It may have happened, and nobody can tell. It is not run again until somebody resolves the operation.
    InDoubt,
    /// It failed for good, now recorded or earlier, for this reason.
    Failed(String),
    /// It failed this time, and that is recorded. The next begin runs it again if another try can help.
    Fault(Fault),
    /// Its result is too large to be kept whole, so it is recorded as failed for good.
    TooLarge {
        /// The size of the result in bytes.
        bytes: usize,
    },
    /// It waits for somebody to resolve it. The job is parked until then.
    Waiting,
    /// The recorded result is not of the type that is asked for, as after a change of that type.
    Unreadable {
        /// The operation.
        op: OpKey,
        /// Why not.
        error: String,
    },
    /// Its context or its kind has not the form that a key needs.
    Invalid(Invalid),
    /// The queue refused it.
    Refused(Refusal),
    /// The queue could not be asked, after a few tries.
    Store(Error),
}

impl fmt::Display for EffectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EffectError::Lost => f.write_str("the lease is lost; nothing was recorded"),
            EffectError::InProgress => f.write_str("somebody is at the same effect"),
            EffectError::InDoubt => {
                f.write_str("it may have happened, and nobody can tell; resolve the operation")
            }
            EffectError::Failed(error) => write!(f, "it failed for good: {error}"),
            EffectError::Fault(fault) => fault.fmt(f),
            EffectError::TooLarge { bytes } => Refusal::TooLarge { bytes: *bytes }.fmt(f),
            EffectError::Waiting => f.write_str("it waits for somebody to resolve it"),
            EffectError::Unreadable { op, error } => {
                write!(
                    f,
                    "the recorded result of {op} can no longer be read: {error}"
                )
            }
            EffectError::Invalid(invalid) => invalid.fmt(f),
            EffectError::Refused(refusal) => refusal.fmt(f),
            EffectError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for EffectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EffectError::Invalid(invalid) => Some(invalid),
            EffectError::Refused(refusal) => Some(refusal),
            EffectError::Store(error) => Some(error),
            EffectError::Fault(fault) => Some(fault),
            EffectError::Lost
            | EffectError::InProgress
            | EffectError::InDoubt
            | EffectError::Failed(_)
            | EffectError::TooLarge { .. }
            | EffectError::Waiting
            | EffectError::Unreadable { .. } => None,
        }
    }
}

impl From<HeldError> for EffectError {
    fn from(error: HeldError) -> Self {
        match error {
            HeldError::Lost => EffectError::Lost,
            HeldError::Refused(refusal) => EffectError::Refused(refusal),
            HeldError::Store(error) => EffectError::Store(error),
        }
    }
}

impl From<Invalid> for EffectError {
    fn from(invalid: Invalid) -> Self {
        EffectError::Invalid(invalid)
    }
}
