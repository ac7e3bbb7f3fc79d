//! Acts on jobs and operations: lock the jobs, see what there is, ask the rule, write. Two flights.

use std::collections::{BTreeSet, HashMap, HashSet};

use hapax_core::job::{Act, Done, Job, JobId, Knock, On, Op, OpKey, Refusal, judge};
use hapax_core::{Error, Tenant, Time};

use super::super::PgLedger;
use super::link::{Failure, Link, Order, Tries};
use super::moves::{Moves, Stood};
use super::rows::{self, JobColumns, OpColumns, Sealer, standing};
use super::{BEGIN, CLOCK, SET_TENANT};
use crate::vault::Ring;

const LOCK: &str = include_str!("../../../sql/postgres/job_lock.sql");
const OPS: &str = include_str!("../../../sql/postgres/op_find.sql");
pub(super) const WRITE: &str = include_str!("../../../sql/postgres/job_write.sql");
const OP_INSERT: &str = include_str!("../../../sql/postgres/op_insert.sql");
const OP_WRITE: &str = include_str!("../../../sql/postgres/op_write.sql");

pub(super) type Answers = Vec<Result<Done, Refusal>>;

/// What was seen under the lock, and what of it changed.
struct Bench {
    now: Time,
    jobs: HashMap<JobId, Job>,
    /// Where each job stood before.
    stood: HashMap<JobId, Stood>,
    ops: HashMap<OpKey, Op>,
    /// Operations that are stored.
    stored: HashSet<OpKey>,
    changed_jobs: BTreeSet<JobId>,
    changed_ops: BTreeSet<OpKey>,
    /// In the order they were begun.
    new_ops: Vec<OpKey>,
}

impl Bench {
    fn new(jobs: Vec<Job>, stood: Vec<Stood>, ops: Vec<Op>, now: Time) -> Self {
        Self {
            now,
            stood: jobs.iter().map(|job| job.id.clone()).zip(stood).collect(),
            jobs: jobs.into_iter().map(|job| (job.id.clone(), job)).collect(),
            stored: ops.iter().map(|op| op.key.clone()).collect(),
            ops: ops.into_iter().map(|op| (op.key.clone(), op)).collect(),
            changed_jobs: BTreeSet::new(),
            changed_ops: BTreeSet::new(),
            new_ops: Vec::new(),
        }
    }

    /// Does the act here, where later acts see it.
    fn act(&mut self, act: &Act) -> Result<Done, Refusal> {
        let op = act.op_key().and_then(|key| self.ops.get(key));
        let job = match &act.on {
            On::Job(id) => self.jobs.get(id),
            On::Op(_) => op.and_then(|op| self.jobs.get(&op.job)),
        };
        let now = self.now;
        let change = judge(Knock { job, op, now }, act)?;
        if let Some(job) = change.job {
            self.changed_jobs.insert(job.id.clone());
            self.jobs.insert(job.id.clone(), job);
        }
        if let Some(op) = change.op {
            let key = op.key.clone();
            if self.stored.contains(&key) {
                self.changed_ops.insert(key.clone());
            } else if !self.ops.contains_key(&key) {
                self.new_ops.push(key.clone());
            }
            self.ops.insert(key, op);
        }
        Ok(change.done)
    }

    fn jobs_to_write(&self) -> Vec<(&Job, &Stood)> {
        let ids = self.changed_jobs.iter();
        ids.filter_map(|id| self.jobs.get(id).zip(self.stood.get(id)))
            .collect()
    }

    fn ops_to_write<'a>(&'a self, keys: impl Iterator<Item = &'a OpKey>) -> Vec<&'a Op> {
        keys.filter_map(|key| self.ops.get(key)).collect()
    }
}

impl PgLedger {
    pub(super) async fn apply_acts(&self, tenant: Tenant, acts: &[Act]) -> Result<Answers, Error> {
        if acts.is_empty() {
            return Ok(Vec::new());
        }
        let ring = self.ring_of(tenant).await?;
        let mut tries = Tries::default();
        loop {
            let mut lent = self.jobs.pool.lend("changing jobs").await?;
            match self
                .apply_on(&mut lent.link, tenant, acts, ring.as_deref())
                .await
            {
                Ok((answers, is_ready)) => {
                    lent.back();
                    if is_ready {
                        self.jobs.bell.ring();
                    }
                    return Ok(answers);
                }
                Err(failure) => tries.after(failure, lent).await?,
            }
        }
    }

