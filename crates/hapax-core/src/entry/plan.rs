//! The rule applied to a batch: the store brings the rows that the batch meets, and gets what to write.
//! A store decides nothing; two items of one batch meet like two requests.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::catalog::{Action, Done, Incoming, Kept};
use super::draft::{Change, Draft, Refused, Which};
use super::fields::Row;
use super::judge::{Judged, Seen, judge, within_limits};
use super::message::{Merged, message};
use super::policy::Policy;
use crate::fingerprint::Fingerprint;
use crate::time::Time;

/// How much one batch may replace, in bytes of texts: each old state is kept.
pub const REPLACED_BYTES_MAX: usize = 128 << 20;

/// A row that the batch meets or makes.
struct Held {
    row: Arc<Row>,
    is_new: bool,
    changed: bool,
}

/// What became of one item: an answer, whose row is known by its place until it has a number.
struct Ruling {
    place: Option<usize>,
    conflict_place: Option<usize>,
    done: Done,
}

/// What a store writes, and what it answers then.
pub struct Plan {
    held: Vec<Held>,
    by_key: HashMap<(String, Which, String), usize>,
    by_number: HashMap<i64, usize>,
    by_id: HashMap<Uuid, usize>,
    rulings: Vec<Ruling>,
    replaced: Vec<(usize, Arc<Row>)>,
    replaced_bytes: usize,
    /// Which messages the rows have merged, before the batch or in it.
    merged: HashSet<(usize, Fingerprint)>,
    learned: Vec<(usize, Fingerprint)>,
}

/// A key of a draft under its policy: what a store looks rows up by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lookup {
    /// The policy's name.
    pub policy: String,
    /// Which key.
    pub which: Which,
    /// The key.
    pub key: String,
}

impl Plan {
    /// The keys that a batch may meet rows by, sorted and each once.
    #[must_use]
    pub fn lookups(batch: &[Incoming]) -> Vec<Lookup> {
        let mut lookups: Vec<Lookup> = batch
            .iter()
            .filter_map(|incoming| match incoming {
                Incoming::Insert(draft) => Some(draft),
                Incoming::Update(_) | Incoming::Refused(_) => None,
            })
            .flat_map(|draft| {
                Which::BOTH.into_iter().filter_map(move |which| {
                    Some(Lookup {
                        policy: draft.policy()?.to_owned(),
                        which,
                        key: draft.key(which)?.to_owned(),
                    })
                })
            })
            .collect();
        lookups.sort();
        lookups.dedup();
        lookups
    }

    /// The numbers and UUIDs of rows that a batch names.
    #[must_use]
    pub fn named(batch: &[Incoming]) -> (Vec<i64>, Vec<Uuid>) {
        let changes = || {
            batch.iter().filter_map(|incoming| match incoming {
                Incoming::Update(change) => Some(change),
                Incoming::Insert(_) | Incoming::Refused(_) => None,
            })
        };
        (
            changes().filter_map(|change| change.entry_id).collect(),
            changes().filter_map(|change| change.id).collect(),
        )
    }

    /// The messages of a batch beside the rows that they meet: what a store looks for among those that were merged.
    #[must_use]
    pub fn merges(batch: &[Incoming], found: &[Row]) -> Vec<Merged> {
        let mut by_key: HashMap<(&str, Which, &str), i64> = HashMap::new();
        for row in found {
            for (which, policy, key) in keys_of(row) {
                by_key.insert((policy, which, key), row.entry_id);
            }
        }
        let mut merges = HashSet::new();
        for incoming in batch {
            let Incoming::Insert(draft) = incoming else {
                continue;
            };
            let Some((policy, message)) = draft.policy().zip(message(&draft.fields)) else {
                continue;
            };
            let keys = Which::BOTH
                .into_iter()
                .filter_map(|which| Some((policy, which, draft.key(which)?)));
            let rows = keys.filter_map(|key| by_key.get(&key));
            merges.extend(rows.map(|&entry_id| Merged { entry_id, message }));
        }
        merges.into_iter().collect()
    }

