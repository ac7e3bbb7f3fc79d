//! What an act does to an operation. Every one but beginning needs the token of its runner, or a person.

use std::sync::Arc;

use super::super::act::{Begun, Change, Done, Fence, Refusal, Resolution};
use super::super::graph::State;
use super::super::model::Job;
use super::super::op::{Class, Op, OpKey, OpState};
use super::{ABANDONED_AFTER, NEVER, advance, bounded, cut, lost};
use crate::canonical::{Profile, canonical};
use crate::time::Time;

/// What the runner of an operation asks.
pub(super) struct Begin<'a> {
    pub(super) key: &'a OpKey,
    pub(super) kind: &'a Arc<str>,
    pub(super) class: Class,
    pub(super) token: &'a Arc<str>,
}

pub(super) fn begin(
    job: &Job,
    op: Option<&Op>,
    asked: &Begin<'_>,
    now: Time,
) -> Result<Change, Refusal> {
    let Some(op) = op else {
        return Ok(execute(job, 0, asked, now));
    };
    if op.job != job.id || *op.kind != **asked.kind {
        return Err(Refusal::KeyConflict {
            job: op.job.clone(),
            kind: op.kind.clone(),
        });
    }
    if op.epoch <= job.redone {
        return Ok(execute(job, op.tries, asked, now));
    }
    let told = |begun: Begun| Change {
        job: None,
        op: None,
        done: Done::Begun(begun, Box::new(op.clone())),
    };
    let is_same_runner = *op.token == **asked.token && op.epoch == job.epoch;
    match op.state {
        OpState::Done => Ok(told(Begun::Replay(text(op.result.as_ref())))),
        OpState::Retryable => Ok(execute(job, op.tries, asked, now)),
        OpState::Failed if op.epoch <= job.retried => Ok(execute(job, op.tries, asked, now)),
        OpState::Failed => Ok(told(Begun::Failed(text(op.error.as_ref())))),
        OpState::Waiting => Ok(told(Begun::Waiting(text(op.result.as_ref())))),
        OpState::Running if is_same_runner => Ok(told(Begun::Execute(asked.token.clone()))),
        OpState::Running if is_worked_on(job, op, now) => Ok(told(Begun::InProgress)),
        OpState::Running | OpState::InDoubt if asked.class.runs_again() => {
            Ok(execute(job, op.tries, asked, now))
        }
        OpState::InDoubt => Ok(told(Begun::InDoubt)),
        OpState::Running => {
            let doubted = Op {
                state: OpState::InDoubt,
                ..op.clone()
            };
            let done = Done::Begun(Begun::InDoubt, Box::new(doubted.clone()));
            Ok(Change {
                job: None,
                op: Some(doubted),
                done,
            })
        }
    }
}

fn execute(job: &Job, tries: u32, asked: &Begin<'_>, now: Time) -> Change {
    let op = Op {
        tenant: job.tenant,
        key: asked.key.clone(),
        job: job.id.clone(),
        kind: asked.kind.to_string(),
        state: OpState::Running,
        class: asked.class,
        epoch: job.epoch,
        token: asked.token.to_string(),
        tries: tries.saturating_add(1),
        started_at: now,
        finished_at: None,
        result: None,
        error: None,
    };
    let done = Done::Begun(Begun::Execute(asked.token.clone()), Box::new(op.clone()));
    Change {
        job: None,
        op: Some(op),
        done,
    }
}

/// Whether the runner of a running operation may still be at it: nobody took the job since, and it is held, or
/// it was begun a short while ago.
fn is_worked_on(job: &Job, op: &Op, now: Time) -> bool {
    op.epoch == job.epoch && (job.is_held(now) || now.since(op.started_at) < ABANDONED_AFTER)
}

/// Whether whoever sent `token` runs the operation and nobody took its job since.
fn runs(job: &Job, op: &Op, token: &str) -> Result<(), Refusal> {
    let is_open = matches!(op.state, OpState::Running | OpState::InDoubt);
    if is_open && op.token == token && op.epoch == job.epoch {
        Ok(())
    } else {
        Err(lost(job))
    }
}

pub(super) fn complete(
    job: &Job,
    op: &Op,
    token: &str,
    result: &Arc<str>,
    advance_to: Option<State>,
    now: Time,
) -> Result<Change, Refusal> {
    bounded(result)?;
    if op.state == OpState::Done && op.token == token {
        if op
            .result
            .as_deref()
            .is_some_and(|told| is_same(told, result))
        {
            // The answer got lost, and it is told again. The step may be news.
            let is_next = |to: &State| job.state.followers(&job.kind).contains(to);
            let news = advance_to.filter(|to| op.epoch == job.epoch && is_next(to));
            let moved = match news {
                Some(to) => advance(job, to, None, to.is_terminal().then_some(result), now)?,
                None => None,
            };
            return Ok(of_op(job, op, None, moved));
        }
        return Err(Refusal::KeyConflict {
            job: op.job.clone(),
            kind: op.kind.clone(),
        });
    }
    runs(job, op, token)?;
    let moved = match advance_to {
        Some(to) => {
            let kept = to.is_terminal().then_some(result);
            advance(job, to, None, kept, now)?
        }
        None => None,
    };
    Ok(of_op(job, op, Some(done(op, result, now)), moved))
}

