//! Death on cue, for tests of debug builds: with HAPAX_TEST_ABORT_AFTER=N the process aborts right after the N-th write
//! of the queue is durable, before anybody hears of it; with HAPAX_TEST_ABORT_BEFORE=N right before it. What enrichment
//! writes beside the queue counts too. A release build does not have it.

mod batches;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hapax_core::entry::Batches;
use hapax_core::job::{
    Act, Ask, Done, Job, JobId, JobKind, JobPage, JobScan, NewJob, Op, OpKey, Place, Planned,
    Queue, Ready, Refusal, Stale, Tally,
};
use hapax_core::{Answer, Tenant, Time};

/// The queue and what enrichment keeps, or those that kill the process at the write that the environment says.
pub(crate) fn on_cue(
    queue: Arc<dyn Queue>,
    batches: Arc<dyn Batches>,
) -> (Arc<dyn Queue>, Arc<dyn Batches>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (before, after) = (
        number("HAPAX_TEST_ABORT_BEFORE"),
        number("HAPAX_TEST_ABORT_AFTER"),
    );
    if before.is_none() && after.is_none() {
        return (queue, batches);
    }
    let clock = Arc::new(Clock {
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        before,
        after,
    });
    let kept = batches::Doomed {
        batches,
        clock: Arc::clone(&clock),
    };
    (Arc::new(Doomed { queue, clock }), Arc::new(kept))
}

/// Counts writes until the last one.
struct Clock {
    begun: AtomicU64,
    ended: AtomicU64,
    before: Option<u64>,
    after: Option<u64>,
}

impl Clock {
    /// A write is about to be made.
    fn writes(&self) {
        if Some(self.begun.fetch_add(1, Ordering::SeqCst) + 1) == self.before {
            std::process::abort();
        }
    }

    /// A write is durable.
    fn wrote(&self) {
        if Some(self.ended.fetch_add(1, Ordering::SeqCst) + 1) == self.after {
            std::process::abort();
        }
    }
}

struct Doomed {
    queue: Arc<dyn Queue>,
    clock: Arc<Clock>,
}

impl Queue for Doomed {
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>> {
        Box::pin(async move {
            let planned = self.queue.plan(tenant, jobs).await?;
            if planned.iter().any(|planned| planned.planned) {
                self.clock.wrote();
            }
            Ok(planned)
        })
    }

    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>> {
        Box::pin(async move {
            let leased = self.queue.lease(tenant, ask).await?;
            if !leased.is_empty() {
                self.clock.wrote();
            }
            Ok(leased)
        })
    }

    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>> {
        Box::pin(async move {
            self.clock.writes();
            let done = self.queue.apply(tenant, acts).await?;
            self.clock.wrote();
            Ok(done)
        })
    }

    fn named(&self, tenant: Tenant, names: Vec<JobId>) -> Answer<'_, Vec<JobId>> {
        self.queue.named(tenant, names)
    }

    fn job(&self, tenant: Tenant, id: JobId) -> Answer<'_, Option<(Job, Vec<Op>)>> {
        self.queue.job(tenant, id)
    }

    fn op(&self, tenant: Tenant, key: OpKey) -> Answer<'_, Option<Op>> {
        self.queue.op(tenant, key)
    }

    fn jobs(&self, scan: JobScan) -> Answer<'_, JobPage> {
        self.queue.jobs(scan)
    }

    fn doubtful_ops(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        self.queue.doubtful_ops(tenant, at_most)
    }

    fn tally(&self, tenant: Tenant, at_most: u64) -> Answer<'_, Vec<Tally>> {
        self.queue.tally(tenant, at_most)
    }

    fn due(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Answer<'_, Vec<Tenant>> {
        self.queue.due(kinds, place, limit)
    }

    fn stale(&self, tenant: Option<Tenant>, limit: usize) -> Answer<'_, Stale> {
        self.queue.stale(tenant, limit)
    }

    fn on_ready(&self, ready: Ready) {
        self.queue.on_ready(ready);
    }

    fn time(&self) -> Time {
        self.queue.time()
    }
}
