//! Bringing the log back into the file, beside the writer: what is committed is copied to its place and synced by a thread
//! of its own, so that nobody waits for it. The writer copies what little is left when the log could begin anew, and waits
//! only when it is too far ahead.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, MAIN_DB, hooks::Wal};

use super::NAME;
use super::fault::{is_busy, is_failed_sync};

/// So few pages the writer copies by itself.
const FEW_PAGES: u32 = 256;
/// How long the writer waits for the thread at most, so that one that hangs does not stop it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The log of a file, as the writer and the thread beside it know it.
#[derive(Debug)]
pub(super) struct Log {
    /// From so many pages on it is worth the syncs.
    pages_enough: u32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, Debug)]
struct State {
    /// How many pages the log holds, as the writer's last commit left it.
    pages: u32,
    /// How many of them are in the file too.
    copied: u32,
    /// How many there were when it was last tried: what was not copied then is kept back by somebody who reads.
    tried: u32,
    thread: Thread,
    /// Whether the thread has copied since the writer last did.
    is_nearly_done: bool,
    has_failed: bool,
}

/// What the thread beside the writer does.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Thread {
    /// There is none.
    #[default]
    Absent,
    Idle,
    /// It copies, or is asked to.
    AtWork,
    /// It is asked to end.
    Leaving,
}

/// What is to be done about the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Nothing,
    /// The thread copies, and the writer goes on.
    Beside,
    /// The writer copies the rest, so that the log can begin anew.
    Here,
    /// The writer waits for the thread.
    Wait,
    /// A sync failed: what is in the file is no longer sure.
    Stop,
}

impl State {
    /// Takes note of how long the log is now.
    fn grow(&mut self, pages: u32) {
        if pages < self.pages {
            // It has begun anew.
            (self.copied, self.tried, self.is_nearly_done) = (0, 0, false);
        }
        self.pages = pages;
    }

    /// What to do, with a log that is worth copying from `enough` pages on.
    fn next(&self, enough: u32) -> Next {
        let left = self.pages.saturating_sub(self.copied);
        let is_new = self.pages.saturating_sub(self.copied.max(self.tried)) >= enough - enough / 4;
        if self.has_failed {
            Next::Stop
        } else if self.thread == Thread::AtWork {
            let is_far_ahead = left >= enough.saturating_mul(4);
            if is_far_ahead {
                Next::Wait
            } else {
                Next::Nothing
            }
        } else if is_new {
            if self.thread == Thread::Idle {
                Next::Beside
            } else {
                Next::Here
            }
        } else if self.is_nearly_done && left <= FEW_PAGES && self.pages >= enough.saturating_mul(2)
        {
            Next::Here
        } else {
            Next::Nothing
        }
    }
}

