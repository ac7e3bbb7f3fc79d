//! How long a failed job rests. Deterministic: the jitter comes from the job's id, not from a dice.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::model::{JobId, JobKind};

/// The rest after the first failure of a job that was planned without one of its own.
pub const FIRST: Duration = Duration::from_secs(1);
/// The longest rest.
pub const LONGEST: Duration = Duration::from_secs(3600);
/// The longest rest of a receipt: somebody waits for it, and its gateway may be back any moment.
pub const LONGEST_OF_INTENT: Duration = Duration::from_secs(30);

/// The longest rest of enrichment: its provider may be back any moment, and work waits for it.
pub const LONGEST_OF_ENRICH: Duration = Duration::from_secs(30);

/// The longest rest of a job of this kind.
#[must_use]
pub fn longest(kind: &JobKind) -> Duration {
    match kind.as_str() {
        "intent" => LONGEST_OF_INTENT,
        "enrich" => LONGEST_OF_ENRICH,
        _ => LONGEST,
    }
}

/// The rest after this many failures: `first`, then four times as long each time, at most an hour, less up
/// to a half so that jobs which failed together do not come back together. A first rest of zero stays zero.
///
/// ```
/// use hapax_core::job::{JobId, backoff::{FIRST, rest}};
/// use std::time::Duration;
///
/// let job = JobId::new("j-1")?;
/// assert!(rest(&job, FIRST, 1) >= Duration::from_millis(500) && rest(&job, FIRST, 1) <= Duration::from_secs(1));
/// assert!(rest(&job, FIRST, 3) >= Duration::from_secs(8) && rest(&job, FIRST, 3) <= Duration::from_secs(16));
/// assert_eq!(rest(&job, Duration::ZERO, 3), Duration::ZERO);
/// assert!(rest(&job, FIRST, u32::MAX) <= Duration::from_secs(3600));
/// # Ok::<(), hapax_core::Invalid>(())
/// ```
#[must_use]
pub fn rest(job: &JobId, first: Duration, failures: u32) -> Duration {
    let full = first
        .saturating_mul(4u32.saturating_pow(failures.saturating_sub(1)))
        .min(LONGEST);
    let mut hasher = Sha256::new();
    hasher.update(job.as_str());
    hasher.update(failures.to_be_bytes());
    let less = u32::from(hasher.finalize()[0]);
    full.saturating_sub(full.saturating_mul(less) / 512)
}
