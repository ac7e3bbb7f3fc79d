//! A moment on the ledger's clock. It is not a clock: nothing here reads the time.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment on the ledger's clock, in UTC milliseconds since 1970.
///
/// Only a ledger's `now` makes one in production; everything else takes it as an argument.
/// Arithmetic saturates, so no configured duration can wrap a lease around.
///
/// ```
/// use hapax_core::Time;
/// use std::time::Duration;
///
/// let start = Time::from_ms(1_760_000_000_000);
/// let later = start.plus(Duration::from_secs(90));
/// assert_eq!(later.since(start), Duration::from_secs(90));
/// assert_eq!(start.since(later), Duration::ZERO, "never negative");
/// assert_eq!(start.to_string(), "2025-10-09T08:53:20.000Z");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(i64);

impl Time {
    /// The moment `ms` milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// The moment `span` later, saturating at the end of time.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// How long after `earlier` this is, zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Time {
    fn from(moment: SystemTime) -> Self {
        match moment.duration_since(UNIX_EPOCH) {
            Ok(span) => Self(0).plus(span),
            Err(before) => {
                Self(i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms))
            }
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let span = Duration::from_millis(time.0.unsigned_abs());
        let moment = if time.0 < 0 {
            UNIX_EPOCH.checked_sub(span)
        } else {
            UNIX_EPOCH.checked_add(span)
        };
        moment.unwrap_or(UNIX_EPOCH)
    }
}

/// RFC 3339 in UTC with milliseconds.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (year, month, day) = civil(days);
        let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z",
            ms % 1000
        )
    }
}

/// The Gregorian date of a day counted from 1970-01-01, in years that begin in March so that the
/// leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_around_leap_days_and_before_1970_are_written_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Time::from_ms(ms).to_string(), text);
        }
    }

    #[test]
    fn no_duration_wraps_a_moment_around() {
        assert_eq!(
            Time::from_ms(5).plus(Duration::MAX),
            Time::from_ms(i64::MAX)
        );
    }
}