    /// Judges the items in their order. `found` are the rows that have one of the [lookups](Plan::lookups) or are
    /// [named](Plan::named), locked by the store; a row may come more than once. `merged` is which of their
    /// [merges](Plan::merges) happened before.
    #[must_use]
    pub fn of(
        batch: Vec<Incoming>,
        policies: &[Policy],
        found: Vec<Row>,
        merged: &[Merged],
        now: Time,
        mut new_id: impl FnMut() -> Uuid,
    ) -> Self {
        let mut plan = Self {
            held: Vec::with_capacity(found.len()),
            by_key: HashMap::new(),
            by_number: HashMap::new(),
            by_id: HashMap::new(),
            rulings: Vec::with_capacity(batch.len()),
            replaced: Vec::new(),
            replaced_bytes: 0,
            merged: HashSet::new(),
            learned: Vec::new(),
        };
        for row in found {
            if !plan.by_id.contains_key(&row.id) {
                plan.by_number.insert(row.entry_id, plan.held.len());
                plan.hold(row, false);
            }
        }
        for merged in merged {
            if let Some(place) = plan.by_number.get(&merged.entry_id) {
                plan.merged.insert((*place, merged.message));
            }
        }
        for incoming in batch {
            let ruling = match incoming {
                Incoming::Refused(refused) => Ruling::refused(refused),
                Incoming::Insert(draft) => plan.insert(&draft, policies, now, &mut new_id),
                Incoming::Update(change) => plan.update(&change, now),
            };
            plan.rulings.push(ruling);
        }
        plan
    }

    fn hold(&mut self, row: Row, is_new: bool) -> usize {
        let place = self.held.len();
        self.by_id.insert(row.id, place);
        for (which, policy, key) in keys_of(&row) {
            self.by_key
                .insert((policy.to_owned(), which, key.to_owned()), place);
        }
        self.held.push(Held {
            row: Arc::new(row),
            is_new,
            changed: false,
        });
        place
    }

    fn place_of(&self, draft: &Draft, which: Which) -> Option<usize> {
        let key = (
            draft.policy()?.to_owned(),
            which,
            draft.key(which)?.to_owned(),
        );
        self.by_key.get(&key).copied()
    }

