//! The one thread that writes: it commits whatever has gathered the moment the last commit returned.
//! No timer: an idle ledger writes a move at once, a busy one shares a sync among many.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hapax_core::{Durability, Error, Kind};
use rusqlite::Connection;
use tokio::sync::watch;

use super::NAME;
use super::connection::{self, empty_log};
use super::fault::{Fault, failed, failed_commit, is_failed_sync, is_io, is_unwritable};
use super::log::Log;
use super::moves;
use super::purges::Purges;
use super::queue::{Done, Job, Queue};

const OPERATION: &str = "writing to the ledger";
const AFTER_PANIC: &str = "the writer stopped on a bug; restart the process";
const AFTER_FAILED_SYNC: &str = "the disk failed to sync, so what is on it is no longer sure; check the disk and restart the process";
const AFTER_FAILED_ROLLBACK: &str = "a failed write could not be rolled back; restart the process";

/// The writer's connection and where its work comes from.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
    pub(super) purges: Arc<Purges>,
    pub(super) log: Arc<Log>,
    /// Set when there is no room for what is written. Whoever asks whether writes are taken tries, and clears it.
    pub(super) is_full: Arc<AtomicBool>,
    /// What a commit is worth that is not provisional.
    pub(super) durability: Durability,
    /// What the next commit is worth, as the connection is set.
    pub(super) set: Cell<Durability>,
    /// Told when no later group may be tried, and why.
    pub(super) broken: watch::Sender<Option<&'static str>>,
    pub(super) batch_max: usize,
}

/// One answer per job, and why no later group may be tried, if so.
type Committed = (Vec<Result<(), Error>>, Option<&'static str>);

/// A group that was not committed.
struct Failure {
    error: Error,
    /// Why no later group may be tried, if so.
    stop: Option<&'static str>,
    /// Whether there is no room, or nothing may be written at all.
    is_full: bool,
}

/// Leaves nobody waiting when the thread ends, by a panic too.
struct Ending<'w>(&'w Writer);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.log.close();
        self.0.queue.abandon(AFTER_PANIC);
        if std::thread::panicking() {
            self.0.broken.send_replace(Some(AFTER_PANIC));
        }
    }
}

impl Writer {
    /// Works until the queue is closed and empty, or the file can no longer be trusted.
    pub(super) fn run(self) {
        let _ending = Ending(&self);
        let mut jobs = Vec::new();
        while self.queue.take(&mut jobs, self.batch_max) {
            // Claims that may be lost with the power wait for no sync, unless they come with something that has one anyway:
            // a transaction of their own would cost more than it saves.
            let durability = if jobs.iter().all(|job| job.is_provisional()) {
                Durability::Relaxed
            } else {
                self.durability
            };
            if !self.answer(&mut jobs, durability) {
                return;
            }
            if !self.log.keep_short(&self.connection) {
                self.end(AFTER_FAILED_SYNC);
                return self.queue.abandon(AFTER_FAILED_SYNC);
            }
        }
        // A convenience for whoever copies the file; every commit is safe without it.
        self.log.wait();
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }

    /// Writes a group and answers it. Returns false when no later one may be tried.
    fn answer(&self, jobs: &mut Vec<Box<dyn Job>>, durability: Durability) -> bool {
        if jobs.is_empty() {
            return true;
        }
        let (answers, stop) = match self.set(durability) {
            Ok(()) => self.write(jobs),
            Err(error) => {
                let error = failed(OPERATION, error);
                (jobs.iter().map(|_| Err(error.clone())).collect(), None)
            }
        };
        if let Some(why) = stop {
            self.end(why);
        }
        let errors = answers.iter().filter(|answer| answer.is_err()).count();
        if errors > 0 {
            count_errors(errors);
        }
        for (job, answer) in jobs.drain(..).zip(answers) {
            job.answer(answer);
        }
        stop.is_none()
    }

    /// Takes no more writes, and says why.
    fn end(&self, why: &'static str) {
        tracing::error!(store = NAME, why, "the ledger takes no more writes");
        self.queue.close(why);
        self.broken.send_replace(Some(why));
    }

    /// Has the commits from here on made as durable as this, and never more than the ledger promises.
    fn set(&self, durability: Durability) -> rusqlite::Result<()> {
        let wanted = if self.durability == Durability::Full {
            durability
        } else {
            self.durability
        };
        if self.set.get() == wanted {
            return Ok(());
        }
        connection::sync(&self.connection, wanted)?;
        self.set.set(wanted);
        Ok(())
    }

