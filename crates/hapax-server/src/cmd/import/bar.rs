//! Progress of an import: a bar on a terminal, a line now and then in a pipe, nothing beside JSON.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hapax_core::entry::{Counts, Import, Step};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::import::mailbox::Watched;
use crate::out;

/// How often a line is said in a pipe.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The progress. Cloning it is cheap.
#[derive(Clone)]
pub(super) struct Bar {
    inner: Arc<Inner>,
}

struct Inner {
    form: Form,
    file_bytes: u64,
    watched: Watched,
    began: Instant,
    /// How many messages were there when this run began, once that is known.
    first: Mutex<Option<u64>>,
}

enum Form {
    Bar(ProgressBar),
    Lines(Mutex<Instant>),
    Nothing,
}

impl Bar {
    pub(super) fn new(file_bytes: u64, watched: &Watched, json: bool) -> Self {
        let form = if json {
            Form::Nothing
        } else if std::io::stderr().is_terminal() {
            let target = ProgressDrawTarget::stderr_with_hz(10);
            let bar = ProgressBar::with_draw_target(Some(file_bytes), target);
            let style = ProgressStyle::with_template(
                "{bar:30.green} {bytes} of {total_bytes}  {msg}  {elapsed} elapsed, {eta} left",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(500));
            Form::Bar(bar)
        } else {
            Form::Lines(Mutex::new(Instant::now()))
        };
        let inner = Inner {
            form,
            file_bytes,
            watched: watched.clone(),
            began: Instant::now(),
            first: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Shows how far the import is.
    pub(super) fn tell(&self, import: &Import) {
        let total = import.counts.total_messages;
        let first = {
            let mut first = self.inner.first.lock();
            let first = first.as_mut().map_err(|_| ());
            match first {
                Ok(first) => *first.get_or_insert(total),
                Err(()) => total,
            }
        };
        let rate = rate(total - first.min(total), self.inner.began.elapsed());
        let said = said(&import.counts, rate, import.step);
        match &self.inner.form {
            Form::Bar(bar) => {
                let at = match import.step {
                    Step::Reading => self.position(import),
                    Step::Queueing => self.inner.file_bytes,
                };
                if bar.position() == 0 && at > 0 && first > 0 {
                    bar.set_position(at);
                    bar.reset_eta();
                }
                bar.set_position(at);
                bar.set_message(said);
            }
            Form::Lines(last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.elapsed() >= LINE_EVERY {
                    *last = Instant::now();
                    let at = HumanBytes(self.position(import));
                    let all = HumanBytes(self.inner.file_bytes);
                    out::note(&format!("{at} of {all}, {said}"));
                }
            }
            Form::Nothing => {}
        }
    }

    /// Where in the file it is: of a compressed one, where the reader is.
    fn position(&self, import: &Import) -> u64 {
        match import.asked.bytes {
            Some(_) => import.cursor.offset.min(self.inner.file_bytes),
            None => self.inner.watched.read_bytes(),
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Form::Bar(bar) = &self.inner.form {
            bar.finish_and_clear();
        }
    }
}

fn rate(messages: u64, took: Duration) -> u64 {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    messages.saturating_mul(1000) / ms
}

fn said(counts: &Counts, rate: u64, step: Step) -> String {
    let doing = match step {
        Step::Reading => "",
        Step::Queueing => ", queueing for enrichment",
    };
    format!(
        "{} messages at {rate}/s: {} inserted, {} updated, {} skipped, {} errors{doing}",
        counts.total_messages,
        counts.inserted,
        counts.updated,
        counts.skipped,
        counts.normalize_errors + counts.insert_errors,
    )
}
