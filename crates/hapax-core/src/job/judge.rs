//! The rule of jobs and operations, pure: what a lease does to a job, and what every other act does.
//! A store loads, asks, and writes what it is told, under one lock on the job.

use std::sync::Arc;
use std::time::Duration;

mod ops;

use super::act::{Act, By, Change, Deed, Done, Fence, Refusal};
use super::backoff::{FIRST, longest, rest};
use super::graph::State;
use super::model::{Hold, Job, Place};
use super::op::{Op, OpState};
use crate::time::Time;
use ops::Begin;

/// How long an operation without a live lease behind it counts as being worked on.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// When a job that waits for somebody is due.
const NEVER: Time = Time::from_ms(i64::MAX);

/// What came of leasing a job that was due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is leased.
    Leased(Job),
    /// Its last lease ran out like those before it: it is given up instead.
    Dead(Job),
}

/// Leases `job`, which must be due: attempts and epoch rise, progress is kept.
#[must_use]
pub fn take(job: &Job, owner: &str, ttl: Duration, now: Time) -> Taken {
    let mut next = job.clone();
    next.updated_at = now;
    if next.lease.is_some() {
        next.failures = next.failures.saturating_add(1);
        if next.failures >= next.max_attempts {
            give_up(&mut next, RAN_OUT);
            return Taken::Dead(next);
        }
    }
    next.attempts = next.attempts.saturating_add(1);
    next.epoch += 1;
    hold(&mut next, owner.into(), ttl, now);
    if matches!(next.state, State::Planned | State::Failed) {
        next.state = State::Leased;
    }
    Taken::Leased(next)
}

const RAN_OUT: &str = "its leases ran out: the workers died or stalled";

/// What a store saw under its lock, and when.
#[derive(Clone, Copy, Debug)]
pub struct Knock<'a> {
    /// The job, if there is one.
    pub job: Option<&'a Job>,
    /// The operation that the act names, if there is one.
    pub op: Option<&'a Op>,
    /// The store's time.
    pub now: Time,
}

/// What `act` does to what was seen.
///
/// # Errors
/// [`Refusal`] when it may not be done. Nothing is to be written then.
pub fn judge(seen: Knock<'_>, act: &Act) -> Result<Change, Refusal> {
    let job = seen.job.ok_or(Refusal::NotFound)?;
    let (fence, now) = (&act.fence, seen.now);
    let named = || seen.op.ok_or(Refusal::NotFound);
    if job.is_of_the_program() && !is_let_in(act, seen.op) {
        return Err(Refusal::OfTheProgram);
    }
    match &act.deed {
        Deed::Renew { ttl } => renew(job, fence, *ttl, now),
        Deed::Release => release(job, fence, now),
        Deed::Advance {
            to,
            allowed_from,
            result,
        } => {
            holds(job, fence, now)?;
            let moved = advance(job, *to, allowed_from.as_deref(), result.as_ref(), now)?;
            Ok(of_job(job, moved))
        }
        Deed::Fail {
            error,
            retryable,
            after,
        } => {
            holds(job, fence, now)?;
            if matches!(job.state, State::Failed | State::Dead) && fence.epoch.is_some() {
                // The answer got lost, and it is told again. That no try can help may be news.
                let is_news = !*retryable && job.state == State::Failed;
                let given_up = is_news.then(|| Job {
                    state: State::Dead,
                    error: error.as_ref().map(cut).or_else(|| job.error.clone()),
                    updated_at: now,
                    ..job.clone()
                });
                return Ok(of_job(job, given_up));
            }
            let failed = fail(job, error.as_ref(), *retryable, *after, now)?;
            Ok(of_job(job, Some(failed)))
        }
        Deed::Retry => retry(job, now),
        Deed::Redo { place } => redo(job, fence, place, now),
        Deed::Expire => Ok(of_job(job, expire(job, fence, now))),
        Deed::Begin {
            key,
            kind,
            class,
            token,
        } => {
            holds(job, fence, now)?;
            let asked = Begin {
                key,
                kind,
                class: *class,
                token,
            };
            ops::begin(job, seen.op, &asked, now)
        }
        Deed::Complete {
            token,
            result,
            advance_to,
        } => {
            holds(job, fence, now)?;
            ops::complete(job, named()?, token, result, *advance_to, now)
        }
        Deed::FailOp {
            token,
            error,
            retryable,
        } => {
            holds(job, fence, now)?;
            ops::fail(job, named()?, token, error, *retryable, now)
        }
        Deed::Wait { token, asks } => {
            holds(job, fence, now)?;
            ops::wait(job, named()?, token, asks, now)
        }
        Deed::Resolve(resolution) => ops::resolve(job, named()?, fence, resolution, now),
        Deed::Doubt => Ok(ops::doubt(job, named()?, now)),
    }
}

