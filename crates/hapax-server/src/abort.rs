//! Death on cue, for tests of debug builds: with HAPAX_TEST_ABORT_AFTER=N the process aborts right after the N-th write
//! of the queue is durable, before anybody hears of it. A release build does not have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hapax_core::job::{
    Act, Ask, Done, Job, JobId, JobKind, JobPage, JobScan, NewJob, Op, OpKey, Place, Planned,
    Queue, Ready, Refusal, Stale, Tally,
};
use hapax_core::{Answer, Tenant, Time};

/// The queue, or one that kills the process after as many writes as the environment says.
pub(crate) fn on_cue(queue: Arc<dyn Queue>) -> Arc<dyn Queue> {
    let after = std::env::var("HAPAX_TEST_ABORT_AFTER");
    match after.ok().and_then(|after| after.parse().ok()) {
        Some(after) => Arc::new(Doomed {
            queue,
            left: AtomicU64::new(after),
        }),
        None => queue,
    }
}

struct Doomed {
    queue: Arc<dyn Queue>,
    left: AtomicU64,
}

impl Doomed {
    fn wrote(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    }
}

impl Queue for Doomed {
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>> {
        Box::pin(async move {
            let planned = self.queue.plan(tenant, jobs).await?;
            if planned.iter().any(|planned| planned.planned) {
                self.wrote();
            }
            Ok(planned)
        })
    }

    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>> {
        Box::pin(async move {
            let leased = self.queue.lease(tenant, ask).await?;
            if !leased.is_empty() {
                self.wrote();
            }
            Ok(leased)
        })
    }

    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>> {
        Box::pin(async move {
            let done = self.queue.apply(tenant, acts).await?;
            self.wrote();
            Ok(done)
        })
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

    fn tally(&self, tenant: Tenant) -> Answer<'_, Vec<Tally>> {
        self.queue.tally(tenant)
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
