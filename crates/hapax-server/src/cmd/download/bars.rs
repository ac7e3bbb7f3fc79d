//! Progress for a person at a terminal: one line for all, one for each download in flight. Nothing in a pipe.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hapax::job::Event;
use hapax_core::job::JobId;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::track::Track;
use crate::out;

/// How many downloads have a line of their own.
const LINES_MAX: usize = 16;

/// The lines.
#[derive(Clone)]
pub(super) struct Bars {
    inner: Option<Arc<Inner>>,
}

struct Inner {
    lines: MultiProgress,
    all: ProgressBar,
    track: Arc<Track>,
    running: Mutex<HashMap<JobId, ProgressBar>>,
}

impl Bars {
    /// Whether there are lines: standard error is a terminal, and nobody asked for JSON.
    pub(super) fn are_shown(json: bool) -> bool {
        !json && std::io::stderr().is_terminal()
    }

    /// Lines on standard error, if they are shown.
    pub(super) fn new(track: &Arc<Track>, are_shown: bool) -> Self {
        if !are_shown {
            return Self { inner: None };
        }
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let all = lines.add(ProgressBar::new(track.total() as u64));
        all.set_style(style(
            "{bar:30.green} {pos}/{len} files  {msg}  {elapsed} elapsed, {eta} left",
        ));
        all.set_position((track.total() - track.left()) as u64);
        all.reset_eta();
        all.enable_steady_tick(Duration::from_millis(500));
        let inner = Inner {
            lines,
            all,
            track: Arc::clone(track),
            running: Mutex::default(),
        };
        Self {
            inner: Some(Arc::new(inner)),
        }
    }

    /// Shows what the runner tells.
    pub(super) fn hear(&self, event: &Event) {
        let Some(inner) = &self.inner else { return };
        let mut running = inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Progress {
                job, done, total, ..
            } => {
                if !running.contains_key(job) && running.len() < LINES_MAX {
                    let line = inner.lines.add(ProgressBar::new(total.unwrap_or(0)));
                    line.set_style(style(
                        "  {bytes:>11} of {total_bytes:11} {bytes_per_sec:>13}  {wide_msg}",
                    ));
                    let name = inner.track.name(job);
                    line.set_message(name.map_or_else(|| job.to_string(), String::from));
                    line.set_position(*done);
                    line.reset_eta();
                    running.insert(job.clone(), line);
                }
                if let Some(line) = running.get(job) {
                    line.set_length(total.unwrap_or(*done).max(*done));
                    line.set_position(*done);
                }
            }
            Event::Ended { job, .. } => {
                if let Some(line) = running.remove(job) {
                    line.finish_and_clear();
                    inner.lines.remove(&line);
                }
                inner
                    .all
                    .set_position((inner.track.total() - inner.track.left()) as u64);
            }
            _ => return,
        }
        let bytes = inner.track.bytes();
        let seconds = inner.all.elapsed().as_secs_f64().max(0.001);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate that people read"
        )]
        let rate = (bytes as f64 / seconds) as u64;
        inner.all.set_message(format!(
            "{} at {}/s",
            indicatif::HumanBytes(bytes),
            indicatif::HumanBytes(rate)
        ));
    }

    /// Says something to a person, above the lines.
    pub(super) fn say(&self, text: &str) {
        match &self.inner {
            Some(inner) => inner.lines.suspend(|| out::note(text)),
            None => out::note(text),
        }
    }

    /// Takes the lines away.
    pub(super) fn finish(&self) {
        if let Some(inner) = &self.inner {
            inner.all.finish_and_clear();
            // What could not be cleared is only ugly.
            let _ = inner.lines.clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
