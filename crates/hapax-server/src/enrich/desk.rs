//! Where this process enriches: it runs the jobs of batches, looks after batches, and answers those who wait for one text.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hapax::job::{Events, Handler, Handling, Held, Identity, Plan, Worker, drive};
use hapax_core::entry::{ItemText, Schema};
use hapax_core::job::{Act, Ask, Deed, Fence, Job, On, Op, OpState, State};
use hapax_core::{Chore, Error, Kind, Tenant};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::chore;
use super::job::{Asking, Errand, Graph, WRITE, kind, place};
use super::row::Row;
use super::settings::Settings;
use super::sync::{self, Question, Written};
use super::trouble::Trouble;
use super::{collect, schedule};
use crate::config::Config;
use crate::store::Store;

/// How many jobs of one schema's batches a process runs at a time.
const JOBS: usize = 2;
/// How long a job stays with a process that has fallen silent.
const LEASE: Duration = Duration::from_secs(30);
/// The longest pause between two looks for batches that nobody told of.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// How often a process that waits for its turn looks whether it has come.
const TURN_EVERY: Duration = Duration::from_millis(500);
/// The pauses between two looks at a request that somebody else drives.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// What a request came to.
pub(crate) enum Told {
    /// It is recorded; whether it was before.
    Written(Box<Written>, bool),
    /// The provider gave no answer.
    Trouble(Trouble),
    /// It is still being asked.
    Busy,
    /// A batch asks the same, and gets the answer.
    UnderWay,
}

/// The desk. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Arc<Settings>,
    store: Store,
    sync: Plan<sync::Course>,
    schedule: Plan<schedule::Course>,
    collect: Plan<collect::Course>,
    owner: Identity,
    nudge: Notify,
    tasks: TaskTracker,
}

impl Desk {
    /// The desk that the configuration describes.
    ///
    /// # Errors
    /// Those of [`Settings::new`].
    pub(crate) fn new(config: &Config, store: &Store) -> Result<Self> {
        let inner = Inner {
            settings: Arc::new(Settings::new(config)?),
            store: store.clone(),
            sync: sync::plan(),
            schedule: schedule::plan(),
            collect: collect::plan(),
            owner: Identity::this_process(),
            nudge: Notify::new(),
            tasks: TaskTracker::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Whether there is a provider to ask.
    pub(crate) fn is_configured(&self) -> bool {
        self.inner.settings.provider.is_some()
    }

    /// Workers of the jobs of batches, one for each schema, if there is a provider to ask.
    pub(crate) fn workers(&self) -> Vec<Worker> {
        let worker = |schema| {
            Worker::new(Arc::clone(&self.inner.store.queue))
                .handler(kind(), self.clone())
                .place(place(schema))
                .concurrency(JOBS)
                .ttl(LEASE)
        };
        if self.is_configured() {
            Schema::ALL.map(worker).into()
        } else {
            Vec::new()
        }
    }

    /// Says that there may be something to do for a batch.
    pub(crate) fn nudge(&self) {
        self.inner.nudge.notify_one();
    }

    /// Looks after batches until it is dropped: when it is nudged, and while it leads as often as configured.
    pub(crate) async fn look_after(&self) {
        let inner = &self.inner;
        if !self.is_configured() {
            return;
        }
        let chore = chore::Chore {
            settings: Arc::clone(&inner.settings),
            store: inner.store.clone(),
        };
        let pause = inner.settings.interval.min(LOOK_MAX);
        let mut is_nudged = false;
        loop {
            // Of all who look now and then one is enough; who knows that there is something to do does it at once.
            let wait = if inner.store.ledger.leads(Chore::Batches) || is_nudged {
                chore.look().await;
                pause
            } else {
                pause.min(TURN_EVERY)
            };
            is_nudged = tokio::time::timeout(wait, inner.nudge.notified())
                .await
                .is_ok();
        }
    }

    /// What makes two requests for this text the same.
    pub(crate) fn question(&self, text: ItemText) -> Question {
        Question::new(text, &self.inner.settings)
    }

    /// Asks about one text, or joins whoever asks the same. What is asked goes on when the caller does not wait for it.
    /// With `force` it is asked anew, and paid for again.
    ///
    /// # Errors
    /// When the store could not be asked.
    pub(crate) async fn ask(
        &self,
        tenant: Tenant,
        question: Question,
        force: bool,
        most: Duration,
    ) -> Result<Told, Error> {
        let until = Instant::now() + most;
        let queue = &self.inner.store.queue;
        let asking = Asking::of(tenant, question.key);
        let question = Arc::new(question);
        let planned = queue.plan(tenant, vec![asking.job()?]).await?;
        let was_there = planned.iter().all(|planned| !planned.planned);
        if force && was_there {
            let place = asking.place.clone();
            self.act(tenant, &asking, Deed::Redo { place }).await?;
        }
        let (mut pause, mut is_first, mut has_driven) = (LOOKS.0, !force, false);
        loop {
            let found = queue.job(tenant, asking.id.clone()).await?;
            let (job, ops) = found.ok_or_else(gone)?;
            match job.state {
                State::Indexed | State::Deduped | State::SkippedDuplicate => {
                    return written(&job, &ops).map(|one| Told::Written(one, !has_driven));
                }
                State::Failed | State::Dead if is_first => {
                    self.act(tenant, &asking, Deed::Retry).await?;
                }
                State::Failed | State::Dead => {
                    let error = job.error.as_deref().unwrap_or("it failed");
                    let trouble = Trouble::read(error);
                    return Ok(if trouble.is_under_way() {
                        Told::UnderWay
                    } else {
                        Told::Trouble(trouble)
                    });
                }
                State::Planned
                | State::Leased
                | State::HeadDone
                | State::ResumeOk
                | State::Streaming
                | State::Finalized => {}
            }
            is_first = false;
            self.take_from_dead(tenant, &job).await?;
            match self.lease(tenant, &asking).await? {
                Some(held) => {
                    has_driven = true;
                    let driven = self.drive(held, tenant, &question);
                    if tokio::time::timeout_at(until, driven).await.is_err() {
                        return Ok(Told::Busy);
                    }
                }
                None if Instant::now() + pause > until => return Ok(Told::Busy),
                None => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LOOKS.1);
                }
            }
        }
    }

