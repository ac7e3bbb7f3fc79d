//! The worker: leases jobs for all tenants in turn, hands each to the handler of its kind, and stops without losing one.

mod fair;
mod identity;
mod seats;
mod task;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::{Ask, Job, JobKind, Place, Queue};
use hapax_core::{Error, Kind, Tenant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::held::Held;
use super::pause::{Pause, spread};
use fair::Turns;
use seats::Seats;

pub use identity::{Identity, take_back_dead};

/// How often a worker looks by itself, for work that nobody told it of.
const POLL: Duration = Duration::from_secs(1);
/// The longest pause between two looks while the store is away.
const AWAY: Duration = Duration::from_secs(5);
/// How long one call to the queue may take.
const CALL: Duration = Duration::from_secs(10);
/// The most tenants of one look.
const TENANTS_MAX: usize = 1000;
/// How long cancelled handlers have to give their jobs back.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// The future of a handler.
pub type Handling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What runs the jobs of a kind. A closure that takes a [`Held`] is one.
///
/// It ends the job: by [`drive`](super::drive), or by [`Held::advance`], [`Held::fail`] or [`Held::release`]. A job
/// that it leaves as it is counts as a failed attempt, and so does a panic. Its future is dropped when the lease is
/// lost, and when the worker has to stop and its grace is over.
pub trait Handler: Send + Sync + 'static {
    /// Runs one job.
    fn run(&self, held: Held) -> Handling<'_>;
}

impl<F, Fut> Handler for F
where
    F: Fn(Held) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn run(&self, held: Held) -> Handling<'_> {
        Box::pin(self(held))
    }
}

