//! What both databases agree on about enrichment: its limits, the words in its columns, whose turn it is, and texts that
//! every database takes. It knows no SQL.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use hapax_core::entry::{
    Asked, Batch, BatchState, DueBatch, Fields, ItemChange, ItemScan, ItemText, NewBatch, NewItem,
    Provider, Schema,
};
use hapax_core::{Error, Fingerprint, Kind, Time};
use serde_json::{Map, Value, json};

/// Why a result is not for its entry.
pub(crate) const STALE: &str = "its entry says something else by now";

/// An item as it is written.
pub(crate) struct Prepared {
    /// The entry that the result is for.
    pub(crate) entry_id: Option<i64>,
    /// The fingerprint of its text.
    pub(crate) hash: Fingerprint,
    /// Its own text, if it is of no entry.
    pub(crate) request: Option<Value>,
}

impl Prepared {
    /// The items of a batch.
    ///
    /// # Errors
    /// [`Kind::Limit`] if there are none or too many, or one has no text.
    pub(crate) fn all(new: &NewBatch) -> Result<Vec<Self>, Error> {
        let (count, most) = (new.items.len(), NewBatch::ITEMS_MAX);
        if count == 0 || count > most {
            let why = format!("a batch of {count} items; it has from 1 to {most}");
            return Err(refused(why));
        }
        new.items.iter().enumerate().map(Self::one).collect()
    }

    fn one((index, item): (usize, &NewItem)) -> Result<Self, Error> {
        let text = match item {
            NewItem::OfEntry { entry_id, hash } => {
                return Ok(Self {
                    entry_id: Some(*entry_id),
                    hash: *hash,
                    request: None,
                });
            }
            NewItem::Own(text) => text,
        };
        let text = ItemText {
            title: text.title.as_deref().map(whole),
            author: text.author.as_deref().map(whole),
            content_type: text.content_type.as_deref().map(whole),
            clean_text: whole(&text.clean_text),
        };
        let textless = || refused(format!("item {index} has no text to enrich"));
        Ok(Self {
            entry_id: None,
            hash: text.fingerprint().ok_or_else(textless)?,
            request: Some(request_of(&text)),
        })
    }
}

/// How much memory the items of a batch hold, roughly.
pub(crate) fn weight(items: &[NewItem]) -> usize {
    const OVERHEAD_BYTES: usize = 256;
    let text = |item: &NewItem| match item {
        NewItem::OfEntry { .. } => 0,
        NewItem::Own(text) => bytes(text),
    };
    items.iter().map(|item| OVERHEAD_BYTES + text(item)).sum()
}

/// How many bytes a text has.
pub(crate) fn bytes(text: &ItemText) -> usize {
    let more = [&text.title, &text.author, &text.content_type];
    let more: usize = more.into_iter().flatten().map(String::len).sum();
    text.clean_text.len() + more
}

/// Refuses more changes than one call takes.
pub(crate) fn at_most_changes(count: usize) -> Result<(), Error> {
    at_most(count, ItemScan::LIMIT_MAX, "changes of items")
}

/// Refuses more questions or answers than one call takes.
pub(crate) fn at_most_answers(count: usize) -> Result<(), Error> {
    at_most(count, Asked::CALL_MAX, "answers")
}

fn at_most(count: usize, most: usize, what: &str) -> Result<(), Error> {
    if count <= most {
        return Ok(());
    }
    let why = format!("{count} {what} in one call; at most {most} are taken");
    Err(refused(why))
}

fn refused(why: String) -> Error {
    Error::new(Kind::Limit, "keeping a batch for enrichment").because(why)
}

/// How many rows an answer has, as a database counts.
pub(crate) fn page(limit: usize) -> i64 {
    i64::try_from(limit.min(ItemScan::LIMIT_MAX)).unwrap_or(i64::MAX)
}

/// The text with U+FFFD for each U+0000, which not every database takes.
pub(crate) fn taken(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}").into()
    } else {
        text.into()
    }
}

fn whole(text: &str) -> String {
    taken(text).into_owned()
}

fn shared(text: Arc<str>) -> Arc<str> {
    if text.contains('\0') {
        taken(&text).into()
    } else {
        text
    }
}