/// Whether the act may be done to a job of the program. From outside only people may, and only what is made for them:
/// an owner retries it, and ends the doubt about an operation. What waits for an answer has a route of its own.
fn is_let_in(act: &Act, op: Option<&Op>) -> bool {
    match (act.fence.by, &act.deed) {
        (By::Program, _) | (By::Owner, Deed::Retry) => true,
        (By::Owner, Deed::Resolve(_)) => op.is_some_and(|op| op.state != OpState::Waiting),
        (By::Caller | By::Owner, _) => false,
    }
}

/// Whether whoever sent `fence` may act on the job. While somebody holds it, only with the owner and the epoch; else
/// either may be left out, and what is sent must fit the last lease.
fn holds(job: &Job, fence: &Fence, now: Time) -> Result<(), Refusal> {
    let is_free = !job.is_held(now);
    let is_current = fence.epoch.map_or(is_free, |epoch| epoch == job.epoch);
    let is_owner = match (&job.lease, &fence.owner) {
        (Some(hold), Some(owner)) => hold.owner == *owner,
        (Some(_), None) => is_free,
        (None, _) => true,
    };
    if is_current && is_owner {
        Ok(())
    } else {
        Err(lost(job))
    }
}

fn lost(job: &Job) -> Refusal {
    let hold = job.lease.as_ref();
    Refusal::LeaseLost {
        epoch: job.epoch,
        owner: hold.map(|hold| hold.owner.clone()),
        until: hold.map(|hold| hold.until),
    }
}

/// A lease is renewed by its holder alone, live or not, so owner and epoch are always needed.
fn renew(job: &Job, fence: &Fence, ttl: Duration, now: Time) -> Result<Change, Refusal> {
    let (Some(owner), Some(_)) = (&fence.owner, fence.epoch) else {
        return Err(lost(job));
    };
    if job.lease.is_none() && !has_lapsed(job) {
        return Err(lost(job));
    }
    holds(job, fence, now)?;
    let mut next = job.clone();
    next.updated_at = now;
    hold(&mut next, owner.clone(), ttl, now);
    Ok(of_job(job, Some(next)))
}

/// Whether the reconciler ended its last lease and nobody has had it since: it was due before that. What was released
/// is due from then on, so this tells them apart.
fn has_lapsed(job: &Job) -> bool {
    let is_open = !job.state.is_terminal() && !matches!(job.state, State::Planned | State::Failed);
    is_open && job.lease.is_none() && job.available_at < job.updated_at
}

fn release(job: &Job, fence: &Fence, now: Time) -> Result<Change, Refusal> {
    holds(job, fence, now)?;
    let given_back = job.lease.is_some().then(|| Job {
        lease: None,
        available_at: now,
        updated_at: now,
        ..job.clone()
    });
    Ok(of_job(job, given_back))
}

fn hold(job: &mut Job, owner: Arc<str>, ttl: Duration, now: Time) {
    let until = now.plus(ttl.clamp(Job::LEASES.0, Job::LEASES.1));
    job.lease = Some(Hold { owner, until });
    job.available_at = until;
}

/// The job after a step along the graph; `None` when it is there already.
fn advance(
    job: &Job,
    to: State,
    allowed_from: Option<&[State]>,
    result: Option<&Arc<str>>,
    now: Time,
) -> Result<Option<Job>, Refusal> {
    let is_allowed = |state: &State| allowed_from.is_none_or(|allowed| allowed.contains(state));
    let follows = job.state.followers(&job.kind).contains(&to);
    let is_there = job.state == to;
    if !is_allowed(&job.state) || !(follows || is_there) {
        let from = to
            .leaders(&job.kind)
            .into_iter()
            .filter(is_allowed)
            .collect();
        return Err(Refusal::Denied {
            have: job.state,
            wants: to,
            from,
        });
    }
    if let Some(result) = result {
        bounded(result)?;
    }
    if is_there {
        let kept = result.filter(|_| job.result.is_none());
        return Ok(kept.map(|result| Job {
            result: Some(result.clone()),
            updated_at: now,
            ..job.clone()
        }));
    }
    if to == State::Failed {
        return fail(job, None, true, None, now).map(Some);
    }
    let mut next = Job {
        state: to,
        updated_at: now,
        ..job.clone()
    };
    if let Some(result) = result {
        next.result = Some(result.clone());
    }
    if to.is_terminal() {
        next.lease = None;
        next.error = None;
    }
    Ok(Some(next))
}

