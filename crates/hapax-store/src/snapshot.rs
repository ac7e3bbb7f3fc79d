//! What both databases agree on about snapshots: their limits, and when two payloads are one.
//! It knows no SQL.

use hapax_core::canonical::{Profile, canonical};
use hapax_core::snapshot::{EntityScan, NewSnapshot};
use hapax_core::{Error, Kind};

/// How many observations a snapshot keeps, the newest. No less than a batch may bring.
pub(crate) const OBSERVATIONS_MAX: usize = 1000;
const _: () = assert!(OBSERVATIONS_MAX >= NewSnapshot::BATCH_MAX);

/// How many rows are filled in one transaction.
pub(crate) const FILLED_AT_ONCE: usize = 32;
/// The most rows of one step of filling in.
pub(crate) const FILLED_MAX: usize = 1000;

/// What a row says of its hash.
pub(crate) const THERE: &str = "there";
pub(crate) const DUPLICATE: &str = "duplicate";
pub(crate) const UNREADABLE: &str = "unreadable";

/// Refuses more payloads than one put takes.
pub(crate) fn at_most(count: usize) -> Result<(), Error> {
    let most = NewSnapshot::BATCH_MAX;
    if count <= most {
        return Ok(());
    }
    let why = format!("{count} payloads in one call; at most {most} are taken");
    Err(Error::new(Kind::Limit, "putting snapshots").because(why))
}

/// How many rows a page has, as a database counts.
pub(crate) fn page(limit: usize) -> i64 {
    signed(limit.min(EntityScan::LIMIT_MAX))
}

/// A count as a database counts.
pub(crate) fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Whether two texts are the same payload: in their canonical form they are the same bytes.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let form = |text: &str| canonical(text.as_bytes(), Profile::Hcj1).ok();
    one == other || form(one).is_some_and(|one| form(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_texts_of_one_payload_are_the_same_and_others_are_not() {
        assert!(is_same(r#"{"a":1,"b":2}"#, r#"{ "b": 2.0, "a": 1 }"#));
        assert!(!is_same(r#"{"a":1}"#, r#"{"a":"1"}"#));
        assert!(is_same("not json", "not json"));
        assert!(!is_same("not json", "nor this"), "two errors are not equal");
    }
}
