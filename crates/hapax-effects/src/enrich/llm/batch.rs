//! A batch as the provider shows it. Fields that are not known are left out, states that are not known are kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::id::{BatchId, FileId};
use super::refusal::one_line;
use crate::enrich::Invalid;
use crate::enrich::prompt::CHAT_ENDPOINT;

/// How many pairs a batch's metadata may have.
pub const METADATA_PAIRS_MAX: usize = 16;
/// How long the name of a pair may be.
pub const METADATA_NAME_CHARS_MAX: usize = 64;
/// How long the value of a pair may be.
pub const METADATA_VALUE_CHARS_MAX: usize = 512;
/// How many of a batch's faults are kept.
const FAULTS_MAX: usize = 20;
const MESSAGE_CHARS_MAX: usize = 500;

/// A batch to be created.
///
/// ```
/// use hapax_effects::enrich::{FileId, NewBatch};
///
/// let batch = NewBatch::new(FileId::new("file-1")?, "24h", [("hapax_op", "op-1")])?;
/// assert_eq!(batch.endpoint, "/v1/chat/completions");
/// assert!(NewBatch::new(FileId::new("file-1")?, "24h", [("hapax_op", "x".repeat(513))]).is_err());
/// # Ok::<(), hapax_effects::enrich::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct NewBatch {
    /// The file with its lines.
    pub input_file_id: FileId,
    /// Where the provider sends every line.
    pub endpoint: String,
    /// How long it may take, such as `24h`.
    pub completion_window: String,
    /// What it can be found again by.
    pub metadata: BTreeMap<String, String>,
    /// The logical model whose settings LiteLLM creates it with. Without one LiteLLM sends a request that broke off
    /// again, whatever its configuration says, and so makes two batches; with one its `num_retries` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl NewBatch {
    /// A batch of chats.
    ///
    /// # Errors
    /// [`Invalid`] when the metadata has more or longer pairs than providers keep.
    pub fn new<I, K, V>(
        input_file_id: FileId,
        completion_window: &str,
        metadata: I,
    ) -> Result<Self, Invalid>
    where
        I: IntoIterator<Item = (K, V)>,
        K: Into<String>,
        V: Into<String>,
    {
        let metadata: BTreeMap<String, String> = metadata
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        if metadata.len() > METADATA_PAIRS_MAX {
            return Err(Invalid::new("metadata", "has more than 16 pairs"));
        }
        for (name, value) in &metadata {
            if name.is_empty() || name.chars().count() > METADATA_NAME_CHARS_MAX {
                let why = "has a name that is not 1 to 64 characters long";
                return Err(Invalid::new("metadata", why));
            }
            if value.chars().count() > METADATA_VALUE_CHARS_MAX {
                let why = "has a value of more than 512 characters";
                return Err(Invalid::new("metadata", why));
            }
        }
        Ok(Self {
            input_file_id,
            endpoint: CHAT_ENDPOINT.to_owned(),
            completion_window: completion_window.to_owned(),
            metadata,
            model: None,
        })
    }

    /// The same, created with the settings of this logical model.
    #[must_use]
    pub fn with_model(mut self, model: &str) -> Self {
        self.model = Some(model.to_owned());
        self
    }
}

/// Where a batch is.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
#[serde(from = "String", into = "String")]
pub enum BatchStatus {
    /// The input is being looked at.
    Validating,
    /// The lines are being done.
    InProgress,
    /// The files are being written.
    Finalizing,
    /// Done. Single lines may have failed.
    Completed,
    /// The input was refused: nothing was done.
    Failed,
    /// Its time ran out. What was done by then has its output.
    Expired,
    /// It is being stopped.
    Cancelling,
    /// It was stopped. What was done by then has its output.
    Cancelled,
    /// A word that is not known. It is taken for one on the way.
    Other(String),
}

impl BatchStatus {
    /// The provider's word for it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Validating => "validating",
            Self::InProgress => "in_progress",
            Self::Finalizing => "finalizing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
            Self::Other(word) => word,
        }
    }

    /// Whether nothing will change any more.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Expired | Self::Cancelled => true,
            Self::Validating
            | Self::InProgress
            | Self::Finalizing
            | Self::Cancelling
            | Self::Other(_) => false,
        }
    }
}

impl From<String> for BatchStatus {
    fn from(word: String) -> Self {
        match word.as_str() {
            "validating" => Self::Validating,
            "in_progress" => Self::InProgress,
            "finalizing" => Self::Finalizing,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "expired" => Self::Expired,
            "cancelling" => Self::Cancelling,
            "cancelled" => Self::Cancelled,
            _ => Self::Other(one_line(word.as_bytes(), 64)),
        }
    }
}

impl From<BatchStatus> for String {
    fn from(status: BatchStatus) -> Self {
        status.as_str().to_owned()
    }
}

impl fmt::Display for BatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many lines of a batch are where.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct BatchCounts {
    /// All.
    pub total: u64,
    /// Those that have an answer.
    pub completed: u64,
    /// Those that have none.
    pub failed: u64,
}

/// Why the input of a batch was refused.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct BatchFault {
    /// The provider's word for it.
    pub code: Option<String>,
    /// The provider's sentence for it, cut.
    pub message: String,
    /// The line that it is about.
    pub line: Option<u64>,
}

/// A batch at the provider. It can be stored and read back.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Batch {
    /// Its name.
    pub id: BatchId,
    /// Where it is.
    pub status: BatchStatus,
    /// The file with its lines.
    pub input_file_id: Option<FileId>,
    /// The file with the answers, if there are any.
    pub output_file_id: Option<FileId>,
    /// The file with the failures, if there are any. It can be the only one.
    pub error_file_id: Option<FileId>,
    /// How many lines are where.
    pub counts: BatchCounts,
    /// What it can be found again by.
    pub metadata: BTreeMap<String, String>,
    /// Why its input was refused.
    pub faults: Vec<BatchFault>,
    /// When it was created, in seconds since 1970.
    pub created_at: Option<i64>,
}

