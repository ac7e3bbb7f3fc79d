//! A queue that remembers every write it answered, and a check of that history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::job::{
    Act, Ask, Deed, Done, Job, JobId, JobKind, JobPage, JobScan, NewJob, Op, OpKey, Place, Planned,
    Queue, Ready, Refusal, Stale, Tally,
};
use hapax_core::{Answer, Tenant, Time};

/// A queue that remembers what it accepted.
pub struct HistoryQueue {
    inner: Arc<dyn Queue>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    writes: usize,
    /// The tokens whose results were accepted, by operation.
    completed: BTreeMap<(Tenant, OpKey), BTreeSet<Arc<str>>>,
    /// The epochs under which a job came to an end.
    ended: BTreeMap<(Tenant, JobId), BTreeSet<i64>>,
    stale: Vec<String>,
}

impl fmt::Debug for HistoryQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistoryQueue").finish_non_exhaustive()
    }
}

impl HistoryQueue {
    /// This queue, with nothing remembered so far.
    #[must_use]
    pub fn new(inner: Arc<dyn Queue>) -> Self {
        Self {
            inner,
            seen: Mutex::default(),
        }
    }

    /// How many writes were accepted.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// How many jobs came to an end.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.lock().ended.len()
    }

    /// What must never happen and did: an operation whose result two runners recorded, a job that ended under two
    /// leases, a write under a lease that was no longer the last one.
    #[must_use]
    pub fn wrongs(&self) -> Vec<String> {
        let seen = self.lock();
        let twice = seen.completed.iter().filter(|(_, by)| by.len() > 1);
        let twice = twice.map(|((_, op), by)| format!("op {op} was recorded by {by:?}"));
        let again = seen.ended.iter().filter(|(_, epochs)| epochs.len() > 1);
        let again = again.map(|((_, job), epochs)| format!("job {job} ended under {epochs:?}"));
        let stale = seen.stale.iter().cloned();
        twice.chain(again).chain(stale).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Every change under the lock is whole before anything can panic.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn note(&mut self, tenant: Tenant, act: &Act, done: &Done) {
        self.writes += 1;
        let wrote_under = match done {
            Done::Job(job) => job.epoch,
            Done::Op(op, _) | Done::Begun(_, op) => op.epoch,
        };
        if let Deed::Complete { token, .. } = &act.deed
            && let Done::Op(op, _) = done
        {
            let by = self.completed.entry((tenant, op.key.clone()));
            by.or_default().insert(token.clone());
        }
        if let Done::Job(job) | Done::Op(_, job) = done
            && job.state.is_terminal()
        {
            let at = (tenant, job.id.clone());
            self.ended.entry(at).or_default().insert(job.epoch);
        }
        // What began earlier is told to anyone who holds the job, so a begin may see an older operation.
        let is_begin = matches!(act.deed, Deed::Begin { .. });
        if let Some(epoch) = act.fence.epoch
            && epoch != wrote_under
            && !is_begin
        {
            let stale = format!("{:?} under {epoch}, after {wrote_under}", act.deed);
            self.stale.push(stale);
        }
    }
}

impl Queue for HistoryQueue {
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>> {
        self.inner.plan(tenant, jobs)
    }

    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>> {
        self.inner.lease(tenant, ask)
    }

    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>> {
        Box::pin(async move {
            let answers = self.inner.apply(tenant, acts.clone()).await?;
            let mut seen = self.lock();
            for (act, answer) in acts.iter().zip(&answers) {
                if let Ok(done) = answer {
                    seen.note(tenant, act, done);
                }
            }
            drop(seen);
            Ok(answers)
        })
    }

    fn named(&self, tenant: Tenant, names: Vec<JobId>) -> Answer<'_, Vec<JobId>> {
        self.inner.named(tenant, names)
    }

    fn job(&self, tenant: Tenant, id: JobId) -> Answer<'_, Option<(Job, Vec<Op>)>> {
        self.inner.job(tenant, id)
    }

    fn op(&self, tenant: Tenant, key: OpKey) -> Answer<'_, Option<Op>> {
        self.inner.op(tenant, key)
    }

    fn jobs(&self, scan: JobScan) -> Answer<'_, JobPage> {
        self.inner.jobs(scan)
    }

    fn doubtful_ops(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        self.inner.doubtful_ops(tenant, at_most)
    }

    fn tally(&self, tenant: Tenant, at_most: u64) -> Answer<'_, Vec<Tally>> {
        self.inner.tally(tenant, at_most)
    }

    fn due(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Answer<'_, Vec<Tenant>> {
        self.inner.due(kinds, place, limit)
    }

    fn stale(&self, tenant: Option<Tenant>, limit: usize) -> Answer<'_, Stale> {
        self.inner.stale(tenant, limit)
    }

    fn on_ready(&self, ready: Ready) {
        self.inner.on_ready(ready);
    }

    fn time(&self) -> Time {
        self.inner.time()
    }
}
