//! Batches at the fake: they move one step each time they are read, and end as they are told to.

use std::time::{Duration, Instant};

use hapax_core::Fingerprint;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{File, Reply, State, now_s};

/// How a batch ends.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Every line is done.
    Completed,
    /// The input is refused: no file.
    Failed,
    /// The first half of the lines is done.
    Expired,
    /// The first half of the lines is done.
    Cancelled,
}

/// What becomes of a batch.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools, reason = "switches of a test")]
pub struct BatchScript {
    /// How it ends.
    pub fate: Fate,
    /// It stays where it is until it is released.
    pub is_held: bool,
    /// It is not listed for so long after it was created.
    pub listed_after_ms: u64,
    /// The output is in another order than the input.
    pub is_shuffled: bool,
    /// So many lines of the output are there twice.
    pub duplicates: usize,
    /// So many lines of the input have no line in the output.
    pub missing: usize,
    /// So many lines of the output belong to no line of the input.
    pub unknown: usize,
    /// So many lines of the output cannot be read.
    pub broken: usize,
    /// Every line fails, so there is an error file alone.
    pub has_errors_alone: bool,
}

impl Default for BatchScript {
    fn default() -> Self {
        Self {
            fate: Fate::Completed,
            is_held: false,
            listed_after_ms: 0,
            is_shuffled: true,
            duplicates: 0,
            missing: 0,
            unknown: 0,
            broken: 0,
            has_errors_alone: false,
        }
    }
}

pub(super) struct FakeBatch {
    pub(super) id: String,
    pub(super) script: BatchScript,
    status: &'static str,
    asked: Value,
    created_at: u64,
    listed_from: Instant,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    total: usize,
    failed: usize,
    completed: usize,
}

impl FakeBatch {
    pub(super) fn new(id: String, script: BatchScript, asked: Value, total: usize) -> Self {
        Self {
            id,
            listed_from: Instant::now() + Duration::from_millis(script.listed_after_ms),
            script,
            status: "validating",
            asked,
            created_at: now_s(),
            output_file_id: None,
            error_file_id: None,
            total,
            failed: 0,
            completed: 0,
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        Instant::now() >= self.listed_from
    }

    pub(super) fn cancel(&mut self) {
        if matches!(self.status, "validating" | "in_progress" | "finalizing") {
            self.status = "cancelling";
            self.script.fate = Fate::Cancelled;
        }
    }

    pub(super) fn shown(&self) -> Value {
        let faults = json!({
            "object": "list",
            "data": [{"code": "invalid_json_line", "message": "the fake refuses the input", "param": null, "line": 1}],
        });
        json!({
            "id": self.id,
            "object": "batch",
            "endpoint": self.asked["endpoint"],
            "errors": if self.status == "failed" { faults } else { Value::Null },
            "input_file_id": self.asked["input_file_id"],
            "completion_window": self.asked["completion_window"],
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            "expires_at": self.created_at + 86_400,
            "in_progress_at": null, "finalizing_at": null, "completed_at": null, "failed_at": null,
            "expired_at": null, "cancelling_at": null, "cancelled_at": null,
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "metadata": self.asked["metadata"],
        })
    }

    fn next_status(&self) -> &'static str {
        match (self.status, self.script.fate) {
            ("validating", Fate::Failed) => "failed",
            ("validating", _) => "in_progress",
            ("in_progress", Fate::Expired) => "expired",
            ("in_progress", _) => "finalizing",
            ("cancelling", _) | ("finalizing", Fate::Cancelled) => "cancelled",
            ("finalizing", _) => "completed",
            (end, _) => end,
        }
    }
}

impl State {
    /// The batch at this place moves one step, if it is not held.
    pub(super) fn move_batch(&mut self, place: usize) {
        let batch = &self.batches[place];
        let next = batch.next_status();
        if batch.script.is_held || next == batch.status {
            return;
        }
        self.batches[place].status = next;
        if matches!(next, "completed" | "expired" | "cancelled") {
            self.finish(place);
        }
    }

    /// Does the lines of a batch and writes its files.
    fn finish(&mut self, place: usize) {
        let script = self.batches[place].script.clone();
        let input = self.batches[place].asked["input_file_id"].as_str();
        let input = input.and_then(|id| self.files.get(id));
        let input = input.map(|file| lines(&file.content)).unwrap_or_default();
        let done = match script.fate {
            Fate::Completed => input.len().saturating_sub(script.missing),
            Fate::Failed => 0,
            Fate::Expired | Fate::Cancelled => input.len() / 2,
        };
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        for line in &input[..done] {
            let reply = if script.has_errors_alone {
                Reply::Status(500)
            } else {
                self.reply_to(&line["body"])
            };
            let answer = reply.to_chat(self.shape, &line["body"]);
            let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            let id = &line["custom_id"];
            if answer.status == 200 {
                self.counts.lines_answered += 1;
                self.paid(&line["body"]);
                output.push(line_of(
                    id,
                    &json!({"status_code": 200, "request_id": "r", "body": body}),
                    &Value::Null,
                ));
            } else {
                let response =
                    json!({"status_code": answer.status, "request_id": "r", "body": body});
                errors.push(line_of(id, &response, &Value::Null));
            }
        }
        if script.fate != Fate::Completed {
            let code = match script.fate {
                Fate::Expired => "batch_expired",
                _ => "batch_cancelled",
            };
            let error = json!({"code": code, "message": "this line was not done in time"});
            errors.extend(
                input[done..]
                    .iter()
                    .map(|line| line_of(&line["custom_id"], &Value::Null, &error)),
            );
        }
        let counts = (output.len(), errors.len());
        mangle(&mut output, &script);
        let output = self.keep("batch_output", &output);
        let errors = self.keep("batch_errors", &errors);
        let batch = &mut self.batches[place];
        (batch.completed, batch.failed) = counts;
        (batch.output_file_id, batch.error_file_id) = (output, errors);
    }

    fn keep(&mut self, name: &str, lines: &[String]) -> Option<String> {
        if lines.is_empty() {
            return None;
        }
        let id = self.new_id("file");
        let mut content = lines.join("\n").into_bytes();
        content.push(b'\n');
        let file = File {
            name: format!("{name}.jsonl"),
            purpose: "batch_output".to_owned(),
            content,
        };
        self.files.insert(id.clone(), file);
        Some(id)
    }
}

fn line_of(custom_id: &Value, response: &Value, error: &Value) -> String {
    json!({"id": "batch_req", "custom_id": custom_id, "response": response, "error": error})
        .to_string()
}

/// Puts into the output what a provider should not, and into another order what it may.
fn mangle(output: &mut Vec<String>, script: &BatchScript) {
    let twice: Vec<String> = output.iter().take(script.duplicates).cloned().collect();
    output.extend(twice);
    let response = json!({"status_code": 200, "body": {"choices": []}});
    for number in 0..script.unknown {
        let id = json!(format!("somebody-elses-{number}"));
        output.push(line_of(&id, &response, &Value::Null));
    }
    for _ in 0..script.broken {
        output.push("{\"id\":\"batch_req\",\"custom_id\":\"t1:".to_owned());
    }
    if script.is_shuffled {
        output.sort_by_key(|line| Fingerprint::of(line.as_bytes()).hex());
    }
}

/// The lines of a file that are JSON.
pub(super) fn lines(content: &[u8]) -> Vec<Value> {
    content
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
