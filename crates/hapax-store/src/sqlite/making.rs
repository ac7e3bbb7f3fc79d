//! What the writer does inside a transaction: it notes a group down or works on rows. Beginning and ending are the writer's.

use std::slice;
use std::sync::atomic::Ordering;

use hapax_core::Error;

use super::backlog::{self, Staged, Standing};
use super::fault::Fault;
use super::moving::Moving;
use super::pack::Packed;
use super::queue::{Done, Effect, Job};
use super::writer::{Failure, Writer, fatal, fault};
use crate::row::Applied;

/// What a transaction did, before it is committed.
pub(super) struct Made {
    pub(super) ended: Vec<Result<Done, Error>>,
    pub(super) backlog: Kept,
}

/// What a transaction did to the backlog.
pub(super) enum Kept {
    Untouched,
    Added(Staged),
    Filed,
}

impl Writer {
    /// Does the work of a group: notes it down if there is much of it and all of it can be, else does it on the rows, which
    /// are whole once the backlog is filed.
    pub(super) fn make(&self, jobs: &mut [Box<dyn Job>]) -> Result<Made, Failure> {
        let mut standing = self.backlog.standing(&self.connection).map_err(fatal)?;
        match self.note_down(jobs, standing) {
            Ok(Some(made)) => return Ok(made),
            Ok(None) => {}
            // One move cannot be made. On the rows, so that it alone is undone.
            Err(Fault::Own(_)) => standing = self.begin_again().map_err(fatal)?,
            Err(Fault::Group(error)) => return Err(fatal(error)),
        }
        match self.file_before(standing) {
            Ok(()) => {}
            Err(failure) if failure.is_full && jobs.iter().any(|job| job.makes_room()) => {
                return self.make_room(jobs, &failure.error);
            }
            Err(failure) => return Err(failure),
        }
        let ended = match self.run_all(jobs) {
            Ok(ended) => ended,
            // One job cannot be done. Once more, so that it alone is undone.
            Err(Fault::Own(_)) => {
                standing = self.begin_again().map_err(fatal)?;
                self.file_before(standing)?;
                self.run_each(jobs).map_err(fatal)?
            }
            Err(Fault::Group(error)) => return Err(fatal(error)),
        };
        let backlog = if standing == Standing::Empty {
            Kept::Untouched
        } else {
            Kept::Filed
        };
        Ok(Made { ended, backlog })
    }

    /// Takes back what was done and begins anew. Returns what waits then.
    fn begin_again(&self) -> rusqlite::Result<Standing> {
        // Some errors have ended the transaction already.
        if !self.connection.is_autocommit() {
            self.execute("ROLLBACK")?;
        }
        self.execute("BEGIN IMMEDIATE")?;
        self.backlog.standing(&self.connection)
    }

    /// Does what gives room back, beside a backlog that cannot be filed for want of it, and refuses the rest.
    fn make_room(&self, jobs: &mut [Box<dyn Job>], why: &Error) -> Result<Made, Failure> {
        self.is_full.store(true, Ordering::Release);
        self.begin_again().map_err(fatal)?;
        let mut ended = Vec::with_capacity(jobs.len());
        for job in jobs {
            if job.makes_room() {
                ended.extend(self.run_each(slice::from_mut(job)).map_err(fatal)?);
            } else {
                ended.push(Err(why.clone()));
            }
        }
        Ok(Made {
            ended,
            backlog: Kept::Untouched,
        })
    }

    fn file_before(&self, standing: Standing) -> Result<(), Failure> {
        if standing == Standing::Empty {
            return Ok(());
        }
        backlog::file(&self.connection).map_err(fault)
    }

    /// Notes the moves of a group down, if they are many and all fit. What leaves keys alone is done beside them.
    fn note_down(
        &self,
        jobs: &mut [Box<dyn Job>],
        standing: Standing,
    ) -> Result<Option<Made>, Fault> {
        let mut parts = Vec::with_capacity(jobs.len());
        for job in jobs {
            if job.leaves_keys_alone() {
                parts.push(Part::Beside(job));
            } else if let Some(job) = job.as_moving() {
                parts.push(Part::Moving(job));
            } else {
                return Ok(None);
            }
        }
        let moves: Vec<&Packed> = parts.iter().flat_map(Part::packed).collect();
        if parts.is_empty() || !(moves.is_empty() || self.backlog.takes(standing, &moves)) {
            return Ok(None);
        }
        let mut staged = Staged::default();
        let mut ended = Vec::with_capacity(parts.len());
        for part in parts {
            let done = match part {
                Part::Moving(job) => self.note_moves(job, &mut staged)?,
                Part::Beside(job) => job.run(&self.connection)?,
            };
            ended.push(Ok(done));
        }
        let added = self.backlog.put(&self.connection, &staged)?;
        let backlog = if added {
            Kept::Added(staged)
        } else {
            Kept::Untouched
        };
        Ok(Some(Made { ended, backlog }))
    }

    fn note_moves(&self, job: &mut Moving, staged: &mut Staged) -> Result<Done, Fault> {
        let note = |packed| self.backlog.note(&self.connection, packed, staged);
        let made: Vec<Applied> = job.packed().iter().map(note).collect::<Result<_, _>>()?;
        let wrote = made.iter().any(|one| matches!(one, Applied::Written));
        job.set_made(made);
        Ok(Done::from(Effect { wrote, purged: 0 }))
    }
}

/// A job of a group that is noted down.
enum Part<'j> {
    Moving(&'j mut Moving),
    Beside(&'j mut Box<dyn Job>),
}

impl Part<'_> {
    fn packed(&self) -> &[Packed] {
        match self {
            Self::Moving(job) => job.packed(),
            Self::Beside(_) => &[],
        }
    }
}
