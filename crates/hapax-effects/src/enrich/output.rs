//! The output and the error file of a batch, line by line. One broken line is reported and the rest is read.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ChatAnswer;
use super::llm::refusal::{one_line, told};

/// How long one line may be.
pub const LINE_BYTES_MAX: usize = 2 << 20;
/// How much of a broken line is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// What became of one line of a batch.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model answered. What it said is still to be [parsed](super::Parser::answer).
    Answered(ChatAnswer),
    /// There is no answer.
    Failed(LineFault),
}

/// Why a line has no answer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct LineFault {
    /// The status that the line got, if it was sent at all.
    pub status: Option<u16>,
    /// The provider's word for it.
    pub code: Option<String>,
    /// The provider's sentence for it, cut.
    pub message: String,
}

impl LineFault {
    /// Whether sending the line again can help: it was never done, or failed for a reason that passes.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.status {
            Some(status) => super::llm::is_transient_status(status),
            None => true,
        }
    }
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the line got {status}: {}", self.message),
            None => write!(f, "the line was not done: {}", self.message),
        }
    }
}

/// One line of an output or error file.
///
/// ```
/// use hapax_effects::enrich::{OutputLine, Outcome};
///
/// let line = r#"{"id":"r-1","custom_id":"t1:a","error":null,"response":{"status_code":200,"body":
///     {"choices":[{"message":{"content":"{}"},"finish_reason":"stop"}]}}}"#;
/// let line = OutputLine::parse(line)?;
/// assert_eq!(line.custom_id, "t1:a");
/// let Outcome::Answered(answer) = line.outcome else { panic!("it has an answer") };
/// assert_eq!(answer.content().unwrap(), "{}");
///
/// assert!(OutputLine::parse("{\"custom_id\":").is_err());
/// # Ok::<(), hapax_effects::enrich::BrokenLine>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct OutputLine {
    /// The name that the line was sent under.
    pub custom_id: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// A line that cannot be read, so nobody knows whose it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct BrokenLine {
    /// What is wrong with it.
    pub why: String,
    /// The beginning of it.
    pub shown: String,
}

impl fmt::Display for BrokenLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a line of the batch cannot be read: {}", self.why)
    }
}

impl std::error::Error for BrokenLine {}

impl OutputLine {
    /// Reads one line. The order of its fields does not matter.
    ///
    /// # Errors
    /// [`BrokenLine`] when it is not a JSON object with a `custom_id`, or is too long.
    pub fn parse(line: &str) -> Result<Self, BrokenLine> {
        let broken = |why: String| BrokenLine {
            why,
            shown: one_line(line.as_bytes(), SHOWN_CHARS_MAX),
        };
        if line.len() > LINE_BYTES_MAX {
            return Err(broken(format!("it has more than {LINE_BYTES_MAX} bytes")));
        }
        let value: Value =
            serde_json::from_str(line).map_err(|error| broken(format!("not JSON: {error}")))?;
        let custom_id = match &value["custom_id"] {
            Value::String(id) if !id.is_empty() => id.clone(),
            _ => return Err(broken("it has no custom_id".to_owned())),
        };
        Ok(Self {
            custom_id,
            outcome: outcome(&value),
        })
    }

    /// The lines of a whole file. Empty ones are left out.
    pub fn all(file: &[u8]) -> impl Iterator<Item = Result<Self, BrokenLine>> + '_ {
        file.split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .map(|line| match str::from_utf8(line) {
                Ok(line) => Self::parse(line),
                Err(_) => Err(BrokenLine {
                    why: "it is not UTF-8".to_owned(),
                    shown: one_line(line, SHOWN_CHARS_MAX),
                }),
            })
    }
}

fn outcome(line: &Value) -> Outcome {
    let response = &line["response"];
    let status = response["status_code"].as_u64();
    let status = status.and_then(|status| u16::try_from(status).ok());
    let fault = |body: &Value, code: Option<&str>| {
        let (found, message) = told(body);
        Outcome::Failed(LineFault {
            status,
            code: found.or_else(|| code.map(str::to_owned)),
            message,
        })
    };
    if !line["error"].is_null() {
        return fault(line, None);
    }
    // Some leave the status of a line out where it went well.
    let went_well = match status {
        Some(status) => (200..300).contains(&status),
        None => response["body"]["choices"].is_array(),
    };
    match status {
        _ if went_well => ChatAnswer::read(&response["body"]).map_or_else(
            |why| {
                Outcome::Failed(LineFault {
                    status,
                    code: Some("bad_answer".to_owned()),
                    message: why,
                })
            },
            Outcome::Answered,
        ),
        Some(_) => fault(&response["body"], None),
        None => fault(&Value::Null, Some("no_response")),
    }
}

/// The lines of a batch beside the names that it was sent with.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Settled {
    /// What became of every expected line that is there.
    pub answers: BTreeMap<String, Outcome>,
    /// Expected, and not there.
    pub missing: Vec<String>,
    /// There, and not expected. Nothing is to be done with them.
    pub unknown: Vec<String>,
    /// There more than once. An answer stands before a failure, and the first before a later one.
    pub duplicates: Vec<String>,
    /// Lines that cannot be read.
    pub broken: Vec<BrokenLine>,
}

/// Puts the lines of the output and the error file to the names that were sent.
///
/// ```
/// use hapax_effects::enrich::{OutputLine, settle};
///
/// let file = br#"{"custom_id":"b","response":{"status_code":200,"body":{"choices":[]}}}
/// {"custom_id":"x","response":null,"error":{"code":"batch_expired","message":"too late"}}
/// not a line"#;
/// let expected = ["a".to_owned(), "b".to_owned()];
/// let settled = settle(&expected, OutputLine::all(file));
/// assert_eq!(settled.answers.len(), 1);
/// assert_eq!((settled.missing, settled.unknown), (vec!["a".to_owned()], vec!["x".to_owned()]));
/// assert_eq!((settled.duplicates.len(), settled.broken.len()), (0, 1));
/// ```
pub fn settle(
    expected: &[String],
    lines: impl IntoIterator<Item = Result<OutputLine, BrokenLine>>,
) -> Settled {
    let wanted: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    let mut settled = Settled::default();
    let (mut unknown, mut duplicates) = (BTreeSet::new(), BTreeSet::new());
    for line in lines {
        let OutputLine { custom_id, outcome } = match line {
            Ok(line) => line,
            Err(broken) => {
                settled.broken.push(broken);
                continue;
            }
        };
        if !wanted.contains(custom_id.as_str()) {
            unknown.insert(custom_id);
            continue;
        }
        match settled.answers.entry(custom_id) {
            Entry::Vacant(vacant) => {
                vacant.insert(outcome);
            }
            Entry::Occupied(mut there) => {
                duplicates.insert(there.key().clone());
                if let (Outcome::Failed(_), Outcome::Answered(_)) = (there.get(), &outcome) {
                    there.insert(outcome);
                }
            }
        }
    }
    settled.missing = wanted
        .into_iter()
        .filter(|name| !settled.answers.contains_key(*name))
        .map(str::to_owned)
        .collect();
    settled.unknown = unknown.into_iter().collect();
    settled.duplicates = duplicates.into_iter().collect();
    settled
}
