//! How long something took, by how often: a histogram of few buckets, and what lies below which share of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Four buckets for every doubling, from a microsecond to about a minute. What is longer is in the last.
const BUCKETS: usize = 104;

/// The buckets while they are counted.
#[derive(Debug)]
pub(super) struct Counting([AtomicU64; BUCKETS]);

impl Default for Counting {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Counting {
    pub(super) fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0[bucket(micros)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Spread {
        Spread(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

/// How often something took how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spread([u64; BUCKETS]);

impl Default for Spread {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Spread {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| {
            self.0[at].saturating_sub(earlier.0[at])
        }))
    }

    /// The time in microseconds below which this share of a hundred lies, at most a quarter too long; 0 if there is
    /// nothing.
    ///
    /// ```
    /// use hapax::observe::Spread;
    ///
    /// assert_eq!(Spread::default().percentile_us(99), 0);
    /// ```
    #[must_use]
    pub fn percentile_us(&self, share: u64) -> u64 {
        let all: u64 = self.0.iter().sum();
        let wanted = (all * share).div_ceil(100);
        let mut below = 0;
        for (at, count) in self.0.iter().enumerate() {
            below += count;
            if below >= wanted && *count > 0 {
                return longest(at);
            }
        }
        0
    }
}

fn bucket(micros: u64) -> usize {
    if micros < 4 {
        return usize::try_from(micros).unwrap_or(0);
    }
    let doublings = 63 - micros.leading_zeros() as usize;
    let quarter = (micros >> (doublings - 2)) & 3;
    let at = (doublings - 1) * 4 + usize::try_from(quarter).unwrap_or(0);
    at.min(BUCKETS - 1)
}

/// The longest time in a bucket, in microseconds.
fn longest(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (doublings, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    ((5 + quarter) << (doublings - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_at_most_a_quarter_wide() {
        for micros in (0..5000).chain([100_000, 1_000_000, 59_000_000]) {
            let shown = longest(bucket(micros));
            assert!(
                shown >= micros && shown <= micros + micros / 4,
                "{micros}: {shown}"
            );
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn shares_are_of_what_came_in_between() {
        let counting = Counting::default();
        (0..100).for_each(|_| counting.add(Duration::from_secs(1)));
        let before = counting.read();
        (0..98).for_each(|_| counting.add(Duration::from_micros(2)));
        (0..2).for_each(|_| counting.add(Duration::from_micros(3)));
        let since = counting.read().since(&before);
        assert_eq!((since.percentile_us(50), since.percentile_us(99)), (2, 3));
        assert_eq!(before.since(&before), Spread::default());
    }
}
