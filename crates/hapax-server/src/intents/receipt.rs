//! A receipt as it stands, from what is stored now. Pure: the same job and operations give the same receipt.

use hapax_core::job::{Job, Op, OpState, State};
use hapax_intake::intent::{Action, Plan};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::inbox::Inbox;
use super::stored::{Planned, Round, Stored, replay};
use super::trouble::{GIVEN_UP, TIMED_OUT, Trouble};

/// How a receipt stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ReceiptStatus)]
pub(crate) enum Status {
    /// It is kept, and being planned. Never the end.
    Accepted,
    /// It waits for an answer.
    NeedsClarification,
    /// It is planned and not carried out yet, or not to be.
    Planned,
    /// Every action is done.
    Executed,
    /// An action is not done, for good.
    Failed,
    /// Nothing is done about it.
    Rejected,
}

/// What the caller gets.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
#[expect(
    clippy::struct_field_names,
    reason = "these are the names of the envelope"
)]
pub(crate) struct Receipt {
    pub(crate) receipt_id: String,
    pub(crate) intent_id: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) status: Status,
    pub(crate) idempotency_key: String,
    pub(crate) correlation_id: Option<String>,
    /// `{actions[]}`, empty until it is planned.
    #[schema(value_type = ReceiptPlan)]
    pub(crate) plan: Value,
    /// `{id, question, field, reason, choices}` while it waits for an answer.
    #[schema(value_type = Option<Object>)]
    pub(crate) clarification: Option<Value>,
    #[schema(value_type = Object)]
    pub(crate) details: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReceiptError>, nullable = false)]
    pub(crate) error: Option<Value>,
    #[serde(skip)]
    pub(crate) http_status: u16,
}

/// How `plan` reads. It is stored as it was planned, so this only describes it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description")]
pub(crate) struct ReceiptPlan {
    actions: Vec<ReceiptAction>,
}

/// One call of the gateway.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description")]
pub(crate) struct ReceiptAction {
    /// Its place in the plan, from 1.
    step: u32,
    /// create_task, update_task, list_add_item or note_capture.
    action: String,
    /// The path at the gateway.
    path: String,
    #[schema(value_type = Object)]
    payload: Value,
}

/// How `error` reads.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description")]
pub(crate) struct ReceiptError {
    code: String,
    message: String,
    details: ReceiptErrorDetails,
}

/// What the gateway answered.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description")]
pub(crate) struct ReceiptErrorDetails {
    #[schema(required = true)]
    status_code: Option<u16>,
}

/// The receipt of a job, from its operations. Those from before a replay do not count.
pub(crate) fn project(job: &Job, ops: &[Op]) -> Receipt {
    let inbox = Inbox::of(job).ok();
    let look = Look {
        job,
        stored: Stored::new(job, ops),
        inbox: inbox.as_ref(),
    };
    let (rounds, planned) = look.stored.rounds();
    let actions = look.actions(planned.as_ref());
    let outcome = look.stored.outcome();
    let waiting = waiting(&rounds);
    let trouble = look.trouble(&actions);
    let status = match (&trouble, &outcome, waiting, &planned) {
        (Some(_), ..) => Status::Failed,
        (None, Some(outcome), ..) => ended(outcome),
        (None, None, Some(_), _) => Status::NeedsClarification,
        (None, None, None, Some(planned)) => decided(&planned.plan),
        (None, None, None, None) => Status::Accepted,
    };
    Receipt {
        receipt_id: job.id.to_string(),
        intent_id: inbox.as_ref().map(|it| it.origin.intent_id().to_string()),
        trace_id: inbox.as_ref().map(|it| it.received.trace_id.clone()),
        status,
        idempotency_key: job.artifact_id.clone(),
        correlation_id: inbox
            .as_ref()
            .and_then(|it| it.received.correlation_id.clone()),
        plan: planned.as_ref().map_or_else(
            || json!({ "actions": [] }),
            |planned| planned.plan.envelope(),
        ),
        clarification: (status == Status::NeedsClarification)
            .then(|| waiting.and_then(shown_question))
            .flatten(),
        details: look.details(status, planned.as_ref(), outcome, &actions),
        error: trouble.map(|trouble| {
            json!({
                "code": trouble.code,
                "message": trouble.message,
                "details": { "status_code": trouble.status_code },
            })
        }),
        http_status: if status == Status::Failed { 502 } else { 200 },
    }
}

/// What a recorded outcome says.
fn ended(outcome: &Value) -> Status {
    match outcome["status"].as_str() {
        Some("executed") => Status::Executed,
        Some("rejected") => Status::Rejected,
        Some(_) | None => Status::Planned,
    }
}

/// What a plan without an outcome says. A question that is not asked yet, or is answered, is still being planned.
fn decided(plan: &Plan) -> Status {
    match plan {
        Plan::Actions(_) => Status::Planned,
        Plan::Clarify(_) => Status::Accepted,
        Plan::Reject(_) => Status::Rejected,
    }
}

/// The operation that waits for an answer.
fn waiting<'a>(rounds: &[Round<'a>]) -> Option<&'a Op> {
    let asked = rounds.last()?.asked?;
    (asked.state == OpState::Waiting).then_some(asked)
}

