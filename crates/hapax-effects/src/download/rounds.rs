//! Syncs that are shared: whoever wants a folder synced while that is under way waits for the next round, and one round
//! serves all who waited.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// A folder, as the system tells folders apart: by device, whose number has another type on each system, and inode.
pub(super) type Which = (i128, u64);

static FOLDERS: LazyLock<Mutex<HashMap<Which, Arc<Rounds>>>> = LazyLock::new(Mutex::default);

/// The rounds of one folder.
#[derive(Debug, Default)]
struct Rounds {
    count: Mutex<Count>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    begun: u64,
    /// The last round that went well.
    done: u64,
    is_running: bool,
    waiting: u32,
}

/// Makes what happened in a folder until now durable. Several callers may be served at once.
pub(crate) fn sync_folder(at: &OwnedFd) -> io::Result<()> {
    let which = which(at)?;
    let rounds = Arc::clone(held(&FOLDERS).entry(which).or_default());
    let synced = rounds.join(|| Ok(rustix::fs::fsync(at)?));
    let mut folders = held(&FOLDERS);
    drop(rounds);
    // Nobody else has it: only the map does.
    if folders
        .get(&which)
        .is_some_and(|rounds| Arc::strong_count(rounds) == 1)
    {
        folders.remove(&which);
    }
    synced
}

pub(super) fn which(at: &OwnedFd) -> io::Result<Which> {
    let stat = rustix::fs::fstat(at)?;
    Ok((i128::from(stat.st_dev), stat.st_ino))
}

impl Rounds {
    /// Returns when a round that began after this call has gone well, or when the own one has not.
    fn join(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut count = held(&self.count);
        let wanted = count.begun + 1;
        count.waiting += 1;
        while count.is_running && count.done < wanted {
            count = self
                .over
                .wait(count)
                .unwrap_or_else(PoisonError::into_inner);
        }
        count.waiting -= 1;
        if count.done >= wanted {
            return Ok(());
        }
        count.begun += 1;
        count.is_running = true;
        let round = count.begun;
        drop(count);
        let ended = work();
        let mut count = held(&self.count);
        count.is_running = false;
        if ended.is_ok() {
            count.done = round;
        }
        // All of them: those whose round went well return, and one of the others begins the next.
        self.over.notify_all();
        ended
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Eight callers that come while a round is under way; what they got, and how many of them did the work.
    fn eight_come_during_a_round(work: fn() -> io::Result<()>) -> (Vec<io::Result<()>>, u64) {
        let (rounds, ran) = (Rounds::default(), AtomicU64::new(0));
        let (go, gone) = mpsc::channel::<()>();
        let (tell, began) = mpsc::channel();
        let got = thread::scope(|scope| {
            let first = scope.spawn(|| {
                rounds.join(move || {
                    tell.send(()).unwrap();
                    gone.recv().unwrap();
                    Ok(())
                })
            });
            began.recv().unwrap();
            let others: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        rounds.join(|| {
                            ran.fetch_add(1, Ordering::SeqCst);
                            work()
                        })
                    })
                })
                .collect();
            while held(&rounds.count).waiting < 8 {
                thread::yield_now();
            }
            go.send(()).unwrap();
            first.join().unwrap().unwrap();
            others.into_iter().map(|it| it.join().unwrap()).collect()
        });
        (got, ran.into_inner())
    }

    #[test]
    fn one_round_serves_all_who_came_while_another_was_under_way() {
        let (got, ran) = eight_come_during_a_round(|| Ok(()));
        assert!(got.iter().all(Result::is_ok), "{got:?}");
        assert_eq!(ran, 1);
    }

    #[test]
    fn a_round_that_fails_serves_nobody_else() {
        let (got, ran) = eight_come_during_a_round(|| Err(io::ErrorKind::Other.into()));
        assert!(got.iter().all(Result::is_err), "{got:?}");
        assert_eq!(ran, 8);
    }

    #[test]
    fn whoever_returns_has_been_served_by_a_round_that_began_after_it_called() {
        let (rounds, made, kept) = (Rounds::default(), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let own = made.fetch_add(1, Ordering::SeqCst) + 1;
                        let work = || {
                            let until_now = made.load(Ordering::SeqCst);
                            thread::yield_now();
                            kept.fetch_max(until_now, Ordering::SeqCst);
                            Ok(())
                        };
                        rounds.join(work).unwrap();
                        assert!(kept.load(Ordering::SeqCst) >= own);
                    }
                });
            }
        });
    }

    #[test]
    fn a_folder_that_nobody_syncs_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(std::fs::File::open(place.path()).unwrap());
        sync_folder(&folder).unwrap();
        assert!(!held(&FOLDERS).contains_key(&which(&folder).unwrap()));
    }
}
