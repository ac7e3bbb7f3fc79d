//! Notes of answers that change nothing. They wait in memory and are written in batches beside the traffic, so that
//! no claim waits for its note. Notes of changes are not here: they are in the change's own transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::{Action, Cause, Claim, Ledger, Move, Note, Outcome, Record, Time};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::{Engine, refused};

/// The most notes that wait. Past it the newest are dropped, counted and logged.
const WAITING_MAX: usize = 65_536;
/// The most notes in one write.
const BATCH_MAX: usize = 512;
/// How long a caller waits for what was noted so far.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The notes that wait, and the task that writes them while there are any.
pub(super) struct Audit {
    ledger: Arc<dyn Ledger>,
    tasks: TaskTracker,
    inner: Mutex<Inner>,
    /// How many of the notes taken so far are written, or given up with a line in the log.
    ended: watch::Sender<u64>,
    waiting_max: usize,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Note>,
    taken: u64,
    is_writing: bool,
    /// Whether the log says already that there is no room.
    is_told: bool,
}

/// Says that nobody writes any more if the task is cut off in the middle.
struct Writing<'a> {
    audit: &'a Audit,
    has_ended: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.audit.lock().is_writing = false;
        }
    }
}

impl Audit {
    pub(super) fn new(ledger: Arc<dyn Ledger>, tasks: TaskTracker) -> Self {
        Self {
            ledger,
            tasks,
            inner: Mutex::default(),
            ended: watch::Sender::new(0),
            waiting_max: WAITING_MAX,
        }
    }

    /// Takes a note, to be written soon. It never waits: without room the note is dropped, and counted.
    pub(super) fn push(self: &Arc<Self>, note: Note) {
        let mut inner = self.lock();
        if inner.waiting.len() >= self.waiting_max {
            metrics::counter!("hapax_audit_dropped_total").increment(1);
            if !std::mem::replace(&mut inner.is_told, true) {
                tracing::error!(
                    waiting = inner.waiting.len(),
                    "the audit trail cannot be written as fast as it grows; notes are dropped until it can"
                );
            }
            return;
        }
        inner.taken += 1;
        inner.waiting.push_back(note);
        self.start(inner);
    }

    /// Waits until everything noted so far is written, for a few seconds at most. Returns whether it is.
    pub(super) async fn flush(self: &Arc<Self>) -> bool {
        let taken = {
            let inner = self.lock();
            let taken = inner.taken;
            self.start(inner);
            taken
        };
        let mut ended = self.ended.subscribe();
        let all = ended.wait_for(|ended| *ended >= taken);
        matches!(tokio::time::timeout(PATIENCE, all).await, Ok(Ok(_)))
    }

