//! The rules of a family of keys: how long a record lives, a lease lasts and a duplicate waits.

use std::time::Duration;

/// What to do with a key whose runner died before it recorded an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnLost {
    /// Let the next claimant run it again: at least once.
    #[default]
    Retry,
    /// Answer "in doubt" until a person settles or releases it: at most once without a person.
    Hold,
}

impl OnLost {
    /// The word used in configuration and storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            OnLost::Retry => "retry",
            OnLost::Hold => "hold",
        }
    }
}

/// The rules of a family of keys.
///
/// ```
/// use hapax_core::{OnLost, Policy};
/// use std::time::Duration;
///
/// let policy = Policy { ttl: Duration::from_secs(1800), on_lost: OnLost::Hold, ..Policy::default() };
/// assert_eq!(policy.lease, Duration::from_secs(60));
/// assert_eq!(policy.wait, Duration::ZERO, "a duplicate in flight is told so at once");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// How long a record answers for its key, counted from the grant.
    pub ttl: Duration,
    /// How long a holder may be silent before its lease is lost. Heartbeats extend it.
    pub lease: Duration,
    /// How long a duplicate waits for the answer of the one in flight.
    pub wait: Duration,
    /// What a lost lease means.
    pub on_lost: OnLost,
}

impl Policy {
    /// The longest life of a record: ten years.
    pub const TTL_MAX: Duration = Duration::from_secs(10 * 366 * 86_400);
    /// The longest lease: a day.
    pub const LEASE_MAX: Duration = Duration::from_secs(86_400);
    /// The longest wait of a duplicate: five minutes.
    pub const WAIT_MAX: Duration = Duration::from_secs(300);

    /// The same policy with every duration within its limit, and the lease at least a millisecond.
    #[must_use]
    pub fn bounded(self) -> Self {
        Self {
            ttl: self.ttl.min(Self::TTL_MAX),
            lease: self.lease.clamp(Duration::from_millis(1), Self::LEASE_MAX),
            wait: self.wait.min(Self::WAIT_MAX),
            on_lost: self.on_lost,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(3600),
            lease: Duration::from_secs(60),
            wait: Duration::ZERO,
            on_lost: OnLost::Retry,
        }
    }
}