/// Leases jobs and runs them, as many at a time as it may.
///
/// Tenants are served in turn, so that none of them starves another. A call of the queue wakes it, and a poll stands
/// behind that. While the store is away it tries again, ever more slowly, five seconds apart at most.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::core::Tenant;
/// use hapax::job::{Held, JobKind, NewJob, Queue, State, Worker, testing::MemoryQueue};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new());
/// let kind = JobKind::new("greet")?;
/// let jobs = ["good", "bad"].map(|work| NewJob::new(kind.clone(), work, "a-1", "https://example.org/"));
/// let planned = queue.plan(Tenant::DEFAULT, jobs.into_iter().collect::<Result<_, _>>()?).await?;
///
/// let done = Arc::new(tokio::sync::Semaphore::new(0));
/// let tell = done.clone();
/// let worker = Worker::new(queue.clone()).handler(kind, move |held: Held| {
///     let tell = tell.clone();
///     async move {
///         let ended = match held.job().work_id.as_str() {
///             "bad" => held.fail("not greeted", false, None).await,
///             _ => held.advance(State::SkippedDuplicate, None).await,
///         };
///         assert!(ended.is_ok());
///         tell.add_permits(1);
///     }
/// });
/// let both = async { drop(done.acquire_many(2).await) };
/// worker.run(both, Duration::from_secs(1)).await;
///
/// for (planned, state) in planned.into_iter().zip([State::SkippedDuplicate, State::Dead]) {
///     let (job, _) = queue.job(Tenant::DEFAULT, planned.job.id).await?.ok_or("planned above")?;
///     assert_eq!(job.state, state);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Worker {
    queue: Arc<dyn Queue>,
    owner: Arc<str>,
    handlers: BTreeMap<JobKind, Arc<dyn Handler>>,
    kinds: Option<Vec<JobKind>>,
    place: Place,
    concurrency: usize,
    per_tenant: usize,
    ttl: Duration,
    poll: Duration,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("owner", &self.owner)
            .field("kinds", &self.served())
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker of this queue with the name of this process: one job at a time, leased for two minutes.
    #[must_use]
    pub fn new(queue: Arc<dyn Queue>) -> Self {
        Self {
            queue,
            owner: Identity::this_process().name().into(),
            handlers: BTreeMap::new(),
            kinds: None,
            place: Place::default(),
            concurrency: 1,
            per_tenant: usize::MAX,
            ttl: Duration::from_secs(120),
            poll: POLL,
        }
    }

    /// The same, which hands jobs of `kind` to `handler`.
    #[must_use]
    pub fn handler(mut self, kind: JobKind, handler: impl Handler) -> Self {
        self.handlers.insert(kind, Arc::new(handler));
        self
    }

    /// The same, which leases only these of the kinds that it has handlers for.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = JobKind>) -> Self {
        self.kinds = Some(kinds.into_iter().collect());
        self
    }

    /// The same, which leases the jobs of one place.
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// The same, which runs this many jobs at a time, at least one.
    #[must_use]
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = jobs.max(1);
        self
    }

    /// The same, which runs at most this many jobs of one tenant at a time, at least one. Without it a tenant whose jobs
    /// take for ever has every place, and the others have none.
    #[must_use]
    pub fn per_tenant(mut self, jobs: usize) -> Self {
        self.per_tenant = jobs.max(1);
        self
    }

    /// The same, which leases a job for this long and renews it in time.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl.clamp(Job::LEASES.0, Job::LEASES.1);
        self
    }

    /// The same under another name.
    #[must_use]
    pub fn owner(mut self, name: &str) -> Self {
        self.owner = name.into();
        self
    }

    /// The same, which looks by itself this often, five seconds at most.
    #[must_use]
    pub fn poll(mut self, every: Duration) -> Self {
        self.poll = every.clamp(Duration::from_millis(1), AWAY);
        self
    }

    /// Says through the `metrics` facade what each figure means. Once per process, after a recorder is set.
    pub fn describe() {
        metrics::describe_counter!("hapax_jobs_leased_total", "Jobs leased, by kind.");
        metrics::describe_counter!(
            "hapax_jobs_ended_total",
            "Jobs that a worker ended or gave back, by kind and by the state they are in then."
        );
        metrics::describe_counter!(
            "hapax_jobs_lost_total",
            "Jobs whose lease was lost while they ran, by kind."
        );
        metrics::describe_histogram!("hapax_job_seconds", "Time a job ran, by kind.");
    }

    /// The kinds that it leases.
    fn served(&self) -> Vec<JobKind> {
        let wanted = |kind: &&JobKind| self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind));
        self.handlers.keys().filter(wanted).cloned().collect()
    }

    /// Leases and runs jobs until `shutdown` completes. Then it leases no more, lets its handlers end within `grace`,
    /// cancels those that have not and gives their jobs back.
    pub async fn run(&self, shutdown: impl Future<Output = ()>, grace: Duration) {
        self.run_until(shutdown, async { tokio::time::sleep(grace).await })
            .await;
    }

    /// Leases and runs jobs until `shutdown` completes. Then it leases no more, lets its handlers end until `enough`
    /// completes too, which nobody waits for before, cancels those that have not and gives their jobs back.
    pub async fn run_until(
        &self,
        shutdown: impl Future<Output = ()>,
        enough: impl Future<Output = ()>,
    ) {
        let (mut shutdown, woken) = (std::pin::pin!(shutdown), Arc::new(Notify::new()));
        let weak = Arc::downgrade(&woken);
        self.queue.on_ready(Arc::new(move || {
            if let Some(woken) = weak.upgrade() {
                woken.notify_one();
            }
        }));
        let mut tasks = JoinSet::new();
        let seats = Seats::of(self.per_tenant);
        let stop = CancellationToken::new();
        let mut turns = Turns::default();
        let mut away = Pause::new(self.poll / 10, AWAY);
        loop {
            let free = self.concurrency - tasks.len();
            let leased = if free > 0 {
                self.lease(free, &seats, &mut turns).await
            } else {
                Ok(Vec::new())
            };
            let wait = match &leased {
                Ok(jobs) => {
                    away = Pause::new(self.poll / 10, AWAY);
                    // A full lease may have left more behind it.
                    (jobs.len() < free || free == 0).then(|| spread(self.poll))
                }
                Err(error) => {
                    tracing::warn!(%error, "no job could be leased; trying again");
                    Some(away.next())
                }
            };
            let is_away = leased.is_err();
            for held in leased.unwrap_or_default() {
                self.start(&mut tasks, &seats, &stop, held);
            }
            let may_lease = tasks.len() < self.concurrency;
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = tasks.join_next() => {}
                () = woken.notified(), if may_lease && !is_away => {}
                () = tokio::time::sleep(wait.unwrap_or_default()), if may_lease => {}
            }
            // Those that are about to end may: many wake with one answer, and then one lease fills all their places.
            tokio::task::yield_now().await;
            while tasks.try_join_next().is_some() {}
        }
        finish(tasks, &stop, enough).await;
    }

    fn start(&self, tasks: &mut JoinSet<()>, seats: &Seats, stop: &CancellationToken, held: Held) {
        let kind = held.job().kind.clone();
        metrics::counter!("hapax_jobs_leased_total", "kind" => kind.to_string()).increment(1);
        match self.handlers.get(&kind) {
            Some(handler) => {
                let seat = seats.take(held.job().tenant);
                let task = task::handle(handler.clone(), held, stop.clone());
                tasks.spawn(async move {
                    task.await;
                    drop(seat);
                });
            }
            // It was asked for kinds with handlers only.
            None => {
                tracing::error!(%kind, job = %held.job().id, "a job of a kind without a handler was leased");
            }
        }
    }

    /// Leases up to `free` jobs: first an equal share for every tenant that has something due, then the rest.
    /// A tenant that has all it may have is passed over.
    async fn lease(
        &self,
        free: usize,
        seats: &Seats,
        turns: &mut Turns,
    ) -> Result<Vec<Held>, Error> {
        let kinds = self.served();
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let due = self
            .queue
            .due(Some(kinds.clone()), self.place.clone(), TENANTS_MAX);
        let mut due = in_time(due).await?;
        due.retain(|tenant| seats.left(*tenant) > 0);
        let mut held = Vec::new();
        for (tenant, share) in turns.shares(due, free) {
            let share = share.min(seats.left(tenant));
            self.lease_of(tenant, share, &kinds, &mut held, turns)
                .await?;
        }
        for tenant in turns.hungry(free) {
            if held.len() >= free {
                break;
            }
            let leased = held.iter().filter(|held| held.job().tenant == tenant);
            let left = seats.left(tenant).saturating_sub(leased.count());
            let rest = left.min(free - held.len());
            if rest == 0 {
                continue;
            }
            self.lease_of(tenant, rest, &kinds, &mut held, turns)
                .await?;
        }
        Ok(held)
    }

    /// Leases up to `limit` jobs of one tenant. What is leased already is kept if this one cannot be asked.
    async fn lease_of(
        &self,
        tenant: Tenant,
        limit: usize,
        kinds: &[JobKind],
        held: &mut Vec<Held>,
        turns: &mut Turns,
    ) -> Result<(), Error> {
        let limit = limit.min(Ask::LIMIT_MAX);
        let ask = Ask {
            owner: self.owner.clone(),
            ttl: self.ttl,
            kinds: Some(kinds.to_vec()),
            place: self.place.clone(),
            limit,
        };
        match in_time(Held::lease(&self.queue, tenant, ask)).await {
            Ok(leased) => {
                turns.served(tenant, leased.len() >= limit);
                held.extend(leased);
                Ok(())
            }
            Err(error) if !held.is_empty() => {
                tracing::warn!(%error, "the jobs of a tenant could not be leased; trying again");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::new(Kind::Unavailable, "leasing jobs")
            .because("the queue did not answer in time")),
    }
}

/// Lets the handlers end, then cancels them and waits until their jobs are given back.
async fn finish(
    mut tasks: JoinSet<()>,
    stop: &CancellationToken,
    enough: impl Future<Output = ()>,
) {
    tokio::select! {
        biased;
        () = async { while tasks.join_next().await.is_some() {} } => return,
        () = enough => {}
    }
    tracing::info!(jobs = tasks.len(), "the grace is over; giving jobs back");
    stop.cancel();
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(GIVING_BACK, all).await.is_err() {
        tracing::warn!(
            jobs = tasks.len(),
            "jobs were not given back; their leases run out"
        );
    }
}
