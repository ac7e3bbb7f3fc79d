//! A queue in memory, as strict as the others, with a clock that a test moves. It keeps nothing when it is dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hapax_core::job::{
    Act, Ask, Done, Job, JobId, JobKind, JobPage, JobScan, Knock, NewJob, On, Op, OpKey, OpState,
    Place, Planned, Queue, Ready, Refusal, Stale, Taken, Tally, judge, take,
};
use hapax_core::{Answer, Tenant, Time};
use hapax_store::Clock;

/// A queue in memory, for tests.
#[derive(Default)]
pub struct MemoryQueue {
    rows: Mutex<Rows>,
    ready: Mutex<Vec<Ready>>,
    clock: Clock,
}

#[derive(Default)]
struct Rows {
    jobs: BTreeMap<(Tenant, JobId), Job>,
    ops: BTreeMap<(Tenant, OpKey), (u64, Op)>,
    seq: i64,
    begun: u64,
}

impl fmt::Debug for MemoryQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryQueue").finish_non_exhaustive()
    }
}

impl MemoryQueue {
    /// An empty queue on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty queue on this clock.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // A test that panics in the middle of a change has failed already.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call_ready(&self) {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        for ready in ready.iter() {
            ready();
        }
    }
}

impl Rows {
    fn apply(&mut self, tenant: Tenant, act: &Act, now: Time) -> Result<Done, Refusal> {
        let op = act.op_key().and_then(|key| {
            let (_, op) = self.ops.get(&(tenant, key.clone()))?;
            Some(op.clone())
        });
        let id = match &act.on {
            On::Job(id) => Some(id.clone()),
            On::Op(_) => op.as_ref().map(|op| op.job.clone()),
        };
        let job = id.and_then(|id| self.jobs.get(&(tenant, id)).cloned());
        let seen = Knock {
            job: job.as_ref(),
            op: op.as_ref(),
            now,
        };
        let change = judge(seen, act)?;
        if let Some(job) = change.job {
            self.jobs.insert((tenant, job.id.clone()), job);
        }
        if let Some(op) = change.op {
            self.begun += 1;
            let at = (tenant, op.key.clone());
            let order = self.ops.get(&at).map_or(self.begun, |(order, _)| *order);
            self.ops.insert(at, (order, op));
        }
        Ok(change.done)
    }

    fn lease(&mut self, tenant: Tenant, ask: &Ask, now: Time) -> Vec<Job> {
        let mut due: Vec<Job> = self
            .of(tenant)
            .filter(|job| is_asked(job, ask.kinds.as_deref(), &ask.place, now))
            .cloned()
            .collect();
        due.sort_by_key(|job| (job.attempts, job.seq));
        let mut leased = Vec::new();
        for job in due {
            if leased.len() >= ask.limit.min(Ask::LIMIT_MAX) {
                break;
            }
            let job = match take(&job, &ask.owner, ask.ttl, now) {
                Taken::Leased(job) => {
                    leased.push(job.clone());
                    job
                }
                Taken::Dead(job) => job,
            };
            self.jobs.insert((tenant, job.id.clone()), job);
        }
        leased
    }

    fn of(&self, tenant: Tenant) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(move |job| job.tenant == tenant)
    }
}

fn is_asked(job: &Job, kinds: Option<&[JobKind]>, place: &Place, now: Time) -> bool {
    let is_known = kinds.is_none_or(|kinds| kinds.contains(&job.kind));
    job.is_due(now) && is_known && job.place == *place
}

fn answer<T: Send + 'static>(value: T) -> Answer<'static, T> {
    Box::pin(ready(Ok(value)))
}

impl Queue for MemoryQueue {
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>> {
        let now = self.time();
        let mut rows = self.rows();
        let mut stored = Vec::with_capacity(jobs.len());
        for new in jobs {
            let key = new.key();
            let known = rows.of(tenant).find(|job| job.key == key).cloned();
            let planned = known.is_none();
            let job = known.unwrap_or_else(|| {
                rows.seq += 1;
                new.at(tenant, rows.seq, now)
            });
            rows.jobs.insert((tenant, job.id.clone()), job.clone());
            stored.push(Planned { job, planned });
        }
        drop(rows);
        self.call_ready();
        answer(stored)
    }

    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>> {
        answer(self.rows().lease(tenant, &ask, self.time()))
    }

    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>> {
        let now = self.time();
        let mut rows = self.rows();
        let done: Vec<_> = acts
            .iter()
            .map(|act| rows.apply(tenant, act, now))
            .collect();
        drop(rows);
        let is_due = |done: &Result<Done, Refusal>| match done {
            Ok(Done::Job(job) | Done::Op(_, job)) => job.is_due(now),
            Ok(Done::Begun(..)) | Err(_) => false,
        };
        if done.iter().any(is_due) {
            self.call_ready();
        }
        answer(done)
    }

