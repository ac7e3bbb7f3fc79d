//! What a case works on: an empty queue, its clock, and short words for what every case does.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::{
    Act, Ask, Begun, Class, Deed, Done, Fence, Job, JobKind, NewJob, On, Op, OpKey, OpState,
    Planned, Queue, Refusal, State,
};
use hapax_core::{Tenant, Time};

use crate::clock::Clock;

/// How long a lease of a case lasts.
pub(super) const TTL: Duration = Duration::from_secs(60);

/// An empty queue and the clock it reads.
pub struct QueueSubject {
    /// The queue under test.
    pub queue: Arc<dyn Queue>,
    clock: Clock,
    keep: Vec<Box<dyn Any + Send + Sync>>,
}

impl QueueSubject {
    /// A subject over an empty `queue` that reads `clock`.
    #[must_use]
    pub fn new(queue: Arc<dyn Queue>, clock: Clock) -> Self {
        Self {
            queue,
            clock,
            keep: Vec::new(),
        }
    }

    /// Keeps `guard`, such as a temporary folder, for as long as the subject lives.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send + Sync) -> Self {
        self.keep.push(Box::new(guard));
        self
    }

    /// Moves the queue's clock forward.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Moves the queue's clock past the end of every lease that a case took.
    pub(super) fn run_out(&self) {
        self.advance(TTL + Duration::from_secs(1));
    }

    /// Plans for the default tenant.
    pub(super) async fn plan(&self, jobs: Vec<NewJob>) -> Vec<Planned> {
        self.plan_for(Tenant::DEFAULT, jobs).await
    }

    pub(super) async fn plan_for(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Vec<Planned> {
        let count = jobs.len();
        let planned = self.queue.plan(tenant, jobs).await;
        let planned = planned.expect("the queue answers");
        assert_eq!(planned.len(), count, "one answer for each job");
        planned
    }

    /// Plans the download of this name.
    pub(super) async fn planned(&self, name: &str) -> Job {
        self.plan(vec![download(name)]).await.remove(0).job
    }

    pub(super) async fn lease(&self, ask: Ask) -> Vec<Job> {
        self.lease_for(Tenant::DEFAULT, ask).await
    }

    pub(super) async fn lease_for(&self, tenant: Tenant, ask: Ask) -> Vec<Job> {
        let leased = self.queue.lease(tenant, ask).await;
        leased.expect("the queue answers")
    }

    /// Leases the next job, if one is due.
    pub(super) async fn next(&self, owner: &str) -> Option<Job> {
        let mut jobs = self.lease(ask(owner)).await;
        assert!(jobs.len() <= 1, "one was asked for");
        jobs.pop()
    }

    /// Leases the next job.
    pub(super) async fn taken(&self, owner: &str) -> Job {
        self.next(owner).await.expect("a job is due")
    }

    /// Plans the download of this name and leases it.
    pub(super) async fn held(&self, name: &str) -> Job {
        self.held_as(download(name)).await
    }

    /// Plans this job and leases it.
    pub(super) async fn held_as(&self, job: NewJob) -> Job {
        let planned = self.plan(vec![job]).await.remove(0).job;
        let taken = self.taken("worker").await;
        assert_eq!(taken.id, planned.id, "nothing else is due");
        taken
    }

    pub(super) async fn apply(&self, acts: Vec<Act>) -> Vec<Result<Done, Refusal>> {
        self.apply_for(Tenant::DEFAULT, acts).await
    }

    pub(super) async fn apply_for(
        &self,
        tenant: Tenant,
        acts: Vec<Act>,
    ) -> Vec<Result<Done, Refusal>> {
        let count = acts.len();
        let done = self.queue.apply(tenant, acts).await;
        let done = done.expect("the queue answers");
        assert_eq!(done.len(), count, "one answer for each act");
        done
    }

    /// Does `deed` to the job as whoever `job` says holds it.
    pub(super) async fn deed(&self, job: &Job, deed: Deed) -> Result<Job, Refusal> {
        self.deed_by(job, fence(job), deed).await
    }

    /// Does `deed` to the job under this fence.
    pub(super) async fn deed_by(
        &self,
        job: &Job,
        fence: Fence,
        deed: Deed,
    ) -> Result<Job, Refusal> {
        match self.apply(vec![on_job(job, fence, deed)]).await.remove(0)? {
            Done::Job(job) => Ok(*job),
            other => panic!("the deed is one on a job, got {other:?}"),
        }
    }

    /// Moves the job through these states as its holder.
    pub(super) async fn walk(&self, job: &Job, states: &[State]) -> Job {
        let mut job = job.clone();
        for to in states {
            let moved = self.deed(&job, step(*to)).await.expect("it is a step");
            assert_eq!(moved.state, *to);
            job = moved;
        }
        job
    }

    /// Begins the operation of this name under the job.
    pub(super) async fn begin(
        &self,
        job: &Job,
        name: &str,
        class: Class,
        token: &str,
    ) -> Result<Begun, Refusal> {
        let deed = beginning(name, class, token);
        match self
            .apply(vec![on_job(job, fence(job), deed)])
            .await
            .remove(0)?
        {
            Done::Begun(begun, op) => {
                assert_eq!(self.op(name).await, Some(*op), "it is stored as answered");
                Ok(begun)
            }
            other => panic!("a begin is answered as one, got {other:?}"),
        }
    }

    /// Begins an operation that has to be run.
    pub(super) async fn begun(&self, job: &Job, name: &str, class: Class, token: &str) {
        let begun = self.begin(job, name, class, token).await;
        assert_eq!(begun, Ok(Begun::Execute(token.into())));
    }

    /// Ends the operation of this name, as whoever holds its job now.
    pub(super) async fn end(&self, name: &str, deed: Deed) -> Result<(Op, Job), Refusal> {
        let fence = match self.op(name).await {
            Some(op) => {
                let found = self.queue.job(op.tenant, op.job).await;
                fence(&found.expect("the queue answers").expect("it is there").0)
            }
            None => Fence::none(),
        };
        match self.apply(vec![on_op(name, fence, deed)]).await.remove(0)? {
            Done::Op(op, job) => {
                assert_eq!(
                    self.op(name).await.as_ref(),
                    Some(&*op),
                    "it is stored as answered"
                );
                assert_eq!(self.stored(&job).await, *job, "it is stored as answered");
                Ok((*op, *job))
            }
            other => panic!("the deed is one on an operation, got {other:?}"),
        }
    }

    /// The job as it is stored.
    pub(super) async fn stored(&self, job: &Job) -> Job {
        self.shown(job).await.0
    }

    /// The job as it is stored, and its operations.
    pub(super) async fn shown(&self, job: &Job) -> (Job, Vec<Op>) {
        let found = self.queue.job(job.tenant, job.id.clone()).await;
        found.expect("the queue answers").expect("it is there")
    }

    /// The stored operation of this name.
    pub(super) async fn op(&self, name: &str) -> Option<Op> {
        let found = self.queue.op(Tenant::DEFAULT, key(name)).await;
        found.expect("the queue answers")
    }

    /// How the stored operation of this name stands.
    pub(super) async fn op_state(&self, name: &str) -> OpState {
        self.op(name).await.expect("it is there").state
    }

    /// Whether `at` is from `first` to `last`, as far as the store's clock is known on this side: a store that keeps its
    /// own time is asked for it now and then, and on a busy machine an answer is old when it comes.
    pub(super) fn is_within(at: Time, first: Time, last: Time) -> bool {
        const KNOWN_TO: Duration = Duration::from_secs(2);
        at.plus(KNOWN_TO) >= first && at <= last.plus(KNOWN_TO)
    }

    pub(super) fn now(&self) -> Time {
        self.queue.time()
    }
}

