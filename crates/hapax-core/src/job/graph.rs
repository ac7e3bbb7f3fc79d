//! The states of a job and which may follow which. Callers can narrow the graph, never widen it.

use std::fmt;
use std::str::FromStr;

use super::model::JobKind;
use crate::error::Invalid;

/// How far a job has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// It is to be done.
    Planned,
    /// A worker took it, and nothing is recorded yet.
    Leased,
    /// The source was asked what it has.
    HeadDone,
    /// An earlier part can be continued.
    ResumeOk,
    /// Content is being fetched.
    Streaming,
    /// The content is whole and in its place.
    Finalized,
    /// Done: it is indexed.
    Indexed,
    /// Done: the same content was there already.
    Deduped,
    /// An attempt failed; it is tried again after a while.
    Failed,
    /// Done: the content was known before anything was fetched.
    SkippedDuplicate,
    /// Given up, until a person retries it.
    Dead,
}

impl State {
    /// Every state, in the order of the graph.
    pub const ALL: [State; 11] = [
        State::Planned,
        State::Leased,
        State::HeadDone,
        State::ResumeOk,
        State::Streaming,
        State::Finalized,
        State::Indexed,
        State::Deduped,
        State::Failed,
        State::SkippedDuplicate,
        State::Dead,
    ];

    /// The word used in the API and in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Planned => "PLANNED",
            State::Leased => "LEASED",
            State::HeadDone => "HEAD_DONE",
            State::ResumeOk => "RESUME_OK",
            State::Streaming => "STREAMING",
            State::Finalized => "FINALIZED",
            State::Indexed => "INDEXED",
            State::Deduped => "DEDUPED",
            State::Failed => "FAILED",
            State::SkippedDuplicate => "SKIPPED_DUPLICATE",
            State::Dead => "DEAD",
        }
    }

    /// Whether a job in this state is never leased again by itself.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            State::Indexed | State::Deduped | State::SkippedDuplicate | State::Dead => true,
            State::Planned
            | State::Leased
            | State::HeadDone
            | State::ResumeOk
            | State::Streaming
            | State::Finalized
            | State::Failed => false,
        }
    }

    /// The states that may follow this one in a job of `kind`, leases and retries aside.
    ///
    /// A download goes through every step. Other kinds have nothing to fetch, so they may go from
    /// [`State::Leased`] to [`State::Finalized`].
    #[must_use]
    pub fn followers(self, kind: &JobKind) -> &'static [State] {
        const DUPLICATE: State = State::SkippedDuplicate;
        match self {
            State::Planned => &[State::Leased, DUPLICATE],
            State::Leased if kind.is_download() => &[State::HeadDone, State::Failed, DUPLICATE],
            State::Leased => &[State::HeadDone, State::Finalized, State::Failed, DUPLICATE],
            State::HeadDone => &[State::ResumeOk, State::Streaming, State::Failed, DUPLICATE],
            State::ResumeOk => &[State::Streaming, State::Failed, DUPLICATE],
            State::Streaming => &[State::Finalized, State::Failed, DUPLICATE],
            State::Finalized => &[State::Indexed, State::Deduped, State::Failed, DUPLICATE],
            State::Indexed
            | State::Deduped
            | State::Failed
            | State::SkippedDuplicate
            | State::Dead => &[],
        }
    }

    /// The states from which a job of `kind` may go to this one.
    #[must_use]
    pub fn leaders(self, kind: &JobKind) -> Vec<State> {
        Self::ALL
            .into_iter()
            .filter(|from| from.followers(kind).contains(&self))
            .collect()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                let words: Vec<&str> = Self::ALL.iter().map(|state| state.as_str()).collect();
                Invalid::new("state", format!("is not one of {}", words.join(", ")))
            })
    }
}
