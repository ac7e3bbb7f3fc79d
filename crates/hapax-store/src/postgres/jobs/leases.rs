//! Leasing: what is due of the asked kinds is locked, given to its new holder as the rule says, and written.

use std::time::Duration;

use hapax_core::job::{Ask, Job, JobKind, Taken, take};
use hapax_core::{Error, Kind, Tenant, Time};
use tokio_postgres::Row;

use super::super::PgLedger;
use super::super::columns::get;
use super::acts::WRITE;
use super::link::{Failure, Link, Order, Tries};
use super::moves::{Moves, Stood};
use super::rows::{self, JobColumns, Sealer};
use super::{BEGIN, CLOCK, SET_TENANT};
use crate::vault::Ring;

const KINDS: &str = include_str!("../../../sql/postgres/job_kinds.sql");
const RESTED: &str = include_str!("../../../sql/postgres/job_rested.sql");
const TAKE: &str = include_str!("../../../sql/postgres/job_take.sql");
const IS_READY: &str = include_str!("../../../sql/postgres/job_is_ready.sql");

const OPERATION: &str = "leasing jobs";
/// How many jobs of a kind whose rest is over one lease marks as ready. The next ones mark the others.
const RESTED_MAX: i64 = 500;
/// How many more jobs are looked at once some had to be given up.
const MORE: usize = 256;
/// How often it is looked again: after jobs that had to be given up, or while others hold everything.
const ROUNDS: u64 = 64;
const BUSY_ROUNDS: u64 = 6;

/// How many jobs are wanted, and how many more are looked at.
#[derive(Clone, Copy)]
struct Reach {
    wanted: usize,
    more: usize,
}

/// What is due and where it stands, whether anything is ready at all, and the time.
type Seen = (Vec<(Job, Stood)>, bool, Time);

/// What one transaction found.
struct Round {
    leased: Vec<Job>,
    /// Some jobs were given up instead.
    buried: bool,
    /// Something is there, and others are taking it.
    busy: bool,
}

impl PgLedger {
    pub(super) async fn lease_jobs(&self, tenant: Tenant, ask: &Ask) -> Result<Vec<Job>, Error> {
        let limit = ask.limit.min(Ask::LIMIT_MAX);
        let mut leased: Vec<Job> = Vec::new();
        let (mut more, mut busy) = (0, 0);
        for _ in 0..ROUNDS {
            let wanted = limit - leased.len();
            if wanted == 0 {
                break;
            }
            let round = match self.round(tenant, ask, Reach { wanted, more }).await {
                Ok(round) => round,
                // What is leased is told; the rest is for the next call.
                Err(error) if !leased.is_empty() => {
                    tracing::debug!("only some jobs were leased: {error}");
                    break;
                }
                Err(error) => return Err(error),
            };
            leased.extend(round.leased);
            more = MORE;
            if round.busy && leased.is_empty() && busy < BUSY_ROUNDS {
                busy += 1;
                tokio::time::sleep(Duration::from_millis(2 * busy)).await;
            } else if !round.buried {
                break;
            }
        }
        Ok(leased)
    }

    async fn round(&self, tenant: Tenant, ask: &Ask, reach: Reach) -> Result<Round, Error> {
        let ring = self.ring_of(tenant).await?;
        let mut tries = Tries::default();
        loop {
            let mut lent = self.jobs.pool.lend(OPERATION).await?;
            let link = &mut lent.link;
            let round = self.lease_on(link, tenant, ask, reach, ring.as_deref());
            match round.await {
                Ok(round) => {
                    lent.back();
                    return Ok(round);
                }
                Err(failure) => tries.after(failure, lent).await?,
            }
        }
    }

