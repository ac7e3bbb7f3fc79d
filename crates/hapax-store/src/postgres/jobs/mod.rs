//! The queue of jobs in PostgreSQL. It locks, asks the rule, and writes what it is told, in two flights.
//!
//! Where to read on: `acts` is the heart, `gather` is before it, `leases` and `plans` are beside it, `moves` is
//! what goes along with every write, `link` says what a failure means.

mod acts;
mod bell;
mod gather;
mod leases;
pub(super) mod link;
mod lists;
mod moves;
mod plans;
mod rows;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hapax_core::job::queue::{ACTS_MAX, PLANS_MAX};
use hapax_core::job::{
    Act, Ask, Done, Job, JobId, JobKind, JobPage, JobScan, NewJob, Op, OpKey, Place, Planned,
    Queue, Ready, Refusal, Stale, Tally,
};
use hapax_core::{Answer, Error, Kind, Ledger, Tenant, Time};
use tokio_postgres::Row;

use super::PgLedger;
use super::columns::get;
use super::target::Target;
use crate::vault::Ring;
use gather::Desk;
use link::{Order, Pool};
pub(super) use rows::Sealer;

pub(super) use bell::Bell;

const SET_TENANT: &str = include_str!("../../../sql/postgres/set_tenant.sql");
const CLOCK: &str = include_str!("../../../sql/postgres/clock.sql");
const NOTIFY: &str = include_str!("../../../sql/postgres/job_notify.sql");
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// What the queue has of its own.
pub(super) struct Jobs {
    pub(super) pool: Pool,
    bell: Bell,
    desk: Desk,
}

impl Jobs {
    /// A queue that connects when it is used.
    pub(super) fn new(target: Target, links: usize, commit_timeout: Duration) -> Self {
        Self {
            pool: Pool::new(target, links, commit_timeout),
            bell: Bell::default(),
            desk: Desk::default(),
        }
    }

    /// The bell that the listener rings.
    pub(super) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

impl PgLedger {
    /// How far tests have moved the clock.
    pub(super) fn shift_ms(&self) -> i64 {
        self.clock.shifted(Time::from_ms(0)).as_ms()
    }

    /// The time in the only row of `clock.sql`.
    fn read_time(&self, rows: &[Row]) -> Result<Time, Error> {
        let row = rows.first();
        let row = row.ok_or_else(|| Error::new(Kind::Unavailable, "reading the clock"))?;
        Ok(self.clock.shifted(get::<SystemTime>(row, 0)?.into()))
    }

    /// The keys to seal a tenant's texts with; none without a vault.
    pub(super) async fn ring_of(&self, tenant: Tenant) -> Result<Option<Arc<Ring>>, Error> {
        if self.vault.is_none() {
            return Ok(None);
        }
        let rings = self.sealing(std::iter::once(tenant)).await?;
        Ok(rings.into_one(tenant.as_uuid()))
    }

    /// The jobs and operations in these rows, opened.
    async fn opened(
        &self,
        tenant: Tenant,
        jobs: &[Row],
        ops: &[Row],
    ) -> Result<(Vec<Job>, Vec<Op>), Error> {
        let jobs: Vec<Job> = jobs.iter().map(rows::job).collect::<Result<_, _>>()?;
        let ops: Vec<Op> = ops.iter().map(rows::op).collect::<Result<_, _>>()?;
        let wanted = rows::wanted(jobs.iter(), ops.iter());
        let ring = self.ring_with(tenant, &wanted).await?;
        let ring = ring.as_deref();
        let sealer = Sealer { ring, tenant };
        let jobs = jobs.into_iter().map(|job| sealer.open_job(job));
        let ops = ops.into_iter().map(|op| sealer.open_op(op));
        Ok((
            jobs.collect::<Result<_, _>>()?,
            ops.collect::<Result<_, _>>()?,
        ))
    }

    /// Tells other nodes with the commit, unless they are not to be told.
    fn notifying(&self, orders: &mut Vec<Order<'_>>) {
        if self.listener.is_some() {
            orders.push(Order::Query(NOTIFY, Vec::new()));
        }
    }
}

impl Queue for PgLedger {
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>> {
        Box::pin(async move {
            bounded("planning jobs", jobs.len(), PLANS_MAX)?;
            self.plan_jobs(tenant, jobs).await
        })
    }

    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>> {
        Box::pin(async move {
            let kinds = ask.kinds.as_ref().map_or(0, Vec::len);
            bounded("leasing jobs", kinds, Ask::KINDS_MAX)?;
            self.lease_jobs(tenant, &ask).await
        })
    }

    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>> {
        Box::pin(async move {
            bounded("changing jobs", acts.len(), ACTS_MAX)?;
            self.apply_gathered(tenant, acts).await
        })
    }

    fn named(&self, tenant: Tenant, names: Vec<JobId>) -> Answer<'_, Vec<JobId>> {
        Box::pin(async move {
            bounded("finding jobs by name", names.len(), ACTS_MAX)?;
            self.find_named(tenant, names).await
        })
    }

    fn job(&self, tenant: Tenant, id: JobId) -> Answer<'_, Option<(Job, Vec<Op>)>> {
        Box::pin(self.find_job(tenant, id))
    }

    fn ops_of(&self, tenant: Tenant, jobs: Vec<(JobId, i64)>) -> Answer<'_, Vec<Vec<Op>>> {
        Box::pin(self.find_ops_of(tenant, jobs))
    }

    fn op(&self, tenant: Tenant, key: OpKey) -> Answer<'_, Option<Op>> {
        Box::pin(self.find_op(tenant, key))
    }

    fn jobs(&self, scan: JobScan) -> Answer<'_, JobPage> {
        Box::pin(self.list_jobs(scan))
    }

    fn doubtful_ops(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        Box::pin(self.count_doubtful_ops(tenant, at_most))
    }

    fn tally(&self, tenant: Tenant, at_most: u64) -> Answer<'_, Vec<Tally>> {
        Box::pin(self.tally_jobs(tenant, at_most))
    }

    fn due(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Answer<'_, Vec<Tenant>> {
        Box::pin(self.due_tenants(kinds, place, limit))
    }

    fn stale(&self, tenant: Option<Tenant>, limit: usize) -> Answer<'_, Stale> {
        Box::pin(self.stale_work(tenant, limit))
    }

    fn on_ready(&self, ready: Ready) {
        self.jobs.bell.add(ready);
        if let Some(listener) = &self.listener {
            listener.start();
        }
    }

    fn time(&self) -> Time {
        self.now()
    }
}

fn bounded(operation: &'static str, count: usize, count_max: usize) -> Result<(), Error> {
    if count <= count_max {
        return Ok(());
    }
    let why = format!("{count} at once are too many; at most {count_max} are allowed");
    Err(Error::new(Kind::Limit, operation).because(why))
}