    /// Drives a request on a task of its own: it is paid for, whoever waits.
    async fn drive(&self, held: Held, tenant: Tenant, question: &Arc<Question>) {
        let course = sync::Course {
            settings: Arc::clone(&self.inner.settings),
            batches: Arc::clone(&self.inner.store.batches),
            tenant,
            question: Arc::clone(question),
            round: held.job().redone,
            parsed: None,
        };
        let plan = self.inner.sync.clone();
        let driving = async move {
            if let Err(error) = drive(held, &plan, course, &Events::none()).await {
                let why = Trouble::read(&error.to_string()).logged();
                tracing::warn!(why, "an attempt at a request for enrichment ended");
            }
        };
        // Still within the request, so that what is logged says whose it was.
        let driving = self.inner.tasks.spawn(driving.in_current_span());
        // A task that panicked left its job behind, and whoever looks next finds it.
        let _ = driving.await;
    }

    async fn lease(&self, tenant: Tenant, asking: &Asking) -> Result<Option<Held>, Error> {
        let ask = Ask {
            kinds: Some(vec![kind()]),
            place: asking.place.clone(),
            ttl: LEASE,
            ..Ask::by(self.inner.owner.name())
        };
        let held = Held::lease(&self.inner.store.queue, tenant, ask).await?;
        Ok(held.into_iter().next())
    }

    /// Takes a request back from a process of this machine that is gone.
    async fn take_from_dead(&self, tenant: Tenant, job: &Job) -> Result<(), Error> {
        let queue = &self.inner.store.queue;
        let Some(hold) = job.lease.as_ref().filter(|_| job.is_held(queue.time())) else {
            return Ok(());
        };
        if !Identity::is_dead(&hold.owner) {
            return Ok(());
        }
        let act = Act {
            on: On::Job(job.id.clone()),
            fence: Fence::of(&hold.owner, job.epoch),
            deed: Deed::Release,
        };
        queue.apply(tenant, vec![act]).await.map(drop)
    }

    /// Does something to a request that nobody holds. If somebody does, that is what is waited for.
    async fn act(&self, tenant: Tenant, asking: &Asking, deed: Deed) -> Result<(), Error> {
        let act = Act {
            on: On::Job(asking.id.clone()),
            fence: Fence::none(),
            deed,
        };
        let queue = &self.inner.store.queue;
        queue.apply(tenant, vec![act]).await.map(drop)
    }

    /// Waits for requests that are being asked, so that what they pay for is recorded.
    pub(crate) async fn close(&self, most: Duration) {
        self.inner.tasks.close();
        if tokio::time::timeout(most, self.inner.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("what is being asked of the provider is given up");
        }
    }

    async fn run_batch(&self, held: Held) {
        let (id, inner) = (held.job().id.clone(), &self.inner);
        let errand = match Errand::of(held.job()) {
            Ok(errand) => errand,
            Err(why) => {
                if let Err(lost) = held.fail(&why, false, None).await {
                    tracing::warn!(job = %id, why, %lost, "the end of a job was not recorded");
                }
                return;
            }
        };
        let row = Row {
            batches: Arc::clone(&inner.store.batches),
            tenant: held.tenant(),
            schema: errand.schema,
            id: errand.batch,
        };
        let (settings, events) = (&inner.settings, Events::none());
        let ended = match errand.graph {
            Graph::Schedule => {
                let course = schedule::Course::new(settings, row, errand);
                drive(held, &inner.schedule, course, &events)
                    .await
                    .map(drop)
            }
            Graph::Collect => {
                let course = collect::Course::new(settings, row, errand);
                drive(held, &inner.collect, course, &events).await.map(drop)
            }
        };
        if let Err(error) = ended {
            let why = Trouble::read(&error.to_string()).logged();
            tracing::warn!(job = %id, why, "an attempt at a batch ended");
        }
        self.nudge();
    }
}

impl Handler for Desk {
    fn run(&self, held: Held) -> Handling<'_> {
        Box::pin(self.run_batch(held))
    }
}

/// What the last step of a request recorded.
fn written(job: &Job, ops: &[Op]) -> Result<Box<Written>, Error> {
    let is_it = |op: &&Op| op.kind == WRITE && op.state == OpState::Done && op.epoch > job.redone;
    let recorded = ops.iter().find(is_it).and_then(|op| op.result.as_deref());
    let read = serde_json::from_str(recorded.unwrap_or("null"));
    read.map(Box::new).map_err(|why| {
        Error::new(Kind::Corrupt, "reading what was recorded for a request")
            .because(why.to_string())
    })
}

fn gone() -> Error {
    Error::new(Kind::Unavailable, "waiting for a request").because("its job is gone")
}
