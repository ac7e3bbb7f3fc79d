//! How long to wait before the next try. It chooses; nobody sleeps here.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

use super::Retry;

/// LiteLLM passes the provider's own wish on under this name.
const PROVIDER_RETRY_AFTER: HeaderName = HeaderName::from_static("llm_provider-retry-after");
/// The longest wish that is believed.
const WISH_MAX: Duration = Duration::from_secs(3600);

/// The wait after the failed try number `failed` (from 1), or nothing if there is no other try. `part` is a random
/// number from 0 to 1, `spent` the time since the first try began.
pub(super) fn wait(
    retry: &Retry,
    failed: u32,
    asked: Option<Duration>,
    spent: Duration,
    part: f64,
) -> Option<Duration> {
    if failed >= retry.tries_max || asked.is_some_and(|asked| asked > retry.patience) {
        return None;
    }
    let doublings = failed.saturating_sub(1).min(31);
    let span = retry.base.saturating_mul(1 << doublings).min(retry.cap);
    // What was asked for is a lower bound, with a little spread: everybody was given the same number.
    let asked = asked.map(|asked| asked + retry.base.min(retry.cap).mul_f64(part));
    let wait = span.mul_f64(part).max(asked.unwrap_or_default());
    (spent.saturating_add(wait) <= retry.total).then_some(wait)
}

/// How long the provider wants to be left alone, in seconds or until a date; the longer of both headers.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let sent = text(headers, &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let one = |name: &HeaderName| -> Option<Duration> {
        let text = text(headers, name)?;
        if let Ok(seconds) = text.parse::<f64>() {
            // Fractions are sent too; more than fits is longer than any wish.
            return (seconds >= 0.0)
                .then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        }
        let at = httpdate::parse_http_date(text).ok()?;
        Some(at.duration_since(sent.unwrap_or(now)).unwrap_or_default())
    };
    let asked = one(&RETRY_AFTER).max(one(&PROVIDER_RETRY_AFTER));
    asked.map(|asked| asked.min(WISH_MAX))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A random number from 0 to 1. It is for spread, not for secrecy.
pub(super) fn random_part() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    f64::from(u32::try_from(bits).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry = Retry {
        tries_max: 4,
        total: Duration::from_secs(20),
        base: Duration::from_millis(100),
        cap: Duration::from_millis(300),
        patience: Duration::from_secs(10),
    };

    #[test]
    fn a_wait_grows_to_its_cap_and_ends_with_the_tries_the_time_or_the_patience() {
        let asked = |seconds| Some(Duration::from_secs(seconds));
        for (failed, asked, spent_s, part, wait_ms) in [
            (1, None, 0, 1.0, Some(100)),
            (1, None, 0, 0.5, Some(50)),
            (2, None, 0, 1.0, Some(200)),
            (3, None, 0, 1.0, Some(300)),
            (4, None, 0, 1.0, None),
            (1, asked(7), 0, 0.0, Some(7000)),
            (1, asked(7), 0, 1.0, Some(7100)),
            (1, asked(7), 14, 0.0, None),
            (1, asked(10), 0, 0.0, Some(10_000)),
            (1, asked(11), 0, 0.0, None),
            (1, asked(0), 0, 0.5, Some(50)),
            (1, None, 20, 1.0, None),
        ] {
            let found = wait(&RETRY, failed, asked, Duration::from_secs(spent_s), part);
            let expected = wait_ms.map(Duration::from_millis);
            assert_eq!(found, expected, "{failed} {asked:?} {spent_s} {part}");
        }
    }

    #[test]
    fn both_headers_are_read_as_seconds_and_as_a_date_and_the_longer_one_counts() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let (plain, provider) = ("retry-after", "llm_provider-retry-after");
        for (headers, seconds) in [
            (vec![(plain, "5")], Some(5.0)),
            (vec![(provider, "7")], Some(7.0)),
            (vec![(plain, "5"), (provider, "7")], Some(7.0)),
            (vec![(plain, "9"), (provider, "7")], Some(9.0)),
            (vec![(plain, "soon"), (provider, "7")], Some(7.0)),
            (vec![(provider, " 0.5 ")], Some(0.5)),
            (vec![(provider, date)], Some(37.0)),
            (
                vec![(plain, date), ("date", "Sun, 06 Nov 1994 08:49:35 GMT")],
                Some(2.0),
            ),
            (vec![(plain, "Sun, 06 Nov 1994 08:00:00 GMT")], Some(0.0)),
            (vec![(plain, "99999999999999999999999")], Some(3600.0)),
            (vec![(plain, "inf")], Some(3600.0)),
            (vec![(plain, "-1")], None),
            (vec![(plain, "NaN")], None),
            (vec![(plain, "")], None),
            (vec![], None),
        ] {
            let map: HeaderMap = headers
                .iter()
                .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
                .collect();
            let found = retry_after(&map, now);
            assert_eq!(found, seconds.map(Duration::from_secs_f64), "{headers:?}");
        }
    }

    #[test]
    fn the_random_part_is_between_nothing_and_all() {
        let parts: Vec<f64> = (0..64).map(|_| random_part()).collect();
        assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)));
        let differs = |part: &f64| (part - parts[0]).abs() > f64::EPSILON;
        assert!(parts.iter().any(differs));
    }
}
