//! Ours: the queue of a store, in batches as a busy program uses it, and through the worker.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use hapax::core::{Ledger, Tenant};
use hapax::job::{Act, Ask, Deed, Fence, Held, Job, JobKind, NewJob, On, Queue, State, Worker};
use hapax_store::postgres::{PgLedger, PgOptions};
use hapax_store::sqlite::{SqliteLedger, SqliteOptions};
use tokio::sync::Notify;

use crate::database::Server;

/// How many jobs one call leases and settles, or plans.
const LEASED: usize = 500;
const PLANNED: usize = 1000;
/// How many leases are under way at a time, so that one is written while another is found.
const HANDS: usize = 2;
/// The longest that a drain may take.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub(crate) struct Store {
    queue: Arc<dyn Queue>,
    ledger: Arc<dyn Ledger>,
}

/// Whose jobs the worker drains. The batches drain those of the default tenant.
pub(crate) fn other_tenant() -> Tenant {
    Tenant::from_uuid(uuid::Uuid::from_u128(7))
}

impl Store {
    pub(crate) async fn postgres(server: &Server, database: &str) -> Result<Self> {
        let url = server.url(database)?;
        let ledger = Arc::new(PgLedger::open(&url, PgOptions::default()).await?);
        let queue: Arc<dyn Queue> = ledger.clone();
        Ok(Self { queue, ledger })
    }

    pub(crate) fn sqlite(path: &Path) -> Result<Self> {
        let ledger = Arc::new(SqliteLedger::open(path, SqliteOptions::default())?);
        let queue: Arc<dyn Queue> = ledger.clone();
        Ok(Self { queue, ledger })
    }

    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.ledger.close().await?)
    }

    /// Plans jobs with keys of their own.
    pub(crate) async fn plan(&self, tenant: Tenant, count: usize) -> Result<()> {
        let kind = JobKind::new("nothing")?;
        for from in (0..count).step_by(PLANNED) {
            let job = |number: usize| {
                let url = format!("https://example.org/{number}");
                NewJob::new(kind.clone(), "w", &format!("a-{number}"), &url)
            };
            let numbers = from..count.min(from + PLANNED);
            let jobs = numbers.map(job).collect::<Result<Vec<_>, _>>()?;
            let planned = self.queue.plan(tenant, jobs).await?;
            anyhow::ensure!(planned.iter().all(|one| one.planned), "a key was not new");
        }
        Ok(())
    }

    /// Leases and settles many at a time, two hands taking turns.
    pub(crate) async fn drain_in_batches(&self, count: usize) -> Result<()> {
        let done = Arc::new(AtomicUsize::new(0));
        let hands = (0..HANDS).map(|hand| {
            let (queue, done) = (self.queue.clone(), done.clone());
            tokio::spawn(async move {
                let ask = Ask {
                    limit: LEASED,
                    kinds: Some(vec![JobKind::new("nothing")?]),
                    ..Ask::by(&format!("hand-{hand}"))
                };
                loop {
                    let jobs = queue.lease(Tenant::DEFAULT, ask.clone()).await?;
                    if jobs.is_empty() {
                        return anyhow::Ok(());
                    }
                    let acts = jobs.iter().flat_map(ending).collect();
                    for answer in queue.apply(Tenant::DEFAULT, acts).await? {
                        answer.context("a step of a job that is held was refused")?;
                    }
                    done.fetch_add(jobs.len(), Ordering::Relaxed);
                }
            })
        });
        for hand in hands.collect::<Vec<_>>() {
            hand.await??;
        }
        let done = done.load(Ordering::Relaxed);
        anyhow::ensure!(done == count, "{done} of {count} jobs were drained");
        Ok(())
    }

    /// Runs a worker until it has ended all jobs.
    pub(crate) async fn drain_by_worker(&self, count: usize, workers: usize) -> Result<()> {
        let (left, ended) = (Arc::new(AtomicUsize::new(count)), Arc::new(Notify::new()));
        let tell = ended.clone();
        let handler = move |held: Held| {
            let (left, tell) = (left.clone(), tell.clone());
            async move {
                let steps = async {
                    held.advance(State::Finalized, None).await?;
                    held.advance(State::Indexed, None).await
                };
                if let Err(error) = steps.await {
                    eprintln!("a job was not ended: {error}");
                }
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    tell.notify_one();
                }
            }
        };
        let worker = Worker::new(self.queue.clone())
            .handler(JobKind::new("nothing")?, handler)
            .concurrency(workers);
        let run = worker.run(ended.notified(), Duration::from_secs(10));
        tokio::time::timeout(PATIENCE, run)
            .await
            .context("the worker did not end in time")?;
        let states = self.queue.tally(other_tenant(), u64::MAX >> 1).await?;
        let indexed = states.iter().find(|tally| tally.state == State::Indexed);
        let indexed = indexed.map_or(0, |tally| tally.count);
        anyhow::ensure!(
            indexed == count as u64,
            "{indexed} of {count} jobs were ended"
        );
        Ok(())
    }
}

/// The two steps of a leased job to its end.
fn ending(job: &Job) -> [Act; 2] {
    let owner = job.lease.as_ref().map(|hold| hold.owner.clone());
    let fence = Fence::of(owner.as_deref().unwrap_or_default(), job.epoch);
    [State::Finalized, State::Indexed].map(|to| Act {
        on: On::Job(job.id.clone()),
        fence: fence.clone(),
        deed: Deed::Advance {
            to,
            allowed_from: None,
            result: None,
        },
    })
}
