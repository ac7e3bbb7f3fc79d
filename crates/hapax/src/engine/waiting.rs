//! Who waits for a key in flight in this process, and the wake-up when it ends.
//! A wake-up is a hint to look again; it carries no answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax_core::RecordId;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The most waiters in one process. Past it a duplicate is told "busy" at once.
const WAITERS_MAX: usize = 100_000;

/// Everyone in this process who waits for a key.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    gates: Mutex<Gates>,
}

#[derive(Debug, Default)]
struct Gates {
    open: HashMap<RecordId, (Arc<Notify>, usize)>,
    waiters: usize,
}

/// One waiter's place. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Ticket {
    waiting: Arc<Waiting>,
    id: RecordId,
    gate: Arc<Notify>,
}

impl Waiting {
    /// A place among those who wait for `id`, or `None` if too many wait already.
    pub(super) fn join(self: &Arc<Self>, id: RecordId) -> Option<Ticket> {
        let mut gates = self.lock();
        if gates.waiters >= WAITERS_MAX {
            return None;
        }
        gates.waiters += 1;
        let (gate, count) = gates.open.entry(id).or_default();
        *count += 1;
        Some(Ticket {
            waiting: self.clone(),
            id,
            gate: gate.clone(),
        })
    }

    /// Wakes everyone who waits for `id`.
    pub(super) fn wake(&self, id: RecordId) {
        if let Some((gate, _)) = self.lock().open.get(&id) {
            gate.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gates> {
        // Every change under the lock is whole before anything can panic.
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Completes at the next wake-up after this call.
    pub(super) fn woken(&self) -> Pin<Box<OwnedNotified>> {
        let mut woken = Box::pin(self.gate.clone().notified_owned());
        woken.as_mut().enable();
        woken
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut gates = self.waiting.lock();
        gates.waiters -= 1;
        if let Some((_, count)) = gates.open.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                gates.open.remove(&self.id);
            }
        }
    }
}
