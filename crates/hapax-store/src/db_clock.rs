//! The database's clock without a round trip: its offset to this machine's monotonic clock.
//! This machine's wall clock is never read.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hapax_core::Time;

/// A step back by less than this is the error of a measurement, and is not shown.
const JITTER_MS: i64 = 1000;

/// The database's clock, as far as the last answers tell.
#[derive(Debug)]
pub(crate) struct DbClock {
    start: Instant,
    /// Database time in microseconds when `start` was.
    offset_us: Mutex<i64>,
    /// The latest time given out.
    given_ms: AtomicI64,
}

impl DbClock {
    /// The clock that read `read` somewhere between `sent` and `received`.
    pub(crate) fn new(sent: Instant, received: Instant, read: Time) -> Self {
        let clock = Self {
            start: sent,
            offset_us: Mutex::new(0),
            given_ms: AtomicI64::new(i64::MIN),
        };
        let (low, high) = clock.bounds(sent, received, read);
        *clock.offset() = i64::midpoint(low, high);
        clock
    }

    /// Learns that the database read `read` somewhere between `sent` and `received`.
    ///
    /// An offset that agrees is kept, so a slow answer cannot disturb a good measurement.
    pub(crate) fn observe(&self, sent: Instant, received: Instant, read: Time) {
        let (low, high) = self.bounds(sent, received, read);
        let mut offset = self.offset();
        *offset = (*offset).clamp(low, high);
    }

    /// The database's time now.
    pub(crate) fn now(&self) -> Time {
        let now_ms = (*self.offset() + micros(self.start.elapsed())).div_euclid(1000);
        let given_ms = self.given_ms.fetch_max(now_ms, Ordering::Relaxed);
        if now_ms >= given_ms {
            return Time::from_ms(now_ms);
        }
        if given_ms - now_ms < JITTER_MS {
            return Time::from_ms(given_ms);
        }
        // The database's clock was set back: follow it.
        self.given_ms.store(now_ms, Ordering::Relaxed);
        Time::from_ms(now_ms)
    }

    fn bounds(&self, sent: Instant, received: Instant, read: Time) -> (i64, i64) {
        let read_us = read.as_ms().saturating_mul(1000);
        let earliest = read_us - micros(received.saturating_duration_since(self.start));
        // A `Time` is cut to milliseconds, so the database may have read up to one more.
        let latest = read_us + 1000 - micros(sent.saturating_duration_since(self.start));
        (earliest, latest.max(earliest))
    }

    fn offset(&self) -> std::sync::MutexGuard<'_, i64> {
        self.offset_us
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn clock(read_ms: i64) -> (DbClock, Instant) {
        let at = Instant::now();
        (DbClock::new(at, at, Time::from_ms(read_ms)), at)
    }

    #[test]
    fn it_shows_the_databases_time_and_not_this_machines() {
        let (clock, _) = clock(5 * HOUR_MS);
        assert!((5 * HOUR_MS..5 * HOUR_MS + 5000).contains(&clock.now().as_ms()));
    }

    #[test]
    fn a_slow_answer_does_not_disturb_a_good_measurement() {
        let (clock, at) = clock(5 * HOUR_MS);
        let before = *clock.offset();
        clock.observe(
            at,
            at + Duration::from_secs(9),
            Time::from_ms(5 * HOUR_MS + 1),
        );
        assert_eq!(*clock.offset(), before);
    }

    #[test]
    fn small_corrections_never_show_as_a_step_back() {
        let (clock, at) = clock(5 * HOUR_MS);
        let before = clock.now();
        clock.observe(at, at, Time::from_ms(5 * HOUR_MS - 300));
        assert!(clock.now() >= before);
    }

    #[test]
    fn a_clock_that_was_set_is_followed_both_ways() {
        let (clock, at) = clock(5 * HOUR_MS);
        clock.observe(at, at, Time::from_ms(7 * HOUR_MS));
        assert!(clock.now().as_ms() >= 7 * HOUR_MS);
        clock.observe(at, at, Time::from_ms(4 * HOUR_MS));
        assert!(clock.now().as_ms() < 5 * HOUR_MS);
    }
}
