//! The clock of a ledger, which a test can move. It is never the caller's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use hapax_core::Time;

/// The clock a ledger reads: the system's, plus a shift that tests use instead of sleeping.
///
/// ```
/// use hapax_store::Clock;
/// use std::time::Duration;
///
/// let clock = Clock::system();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert!(clock.now() >= before.plus(Duration::from_secs(3600)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock {
    shift_ms: Arc<AtomicI64>,
    /// It shows the shift alone, and moves only when it is told to.
    stands: bool,
}

impl Clock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that shows `at` until it is moved, so that a test sees the same times on every run.
    ///
    /// ```
    /// use hapax_core::Time;
    /// use hapax_store::Clock;
    /// use std::time::Duration;
    ///
    /// let clock = Clock::standing(Time::from_ms(1000));
    /// clock.advance(Duration::from_millis(5));
    /// clock.turn_back(Duration::from_millis(2));
    /// assert_eq!(clock.now(), Time::from_ms(1003));
    /// ```
    #[must_use]
    pub fn standing(at: Time) -> Self {
        Self {
            shift_ms: Arc::new(AtomicI64::new(at.as_ms())),
            stands: true,
        }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Time {
        if self.stands {
            return self.shifted(Time::from_ms(0));
        }
        self.shifted(SystemTime::now().into())
    }

    /// `time` moved by this clock's shift, for ledgers that read another clock than this machine's.
    #[must_use]
    pub fn shifted(&self, time: Time) -> Time {
        Time::from_ms(time.as_ms() + self.shift_ms.load(Ordering::Relaxed))
    }

    /// Moves this clock, and every clone of it, forward.
    pub fn advance(&self, span: Duration) {
        let span_ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 4);
        self.shift_ms.fetch_add(span_ms, Ordering::Relaxed);
    }

    /// Moves this clock, and every clone of it, back, as a machine whose clock was wrong does.
    pub fn turn_back(&self, span: Duration) {
        let span_ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 4);
        self.shift_ms.fetch_sub(span_ms, Ordering::Relaxed);
    }
}
