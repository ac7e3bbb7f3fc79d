//! Every call is seen: a span, metrics and one line in the log, also when nobody waits for its end. What is asked and
//! answered is in none of them unless the configuration says so.

use std::time::{Duration, Instant};

use tracing::Span;

use super::{LlmError, Usage};
use crate::enrich::parse::cut;

/// How much of what was asked or answered the log holds.
const LOGGED_BYTES_MAX: usize = 4096;

/// What is asked of the provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Chat,
    Upload,
    CreateBatch,
    ReadBatch,
    ListBatches,
    ReadFile,
}

impl Operation {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Upload => "upload",
            Self::CreateBatch => "create_batch",
            Self::ReadBatch => "read_batch",
            Self::ListBatches => "list_batches",
            Self::ReadFile => "read_file",
        }
    }
}

/// Tells the metrics what they mean. Doing it again changes nothing.
pub(super) fn describe() {
    metrics::describe_counter!(
        "hapax_llm_calls_total",
        "Calls to the provider of language models, by operation, model, prompt mode and status."
    );
    metrics::describe_histogram!(
        "hapax_llm_call_seconds",
        "Time of a call, tries and waits included, by operation and model."
    );
    metrics::describe_counter!(
        "hapax_llm_retries_total",
        "Tries that were followed by another, by operation and status."
    );
    metrics::describe_counter!(
        "hapax_llm_prompt_tokens_total",
        "Tokens sent, by model and prompt mode."
    );
    metrics::describe_counter!(
        "hapax_llm_completion_tokens_total",
        "Tokens answered, by model and prompt mode."
    );
}

/// One call, from its beginning to its end.
pub(super) struct Watch {
    span: Span,
    operation: Operation,
    model: String,
    mode: &'static str,
    began: Instant,
    tries: u32,
    usage: Option<Usage>,
    /// What it ended with. Nothing yet: its future was dropped.
    status: Option<String>,
}

impl Watch {
    pub(super) fn new(operation: Operation, model: &str, mode: &'static str) -> Self {
        let span = tracing::info_span!(
            "llm.call",
            operation = operation.as_str(),
            model,
            prompt_mode = mode,
            status = tracing::field::Empty,
            tries = tracing::field::Empty,
            duration_ms = tracing::field::Empty,
            prompt_tokens = tracing::field::Empty,
            completion_tokens = tracing::field::Empty,
        );
        Self {
            span,
            operation,
            model: model.to_owned(),
            mode,
            began: Instant::now(),
            tries: 0,
            usage: None,
            status: None,
        }
    }

    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(super) fn spent(&self) -> Duration {
        self.began.elapsed()
    }

    /// Another try begins. Answers its number, from 1.
    pub(super) fn try_begins(&mut self) -> u32 {
        self.tries += 1;
        self.tries
    }

    /// A try failed and there will be another.
    pub(super) fn will_retry(&self, error: &LlmError, wait: Duration) {
        let status = status(error);
        metrics::counter!(
            "hapax_llm_retries_total", "operation" => self.operation.as_str(), "status" => status.clone()
        )
        .increment(1);
        tracing::warn!(
            operation = self.operation.as_str(),
            model = self.model,
            status,
            tries = self.tries,
            wait_ms = ms(wait),
            error = %error,
            "the provider is tried again"
        );
    }

    /// What was asked or answered, for a log that may hold it.
    pub(super) fn text(&self, what: &'static str, text: &str) {
        let _entered = self.span.enter();
        tracing::info!(what, text = cut(text, LOGGED_BYTES_MAX), "llm text");
    }

    pub(super) fn used(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// It ended with this status, or without one.
    pub(super) fn ends(mut self, end: Result<u16, &LlmError>) {
        self.status = Some(match end {
            Ok(status) => status.to_string(),
            Err(error) => status(error),
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let status = self.status.take();
        let status = status.unwrap_or_else(|| "cancelled".to_owned());
        let took = self.began.elapsed();
        let (operation, mode) = (self.operation.as_str(), self.mode);
        let model = || self.model.clone();
        metrics::counter!(
            "hapax_llm_calls_total",
            "operation" => operation, "model" => model(), "prompt_mode" => mode, "status" => status.clone()
        )
        .increment(1);
        metrics::histogram!("hapax_llm_call_seconds", "operation" => operation, "model" => model())
            .record(took.as_secs_f64());
        if let Some(usage) = self.usage {
            count_tokens(&self.model, mode, usage);
        }
        let usage = self.usage.unwrap_or_default();
        self.span.record("status", status.as_str());
        self.span.record("tries", self.tries);
        self.span.record("duration_ms", ms(took));
        self.span.record("prompt_tokens", usage.prompt_tokens);
        self.span
            .record("completion_tokens", usage.completion_tokens);
        let _entered = self.span.enter();
        tracing::info!(
            operation,
            model = self.model,
            prompt_mode = mode,
            status,
            tries = self.tries,
            duration_ms = ms(took),
            prompt_tokens = usage.prompt_tokens,
            completion_tokens = usage.completion_tokens,
            "llm call"
        );
    }
}

pub(super) fn count_tokens(model: &str, mode: &'static str, usage: Usage) {
    let model = || model.to_owned();
    metrics::counter!("hapax_llm_prompt_tokens_total", "model" => model(), "prompt_mode" => mode)
        .increment(usage.prompt_tokens);
    metrics::counter!("hapax_llm_completion_tokens_total", "model" => model(), "prompt_mode" => mode)
        .increment(usage.completion_tokens);
}

/// The HTTP status where there is one, else the word for what went wrong.
fn status(error: &LlmError) -> String {
    match error {
        LlmError::Refused { status, .. } => status.to_string(),
        LlmError::RateLimited { .. } => "429".to_owned(),
        other => other.as_str().to_owned(),
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
