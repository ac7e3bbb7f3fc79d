//! What a worker does for a receipt: which step follows which, what each is in the ledger, and what a crash in it means.
//!
//! | Step | Class | Result | After its runner died |
//! |---|---|---|---|
//! | PLAN | replayable | the plan and its hash | plans again: pure |
//! | CLARIFY | replayable | the answer, from whoever resolves it | asks again |
//! | ACT, one per action | keyed | what the gateway answered | calls again with the same key |
//! | OUTCOME | replayable | executed, planned or rejected | says it again |
//!
//! PLAN leads to CLARIFY, to the first ACT or to OUTCOME; CLARIFY leads back to PLAN; the last ACT to OUTCOME.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hapax::job::{
    Class, Events, Fault, Handler, Handling, Held, Job, Node, Plan, Retry, Step, drive,
};
use hapax_effects::gateway::{Answer, Call, Gateway};
use hapax_intake::intent::{self, Action, Policy};
use serde_json::{Value, json};

use super::inbox::Inbox;
use super::stored::{ACT, CLARIFY, OUTCOME, PLAN, Planned, Stored, act_context, context, replay};
use super::trouble::{FAILED, GIVEN_UP, SWITCHED_OFF, TIMED_OUT, Trouble, UNREACHABLE};

/// How often a gateway that cannot be reached is tried within one attempt of the receipt.
const TRIES: Retry = Retry {
    tries: 3,
    first: Duration::from_millis(100),
    longest: Duration::from_millis(500),
};
/// How long a call in doubt rests at least. Longer than any pause between tries, so that the attempt ends with it.
const REST: Duration = Duration::from_secs(1);

/// How receipts are planned and carried out.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether actions are carried out, if there is a gateway.
    pub(crate) execute: bool,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) policy: Policy,
}

impl Settings {
    fn gateway(&self) -> Option<&Gateway> {
        self.gateway.as_ref().filter(|_| self.execute)
    }
}

/// Runs the receipts of a worker.
pub(crate) struct Intents {
    settings: Arc<Settings>,
    plan: Plan<Course>,
}

impl fmt::Debug for Intents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intents")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Intents {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            plan: plan(),
        }
    }

    /// Runs one receipt as far as it comes, and ends its job accordingly.
    pub(crate) async fn run(&self, held: Held) {
        let id = held.job().id.clone();
        match Course::of(&self.settings, held.job()) {
            Ok(course) => {
                if let Err(error) = drive(held, &self.plan, course, &Events::none()).await {
                    tracing::info!(receipt = %id, %error, "an attempt at an intent ended");
                }
            }
            Err(why) => {
                let why = Trouble::new(GIVEN_UP, why).text();
                if let Err(lost) = held.fail(&why, false, None).await {
                    tracing::warn!(receipt = %id, why, %lost, "the end of an intent was not recorded");
                }
            }
        }
    }
}

impl Handler for Intents {
    fn run(&self, held: Held) -> Handling<'_> {
        Box::pin(Intents::run(self, held))
    }
}

/// How far a receipt is.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    settings: Arc<Settings>,
    inbox: Arc<Inbox>,
    replay: u32,
    planned: Option<Planned>,
    /// How many actions are done.
    acted: usize,
}

impl Course {
    /// The start of a receipt.
    ///
    /// # Errors
    /// Why the job holds no packet.
    pub(crate) fn of(settings: &Arc<Settings>, job: &Job) -> Result<Self, String> {
        Ok(Self {
            settings: Arc::clone(settings),
            inbox: Arc::new(Inbox::of(job)?),
            replay: replay(job),
            planned: None,
            acted: 0,
        })
    }

    /// The action that is next, if actions are carried out.
    fn action(&self) -> Option<&Action> {
        let planned = self.planned.as_ref().filter(|planned| planned.execute)?;
        planned.actions().get(self.acted)
    }

    fn next(&self) -> &'static str {
        match self.planned.as_ref().map(|planned| &planned.plan) {
            Some(intent::Plan::Clarify(_)) => CLARIFY,
            Some(intent::Plan::Actions(_)) if self.action().is_some() => ACT,
            Some(intent::Plan::Actions(_) | intent::Plan::Reject(_)) | None => OUTCOME,
        }
    }
}

/// The plan of a receipt.
///
/// # Panics
/// Never: the plan is sound, and a test builds it.
#[must_use]
pub(crate) fn plan() -> Plan<Course> {
    Plan::named("intent")
        .node(planning())
        .node(clarifying())
        .node(acting())
        .node(ending())
        .branch(PLAN, [CLARIFY, ACT, OUTCOME], Course::next)
        .edge(CLARIFY, PLAN)
        .branch(ACT, [ACT, OUTCOME], Course::next)
        .build()
        .expect("the plan of a receipt is sound")
}