    /// One try. Also tells whether something became ready to be leased.
    async fn apply_on(
        &self,
        link: &mut Link,
        tenant: Tenant,
        acts: &[Act],
        ring: Option<&Ring>,
    ) -> Result<(Answers, bool), Failure> {
        let mut bench = match self.see(link, tenant, acts).await? {
            Ok(bench) => bench,
            Err(error) => return Err(link.give_up(error).await),
        };
        let answers: Answers = acts.iter().map(|act| bench.act(act)).collect();
        let sealer = Sealer { ring, tenant };
        let changed = bench.jobs_to_write();
        let moves = Moves::of(tenant, &changed, bench.now);
        let jobs: Vec<&Job> = changed.iter().map(|(job, _)| *job).collect();
        let is_ready = jobs.iter().any(|job| standing(job, bench.now) == "ready");
        let columns = || {
            Ok((
                JobColumns::of(&jobs, sealer, bench.now, &moves)?,
                OpColumns::of(&bench.ops_to_write(bench.new_ops.iter()), sealer)?,
                OpColumns::of(&bench.ops_to_write(bench.changed_ops.iter()), sealer)?,
            ))
        };
        let (job_columns, new_ops, changed_ops) = match columns() {
            Ok(columns) => columns,
            Err(error) => return Err(link.give_up(error).await),
        };
        let mut orders = Vec::new();
        if !jobs.is_empty() {
            orders.push(Order::Query(WRITE, job_columns.params()));
            moves.orders(&mut orders);
        }
        if !bench.new_ops.is_empty() {
            orders.push(Order::Query(OP_INSERT, new_ops.params()));
        }
        if !bench.changed_ops.is_empty() {
            orders.push(Order::Query(OP_WRITE, changed_ops.params()));
        }
        if is_ready {
            self.notifying(&mut orders);
        }
        let writes = !orders.is_empty();
        link.finish(orders, writes).await?;
        Ok((answers, is_ready))
    }

    /// The first flight: the jobs, locked, their operations, and then the time.
    async fn see(
        &self,
        link: &mut Link,
        tenant: Tenant,
        acts: &[Act],
    ) -> Result<Result<Bench, Error>, Failure> {
        let id = tenant.as_uuid();
        let jobs: Vec<&str> = acts.iter().filter_map(job_id).collect();
        let keys: Vec<&str> = acts
            .iter()
            .filter_map(Act::op_key)
            .map(OpKey::as_str)
            .collect();
        let of_ops: Vec<&str> = acts.iter().filter_map(on_op).collect();
        let orders = vec![
            Order::Command(BEGIN),
            Order::Query(SET_TENANT, vec![&id]),
            Order::Query(LOCK, vec![&id, &jobs, &of_ops]),
            Order::Query(OPS, vec![&id, &keys]),
            // Read after the locks were had, which may have taken a while.
            Order::Query(CLOCK, Vec::new()),
        ];
        let answers = link.look(orders).await?;
        let [_, _, jobs, ops, clock] = &answers[..] else {
            return Ok(Err(Error::new(hapax_core::Kind::Corrupt, "changing jobs")));
        };
        let seen = async {
            let now = self.read_time(clock)?;
            let rows = jobs;
            let (jobs, ops) = self.opened(tenant, rows, ops).await?;
            let stood = rows.iter().zip(&jobs);
            let stood = stood.map(|(row, job)| rows::stood(row, job));
            let stood = stood.collect::<Result<_, _>>()?;
            Ok(Bench::new(jobs, stood, ops, now))
        };
        Ok(seen.await)
    }
}

fn job_id(act: &Act) -> Option<&str> {
    match &act.on {
        On::Job(id) => Some(id.as_str()),
        On::Op(_) => None,
    }
}

fn on_op(act: &Act) -> Option<&str> {
    match &act.on {
        On::Op(key) => Some(key.as_str()),
        On::Job(_) => None,
    }
}
