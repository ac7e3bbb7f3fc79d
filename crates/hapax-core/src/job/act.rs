//! What can be done to a job or an operation, and what can come of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::graph::State;
use super::model::{Job, JobId, Place};
use super::op::{Class, Op, OpKey, OpState};
use crate::time::Time;

/// What an act is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum On {
    /// A job, by its id.
    Job(JobId),
    /// An operation, by its key; its job comes with it.
    Op(OpKey),
}

/// Where an act comes from. A job with a [place](Job::place) is the program's own, and only the program drives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum By {
    /// The program: its workers, its chores and its commands.
    #[default]
    Program,
    /// A caller of the API.
    Caller,
    /// A caller of the API whose role is owner, on a route made for people. Beside what a caller may do, it retries the
    /// program's jobs and ends the doubt about their operations.
    Owner,
}

/// Who acts: the holder of which lease. Both may be left out on a job with no live lease. The epoch alone proves nothing:
/// whoever reads a job reads its epoch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fence {
    /// The holder's name.
    pub owner: Option<Arc<str>>,
    /// The epoch that the lease gave.
    pub epoch: Option<i64>,
    /// Where the act comes from.
    pub by: By,
}

impl Fence {
    /// The holder of the lease with this epoch, in the program.
    #[must_use]
    pub fn of(owner: &str, epoch: i64) -> Self {
        Self {
            owner: Some(owner.into()),
            epoch: Some(epoch),
            by: By::Program,
        }
    }

    /// The program, without a lease.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The same holder, acting from elsewhere.
    #[must_use]
    pub fn by(self, by: By) -> Self {
        Self { by, ..self }
    }
}

/// One thing to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Act {
    /// To what.
    pub on: On,
    /// By whom.
    pub fence: Fence,
    /// What.
    pub deed: Deed,
}

impl Act {
    /// The key of the operation that it needs to see, if any.
    #[must_use]
    pub fn op_key(&self) -> Option<&OpKey> {
        match (&self.on, &self.deed) {
            (On::Op(key), _) | (On::Job(_), Deed::Begin { key, .. }) => Some(key),
            (On::Job(_), _) => None,
        }
    }
}

/// How an operation in doubt, or one that waits, is ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// It happened, with this result.
    Result(Arc<str>),
    /// It did not happen: run it again.
    Retry,
    /// It failed for good.
    Error(Arc<str>),
}

/// What is done. Deeds on jobs take [`On::Job`], deeds on operations [`On::Op`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// On a job: keep the lease for this long from now.
    Renew {
        /// How long.
        ttl: Duration,
    },
    /// On a job: give the lease back at once; progress is kept.
    Release,
    /// On a job: move along the graph.
    Advance {
        /// Where to.
        to: State,
        /// Only from one of these, if given.
        allowed_from: Option<Vec<State>>,
        /// What came of the job, to keep with it.
        result: Option<Arc<str>>,
    },
    /// On a job: the attempt failed.
    Fail {
        /// Why.
        error: Option<Arc<str>>,
        /// Whether another attempt can help; if not, the job is given up now.
        retryable: bool,
        /// At least this long until the next attempt.
        after: Option<Duration>,
    },
    /// On a job, by a person: a failed or given-up job starts over with all its attempts, at once. What its
    /// operations recorded is kept; those that failed for good run again.
    Retry,
    /// On a job that nobody holds: what it made is gone, so it is planned anew and its operations with it.
    Redo {
        /// Where it runs from now on.
        place: Place,
    },
    /// On a job, by the reconciler: a lease that ran out is a failed attempt. Progress is kept.
    Expire,
    /// On a job: begin this operation.
    Begin {
        /// Its key.
        key: OpKey,
        /// Its kind.
        kind: Arc<str>,
        /// What it is.
        class: Class,
        /// The runner's secret. The same runner may ask again with it when an answer got lost.
        token: Arc<str>,
    },
    /// On an operation: record its result, and move the job in the same transaction.
    Complete {
        /// The runner's secret.
        token: Arc<str>,
        /// The result, as JSON text.
        result: Arc<str>,
        /// Where the job goes with it.
        advance_to: Option<State>,
    },
    /// On an operation: record that it failed.
    FailOp {
        /// The runner's secret.
        token: Arc<str>,
        /// Why.
        error: Arc<str>,
        /// Whether the next begin runs it again.
        retryable: bool,
    },
    /// On an operation: wait until somebody resolves it. The job is given back and not leased until then.
    Wait {
        /// The runner's secret.
        token: Arc<str>,
        /// What is waited for, as JSON text.
        asks: Arc<str>,
    },
    /// On an operation in doubt, or one that waits: end it.
    Resolve(Resolution),
    /// On an operation, by the reconciler: its runner is dead, so it is in doubt.
    Doubt,
}