fn fail(
    job: &Job,
    error: Option<&Arc<str>>,
    retryable: bool,
    after: Option<Duration>,
    now: Time,
) -> Result<Job, Refusal> {
    let wants = State::Failed;
    if !job.state.followers(&job.kind).contains(&wants) {
        return Err(Refusal::Denied {
            have: job.state,
            wants,
            from: wants.leaders(&job.kind),
        });
    }
    let mut next = job.clone();
    next.updated_at = now;
    // The reconciler counted a lease that ran out already.
    if !has_lapsed(job) {
        next.failures = next.failures.saturating_add(1);
    }
    next.error = error.map(cut);
    if !retryable || next.failures >= next.max_attempts {
        next.state = State::Dead;
        next.lease = None;
        return Ok(next);
    }
    next.state = State::Failed;
    next.lease = None;
    let first = next.backoff.unwrap_or(FIRST);
    let pause = rest(&next.id, first, next.failures).min(longest(&next.kind));
    next.available_at = now.plus(pause.max(after.unwrap_or_default()));
    Ok(next)
}

fn expire(job: &Job, fence: &Fence, now: Time) -> Option<Job> {
    let ran_out = job.lease.is_some() && !job.is_held(now) && !job.state.is_terminal();
    if !ran_out || fence.epoch.is_some_and(|epoch| epoch != job.epoch) {
        return None;
    }
    let mut next = job.clone();
    next.updated_at = now;
    next.failures = next.failures.saturating_add(1);
    if next.failures >= next.max_attempts {
        give_up(&mut next, RAN_OUT);
    } else if let Some(ended) = next.lease.take() {
        next.available_at = Time::from_ms(ended.until.as_ms().min(now.as_ms() - 1));
    }
    Some(next)
}

fn give_up(job: &mut Job, why: &str) {
    job.state = State::Dead;
    job.lease = None;
    job.error = Some(why.into());
}

fn retry(job: &Job, now: Time) -> Result<Change, Refusal> {
    if !matches!(job.state, State::Failed | State::Dead) {
        let from = vec![State::Failed, State::Dead];
        return Err(Refusal::Denied {
            have: job.state,
            wants: State::Planned,
            from,
        });
    }
    let mut next = again(job, now);
    next.retried = job.epoch;
    Ok(of_job(job, Some(next)))
}

fn redo(job: &Job, fence: &Fence, place: &Place, now: Time) -> Result<Change, Refusal> {
    holds(job, fence, now)?;
    let mut next = again(job, now);
    next.redone = job.epoch;
    next.place = place.clone();
    next.result = None;
    Ok(of_job(job, Some(next)))
}

/// The job at its beginning, due now, under a new fence.
fn again(job: &Job, now: Time) -> Job {
    Job {
        state: State::Planned,
        lease: None,
        epoch: job.epoch + 1,
        failures: 0,
        available_at: now,
        updated_at: now,
        error: None,
        ..job.clone()
    }
}

fn of_job(seen: &Job, next: Option<Job>) -> Change {
    let done = Done::Job(Box::new(next.clone().unwrap_or_else(|| seen.clone())));
    Change {
        job: next,
        op: None,
        done,
    }
}

fn bounded(result: &str) -> Result<(), Refusal> {
    match result.len() {
        bytes if bytes > Op::RESULT_BYTES_MAX => Err(Refusal::TooLarge { bytes }),
        _ => Ok(()),
    }
}

/// The error, without the end of one that is too long.
fn cut(error: &Arc<str>) -> Arc<str> {
    match error.len() {
        short if short <= Job::ERROR_BYTES_MAX => error.clone(),
        _ => {
            let is_whole = |end: &usize| error.is_char_boundary(*end);
            let end = (0..=Job::ERROR_BYTES_MAX).rev().find(is_whole).unwrap_or(0);
            error[..end].into()
        }
    }
}