/// The value with U+FFFD for each U+0000, in its names too.
pub(crate) fn taken_value(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains('\0') => whole(&text).into(),
        Value::Array(values) => values.into_iter().map(taken_value).collect(),
        Value::Object(members) => Value::Object(taken_members(members)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// The members with U+FFFD for each U+0000, in their names too.
pub(crate) fn taken_members(members: Map<String, Value>) -> Map<String, Value> {
    let one = |(name, value): (String, Value)| (whole(&name), taken_value(value));
    members.into_iter().map(one).collect()
}

/// The state with texts that every database takes.
pub(crate) fn taken_state(state: BatchState) -> BatchState {
    let one = |text: Option<String>| text.map(|text| whole(&text));
    BatchState {
        model: one(state.model),
        provider: Provider {
            batch_id: one(state.provider.batch_id),
            status: one(state.provider.status),
            input_file: one(state.provider.input_file),
            output_file: one(state.provider.output_file),
            error_file: one(state.provider.error_file),
        },
        error: one(state.error),
        ..state
    }
}

/// The change with texts that every database takes.
pub(crate) fn taken_change(change: ItemChange) -> ItemChange {
    let fields = |fields: Fields| {
        let said = fields.iter();
        said.map(|(column, value)| (column, taken_value(value.clone())))
            .collect()
    };
    ItemChange {
        raw: change.raw.map(shared),
        result: change.result.map(taken_value),
        error: change.error.map(|error| whole(&error)),
        entry: change.entry.map(fields),
        ..change
    }
}

/// The answers with texts that every database takes.
pub(crate) fn taken_answers(answers: Vec<(Fingerprint, Arc<str>)>) -> Vec<(Fingerprint, Arc<str>)> {
    let one = |(key, raw): (Fingerprint, Arc<str>)| (key, shared(raw));
    answers.into_iter().map(one).collect()
}

/// An item's own text as it is stored.
fn request_of(text: &ItemText) -> Value {
    json!({
        "title": text.title, "author": text.author, "content_type": text.content_type,
        "clean_text": text.clean_text,
    })
}

/// The text behind a stored one.
///
/// # Errors
/// [`Kind::Corrupt`] if it is none.
pub(crate) fn text_of(request: &Value) -> Result<ItemText, Error> {
    let text = |name: &str| request.get(name).and_then(Value::as_str);
    let own = |name: &str| text(name).map(str::to_owned);
    Ok(ItemText {
        title: own("title"),
        author: own("author"),
        content_type: own("content_type"),
        clean_text: own("clean_text").ok_or_else(|| unreadable("text"))?,
    })
}

/// The status with this word, of a batch or an item.
///
/// # Errors
/// [`Kind::Corrupt`] if there is none.
pub(crate) fn status_of<S: FromStr>(word: &str) -> Result<S, Error> {
    word.parse().map_err(|_| unreadable("status"))
}

/// The error of a column that holds what was never written there.
pub(crate) fn unreadable(what: &str) -> Error {
    let why = format!("the {what} of the batch cannot be read");
    Error::new(Kind::Corrupt, "reading a batch for enrichment").because(why)
}

/// The batch that a page begins after.
pub(crate) struct After {
    /// When it was made.
    pub(crate) created_at: Time,
    /// Where it is.
    pub(crate) schema: Schema,
    /// Its number there.
    pub(crate) seq: i64,
}

impl After {
    /// The time and the number that batches of this home come before. Batches of the two homes that were made at the
    /// same time have an order, too, so that no page has a gap.
    pub(crate) fn bound(&self, schema: Schema) -> (Time, i64) {
        let seq = match schema.cmp(&self.schema) {
            std::cmp::Ordering::Less => i64::MAX,
            std::cmp::Ordering::Equal => self.seq,
            std::cmp::Ordering::Greater => i64::MIN,
        };
        (self.created_at, seq)
    }
}

/// The newest batches of the homes, each of which comes newest first.
pub(crate) fn newest(homes: impl IntoIterator<Item = Vec<Batch>>, limit: usize) -> Vec<Batch> {
    let mut all: Vec<Batch> = homes.into_iter().flatten().collect();
    // It is stable: what a home made at one time stays in its order.
    all.sort_by_key(|batch| std::cmp::Reverse((batch.created_at, batch.schema)));
    all.truncate(limit.min(ItemScan::LIMIT_MAX));
    all
}

/// Batches of the homes in turn, each of which comes in the order of waiting, with the time it waits since.
pub(crate) fn in_turn(homes: [Vec<(Time, DueBatch)>; 2], limit: usize) -> Vec<DueBatch> {
    let [one, other] = homes;
    let first_of = |home: &[(Time, DueBatch)]| home.first().map(|(since, _)| *since);
    let begins_other = match (first_of(&one), first_of(&other)) {
        (Some(one), Some(other)) => other < one,
        (_, other) => other.is_some(),
    };
    let (first, second) = if begins_other {
        (other, one)
    } else {
        (one, other)
    };
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let (mut due, limit) = (Vec::new(), limit.min(ItemScan::LIMIT_MAX));
    while due.len() < limit {
        let turn = [first.next(), second.next()];
        if turn.iter().all(Option::is_none) {
            break;
        }
        due.extend(turn.into_iter().flatten().map(|(_, batch)| batch));
    }
    due.truncate(limit);
    due
}

#[cfg(test)]
mod tests {
    use hapax_core::Tenant;
    use hapax_core::entry::BatchStatus;
    use uuid::Uuid;

    use super::*;

    fn due(schema: Schema, times: &[i64]) -> Vec<(Time, DueBatch)> {
        let one = |ms: &i64| {
            let batch = DueBatch {
                tenant: Tenant::DEFAULT,
                schema,
                id: Uuid::from_u128(u128::from(ms.unsigned_abs())),
                status: BatchStatus::Queued,
                attempt: 1,
            };
            (Time::from_ms(*ms), batch)
        };
        times.iter().map(one).collect()
    }

    fn order(one: &[i64], other: &[i64], limit: usize) -> Vec<u128> {
        let homes = [due(Schema::Pkm, one), due(Schema::PkmTest, other)];
        let due = in_turn(homes, limit);
        due.iter().map(|batch| batch.id.as_u128()).collect()
    }

    #[test]
    fn homes_take_turns_and_the_one_that_waits_longest_begins() {
        assert_eq!(order(&[1, 2, 3], &[9], 9), [1, 9, 2, 3]);
        assert_eq!(order(&[5, 6, 7], &[4], 3), [4, 5, 6]);
        assert_eq!(order(&[], &[1, 2], 9), [1, 2]);
        assert_eq!(order(&[1, 2], &[], 1), [1]);
        assert_eq!(order(&[1], &[2], 0), [0; 0]);
        assert_eq!(order(&[], &[], 9), [0; 0]);
        let many: Vec<i64> = (1..=400).collect();
        let most = order(&many, &many, usize::MAX);
        assert_eq!(most.len(), ItemScan::LIMIT_MAX);
    }

    #[test]
    fn a_page_goes_on_where_it_ended_in_both_homes() {
        let after = After {
            created_at: Time::from_ms(7),
            schema: Schema::PkmTest,
            seq: 3,
        };
        assert_eq!(after.bound(Schema::Pkm), (Time::from_ms(7), i64::MAX));
        assert_eq!(after.bound(Schema::PkmTest), (Time::from_ms(7), 3));
        let after = After {
            schema: Schema::Pkm,
            ..after
        };
        assert_eq!(after.bound(Schema::PkmTest), (Time::from_ms(7), i64::MIN));
    }

    #[test]
    fn what_a_database_does_not_take_is_replaced_everywhere() {
        let value = json!({"a\u{0}": ["x\u{0}y", {"b": "\u{0}"}], "n": 1});
        let kept = json!({"a\u{fffd}": ["x\u{fffd}y", {"b": "\u{fffd}"}], "n": 1});
        assert_eq!(taken_value(value), kept);
        assert!(matches!(taken("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        let text = ItemText {
            title: Some("Tea".to_owned()),
            clean_text: "green".to_owned(),
            ..ItemText::default()
        };
        assert_eq!(text_of(&request_of(&text)).ok(), Some(text));
        assert!(text_of(&json!({"title": "Tea"})).is_err());
    }
}
