//! The queue of jobs in the same file: the seam on top of the ledger's one writer and its readers.
//! It decides nothing: it loads, asks the rule, and writes what it is told, in one transaction.
//!
//! Where to read on: `rows` reads and writes single rows, `lease` finds what is due, `acts` asks the rule,
//! `lists` answers the rest, and `import` takes over what an older program left.

mod acts;
mod bell;
pub(super) mod import;
pub(super) mod keys;
mod lease;
mod lists;
#[cfg(test)]
mod plans;
mod rows;

use hapax_core::job::queue::{ACTS_MAX, PLANS_MAX};
use hapax_core::job::{
    Act, Ask, Deed, Done, Job, JobId, JobKind, JobPage, JobScan, NewJob, Op, OpKey, Place, Planned,
    Queue, Ready, Refusal, Resolution, Stale, Tally,
};
use hapax_core::{Answer, Error, Kind, Tenant, Time};

pub(super) use bell::Bell;

use super::SqliteLedger;
use super::ledger::aside;
use super::queue::Effect;
use keys::Keys;
use rows::Fresh;

/// An answer ends early once it holds this much of payloads and results.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// What a job or an act weighs beside its texts, roughly.
const OVERHEAD_BYTES: usize = 512;

impl Queue for SqliteLedger {
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>> {
        Box::pin(async move {
            at_most("planning jobs", "jobs", jobs.len(), PLANS_MAX)?;
            if jobs.is_empty() {
                return Ok(Vec::new());
            }
            let (count, now) = (jobs.len(), self.clock.now());
            let keys = self.keys(tenant).await?;
            let weight = jobs.len() * OVERHEAD_BYTES;
            let fresh: Vec<Fresh> = aside(weight, {
                let keys = keys.clone();
                move || {
                    let fresh = |job: NewJob| Fresh::of(job.at(tenant, 0, now), &keys);
                    jobs.into_iter().map(fresh).collect::<Result<_, _>>()
                }
            })
            .await??;
            let bytes = fresh.iter().map(Fresh::bytes).sum::<usize>() + weight;
            let planned = self
                .write(count, bytes, move |connection| {
                    let plan = |one: &Fresh| rows::plan(connection, &keys, one);
                    let planned: Vec<Planned> = fresh.iter().map(plan).collect::<Result<_, _>>()?;
                    let wrote = planned.iter().any(|one| one.planned);
                    Ok((planned, Effect { wrote, purged: 0 }))
                })
                .await?;
            if planned.iter().any(|one| one.planned) {
                self.bell.ring();
            }
            Ok(planned)
        })
    }

    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>> {
        Box::pin(async move {
            let kinds = ask.kinds.as_ref().map_or(0, Vec::len);
            at_most("leasing jobs", "kinds", kinds, Ask::KINDS_MAX)?;
            if ask.limit == 0 {
                return Ok(Vec::new());
            }
            let keys = self.keys(tenant).await?;
            let (clock, moves) = (self.clock.clone(), ask.limit.min(Ask::LIMIT_MAX));
            self.write(moves, OVERHEAD_BYTES, move |connection| {
                lease::lease(connection, &keys, tenant, &ask, clock.now())
            })
            .await
        })
    }

    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>> {
        Box::pin(async move {
            at_most("acting on jobs", "acts", acts.len(), ACTS_MAX)?;
            if acts.is_empty() {
                return Ok(Vec::new());
            }
            let keys = self.keys(tenant).await?;
            let (clock, moves) = (self.clock.clone(), acts.len());
            let bytes = acts.iter().map(weight).sum();
            let applied = self
                .write(moves, bytes, move |connection| {
                    acts::apply_all(connection, &keys, &acts, clock.now())
                })
                .await?;
            if applied.is_ready {
                self.bell.ring();
            }
            Ok(applied.answers)
        })
    }