/// The open question, with the id that an answer names.
pub(crate) fn shown_question(op: &Op) -> Option<Value> {
    let mut question: Value = serde_json::from_str(op.result.as_deref()?).ok()?;
    let members = question.as_object_mut()?;
    members.insert("id".to_owned(), op.key.as_str().into());
    Some(question)
}

struct Look<'a> {
    job: &'a Job,
    stored: Stored<'a>,
    inbox: Option<&'a Inbox>,
}

impl<'a> Look<'a> {
    /// The actions of a plan, each with its operation once it is begun.
    fn actions<'p>(&self, planned: Option<&'p Planned>) -> Vec<(&'p Action, Option<&'a Op>)> {
        let (Some(inbox), Some(planned)) = (self.inbox, planned) else {
            return Vec::new();
        };
        (1..)
            .zip(planned.actions())
            .map(|(nth, action)| (action, self.stored.act(inbox, action, nth)))
            .collect()
    }

    /// Why the receipt failed, if it did: an action failed for good, or its job is given up.
    fn trouble(&self, actions: &[(&Action, Option<&Op>)]) -> Option<Trouble> {
        // Without an outcome it was given up, or ended by somebody who does not run receipts.
        let is_dead = self.job.state == State::Dead
            || (self.job.state.is_terminal() && self.stored.outcome().is_none());
        let begun = || actions.iter().rev().filter_map(|(_, op)| *op);
        // A person who retried the job since wants it tried again.
        let is_fatal = |op: &&Op| op.state == OpState::Failed && op.epoch > self.job.retried;
        let told = |op: &Op| Some(Trouble::read(op.error.as_deref()?));
        if let Some(op) = begun().find(is_fatal) {
            return told(op).or_else(|| Some(Trouble::new(GIVEN_UP, "it failed")));
        }
        let given_up = || {
            let why = self.job.error.as_deref().unwrap_or("it was given up");
            let trouble = Trouble::read(why);
            // Only what this program wrote as the job's own error has a code.
            if trouble.message == why {
                Trouble::new(GIVEN_UP, why)
            } else {
                trouble
            }
        };
        is_dead.then(|| begun().find_map(told).unwrap_or_else(given_up))
    }

    fn details(
        &self,
        status: Status,
        planned: Option<&Planned>,
        outcome: Option<Value>,
        actions: &[(&Action, Option<&Op>)],
    ) -> Value {
        let mut details = Map::new();
        let mut put = |name: &str, value: Value| details.insert(name.to_owned(), value);
        if let Some(inbox) = self.inbox {
            put("received_at", inbox.received.at.to_string().into());
        }
        if replay(self.job) > 0 {
            put("replay", replay(self.job).into());
        }
        if let Some(planned) = planned {
            put("plan_hash", planned.hash.as_str().into());
        }
        match (outcome, planned.map(|planned| &planned.plan)) {
            (Some(Value::Object(outcome)), _) => {
                for name in ["code", "reason"] {
                    if let Some(value) = outcome.get(name) {
                        put(name, value.clone());
                    }
                }
            }
            (_, Some(Plan::Reject(rejection))) => {
                put("code", json!(rejection.code));
                put("reason", rejection.reason.as_str().into());
            }
            (_, Some(Plan::Actions(_) | Plan::Clarify(_)) | None) => {}
        }
        let shown = |(action, op): &(&Action, Option<&Op>)| self.shown(action, *op);
        let shown: Vec<Value> = actions.iter().map(shown).collect();
        if shown.iter().any(|action| action["state"] == "in_doubt") {
            put("in_doubt", true.into());
        }
        if !shown.is_empty() {
            put("actions", shown.into());
        }
        if status == Status::Planned && self.job.state == State::Failed {
            put("next_try_at", self.job.available_at.to_string().into());
        }
        Value::Object(details)
    }

    /// One action: how it stands, how often it was tried, and what the gateway said.
    fn shown(&self, action: &Action, op: Option<&Op>) -> Value {
        let mut shown = json!({
            "step": action.step,
            "action": action.name,
            "state": "to_do",
            "tries": op.map_or(0, |op| op.tries),
        });
        if let Some(inbox) = self.inbox {
            let key = inbox.origin.action_key(action, replay(self.job));
            shown["idempotency_key"] = key.into();
        }
        let Some(op) = op else { return shown };
        let error = op.error.as_deref().map(Trouble::read);
        shown["state"] = act_state(op, error.as_ref()).into();
        if let Some(error) = error {
            shown["error"] = json!(error);
        }
        let result: Option<Value> = op
            .result
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(result) = result {
            for name in ["status_code", "body"] {
                shown[name] = result[name].clone();
            }
        }
        shown
    }
}

/// In doubt is what was sent, or may have been by an earlier try, and has no answer.
fn act_state(op: &Op, error: Option<&Trouble>) -> &'static str {
    let timed_out = error.is_some_and(|error| error.code == TIMED_OUT);
    match op.state {
        OpState::Done => "done",
        OpState::Failed => "failed",
        OpState::Retryable if op.tries == 1 && !timed_out => "to_do",
        OpState::Running if op.tries == 1 => "running",
        OpState::Running | OpState::Retryable | OpState::InDoubt | OpState::Waiting => "in_doubt",
    }
}
