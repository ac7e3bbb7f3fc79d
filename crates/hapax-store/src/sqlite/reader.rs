//! The threads that read: each owns a connection, so no async thread ever waits for the disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;

use super::queue::Queue;

/// A reader's connection and where its work comes from.
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
}

impl Reader {
    /// Works until the queue is closed and empty. Every read sees all that was committed before it began.
    pub(super) fn run(self) {
        let mut jobs = Vec::with_capacity(1);
        while self.queue.take(&mut jobs, 1) {
            for mut job in jobs.drain(..) {
                // A read changes nothing, so a panic spoils only its own answer.
                let read = catch_unwind(AssertUnwindSafe(|| job.run(&self.connection)));
                if let Ok(result) = read {
                    job.answer(
                        result
                            .map(drop)
                            .map_err(|fault| fault.into_error("reading the ledger")),
                    );
                }
            }
        }
    }
}
