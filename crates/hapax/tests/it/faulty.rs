//! A ledger that fails on cue, for what happens when the store is away.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax::core::{
    Answer, Durability, Error, Kind, Ledger, Move, Note, NotePage, NoteScan, Page, Record,
    RecordId, Scan, Swap, Sweep, Swept, Tenant, Time,
};
use hapax::store::{Clock, MemoryLedger};

/// What happens to the next swap.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It works.
    None,
    /// Nothing is written, and the caller knows.
    Unavailable,
    /// It is written, but the caller does not learn of it.
    WrittenUnknown,
    /// It is not written, and the caller does not learn of it.
    LostUnknown,
}

/// A memory ledger behind a list of faults.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: MemoryLedger,
    faults: Mutex<VecDeque<Fault>>,
    pub(crate) swaps: AtomicUsize,
    pub(crate) finds: AtomicUsize,
}

impl Faulty {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            inner: MemoryLedger::with_clock(clock),
            faults: Mutex::default(),
            swaps: AtomicUsize::new(0),
            finds: AtomicUsize::new(0),
        }
    }

    /// The next swaps fail like this, one after the other; then they work again.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }
}

impl Ledger for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn durability(&self) -> Durability {
        Durability::Process
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        self.swaps.fetch_add(1, Ordering::SeqCst);
        let fault = self
            .faults
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(Fault::None);
        let unknown = || Error::new(Kind::OutcomeUnknown, "swapping records");
        Box::pin(async move {
            match fault {
                Fault::None => self.inner.swap(moves).await,
                Fault::Unavailable => Err(Error::new(Kind::Unavailable, "swapping records")),
                Fault::WrittenUnknown => {
                    self.inner.swap(moves).await?;
                    Err(unknown())
                }
                Fault::LostUnknown => Err(unknown()),
            }
        })
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        self.finds.fetch_add(1, Ordering::SeqCst);
        self.inner.find(tenant, id)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.inner.scan(scan)
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        self.inner.sweep(sweep)
    }

    fn check(&self) -> Answer<'_, ()> {
        self.inner.check()
    }

    fn note(&self, notes: Vec<Note>) -> Answer<'_, ()> {
        self.inner.note(notes)
    }

    fn notes(&self, scan: NoteScan) -> Answer<'_, NotePage> {
        self.inner.notes(scan)
    }

    fn purges(&self) -> Option<u64> {
        self.inner.purges()
    }
}
