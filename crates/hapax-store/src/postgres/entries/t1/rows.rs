//! Batches and items of the database back into what they are, and into columns. It runs no statement.

use std::collections::BTreeMap;

use hapax_core::entry::{Batch, BatchState, DueBatch, Item, ItemStatus, Provider, Schema};
use hapax_core::{Error, Fingerprint, Tenant, Time};
use serde_json::{Map, Value};
use tokio_postgres::Row;

use super::super::super::columns::get;
use super::super::rows::{json, time};
use crate::t1::{status_of, text_of, unreadable};

/// How much one statement carries, roughly: a server takes no value of a gibibyte, and copies what it gets.
const PART_BYTES_MAX: usize = 16 << 20;

/// A batch and its number in its home: a row of a statement that finds or lists batches.
pub(super) fn batch(schema: Schema, row: &Row) -> Result<(i64, Batch), Error> {
    let batch = Batch {
        id: get(row, 1)?,
        schema,
        import_id: get(row, 2)?,
        completion_window: get(row, 3)?,
        metadata: members(get(row, 4)?)?,
        request_count: unsigned(get(row, 5)?),
        version: get(row, 6)?,
        created_at: time(row, 7)?,
        updated_at: time(row, 8)?,
        state: BatchState {
            status: status_of(get(row, 9)?)?,
            attempt: small(get(row, 10)?)?,
            failures: small(get(row, 11)?)?,
            next_at: time(row, 12)?,
            model: get(row, 13)?,
            provider: Provider {
                batch_id: get(row, 14)?,
                status: get(row, 15)?,
                input_file: get(row, 16)?,
                output_file: get(row, 17)?,
                error_file: get(row, 18)?,
            },
            error: get(row, 19)?,
        },
        items: counts(members(get(row, 20)?)?)?,
    };
    Ok((get(row, 0)?, batch))
}

/// A row of `t1_batch_due.sql`, with the time that it waits since.
pub(super) fn due(schema: Schema, row: &Row) -> Result<(Time, DueBatch), Error> {
    let batch = DueBatch {
        tenant: Tenant::from_uuid(get(row, 1)?),
        schema,
        id: get(row, 2)?,
        status: status_of(get(row, 3)?)?,
        attempt: small(get(row, 4)?)?,
    };
    Ok((time(row, 0)?, batch))
}

/// A row of `t1_item_list.sql`.
pub(super) fn item(row: &Row) -> Result<Item, Error> {
    let text = get::<Option<&str>>(row, 4)?.map(|text| text_of(&json(text)?));
    let result = get::<Option<&str>>(row, 6)?.map(json);
    Ok(Item {
        item_id: get(row, 0)?,
        entry_id: get(row, 1)?,
        hash: hash(get(row, 2)?)?,
        status: status_of(get(row, 3)?)?,
        text: text.transpose()?,
        raw: get::<Option<&str>>(row, 5)?.map(Into::into),
        result: result.transpose()?,
        error: get(row, 7)?,
        updated_at: time(row, 8)?,
        missed_in: get::<Option<i64>>(row, 9)?.map(small).transpose()?,
    })
}

/// How far an item is, and what it is about.
pub(super) struct Seen {
    pub(super) item_id: i64,
    pub(super) status: ItemStatus,
    pub(super) entry_id: Option<i64>,
    pub(super) hash: Fingerprint,
}

/// A row of `t1_item_lock.sql`.
pub(super) fn seen(row: &Row) -> Result<Seen, Error> {
    Ok(Seen {
        item_id: get(row, 0)?,
        status: status_of(get(row, 1)?)?,
        entry_id: get(row, 2)?,
        hash: hash(get(row, 3)?)?,
    })
}

/// A fingerprint in a column.
pub(super) fn hash(bytes: Option<&[u8]>) -> Result<Fingerprint, Error> {
    let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| unreadable("fingerprint"))?;
    Ok(Fingerprint::from_bytes(bytes))
}

/// Splits what is written, in its order, so that no statement carries too much.
pub(super) fn parts<T>(all: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut filled) = (Vec::new(), usize::MAX);
    for one in all {
        let more = bytes(&one);
        match parts.last_mut() {
            Some(part) if filled.saturating_add(more) <= PART_BYTES_MAX => {
                filled += more;
                Vec::push(part, one);
            }
            _ => {
                filled = more;
                parts.push(vec![one]);
            }
        }
    }
    parts
}

fn members(text: Option<&str>) -> Result<Map<String, Value>, Error> {
    match text.map(json).transpose()? {
        None => Ok(Map::new()),
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(unreadable("metadata")),
    }
}

fn counts(members: Map<String, Value>) -> Result<BTreeMap<ItemStatus, u64>, Error> {
    let count = |(word, count): (String, Value)| {
        let count = count.as_u64().ok_or_else(|| unreadable("count of items"))?;
        Ok((status_of(&word)?, count))
    };
    members.into_iter().map(count).collect()
}

fn small(count: i64) -> Result<u32, Error> {
    u32::try_from(count).map_err(|_| unreadable("count of tries"))
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_split_and_what_is_too_much_goes_alone() {
        let most = PART_BYTES_MAX;
        let sizes = [1, most - 1, 1, most + 1, 0, most, 0];
        let split = parts(sizes.to_vec(), |size| *size);
        let expected = [vec![1, most - 1], vec![1], vec![most + 1], vec![0, most, 0]];
        assert_eq!(split, expected);
        assert!(parts(Vec::<usize>::new(), |size| *size).is_empty());
    }
}
