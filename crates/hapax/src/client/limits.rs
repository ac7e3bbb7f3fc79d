//! The limits of a request: how often, how long, how large. Nothing here is unlimited.

use std::time::Duration;

use super::backoff::Backoff;

/// The most tries of one request, whatever is asked for.
///
/// ```
/// use hapax::client::{ATTEMPTS_MAX, Client};
///
/// let client = Client::builder().attempts(u32::MAX).build()?;
/// assert!(format!("{client:?}").contains(&format!("attempts: {ATTEMPTS_MAX}")));
/// # Ok::<(), hapax::client::Error>(())
/// ```
pub const ATTEMPTS_MAX: u32 = 100;

/// The longest deadline of one request, whatever is asked for.
///
/// ```
/// use hapax::client::{Client, DEADLINE_MAX};
/// use std::time::Duration;
///
/// let client = Client::builder().deadline(Duration::MAX).build()?;
/// assert!(format!("{client:?}").contains(&format!("deadline: {DEADLINE_MAX:?}")));
/// # Ok::<(), hapax::client::Error>(())
/// ```
pub const DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) attempts: u32,
    pub(super) deadline: Duration,
    pub(super) timeout_per_try: Duration,
    pub(super) backoff: Backoff,
    pub(super) response_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempts: 10,
            deadline: Duration::from_secs(60),
            timeout_per_try: Duration::from_secs(20),
            backoff: Backoff::default(),
            response_bytes_max: 32 * 1024 * 1024,
        }
    }
}

impl Limits {
    pub(super) fn set_attempts(&mut self, attempts: u32) {
        self.attempts = attempts.clamp(1, ATTEMPTS_MAX);
    }

    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline.min(DEADLINE_MAX);
    }
}
