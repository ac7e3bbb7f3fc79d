//! A small generator of numbers that one seed repeats. It keeps no secret: never use it for a token.

/// Numbers from a seed: the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, of all 64 bits. (Weyl sequence, mixed as in splitmix64.)
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// An index of a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True once in about `in_this_many` times.
    pub fn rarely(&mut self, in_this_many: u64) -> bool {
        self.below(in_this_many) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_row_of_numbers_and_another_seed_another() {
        let row = |seed| {
            let mut dice = Dice::new(seed);
            [dice.next_u64(), dice.next_u64(), dice.next_u64()]
        };
        assert_eq!(row(7), row(7));
        assert_ne!(row(7), row(8));
        let mut dice = Dice::new(1);
        assert!((0..1000).all(|_| dice.below(10) < 10));
        assert_eq!(dice.below(0), 0);
        let rare = (0..10_000).filter(|_| dice.rarely(10)).count();
        assert!((800..1200).contains(&rare), "{rare}");
    }
}
