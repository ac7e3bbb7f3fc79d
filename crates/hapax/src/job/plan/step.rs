//! What a node's code gets: its lease, its key, and ways to tell and to ask.

use std::sync::Arc;

use hapax_core::job::OpKey;
use serde_json::Value;

use super::event::{Event, Events};
use crate::job::effect::Fault;
use crate::job::held::Held;

/// One try of a node, as its code sees it.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) held: Held,
    pub(super) node: Arc<str>,
    pub(super) op: OpKey,
    pub(super) attempt: u32,
    pub(super) visit: u32,
    pub(super) events: Events,
}

impl Step {
    /// The lease it runs under.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// The name of the node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The key of its operation, the same in every attempt: send it downstream.
    #[must_use]
    pub fn op(&self) -> &OpKey {
        &self.op
    }

    /// Which try of the node this is within this attempt of the job, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How often the plan has come to this node, this time included.
    #[must_use]
    pub fn visit(&self) -> u32 {
        self.visit
    }

    /// Tells how far it is.
    pub fn progress(&self, done: u64, total: Option<u64>, unit: &str) {
        self.events.tell(|| Event::Progress {
            job: self.held.job().id.clone(),
            node: self.node.clone(),
            done,
            total,
            unit: unit.into(),
        });
    }

    /// Suspends the plan: return this as the node's error. The operation then waits, the job is parked, and whoever
    /// resolves the operation with a result gives the node its result.
    #[must_use]
    pub fn interrupt(&self, asks: Value) -> Fault {
        Fault::waits(asks)
    }
}
