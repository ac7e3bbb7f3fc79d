//! Whether what one key's clients saw can be put into one order, each act at one moment between its beginning and its end.
//! It is a search, so it is for short histories; the rules in `history` hold for any length.

use std::collections::HashSet;

use crate::event::{Act, Body, Cause, Told};

/// The most acts of one key that are searched.
const ACTS_MAX: usize = 128;

/// One act, from its beginning to its answer.
#[derive(Clone, Debug)]
pub struct Span {
    /// Who acted.
    pub client: u64,
    /// What was asked.
    pub act: Act,
    /// When it began.
    pub invoked: u64,
    /// When it was answered; `None` if it never was: then it may have happened at any later moment, or not at all.
    pub returned: Option<u64>,
    /// The answer.
    pub told: Option<Told>,
}

/// What the search found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linear {
    /// There is such an order.
    Yes,
    /// There is none.
    No,
    /// There are too many acts, or too many orders to look at.
    TooLarge,
}

/// What a key is, in between two acts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum State {
    Vacant,
    /// Held under this fence; `None` where nobody was told which.
    Held(Option<i64>),
    InDoubt(Option<i64>),
    Settled(Body),
    Erased,
}

/// Whether one order explains `spans`, looking at no more than `states_max` states. Nothing may expire meanwhile.
#[must_use]
pub fn is_linear(spans: &[Span], states_max: usize) -> Linear {
    if spans.len() > ACTS_MAX {
        return Linear::TooLarge;
    }
    let mut seen = HashSet::new();
    let mut open = vec![(0u128, State::Vacant)];
    let answered = spans.iter().enumerate();
    let answered: u128 = answered
        .filter(|(_, span)| span.returned.is_some())
        .fold(0, |bits, (at, _)| bits | 1 << at);
    while let Some((done, state)) = open.pop() {
        if done & answered == answered {
            return Linear::Yes;
        }
        if !seen.insert((done, state.clone())) {
            continue;
        }
        if seen.len() > states_max {
            return Linear::TooLarge;
        }
        let is_open = |at: &usize| done & (1 << at) == 0;
        let ends = (0..spans.len())
            .filter(is_open)
            .filter_map(|at| spans[at].returned);
        let first_end = ends.min().unwrap_or(u64::MAX);
        for at in (0..spans.len()).filter(is_open) {
            // What began after another act had ended comes after it.
            if spans[at].invoked > first_end {
                continue;
            }
            if let Some(next) = step(&state, &spans[at]) {
                open.push((done | 1 << at, next));
            }
        }
    }
    Linear::No
}

/// The state after `span`, if it can happen in `state`. An act without an answer only if it changes something.
fn step(state: &State, span: &Span) -> Option<State> {
    let Some(told) = &span.told else {
        return unanswered(state, &span.act);
    };
    let held = matches!(state, State::Held(_) | State::InDoubt(_));
    let stays = |fine: bool| fine.then(|| state.clone());
    match (&span.act, told) {
        (Act::Claim { .. }, Told::Granted { fence, cause, .. }) => {
            let fine = match cause {
                Cause::New => *state == State::Vacant,
                Cause::Taken => held,
                Cause::Mine => {
                    matches!(state, State::Held(held) if held.is_none_or(|held| held == *fence))
                }
            };
            fine.then_some(State::Held(Some(*fence)))
        }
        (Act::Claim { .. }, Told::Replay(body)) => {
            stays(matches!(state, State::Settled(settled) if settled == body))
        }
        (Act::Claim { .. }, Told::Busy) => stays(matches!(state, State::Held(_))),
        (Act::Claim { .. }, Told::InDoubt) => stays(held),
        (Act::Claim { .. }, Told::Erased) => stays(*state == State::Erased),
        (Act::Claim { .. }, Told::Conflict) => stays(*state != State::Vacant),
        (Act::Settle { fence, body }, Told::Recorded { .. }) => {
            owns(state, *fence).then(|| State::Settled(body.clone()))
        }
        (Act::Rule { body }, Told::Recorded { .. }) => held.then(|| State::Settled(body.clone())),
        (Act::Renew { fence }, Told::Done) => stays(owns(state, *fence)),
        // If an operator gave the same key back meanwhile, a try that failed cannot be told from his.
        (Act::Release { fence }, Told::Done) => {
            (owns(state, *fence) || *state == State::Vacant).then_some(State::Vacant)
        }
        (Act::Doubt { fence }, Told::Done) => {
            owns(state, *fence).then_some(State::InDoubt(Some(*fence)))
        }
        (Act::End, Told::Done) => Some(State::Vacant),
        (Act::Erase, Told::Done) => Some(State::Erased),
        (
            Act::Settle { fence, .. }
            | Act::Renew { fence }
            | Act::Release { fence }
            | Act::Doubt { fence },
            Told::Refused,
        ) => stays(!owns(state, *fence)),
        (Act::End | Act::Rule { .. } | Act::Erase, Told::Refused) => stays(true),
        // No other answer belongs to these acts.
        (
            Act::Claim { .. }
            | Act::Settle { .. }
            | Act::Renew { .. }
            | Act::Release { .. }
            | Act::Doubt { .. }
            | Act::End
            | Act::Rule { .. }
            | Act::Erase,
            _,
        ) => None,
    }
}

/// What an act that nobody was answered for may have done.
fn unanswered(state: &State, act: &Act) -> Option<State> {
    let held = matches!(state, State::Held(_) | State::InDoubt(_));
    match act {
        Act::Claim { .. } => (held || *state == State::Vacant).then_some(State::Held(None)),
        Act::Settle { fence, body } => owns(state, *fence).then(|| State::Settled(body.clone())),
        Act::Rule { body } => held.then(|| State::Settled(body.clone())),
        Act::Release { fence } => owns(state, *fence).then_some(State::Vacant),
        Act::Doubt { fence } => owns(state, *fence).then_some(State::InDoubt(Some(*fence))),
        Act::End => Some(State::Vacant),
        Act::Erase => Some(State::Erased),
        Act::Renew { .. } => None,
    }
}

fn owns(state: &State, fence: i64) -> bool {
    matches!(state, State::Held(Some(held)) | State::InDoubt(Some(held)) if *held == fence)
}
