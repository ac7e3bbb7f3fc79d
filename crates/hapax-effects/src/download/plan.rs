//! The plan of a download: which step follows which, what each is in the ledger, and what a crash in it means.
//!
//! | Step | Class | After its runner died |
//! |---|---|---|
//! | HEAD | replayable | asks again |
//! | SKIP, INDEX, DEDUPE | keyed by content and names | links again: the same link |
//! | RESUME | replayable | looks again |
//! | STREAM | probe | continues from the part |
//! | FINALIZE | keyed by content | looks whether the object is there, else places it |

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hapax::job::{
    Class, Events, Fault, Handler, Handling, Held, Job, Node, Op, Plan, Probed, Retry, State, Step,
    drive,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::downloader::Downloader;
use super::error::{Code, Error};
use super::folder::Folder;
use super::hash::ContentHash;
use super::head::Head;
use super::part::{Found, InHand, Owner};
use super::place::Placed;
use super::stream::{Streamed, Wanted};

/// The names of the steps.
const HEAD: &str = "HEAD";
const SKIP: &str = "SKIP";
const RESUME: &str = "RESUME";
const STREAM: &str = "STREAM";
const FINALIZE: &str = "FINALIZE";
const INDEX: &str = "INDEX";
const DEDUPE: &str = "DEDUPE";

/// What came of a download: the result of its job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Downloaded {
    /// The sha256 of the content.
    pub sha256: ContentHash,
    /// The size of the content in bytes.
    pub size: u64,
    /// The path of the object, relative to the folder.
    pub object: String,
    /// The path by the names of work and artifact, relative to the folder.
    pub file: String,
    /// The media type.
    pub content_type: Option<String>,
    /// The entity tag.
    pub etag: Option<String>,
    /// The URL that was asked for.
    pub url: String,
    /// The URL that answered, after redirects.
    pub final_url: String,
    /// Whether the same content was there before.
    pub deduped: bool,
}

/// How far a download is.
#[derive(Clone, Debug)]
pub struct Course {
    downloader: Downloader,
    folder: Folder,
    wanted: Wanted,
    /// How many sources may be asked at a time, if that is limited.
    turns: Option<Arc<Semaphore>>,
    /// Told when no turn will come any more.
    is_turned_away: Arc<Notify>,
    /// The epoch of the lease at whose beginning the job had no part, if it had none.
    new_at: Option<i64>,
    /// How many bytes of a part can be continued, if the job is not past that.
    resumable: u64,
    /// The size of the object that has the wanted sha256, if it is there.
    known_size: Option<u64>,
    head: Option<Head>,
    streamed: Option<Streamed>,
    /// The part of what was fetched just now, until it is in its place.
    in_hand: Arc<Mutex<Option<InHand>>>,
    placed: Option<Placed>,
}

impl Course {
    /// The start of a download: what is wanted, and what is on disk already.
    ///
    /// # Errors
    /// [`Code::BadPayload`] when the payload is not readable, [`Code::Disk`] when the folder is not.
    pub async fn of(downloader: &Downloader, job: &Job) -> Result<Self, Error> {
        let wanted = wanted(job)?;
        let owner = Owner::of(&job.id, job.epoch);
        let look = downloader.look(job.tenant, &owner, &wanted).await?;
        let is_past = matches!(job.state, State::Streaming | State::Finalized);
        let new_at = look.part.is_none().then_some(job.epoch);
        let found = look.part.filter(Found::can_be_continued);
        let resumable = found.filter(|_| !is_past).map_or(0, |found| found.length);
        Ok(Self {
            downloader: downloader.of_tenant(job.tenant),
            folder: look.folder,
            wanted,
            turns: None,
            is_turned_away: Arc::default(),
            new_at,
            resumable,
            known_size: look.known_size,
            head: None,
            streamed: None,
            in_hand: Arc::default(),
            placed: None,
        })
    }

    fn in_hand(&self) -> MutexGuard<'_, Option<InHand>> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to ask a source, until it is dropped. No limit of time counts while it is waited for. When there will be
    /// none it never comes, and the run is told so.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turns = Arc::clone(self.turns.as_ref()?);
        if let Ok(turn) = turns.acquire_owned().await {
            return Some(turn);
        }
        self.is_turned_away.notify_one();
        std::future::pending().await
    }

    /// The sha256 of what was fetched, for the keys of the steps after that.
    fn sha256(&self) -> Option<&ContentHash> {
        self.streamed.as_ref().map(|streamed| &streamed.sha256)
    }

    async fn downloaded(&self, held: &Held, placed: &Placed) -> Result<Downloaded, Fault> {
        let job = held.job();
        let names = (job.work_id.as_str(), job.artifact_id.as_str());
        let owner = owner(held);
        let index = self
            .downloader
            .index(&self.folder, &owner, &placed.sha256, names);
        let file = index.await?;
        let (streamed, told) = (self.streamed.as_ref(), self.head.as_ref());
        let said = |streamed: Option<&Option<String>>, told: Option<&Option<String>>| {
            streamed.or(told).cloned().flatten()
        };
        let final_url = streamed
            .map(|streamed| &streamed.final_url)
            .or(told.map(|head| &head.final_url));
        Ok(Downloaded {
            sha256: placed.sha256.clone(),
            size: placed.size,
            object: placed.object.clone(),
            file,
            content_type: said(
                streamed.map(|streamed| &streamed.content_type),
                told.map(|head| &head.content_type),
            ),
            etag: said(
                streamed.map(|streamed| &streamed.etag),
                told.map(|head| &head.etag),
            ),
            url: self.wanted.url.clone(),
            final_url: final_url.unwrap_or(&self.wanted.url).clone(),
            deduped: placed.deduped,
        })
    }
}