    fn named(&self, tenant: Tenant, names: Vec<JobId>) -> Answer<'_, Vec<JobId>> {
        Box::pin(async move {
            at_most("finding jobs by name", "names", names.len(), ACTS_MAX)?;
            self.read(move |connection| {
                names
                    .iter()
                    .map(|name| rows::named(connection, tenant, name))
                    .collect()
            })
            .await
        })
    }

    fn job(&self, tenant: Tenant, id: JobId) -> Answer<'_, Option<(Job, Vec<Op>)>> {
        let vault = self.vault.clone();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let keys = Keys::reading(&seen, vault.clone(), tenant)?;
            let Some(job) = rows::find(&seen, &keys, &id)? else {
                return Ok(None);
            };
            let ops = rows::ops(&seen, &keys, job.seq)?;
            Ok(Some((job, ops)))
        }))
    }

    fn ops_of(&self, tenant: Tenant, jobs: Vec<(JobId, i64)>) -> Answer<'_, Vec<Vec<Op>>> {
        let vault = self.vault.clone();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let keys = Keys::reading(&seen, vault.clone(), tenant)?;
            let jobs = jobs.iter().take(JobScan::LIMIT_MAX);
            jobs.map(|(_, seq)| rows::ops(&seen, &keys, *seq)).collect()
        }))
    }

    fn op(&self, tenant: Tenant, key: OpKey) -> Answer<'_, Option<Op>> {
        let vault = self.vault.clone();
        Box::pin(self.read(move |connection| {
            let keys = Keys::reading(connection, vault.clone(), tenant)?;
            let found = rows::find_op(connection, &keys, &key)?;
            Ok(found.map(|(op, _)| op))
        }))
    }

    fn jobs(&self, scan: JobScan) -> Answer<'_, JobPage> {
        let (vault, now) = (self.vault.clone(), self.clock.now());
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let keys = Keys::reading(&seen, vault.clone(), scan.tenant)?;
            lists::page(&seen, &keys, &scan, now)
        }))
    }

    fn doubtful_ops(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        Box::pin(self.read(move |connection| lists::doubtful(connection, tenant, at_most)))
    }

    fn tally(&self, tenant: Tenant, at_most: u64) -> Answer<'_, Vec<Tally>> {
        let now = self.clock.now();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            lists::tally(&seen, tenant, at_most, now)
        }))
    }

    fn due(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Answer<'_, Vec<Tenant>> {
        let now = self.clock.now();
        Box::pin(
            self.read(move |connection| {
                lists::due(connection, kinds.as_deref(), &place, limit, now)
            }),
        )
    }

    fn stale(&self, tenant: Option<Tenant>, limit: usize) -> Answer<'_, Stale> {
        let now = self.clock.now();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            lists::stale(&seen, tenant, limit, now)
        }))
    }

    fn on_ready(&self, ready: Ready) {
        self.bell.add(ready);
    }

    fn time(&self) -> Time {
        self.clock.now()
    }
}

impl SqliteLedger {
    /// The keys to write and read the tenant's texts with.
    pub(super) async fn keys(&self, tenant: Tenant) -> Result<Keys, Error> {
        let rings = self.sealing(std::iter::once(tenant)).await?;
        Ok(Keys::writing(self.vault.clone(), rings, tenant))
    }
}

fn at_most(operation: &'static str, what: &str, count: usize, most: usize) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    let why = format!("{count} {what} in one call; at most {most} are taken");
    Err(Error::new(Kind::Limit, operation).because(why))
}

/// How much memory an act holds, roughly.
fn weight(act: &Act) -> usize {
    let length = |text: &Option<std::sync::Arc<str>>| text.as_ref().map_or(0, |text| text.len());
    let texts = match &act.deed {
        Deed::Advance { result, .. } => length(result),
        Deed::Fail { error, .. } => length(error),
        Deed::Complete { result, .. } => result.len(),
        Deed::FailOp { error, .. } => error.len(),
        Deed::Wait { asks, .. } => asks.len(),
        Deed::Resolve(Resolution::Result(text) | Resolution::Error(text)) => text.len(),
        Deed::Renew { .. }
        | Deed::Release
        | Deed::Retry
        | Deed::Redo { .. }
        | Deed::Expire
        | Deed::Begin { .. }
        | Deed::Resolve(Resolution::Retry)
        | Deed::Doubt => 0,
    };
    OVERHEAD_BYTES + texts
}