    fn seen(&self, place: Option<usize>, message: Option<Fingerprint>) -> Option<Seen<'_>> {
        place.map(|place| Seen {
            row: &self.held[place].row,
            has_merged: message.is_some_and(|message| self.merged.contains(&(place, message))),
        })
    }

    fn insert(
        &mut self,
        draft: &Draft,
        policies: &[Policy],
        now: Time,
        new_id: &mut impl FnMut() -> Uuid,
    ) -> Ruling {
        let policy = policies
            .iter()
            .find(|policy| Some(policy.key.as_str()) == draft.policy());
        let [by_primary, by_secondary] = Which::BOTH.map(|which| self.place_of(draft, which));
        // Without a policy nothing ever meets it.
        let message = policy.and_then(|_| message(&draft.fields));
        let seen = |place| self.seen(place, message);
        let judged = judge(policy, draft, seen(by_primary), seen(by_secondary));
        let found_at = |on| match on {
            Which::Primary => by_primary,
            Which::Secondary => by_secondary,
        };
        let (place, action, matched_on, conflict) = match judged {
            Judged::Refuse(refused) => return Ruling::refused(refused),
            Judged::Insert { fields, conflict } => {
                let mut row = Row::new(0, new_id(), now, fields);
                if let Some(created_at) = draft.created_at {
                    row.created_at = created_at;
                }
                (Some(self.hold(row, true)), Action::Inserted, None, conflict)
            }
            Judged::Skip(found) => (
                found_at(found.on),
                Action::Skipped,
                Some(found.on),
                found.conflict,
            ),
            Judged::Update { found, fields } => {
                let place = found_at(found.on);
                if let Some(place) = place
                    && let Err(refused) = self.replace(place, fields, now)
                {
                    return Ruling::refused(refused);
                }
                (place, Action::Updated, Some(found.on), found.conflict)
            }
        };
        if action != Action::Skipped {
            self.learned.extend(place.zip(message));
            self.merged.extend(place.zip(message));
        }
        self.ruling(place, by_secondary, |row| Kept {
            action,
            row,
            matched_on,
            conflict,
            ignored: draft.ignored.clone(),
        })
    }

    fn update(&mut self, change: &Change, now: Time) -> Ruling {
        let by_number = change.entry_id.map(|number| self.by_number.get(&number));
        let by_id = change.id.map(|id| self.by_id.get(&id));
        let place = match (by_number, by_id) {
            (Some(one), Some(other)) if one != other => None,
            (Some(one), _) | (None, Some(one)) => one.copied(),
            (None, None) => None,
        };
        let Some(place) = place else {
            return Ruling::missing();
        };
        let fields = self.held[place].row.with(&change.fields, None);
        if let Err(refused) = within_limits(&fields) {
            return Ruling::refused(refused);
        }
        if let Err(refused) = self.replace(place, fields, now) {
            return Ruling::refused(refused);
        }
        self.ruling(Some(place), None, |row| Kept {
            action: Action::Updated,
            row,
            matched_on: None,
            conflict: None,
            ignored: change.ignored.clone(),
        })
    }

    /// Puts `fields` in place and keeps the old row, unless nothing changes.
    ///
    /// # Errors
    /// The refusal, if the batch would keep more than [`REPLACED_BYTES_MAX`] of old rows.
    fn replace(&mut self, place: usize, fields: super::Fields, now: Time) -> Result<(), Refused> {
        let held = &mut self.held[place];
        if held.row.fields == fields {
            return Ok(());
        }
        let bytes = self.replaced_bytes.saturating_add(held.row.fields.weight());
        if bytes > REPLACED_BYTES_MAX {
            return Err(Refused::new(
                "payload_too_large",
                format!(
                    "the batch would replace more than {REPLACED_BYTES_MAX} bytes of entries; send fewer changes at once"
                ),
            ));
        }
        self.replaced_bytes = bytes;
        let next = Row {
            fields,
            revision: held.row.revision + 1,
            updated_at: now.max(held.row.updated_at),
            ..*held.row
        };
        let old = std::mem::replace(&mut held.row, Arc::new(next));
        self.replaced.push((place, old));
        held.changed = true;
        Ok(())
    }

    /// The answer with the row as it is now; `conflict_place` is of the row that its conflict names.
    fn ruling(
        &self,
        place: Option<usize>,
        conflict_place: Option<usize>,
        kept: impl FnOnce(Arc<Row>) -> Kept,
    ) -> Ruling {
        let Some(held) = place.and_then(|place| self.held.get(place)) else {
            return Ruling::missing();
        };
        let kept = kept(Arc::clone(&held.row));
        Ruling {
            place,
            conflict_place: kept.conflict.as_ref().and(conflict_place),
            done: Done::Kept(Box::new(kept)),
        }
    }

    /// Whether an item was refused or names a row that is not there.
    #[must_use]
    pub fn has_a_fault(&self) -> bool {
        self.rulings
            .iter()
            .any(|ruling| !matches!(ruling.done, Done::Kept(_)))
    }

    /// How many numbers the rows to be inserted need.
    #[must_use]
    pub fn numbers_needed(&self) -> usize {
        self.held.iter().filter(|held| held.is_new).count()
    }

    /// Numbers the rows to be inserted, in the order of their items.
    pub fn number(&mut self, numbers: impl IntoIterator<Item = i64>) {
        let mut numbers = numbers.into_iter();
        for held in self.held.iter_mut().filter(|held| held.is_new) {
            if let Some(number) = numbers.next() {
                Arc::make_mut(&mut held.row).entry_id = number;
            }
        }
    }

    /// The rows to be inserted, as they are at the end of the batch.
    pub fn inserts(&self) -> impl Iterator<Item = &Row> {
        self.held
            .iter()
            .filter(|held| held.is_new)
            .map(|held| &*held.row)
    }

    /// The rows to be rewritten, as they are at the end of the batch.
    pub fn updates(&self) -> impl Iterator<Item = &Row> {
        self.held
            .iter()
            .filter(|held| held.changed && !held.is_new)
            .map(|held| &*held.row)
    }

    /// The states that were replaced, to be kept: each once, with its number and its revision.
    pub fn replaced(&self) -> impl Iterator<Item = Row> {
        self.replaced.iter().map(|(place, row)| Row {
            entry_id: self.held[*place].row.entry_id,
            ..Row::clone(row)
        })
    }

    /// The messages to be remembered, each once. Call it after [`Plan::number`].
    pub fn merged(&self) -> impl Iterator<Item = Merged> {
        self.learned.iter().map(|(place, message)| Merged {
            entry_id: self.held[*place].row.entry_id,
            message: *message,
        })
    }

    /// The answers, in the order of the items. Call it after [`Plan::number`].
    #[must_use]
    pub fn answers(self) -> Vec<Done> {
        let numbers: Vec<i64> = self.held.iter().map(|held| held.row.entry_id).collect();
        self.rulings
            .into_iter()
            .map(|ruling| match ruling.done {
                Done::Kept(mut kept) => {
                    if let Some(place) = ruling.place
                        && kept.row.entry_id != numbers[place]
                    {
                        Arc::make_mut(&mut kept.row).entry_id = numbers[place];
                    }
                    if let (Some(conflict), Some(place)) =
                        (kept.conflict.as_mut(), ruling.conflict_place)
                    {
                        conflict.entry_id = numbers[place];
                    }
                    Done::Kept(kept)
                }
                other => other,
            })
            .collect()
    }
}

/// The keys that a row is met by.
fn keys_of(row: &Row) -> impl Iterator<Item = (Which, &str, &str)> {
    let policy = row.fields.text(super::Column::IdempotencyPolicyKey);
    Which::BOTH
        .into_iter()
        .filter_map(move |which| Some((which, policy?, row.fields.text(which.column())?)))
}

impl Ruling {
    fn refused(refused: Refused) -> Self {
        Self {
            place: None,
            conflict_place: None,
            done: Done::Refused(refused),
        }
    }

    fn missing() -> Self {
        Self {
            place: None,
            conflict_place: None,
            done: Done::Missing,
        }
    }
}
