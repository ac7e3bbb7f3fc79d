//! Database and disk compared both ways, and healed: leases that ran out, operations whose runner is dead, parts that
//! nobody can continue, results whose content is gone, content that nobody knows.
//!
//! Each rule may run at any time, beside workers, and again. A dry run changes nothing and counts the same.

mod disk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::{Act, Deed, Done, Fence, On, OpState, Place, Queue, Stale};
use hapax_core::{Error, Tenant};
use serde::{Deserialize, Serialize};

use crate::download::Folder;

/// How many leases and operations are looked at in one go.
const PAGE: usize = 500;
/// How many a dry run looks at: it cannot ask for the next ones, as it leaves the first as they are.
const DRY_PAGE: usize = 100_000;

/// How to reconcile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Change nothing, only count.
    pub dry_run: bool,
    /// Leave the results alone if there is no object at all: a disk that is not mounted looks like that.
    pub careful: bool,
    /// How old a part must be before it is removed.
    pub part_age: Duration,
    /// How old an object must be before it counts as an orphan.
    pub orphan_age: Duration,
    /// The place of the jobs whose files are in the folder.
    pub place: Place,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dry_run: false,
            careful: false,
            part_age: Duration::from_secs(3600),
            orphan_age: Duration::from_secs(3600),
            place: Place::default(),
        }
    }
}

/// What was found and, unless it was a dry run, done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reconciled {
    /// Leases that ran out and are taken back.
    pub leases_expired: u64,
    /// Operations whose runner is dead.
    pub ops_in_doubt: u64,
    /// Parts that no job can continue, removed.
    pub parts_deleted: u64,
    /// Results whose content was gone: named again, or planned anew.
    pub healed: u64,
    /// Objects that no job knows. They are left where they are.
    pub orphans: u64,
    /// Whether nothing was changed.
    pub dry_run: bool,
}

/// Reconciles what a tenant has: its jobs and, if there is one, the folder they download into.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::job::{Queue, testing::MemoryQueue};
/// use hapax_core::Tenant;
/// use hapax_effects::download::Folder;
/// use hapax_effects::reconcile::{Options, Reconciled, reconcile};
///
/// let place = tempfile::tempdir()?;
/// let folder = Folder::open(place.path())?;
/// std::fs::create_dir(place.path().join("objects/ab"))?;
/// let queue: std::sync::Arc<dyn Queue> = std::sync::Arc::new(MemoryQueue::new());
///
/// let found = reconcile(&queue, Tenant::DEFAULT, Some(&folder), &Options::default()).await?;
/// assert_eq!(found, Reconciled::default(), "nothing is wrong");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of the queue, and [`hapax_core::Kind::Unavailable`] when the folder cannot be read or written. What was done
/// until then stays done.
pub async fn reconcile(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    folder: Option<&Folder>,
    options: &Options,
) -> Result<Reconciled, Error> {
    let jobs = reconcile_jobs(queue.as_ref(), Some(tenant), options.dry_run).await?;
    let jobs = jobs.get(&tenant).copied().unwrap_or_default();
    let files = match folder {
        Some(folder) => reconcile_files(queue, tenant, folder, options).await?,
        None => Reconciled::default(),
    };
    Ok(Reconciled {
        leases_expired: jobs.leases_expired,
        ops_in_doubt: jobs.ops_in_doubt,
        dry_run: options.dry_run,
        ..files
    })
}

/// Compares the files of a tenant's folder with its jobs, both ways.
///
/// # Errors
/// Those of the queue, and [`hapax_core::Kind::Unavailable`] when the folder cannot be read or written.
pub async fn reconcile_files(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    folder: &Folder,
    options: &Options,
) -> Result<Reconciled, Error> {
    let mut found = Reconciled {
        dry_run: options.dry_run,
        ..Reconciled::default()
    };
    disk::reconcile(queue, tenant, folder, options, &mut found).await?;
    if !options.dry_run {
        metrics::counter!("hapax_reconcile_parts_deleted_total").increment(found.parts_deleted);
        metrics::counter!("hapax_reconcile_healed_total").increment(found.healed);
    }
    Ok(found)
}

/// Takes back leases that ran out and marks operations whose runner is dead, of one tenant or of all. Answers what
/// was found of each tenant that has any.
///
/// # Errors
/// Those of the queue. What was done until then stays done.
pub async fn reconcile_jobs(
    queue: &dyn Queue,
    tenant: Option<Tenant>,
    dry_run: bool,
) -> Result<BTreeMap<Tenant, Reconciled>, Error> {
    let mut found: BTreeMap<Tenant, Reconciled> = BTreeMap::new();
    if dry_run {
        let Stale { leases, ops } = queue.stale(tenant, DRY_PAGE).await?;
        for (tenant, _, _) in leases {
            found.entry(tenant).or_default().leases_expired += 1;
        }
        for (tenant, _) in ops {
            found.entry(tenant).or_default().ops_in_doubt += 1;
        }
        for found in found.values_mut() {
            found.dry_run = true;
        }
        return Ok(found);
    }
    loop {
        let mut changed = 0;
        for (tenant, acts) in by_tenant(queue.stale(tenant, PAGE).await?) {
            let (leases, ops) = step(queue, tenant, acts).await?;
            changed += leases + ops;
            if leases + ops > 0 {
                let found = found.entry(tenant).or_default();
                found.leases_expired += leases;
                found.ops_in_doubt += ops;
            }
        }
        // If nothing of a whole page could be changed, the next page would be the same.
        if changed == 0 {
            return Ok(found);
        }
    }
}

/// What is to be done, tenant by tenant. Operations come before leases: ending a lease is news to their runner.
fn by_tenant(stale: Stale) -> BTreeMap<Tenant, Vec<Act>> {
    let mut acts: BTreeMap<Tenant, Vec<Act>> = BTreeMap::new();
    for (tenant, key) in stale.ops {
        acts.entry(tenant).or_default().push(Act {
            on: On::Op(key),
            fence: Fence::none(),
            deed: Deed::Doubt,
        });
    }
    for (tenant, id, epoch) in stale.leases {
        acts.entry(tenant).or_default().push(Act {
            on: On::Job(id),
            fence: Fence {
                owner: None,
                epoch: Some(epoch),
                ..Fence::none()
            },
            deed: Deed::Expire,
        });
    }
    acts
}

/// Does it, and counts what came of it: somebody may have been quicker.
async fn step(queue: &dyn Queue, tenant: Tenant, acts: Vec<Act>) -> Result<(u64, u64), Error> {
    let (mut leases, mut ops) = (0, 0);
    for done in queue.apply(tenant, acts).await? {
        match done {
            Ok(Done::Job(job)) => leases += u64::from(job.lease.is_none()),
            Ok(Done::Op(op, _)) => ops += u64::from(op.state == OpState::InDoubt),
            // A job that is gone needs nothing; beginning was not asked.
            Ok(Done::Begun(..)) | Err(_) => {}
        }
    }
    Ok((leases, ops))
}

/// Does one thing; `None` when it was refused, as somebody was faster.
async fn act(
    queue: &Arc<dyn Queue>,
    tenant: Tenant,
    on: On,
    fence: Fence,
    deed: Deed,
) -> Result<Option<Done>, Error> {
    let answers = queue.apply(tenant, vec![Act { on, fence, deed }]).await?;
    Ok(answers.into_iter().next().and_then(Result::ok))
}
