//! Chance that is the same in every run, so that every run meets the same input.

/// A stream of numbers that look random and follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// The stream of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    ///
    /// # Panics
    /// When `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a size fits into 64 bits");
        usize::try_from(self.next() % end).expect("it is below a size")
    }

    /// Whether this many of a hundred was hit.
    pub fn percent(&mut self, of_a_hundred: usize) -> bool {
        self.below(100) < of_a_hundred
    }

    /// One of them. There is at least one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            piece.copy_from_slice(&bytes[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_one_others() {
        let take = |seed| {
            let mut chance = Chance::new(seed);
            [chance.next(), chance.next(), chance.next()]
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
    }

    #[test]
    fn numbers_stay_below_their_end_and_reach_all_of_it() {
        let mut chance = Chance::new(1);
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[chance.below(10)] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}
