//! Short work on the disk, done in turn by few threads. A thread for each piece of it would cost more than the piece: many
//! downloads begin at the same time, and each first looks at the disk.
//!
//! What may take long, as syncing or hashing what is there already, has no place here: it would keep the others waiting.

use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use tokio::sync::oneshot;

use super::error::{Code, Error};

/// How many threads there are at least and at most, whatever the number of cores.
const THREADS: (usize, usize) = (2, 8);

type Work = Box<dyn FnOnce() + Send>;

/// Work that waits for one of a few threads. Cloning it is cheap, and clones share the threads.
#[derive(Clone)]
pub(super) struct Lane {
    line: Arc<Line>,
}

struct Line {
    waiting: Mutex<Waiting>,
    threads_max: usize,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    threads: usize,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane")
            .field("threads_max", &self.line.threads_max)
            .finish_non_exhaustive()
    }
}

impl Lane {
    /// A lane with about as many threads as cores, of which none is there while there is no work.
    pub(super) fn new() -> Self {
        let cores = available_parallelism().map_or(THREADS.0, NonZero::get);
        Self::with(cores.clamp(THREADS.0, THREADS.1))
    }

    fn with(threads_max: usize) -> Self {
        let waiting = Mutex::default();
        Self {
            line: Arc::new(Line {
                waiting,
                threads_max,
            }),
        }
    }

    /// Does the work when its turn comes. Dropping the future does not take it back.
    ///
    /// # Errors
    /// [`Code::Disk`] when the work panicked, or the runtime ended before it was done.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let work = Box::new(move || {
            // Whoever asked may be gone; what is done is done.
            let _ = answer.send(work());
        });
        if self.line.push(work) {
            let thread = Thread::of(Arc::clone(&self.line));
            // Nobody joins it: it is over when those who wait for their answers have them.
            drop(tokio::task::spawn_blocking(move || thread.run()));
        }
        answered
            .await
            .map_err(|_| Error::retryable(Code::Disk, "a worker thread ended"))
    }
}

impl Line {
    /// Adds work; whether one more thread has to come for it.
    fn push(&self, work: Work) -> bool {
        let mut waiting = self.waiting();
        waiting.work.push_back(work);
        let wants_thread = waiting.threads < self.threads_max;
        waiting.threads += usize::from(wants_thread);
        wants_thread
    }

    /// The next work; `None` when there is none, and then the thread that asked is counted no more.
    fn next(&self) -> Option<Work> {
        let mut waiting = self.waiting();
        let work = waiting.work.pop_front();
        waiting.threads -= usize::from(work.is_none());
        work
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread of a lane, counted from before it begins.
struct Thread {
    line: Arc<Line>,
    is_over: bool,
}

impl Thread {
    fn of(line: Arc<Line>) -> Self {
        let is_over = false;
        Self { line, is_over }
    }

    fn run(mut self) {
        while let Some(work) = self.line.next() {
            // Whoever waits for work that panics is told by the end of its channel, and the others have theirs done.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
        self.is_over = true;
    }
}

impl Drop for Thread {
    /// A thread that never ran, since the runtime ended, leaves nobody waiting for it.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let left = {
            let mut waiting = self.line.waiting();
            waiting.threads -= 1;
            let is_last = waiting.threads == 0;
            is_last.then(|| std::mem::take(&mut waiting.work))
        };
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn no_more_threads_than_allowed_do_all_of_the_work() {
        let lane = Lane::with(2);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..100 {
            let (now, most, lane) = (Arc::clone(&now), Arc::clone(&most), lane.clone());
            let work = move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                number
            };
            asked.spawn(async move { lane.run(work).await.unwrap() });
        }
        assert_eq!(asked.join_all().await.iter().sum::<i32>(), 4950);
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn work_that_panics_is_told_and_the_next_is_done() {
        let lane = Lane::with(1);
        let bad = lane.run(|| panic!("a bug"));
        let good = lane.run(|| 7);
        let (bad, good) = tokio::join!(bad, good);
        let told: Result<(), Error> = bad;
        assert_eq!(told.unwrap_err().code(), Code::Disk);
        assert_eq!(good.unwrap(), 7);
        assert_eq!(lane.run(|| 8).await.unwrap(), 8);
    }

    #[test]
    fn work_whose_thread_never_comes_leaves_nobody_waiting() {
        let lane = Lane::with(1);
        let (answer, answered) = oneshot::channel::<()>();
        assert!(lane.line.push(Box::new(move || drop(answer))));
        drop(Thread::of(Arc::clone(&lane.line)));
        assert!(answered.blocking_recv().is_err());
        assert!(
            lane.line.push(Box::new(|| {})),
            "the next work gets a thread"
        );
    }
}