fn wanted(job: &Job) -> Result<Wanted, Error> {
    let text = job.payload.as_deref().unwrap_or("null");
    let payload: Value = serde_json::from_str(text)
        .map_err(|error| Error::fatal(Code::BadPayload, error.to_string()))?;
    // A payload is the planner's own. Only a sha256 that is none would be a promise broken in silence.
    let sha256 = match payload.get("sha256") {
        None | Some(Value::Null) => None,
        Some(stated) => {
            let parsed = stated.as_str().and_then(ContentHash::parse);
            Some(parsed.ok_or_else(|| Error::fatal(Code::BadPayload, "sha256 is not one"))?)
        }
    };
    Ok(Wanted {
        sha256,
        size: payload.get("size").and_then(Value::as_u64),
        ..Wanted::at(&job.canonical_url)
    })
}

fn owner(held: &Held) -> Owner {
    Owner::of(&held.job().id, held.epoch())
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let fault = if error.is_retryable() {
            Fault::retryable(error.to_string())
        } else {
            Fault::fatal(error.to_string())
        };
        match error.wait() {
            Some(wait) => fault.after(wait),
            None => fault,
        }
    }
}

/// The plan of a download.
///
/// # Panics
/// Never: the plan is sound, and a test builds it.
#[must_use]
pub fn plan() -> Plan<Course> {
    Plan::named("download")
        .node(head())
        .node(skip())
        .node(resume())
        .node(stream())
        .node(finalize())
        .node(name(INDEX, State::Indexed))
        .node(name(DEDUPE, State::Deduped))
        .start(HEAD)
        .branch(HEAD, [SKIP, RESUME, STREAM], |course: &Course| {
            if course.known_size.is_some() {
                SKIP
            } else if course.resumable > 0 {
                RESUME
            } else {
                STREAM
            }
        })
        .edge(RESUME, STREAM)
        .edge(STREAM, FINALIZE)
        .branch(FINALIZE, [INDEX, DEDUPE], |course: &Course| {
            match &course.placed {
                Some(placed) if placed.deduped => DEDUPE,
                Some(_) | None => INDEX,
            }
        })
        .build()
        .expect("the steps are named once and lead to an end")
}

fn head() -> Node<Course, Head> {
    let run = |_: Step, course: Arc<Course>| async move {
        let _turn = course.turn().await;
        Ok(course.downloader.head(&course.wanted.url).await?)
    };
    Node::new(HEAD, Class::Replayable, run)
        .context(|course: &Course| json!({"url": course.wanted.url}))
        .retry(Retry::default())
        .begins_late()
        .advances_to(|_, _| Some(State::HeadDone))
        .apply(|course, head| course.head = Some(head.clone()))
}

fn skip() -> Node<Course, Downloaded> {
    let run = |step: Step, course: Arc<Course>| async move {
        let known = course.wanted.sha256.clone().zip(course.known_size);
        let (sha256, size) = known.ok_or_else(|| Fault::retryable("the object is not there"))?;
        let placed = Placed {
            object: Folder::object(&sha256),
            sha256,
            size,
            deduped: true,
            healed: false,
        };
        course.downloaded(step.held(), &placed).await
    };
    Node::new(SKIP, Class::Keyed, run)
        .context(|course: &Course| json!({"sha256": course.wanted.sha256}))
        .retry(Retry::default())
        .advances_to(|_, _| Some(State::SkippedDuplicate))
}

/// A part that a run continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resumed {
    /// The first byte that is still to be fetched.
    pub range_start: u64,
}

fn resume() -> Node<Course, Resumed> {
    let run = |step: Step, course: Arc<Course>| async move {
        let owner = owner(step.held());
        let found = course.downloader.resume(&course.folder, &owner).await?;
        let range_start = found.map_or(0, |found| found.length);
        Ok(Resumed { range_start })
    };
    Node::new(RESUME, Class::Replayable, run)
        .context(
            |course: &Course| json!({"url": course.wanted.url, "range_start": course.resumable}),
        )
        .retry(Retry::default())
        .advances_to(|_, resumed: &Resumed| (resumed.range_start > 0).then_some(State::ResumeOk))
}

