//! How long to wait before the next try: a span that doubles, less a random part. Nobody sleeps here.

use std::time::Duration;

/// Spans that double up to a longest one.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    span: Duration,
    longest: Duration,
}

impl Pause {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            span: first.min(longest),
            longest,
        }
    }

    /// The next span, less up to half of it.
    pub(super) fn next(&mut self) -> Duration {
        let span = self.span;
        self.span = span.saturating_mul(2).min(self.longest);
        halved_at_most(span)
    }
}

/// A span less up to a fifth, so that those who started together do not meet again and again.
pub(super) fn spread(span: Duration) -> Duration {
    span.saturating_sub(span.mul_f64(random_part() / 5.0))
}

fn halved_at_most(span: Duration) -> Duration {
    span.saturating_sub(span.mul_f64(random_part() / 2.0))
}

/// A random number from 0 to 1.
fn random_part() -> f64 {
    // The last 32 bits of a random UUID are all random; this is spread, not secrecy.
    let bits = uuid::Uuid::new_v4().as_u128() & u128::from(u32::MAX);
    f64::from(u32::try_from(bits).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_its_longest_and_is_never_less_than_half() {
        let mut pause = Pause::new(Duration::from_millis(100), Duration::from_millis(300));
        for full_ms in [100, 200, 300, 300] {
            let (found, full) = (pause.next(), Duration::from_millis(full_ms));
            assert!(found <= full && found >= full / 2, "{found:?} of {full:?}");
        }
    }
}