/// What the runner of an operation has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begun {
    /// Run it, then complete or fail it with this token.
    Execute(Arc<str>),
    /// It was done; this is its result.
    Replay(Arc<str>),
    /// Somebody is at it.
    InProgress,
    /// Its runner died: nobody knows whether it happened.
    InDoubt,
    /// It failed for good, for this reason.
    Failed(Arc<str>),
    /// It waits for somebody to resolve it; this is what it asks.
    Waiting(Arc<str>),
}

/// What came of an act.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    /// The job as it is now.
    Job(Box<Job>),
    /// What to do about an operation, and the operation as it is now.
    Begun(Begun, Box<Op>),
    /// The operation as it is now, and the job it belongs to.
    Op(Box<Op>, Box<Job>),
}

/// What a store has to write, and what it answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The job to write, if it changed.
    pub job: Option<Job>,
    /// The operation to write, if it changed.
    pub op: Option<Op>,
    /// What to answer.
    pub done: Done,
}

/// Why an act was not done. Nothing was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no such job or operation.
    NotFound,
    /// The job is the program's own, and the act comes from outside.
    OfTheProgram,
    /// The actor does not, or no longer, hold the job.
    LeaseLost {
        /// The fence that holds now.
        epoch: i64,
        /// Who has it, if anyone.
        owner: Option<Arc<str>>,
        /// Until when.
        until: Option<Time>,
    },
    /// The graph, or the caller's own narrowing of it, has no such step.
    Denied {
        /// The state it is in.
        have: State,
        /// The state it should go to.
        wants: State,
        /// The states from which that would be allowed.
        from: Vec<State>,
    },
    /// The operation's key stands for another job or kind, or it has another result.
    KeyConflict {
        /// The job it belongs to.
        job: JobId,
        /// Its kind.
        kind: String,
    },
    /// The operation is neither in doubt nor waiting.
    NotOpen {
        /// How it stands.
        have: OpState,
    },
    /// The result is too large to be kept whole.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotFound => f.write_str("there is no such job or operation"),
            Refusal::OfTheProgram => {
                f.write_str("the job is run by hapax itself, so nothing outside may drive it")
            }
            Refusal::LeaseLost {
                epoch,
                owner: Some(owner),
                ..
            } => {
                write!(
                    f,
                    "the lease is lost: {owner} has the job with epoch {epoch}"
                )
            }
            Refusal::LeaseLost {
                epoch, owner: None, ..
            } => {
                write!(
                    f,
                    "the lease is lost: nobody has the job, and its epoch is {epoch}"
                )
            }
            Refusal::Denied { have, wants, from } => {
                let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
                let from = if from.is_empty() {
                    "nowhere".to_owned()
                } else {
                    from.join(", ")
                };
                write!(
                    f,
                    "the job is {have} and cannot become {wants}; that is reached from {from}"
                )
            }
            Refusal::KeyConflict { job, kind } => {
                write!(
                    f,
                    "the operation's key is that of {kind} of job {job}, or its result is another"
                )
            }
            Refusal::NotOpen { have } => {
                write!(
                    f,
                    "the operation is {}, so there is nothing to resolve",
                    have.as_str()
                )
            }
            Refusal::TooLarge { bytes } => write!(
                f,
                "the result has {bytes} bytes and at most {} are kept; store it elsewhere and record where",
                Op::RESULT_BYTES_MAX
            ),
        }
    }
}

impl std::error::Error for Refusal {}
