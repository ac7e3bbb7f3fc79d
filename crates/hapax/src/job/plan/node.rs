//! A node: one effect of a plan, with what its result does to the plan's state.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use hapax_core::job::{Class, OpKey, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::event::{Event, Events};
use super::step::Step;
use crate::job::ahead::Ahead;
use crate::job::effect::{Effect, EffectError, Fault, Probed};
use crate::job::held::Held;
use crate::job::pause::Pause;
use crate::job::run::{Asks, Performed, Steps, Tried, said};

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Context<S> = dyn Fn(&S) -> Value + Send + Sync;
type Run<S, T> = dyn Fn(Step, Arc<S>) -> Boxed<Result<T, Fault>> + Send + Sync;
type Probe<S, T> = dyn Fn(Step, Arc<S>) -> Boxed<Probed<T>> + Send + Sync;
type Apply<S, T> = dyn Fn(&mut S, &T) + Send + Sync;
type Advance<S, T> = dyn Fn(&S, &T) -> Option<State> + Send + Sync;

/// How often a node is tried within one attempt of its job, and how long it pauses in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// The most tries, at least one.
    pub tries: u32,
    /// The pause after the first failed try. It doubles, less a random part.
    pub first: Duration,
    /// The longest pause. A fault that asks for a longer one ends the attempt, and the job rests that long.
    pub longest: Duration,
}

impl Retry {
    /// One try.
    #[must_use]
    pub const fn never() -> Self {
        Self {
            tries: 1,
            first: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }
}

/// Three tries with a fifth of a second in between, doubling, ten seconds at most.
impl Default for Retry {
    fn default() -> Self {
        Self {
            tries: 3,
            first: Duration::from_millis(200),
            longest: Duration::from_secs(10),
        }
    }
}

/// One effect of a plan: its name is the kind of its operation.
pub struct Node<S, T> {
    name: Arc<str>,
    class: Class,
    retry: Retry,
    timeout: Option<Duration>,
    enters: Option<State>,
    begins_late: bool,
    context: Option<Arc<Context<S>>>,
    run: Arc<Run<S, T>>,
    probe: Option<Arc<Probe<S, T>>>,
    apply: Option<Arc<Apply<S, T>>>,
    advance: Option<Arc<Advance<S, T>>>,
}

impl<S, T> fmt::Debug for Node<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

impl<S, T> Node<S, T>
where
    S: Send + Sync + 'static,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// A node of this name and class that runs `run`. Without [`Node::retry`] it is tried once per attempt of the job.
    pub fn new<F, Fut>(name: &str, class: Class, run: F) -> Self
    where
        F: Fn(Step, Arc<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        Self {
            name: name.into(),
            class,
            retry: Retry::never(),
            timeout: None,
            enters: None,
            begins_late: false,
            context: None,
            run: Arc::new(move |step, state| Box::pin(run(step, state))),
            probe: None,
            apply: None,
            advance: None,
        }
    }

    /// What it is about: a JSON object that is part of its key. It must depend on the state only.
    #[must_use]
    pub fn context(mut self, context: impl Fn(&S) -> Value + Send + Sync + 'static) -> Self {
        self.context = Some(Arc::new(context));
        self
    }

    /// What its result does to the state, when it ran and when it is replayed.
    #[must_use]
    pub fn apply(mut self, apply: impl Fn(&mut S, &T) + Send + Sync + 'static) -> Self {
        self.apply = Some(Arc::new(apply));
        self
    }

