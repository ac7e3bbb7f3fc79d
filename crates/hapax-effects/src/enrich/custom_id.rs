//! The name of one line of a batch. It says whose text the line is about, and which text that was.

use std::fmt;
use std::str::FromStr;

use hapax_core::Fingerprint;
use hapax_core::entry::Schema;

use super::Invalid;

/// Whose text it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owner {
    /// An entry, by its number.
    Entry(i64),
    /// An item that is no entry, by the number it was queued under.
    Item(i64),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(number) => write!(f, "{number}"),
            Self::Item(number) => write!(f, "i{number}"),
        }
    }
}

/// What a line of a batch is called: `t1:<schema>:<entry>:<first 16 hex of the text's hash>:<attempt>`, at most 64
/// characters.
///
/// Sixteen digits tell one text of an entry from another, and are not enough to identify it: compare the whole hash
/// that is stored beside the line.
///
/// ```
/// use hapax_core::Fingerprint;
/// use hapax_core::entry::Schema;
/// use hapax_effects::enrich::{CustomId, Owner};
///
/// let text = Fingerprint::of(b"Tea is a drink.");
/// let id = CustomId::new(Schema::Pkm, Owner::Entry(42), &text, 1);
/// assert_eq!(id.to_string(), format!("t1:pkm:42:{}:1", text.short()));
/// assert_eq!(id.to_string().parse(), Ok(id.clone()));
/// assert!(id.is_about(&text) && !id.is_about(&Fingerprint::of(b"Tea.")));
///
/// assert!("t1:pkm:042:0123456789abcdef:1".parse::<CustomId>().is_err(), "one spelling for each");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CustomId {
    schema: Schema,
    owner: Owner,
    text: String,
    attempt: u32,
}

impl CustomId {
    /// The name of the line for this text, sent for the `attempt`th time.
    #[must_use]
    pub fn new(schema: Schema, owner: Owner, text: &Fingerprint, attempt: u32) -> Self {
        Self {
            schema,
            owner,
            text: text.short(),
            attempt,
        }
    }

    /// The home of the entry.
    #[must_use]
    pub const fn schema(&self) -> Schema {
        self.schema
    }

    /// Whose text it is.
    #[must_use]
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// The first sixteen digits of the text's hash.
    #[must_use]
    pub fn text_short(&self) -> &str {
        &self.text
    }

    /// The how manieth time this is.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether it can be about this text.
    #[must_use]
    pub fn is_about(&self, text: &Fingerprint) -> bool {
        self.text == text.short()
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("t1:")?.split(':');
        let schema = parts.next()?.parse().ok()?;
        let owner = parts.next()?;
        let owner = match owner.strip_prefix('i') {
            Some(number) => Owner::Item(number.parse().ok()?),
            None => Owner::Entry(owner.parse().ok()?),
        };
        let short = parts.next()?.to_owned();
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let attempt = parts.next()?.parse().ok()?;
        let id = Self {
            schema,
            owner,
            text: short,
            attempt,
        };
        // Written again it must be the same: no leading zeros or plus signs.
        let is_whole = id.text.len() == 16 && id.text.bytes().all(is_hex) && id.to_string() == text;
        is_whole.then_some(id)
    }
}

impl fmt::Display for CustomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            schema,
            owner,
            text,
            attempt,
        } = self;
        write!(f, "t1:{schema}:{owner}:{text}:{attempt}")
    }
}

impl FromStr for CustomId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| Invalid::new("custom_id", "is not one that hapax made"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_has_64_characters_at_most_and_reads_back() {
        let text = Fingerprint::of(b"x");
        for owner in [
            Owner::Entry(i64::MIN),
            Owner::Item(i64::MIN),
            Owner::Entry(0),
        ] {
            let id = CustomId::new(Schema::PkmTest, owner, &text, u32::MAX);
            assert!(id.to_string().len() <= 64, "{id}");
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn a_name_that_we_did_not_make_is_refused() {
        for other in [
            "",
            "t1:",
            "t1:pkm:1:0123456789abcdef",
            "t2:pkm:1:0123456789abcdef:1",
            "t1:public:1:0123456789abcdef:1",
            "t1:pkm:+1:0123456789abcdef:1",
            "t1:pkm:1:0123456789ABCDEF:1",
            "t1:pkm:1:0123456789abcde:1",
            "t1:pkm:1:0123456789abcdef:01",
            "t1:pkm:1:0123456789abcdef:1:1",
            "t1:pkm:1:0123456789abcdef:1 ",
            "t1:pkm:ii1:0123456789abcdef:1",
            "t1:pkm:99999999999999999999999:0123456789abcdef:1",
        ] {
            assert!(other.parse::<CustomId>().is_err(), "{other:?}");
        }
    }
}
