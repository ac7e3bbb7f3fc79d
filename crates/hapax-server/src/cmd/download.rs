//! `hapax download`: plans the downloads of a manifest and runs them here, with progress. A rerun goes on where the
//! last one stopped.

mod bars;
mod manifest;
mod report;
mod track;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax::job::{Events, Identity, Worker};
use hapax_core::Tenant;
use hapax_core::job::queue::PLANS_MAX;
use hapax_core::job::{
    Act, Deed, Done, Fence, Job, JobKind, NewJob, On, Place, Planned, Queue, State,
};
use hapax_effects::download::{Code, Download, Downloaded, Folder};

use tokio::sync::{Mutex, OnceCell, Semaphore};

use super::serve::{INTERRUPT, Signals};
use crate::cli::Download as Args;
use crate::config::Config;
use crate::exit::Failed;
use crate::store::Store;
use crate::{keep, worker};
use bars::Bars;
use manifest::{Item, Manifest};
use report::Report;
use track::{End, Track};

/// How many jobs are held for each download that may run at a time: the others wait for their turn, or are made durable
/// and recorded.
const HELD_PER_DOWNLOAD: usize = 32;
/// How many jobs are held at most, unless more downloads than that may run at a time.
const HELD_MAX: usize = 256;
/// How long what is in flight may take after SIGTERM: whatever sends it waits for the end.
const GRACE: Duration = Duration::from_secs(3);
/// How long it may take after SIGINT, which a person can send again.
const GRACE_OF_A_PERSON: Duration = Duration::from_secs(3600);
/// How long nothing may be heard before the database is asked whether another process did it.
const QUIET: Duration = Duration::from_secs(2);

pub(super) async fn run(args: &Args) -> Result<()> {
    let mut config = Config::load(&args.plain.store.flags())?;
    config.download_private_addresses |= args.allow_private_addresses;
    let manifest = Manifest::open(&args.manifest)?;
    let mut signals = Signals::watch()?;
    let sources = worker::sources(&config, false);
    keep::make_folder(&config.data)?;
    let store = Store::open(&config).await?;
    let downloader = worker::downloader(sources, args.out.clone()).await?;
    let folder = downloader.folder().clone();
    let place = folder.place().context("naming the folder")?;
    let begun = Instant::now();

    let shows = Bars::are_shown(args.plain.json);
    let track = Arc::new(Track::new(shows));
    let planner = Planner {
        queue: Arc::clone(&store.queue),
        folder,
        place: place.clone(),
        retry_failed: args.retry_failed,
        allows_private: config.download_private_addresses,
        track: Arc::clone(&track),
    };
    planner.plan(manifest).await?;
    let bars = Bars::new(&track, shows);
    let interrupted = if track.left() == 0 {
        false
    } else {
        let (heard, drawn) = (Arc::clone(&track), bars.clone());
        let events = Events::to(move |event| {
            heard.hear(event);
            drawn.hear(event);
        });
        let turns = Arc::new(Semaphore::new(args.concurrency));
        let download = Download::new(downloader, events).in_turns(Arc::clone(&turns));
        let working = Worker::new(Arc::clone(&store.queue))
            .handler(JobKind::DOWNLOAD, download)
            .place(place.clone())
            .concurrency((args.concurrency * HELD_PER_DOWNLOAD).min(HELD_MAX.max(args.concurrency)))
            .ttl(Duration::from_millis(config.worker_lease_ms));
        let others = Others {
            queue: store.queue.as_ref(),
            place: &place,
        };
        let running = Running {
            track: &track,
            turns: &turns,
            at_once: args.concurrency,
            bars: &bars,
        };
        running.until_done(&working, &others, &mut signals).await
    };
    bars.finish();
    let report = Report::of(store.queue.as_ref(), &track, begun.elapsed(), interrupted).await?;
    store.close().await;
    report.print(args.plain.json)?;
    if report.is_good() {
        Ok(())
    } else {
        Err(Failed.into())
    }
}