fn stream() -> Node<Course, Streamed> {
    let run = |step: Step, course: Arc<Course>| async move {
        let progress = |done, total| step.progress(done, total, "bytes");
        let owner = owner(step.held());
        let (folder, wanted) = (&course.folder, &course.wanted);
        let head = course.head.as_ref();
        let is_new = course.new_at == Some(step.held().epoch());
        let known = (head, is_new && step.attempt() == 1);
        let _turn = course.turn().await;
        // Whatever an earlier run left is its part's to keep.
        course.in_hand().take();
        let stream = course
            .downloader
            .stream_known(folder, &owner, wanted, known, &progress);
        let fetched = stream.await?;
        *course.in_hand() = Some(fetched.part);
        Ok(fetched.streamed)
    };
    Node::new(STREAM, Class::Probe, run)
        .context(|course: &Course| json!({"url": course.wanted.url, "range_start": 0}))
        .enters(State::Streaming)
        // Whatever it did is in the part, and running it continues that.
        .probe(|_, _| async { Probed::DidNot })
        .apply(|course, streamed| course.streamed = Some(streamed.clone()))
}

fn finalize() -> Node<Course, Placed> {
    let run = |step: Step, course: Arc<Course>| async move {
        let owner = owner(step.held());
        let streamed = course.streamed.as_ref().ok_or_else(nothing_streamed)?;
        let (folder, wanted) = (&course.folder, &course.wanted);
        let known = (streamed, course.in_hand().take());
        let finalize = course
            .downloader
            .finalize_known(folder, &owner, wanted, known);
        Ok(finalize.await?)
    };
    Node::new(FINALIZE, Class::Keyed, run)
        .context(|course: &Course| json!({"sha256": course.sha256()}))
        .retry(Retry::default())
        .advances_to(|_, _| Some(State::Finalized))
        .apply(|course, placed| course.placed = Some(placed.clone()))
}

fn name(step: &str, end: State) -> Node<Course, Downloaded> {
    let run = |step: Step, course: Arc<Course>| async move {
        let placed = course.placed.as_ref().ok_or_else(nothing_streamed)?;
        course.downloaded(step.held(), placed).await
    };
    Node::new(step, Class::Keyed, run)
        .context(|course: &Course| json!({"sha256": course.sha256()}))
        .retry(Retry::default())
        .advances_to(move |_, _| Some(end))
}

fn nothing_streamed() -> Fault {
    Fault::fatal("nothing was streamed before this step")
}

/// Whether the job fetched its content itself, in an earlier attempt: then what is there is no duplicate.
async fn has_streamed(held: &Held) -> bool {
    let job = held.job();
    let stored = held.queue().job(job.tenant, job.id.clone()).await;
    let is_streamed = |op: &Op| op.kind == STREAM && op.epoch > job.redone;
    matches!(stored, Ok(Some((_, ops))) if ops.iter().any(is_streamed))
}

async fn give_back(held: Held) {
    let id = held.job().id.clone();
    if let Err(error) = held.release().await {
        tracing::warn!(job = %id, %error, "a download was not given back; its lease runs out");
    }
}

/// Runs the jobs of the kind `download`.
#[derive(Clone, Debug)]
pub struct Download {
    downloader: Downloader,
    plan: Plan<Course>,
    events: Events,
    turns: Option<Arc<Semaphore>>,
}

impl Download {
    /// Downloads with `downloader` and tells `events` how far it is.
    #[must_use]
    pub fn new(downloader: Downloader, events: Events) -> Self {
        Self {
            downloader,
            plan: plan(),
            events,
            turns: None,
        }
    }

    /// The same, which asks a source only while it has one of these permits. A worker may run more jobs than that: while
    /// some are fetched, others are made durable and recorded, many with one sync. Once they are closed, jobs that have to
    /// ask a source and do not yet are given back.
    #[must_use]
    pub fn in_turns(mut self, turns: Arc<Semaphore>) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Runs one job to the end of its attempt.
    pub async fn run(&self, held: Held) {
        let seen = held.clone();
        match Course::of(&self.downloader, held.job()).await {
            Ok(mut course) => {
                if course.known_size.is_some() && has_streamed(&held).await {
                    course.known_size = None;
                }
                course.turns = self.turns.clone();
                let is_turned_away = Arc::clone(&course.is_turned_away);
                tokio::select! {
                    ended = drive(held, &self.plan, course, &self.events) => if let Err(error) = ended {
                        tracing::info!(job = %seen.job().id, %error, "an attempt at a download ended");
                    },
                    () = is_turned_away.notified() => return give_back(seen).await,
                }
            }
            Err(error) => {
                let why = error.to_string();
                let failed = held.fail(&why, error.is_retryable(), error.wait());
                if let Err(lost) = failed.await {
                    tracing::warn!(job = %seen.job().id, %error, %lost, "the end of a job was not recorded");
                }
            }
        }
        if seen.has_ended() {
            metrics::counter!("hapax_downloads_total", "end" => seen.state().as_str()).increment(1);
        }
    }
}

impl Handler for Download {
    fn run(&self, held: Held) -> Handling<'_> {
        Box::pin(Download::run(self, held))
    }
}