impl Batch {
    /// Reads a batch.
    ///
    /// # Errors
    /// What is wrong with it, if it has no id or no status.
    pub fn read(body: &Value) -> Result<Self, String> {
        let id = body["id"].as_str().ok_or("the batch has no id")?;
        let status = body["status"].as_str().ok_or("the batch has no status")?;
        // Some backends answer an empty text where there is no file.
        let file = |name: &str| match body[name].as_str() {
            None | Some("") => Ok(None),
            Some(id) => FileId::new(id).map(Some),
        };
        let told = |error: Invalid| error.to_string();
        let count = |name: &str| body["request_counts"][name].as_u64().unwrap_or(0);
        Ok(Self {
            id: BatchId::new(id).map_err(told)?,
            status: BatchStatus::from(status.to_owned()),
            input_file_id: file("input_file_id").map_err(told)?,
            output_file_id: file("output_file_id").map_err(told)?,
            error_file_id: file("error_file_id").map_err(told)?,
            counts: BatchCounts {
                total: count("total"),
                completed: count("completed"),
                failed: count("failed"),
            },
            metadata: metadata(&body["metadata"]),
            faults: faults(&body["errors"]),
            created_at: body["created_at"].as_i64(),
        })
    }
}

fn metadata(given: &Value) -> BTreeMap<String, String> {
    let pairs = given.as_object().into_iter().flatten();
    pairs
        .map(|(name, value)| {
            let text = value.as_str().map(str::to_owned);
            (name.clone(), text.unwrap_or_else(|| value.to_string()))
        })
        .collect()
}

fn faults(given: &Value) -> Vec<BatchFault> {
    let listed = given["data"].as_array().or_else(|| given.as_array());
    let cut = |text: &str| one_line(text.as_bytes(), MESSAGE_CHARS_MAX);
    listed
        .into_iter()
        .flatten()
        .take(FAULTS_MAX)
        .map(|fault| BatchFault {
            code: fault["code"].as_str().map(cut),
            message: fault["message"].as_str().map(cut).unwrap_or_default(),
            line: fault["line"].as_u64(),
        })
        .collect()
}

/// One page of the list of batches, the newest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchPage {
    /// The batches.
    pub items: Vec<Batch>,
    /// What to ask for the next page with, if there is one.
    pub next: Option<BatchId>,
}

impl BatchPage {
    /// Reads a page. One batch that cannot be read makes the page unreadable: it may be the one that is looked for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(body: &Value) -> Result<Self, String> {
        let listed = body["data"]
            .as_array()
            .ok_or("there is no list of batches")?;
        let items: Vec<Batch> = listed.iter().map(Batch::read).collect::<Result<_, _>>()?;
        let more = body["has_more"].as_bool().unwrap_or(false);
        let last = items.last().map(|batch| batch.id.clone());
        Ok(Self {
            next: last.filter(|_| more),
            items,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_batch_is_read_with_whatever_the_provider_leaves_out_or_adds() {
        let bare = Batch::read(&json!({"id": "b", "status": "validating"})).unwrap();
        assert_eq!(bare.counts, BatchCounts::default());
        let long = format!("batch_{}", "x".repeat(400));
        let full = json!({
            "id": long, "object": "batch", "status": "completed", "output_file_id": "", "error_file_id": "file-e",
            "request_counts": {"total": 2, "completed": 0, "failed": 2}, "created_at": 1,
            "metadata": {"hapax_op": "op", "n": 1}, "new_field": {},
            "errors": {"object": "list", "data": [{"code": "x", "message": "bad\nline", "line": 3}]},
        });
        let full = Batch::read(&full).unwrap();
        assert_eq!(full.id.as_str(), long);
        assert_eq!(full.output_file_id, None);
        assert_eq!(full.error_file_id.clone().unwrap().as_str(), "file-e");
        assert_eq!(
            (
                full.metadata["hapax_op"].as_str(),
                full.metadata["n"].as_str()
            ),
            ("op", "1")
        );
        assert_eq!(
            (full.faults[0].message.as_str(), full.faults[0].line),
            ("bad line", Some(3))
        );
        let stored = serde_json::to_value(&full).unwrap();
        assert_eq!(serde_json::from_value::<Batch>(stored).unwrap(), full);
        for bad in [
            json!({}),
            json!({"id": 1, "status": "x"}),
            json!({"id": "..", "status": "failed"}),
        ] {
            assert!(Batch::read(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_four_states_are_the_end_and_an_unknown_one_is_kept() {
        for (word, is_end) in [
            ("validating", false),
            ("in_progress", false),
            ("finalizing", false),
            ("cancelling", false),
            ("paused", false),
            ("completed", true),
            ("failed", true),
            ("expired", true),
            ("cancelled", true),
        ] {
            let status = BatchStatus::from(word.to_owned());
            assert_eq!((status.as_str(), status.is_terminal()), (word, is_end));
        }
    }

    #[test]
    fn a_page_with_a_batch_that_cannot_be_read_is_not_a_page() {
        let one = json!({"id": "a", "status": "failed"});
        let page = BatchPage::read(&json!({"data": [one], "has_more": true})).unwrap();
        assert_eq!(page.next.unwrap().as_str(), "a");
        let last = BatchPage::read(&json!({"data": [one]})).unwrap();
        assert_eq!(last.next, None);
        assert!(BatchPage::read(&json!({"data": [one, {}]})).is_err());
        assert!(BatchPage::read(&json!({"data": null})).is_err());
    }
}
