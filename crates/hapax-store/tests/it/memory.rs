//! The ledger suite on memory.

use std::sync::Arc;

use hapax_store::conformance::Subject;
use hapax_store::{Clock, MemoryLedger};

async fn open() -> Subject {
    let clock = Clock::system();
    Subject::new(Arc::new(MemoryLedger::with_clock(clock.clone())), clock)
}

hapax_store::ledger_conformance!(open);
