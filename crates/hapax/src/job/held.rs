//! The holder's side of one leased job: it renews itself, knows when it is lost, and sends every write under its
//! fence. It decides nothing; the queue's rule does.

mod beat;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hapax_core::job::{Act, Ask, Deed, Done, Fence, Job, On, Queue, Refusal, State};
use hapax_core::{Error, Kind, Tenant};
use tokio::sync::RwLock;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::pause::Pause;

/// How often a write is sent while the queue's store is away.
const TRIES_MAX: u32 = 6;
/// The pause after the first failed try; it doubles.
const PAUSE: Duration = Duration::from_millis(20);
/// How long one try may take.
const CALLS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The holder's side of one leased job.
///
/// Cheap to clone. While a clone lives, the lease is renewed in the background, three times within its span. It knows
/// when the lease is lost: somebody else has the job, or it could not be renewed in time. A worker must stop then, and
/// it is told a little before the lease runs out. Dropping the last clone gives nothing back; the lease then runs out
/// by itself. [`Held::release`] gives it back.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::job::{Ask, Held, HeldError, NewJob, Queue, State, testing::MemoryQueue};
/// use hapax::core::Tenant;
///
/// let queue: std::sync::Arc<dyn Queue> = std::sync::Arc::new(MemoryQueue::new());
/// let job = NewJob::download("w-1", "a-1", "https://example.org/paper.pdf")?;
/// queue.plan(Tenant::DEFAULT, vec![job]).await?;
///
/// let held = Held::lease(&queue, Tenant::DEFAULT, Ask::by("worker-1")).await?.remove(0);
/// assert_eq!(held.advance(State::HeadDone, None).await?.state, State::HeadDone);
/// // The refusal: the graph has no such step.
/// assert!(matches!(held.advance(State::Indexed, None).await, Err(HeldError::Refused(_))));
/// held.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Held {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<dyn Queue>,
    job: Job,
    owner: Arc<str>,
    ttl: Duration,
    /// The job's state as the last answer told it.
    state: Mutex<State>,
    lost: CancellationToken,
    has_ended: AtomicBool,
    /// A write shares it and a heartbeat has it alone, so that no heartbeat takes the end of a job for a loss.
    gate: RwLock<()>,
    beat: Mutex<Option<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_beat();
    }
}

impl Inner {
    fn stop_beat(&self) {
        let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(beat) = beat.take() {
            beat.abort();
        }
    }

    fn lose(&self, why: &dyn fmt::Display) {
        if !self.has_ended.load(Ordering::SeqCst) && !self.lost.is_cancelled() {
            tracing::warn!(job = %self.job.id, epoch = self.job.epoch, %why, "the lease of a job is lost");
            self.lost.cancel();
        }
    }
}

/// Why the holder of a job could not do something to it.
#[derive(Debug)]
pub enum HeldError {
    /// The lease is lost, or was given back.
    Lost,
    /// The queue refused it.
    Refused(Refusal),
    /// The queue could not be asked, after a few tries.
    Store(Error),
}

impl fmt::Display for HeldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldError::Lost => f.write_str("the lease is lost, or was given back"),
            HeldError::Refused(refusal) => refusal.fmt(f),
            HeldError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HeldError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HeldError::Lost => None,
            HeldError::Refused(refusal) => Some(refusal),
            HeldError::Store(error) => Some(error),
        }
    }
}