    /// Asks the receiver whether it happened, after its runner died in the middle of it.
    #[must_use]
    pub fn probe<F, Fut>(mut self, probe: F) -> Self
    where
        F: Fn(Step, Arc<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Probed<T>> + Send + 'static,
    {
        self.probe = Some(Arc::new(move |step, state| Box::pin(probe(step, state))));
        self
    }

    /// How often it is tried within one attempt of the job.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How long one try may take. A try that is cut off may have happened: it is tried again if its class allows
    /// that, and is in doubt otherwise.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The state that the job goes to before the node begins, unless it is past that already.
    #[must_use]
    pub fn enters(mut self, state: State) -> Self {
        self.enters = Some(state);
        self
    }

    /// Its beginning is recorded together with its result when the job is leased for the first time: one transaction less,
    /// and nothing is to be seen of the node while it runs. A crash in it leaves no trace, so only a replayable node
    /// that enters no state is begun late; any other is begun before it runs, as always.
    #[must_use]
    pub fn begins_late(mut self) -> Self {
        self.begins_late = true;
        self
    }

    /// The state that the job goes to in the transaction that records the result. The state of the plan is that
    /// before the result is applied.
    #[must_use]
    pub fn advances_to(
        mut self,
        advance: impl Fn(&S, &T) -> Option<State> + Send + Sync + 'static,
    ) -> Self {
        self.advance = Some(Arc::new(advance));
        self
    }

    fn step(&self, visit: &Visit<S>, op: &OpKey, attempt: u32) -> Step {
        Step {
            held: visit.held.clone(),
            node: self.name.clone(),
            op: op.clone(),
            attempt,
            visit: visit.number,
            events: visit.events.clone(),
        }
    }

    /// Tries until it works, cannot work, or its tries are used up.
    async fn tries(&self, visit: &Visit<S>, op: OpKey) -> Tried<T> {
        visit.events.tell(|| Event::Started {
            job: visit.held.job().id.clone(),
            node: self.name.clone(),
            op: op.clone(),
        });
        let mut pause = Pause::new(self.retry.first, self.retry.longest);
        for attempt in 1.. {
            let fault = match self.try_once(visit, &op, attempt).await {
                Tried::Done(value) => return Tried::Done(value),
                Tried::Fault(fault) => fault,
                Tried::Unclear(error) if self.class.runs_again() => Fault::retryable(error),
                Tried::Unclear(error) => return Tried::Unclear(error),
            };
            let asked = fault.after.unwrap_or_default();
            let may = fault.retryable && !fault.is_wait() && asked <= self.retry.longest;
            if !may || attempt >= self.retry.tries {
                return Tried::Fault(fault);
            }
            let after = pause.next().max(asked);
            visit.events.tell(|| Event::Retrying {
                job: visit.held.job().id.clone(),
                node: self.name.clone(),
                attempt,
                error: fault.error.clone(),
                after,
            });
            tokio::time::sleep(after).await;
        }
        unreachable!("the last try returns")
    }

    async fn try_once(&self, visit: &Visit<S>, op: &OpKey, attempt: u32) -> Tried<T> {
        let step = self.step(visit, op, attempt);
        // Called inside, so that a panic before the first await is caught too.
        let running = async { (self.run)(step, visit.state.clone()).await };
        let running = AssertUnwindSafe(running).catch_unwind();
        let ended = match self.timeout {
            None => running.await,
            Some(limit) => match tokio::time::timeout(limit, running).await {
                Ok(ended) => ended,
                Err(_) => return Tried::Unclear(format!("it took longer than {limit:?}")),
            },
        };
        match ended {
            Ok(result) => result.into(),
            Err(panic) => {
                let said = said(&*panic);
                tracing::error!(node = %self.name, panic = said, "a node of a plan panicked");
                Tried::Unclear(format!("the run panicked: {said}"))
            }
        }
    }
}

/// A visit of a node: under which lease, with which state, for the how-manieth time.
pub(super) struct Visit<S> {
    pub(super) held: Held,
    pub(super) events: Events,
    pub(super) state: Arc<S>,
    pub(super) number: u32,
    /// The operation of this visit, if it was begun before.
    pub(super) ahead: Option<Ahead>,
    /// What follows the result, if one node does.
    pub(super) next: Option<Next<S>>,
}

/// The effect of the node that follows once this is applied to the state.
pub(super) type Next<S> = Box<dyn Fn(&dyn Fn(&mut S)) -> Option<Effect> + Send + Sync>;

/// What came of a visit.
pub(super) enum Visited<S> {
    Ran {
        op: OpKey,
        replayed: bool,
        apply: Box<dyn FnOnce(&mut S) + Send>,
        /// What follows, if it is begun already.
        ahead: Option<Ahead>,
    },
    Asks(Asks),
}

/// A node whose result's type is known to itself only.
pub(super) trait Erased<S>: Send + Sync {
    fn name(&self) -> &Arc<str>;

    fn class(&self) -> Class;

    fn has_probe(&self) -> bool;

    /// The effect that this visit is.
    fn effect(&self, state: &S, visit: u32) -> Effect;

    fn visit(
        self: Arc<Self>,
        effect: Effect,
        visit: Visit<S>,
    ) -> Boxed<Result<Visited<S>, EffectError>>;
}

impl<S, T> Erased<S> for Node<S, T>
where
    S: Send + Sync + 'static,
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn class(&self) -> Class {
        self.class
    }

    fn has_probe(&self) -> bool {
        self.probe.is_some()
    }

    fn effect(&self, state: &S, visit: u32) -> Effect {
        let mut context = self.context.as_ref().map(|context| context(state));
        if visit > 1 {
            // Only from the second visit, so that the key of the first is the plain one.
            match context.get_or_insert_with(|| json!({})) {
                Value::Object(members) => {
                    members.insert("visit".to_owned(), visit.into());
                }
                // No object is no context; making the key says so.
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_) => {}
            }
        }
        let mut effect = Effect::new(&self.name, self.class);
        effect.context = context;
        effect.enters = self.enters;
        effect.begins_late = self.begins_late;
        effect
    }

    fn visit(
        self: Arc<Self>,
        effect: Effect,
        mut visit: Visit<S>,
    ) -> Boxed<Result<Visited<S>, EffectError>> {
        Box::pin(async move {
            let ahead = visit.ahead.take();
            let ask = |probe: Arc<Probe<S, T>>| {
                let (node, visit) = (&self, &visit);
                move |op: OpKey| probe(node.step(visit, &op, 1), visit.state.clone())
            };
            let probe = self.probe.clone().map(ask);
            let advance = |value: &T| {
                let advance = self.advance.as_ref()?;
                advance(&visit.state, value)
            };
            let next = |value: &T| {
                let apply = |state: &mut S| {
                    if let Some(apply) = &self.apply {
                        apply(state, value);
                    }
                };
                visit.next.as_ref().and_then(|next| next(&apply))
            };
            let run = |op| self.tries(&visit, op);
            let steps = Steps { advance, next };
            let performed = visit.held.perform(&effect, ahead, probe, run, steps);
            match performed.await? {
                Performed::Ran(ran, ahead) => {
                    let (apply, value) = (self.apply.clone(), ran.value);
                    Ok(Visited::Ran {
                        op: ran.op,
                        replayed: ran.replayed,
                        apply: Box::new(move |state| {
                            if let Some(apply) = apply {
                                apply(state, &value);
                            }
                        }),
                        ahead,
                    })
                }
                Performed::Asks(asks) => Ok(Visited::Asks(asks)),
            }
        })
    }
}