pub(super) fn resolve(
    job: &Job,
    op: &Op,
    fence: &Fence,
    resolution: &Resolution,
    now: Time,
) -> Result<Change, Refusal> {
    let holds = |owner: &Arc<str>| job.lease.as_ref().is_some_and(|hold| hold.owner == *owner);
    let is_holder = fence.owner.as_ref().is_none_or(holds);
    if !is_holder || fence.epoch.is_some_and(|epoch| epoch != job.epoch) {
        return Err(lost(job));
    }
    let is_open = match op.state {
        OpState::InDoubt | OpState::Waiting => true,
        OpState::Running => !is_worked_on(job, op, now),
        OpState::Done | OpState::Retryable | OpState::Failed => false,
    };
    if !is_open {
        return Err(Refusal::NotOpen { have: op.state });
    }
    let ended = match resolution {
        Resolution::Result(result) => {
            bounded(result)?;
            done(op, result, now)
        }
        Resolution::Retry => Op {
            state: OpState::Retryable,
            result: None,
            ..op.clone()
        },
        Resolution::Error(error) => failed(op, OpState::Failed, error, now),
    };
    // Its epoch is that of whoever ended it, so that a job planned anew or retried before that does not undo it.
    let ended = Op {
        epoch: job.epoch,
        ..ended
    };
    // A job that is parked for this, or rests because of it, goes on at once.
    let rests = !job.state.is_terminal() && job.lease.is_none() && job.available_at > now;
    let woken = rests.then(|| Job {
        available_at: now,
        updated_at: now,
        ..job.clone()
    });
    Ok(of_op(job, op, Some(ended), woken))
}

/// Whether two results are the same JSON, however they are written.
fn is_same(one: &str, other: &str) -> bool {
    let form = |text: &str| canonical(text.as_bytes(), Profile::Hcj1).ok();
    one == other || form(one).is_some_and(|one| form(other) == Some(one))
}

fn done(op: &Op, result: &Arc<str>, now: Time) -> Op {
    Op {
        state: OpState::Done,
        result: Some(result.clone()),
        error: None,
        finished_at: Some(now),
        ..op.clone()
    }
}

fn failed(op: &Op, state: OpState, error: &Arc<str>, now: Time) -> Op {
    Op {
        state,
        result: None,
        error: Some(cut(error)),
        finished_at: (state == OpState::Failed).then_some(now),
        ..op.clone()
    }
}

pub(super) fn fail(
    job: &Job,
    op: &Op,
    token: &str,
    error: &Arc<str>,
    retryable: bool,
    now: Time,
) -> Result<Change, Refusal> {
    let state = if retryable {
        OpState::Retryable
    } else {
        OpState::Failed
    };
    if op.state == state && op.token == token && op.error == Some(cut(error)) {
        return Ok(of_op(job, op, None, None)); // The answer got lost, and it is told again.
    }
    runs(job, op, token)?;
    Ok(of_op(job, op, Some(failed(op, state, error, now)), None))
}

pub(super) fn wait(
    job: &Job,
    op: &Op,
    token: &str,
    asks: &Arc<str>,
    now: Time,
) -> Result<Change, Refusal> {
    runs(job, op, token)?;
    bounded(asks)?;
    let waiting = Op {
        state: OpState::Waiting,
        result: Some(asks.clone()),
        ..op.clone()
    };
    let parked = Job {
        lease: None,
        available_at: NEVER,
        updated_at: now,
        ..job.clone()
    };
    Ok(of_op(job, op, Some(waiting), Some(parked)))
}

pub(super) fn doubt(job: &Job, op: &Op, now: Time) -> Change {
    let is_dead = op.state == OpState::Running && !is_worked_on(job, op, now);
    let doubted = is_dead.then(|| Op {
        state: OpState::InDoubt,
        ..op.clone()
    });
    of_op(job, op, doubted, None)
}

fn of_op(seen_job: &Job, seen_op: &Op, op: Option<Op>, job: Option<Job>) -> Change {
    let now_op = op.clone().unwrap_or_else(|| seen_op.clone());
    let now_job = job.clone().unwrap_or_else(|| seen_job.clone());
    Change {
        job,
        op,
        done: Done::Op(Box::new(now_op), Box::new(now_job)),
    }
}

fn text(stored: Option<&Arc<str>>) -> Arc<str> {
    stored.cloned().unwrap_or_else(|| "null".into())
}