/// The downloads of this run.
struct Running<'a> {
    track: &'a Track,
    turns: &'a Semaphore,
    /// How many run at a time.
    at_once: usize,
    bars: &'a Bars,
}

impl Running<'_> {
    /// Works until every download of the manifest has ended, or a signal comes. Answers whether one came.
    async fn until_done(
        &self,
        working: &Worker,
        others: &Others<'_>,
        signals: &mut Signals,
    ) -> bool {
        let came = OnceCell::new();
        let signals = Mutex::new(signals);
        let stop = async {
            let mut signals = signals.lock().await;
            tokio::select! {
                () = others.watch(self.track) => {}
                name = signals.next() => {
                    // One name, set once.
                    let _ = came.set(name);
                    self.close(name);
                }
            }
        };
        let enough = async {
            let grace = match came.get() {
                Some(&INTERRUPT) => GRACE_OF_A_PERSON,
                Some(_) | None => GRACE,
            };
            let mut signals = signals.lock().await;
            // A second signal stops at once; what is on disk already is kept for the next run.
            let _ = tokio::time::timeout(grace, signals.next()).await;
        };
        working.run_until(stop, enough).await;
        came.initialized()
    }

    /// Nothing new is fetched; what is being fetched goes on for a while.
    fn close(&self, signal: &str) {
        let fetched = self.at_once.saturating_sub(self.turns.available_permits());
        self.turns.close();
        let downloads = match fetched {
            0 => return self.bars.say("stopping"),
            1 => "1 download".to_owned(),
            n => format!("{n} downloads"),
        };
        if signal == INTERRUPT {
            self.bars
                .say(&format!("finishing {downloads}, again to stop now"));
        } else {
            let seconds = GRACE.as_secs();
            self.bars.say(&format!(
                "stopping in {seconds} s at the latest, finishing {downloads}"
            ));
        }
    }
}

/// What other processes may do to the same jobs: it is not heard of, so the database is asked.
struct Others<'a> {
    queue: &'a dyn Queue,
    place: &'a Place,
}

impl Others<'_> {
    /// Ends when every download of the manifest has. When it is quiet, the database is asked.
    async fn watch(&self, track: &Track) {
        let mut asked = Instant::now();
        while track.left() > 0 {
            let quiet = || track.heard().map_or(asked, |heard| heard.max(asked)) + QUIET;
            // What is heard wakes nobody here until all have ended: it is heard many times for each download.
            let all_ended = tokio::time::timeout_at(quiet().into(), track.ended());
            if all_ended.await.is_ok() || quiet() > Instant::now() {
                continue;
            }
            asked = Instant::now();
            for id in track.some_left() {
                match self.queue.job(Tenant::DEFAULT, id.clone()).await {
                    Ok(Some((job, _))) if job.place != *self.place => {
                        track.end(&id, End::Elsewhere);
                    }
                    Ok(Some((job, _))) if job.state.is_terminal() => {
                        track.end(&id, End::of(job.state));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "the database could not be asked");
                        break;
                    }
                }
            }
        }
    }
}

/// Plans what the manifest names, and looks at what is there already.
struct Planner {
    queue: Arc<dyn Queue>,
    folder: Folder,
    place: Place,
    retry_failed: bool,
    allows_private: bool,
    track: Arc<Track>,
}

impl Planner {
    async fn plan(&self, manifest: Manifest) -> Result<()> {
        let mut batch: Vec<Item> = Vec::new();
        for line in manifest {
            match line? {
                Ok(item) => batch.push(item),
                Err(bad) => self.track.refuse(bad),
            }
            if batch.len() == PLANS_MAX {
                self.plan_batch(std::mem::take(&mut batch)).await?;
            }
        }
        self.plan_batch(batch).await
    }