impl Log {
    /// The log that `writer` writes, brought back from `pages_enough` pages on.
    pub(super) fn of(writer: &mut Connection, pages_enough: u32) -> rusqlite::Result<Arc<Self>> {
        let log = Arc::new(Self {
            pages_enough: pages_enough.max(1),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let told = log.clone();
        // In place of SQLite's own checkpoint, which is made inside the commit.
        writer.wal_hook(Some(move |_: &mut Wal, pages| {
            told.state().grow(u32::try_from(pages).unwrap_or(0));
            Ok(())
        }))?;
        Ok(log)
    }

    /// Says that a thread is about to [`Log::run`].
    pub(super) fn expect_thread(&self) {
        self.state().thread = Thread::Idle;
    }

    /// Brings the log back whenever the writer asks for it, until it is closed.
    pub(super) fn run(&self, connection: Connection) {
        let _ending = Ending(self);
        // Closed before the writer is told.
        let connection = connection;
        while self.is_asked() {
            self.copy(&connection, true);
        }
    }

    /// Waits to be asked to copy. False when it is to end.
    fn is_asked(&self) -> bool {
        let state = self
            .changed
            .wait_while(self.state(), |state| state.thread == Thread::Idle)
            .unwrap_or_else(PoisonError::into_inner);
        state.thread == Thread::AtWork
    }

    /// Does what is to be done after a group, on the writer's thread. False when no later one may be tried.
    pub(super) fn keep_short(&self, writer: &Connection) -> bool {
        let mut state = self.state();
        match state.next(self.pages_enough) {
            Next::Nothing => true,
            Next::Beside => {
                state.thread = Thread::AtWork;
                self.changed.notify_all();
                true
            }
            Next::Here => {
                drop(state);
                self.copy(writer, false);
                !self.state().has_failed
            }
            Next::Wait => {
                drop(state);
                self.wait();
                !self.state().has_failed
            }
            Next::Stop => false,
        }
    }

    /// Waits until the thread is not at work.
    pub(super) fn wait(&self) {
        let state = self.state();
        let _ended = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| state.thread == Thread::AtWork);
    }

    /// Has the thread end, and waits until its connection is closed: of two that close at once neither may find that it is the
    /// last, which removes the log.
    pub(super) fn close(&self) {
        let mut state = self.state();
        if state.thread != Thread::Absent {
            state.thread = Thread::Leaving;
        }
        self.changed.notify_all();
        let is_there = |state: &mut State| state.thread != Thread::Absent;
        let _ended = self.changed.wait_timeout_while(state, PATIENCE, is_there);
    }

    /// Copies what can be copied without waiting for anybody.
    fn copy(&self, connection: &Connection, is_beside: bool) {
        let before = self.state().pages;
        let copied = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE);
        let mut state = self.state();
        if state.thread == Thread::AtWork {
            state.thread = Thread::Idle;
        }
        let is_same_log = state.pages >= before;
        if is_same_log {
            (state.tried, state.is_nearly_done) = (before, is_beside);
        }
        match copied {
            Ok((_, copied)) if is_same_log => state.copied = u32::try_from(copied).unwrap_or(0),
            // It has begun anew meanwhile.
            Ok(_) => {}
            // Another process does it.
            Err(error) if is_busy(&error) => {}
            Err(error) => {
                state.has_failed |= is_failed_sync(&error);
                tracing::warn!(store = NAME, %error, "the log was not brought back into the file; it is tried again");
            }
        }
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the writer that the thread has ended, by a panic too.
struct Ending<'l>(&'l Log);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.state().thread = Thread::Absent;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use tempfile::TempDir;

    use super::super::SqliteOptions;
    use super::super::connection::{self, Role};
    use super::*;

    const TABLE: &str = include_str!("../../sql/sqlite/log_table_of_a_test.sql");
    const FILL: &str = include_str!("../../sql/sqlite/log_fill_of_a_test.sql");
    const COUNT: &str = include_str!("../../sql/sqlite/log_count_of_a_test.sql");
    const ENOUGH: u32 = 1000;

    fn with(pages: u32, copied: u32) -> State {
        State {
            thread: Thread::Idle,
            pages,
            copied,
            ..State::default()
        }
    }

    #[test]
    fn a_short_log_is_left_alone_and_a_long_one_copied_beside_the_writer() {
        assert_eq!(with(0, 0).next(ENOUGH), Next::Nothing);
        assert_eq!(with(749, 0).next(ENOUGH), Next::Nothing);
        assert_eq!(with(750, 0).next(ENOUGH), Next::Beside);
        assert_eq!(with(2749, 2000).next(ENOUGH), Next::Nothing);
        assert_eq!(with(2750, 2000).next(ENOUGH), Next::Beside);
    }

    #[test]
    fn the_writer_goes_on_while_the_thread_copies_unless_it_is_far_ahead() {
        let at_work = |pages| State {
            thread: Thread::AtWork,
            ..with(pages, 100)
        };
        assert_eq!(at_work(2000).next(ENOUGH), Next::Nothing);
        assert_eq!(at_work(4099).next(ENOUGH), Next::Nothing);
        assert_eq!(at_work(4100).next(ENOUGH), Next::Wait);
    }