/// The download of this name.
pub(super) fn download(name: &str) -> NewJob {
    let url = format!("https://example.org/{name}");
    NewJob::download("w-1", name, &url).expect("cases use valid jobs")
}

/// The job of this kind and name.
pub(super) fn of_kind(kind: &str, name: &str) -> NewJob {
    let url = format!("https://example.org/{name}");
    NewJob::new(self::kind(kind), "w-1", name, &url).expect("cases use valid jobs")
}

pub(super) fn kind(name: &str) -> JobKind {
    JobKind::new(name).expect("cases use valid kinds")
}

pub(super) fn key(name: &str) -> OpKey {
    OpKey::new(name).expect("cases use valid keys")
}

/// One job of any kind, for as long as leases of cases last.
pub(super) fn ask(owner: &str) -> Ask {
    Ask {
        ttl: TTL,
        ..Ask::by(owner)
    }
}

/// As many jobs of any kind.
pub(super) fn ask_many(owner: &str, limit: usize) -> Ask {
    Ask {
        limit,
        ..ask(owner)
    }
}

/// The fence of whoever `job` says holds it.
pub(super) fn fence(job: &Job) -> Fence {
    match &job.lease {
        Some(hold) => Fence::of(&hold.owner, job.epoch),
        None => Fence::none(),
    }
}

pub(super) fn on_job(job: &Job, fence: Fence, deed: Deed) -> Act {
    Act {
        on: On::Job(job.id.clone()),
        fence,
        deed,
    }
}

/// An act on the operation of this name.
pub(super) fn on_op(name: &str, fence: Fence, deed: Deed) -> Act {
    Act {
        on: On::Op(key(name)),
        fence,
        deed,
    }
}

/// A step along the graph, with nothing besides.
pub(super) fn step(to: State) -> Deed {
    Deed::Advance {
        to,
        allowed_from: None,
        result: None,
    }
}

/// A failure that another attempt can help.
pub(super) fn failure(error: &str) -> Deed {
    Deed::Fail {
        error: Some(error.into()),
        retryable: true,
        after: None,
    }
}

/// A failure that no other attempt can help.
pub(super) fn last_failure(error: &str) -> Deed {
    Deed::Fail {
        error: Some(error.into()),
        retryable: false,
        after: None,
    }
}

/// Beginning the operation of this name and of kind HEAD.
pub(super) fn beginning(name: &str, class: Class, token: &str) -> Deed {
    Deed::Begin {
        key: key(name),
        kind: "HEAD".into(),
        class,
        token: token.into(),
    }
}

/// Recording a result.
pub(super) fn complete(token: &str, result: &str) -> Deed {
    Deed::Complete {
        token: token.into(),
        result: result.into(),
        advance_to: None,
    }
}

/// Recording a result and moving the job.
pub(super) fn complete_to(token: &str, result: &str, to: State) -> Deed {
    Deed::Complete {
        token: token.into(),
        result: result.into(),
        advance_to: Some(to),
    }
}

/// Recording that an operation failed.
pub(super) fn fail_op(token: &str, error: &str, retryable: bool) -> Deed {
    Deed::FailOp {
        token: token.into(),
        error: error.into(),
        retryable,
    }
}

/// The ids of jobs as texts, for comparing orders.
pub(super) fn names(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().map(|job| job.artifact_id.as_str()).collect()
}
