//! Words that nobody knows, some of them far more often than others, as in any language.

use hapax_bench::chance::Chance;

const COUNT: usize = 6_000;
const SYLLABLES: [&str; 24] = [
    "ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we", "xi", "yo", "zu",
    "cha", "ster", "ring", "ton", "men", "al", "er", "in", "os",
];
/// Now and then a word has one of these in it, so that charsets matter.
const FOREIGN: [&str; 5] = ["é", "ü", "ñ", "ø", "ß"];

/// A vocabulary.
pub(crate) struct Words {
    all: Vec<String>,
}

impl Words {
    pub(crate) fn new() -> Self {
        let mut chance = Chance::new(5);
        let all = (0..COUNT).map(|_| {
            let mut word = String::new();
            for _ in 0..=chance.below(4) {
                word.push_str(chance.pick::<&str>(&SYLLABLES));
            }
            if chance.percent(4) {
                word.push_str(chance.pick::<&str>(&FOREIGN));
            }
            word
        });
        Self { all: all.collect() }
    }

    /// A word. One of few in half of all cases.
    pub(crate) fn word(&self, chance: &mut Chance) -> &str {
        let most = match chance.below(10) {
            0..5 => 120,
            5..8 => 1_200,
            _ => COUNT,
        };
        &self.all[chance.below(most)]
    }

    /// From `least` words on, fewer than `most`.
    pub(crate) fn line(&self, chance: &mut Chance, least: usize, most: usize) -> String {
        let mut line = String::new();
        for at in 0..least + chance.below(most - least) {
            if at > 0 {
                line.push_str(if at % 17 == 0 { ". " } else { " " });
            }
            line.push_str(self.word(chance));
        }
        line
    }
}
