//! A bounded queue of jobs for threads that own a connection. What a job does is not its business.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use hapax_core::{Error, Kind};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::Fault;

/// What a job did to the database.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Effect {
    /// Whether anything changed.
    pub(super) wrote: bool,
    /// How many settled outcomes were taken back.
    pub(super) purged: u64,
}

/// How a job ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) effect: Effect,
    /// Whether content was erased, so that the log must not keep it.
    pub(super) erased: bool,
}

impl From<Effect> for Done {
    fn from(effect: Effect) -> Self {
        Self {
            effect,
            erased: false,
        }
    }
}

/// One piece of work and who waits for it.
pub(super) trait Job: Send {
    /// How much it is, in moves.
    fn moves(&self) -> usize;
    /// How much memory it holds while it waits.
    fn bytes(&self) -> usize;
    /// Whether what it writes may be lost with the power.
    fn is_provisional(&self) -> bool;
    /// Does the work. May be called again after its effect was rolled back.
    fn run(&mut self, connection: &Connection) -> Result<Done, Fault>;
    /// Gives what the last run made to whoever waits, or the error instead.
    fn answer(self: Box<Self>, result: Result<(), Error>);
}

/// A job made of a function.
pub(super) struct Task<T, F> {
    moves: usize,
    bytes: usize,
    run: F,
    made: Option<T>,
    answer: oneshot::Sender<Result<T, Error>>,
}

impl<T, F, D> Task<T, F>
where
    T: Send + 'static,
    F: FnMut(&Connection) -> Result<(T, D), Fault> + Send + 'static,
    D: Into<Done>,
{
    /// The job that runs `run`, and where its answer arrives.
    pub(super) fn new(
        moves: usize,
        bytes: usize,
        run: F,
    ) -> (Box<Self>, oneshot::Receiver<Result<T, Error>>) {
        let (answer, answered) = oneshot::channel();
        (
            Box::new(Self {
                moves,
                bytes,
                run,
                made: None,
                answer,
            }),
            answered,
        )
    }
}

impl<T, F, D> Job for Task<T, F>
where
    T: Send + 'static,
    F: FnMut(&Connection) -> Result<(T, D), Fault> + Send + 'static,
    D: Into<Done>,
{
    fn moves(&self) -> usize {
        self.moves
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_provisional(&self) -> bool {
        false
    }

    fn run(&mut self, connection: &Connection) -> Result<Done, Fault> {
        let (made, done) = (self.run)(connection)?;
        self.made = Some(made);
        Ok(done.into())
    }

    fn answer(self: Box<Self>, result: Result<(), Error>) {
        let Self { made, answer, .. } = *self;
        // Whoever asked may be gone; the write stands.
        let _ = answer.send(result.and_then(|()| made.ok_or_else(never_ran)));
    }
}

/// The answer to a job that was taken and not run.
pub(super) fn never_ran() -> Error {
    Error::new(Kind::OutcomeUnknown, "answering").because("the job never ran")
}

/// Jobs that wait, up to a limit.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    filled: Condvar,
    moves_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Box<dyn Job>>,
    moves: usize,
    bytes: usize,
    /// How many threads wait for a job.
    idle: usize,
    /// Why nothing more is taken, once nothing more is.
    closed: Option<&'static str>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("moves_max", &self.moves_max)
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// An empty queue that takes jobs until this much waits.
    pub(super) fn new(moves_max: usize, bytes_max: usize) -> Self {
        Self {
            inner: Mutex::default(),
            filled: Condvar::new(),
            moves_max,
            bytes_max,
        }
    }

    /// Hands in a job, or says at once why it is not taken.
    pub(super) fn push(&self, job: Box<dyn Job>) -> Result<(), Error> {
        let refused = |why: &str| {
            Err(Error::new(Kind::Unavailable, "handing work to the ledger").because(why))
        };
        let mut inner = self.inner();
        if let Some(why) = inner.closed {
            return refused(why);
        }
        // What waits is compared, not what would wait: a job of any size fits an empty queue.
        if inner.moves >= self.moves_max || inner.bytes >= self.bytes_max {
            return refused("too much work waits already; retry later or write less");
        }
        inner.moves += job.moves();
        inner.bytes += job.bytes();
        inner.jobs.push_back(job);
        if inner.idle > 0 {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for jobs and moves them to `taken`: at least one, and more while they are within `moves_max`.
    /// False when the queue is closed and empty.
    pub(super) fn take(&self, taken: &mut Vec<Box<dyn Job>>, moves_max: usize) -> bool {
        let mut inner = self.inner();
        while inner.jobs.is_empty() {
            if inner.closed.is_some() {
                return false;
            }
            inner.idle += 1;
            let waited = self.filled.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
            inner.idle -= 1;
        }
        let mut moves = 0;
        while let Some(job) = inner.jobs.front() {
            moves += job.moves();
            if moves > moves_max && !taken.is_empty() {
                break;
            }
            let Some(job) = inner.jobs.pop_front() else {
                break;
            };
            inner.moves -= job.moves();
            inner.bytes -= job.bytes();
            taken.push(job);
        }
        true
    }

    /// Takes no more jobs, and says why. What waits is still done.
    pub(super) fn close(&self, why: &'static str) {
        self.inner().closed.get_or_insert(why);
        self.filled.notify_all();
    }

    /// Takes no more jobs and answers those that wait with why: this reason, or the one it was closed for.
    pub(super) fn abandon(&self, why: &'static str) {
        let (jobs, why) = {
            let mut inner = self.inner();
            let why = *inner.closed.get_or_insert(why);
            (inner.moves, inner.bytes) = (0, 0);
            (std::mem::take(&mut inner.jobs), why)
        };
        self.filled.notify_all();
        for job in jobs {
            job.answer(Err(
                Error::new(Kind::Unavailable, "writing to the ledger").because(why)
            ));
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while the lock is held, so a poisoned queue is still whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
