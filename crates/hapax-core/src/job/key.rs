//! The deterministic keys of jobs and operations: sha256 over the `py-json` form, so that old databases match.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::model::{JobId, JobKind};
use super::op::OpKey;
use crate::canonical::{Profile, hash};
use crate::error::Invalid;

/// What stands for downloads in their keys.
const ROLE_OF_DOWNLOADS: &str = "artifact";

/// The key of a job: the same work, artifact and URL give the same key in every process and language.
///
/// Downloads have the key that older databases hold; any other kind is part of the key, so that the same
/// artifact can also be, say, enriched. A kind that is called as downloads are in their keys gets another role: else
/// its jobs would take the keys of downloads.
///
/// ```
/// use hapax_core::job::{JobKind, job_key};
///
/// let key = job_key(&JobKind::DOWNLOAD, "w-123", "a-456", "https://example.org/paper.pdf");
/// assert_eq!(key, "67f7640f888de7a2f799069aeaced920e858c52b5926d4414a680f6ac609e438");
/// for other in ["enrich", "artifact"] {
///     assert_ne!(key, job_key(&JobKind::new(other)?, "w-123", "a-456", "https://example.org/paper.pdf"));
/// }
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
///
/// # Panics
/// Never: strings and a small number always have a canonical form.
#[must_use]
pub fn job_key(kind: &JobKind, work_id: &str, artifact_id: &str, canonical_url: &str) -> String {
    let role = match kind.as_str() {
        _ if kind.is_download() => ROLE_OF_DOWNLOADS,
        // No kind holds a colon.
        ROLE_OF_DOWNLOADS => "kind:artifact",
        other => other,
    };
    let preimage = serde_json::json!({
        "v": 1,
        "kind": "JOB",
        "role": role,
        "work_id": work_id,
        "artifact_id": artifact_id,
        "url": canonical_url,
    });
    hash(preimage.to_string().as_bytes(), Profile::PyJson)
        .expect("strings and a small number have a canonical form")
}

/// The key of an operation: its kind, its job and what it is about, never its attempt or its worker.
///
/// `context` is a JSON object, or nothing. It cannot override `v`, `kind` or `job_id`: those are always ours.
///
/// ```
/// use hapax_core::job::{JobId, op_key};
///
/// let job = JobId::new("j-1")?;
/// let key = op_key("HEAD", &job, Some(r#"{"url": "https://example.org/paper.pdf"}"#))?;
/// assert_eq!(key.as_str(), "92518de76544bc6f2f7ab0d3d9992ffbf79044c858a4390789ccb644cc9cbd0d");
/// assert_eq!(key, op_key("HEAD", &job, Some(r#"{"url": "https://example.org/paper.pdf", "job_id": "j-2"}"#))?);
/// assert!(op_key("HEAD", &job, Some("[]")).is_err(), "a context is an object");
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
///
/// # Errors
/// [`Invalid`] when `context` is not a JSON object that has a canonical form.
pub fn op_key(kind: &str, job: &JobId, context: Option<&str>) -> Result<OpKey, Invalid> {
    let refused = |why: String| Invalid::new("context", why);
    let context = context.unwrap_or("{}");
    crate::canonical::check(context.as_bytes()).map_err(|reject| refused(reject.to_string()))?;
    let mut members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(context).map_err(|_| refused("is not a JSON object".to_owned()))?;
    for (name, value) in [
        ("v", "1".to_owned()),
        ("kind", quoted(kind)),
        ("job_id", quoted(job.as_str())),
    ] {
        let value = RawValue::from_string(value).map_err(|error| refused(error.to_string()))?;
        members.insert(name.to_owned(), value);
    }
    let preimage = serde_json::to_vec(&members).map_err(|error| refused(error.to_string()))?;
    let hex = hash(&preimage, Profile::PyJson).map_err(|reject| refused(reject.to_string()))?;
    OpKey::new(&hex)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
