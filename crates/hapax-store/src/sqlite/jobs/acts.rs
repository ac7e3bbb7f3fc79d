//! Acts: what an act is about is loaded, the rule is asked, and what it says is written.

use hapax_core::Time;
use hapax_core::job::{Act, Done, Knock, On, Refusal, judge};
use rusqlite::Connection;

use super::super::fault::Fault;
use super::super::queue::Effect;
use super::keys::Keys;
use super::rows;

/// What came of a batch.
#[derive(Default)]
pub(super) struct Applied {
    pub(super) answers: Vec<Result<Done, Refusal>>,
    /// Whether something may be leased now that could not before.
    pub(super) is_ready: bool,
}

/// Does the acts one after the other.
pub(super) fn apply_all(
    connection: &Connection,
    keys: &Keys,
    acts: &[Act],
    now: Time,
) -> Result<(Applied, Effect), Fault> {
    let (mut applied, mut effect) = (Applied::default(), Effect::default());
    for act in acts {
        let answer = apply(connection, keys, act, now, &mut applied, &mut effect)?;
        applied.answers.push(answer);
    }
    Ok((applied, effect))
}

fn apply(
    connection: &Connection,
    keys: &Keys,
    act: &Act,
    now: Time,
    applied: &mut Applied,
    effect: &mut Effect,
) -> Result<Result<Done, Refusal>, Fault> {
    let named = match act.op_key() {
        Some(key) => rows::find_op(connection, keys, key)?,
        None => None,
    };
    let job = match (&act.on, &named) {
        (On::Job(id), _) => rows::find(connection, keys, id)?,
        (On::Op(_), Some((_, seq))) => rows::find_seq(connection, keys, *seq)?,
        (On::Op(_), None) => None,
    };
    let seen = Knock {
        job: job.as_ref(),
        op: named.as_ref().map(|(op, _)| op),
        now,
    };
    let change = match judge(seen, act) {
        Ok(change) => change,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if let Some(job) = &job {
        if let Some(next) = &change.job {
            applied.is_ready |= rows::write(connection, keys, job, next, now)?;
            effect.wrote = true;
        }
        if let Some(op) = &change.op {
            rows::put_op(connection, keys, job.seq, op)?;
            effect.wrote = true;
        }
    }
    Ok(Ok(change.done))
}
