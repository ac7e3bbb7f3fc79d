//! Planning: what is new is inserted, in the order asked; what is there is read.

use std::collections::{HashMap, HashSet};

use hapax_core::job::{Job, NewJob, Planned};
use hapax_core::{Error, Kind, Tenant, Time};

use super::super::PgLedger;
use super::super::columns::get;
use super::link::{Failure, Link, Order, Tries};
use super::rows::{Plans, Sealer};
use super::{BEGIN, SET_TENANT};

const PLAN: &str = include_str!("../../../sql/postgres/job_plan.sql");
const BY_KEY: &str = include_str!("../../../sql/postgres/job_by_key.sql");

const OPERATION: &str = "planning jobs";

/// What is stored under the keys, and which of them are new.
type Stored = (HashMap<String, Job>, HashSet<String>);

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
        let plans = Plans::of(&once, Sealer { ring, tenant }, self.shift_ms())?;
        let mut tries = Tries::default();
        let (stored, mut new) = loop {
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
        let answers = asked.into_iter().map(|job| {
            let found = stored.get(&job.key).cloned();
            let missing =
                || Error::new(Kind::Corrupt, OPERATION).because("a planned job is missing");
            let planned = new.remove(&job.key);
            let job = found.ok_or_else(missing)?;
            Ok(Planned { job, planned })
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
            Order::Query(BY_KEY, vec![&id, plans.keys()]),
        ];
        let answers = link.look(orders).await?;
        let read = async {
            let [_, _, new, jobs] = &answers[..] else {
                return Err(Error::new(Kind::Corrupt, OPERATION));
            };
            let new: HashSet<String> = new
                .iter()
                .map(|row| get(row, 0))
                .collect::<Result<_, _>>()?;
            let (jobs, _) = self.opened(tenant, jobs, &[]).await?;
            let jobs = jobs.into_iter().map(|job| (job.key.clone(), job));
            Ok((jobs.collect(), new))
        };
        let stored: Stored = match read.await {
            Ok(stored) => stored,
            Err(error) => return Err(link.give_up(error).await),
        };
        let mut orders = Vec::new();
        let is_new = !stored.1.is_empty();
        if is_new {
            self.notifying(&mut orders);
        }
        link.finish(orders, is_new).await?;
        Ok(stored)
    }
}