fn planning() -> Node<Course, Planned> {
    Node::new(
        PLAN,
        Class::Replayable,
        |step: Step, course: Arc<Course>| async move {
            let job = step.held().job();
            let stored = step.held().queue().job(job.tenant, job.id.clone()).await;
            let stored = stored.map_err(|error| Fault::retryable(error.to_string()))?;
            let (_, ops) = stored.unwrap_or_else(|| (job.clone(), Vec::new()));
            let (inbox, policy) = (&course.inbox, &course.settings.policy);
            let packet = Stored::new(job, &ops).packet(inbox, policy);
            let plan = intent::plan(&packet, policy, inbox.received.at);
            Ok(Planned::new(plan, course.settings.gateway().is_some()))
        },
    )
    .context(|course| context(course.replay))
    .apply(|course, planned| course.planned = Some(planned.clone()))
}

/// The answer is read from the ledger by the PLAN that follows, with the time that it was given at.
fn clarifying() -> Node<Course, Value> {
    Node::new(
        CLARIFY,
        Class::Replayable,
        |step: Step, course: Arc<Course>| async move {
            match course.planned.as_ref().map(|planned| &planned.plan) {
                Some(intent::Plan::Clarify(question)) => Err(step.interrupt(json!(question))),
                Some(_) | None => Err(Fault::fatal("there is nothing to ask")),
            }
        },
    )
    .context(|course| context(course.replay))
}

fn acting() -> Node<Course, Value> {
    Node::new(
        ACT,
        Class::Keyed,
        |step: Step, course: Arc<Course>| async move {
            let Some(action) = course.action() else {
                return Err(Fault::fatal("there is nothing to do"));
            };
            let Some(gateway) = course.settings.gateway() else {
                let off = "it was to be carried out when it was planned; switch execution on again";
                return Err(Fault::retryable(Trouble::new(SWITCHED_OFF, off).text()));
            };
            let inbox = &course.inbox;
            let key = inbox.origin.action_key(action, course.replay);
            let call = Call {
                path: action.name.path(),
                request_id: &inbox.request_id,
                idempotency_key: &key,
                actor: inbox.received.actor.as_deref(),
                payload: &action.payload,
                trace_id: &inbox.received.trace_id,
            };
            match gateway.call(&call).await {
                Answer::Done { status, body } => Ok(json!({
                    "step": action.step,
                    "action": action.name,
                    "idempotency_key": key,
                    "status_code": status,
                    "body": body,
                })),
                missed => Err(fault(&step, missed).await),
            }
        },
    )
    .retry(TRIES)
    .context(|course| match course.action() {
        Some(action) => act_context(&course.inbox, action, course.replay),
        None => context(course.replay),
    })
    .apply(|course, _| course.acted += 1)
}

/// What a call that is not done means. An earlier call with the same key may have happened, and then only an answer
/// that is about the action itself ends the doubt.
async fn fault(step: &Step, missed: Answer) -> Fault {
    let in_doubt = |why: String| Fault::retryable(Trouble::new(TIMED_OUT, why).text()).after(REST);
    match missed {
        Answer::TimedOut { why } => in_doubt(why),
        Answer::Unreachable { why } if step.attempt() < TRIES.tries => {
            Fault::retryable(Trouble::new(UNREACHABLE, why).text())
        }
        Answer::Unreachable { why } => match was_called(step).await {
            Ok(true) => in_doubt(why),
            Ok(false) => Fault::fatal(Trouble::new(FAILED, why).text()),
            Err(fault) => fault,
        },
        Answer::Refused { status, excerpt } if says_nothing(status) => {
            match was_called(step).await {
                Ok(true) => in_doubt(format!("{status}: {excerpt}")),
                Ok(false) => refused(status, excerpt),
                Err(fault) => fault,
            }
        }
        Answer::Refused { status, excerpt } => refused(status, excerpt),
        Answer::Done { .. } => Fault::fatal("a call that is done is no fault"),
    }
}

fn refused(status: u16, excerpt: String) -> Fault {
    let trouble = Trouble::new(FAILED, excerpt).with_status(status);
    Fault::fatal(trouble.text())
}

/// Whether a status is about this call only: the same key is at work, too many calls, or nobody behind a proxy.
fn says_nothing(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 502 | 503 | 504)
}

/// Whether an earlier run of this operation may have sent the call.
async fn was_called(step: &Step) -> Result<bool, Fault> {
    let stored = step
        .held()
        .queue()
        .op(step.held().tenant(), step.op().clone());
    let stored = stored.await;
    let stored = stored.map_err(|error| Fault::retryable(error.to_string()).after(REST))?;
    Ok(stored.is_some_and(|op| op.tries > 1))
}

fn ending() -> Node<Course, Value> {
    Node::new(
        OUTCOME,
        Class::Replayable,
        |_: Step, course: Arc<Course>| async move {
            let Some(planned) = &course.planned else {
                return Err(Fault::fatal("there is no plan"));
            };
            Ok(match &planned.plan {
                intent::Plan::Reject(rejection) => json!({
                    "status": "rejected",
                    "code": rejection.code,
                    "reason": rejection.reason,
                }),
                intent::Plan::Actions(_) if planned.execute => {
                    json!({ "status": "executed", "actions": course.acted })
                }
                intent::Plan::Actions(_) | intent::Plan::Clarify(_) => {
                    json!({ "status": "planned", "reason": "execution is switched off" })
                }
            })
        },
    )
    .context(|course| context(course.replay))
}