    #[test]
    fn the_writer_copies_the_last_few_pages_so_that_the_log_begins_anew() {
        let nearly = |pages, copied| State {
            is_nearly_done: true,
            tried: copied,
            ..with(pages, copied)
        };
        assert_eq!(nearly(2100, 2000).next(ENOUGH), Next::Here);
        assert_eq!(
            nearly(2000 + FEW_PAGES + 1, 2000).next(ENOUGH),
            Next::Nothing
        );
        assert_eq!(
            nearly(1900, 1800).next(ENOUGH),
            Next::Nothing,
            "it is short enough"
        );
        // Somebody reads, so it did not begin anew: no try at every commit.
        let tried = State {
            is_nearly_done: false,
            ..nearly(2100, 2100)
        };
        assert_eq!(tried.next(ENOUGH), Next::Nothing);
    }

    #[test]
    fn what_somebody_keeps_back_is_not_tried_at_every_commit() {
        let kept_back = State {
            tried: 5000,
            ..with(5100, 10)
        };
        assert_eq!(kept_back.next(ENOUGH), Next::Nothing);
        assert_eq!(
            State {
                pages: 5750,
                ..kept_back
            }
            .next(ENOUGH),
            Next::Beside
        );
    }

    #[test]
    fn a_failed_sync_stops_the_writer_and_without_a_thread_it_copies_by_itself() {
        let failed = State {
            has_failed: true,
            ..with(10, 0)
        };
        assert_eq!(failed.next(ENOUGH), Next::Stop);
        let alone = State {
            thread: Thread::Absent,
            ..with(5000, 0)
        };
        assert_eq!(alone.next(ENOUGH), Next::Here);
    }

    #[test]
    fn a_log_that_begins_anew_is_counted_from_its_beginning() {
        let mut state = State {
            tried: 2000,
            is_nearly_done: true,
            ..with(2100, 2000)
        };
        state.grow(40);
        assert_eq!((state.pages, state.copied, state.tried), (40, 0, 0));
        assert_eq!(
            State {
                pages: 750,
                ..state
            }
            .next(ENOUGH),
            Next::Beside
        );
    }

    /// Commits about six pages so often, with the log kept short by a thread, and returns how long it was after each.
    fn write(path: &Path, commits: usize) -> Vec<u32> {
        let options = SqliteOptions::default();
        let mut writer = connection::open(path, &options, Role::Writer).unwrap();
        let beside = connection::open(path, &options, Role::Reader).unwrap();
        let log = Log::of(&mut writer, 40).unwrap();
        log.expect_thread();
        let running = log.clone();
        let thread = std::thread::spawn(move || running.run(beside));
        let commit = |_| {
            writer.execute(FILL, []).unwrap();
            assert!(log.keep_short(&writer));
            log.state().pages
        };
        let lengths = (0..commits).map(commit).collect();
        log.close();
        thread.join().unwrap();
        lengths
    }

    fn filler(folder: &TempDir) -> (PathBuf, Connection) {
        let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
        let reader = connection::open(&path, &SqliteOptions::default(), Role::Writer).unwrap();
        reader.execute_batch(TABLE).unwrap();
        (path, reader)
    }

    fn count(reader: &Connection) -> i64 {
        reader.query_row(COUNT, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_busy_writer_has_its_log_copied_beside_it_and_the_log_stays_short() {
        let folder = tempfile::tempdir().unwrap();
        let (path, reader) = filler(&folder);
        let lengths = write(&path, 400);
        assert!(
            lengths.windows(2).any(|pair| pair[1] < pair[0]),
            "it began anew"
        );
        let longest = lengths.iter().max().unwrap();
        assert!(*longest < 1000, "{longest} pages of the 2400 written");
        assert_eq!(count(&reader), 400);
    }

    #[test]
    fn a_reader_who_stays_keeps_the_log_and_not_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut reader) = filler(&folder);
        let reading = reader.transaction().unwrap();
        assert_eq!(count(&reading), 0);
        let lengths = write(&path, 200);
        assert_eq!(count(&reading), 0, "it reads what was there when it began");
        assert!(lengths.is_sorted(), "the log did not begin anew under it");
        drop(reading);
        assert_eq!(count(&reader), 200);
    }
}
