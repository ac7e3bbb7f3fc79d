//! Acts: what an act is about is loaded, the rule is asked, and what it says is written.

use hapax_core::Time;
use hapax_core::job::{Act, Done, Job, Knock, On, Refusal, judge};
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

/// Does the acts one after the other. A job that several of them in a row are about is loaded once and written once.
pub(super) fn apply_all(
    connection: &Connection,
    keys: &Keys,
    acts: &[Act],
    now: Time,
) -> Result<(Applied, Effect), Fault> {
    let mut desk = Desk {
        connection,
        keys,
        now,
        job: None,
        applied: Applied::default(),
        effect: Effect::default(),
    };
    for act in acts {
        let answer = desk.apply(act)?;
        desk.applied.answers.push(answer);
    }
    desk.put_away()?;
    Ok((desk.applied, desk.effect))
}

/// A job in the middle of its acts: as it is stored, and as it is to be.
struct Open {
    stored: Job,
    next: Option<Job>,
}

impl Open {
    fn job(&self) -> &Job {
        self.next.as_ref().unwrap_or(&self.stored)
    }
}

struct Desk<'a> {
    connection: &'a Connection,
    keys: &'a Keys,
    now: Time,
    job: Option<Open>,
    applied: Applied,
    effect: Effect,
}

impl Desk<'_> {
    fn apply(&mut self, act: &Act) -> Result<Result<Done, Refusal>, Fault> {
        let (connection, keys) = (self.connection, self.keys);
        let named = match act.op_key() {
            Some(key) => rows::find_op(connection, keys, key)?,
            None => None,
        };
        let is_it = |open: &Open| match (&act.on, &named) {
            (On::Job(id), _) => open.stored.id == *id,
            (On::Op(_), Some((_, seq))) => open.stored.seq == *seq,
            (On::Op(_), None) => false,
        };
        if !self.job.as_ref().is_some_and(is_it) {
            self.put_away()?;
            let stored = match (&act.on, &named) {
                (On::Job(id), _) => rows::find(connection, keys, id)?,
                (On::Op(_), Some((_, seq))) => rows::find_seq(connection, keys, *seq)?,
                (On::Op(_), None) => None,
            };
            self.job = stored.map(|stored| Open { stored, next: None });
        }
        let seen = Knock {
            job: self.job.as_ref().map(Open::job),
            op: named.as_ref().map(|(op, _)| op),
            now: self.now,
        };
        let change = match judge(seen, act) {
            Ok(change) => change,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(open) = &mut self.job {
            if change.job.is_some() {
                open.next = change.job;
            }
            if let Some(op) = &change.op {
                rows::put_op(connection, keys, open.stored.seq, op)?;
                self.effect.wrote = true;
            }
        }
        Ok(Ok(change.done))
    }

    /// Writes what became of the job.
    fn put_away(&mut self) -> Result<(), Fault> {
        if let Some(Open {
            stored,
            next: Some(next),
        }) = self.job.take()
        {
            let (connection, keys) = (self.connection, self.keys);
            self.applied.is_ready |= rows::write(connection, keys, &stored, &next, self.now)?;
            self.effect.wrote = true;
        }
        Ok(())
    }
}