impl From<Error> for HeldError {
    fn from(error: Error) -> Self {
        HeldError::Store(error)
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("job", &self.inner.job.id)
            .field("epoch", &self.inner.job.epoch)
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

impl Held {
    /// Leases what `ask` asks for, and holds it.
    ///
    /// # Errors
    /// Those of [`Queue::lease`].
    pub async fn lease(
        queue: &Arc<dyn Queue>,
        tenant: Tenant,
        ask: Ask,
    ) -> Result<Vec<Self>, Error> {
        let ttl = ask.ttl;
        let jobs = queue.lease(tenant, ask).await?;
        let held = |job| Self::new(queue.clone(), job, ttl);
        Ok(jobs.into_iter().filter_map(held).collect())
    }

    /// Holds a job that was leased for `ttl` a moment ago; `None` if nobody holds it. Needs a tokio runtime.
    #[must_use]
    pub fn new(queue: Arc<dyn Queue>, job: Job, ttl: Duration) -> Option<Self> {
        let hold = job.lease.as_ref()?;
        let owner = hold.owner.clone();
        let left = hold.until.since(queue.time()).min(ttl);
        let inner = Arc::new(Inner {
            queue,
            owner,
            ttl: ttl.clamp(Job::LEASES.0, Job::LEASES.1),
            state: Mutex::new(job.state),
            job,
            lost: CancellationToken::new(),
            has_ended: AtomicBool::new(false),
            gate: RwLock::new(()),
            beat: Mutex::default(),
        });
        let beat = tokio::spawn(beat::beat(Arc::downgrade(&inner), inner.ttl, left));
        *inner.beat.lock().unwrap_or_else(PoisonError::into_inner) = Some(beat.abort_handle());
        Some(Self { inner })
    }

    /// The job as it was leased.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.inner.job
    }

    /// Whose job it is.
    #[must_use]
    pub fn tenant(&self) -> Tenant {
        self.inner.job.tenant
    }

    /// The holder's name.
    #[must_use]
    pub fn owner(&self) -> &Arc<str> {
        &self.inner.owner
    }

    /// The fence of this lease. It may go downstream, to receivers that refuse older ones.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.inner.job.epoch
    }

