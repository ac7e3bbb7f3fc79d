//! What a plan tells while it runs. Telling is best effort: nothing depends on who listens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::{JobId, OpKey, State};

/// Something that happened in a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A node runs.
    Started {
        /// The job.
        job: JobId,
        /// The node.
        node: Arc<str>,
        /// Its operation.
        op: OpKey,
    },
    /// A node had run before, and what it recorded is taken.
    Replayed {
        /// The job.
        job: JobId,
        /// The node.
        node: Arc<str>,
        /// Its operation.
        op: OpKey,
    },
    /// A node says how far it is.
    Progress {
        /// The job.
        job: JobId,
        /// The node.
        node: Arc<str>,
        /// How much is done.
        done: u64,
        /// Of how much, if that is known.
        total: Option<u64>,
        /// Of what: `bytes`, `pages`.
        unit: Arc<str>,
    },
    /// A try of a node failed, and the next one follows within the same attempt.
    Retrying {
        /// The job.
        job: JobId,
        /// The node.
        node: Arc<str>,
        /// Which try failed, from 1.
        attempt: u32,
        /// Why.
        error: String,
        /// How long until the next try.
        after: Duration,
    },
    /// A node's result is recorded.
    Finished {
        /// The job.
        job: JobId,
        /// The node.
        node: Arc<str>,
        /// Its operation.
        op: OpKey,
    },
    /// A node failed, and the plan stops.
    Failed {
        /// The job.
        job: JobId,
        /// The node.
        node: Arc<str>,
        /// Why.
        error: String,
        /// Whether another attempt can help.
        retryable: bool,
    },
    /// A node waits for an answer, and the job is parked until somebody gives it.
    Interrupted {
        /// The job.
        job: JobId,
        /// The node.
        node: Arc<str>,
        /// The operation to resolve.
        op: OpKey,
    },
    /// The job is at its end, or rests.
    Ended {
        /// The job.
        job: JobId,
        /// The state it is in.
        state: State,
    },
}

impl Event {
    /// The job it is about.
    #[must_use]
    pub fn job(&self) -> &JobId {
        match self {
            Event::Started { job, .. }
            | Event::Replayed { job, .. }
            | Event::Progress { job, .. }
            | Event::Retrying { job, .. }
            | Event::Finished { job, .. }
            | Event::Failed { job, .. }
            | Event::Interrupted { job, .. }
            | Event::Ended { job, .. } => job,
        }
    }

    /// The node it is about, unless it is about the whole job.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Event::Started { node, .. }
            | Event::Replayed { node, .. }
            | Event::Progress { node, .. }
            | Event::Retrying { node, .. }
            | Event::Finished { node, .. }
            | Event::Failed { node, .. }
            | Event::Interrupted { node, .. } => Some(node),
            Event::Ended { .. } => None,
        }
    }
}

type Listen = dyn Fn(&Event) + Send + Sync;

/// Where events go. Cheap to clone.
#[derive(Clone, Default)]
pub struct Events(Option<Arc<Listen>>);

impl Events {
    /// Nobody listens.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// `listen` is called with every event. It must not block.
    pub fn to(listen: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listen)))
    }

    /// Tells an event.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if let Some(listen) = &self.0 {
            listen(&event());
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listens = if self.0.is_some() { "to" } else { "none" };
        write!(f, "Events::{listens}")
    }
}
