//! The operation that follows, begun in the transaction that records the one before it: a plan of n steps then commits
//! n + 1 times, not 2n times. It decides nothing; the plan says what follows.

use std::sync::Arc;

use hapax_core::job::{Begun, Deed, Done, On, OpKey, State};

use super::effect::{Effect, EffectError};
use super::held::{Held, HeldError};

/// An operation that was begun before it was come to.
pub(super) struct Ahead {
    effect: Effect,
    op: OpKey,
    begun: Begun,
}

impl Ahead {
    /// The key of this effect, if it is what was begun: it need not be made again.
    pub(super) fn key_of(&self, effect: &Effect) -> Option<OpKey> {
        (self.effect == *effect).then(|| self.op.clone())
    }

    /// What was answered, if it is this operation.
    pub(super) fn of(self, op: &OpKey) -> Option<Begun> {
        (self.op == *op).then_some(self.begun)
    }
}

/// An operation that is about to be begun.
pub(super) struct Opening {
    op: OpKey,
    token: Arc<str>,
    deeds: Vec<(On, Deed)>,
}

impl Opening {
    /// Begins `op`, once a job in `state` has entered the state that the effect wants.
    pub(super) fn of(held: &Held, effect: &Effect, op: OpKey, state: State) -> Self {
        let job = held.job();
        let on = || On::Job(job.id.clone());
        let enters = effect
            .enters
            .filter(|to| state.followers(&job.kind).contains(to));
        let enter = |to| Deed::Advance {
            to,
            allowed_from: None,
            result: None,
        };
        let token = token();
        let begin = Deed::Begin {
            key: op.clone(),
            kind: effect.kind.as_str().into(),
            class: effect.class,
            token: token.clone(),
        };
        let deeds = enters.map(enter).into_iter().chain([begin]);
        Self {
            op,
            token,
            deeds: deeds.map(|deed| (on(), deed)).collect(),
        }
    }

    /// The secret of whoever runs it, once it is begun.
    pub(super) fn token(&self) -> &Arc<str> {
        &self.token
    }

    /// What is to be written for it.
    pub(super) fn deeds(&self) -> Vec<(On, Deed)> {
        self.deeds.clone()
    }

    /// Takes the beginning back if anything that was written with it was refused: each deed is judged by itself, and what
    /// is begun and not come to would be taken for something that may have happened.
    pub(super) async fn take_back_unless_whole(
        &self,
        held: &Held,
        answers: &[Result<Done, HeldError>],
    ) -> Result<(), HeldError> {
        if answers.iter().all(Result::is_ok) {
            return Ok(());
        }
        let token = answers.iter().find_map(|answer| match answer {
            Ok(Done::Begun(Begun::Execute(token), _)) => Some(token.clone()),
            _ => None,
        });
        let Some(token) = token else {
            return Ok(());
        };
        let deed = Deed::FailOp {
            token,
            error: "what comes before it was refused".into(),
            retryable: true,
        };
        held.write(On::Op(self.op.clone()), deed).await.map(drop)
    }

    /// The operation as begun ahead, if all of it was done. If not, beginning it when it is come to says why.
    pub(super) fn ahead(
        self,
        effect: Effect,
        answers: Vec<Result<Done, HeldError>>,
    ) -> Option<Ahead> {
        let begun = begun(answers).ok()?;
        let Self { op, .. } = self;
        Some(Ahead { effect, op, begun })
    }
}

/// What the answers to an opening say.
pub(super) fn begun(answers: Vec<Result<Done, HeldError>>) -> Result<Begun, EffectError> {
    let mut found = Begun::InProgress;
    for answer in answers {
        if let Done::Begun(begun, _) = answer? {
            found = begun;
        }
    }
    Ok(found)
}

/// The secret of one runner of one operation.
fn token() -> Arc<str> {
    uuid::Uuid::new_v4().simple().to_string().into()
}