    async fn lease_on(
        &self,
        link: &mut Link,
        tenant: Tenant,
        ask: &Ask,
        reach: Reach,
        ring: Option<&Ring>,
    ) -> Result<Round, Failure> {
        let seen = match self
            .see_due(link, tenant, ask, reach.wanted + reach.more)
            .await?
        {
            Ok(seen) => seen,
            Err(error) => return Err(link.give_up(error).await),
        };
        let (jobs, is_ready, now) = seen;
        let busy = is_ready && jobs.is_empty();
        let (mut leased, mut dead) = (Vec::new(), Vec::new());
        let (mut of_leased, mut of_dead) = (Vec::new(), Vec::new());
        for (job, stood) in &jobs {
            if leased.len() == reach.wanted {
                break;
            }
            match take(job, &ask.owner, ask.ttl, now) {
                Taken::Leased(job) => {
                    leased.push(job);
                    of_leased.push(stood);
                }
                Taken::Dead(job) => {
                    dead.push(job);
                    of_dead.push(stood);
                }
            }
        }
        let changed: Vec<&Job> = leased.iter().chain(&dead).collect();
        let stood = of_leased.into_iter().chain(of_dead);
        let from_to: Vec<(&Job, &Stood)> = changed.iter().copied().zip(stood).collect();
        let mut moves = Moves::of(tenant, &from_to, now);
        let columns = match JobColumns::of(&changed, Sealer { ring, tenant }, now, &moves) {
            Ok(columns) => columns,
            Err(error) => return Err(link.give_up(error).await),
        };
        let (mut orders, place) = (Vec::new(), ask.place.as_str());
        if !changed.is_empty() {
            orders.push(Order::Query(WRITE, columns.params()));
            moves.orders_of_head(&place, &mut orders);
        }
        let writes = !orders.is_empty();
        link.finish(orders, writes).await?;
        Ok(Round {
            leased,
            buried: !dead.is_empty(),
            busy,
        })
    }

    /// What is due, locked, in its order; whether anything is ready at all; and the time.
    async fn see_due(
        &self,
        link: &mut Link,
        tenant: Tenant,
        ask: &Ask,
        limit: usize,
    ) -> Result<Result<Seen, Error>, Failure> {
        let (id, place, shift_ms) = (tenant.as_uuid(), ask.place.as_str(), self.shift_ms());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut orders = vec![Order::Command(BEGIN), Order::Query(SET_TENANT, vec![&id])];
        let kinds: Vec<String> = if let Some(kinds) = &ask.kinds {
            let mut kinds: Vec<&str> = kinds.iter().map(JobKind::as_str).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds.into_iter().map(str::to_owned).collect()
        } else {
            orders.push(Order::Query(KINDS, vec![&id, &place]));
            let answers = link.look(std::mem::take(&mut orders)).await?;
            let kinds = answers.last().map_or(&[][..], Vec::as_slice);
            match kinds.iter().map(|row| get(row, 0)).collect() {
                Ok(kinds) => kinds,
                Err(error) => return Ok(Err(error)),
            }
        };
        let before = orders.len();
        orders.extend([
            Order::Query(RESTED, vec![&id, &place, &kinds, &shift_ms, &RESTED_MAX]),
            Order::Query(TAKE, vec![&id, &place, &kinds, &shift_ms, &limit]),
            Order::Query(IS_READY, vec![&id, &place, &kinds]),
            Order::Query(CLOCK, Vec::new()),
        ]);
        let answers = link.look(orders).await?;
        let read = async {
            let [_, jobs, is_ready, clock] = &answers[before..] else {
                return Err(Error::new(Kind::Corrupt, OPERATION));
            };
            let now = self.read_time(clock)?;
            let is_ready = is_ready.first().map(|row: &Row| get(row, 0)).transpose()?;
            let rows = jobs;
            let (jobs, _) = self.opened(tenant, rows, &[]).await?;
            let stood = rows.iter().zip(jobs);
            let stood = stood.map(|(row, job)| rows::stood(row, &job).map(|stood| (job, stood)));
            let jobs = stood.collect::<Result<_, _>>()?;
            Ok((jobs, is_ready.unwrap_or(false), now))
        };
        Ok(read.await)
    }
}
