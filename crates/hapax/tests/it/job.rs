//! Jobs: held leases, effects, plans and workers.

mod ahead;
mod crash;
mod effect;
mod graph;
mod history;
mod plan;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use hapax::core::Tenant;
use hapax::job::testing::MemoryQueue;
use hapax::job::{Act, Ask, Deed, Done, Fence, Held, Job, JobKind, NewJob, On, Op, Queue, Refusal};
use hapax::store::Clock;

pub(crate) const TTL: Duration = Duration::from_secs(120);

/// A queue in memory with one job in it.
pub(crate) struct Bench {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) clock: Clock,
    pub(crate) job: Job,
}

pub(crate) fn new_job(n: usize) -> NewJob {
    let url = "https://example.org/paper.pdf";
    let kind = JobKind::new("test").unwrap();
    NewJob::new(kind, &format!("w-{n}"), "a-1", url).unwrap()
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(new_job(1)).await
    }

    pub(crate) async fn with(job: NewJob) -> Self {
        let clock = Clock::system();
        let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::with_clock(clock.clone()));
        let job = queue
            .plan(Tenant::DEFAULT, vec![job])
            .await
            .unwrap()
            .remove(0)
            .job;
        Self { queue, clock, job }
    }

    pub(crate) async fn lease(&self, owner: &str) -> Held {
        self.try_lease(owner).await.expect("the job is due")
    }

    pub(crate) async fn try_lease(&self, owner: &str) -> Option<Held> {
        let leased = Held::lease(&self.queue, Tenant::DEFAULT, Ask::by(owner)).await;
        leased.unwrap().pop()
    }

    /// Leases the job and holds it through another queue in front of the same store.
    pub(crate) async fn lease_through(&self, queue: Arc<dyn Queue>, owner: &str) -> Held {
        let leased = self.queue.lease(Tenant::DEFAULT, Ask::by(owner)).await;
        Held::new(queue, leased.unwrap().remove(0), TTL).unwrap()
    }

    pub(crate) async fn stored(&self) -> (Job, Vec<Op>) {
        let stored = self.queue.job(Tenant::DEFAULT, self.job.id.clone()).await;
        stored.unwrap().unwrap()
    }

    pub(crate) async fn act(&self, on: On, deed: Deed) -> Result<Done, Refusal> {
        let fence = Fence::none();
        let acts = vec![Act { on, fence, deed }];
        let answers = self.queue.apply(Tenant::DEFAULT, acts).await;
        answers.unwrap().remove(0)
    }

    /// Lets the lease run out, so that another worker can take the job.
    pub(crate) fn run_out(&self) {
        self.clock.advance(TTL + Duration::from_secs(1));
    }
}