    /// Writes a group in one transaction; one answer per job.
    fn write(&self, jobs: &mut [Box<dyn Job>]) -> Committed {
        match self.commit(jobs) {
            Ok(committed) => committed,
            Err(failure) => {
                if failure.is_full {
                    self.is_full.store(true, Ordering::Release);
                }
                tracing::warn!(store = NAME, error = %failure.error, "a group was not committed");
                let answers = jobs.iter().map(|_| Err(failure.error.clone())).collect();
                let stop = failure.stop.or_else(|| self.rollback());
                (answers, stop)
            }
        }
    }

    fn commit(&self, jobs: &mut [Box<dyn Job>]) -> Result<Committed, Failure> {
        self.execute("BEGIN IMMEDIATE").map_err(fatal)?;
        let shown = self.catch_up().map_err(fatal)?;
        let ended = self.make(jobs)?;
        let done = || ended.iter().filter_map(|one| one.as_ref().ok());
        if !done().any(|one| one.effect.wrote) {
            // Nothing changed: nothing to sync.
            self.execute("ROLLBACK").map_err(fatal)?;
            let answers = ended.into_iter().map(|one| one.map(drop)).collect();
            return Ok((answers, None));
        }
        let purged: u64 = done().map(|one| one.effect.purged).sum();
        let count = match purged {
            0 => None,
            by => Some(moves::raise_purge_count(&self.connection, shown, by).map_err(fatal)?),
        };
        let begun = Instant::now();
        self.execute("COMMIT").map_err(|error| Failure {
            stop: is_io(&error).then_some(AFTER_FAILED_SYNC),
            is_full: is_unwritable(&error),
            error: failed_commit(error),
        })?;
        measure(jobs, begun);
        let told = count.map_or(Ok(()), |count| self.purges.raise(count));
        let untold = told.err().map(|error| {
            // It is committed, but caches elsewhere do not know yet: nobody may rely on it.
            Error::new(Kind::OutcomeUnknown, "telling caches of a purge").caused_by(error)
        });
        let stop = done()
            .any(|one| one.erased)
            .then(|| self.forget_erased())
            .flatten();
        let answer = |one: Done| match &untold {
            Some(error) if one.effect.purged > 0 => Err(error.clone()),
            Some(_) | None => Ok(()),
        };
        let answers = ended.into_iter().map(|one| one.and_then(answer));
        Ok((answers.collect(), stop))
    }

    /// Takes what was erased out of the log too. If somebody holds the log, a later checkpoint does it.
    /// Says why to stop if the file can no longer be trusted.
    fn forget_erased(&self) -> Option<&'static str> {
        self.log.wait();
        match empty_log(&self.connection) {
            Ok(true) => None,
            Ok(false) => {
                let why = "somebody reads from it";
                tracing::warn!(
                    store = NAME,
                    why,
                    "the log keeps erased content until a later checkpoint"
                );
                None
            }
            Err(error) => {
                tracing::warn!(store = NAME, %error, "the log keeps erased content until a later checkpoint");
                is_failed_sync(&error).then_some(AFTER_FAILED_SYNC)
            }
        }
    }

    /// Shows the count of purges if a process died before it could. Returns the number that is shown.
    fn catch_up(&self) -> rusqlite::Result<u64> {
        let count = moves::purge_count(&self.connection)?;
        let shown = self.purges.shown();
        if shown.is_some_and(|shown| shown >= count) {
            return Ok(shown.unwrap_or(count));
        }
        if let Err(error) = self.purges.raise(count) {
            tracing::warn!(store = NAME, %error, "caches of other processes cannot be told of a purge");
        }
        Ok(count)
    }

    /// Runs the jobs of a group inside the transaction that just began.
    fn make(&self, jobs: &mut [Box<dyn Job>]) -> Result<Vec<Result<Done, Error>>, Failure> {
        match self.run_all(jobs) {
            Ok(ended) => Ok(ended),
            // One job cannot be done. Once more, so that it alone is undone.
            Err(Fault::Own(_)) => {
                self.begin_again().map_err(fatal)?;
                self.run_each(jobs).map_err(fatal)
            }
            Err(Fault::Group(error)) => Err(fatal(error)),
        }
    }

    /// Rolls back and begins a new transaction.
    fn begin_again(&self) -> rusqlite::Result<()> {
        // Some errors have ended the transaction already.
        if !self.connection.is_autocommit() {
            self.execute("ROLLBACK")?;
        }
        self.execute("BEGIN IMMEDIATE")
    }

    /// Runs all jobs; the first that fails ends the transaction for all.
    fn run_all(&self, jobs: &mut [Box<dyn Job>]) -> Result<Vec<Result<Done, Error>>, Fault> {
        jobs.iter_mut()
            .map(|job| job.run(&self.connection).map(Ok))
            .collect()
    }

    /// Runs all jobs; one that fails by itself leaves nothing behind.
    fn run_each(&self, jobs: &mut [Box<dyn Job>]) -> rusqlite::Result<Vec<Result<Done, Error>>> {
        let mut effects = Vec::with_capacity(jobs.len());
        for job in jobs {
            self.execute("SAVEPOINT job")?;
            let effect = match job.run(&self.connection) {
                Ok(effect) => Ok(effect),
                Err(Fault::Own(error)) => {
                    self.execute("ROLLBACK TO job")?;
                    Err(error)
                }
                Err(Fault::Group(error)) => return Err(error),
            };
            self.execute("RELEASE job")?;
            effects.push(effect);
        }
        Ok(effects)
    }

    /// Ends a failed transaction. Some errors have ended it already; if it cannot be ended, says to stop.
    fn rollback(&self) -> Option<&'static str> {
        if self.connection.is_autocommit() {
            return None;
        }
        let _ = self.execute("ROLLBACK");
        (!self.connection.is_autocommit()).then_some(AFTER_FAILED_ROLLBACK)
    }

    fn execute(&self, command: &'static str) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(command)?
            .execute([])
            .map(drop)
    }
}

