//! Which downloads of the manifest have ended, and how. Small: a manifest may have millions of lines.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hapax::job::Event;
use hapax_core::job::{Job, JobId, State};
use tokio::sync::Notify;

use super::manifest::Bad;

/// How many are looked up in one go.
const SOME: usize = 200;
/// How many bad lines are told one by one.
const BAD_MAX: usize = 1000;

/// How a download ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Downloaded,
    Deduped,
    Skipped,
    /// It was there before this run.
    Already,
    /// It belongs to another folder, or to the server.
    Elsewhere,
    Failed,
}

impl End {
    /// What a terminal state says.
    pub(super) fn of(state: State) -> Self {
        match state {
            State::Deduped => End::Deduped,
            State::SkippedDuplicate => End::Skipped,
            State::Indexed => End::Downloaded,
            State::Dead
            | State::Planned
            | State::Leased
            | State::HeadDone
            | State::ResumeOk
            | State::Streaming
            | State::Finalized
            | State::Failed => End::Failed,
        }
    }
}

/// What is known of the manifest's downloads.
#[derive(Default)]
pub(super) struct Track {
    inner: Mutex<Inner>,
    /// Told when all have ended.
    ended: Notify,
}

#[derive(Default)]
struct Inner {
    items: HashMap<JobId, Option<End>>,
    /// The names of those that have not ended, if somebody watches.
    names: Option<HashMap<JobId, Box<str>>>,
    left: usize,
    bad: Vec<Bad>,
    bad_count: u64,
    /// The bytes that came in this run.
    bytes: u64,
    /// When something was last heard of a download.
    heard: Option<Instant>,
    /// How far each running download is; gone when it ends.
    at: HashMap<JobId, u64>,
}

impl Track {
    /// Nothing yet. Names are kept where they are shown.
    pub(super) fn new(keeps_names: bool) -> Self {
        let track = Self::default();
        track.inner().names = keeps_names.then(HashMap::new);
        track
    }

    /// A download of the manifest, and how it ended if it has. The same one twice counts once.
    pub(super) fn add(&self, id: &JobId, end: Option<End>) {
        let mut inner = self.inner();
        match (inner.items.insert(id.clone(), end), end) {
            (None | Some(Some(_)), None) => inner.left += 1,
            (Some(None), Some(_)) => inner.left -= 1,
            (None | Some(Some(_)), Some(_)) | (Some(None), None) => {}
        }
    }

    /// Keeps what the file of a download that is to run will be called, if names are shown.
    pub(super) fn call(&self, job: &Job) {
        if let Some(names) = &mut self.inner().names {
            let name = format!("{}/{}", job.work_id, job.artifact_id);
            names.insert(job.id.clone(), name.into());
        }
    }

    /// What the file of a download will be called, if that is known.
    pub(super) fn name(&self, id: &JobId) -> Option<Box<str>> {
        self.inner().names.as_ref()?.get(id).cloned()
    }

    /// A line that names no download.
    pub(super) fn refuse(&self, bad: Bad) {
        let mut inner = self.inner();
        inner.bad_count += 1;
        if inner.bad.len() < BAD_MAX {
            inner.bad.push(bad);
        }
    }

    /// A download ended.
    pub(super) fn end(&self, id: &JobId, end: End) {
        let mut inner = self.inner();
        inner.heard = Some(Instant::now());
        inner.at.remove(id);
        if let Some(names) = &mut inner.names {
            names.remove(id);
        }
        if let Some(item @ None) = inner.items.get_mut(id) {
            *item = Some(end);
            inner.left -= 1;
        }
        if inner.left == 0 {
            drop(inner);
            self.ended.notify_one();
        }
    }

    /// What the runner tells.
    pub(super) fn hear(&self, event: &Event) {
        match event {
            Event::Progress { job, done, .. } => {
                let mut inner = self.inner();
                // What an earlier manifest left in the folder is not this one's.
                if !inner.items.contains_key(job) {
                    return;
                }
                // What was there before this run began with it was not fetched now.
                let before = inner.at.insert(job.clone(), *done).unwrap_or(*done);
                inner.bytes += done.saturating_sub(before);
                inner.heard = Some(Instant::now());
            }
            Event::Ended { job, state } if state.is_terminal() => self.end(job, End::of(*state)),
            Event::Ended { job, .. } => {
                let mut inner = self.inner();
                inner.heard = Some(Instant::now());
                inner.at.remove(job);
            }
            _ => {}
        }
    }

    /// How many have not ended.
    pub(super) fn left(&self) -> usize {
        self.inner().left
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.inner().items.len()
    }

    /// The bytes that came in this run.
    pub(super) fn bytes(&self) -> u64 {
        self.inner().bytes
    }

    /// Some of those that have not ended.
    pub(super) fn some_left(&self) -> Vec<JobId> {
        let inner = self.inner();
        let left = inner.items.iter().filter(|(_, end)| end.is_none());
        left.map(|(id, _)| id.clone()).take(SOME).collect()
    }

    /// The ids of those that ended so, or have not ended.
    pub(super) fn ids(&self, end: Option<End>) -> Vec<JobId> {
        let inner = self.inner();
        let mut ids: Vec<JobId> = inner
            .items
            .iter()
            .filter(|(_, has)| **has == end)
            .map(|(id, _)| id.clone())
            .collect();
        ids.sort();
        ids
    }

    /// How many ended so.
    pub(super) fn count(&self, end: End) -> u64 {
        self.inner()
            .items
            .values()
            .filter(|has| **has == Some(end))
            .count() as u64
    }

    /// The bad lines, and how many there were.
    pub(super) fn bad(&self) -> (Vec<(u64, String)>, u64) {
        let inner = self.inner();
        (
            inner
                .bad
                .iter()
                .map(|bad| (bad.line, bad.why.clone()))
                .collect(),
            inner.bad_count,
        )
    }

    /// When something was last heard of a download, if ever.
    pub(super) fn heard(&self) -> Option<Instant> {
        self.inner().heard
    }

    /// Ends when all have ended.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_before_this_run_does_not_count_as_fetched_now() {
        let track = Track::default();
        let job = JobId::new("j").unwrap();
        track.add(&job, None);
        for done in [500, 700, 900] {
            let (job, node) = (job.clone(), "STREAM".into());
            track.hear(&Event::Progress {
                job,
                node,
                done,
                total: None,
                unit: "bytes".into(),
            });
        }
        assert_eq!(track.bytes(), 400);
    }

    #[test]
    fn a_download_ends_once() {
        let track = Track::default();
        let job = JobId::new("j").unwrap();
        track.add(&job, None);
        track.add(&job, None);
        track.end(&job, End::Downloaded);
        track.end(&job, End::Failed);
        assert_eq!(
            (
                track.left(),
                track.count(End::Downloaded),
                track.count(End::Failed)
            ),
            (0, 1, 0)
        );
    }
}
