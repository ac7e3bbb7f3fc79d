//! Runs one effect under a lease: begin, run, record. The record and the job's step are one transaction.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hapax_core::job::{Begun, Class, Deed, On, Op, OpKey, OpState, Refusal, Resolution, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ahead::{Ahead, Opening, begun};
use super::effect::{Effect, EffectError, Fault, Probed, Ran};
use super::held::{Held, HeldError};

/// How often an operation is begun within one call: after it was asked about, once more.
const ROUNDS_MAX: usize = 4;

/// How a run ended.
pub(super) enum Tried<T> {
    Done(T),
    Fault(Fault),
    /// It was cut off, so that it may have happened.
    Unclear(String),
}

impl<T> From<Result<T, Fault>> for Tried<T> {
    fn from(result: Result<T, Fault>) -> Self {
        match result {
            Ok(value) => Tried::Done(value),
            Err(fault) => Tried::Fault(fault),
        }
    }
}

/// What came of an effect that did not fail.
pub(super) enum Performed<T> {
    /// It has a result, and what follows may be begun already.
    Ran(Ran<T>, Option<Ahead>),
    /// It wants to wait, and that is not recorded yet.
    Asks(Asks),
}

/// What an effect does to its job beside its own record, by its result.
pub(super) struct Steps<A, N> {
    /// Where the job goes.
    pub(super) advance: A,
    /// The effect that follows, if that is known.
    pub(super) next: N,
}

impl<A> Steps<A, ()> {
    /// A step of the job, and nothing known of what follows.
    fn alone<T>(advance: A) -> Steps<A, impl Fn(&T) -> Option<Effect>> {
        let next = |_: &T| None;
        Steps { advance, next }
    }
}

/// A wait to be recorded.
pub(super) struct Asks {
    pub(super) op: OpKey,
    token: Arc<str>,
    question: Value,
}