    fn named(&self, tenant: Tenant, names: Vec<JobId>) -> Answer<'_, Vec<JobId>> {
        let rows = self.rows();
        let found = names.into_iter().map(JobId::normal).map(|name| {
            let is_it = |job: &&Job| job.key == name.as_str() || job.id.goes_by(&name);
            let job = rows.of(tenant).find(is_it).map(|job| job.id.clone());
            job.unwrap_or(name)
        });
        answer(found.collect())
    }

    fn job(&self, tenant: Tenant, id: JobId) -> Answer<'_, Option<(Job, Vec<Op>)>> {
        let rows = self.rows();
        let found = rows.jobs.get(&(tenant, id)).map(|job| {
            let is_its = |(_, op): &&(u64, Op)| op.tenant == tenant && op.job == job.id;
            let mut ops: Vec<&(u64, Op)> = rows.ops.values().filter(is_its).collect();
            ops.sort_by_key(|(order, _)| *order);
            let ops = ops.into_iter().map(|(_, op)| op.clone()).collect();
            (job.clone(), ops)
        });
        answer(found)
    }

    fn op(&self, tenant: Tenant, key: OpKey) -> Answer<'_, Option<Op>> {
        let rows = self.rows();
        answer(rows.ops.get(&(tenant, key)).map(|(_, op)| op.clone()))
    }

    fn jobs(&self, scan: JobScan) -> Answer<'_, JobPage> {
        let now = self.time();
        let rows = self.rows();
        let is_listed = |job: &&Job| {
            let waits = |kind: &String| {
                let mut ops = rows.ops.values().map(|(_, op)| op);
                ops.any(|op| {
                    let is_its = op.tenant == job.tenant && op.job == job.id;
                    is_its && op.kind == *kind && op.state == OpState::Waiting
                })
            };
            let doubts = || {
                let mut ops = rows.ops.values().map(|(_, op)| op);
                ops.any(|op| {
                    let is_its = op.tenant == job.tenant && op.job == job.id;
                    is_its && op.state == OpState::InDoubt
                })
            };
            scan.states().contains(&job.state)
                && scan.waits_in.as_ref().is_none_or(waits)
                && (!scan.in_doubt || doubts())
                && scan.kind.as_ref().is_none_or(|kind| job.kind == *kind)
                && scan.work_id.as_ref().is_none_or(|id| job.work_id == *id)
                && (!scan.held || job.is_held(now))
                && scan.before.is_none_or(|before| job.seq < before)
        };
        let mut jobs: Vec<Job> = rows.of(scan.tenant).filter(is_listed).cloned().collect();
        jobs.sort_by_key(|job| std::cmp::Reverse(job.seq));
        let limit = scan.limit.clamp(1, JobScan::LIMIT_MAX);
        let next = (jobs.len() > limit).then(|| jobs[limit - 1].seq);
        jobs.truncate(limit);
        answer(JobPage { jobs, next })
    }

    fn doubtful_ops(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        let rows = self.rows();
        let ops = rows.ops.values().map(|(_, op)| op);
        let doubtful = ops.filter(|op| op.tenant == tenant && op.state == OpState::InDoubt);
        answer(at_most.min(doubtful.count() as u64))
    }

    fn tally(&self, tenant: Tenant, at_most: u64) -> Answer<'_, Vec<Tally>> {
        let now = self.time();
        let mut counts = BTreeMap::new();
        for job in self.rows().of(tenant) {
            let (count, held) = counts
                .entry((job.kind.clone(), job.state))
                .or_insert((0, 0));
            *count += 1;
            *held += u64::from(job.is_held(now));
        }
        let tally = |((kind, state), (count, held))| Tally {
            kind,
            state,
            count: at_most.min(count),
            held: at_most.min(held),
        };
        answer(counts.into_iter().map(tally).collect())
    }

    fn due(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Answer<'_, Vec<Tenant>> {
        let now = self.time();
        let rows = self.rows();
        let is_due = |job: &&Job| is_asked(job, kinds.as_deref(), &place, now);
        let mut due: Vec<Tenant> = rows
            .jobs
            .values()
            .filter(is_due)
            .map(|job| job.tenant)
            .collect();
        due.dedup();
        due.truncate(limit);
        answer(due)
    }

    fn stale(&self, tenant: Option<Tenant>, limit: usize) -> Answer<'_, Stale> {
        let now = self.time();
        let rows = self.rows();
        let is_asked = |of: Tenant| tenant.is_none_or(|tenant| tenant == of);
        let ran_out = |job: &&Job| {
            is_asked(job.tenant)
                && job.lease.is_some()
                && !job.is_held(now)
                && !job.state.is_terminal()
        };
        let leases = rows.jobs.values().filter(ran_out).take(limit);
        let is_dead = |(_, op): &&(u64, Op)| {
            let job = rows.jobs.get(&(op.tenant, op.job.clone()));
            let is_worked_on = job.is_some_and(|job| {
                let is_young = now.since(op.started_at) < hapax_core::job::judge::ABANDONED_AFTER;
                job.epoch == op.epoch && (job.is_held(now) || is_young)
            });
            is_asked(op.tenant) && op.state == OpState::Running && !is_worked_on
        };
        let ops = rows.ops.values().filter(is_dead).take(limit);
        answer(Stale {
            leases: leases
                .map(|job| (job.tenant, job.id.clone(), job.epoch))
                .collect(),
            ops: ops.map(|(_, op)| (op.tenant, op.key.clone())).collect(),
        })
    }

    fn on_ready(&self, ready: Ready) {
        let mut all = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(ready);
    }

    fn time(&self) -> Time {
        self.clock.now()
    }
}
