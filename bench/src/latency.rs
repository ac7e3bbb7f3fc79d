//! Latencies, kept one by one and read as percentiles.

use std::time::Duration;

/// What one or many connections waited.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    micros: Vec<u32>,
}

impl Latencies {
    /// Keeps one.
    pub fn add(&mut self, waited: Duration) {
        self.micros
            .push(u32::try_from(waited.as_micros()).unwrap_or(u32::MAX));
    }

    /// Takes over all of another connection.
    pub fn merge(&mut self, other: Self) {
        self.micros.extend(other.micros);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.micros.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.micros.is_empty()
    }

    /// The latency in microseconds that `share` (0 to 1) of all stay within; `None` without any.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among what fits in memory"
    )]
    pub fn percentile(&mut self, share: f64) -> Option<f64> {
        if self.micros.is_empty() {
            return None;
        }
        let rank = ((self.micros.len() as f64 * share).ceil() as usize).clamp(1, self.micros.len());
        let (_, value, _) = self.micros.select_nth_unstable(rank - 1);
        Some(f64::from(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_one_to_a_hundred_is_fifty() {
        let mut all = Latencies::default();
        for micros in (1..=100).rev() {
            all.add(Duration::from_micros(micros));
        }
        assert_eq!(all.percentile(0.5), Some(50.0));
        assert_eq!(all.percentile(0.99), Some(99.0));
        assert_eq!(all.percentile(1.0), Some(100.0));
        assert_eq!(Latencies::default().percentile(0.5), None);
    }
}
