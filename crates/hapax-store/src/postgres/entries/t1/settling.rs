//! What changes make of items and entries, one after the other. It runs no statement.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use hapax_core::Time;
use hapax_core::entry::{
    Change, Done, Fields, Incoming, ItemChange, ItemStatus, Plan, Row, enrichable,
};
use uuid::Uuid;

use super::super::super::columns::Param;
use super::super::rows::{Columns, Revisions, json_text};
use super::rows::{Seen, parts};
use crate::t1::STALE;

/// What is written, and what is answered then.
pub(super) struct Settling {
    pub(super) settled: Vec<Option<ItemStatus>>,
    pub(super) items: Vec<Items>,
    pub(super) updates: Vec<Columns>,
    pub(super) replaced: Vec<Revisions>,
}

impl Settling {
    /// Goes through the changes in their order. `seen` are the items that they name and `found` the entries of those,
    /// all of them locked.
    pub(super) fn of(changes: &[ItemChange], seen: Vec<Seen>, found: Vec<Row>, now: Time) -> Self {
        let mut bench = Bench {
            seen: seen.into_iter().map(|seen| (seen.item_id, seen)).collect(),
            entries: found.into_iter().map(|row| (row.entry_id, row)).collect(),
            next: BTreeMap::new(),
            changed: BTreeSet::new(),
            replaced: Vec::new(),
        };
        let settled = changes.iter().map(|change| bench.settle(change, now));
        let settled = settled.collect();
        let items = parts(bench.next.into_iter().collect(), |(_, next)| next.bytes());
        let rows = bench.changed.iter();
        let rows: Vec<&Row> = rows.filter_map(|id| bench.entries.get(id)).collect();
        let updates = parts(rows, |row| row.fields.weight());
        let replaced = parts(bench.replaced, |row| row.fields.weight());
        Self {
            settled,
            items: items.into_iter().map(Items::of).collect(),
            updates: updates.iter().map(|rows| Columns::of(rows)).collect(),
            replaced: replaced
                .into_iter()
                .map(|rows| Revisions::of(rows.into_iter()))
                .collect(),
        }
    }
}

/// Items and entries as they are after the changes so far.
struct Bench {
    seen: HashMap<i64, Seen>,
    entries: HashMap<i64, Row>,
    next: BTreeMap<i64, Next>,
    changed: BTreeSet<i64>,
    replaced: Vec<Row>,
}

/// What an item becomes.
struct Next {
    status: ItemStatus,
    raw: Option<Arc<str>>,
    result: Option<String>,
    error: Option<String>,
    missed_in: Option<i64>,
}

impl Next {
    fn bytes(&self) -> usize {
        let text = |text: Option<&str>| text.map_or(0, str::len);
        64 + text(self.raw.as_deref()) + text(self.result.as_deref()) + text(self.error.as_deref())
    }
}

impl Bench {
    /// Makes one change, if the item is where it begins. How far the item is then; `None` if it is not of the batch.
    fn settle(&mut self, change: &ItemChange, now: Time) -> Option<ItemStatus> {
        let seen = self.seen.get(&change.item_id)?;
        if seen.status != change.from {
            return Some(seen.status);
        }
        let (entry_id, hash) = (seen.entry_id, seen.hash);
        let (status, refused) = match (&change.entry, entry_id) {
            (Some(fields), Some(entry_id)) => match self.entries.get(&entry_id) {
                // Made of what the row says, so that a text that somebody changed by hand counts as well.
                Some(row) if enrichable(&row.fields) == Some(hash) => {
                    match self.write(entry_id, fields, now) {
                        None => (change.to, None),
                        refused => (ItemStatus::Failed, refused),
                    }
                }
                Some(_) | None => (ItemStatus::Stale, Some(STALE.to_owned())),
            },
            (None, _) | (_, None) => (change.to, None),
        };
        if let Some(seen) = self.seen.get_mut(&change.item_id) {
            seen.status = status;
        }
        let before = self.next.remove(&change.item_id);
        let (raw, result, missed_in) = before.map_or((None, None, None), |before| {
            (before.raw, before.result, before.missed_in)
        });
        let next = Next {
            status,
            raw: change.raw.clone().or(raw),
            result: change.result.as_ref().map(json_text).or(result),
            error: refused.or_else(|| change.error.clone()),
            missed_in: missed_in.or(change.missed_in.map(i64::from)),
        };
        self.next.insert(change.item_id, next);
        Some(status)
    }

    /// Puts `fields` over an entry by the rule of entries. Says why not, if the rule refuses.
    fn write(&mut self, entry_id: i64, fields: &Fields, now: Time) -> Option<String> {
        let row = self.entries.get(&entry_id)?;
        let change = Incoming::Update(Change {
            entry_id: Some(entry_id),
            id: None,
            fields: fields.clone(),
            ignored: Vec::new(),
        });
        let plan = Plan::of(vec![change], &[], vec![row.clone()], &[], now, Uuid::now_v7);
        if let Some(row) = plan.updates().next() {
            self.replaced.extend(plan.replaced());
            self.entries.insert(entry_id, row.clone());
            self.changed.insert(entry_id);
        }
        plan.answers().into_iter().find_map(|done| match done {
            Done::Kept(_) => None,
            Done::Refused(refused) => Some(refused.message),
            Done::Missing => Some("the entry that it names is not there".to_owned()),
        })
    }
}

/// Items to be written, column by column.
#[derive(Default)]
pub(super) struct Items {
    item_id: Vec<i64>,
    status: Vec<&'static str>,
    raw: Vec<Option<String>>,
    result: Vec<Option<String>>,
    error: Vec<Option<String>>,
    missed_in: Vec<Option<i64>>,
}

impl Items {
    fn of(items: Vec<(i64, Next)>) -> Self {
        let mut columns = Self::default();
        for (item_id, next) in items {
            columns.item_id.push(item_id);
            columns.status.push(next.status.as_str());
            columns
                .raw
                .push(next.raw.map(|raw| raw.as_ref().to_owned()));
            columns.result.push(next.result);
            columns.error.push(next.error);
            columns.missed_in.push(next.missed_in);
        }
        columns
    }

    /// The parameters of `t1_item_settle.sql`.
    pub(super) fn params<'a>(
        &'a self,
        tenant: &'a Uuid,
        batch: &'a Uuid,
        now: &'a SystemTime,
    ) -> Vec<Param<'a>> {
        vec![
            tenant,
            batch,
            now,
            &self.item_id,
            &self.status,
            &self.raw,
            &self.result,
            &self.error,
            &self.missed_in,
        ]
    }
}
