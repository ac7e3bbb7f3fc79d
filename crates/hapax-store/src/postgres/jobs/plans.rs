//! Planning: what is new is inserted, in the order asked; what is there is read.

use std::collections::{HashMap, HashSet};

use hapax_core::job::{Job, NewJob, Planned};
use hapax_core::{Error, Kind, Tenant, Time};
use tokio_postgres::Row;

use super::super::PgLedger;
use super::super::columns::get;
use super::link::{Failure, Link, Order, Tries};
use super::rows::{Plans, Sealer};
use super::{BEGIN, SET_TENANT};

const PLAN: &str = include_str!("../../../sql/postgres/job_plan.sql");
const BY_KEY: &str = include_str!("../../../sql/postgres/job_by_key.sql");

const OPERATION: &str = "planning jobs";

/// What was stored under the keys before, and the number and time of each that is new.
type Stored = (HashMap<String, Job>, HashMap<String, (i64, Time)>);

impl PgLedger {
    pub(super) async fn plan_jobs(
        &self,
        tenant: Tenant,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Planned>, Error> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let ring = self.ring_of(tenant).await?;
        let ring = ring.as_deref();
        // Number and time are the database's.
        let asked = jobs
            .into_iter()
            .map(|job| job.at(tenant, 0, Time::from_ms(0)));
        let asked: Vec<Job> = asked.collect();
        let mut seen = HashSet::new();
        let once: Vec<&Job> = asked.iter().filter(|job| seen.insert(&job.key)).collect();
        let has_doubles = once.len() < asked.len();
        let plans = Plans::of(&once, Sealer { ring, tenant }, self.shift_ms())?;
        let mut tries = Tries::default();
        let (mut stored, mut new) = loop {
            let mut lent = self.jobs.pool.lend(OPERATION).await?;
            match self.plan_on(&mut lent.link, tenant, &plans).await {
                Ok(stored) => {
                    lent.back();
                    break stored;
                }
                Err(failure) => tries.after(failure, lent).await?,
            }
        };
        if !new.is_empty() {
            self.jobs.bell.ring();
        }
        let answers = asked.into_iter().map(|mut job| {
            let Some((seq, at)) = new.remove(&job.key) else {
                let missing =
                    || Error::new(Kind::Corrupt, OPERATION).because("a planned job is missing");
                let job = stored.get(&job.key).cloned().ok_or_else(missing)?;
                return Ok(Planned {
                    job,
                    planned: false,
                });
            };
            job.seq = seq;
            (job.created_at, job.updated_at, job.available_at) = (at, at, at);
            if has_doubles {
                stored.insert(job.key.clone(), job.clone());
            }
            Ok(Planned { job, planned: true })
        });
        answers.collect()
    }

    async fn plan_on(
        &self,
        link: &mut Link,
        tenant: Tenant,
        plans: &Plans<'_>,
    ) -> Result<Stored, Failure> {
        let id = tenant.as_uuid();
        let orders = vec![
            Order::Command(BEGIN),
            Order::Query(SET_TENANT, vec![&id]),
            Order::Query(PLAN, plans.params()),
        ];
        let answers = link.look(orders).await?;
        let rows = answers.last().map_or(&[][..], Vec::as_slice);
        let new: HashMap<String, (i64, Time)> = match rows.iter().map(numbered).collect() {
            Ok(new) => new,
            Err(error) => return Err(link.give_up(error).await),
        };
        let mut stored = HashMap::new();
        if new.len() < plans.keys().len() {
            let old = plans.keys().iter().copied();
            let old: Vec<&str> = old.filter(|key| !new.contains_key(*key)).collect();
            let answers = link
                .look(vec![Order::Query(BY_KEY, vec![&id, &old])])
                .await?;
            let rows = answers.last().map_or(&[][..], Vec::as_slice);
            match self.opened(tenant, rows, &[]).await {
                Ok((jobs, _)) => {
                    stored.extend(jobs.into_iter().map(|job| (job.key.clone(), job)));
                }
                Err(error) => return Err(link.give_up(error).await),
            }
        }
        let mut orders = Vec::new();
        let is_new = !new.is_empty();
        if is_new {
            self.notifying(&mut orders);
        }
        link.finish(orders, is_new).await?;
        Ok((stored, new))
    }
}

/// A row of `job_plan.sql`.
fn numbered(row: &Row) -> Result<(String, (i64, Time)), Error> {
    Ok((get(row, 0)?, (get(row, 1)?, Time::from_ms(get(row, 2)?))))
}