    async fn plan_batch(&self, items: Vec<Item>) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let jobs = items
            .into_iter()
            .map(|item| item.job.in_place(self.place.clone()));
        let jobs: Vec<NewJob> = jobs.collect();
        let wanted: Vec<_> = jobs.iter().map(|job| job.payload().cloned()).collect();
        let planned = self.queue.plan(Tenant::DEFAULT, jobs).await?;
        let mut acts = Vec::new();
        for (Planned { job, planned }, wanted) in planned.into_iter().zip(wanted) {
            self.track.call(&job);
            if planned {
                self.track.add(&job.id, None);
                continue;
            }
            match self.look(&job, wanted.as_ref()) {
                Look::Ended(end) => self.track.add(&job.id, Some(end)),
                Look::Open(deed) => {
                    self.track.add(&job.id, None);
                    acts.extend(deed.map(|(fence, deed)| Act {
                        on: On::Job(job.id.clone()),
                        fence,
                        deed,
                    }));
                }
            }
        }
        for (act, done) in acts
            .clone()
            .into_iter()
            .zip(self.queue.apply(Tenant::DEFAULT, acts).await?)
        {
            if let (Err(refusal), On::Job(id)) = (done.map(|_: Done| ()), act.on) {
                // Somebody was quicker: whoever holds it brings it to its end, and that is watched.
                tracing::debug!(%refusal, job = %id, "a job was left as it is");
            }
        }
        Ok(())
    }

    /// What is to be done about a job that was planned before.
    fn look(&self, job: &Job, wanted: Option<&Arc<str>>) -> Look {
        let redo = || {
            Some((
                Fence::none(),
                Deed::Redo {
                    place: self.place.clone(),
                },
            ))
        };
        let is_elsewhere = job.place != self.place;
        // What the server's worker or a worker over the API has begun is theirs, and so is what was planned there with
        // other words on what the file shall be: they are not the manifest's. Another folder's is fetched here too.
        let is_other = job.attempts > 0 || job.payload.as_ref() != wanted;
        let is_theirs = job.place == Place::default() && is_other;
        match job.state {
            _ if is_elsewhere && (is_theirs || job.is_held(self.queue.time())) => {
                Look::Ended(End::Elsewhere)
            }
            _ if is_elsewhere => Look::Open(redo()),
            State::Dead if self.is_blocked_no_more(job) => {
                Look::Open(Some((Fence::none(), Deed::Retry)))
            }
            State::Dead if self.retry_failed => Look::Open(Some((Fence::none(), Deed::Retry))),
            State::Dead => Look::Ended(End::Failed),
            State::Indexed | State::Deduped | State::SkippedDuplicate => {
                if self.is_there(job) {
                    Look::Ended(End::Already)
                } else {
                    Look::Open(redo())
                }
            }
            State::Planned
            | State::Leased
            | State::HeadDone
            | State::ResumeOk
            | State::Streaming
            | State::Finalized
            | State::Failed => Look::Open(job.lease.as_ref().and_then(|hold| {
                let give_back = (Fence::of(&hold.owner, job.epoch), Deed::Release);
                Identity::is_dead(&hold.owner).then_some(give_back)
            })),
        }
    }

    /// Whether it was given up only because its address was not allowed, and now it is.
    fn is_blocked_no_more(&self, job: &Job) -> bool {
        let code = Code::SsrfBlocked.as_str();
        self.allows_private && job.error.as_deref().is_some_and(|why| why.contains(code))
    }

    /// Whether what the job made is on disk, as far as its size tells.
    fn is_there(&self, job: &Job) -> bool {
        let Some(made) = job
            .result
            .as_deref()
            .and_then(|text| serde_json::from_str::<Downloaded>(text).ok())
        else {
            return false;
        };
        let has_size = |path: &str| {
            let found = std::fs::symlink_metadata(self.folder.path().join(path));
            found.is_ok_and(|found| found.is_file() && found.len() == made.size)
        };
        has_size(&made.object) && has_size(&made.file)
    }
}

/// What a job that was planned before needs.
enum Look {
    /// Nothing.
    Ended(End),
    /// To be run, after this if anything.
    Open(Option<(Fence, Deed)>),
}