impl Held {
    /// Runs an effect unless its result is recorded already, and records the result once.
    ///
    /// The run is dropped when the lease is lost, and then nothing is recorded. A run that panics is a retryable
    /// failure; an effect that may not simply be run again is in doubt then. What is returned is always what is
    /// recorded, read back. Dropping this future leaves the operation begun, so its class says what happens next.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use hapax::job::{Ask, Class, Effect, EffectError, Fault, Held, NewJob, Queue, testing::MemoryQueue};
    /// use hapax::core::Tenant;
    ///
    /// let queue: std::sync::Arc<dyn Queue> = std::sync::Arc::new(MemoryQueue::new());
    /// queue.plan(Tenant::DEFAULT, vec![NewJob::download("w-1", "a-1", "https://example.org/paper.pdf")?]).await?;
    /// let held = Held::lease(&queue, Tenant::DEFAULT, Ask::by("worker-1")).await?.remove(0);
    ///
    /// let charge = Effect::new("CHARGE", Class::Keyed);
    /// let ran = held.run(&charge, |_op| async { Ok::<u32, Fault>(7) }).await?;
    /// assert_eq!((ran.value, ran.replayed), (7, false));
    /// let again = held.run(&charge, |_op| async { unreachable!("it is recorded") }).await?;
    /// assert_eq!((again.value, again.replayed), (ran.value, true));
    ///
    /// // The refusal: what failed for good does not run again.
    /// let ship = Effect::new("SHIP", Class::Keyed);
    /// let failed = held.run(&ship, |_op| async { Err::<(), _>(Fault::fatal("no such address")) }).await;
    /// assert!(matches!(failed, Err(EffectError::Fault(_))));
    /// let again = held.run(&ship, |_op| async { Ok(()) }).await;
    /// assert!(matches!(again, Err(EffectError::Failed(why)) if why == "no such address"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`EffectError`] says why there is no result.
    pub async fn run<T, F, Fut>(&self, effect: &Effect, run: F) -> Result<Ran<T>, EffectError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(OpKey) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let no_probe = None::<fn(OpKey) -> std::future::Ready<Probed<T>>>;
        let run = async |op| Tried::from(run(op).await);
        let steps = Steps::alone(|_: &T| effect.advance_to);
        let performed = self.perform(effect, None, no_probe, run, steps).await?;
        self.ran(performed).await
    }

    /// The same for an effect whose receiver can be asked what happened: `probe` is called when an earlier runner
    /// died in the middle of it.
    ///
    /// # Errors
    /// [`EffectError`] says why there is no result; [`EffectError::InDoubt`] when the receiver does not know.
    pub async fn run_probed<T, P, PFut, F, Fut>(
        &self,
        effect: &Effect,
        probe: P,
        run: F,
    ) -> Result<Ran<T>, EffectError>
    where
        T: Serialize + DeserializeOwned,
        P: FnOnce(OpKey) -> PFut,
        PFut: Future<Output = Probed<T>>,
        F: FnOnce(OpKey) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let run = async |op| Tried::from(run(op).await);
        let steps = Steps::alone(|_: &T| effect.advance_to);
        let performed = self.perform(effect, None, Some(probe), run, steps).await?;
        self.ran(performed).await
    }

    async fn ran<T>(&self, performed: Performed<T>) -> Result<Ran<T>, EffectError> {
        match performed {
            Performed::Ran(ran, _) => Ok(ran),
            Performed::Asks(asks) => {
                self.park(asks).await?;
                Err(EffectError::Waiting)
            }
        }
    }

    /// Begins unless that was done `ahead`, runs and records, with steps of the job that may depend on the result.
    pub(super) async fn perform<T, P, PFut, R, RFut, A, N>(
        &self,
        effect: &Effect,
        ahead: Option<Ahead>,
        mut probe: Option<P>,
        run: R,
        steps: Steps<A, N>,
    ) -> Result<Performed<T>, EffectError>
    where
        A: Fn(&T) -> Option<State>,
        N: Fn(&T) -> Option<Effect>,
        T: Serialize + DeserializeOwned,
        P: FnOnce(OpKey) -> PFut,
        PFut: Future<Output = Probed<T>>,
        R: FnOnce(OpKey) -> RFut,
        RFut: Future<Output = Tried<T>>,
    {
        let known = ahead.as_ref().and_then(|ahead| ahead.key_of(effect));
        let op = known.map_or_else(|| effect.key(self), Ok)?;
        let mut ahead = ahead.and_then(|ahead| ahead.of(&op));
        for _ in 0..ROUNDS_MAX {
            let begun = if let Some(begun) = ahead.take() {
                begun
            } else {
                // Another branch of the plan may have moved the job since the round before.
                let opening = Opening::of(self, effect, op.clone(), self.state());
                if self.may_begin_late(effect) {
                    let runner = Runner {
                        held: self,
                        class: effect.class,
                        op,
                        token: opening.token().clone(),
                        late: Some(opening),
                    };
                    return runner.execute(run, steps).await;
                }
                self.begin(&opening).await?
            };
            match begun {
                Begun::Execute(token) => {
                    let runner = Runner {
                        held: self,
                        class: effect.class,
                        op,
                        token,
                        late: None,
                    };
                    return runner.execute(run, steps).await;
                }
                Begun::InDoubt => {
                    let probe = probe.take().ok_or(EffectError::InDoubt)?;
                    self.ask(&op, probe).await?;
                }
                begun => return self.known(op, begun, &steps).await,
            }
        }
        Err(EffectError::InDoubt)
    }

    /// Whether an effect may run before its beginning is recorded: nobody has run it, and a crash in it means nothing.
    fn may_begin_late(&self, effect: &Effect) -> bool {
        effect.begins_late
            && effect.class == Class::Replayable
            && effect.enters.is_none()
            && self.job().attempts <= 1
    }

    /// What came of an operation that somebody else ended, or is at.
    async fn known<T, A, N>(
        &self,
        op: OpKey,
        begun: Begun,
        steps: &Steps<A, N>,
    ) -> Result<Performed<T>, EffectError>
    where
        T: DeserializeOwned,
        A: Fn(&T) -> Option<State>,
    {
        match begun {
            Begun::Replay(text) => {
                let value: T = read(&op, &text)?;
                self.catch_up((steps.advance)(&value), Some(&text)).await?;
                let replayed = true;
                let ran = Ran {
                    value,
                    replayed,
                    op,
                };
                Ok(Performed::Ran(ran, None))
            }
            Begun::Execute(_) | Begun::InProgress => Err(EffectError::InProgress),
            Begun::Failed(error) => Err(EffectError::Failed(error.to_string())),
            Begun::Waiting(_) => Err(EffectError::Waiting),
            Begun::InDoubt => Err(EffectError::InDoubt),
        }
    }

    async fn begin(&self, opening: &Opening) -> Result<Begun, EffectError> {
        let answers = tokio::select! {
            biased;
            () = self.lost() => return Err(EffectError::Lost),
            answers = self.write_all(opening.deeds()) => answers?,
        };
        opening.take_back_unless_whole(self, &answers).await?;
        begun(answers)
    }

    /// Asks the receiver of an operation in doubt, and records what it says. Beginning again then tells.
    async fn ask<T, P, PFut>(&self, op: &OpKey, probe: P) -> Result<(), EffectError>
    where
        T: Serialize,
        P: FnOnce(OpKey) -> PFut,
        PFut: Future<Output = Probed<T>>,
    {
        let key = op.clone();
        let asked = AssertUnwindSafe(async { probe(key).await }).catch_unwind();
        let probed = tokio::select! {
            biased;
            () = self.lost() => return Err(EffectError::Lost),
            probed = asked => probed,
        };
        let resolution = match probed {
            Ok(Probed::Happened(value)) => match serde_json::to_string(&value) {
                Ok(text) => Resolution::Result(text.into()),
                Err(error) => return Err(EffectError::Fault(Fault::fatal(no_json(&error)))),
            },
            Ok(Probed::DidNot) => Resolution::Retry,
            Ok(Probed::Unknown) => return Err(EffectError::InDoubt),
            Err(panic) => {
                tracing::error!(%op, panic = said(&*panic), "the probe of an operation panicked");
                return Err(EffectError::InDoubt);
            }
        };
        match self
            .write(On::Op(op.clone()), Deed::Resolve(resolution))
            .await
        {
            // Somebody ended it in between, or the answer to our own write got lost.
            Ok(_) | Err(HeldError::Refused(Refusal::NotOpen { .. })) => Ok(()),
            Err(HeldError::Refused(Refusal::TooLarge { bytes })) => {
                Err(EffectError::TooLarge { bytes })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Records that an operation waits. The job is given back and not leased until somebody resolves it.
    pub(super) async fn park(&self, asks: Asks) -> Result<(), EffectError> {
        let Asks {
            op,
            token,
            question,
        } = asks;
        let deed = Deed::Wait {
            token: token.clone(),
            asks: question.to_string().into(),
        };
        match self.write(On::Op(op.clone()), deed).await {
            Ok(_) => Ok(()),
            Err(HeldError::Refused(Refusal::TooLarge { bytes })) => {
                Err(EffectError::TooLarge { bytes })
            }
            Err(HeldError::Lost) if self.waits(&op, &token).await => {
                self.gave_back();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether this runner's own wait is recorded, after the answer to it got lost.
    async fn waits(&self, op: &OpKey, token: &str) -> bool {
        let stored = self.queue().op(self.tenant(), op.clone()).await;
        matches!(stored, Ok(Some(op)) if op.state == OpState::Waiting && op.token == token)
    }

    /// Gives up a wait for now, because another operation of the same job waits already.
    pub(super) async fn wait_later(&self, asks: Asks) -> Result<(), EffectError> {
        let deed = Deed::FailOp {
            token: asks.token,
            error: "another operation of the job waits for an answer".into(),
            retryable: true,
        };
        self.write(On::Op(asks.op), deed).await?;
        Ok(())
    }
}

/// Whoever was told to execute an operation.
struct Runner<'a> {
    held: &'a Held,
    class: Class,
    op: OpKey,
    token: Arc<str>,
    /// Its beginning, if that is to be recorded with its end.
    late: Option<Opening>,
}

impl Runner<'_> {
    async fn execute<T, R, RFut, A, N>(
        self,
        run: R,
        steps: Steps<A, N>,
    ) -> Result<Performed<T>, EffectError>
    where
        T: Serialize + DeserializeOwned,
        A: Fn(&T) -> Option<State>,
        N: Fn(&T) -> Option<Effect>,
        R: FnOnce(OpKey) -> RFut,
        RFut: Future<Output = Tried<T>>,
    {
        let key = self.op.clone();
        // Called inside, so that a panic before the first await is caught too.
        let running = AssertUnwindSafe(async { run(key).await }).catch_unwind();
        let tried = tokio::select! {
            biased;
            () = self.held.lost() => return Err(EffectError::Lost),
            tried = running => tried,
        };
        let unclear = match tried {
            Ok(Tried::Done(value)) => return self.complete(&value, steps).await,
            Ok(Tried::Fault(Fault {
                asks: Some(asks), ..
            })) => {
                if let Some(opening) = &self.late {
                    self.held.begin(opening).await?;
                }
                return Ok(Performed::Asks(Asks {
                    op: self.op,
                    token: self.token,
                    question: *asks,
                }));
            }
            Ok(Tried::Fault(fault)) => return Err(self.fail(fault).await),
            Ok(Tried::Unclear(error)) => error,
            Err(panic) => {
                let said = said(&*panic);
                tracing::error!(op = %self.op, panic = said, "the run of an effect panicked");
                format!("the run panicked: {said}")
            }
        };
        if self.class.runs_again() {
            Err(self.fail(Fault::retryable(unclear)).await)
        } else {
            // It may have happened. The next lease of the job finds it in doubt.
            Err(EffectError::InDoubt)
        }
    }

    async fn complete<T, A, N>(
        self,
        value: &T,
        steps: Steps<A, N>,
    ) -> Result<Performed<T>, EffectError>
    where
        T: Serialize + DeserializeOwned,
        A: Fn(&T) -> Option<State>,
        N: Fn(&T) -> Option<Effect>,
    {
        let text: Arc<str> = match serde_json::to_string(value) {
            Ok(text) => text.into(),
            Err(error) => return Err(self.fail(Fault::fatal(no_json(&error))).await),
        };
        if text.len() > Op::RESULT_BYTES_MAX {
            return Err(self.too_large(text.len()).await);
        }
        let value: T = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) => {
                let fault = Fault::fatal(format!("its result cannot be read back: {error}"));
                return Err(self.fail(fault).await);
            }
        };
        let on = || On::Op(self.op.clone());
        let deed = |advance_to| Deed::Complete {
            token: self.token.clone(),
            result: text.clone(),
            advance_to,
        };
        let advance_to = (steps.advance)(&value);
        let next = (steps.next)(&value);
        let opening = next.as_ref();
        let opening = opening.and_then(|next| self.opening(next, advance_to));
        let mut deeds = self.late.as_ref().map(Opening::deeds).unwrap_or_default();
        let lates = deeds.len();
        deeds.push((on(), deed(advance_to)));
        deeds.extend(opening.iter().flat_map(Opening::deeds));
        let mut late = self.held.write_all(deeds).await?;
        let answers = late.split_off(lates.min(late.len()));
        if let Some(opening) = &opening {
            opening.take_back_unless_whole(self.held, &answers).await?;
        }
        // If it is sent twice, the second time finds it recorded, by this very runner.
        if self.late.is_some() && !matches!(answers.first(), Some(Ok(_))) {
            match begun(late)? {
                Begun::Execute(_) => {}
                // Somebody recorded it before: that counts, and what came of this run does not.
                begun => return self.held.known(self.op, begun, &steps).await,
            }
        }
        let mut answers = answers.into_iter();
        match answers.next().unwrap_or(Err(HeldError::Lost)) {
            Ok(_) => {
                let replayed = false;
                let ran = Ran {
                    value,
                    replayed,
                    op: self.op,
                };
                let begun = opening.zip(next);
                let ahead =
                    begun.and_then(|(opening, next)| opening.ahead(next, answers.collect()));
                Ok(Performed::Ran(ran, ahead))
            }
            Err(HeldError::Refused(Refusal::TooLarge { bytes })) => {
                Err(self.too_large(bytes).await)
            }
            Err(HeldError::Refused(denied @ Refusal::Denied { .. })) => {
                // It happened, so its result is kept although the job cannot take that step.
                self.held.write(on(), deed(None)).await?;
                Err(EffectError::Refused(denied))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The beginning of the effect that follows, in a job that is where this one's record leaves it.
    fn opening(&self, next: &Effect, advance_to: Option<State>) -> Option<Opening> {
        let state = advance_to.unwrap_or_else(|| self.held.state());
        let goes_on = !state.is_terminal() && state != State::Failed;
        let op = next.key(self.held).ok()?;
        (goes_on && op != self.op).then(|| Opening::of(self.held, next, op, state))
    }

    async fn too_large(&self, bytes: usize) -> EffectError {
        let why = Refusal::TooLarge { bytes }.to_string();
        match self.fail(Fault::fatal(why)).await {
            EffectError::Fault(_) => EffectError::TooLarge { bytes },
            other => other,
        }
    }

    /// Records the failure, and is what the caller gets to know.
    async fn fail(&self, fault: Fault) -> EffectError {
        let deed = Deed::FailOp {
            token: self.token.clone(),
            error: fault.error.as_str().into(),
            retryable: fault.retryable,
        };
        let mut deeds = self.late.as_ref().map(Opening::deeds).unwrap_or_default();
        deeds.push((On::Op(self.op.clone()), deed));
        let answers = match self.held.write_all(deeds).await {
            Ok(answers) => answers,
            Err(error) => return error.into(),
        };
        match answers.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(_) => EffectError::Fault(fault),
            // Somebody recorded it before. The next attempt finds that.
            Err(HeldError::Refused(_)) if self.late.is_some() => EffectError::Fault(Fault {
                retryable: true,
                ..fault
            }),
            Err(error) => error.into(),
        }
    }
}

fn read<T: DeserializeOwned>(op: &OpKey, text: &str) -> Result<T, EffectError> {
    serde_json::from_str(text).map_err(|error| EffectError::Unreadable {
        op: op.clone(),
        error: error.to_string(),
    })
}

fn no_json(error: &serde_json::Error) -> String {
    format!("its result cannot be written as JSON: {error}")
}

/// What a panic said.
pub(super) fn said(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("nothing")
}