/// A failure before COMMIT: nothing of the group is written.
fn fatal(error: rusqlite::Error) -> Failure {
    let stop = is_failed_sync(&error).then_some(AFTER_FAILED_SYNC);
    Failure {
        is_full: is_unwritable(&error),
        error: failed(OPERATION, error),
        stop,
    }
}

/// Counts calls that ended in an error.
pub(super) fn count_errors(errors: usize) {
    metrics::counter!("hapax_ledger_errors_total", "store" => NAME).increment(errors as u64);
}

fn measure(jobs: &[Box<dyn Job>], begun: Instant) {
    let moves: usize = jobs.iter().map(|job| job.moves()).sum();
    let size = f64::from(u32::try_from(moves).unwrap_or(u32::MAX));
    metrics::histogram!("hapax_ledger_batch_size", "store" => NAME).record(size);
    metrics::histogram!("hapax_ledger_commit_seconds", "store" => NAME)
        .record(begun.elapsed().as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::super::SqliteOptions;
    use super::super::connection::Role;
    use super::super::migrate;
    use super::super::queue::{Effect, Task};
    use super::*;

    #[test]
    fn a_panic_in_the_writer_leaves_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default();
        let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
        let mut connection = connection::open(&path, &options, Role::Writer).unwrap();
        migrate::migrate(&mut connection, options.clock.now()).unwrap();
        let queue = Arc::new(Queue::new(100, 100));
        let (good, before) = Task::new(1, 0, moves::check);
        let (bad, during) = Task::new(1, 0, |_: &Connection| -> Result<((), Effect), Fault> {
            panic!("a bug")
        });
        let (late, after) = Task::new(1, 0, moves::check);
        for job in [good as Box<dyn Job>, bad, late] {
            queue.push(job).unwrap();
        }

        let purges = Arc::new(Purges::beside(&path));
        let (broken, told) = watch::channel(None);
        let log = Log::of(&mut connection, options.checkpoint_pages).unwrap();
        let writer = Writer {
            connection,
            queue: queue.clone(),
            purges,
            log,
            is_full: Arc::default(),
            durability: options.durability,
            set: Cell::new(options.durability),
            broken,
            batch_max: 1,
        };
        assert!(std::thread::spawn(move || writer.run()).join().is_err());

        before.blocking_recv().unwrap().expect("it was done before");
        assert!(during.blocking_recv().is_err(), "its outcome is unknown");
        assert_eq!(
            after.blocking_recv().unwrap().unwrap_err().kind(),
            Kind::Unavailable
        );
        let (next, _) = Task::new(1, 0, moves::check);
        assert_eq!(queue.push(next).unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(*told.borrow(), Some(AFTER_PANIC));
    }
}