    /// Starts the task that writes, unless it runs, there is nothing to write or nowhere to run it.
    fn start(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>) {
        if inner.is_writing || inner.waiting.is_empty() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            inner.is_writing = true;
            drop(inner);
            let audit = self.clone();
            self.tasks
                .spawn_on(async move { audit.write().await }, &runtime);
        }
    }

    /// Writes batch after batch, each as soon as the one before is written, until nothing waits.
    async fn write(&self) {
        let mut writing = Writing {
            audit: self,
            has_ended: false,
        };
        loop {
            let batch: Vec<Note> = {
                let mut inner = self.lock();
                if inner.waiting.is_empty() {
                    // Under the lock, so that whoever notes next starts another task.
                    inner.is_writing = false;
                    inner.is_told = false;
                    writing.has_ended = true;
                    return;
                }
                let count = inner.waiting.len().min(BATCH_MAX);
                inner.waiting.drain(..count).collect()
            };
            let count = batch.len() as u64;
            self.write_batch(batch).await;
            self.ended.send_modify(|ended| *ended += count);
        }
    }

    /// Tries until the batch is written. Only what can never be written is given up.
    async fn write_batch(&self, batch: Vec<Note>) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.ledger.note(batch.clone()).await {
                Ok(()) => return,
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, notes = batch.len(), "the audit trail was not written; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => {
                    metrics::counter!("hapax_audit_dropped_total").increment(batch.len() as u64);
                    tracing::error!(%error, notes = batch.len(), "notes of the audit trail are lost");
                    return;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is whole before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The same engine, which also notes replays, conflicts and expired keys in the ledger's audit trail.
    ///
    /// Replays and conflicts are written in batches beside the traffic, so a crash may lose the last of them;
    /// [`Engine::flush_notes`] waits for them. Grants of expired keys are noted in their own transaction. What an
    /// operator does is noted by every engine.
    #[must_use]
    pub fn with_audit(mut self) -> Self {
        self.audit = Some(Arc::new(Audit::new(
            self.ledger.clone(),
            self.tasks.clone(),
        )));
        self
    }

    /// Waits until everything noted so far is in the audit trail, for a few seconds at most. Returns whether it is.
    pub async fn flush_notes(&self) -> bool {
        match &self.audit {
            Some(audit) => audit.flush().await,
            None => true,
        }
    }

    /// The move of a grant, with a note if the key had been used before.
    pub(super) fn noting_grant(&self, step: Move, cause: Cause, now: Time) -> Move {
        if self.audit.is_none() || cause != Cause::Expired {
            return step;
        }
        let note = Note::of(&step.next, now, Action::Expired)
            .saying([("key", step.next.key.as_str().into())]);
        step.noted(note)
    }

    pub(super) fn note_replay(&self, record: &Record, outcome: &Outcome, now: Time) {
        if let Some(audit) = &self.audit {
            audit.push(Note::of(record, now, Action::Replay).saying([
                ("key", record.key.as_str().into()),
                ("status", outcome.status.into()),
            ]));
        }
    }

    pub(super) fn note_conflict(&self, record: &Record, claim: &Claim, now: Time) {
        if let Some(audit) = &self.audit {
            let facts = refused::facts(record, claim, self.ledger.seals());
            let mut note = Note::of(record, now, Action::Conflict);
            note.details = facts.to_string();
            audit.push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::{NoteScan, Tenant};
    use hapax_store::MemoryLedger;

    fn audit(waiting_max: usize) -> (Arc<Audit>, Arc<MemoryLedger>) {
        let ledger = Arc::new(MemoryLedger::new());
        let mut audit = Audit::new(ledger.clone(), TaskTracker::new());
        audit.waiting_max = waiting_max;
        (Arc::new(audit), ledger)
    }

    fn note(at: i64) -> Note {
        Note::new(Tenant::DEFAULT, Time::from_ms(at), Action::Replay)
    }

    async fn written(ledger: &MemoryLedger) -> usize {
        let scan = NoteScan {
            limit: 500,
            ..NoteScan::of(Tenant::DEFAULT)
        };
        ledger.notes(scan).await.unwrap().notes.len()
    }

    #[tokio::test]
    async fn what_is_noted_before_a_flush_is_written_after_it() {
        let (audit, ledger) = audit(WAITING_MAX);
        for at in 0..200 {
            audit.push(note(at));
        }
        assert!(audit.flush().await);
        assert_eq!(written(&ledger).await, 200);
        assert!(audit.flush().await, "nothing to write is all written");
    }

    #[tokio::test]
    async fn a_full_buffer_drops_the_newest_and_keeps_the_rest() {
        let (audit, ledger) = audit(3);
        for at in 0..5 {
            audit.push(note(at));
        }
        assert!(audit.flush().await);
        assert_eq!(written(&ledger).await, 3);
        audit.push(note(9));
        assert!(audit.flush().await);
        assert_eq!(written(&ledger).await, 4, "there is room again");
    }

    #[test]
    fn a_note_taken_outside_a_runtime_waits_for_the_next_flush() {
        let (audit, ledger) = audit(WAITING_MAX);
        audit.push(note(1));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            assert!(audit.flush().await);
            assert_eq!(written(&ledger).await, 1);
        });
    }
}