    /// Who acts: this holder under this lease.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence::of(&self.inner.owner, self.epoch())
    }

    /// The queue that the job is in.
    #[must_use]
    pub fn queue(&self) -> &Arc<dyn Queue> {
        &self.inner.queue
    }

    /// How far the job has come, as the last answer said.
    #[must_use]
    pub fn state(&self) -> State {
        *self.lock_state()
    }

    /// Whether the lease is lost: somebody else has the job, or it could not be renewed in time.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.inner.lost.is_cancelled() && !self.has_ended()
    }

    /// Whether this holder ended the job or gave it back.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.inner.has_ended.load(Ordering::SeqCst)
    }

    /// Completes when the lease is lost, a little before it runs out. Never, if the job is ended or given back first.
    pub async fn lost(&self) {
        self.inner.lost.cancelled().await;
        if self.has_ended() {
            std::future::pending::<()>().await;
        }
    }

    /// Moves the job along the graph and keeps `result`, JSON text, with it. Being there already is no change.
    ///
    /// # Errors
    /// [`HeldError`] when the lease is lost, the graph has no such step or the queue is away.
    pub async fn advance(&self, to: State, result: Option<Arc<str>>) -> Result<Job, HeldError> {
        let allowed_from = None;
        self.write_job(Deed::Advance {
            to,
            allowed_from,
            result,
        })
        .await
    }

    /// Ends the attempt as failed. The job rests, at least for `after`, or is given up.
    ///
    /// # Errors
    /// [`HeldError`] when the lease is lost, the job has ended or the queue is away.
    pub async fn fail(
        self,
        error: &str,
        retryable: bool,
        after: Option<Duration>,
    ) -> Result<Job, HeldError> {
        let error = Some(error.into());
        self.write_job(Deed::Fail {
            error,
            retryable,
            after,
        })
        .await
    }

    /// Gives the job back at once. What was recorded is kept, and it costs no failure.
    ///
    /// # Errors
    /// [`HeldError`] when the lease is lost, the job has ended or the queue is away.
    pub async fn release(self) -> Result<Job, HeldError> {
        self.write_job(Deed::Release).await
    }

    /// Moves the job to `to` if the graph has that step from where it is. It is past it otherwise, or the next
    /// write says what is wrong.
    pub(super) async fn catch_up(
        &self,
        to: Option<State>,
        result: Option<&Arc<str>>,
    ) -> Result<(), HeldError> {
        let Some(to) = to else { return Ok(()) };
        if self.state().followers(&self.job().kind).contains(&to) {
            let kept = result.filter(|_| to.is_terminal()).cloned();
            self.advance(to, kept).await?;
        }
        Ok(())
    }

    async fn write_job(&self, deed: Deed) -> Result<Job, HeldError> {
        let on = On::Job(self.job().id.clone());
        match self.write(on, deed).await? {
            Done::Job(job) | Done::Op(_, job) => Ok(*job),
            Done::Begun(..) => Ok(self.job().clone()),
        }
    }

    /// Sends one write under this fence.
    pub(super) async fn write(&self, on: On, deed: Deed) -> Result<Done, HeldError> {
        let mut answers = self.write_all(vec![(on, deed)]).await?;
        answers.pop().unwrap_or_else(|| Err(no_answer().into()))
    }

    /// Sends writes under this fence in one transaction, again while the store is away for a moment, and answers each.
    /// Every deed that is sent this way may be sent twice: the second time finds out.
    pub(super) async fn write_all(
        &self,
        deeds: Vec<(On, Deed)>,
    ) -> Result<Vec<Result<Done, HeldError>>, HeldError> {
        if self.has_ended() || self.inner.lost.is_cancelled() {
            return Err(HeldError::Lost);
        }
        let acts: Vec<Act> = deeds
            .into_iter()
            .map(|(on, deed)| Act {
                on,
                fence: self.fence(),
                deed,
            })
            .collect();
        let mut pause = Pause::new(PAUSE, PAUSE * 32);
        for attempt in 1.. {
            let answers = {
                let _shared = self.inner.gate.read().await;
                let answers = self.send(&acts).await;
                for (act, answer) in acts.iter().zip(answers.iter().flatten()) {
                    if let Ok(done) = answer {
                        self.saw(done, gives_back(&act.deed));
                    }
                }
                answers
            };
            match answers {
                Ok(answers) => {
                    let told = |answer: Result<Done, Refusal>| {
                        answer.map_err(|refusal| self.refused(refusal))
                    };
                    return Ok(answers.into_iter().map(told).collect());
                }
                Err(error) if error.is_transient() && attempt < TRIES_MAX => {
                    tracing::warn!(job = %self.job().id, %error, attempt, "a write to a job was not answered; trying again");
                    tokio::time::sleep(pause.next()).await;
                }
                Err(error) => return Err(HeldError::Store(error)),
            }
        }
        unreachable!("the last try returns")
    }

    async fn send(&self, acts: &[Act]) -> Result<Vec<Result<Done, Refusal>>, Error> {
        let limit = self.inner.ttl.clamp(CALLS.0, CALLS.1);
        let call = self.inner.queue.apply(self.tenant(), acts.to_vec());
        let Ok(answers) = tokio::time::timeout(limit, call).await else {
            let unknown = Error::new(Kind::OutcomeUnknown, "writing to a job");
            return Err(unknown.because("the queue did not answer in time"));
        };
        let answers = answers?;
        if answers.len() == acts.len() {
            Ok(answers)
        } else {
            Err(no_answer())
        }
    }

    /// Takes note of what an answer says about the job.
    fn saw(&self, done: &Done, gives_back: bool) {
        let (Done::Job(job) | Done::Op(_, job)) = done else {
            return;
        };
        if job.epoch != self.epoch() {
            return; // An old answer, told again to a lease that is over.
        }
        *self.lock_state() = job.state;
        if gives_back || job.state.is_terminal() || job.state == State::Failed {
            self.gave_back();
        }
    }

    /// Takes note that this holder has the job no more, by its own doing.
    pub(super) fn gave_back(&self) {
        self.inner.has_ended.store(true, Ordering::SeqCst);
        self.inner.stop_beat();
    }

    fn refused(&self, refusal: Refusal) -> HeldError {
        match &refusal {
            Refusal::LeaseLost { epoch, owner, .. }
                if *epoch == self.epoch() && owner.as_ref() == Some(self.owner()) =>
            {
                // The lease holds; it is the operation that is no longer this runner's.
                HeldError::Refused(refusal)
            }
            Refusal::LeaseLost { .. } => {
                self.inner.lose(&refusal);
                HeldError::Lost
            }
            _ => HeldError::Refused(refusal),
        }
    }

    fn lock_state(&self) -> std::sync::MutexGuard<'_, State> {
        // Every change under the lock is one assignment.
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the holder has the job no more once this is done.
fn gives_back(deed: &Deed) -> bool {
    matches!(deed, Deed::Release | Deed::Fail { .. } | Deed::Wait { .. })
}

fn no_answer() -> Error {
    Error::new(Kind::Corrupt, "writing to a job").because("the queue gave no answer")
}
