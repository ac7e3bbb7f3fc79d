//! A queue that fails or dies on cue: at which write, and whether the write was done.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::job::{
    Act, Ask, Deed, Done, Job, JobId, JobKind, JobPage, JobScan, NewJob, Op, OpKey, Place, Planned,
    Queue, Ready, Refusal, Stale, Tally,
};
use hapax_core::{Answer, Error, Kind, Tenant, Time};
use tokio_util::sync::CancellationToken;

/// What happens at a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// It is not done, and the caller knows. The next one works.
    Unavailable,
    /// It is done, but its answer is lost. The next one works.
    WrittenUnknown,
    /// It is not done, and the caller does not know. The next one works.
    LostUnknown,
    /// It is not done, and the process dies: nothing is ever answered again.
    DiesBefore,
    /// It is done, and the process dies: nothing is ever answered again.
    DiesAfter,
}

/// A queue that is cut at the writes that a test names. Writes are batches of acts, but for heartbeats, counted from 1.
pub struct FaultyQueue {
    inner: Arc<dyn Queue>,
    cuts: Mutex<BTreeMap<usize, Cut>>,
    writes: AtomicUsize,
    leases_to_fail: AtomicUsize,
    died: CancellationToken,
}

impl fmt::Debug for FaultyQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyQueue")
            .field("writes", &self.writes())
            .field("is_dead", &self.is_dead())
            .finish_non_exhaustive()
    }
}

impl FaultyQueue {
    /// This queue, without a cut so far.
    #[must_use]
    pub fn new(inner: Arc<dyn Queue>) -> Self {
        Self {
            inner,
            cuts: Mutex::default(),
            writes: AtomicUsize::new(0),
            leases_to_fail: AtomicUsize::new(0),
            died: CancellationToken::new(),
        }
    }

    /// The same, cut at write number `write`.
    #[must_use]
    pub fn cut(self, write: usize, cut: Cut) -> Self {
        self.cuts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(write, cut);
        self
    }

    /// The same, which fails this many looks for work, leases included, and then works.
    #[must_use]
    pub fn failing_leases(self, leases: usize) -> Self {
        self.leases_to_fail.store(leases, Ordering::SeqCst);
        self
    }

    /// How many writes were asked for.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Whether the process died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.died.is_cancelled()
    }

    /// Completes when the process dies: whoever runs on this queue has to be dropped then.
    pub async fn died(&self) {
        self.died.cancelled().await;
    }

    async fn alive(&self) {
        if self.is_dead() {
            pending::<()>().await;
        }
    }

    async fn may_lease(&self) -> Result<(), Error> {
        self.alive().await;
        let less = |left: usize| left.checked_sub(1);
        let (order, left) = (Ordering::SeqCst, &self.leases_to_fail);
        match left.fetch_update(order, order, less) {
            Ok(_) => Err(Error::new(Kind::Unavailable, "leasing jobs")),
            Err(_) => Ok(()),
        }
    }

    async fn die<T>(&self) -> T {
        self.died.cancel();
        pending().await
    }

    fn next_cut(&self, acts: &[Act]) -> Option<Cut> {
        let is_beat = |act: &Act| matches!(act.deed, Deed::Renew { .. });
        if acts.iter().all(is_beat) {
            return None;
        }
        let write = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        cuts.get(&write).copied()
    }
}

/// A call that is passed on while the process lives.
macro_rules! passed {
    ($self:ident . $call:ident ( $($with:expr),* )) => {
        Box::pin(async move {
            $self.alive().await;
            $self.inner.$call($($with),*).await
        })
    };
}

impl Queue for FaultyQueue {
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>> {
        passed!(self.plan(tenant, jobs))
    }

    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>> {
        Box::pin(async move {
            self.may_lease().await?;
            self.inner.lease(tenant, ask).await
        })
    }

    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>> {
        const DOING: &str = "writing to a job";
        Box::pin(async move {
            self.alive().await;
            match self.next_cut(&acts) {
                None => self.inner.apply(tenant, acts).await,
                Some(Cut::Unavailable) => Err(Error::new(Kind::Unavailable, DOING)),
                Some(Cut::LostUnknown) => Err(Error::new(Kind::OutcomeUnknown, DOING)),
                Some(Cut::WrittenUnknown) => {
                    self.inner.apply(tenant, acts).await?;
                    Err(Error::new(Kind::OutcomeUnknown, DOING))
                }
                Some(Cut::DiesBefore) => self.die().await,
                Some(Cut::DiesAfter) => {
                    self.inner.apply(tenant, acts).await?;
                    self.die().await
                }
            }
        })
    }

    fn named(&self, tenant: Tenant, names: Vec<JobId>) -> Answer<'_, Vec<JobId>> {
        passed!(self.named(tenant, names))
    }

    fn job(&self, tenant: Tenant, id: JobId) -> Answer<'_, Option<(Job, Vec<Op>)>> {
        passed!(self.job(tenant, id))
    }

    fn op(&self, tenant: Tenant, key: OpKey) -> Answer<'_, Option<Op>> {
        passed!(self.op(tenant, key))
    }

    fn jobs(&self, scan: JobScan) -> Answer<'_, JobPage> {
        passed!(self.jobs(scan))
    }

    fn doubtful_ops(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        passed!(self.doubtful_ops(tenant, at_most))
    }

    fn tally(&self, tenant: Tenant, at_most: u64) -> Answer<'_, Vec<Tally>> {
        passed!(self.tally(tenant, at_most))
    }

    fn due(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Answer<'_, Vec<Tenant>> {
        Box::pin(async move {
            self.may_lease().await?;
            self.inner.due(kinds, place, limit).await
        })
    }

    fn stale(&self, tenant: Option<Tenant>, limit: usize) -> Answer<'_, Stale> {
        passed!(self.stale(tenant, limit))
    }

    fn on_ready(&self, ready: Ready) {
        self.inner.on_ready(ready);
    }

    fn time(&self) -> Time {
        self.inner.time()
    }
}
