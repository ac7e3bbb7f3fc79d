//! What came of a manifest: a summary, and a table of what failed and why.

use std::time::Duration;

use anyhow::Result;
use hapax_core::Tenant;
use hapax_core::job::{JobId, Queue};
use hapax_effects::download::Code;
use serde::Serialize;

use super::track::{End, Track};
use crate::out::{self, Tone, plain};

/// How many failures are told one by one.
const TOLD_MAX: usize = 1000;

/// What came of it.
#[derive(Serialize)]
pub(super) struct Report {
    total: u64,
    downloaded: u64,
    deduped: u64,
    skipped: u64,
    already: u64,
    failed: u64,
    unfinished: u64,
    bad_lines: u64,
    bytes: u64,
    seconds: f64,
    interrupted: bool,
    failures: Vec<Failure>,
}

/// One that failed.
#[derive(Serialize)]
struct Failure {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    job_id: Option<String>,
    work_id: Option<String>,
    artifact_id: Option<String>,
    canonical_url: Option<String>,
    error: String,
}

impl Report {
    /// Asks the queue why what failed did.
    pub(super) async fn of(
        queue: &dyn Queue,
        track: &Track,
        took: Duration,
        interrupted: bool,
    ) -> Result<Self> {
        let (bad, bad_lines) = track.bad();
        let mut failures: Vec<Failure> = bad
            .into_iter()
            .map(|(line, why)| Failure {
                line: Some(line),
                job_id: None,
                work_id: None,
                artifact_id: None,
                canonical_url: None,
                error: why,
            })
            .collect();
        let elsewhere = track.ids(Some(End::Elsewhere));
        let failed = track.ids(Some(End::Failed));
        for id in elsewhere.into_iter().take(TOLD_MAX) {
            let error =
                "it belongs to another folder or to the server; use another --data".to_owned();
            failures.push(Failure {
                error,
                ..failure(queue, id).await?
            });
        }
        for id in failed.into_iter().take(TOLD_MAX) {
            failures.push(failure(queue, id).await?);
        }
        Ok(Self {
            total: track.total() as u64 + bad_lines,
            downloaded: track.count(End::Downloaded),
            deduped: track.count(End::Deduped),
            skipped: track.count(End::Skipped),
            already: track.count(End::Already),
            failed: track.count(End::Failed) + track.count(End::Elsewhere),
            unfinished: track.left() as u64,
            bad_lines,
            bytes: track.bytes(),
            seconds: took.as_secs_f64(),
            interrupted,
            failures,
        })
    }

    /// Whether everything is there.
    pub(super) fn is_good(&self) -> bool {
        self.failed == 0 && self.unfinished == 0 && self.bad_lines == 0
    }

    /// Prints it.
    pub(super) fn print(&self, json: bool) -> Result<()> {
        if json {
            return out::json(&serde_json::to_value(self)?);
        }
        if !self.failures.is_empty() {
            let rows: Vec<_> = self.failures.iter().map(Failure::row).collect();
            out::table(&["Work", "Artifact", "URL", "Why"], &rows)?;
        }
        let told = self.failures.len() as u64;
        let failed = self.failed + self.bad_lines;
        if failed > told {
            out::line(&format!("and {} more that failed", failed - told))?;
        }
        out::line(&format!(
            "{} files: {} downloaded, {} of the same content, {} known before, {} there already, {failed} failed; {} in {:.1} s",
            self.total,
            self.downloaded,
            self.deduped,
            self.skipped,
            self.already,
            indicatif::HumanBytes(self.bytes),
            self.seconds,
        ))?;
        if self.unfinished > 0 {
            out::note(&format!(
                "{} are not finished\nhint: run the same command again to go on",
                self.unfinished
            ));
        } else if self.failed > 0 && self.failures.iter().any(Failure::is_blocked) {
            out::note(
                "hint: to fetch from addresses of your own network, add --allow-private-addresses",
            );
        } else if self.failed > 0 {
            out::note("hint: to try again what failed, add --retry-failed");
        }
        Ok(())
    }
}

async fn failure(queue: &dyn Queue, id: JobId) -> Result<Failure> {
    let found = queue.job(Tenant::DEFAULT, id.clone()).await?;
    let why = "the job is gone from the database".to_owned();
    let job = found.map(|(job, _)| job);
    Ok(Failure {
        line: None,
        job_id: Some(id.to_string()),
        work_id: job.as_ref().map(|job| job.work_id.clone()),
        artifact_id: job.as_ref().map(|job| job.artifact_id.clone()),
        canonical_url: job.as_ref().map(|job| job.canonical_url.clone()),
        error: job.map_or(why, |job| {
            job.error
                .map_or_else(|| "it failed".to_owned(), |error| error.to_string())
        }),
    })
}

impl Failure {
    /// Whether it was refused because of the address that its host leads to.
    fn is_blocked(&self) -> bool {
        self.error.contains(Code::SsrfBlocked.as_str())
    }

    fn row(&self) -> Vec<out::Field> {
        let text = |text: &Option<String>| plain(text.as_deref().unwrap_or("-"));
        let work = match self.line {
            Some(line) => plain(&format!("line {line}")),
            None => text(&self.work_id),
        };
        vec![
            work,
            text(&self.artifact_id),
            text(&self.canonical_url),
            (self.error.clone(), Tone::Bad),
        ]
    }
}
