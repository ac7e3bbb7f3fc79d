//! How long to wait before the next try. It chooses; nobody sleeps here.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, HeaderName, RETRY_AFTER};

/// Full jitter: a random part of a span that doubles from `base` up to `cap`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    pub(super) base: Duration,
    pub(super) cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(200),
            cap: Duration::from_secs(10),
        }
    }
}

impl Backoff {
    /// The wait after the failed try number `failed` (from 1), where the server asked for `after` and
    /// `part` is a random number from 0 to 1.
    ///
    /// What the server asked for is a lower bound. A part of `base` is added to it: everybody who was
    /// refused at the same moment was given the same number.
    pub(super) fn wait(&self, failed: u32, after: Option<Duration>, part: f64) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        let span = self.base.saturating_mul(1 << doublings).min(self.cap);
        let asked = after.map(|after| after.saturating_add(self.base.min(self.cap).mul_f64(part)));
        span.mul_f64(part).max(asked.unwrap_or_default())
    }
}

/// A random number from 0 to 1.
pub(super) fn random_part() -> f64 {
    // The last 32 bits of a random UUID are all random; this is spread, not secrecy.
    let bits = uuid::Uuid::new_v4().as_u128() & u128::from(u32::MAX);
    f64::from(u32::try_from(bits).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

/// The wait that `Retry-After` asks for, in seconds or as a date.
///
/// A date is compared with the response's own `Date` where there is one, so that clocks may differ.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = text(headers, &RETRY_AFTER)?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds is still a number: longer than any deadline.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let sent = self::text(headers, &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    Some(at.duration_since(sent.unwrap_or(now)).unwrap_or_default())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_millis(100),
        cap: Duration::from_secs(1),
    };

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn the_span_doubles_up_to_the_cap_and_any_part_of_it_may_be_waited() {
        for (failed, part, wait_ms) in [
            (1, 0.0, 0),
            (1, 0.5, 50),
            (1, 1.0, 100),
            (2, 1.0, 200),
            (4, 1.0, 800),
            (5, 1.0, 1000),
            (5, 0.5, 500),
            (u32::MAX, 1.0, 1000),
        ] {
            let wait = BACKOFF.wait(failed, None, part);
            assert_eq!(wait, Duration::from_millis(wait_ms), "{failed} {part}");
        }
    }

    #[test]
    fn retry_after_is_a_lower_bound_with_a_little_spread() {
        let after = Some(Duration::from_secs(7));
        assert_eq!(BACKOFF.wait(1, after, 0.0), Duration::from_secs(7));
        assert_eq!(BACKOFF.wait(1, after, 1.0), Duration::from_millis(7100));
        // Asked to come back at once, time after time, the client still slows down.
        assert_eq!(
            BACKOFF.wait(5, Some(Duration::ZERO), 1.0),
            Duration::from_secs(1)
        );
        assert_eq!(BACKOFF.wait(1, Some(Duration::MAX), 1.0), Duration::MAX);
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (value, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            (date, Some(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(37)),
            ("Sun Nov  6 08:49:37 1994", Some(37)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            let found = retry_after(&headers(&[(RETRY_AFTER, value)]), now);
            assert_eq!(found, seconds.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_date_counts_from_the_servers_own_clock() {
        let skewed = headers(&[
            (RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (DATE, "Sun, 06 Nov 1994 08:49:35 GMT"),
        ]);
        assert_eq!(
            retry_after(&skewed, SystemTime::UNIX_EPOCH),
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn the_random_part_is_between_nothing_and_all() {
        let parts: Vec<f64> = (0..64).map(|_| random_part()).collect();
        assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)));
        assert!(
            parts
                .iter()
                .any(|part| (part - parts[0]).abs() > f64::EPSILON)
        );
    }
}
