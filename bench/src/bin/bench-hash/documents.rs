//! The documents that are hashed: made of a fixed seed, so that every run hashes the same bytes.
//!
//! They hold nothing on which the profiles disagree about a value: no whole number with a point, no exponent, no
//! number that a double cannot hold. Letters beyond ASCII and escapes are there; the profiles write them differently.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// What a document is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Rows of measurements: whole numbers, amounts, coordinates, and doubles with all their digits.
    Numbers,
    /// Articles: sentences with accents, quotes and line ends.
    Text,
}

impl Content {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Text => "text",
        }
    }
}

/// How the keys of every object stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Sorted,
    Shuffled,
}

impl Order {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sorted => "sorted",
            Self::Shuffled => "shuffled",
        }
    }
}

/// A document, in memory for us and as a file for other programs.
pub(crate) struct Document {
    pub(crate) bytes: Vec<u8>,
    pub(crate) path: PathBuf,
}

impl Document {
    /// A document of about this many bytes.
    pub(crate) fn make(
        folder: &Path,
        bytes: usize,
        content: Content,
        order: Order,
    ) -> Result<Self> {
        let mut maker = Maker {
            dice: Dice(0x9E37_79B9_7F4A_7C15),
            order,
        };
        let mut items = String::from("[");
        // The frame around the items is about this long.
        while items.len() + 60 < bytes {
            if items.len() > 1 {
                items.push(',');
            }
            let left = bytes - items.len();
            items.push_str(&match content {
                Content::Numbers => maker.measurement(left),
                Content::Text => maker.article(left),
            });
        }
        items.push(']');
        let text = maker.object(vec![
            ("course", r#"{"id":"c-1","name":"one"}"#.to_owned()),
            ("items", items),
        ]);
        let path = folder.join(format!("{bytes}-{}-{}.json", content.name(), order.name()));
        std::fs::write(&path, &text)?;
        Ok(Self {
            bytes: text.into_bytes(),
            path,
        })
    }
}

struct Maker {
    dice: Dice,
    order: Order,
}

impl Maker {
    fn measurement(&mut self, left: usize) -> String {
        let count = if left < 400 { 2 } else { 8 };
        let readings: Vec<String> = (0..count).map(|_| self.dice.double()).collect();
        let members = vec![
            ("amount", self.dice.decimals(2)),
            (
                "at",
                (1_700_000_000_000 + self.dice.below(1 << 36)).to_string(),
            ),
            ("latitude", self.dice.decimals(6)),
            ("longitude", self.dice.decimals(6)),
            ("readings", format!("[{}]", readings.join(","))),
            ("sensor", self.dice.below(10_000).to_string()),
        ];
        self.object(members)
    }

    fn article(&mut self, left: usize) -> String {
        let sentences = if left < 400 { 1 } else { 6 };
        let writer = self.dice.below(1_000);
        let author = self.object(vec![
            ("mail", format!("\"w{writer}@example.org\"")),
            ("name", "\"Zoë Å.\"".to_owned()),
        ]);
        let members = vec![
            ("author", author),
            ("body", self.sentences(sentences)),
            ("id", format!("\"a-{:016x}\"", self.dice.next())),
            ("tags", r#"["news","été"]"#.to_owned()),
            ("title", self.sentences(1)),
        ];
        self.object(members)
    }

    fn sentences(&mut self, count: usize) -> String {
        const WORDS: [&str; 16] = [
            "once",
            "record",
            "ledger",
            "café",
            "plan",
            "lease",
            "the",
            "of",
            "outcome",
            "and",
            "naïve",
            "settles",
            "\\\"quoted\\\"",
            "key",
            "receipt",
            "worker",
        ];
        let mut text = String::from("\"");
        for sentence in 0..count {
            if sentence > 0 {
                text.push_str("\\n");
            }
            for word in 0..12 {
                if word > 0 {
                    text.push(' ');
                }
                text.push_str(WORDS[self.dice.index(WORDS.len())]);
            }
            text.push('.');
        }
        text.push('"');
        text
    }

    /// An object of these members, which are given in order.
    fn object(&mut self, mut members: Vec<(&str, String)>) -> String {
        if self.order == Order::Shuffled {
            for at in (1..members.len()).rev() {
                members.swap(at, self.dice.index(at + 1));
            }
        }
        let mut text = String::from("{");
        for (place, (key, value)) in members.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(text, "{comma}\"{key}\":{value}").expect("a string takes everything");
        }
        text.push('}');
        text
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("smaller than a length")
    }

    /// A number with this many decimals, the last of which is not 0.
    fn decimals(&mut self, count: u32) -> String {
        let unit = 10_u64.pow(count);
        let value = self.below(90 * unit);
        let value = value + u64::from(value.is_multiple_of(10));
        let width = count as usize;
        format!("{}.{:0width$}", value / unit, value % unit)
    }

    /// A double between 1 and 1 000 with as many digits as it needs, which is nearly always 15 to 17.
    #[expect(clippy::cast_precision_loss, reason = "any double will do")]
    fn double(&mut self) -> String {
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let double = 1.0 + share * 999.0;
        if double.fract() == 0.0 {
            return "1.5".to_owned();
        }
        double.to_string()
    }
}
