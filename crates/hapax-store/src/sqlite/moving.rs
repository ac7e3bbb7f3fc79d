//! The job that moves records: the moves of one swap, and the caller that waits for them.

use hapax_core::Error;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::moves;
use super::pack::Packed;
use super::queue::{Done, Job, never_ran};
use crate::row::Applied;

/// Moves of one swap and who waits for them.
pub(super) struct Moving {
    packed: Vec<Packed>,
    bytes: usize,
    is_provisional: bool,
    made: Option<Vec<Applied>>,
    answer: oneshot::Sender<Result<Moved, Error>>,
}

/// What became of the moves of one swap, one for one.
pub(super) struct Moved {
    pub(super) applied: Vec<Applied>,
    /// The moves, given back: the caller's thread frees what it allocated, which is cheaper than freeing it on the writer's.
    _packed: Vec<Packed>,
}

impl Moving {
    /// The job that makes these moves, and where its answer arrives.
    pub(super) fn new(packed: Vec<Packed>) -> (Box<Self>, oneshot::Receiver<Result<Moved, Error>>) {
        let (answer, answered) = oneshot::channel();
        let job = Self {
            bytes: packed.iter().map(Packed::bytes).sum(),
            is_provisional: packed.iter().all(|one| one.step.provisional),
            packed,
            made: None,
            answer,
        };
        (Box::new(job), answered)
    }
}

impl Job for Moving {
    fn moves(&self) -> usize {
        self.packed.len()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_provisional(&self) -> bool {
        self.is_provisional
    }

    fn run(&mut self, connection: &Connection) -> Result<Done, Fault> {
        let (made, done) = moves::apply_all(connection, &self.packed)?;
        self.made = Some(made);
        Ok(done)
    }

    fn answer(self: Box<Self>, result: Result<(), Error>) {
        let Self {
            packed,
            made,
            answer,
            ..
        } = *self;
        let moved = result.and_then(|()| {
            Ok(Moved {
                applied: made.ok_or_else(never_ran)?,
                _packed: packed,
            })
        });
        // The caller may have gone away; what was written stays written.
        let _ = answer.send(moved);
    }
}
