//! The operations of a receipt, found by their keys. Pure: it reads what is stored and writes nothing.
//!
//! Every key holds the number of the replay, so that a receipt that is run again on purpose keeps what it did before.

use std::sync::Arc;

use hapax_core::job::{Job, Op, OpState, op_key};
use hapax_intake::intent::{Action, Answer, Clarification, Packet, Plan, Policy};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::inbox::Inbox;

/// The names of the steps.
pub(super) const PLAN: &str = "PLAN";
pub(crate) const CLARIFY: &str = "CLARIFY";
pub(super) const ACT: &str = "ACT";
pub(super) const OUTCOME: &str = "OUTCOME";

/// What PLAN records: the plan, its hash, and whether its actions are carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) hash: String,
    pub(super) execute: bool,
}

impl Planned {
    pub(super) fn new(plan: Plan, execute: bool) -> Self {
        let hash = plan.artifact().hash;
        Self {
            plan,
            hash,
            execute,
        }
    }

    /// What is to be carried out.
    pub(super) fn actions(&self) -> &[Action] {
        match &self.plan {
            Plan::Actions(actions) => actions,
            Plan::Clarify(_) | Plan::Reject(_) => &[],
        }
    }
}

/// The number of the replay: 0 unless the receipt was planned anew, and then another one each time.
pub(super) fn replay(job: &Job) -> u32 {
    u32::try_from(job.redone.saturating_add(1)).unwrap_or(u32::MAX)
}

/// The context of a step that there is one of per visit.
pub(super) fn context(replay: u32) -> Value {
    match replay {
        0 => json!({}),
        replay => json!({ "replay": replay }),
    }
}

/// The context of an action: its place, and its key at the gateway.
pub(super) fn act_context(inbox: &Inbox, action: &Action, replay: u32) -> Value {
    json!({ "step": action.step, "action_key": inbox.origin.action_key(action, replay) })
}

/// A question of the receipt, and the operation that asks it, once it is begun.
pub(super) struct Round<'a> {
    pub(super) question: Clarification,
    pub(super) asked: Option<&'a Op>,
}

/// The operations of a job.
pub(super) struct Stored<'a> {
    job: &'a Job,
    ops: &'a [Op],
}

impl<'a> Stored<'a> {
    pub(super) fn new(job: &'a Job, ops: &'a [Op]) -> Self {
        Self { job, ops }
    }

    /// The questions so far, and the last plan.
    pub(super) fn rounds(&self) -> (Vec<Round<'a>>, Option<Planned>) {
        let (mut rounds, mut last) = (Vec::new(), None);
        for visit in 1.. {
            let Some(planned) = self.planned(visit) else {
                break;
            };
            let question = match &planned.plan {
                Plan::Clarify(question) => Some(question.clone()),
                Plan::Actions(_) | Plan::Reject(_) => None,
            };
            last = Some(planned);
            let Some(question) = question else { break };
            let asked = self.find(CLARIFY, context(replay(self.job)), visit);
            rounds.push(Round { question, asked });
            if asked.is_none_or(|op| op.state != OpState::Done) {
                break;
            }
        }
        (rounds, last)
    }

    /// The packet with every answer filled in that fits. One that does not changes nothing, so that the next plan
    /// asks again.
    pub(super) fn packet(&self, inbox: &Inbox, policy: &Policy) -> Packet {
        let mut packet = inbox.packet.clone();
        for round in self.rounds().0 {
            let Some(op) = round.asked.filter(|op| op.state == OpState::Done) else {
                continue;
            };
            let answer = op.result.as_deref().unwrap_or("null");
            let answer: Result<Answer, _> = serde_json::from_str(answer);
            // A person said "tomorrow" when they answered, not when the packet came.
            let at = op.finished_at.unwrap_or(inbox.received.at);
            let filled = answer
                .ok()
                .and_then(|answer| packet.answered(&round.question, &answer, policy, at).ok());
            packet = filled.unwrap_or(packet);
        }
        packet
    }

    /// The operation of an action, which is the `nth` of its plan, from 1.
    pub(super) fn act(&self, inbox: &Inbox, action: &Action, nth: u32) -> Option<&'a Op> {
        self.find(ACT, act_context(inbox, action, replay(self.job)), nth)
    }

    /// What OUTCOME recorded.
    pub(super) fn outcome(&self) -> Option<Value> {
        let op = self.find(OUTCOME, context(replay(self.job)), 1)?;
        done(op).and_then(|text| serde_json::from_str(text).ok())
    }

    fn planned(&self, visit: u32) -> Option<Planned> {
        let op = self.find(PLAN, context(replay(self.job)), visit)?;
        done(op).and_then(|text| serde_json::from_str(text).ok())
    }

    /// The operation of this visit of a step, if it is not from before a replay.
    fn find(&self, kind: &str, mut context: Value, visit: u32) -> Option<&'a Op> {
        if visit > 1 {
            context["visit"] = visit.into(); // As the runner of plans names every visit after the first.
        }
        let key = op_key(kind, &self.job.id, Some(&context.to_string())).ok()?;
        self.ops
            .iter()
            .find(|op| op.key == key && op.epoch > self.job.redone)
    }
}

fn done(op: &Op) -> Option<&Arc<str>> {
    op.result.as_ref().filter(|_| op.state == OpState::Done)
}
