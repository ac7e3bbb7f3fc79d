//! The files that a provider made of a batch, taken in: each answer is recorded on its item, in any order, a few at a time.
//! What an answer means is looked at later.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use hapax_core::entry::{Item, ItemChange, ItemStatus};
use hapax_core::{Error, Fingerprint};
use hapax_effects::enrich::llm::count_tokens;
use hapax_effects::enrich::{LineFault, Outcome, OutputLine, Usage};
use serde::{Deserialize, Serialize};

use super::lines::{Maker, custom_id, is_answered};
use super::results::kept;
use super::row::{Row, change, cut};

/// How many answers, and how many bytes of them, are recorded at a time.
const CHUNK: usize = 200;
const CHUNK_BYTES: usize = 4 << 20;
/// Why an item has no answer, if nobody says why.
const NO_LINE: &str = "the provider's files have no line for it";

/// What the files held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Taken {
    /// Lines with an answer.
    pub(super) answered: u64,
    /// Lines without one.
    pub(super) failed: u64,
    /// Items that have no line.
    pub(super) missing: u64,
    /// Lines that nobody sent. Nothing is done with them.
    pub(super) unknown: u64,
    /// Lines that are there again. The first answer stands.
    pub(super) duplicates: u64,
    /// Lines that cannot be read.
    pub(super) broken: u64,
}

impl Taken {
    /// What is wrong with the files, if anything is.
    pub(super) fn complaint(&self) -> Option<String> {
        let told = [
            (self.failed, "without an answer"),
            (self.missing, "missing"),
            (self.unknown, "unknown"),
            (self.duplicates, "there twice"),
            (self.broken, "unreadable"),
        ];
        let told: Vec<String> = told
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!told.is_empty()).then(|| format!("lines of the provider's files: {}", told.join(", ")))
    }

    /// Counts them for whoever watches.
    pub(super) fn count(&self) {
        for (count, what) in [
            (self.answered, "answered"),
            (self.failed, "failed"),
            (self.missing, "missing"),
            (self.unknown, "unknown"),
            (self.duplicates, "duplicate"),
            (self.broken, "broken"),
        ] {
            metrics::counter!("hapax_t1_lines_total", "what" => what).increment(count);
        }
    }
}

/// Why items have no answer, by the name of their line.
pub(super) type Faults = HashMap<String, LineFault>;
/// What the answer of an item took, by its number.
type Used = HashMap<i64, Usage>;

/// What was found in the files, line by line.
pub(super) struct Found {
    pub(super) taken: Taken,
    pub(super) faults: Faults,
    used: Used,
}

/// The items of a batch by the names of their lines.
pub(super) struct Expected(HashMap<String, Vec<Item>>);

impl Expected {
    /// All items of the batch, by what their lines are called in this attempt.
    pub(super) async fn of(row: &Row, attempt: u32) -> Result<Self, Error> {
        let mut expected: HashMap<String, Vec<Item>> = HashMap::new();
        let mut after = None;
        loop {
            let page = row.page(None, after, false).await?;
            let Some(last) = page.last() else {
                return Ok(Self(expected));
            };
            after = Some(last.item_id);
            for mut item in page {
                item.raw = None;
                item.result = None;
                let name = custom_id(row.schema, &item, attempt).to_string();
                expected.entry(name).or_default().push(item);
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Takes the files in. Doing it again changes nothing: an item is answered once.
///
/// # Errors
/// When the store could not be asked. What was recorded stays so.
pub(super) async fn take_in(
    row: &Row,
    files: &[Bytes],
    expected: &Expected,
) -> Result<Found, Error> {
    let mut taken = Taken::default();
    let (mut answered, mut faults) = (HashSet::new(), Faults::new());
    let mut used = Used::new();
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    for line in files.iter().flat_map(|file| OutputLine::all(file)) {
        let Ok(line) = line else {
            taken.broken += 1;
            continue;
        };
        let Some(items) = expected.0.get(&line.custom_id) else {
            taken.unknown += 1;
            continue;
        };
        if answered.contains(&line.custom_id) {
            taken.duplicates += 1;
            continue;
        }
        match line.outcome {
            Outcome::Failed(fault) => {
                if faults.insert(line.custom_id, fault).is_some() {
                    taken.duplicates += 1;
                }
            }
            Outcome::Answered(answer) => {
                used.extend(items.first().map(|item| (item.item_id, answer.usage)));
                let text = kept(answer);
                bytes += text.len();
                let queued = items
                    .iter()
                    .filter(|item| item.status == ItemStatus::Queued);
                chunk.extend(queued.map(|item| is_answered(item, Arc::clone(&text))));
                faults.remove(&line.custom_id);
                answered.insert(line.custom_id);
            }
        }
        if chunk.len() >= CHUNK || bytes >= CHUNK_BYTES {
            record(row, std::mem::take(&mut chunk)).await?;
            bytes = 0;
        }
    }
    record(row, chunk).await?;
    taken.answered = answered.len() as u64;
    taken.failed = faults.len() as u64;
    Ok(Found {
        taken,
        faults,
        used,
    })
}

async fn record(row: &Row, mut changes: Vec<ItemChange>) -> Result<(), Error> {
    while !changes.is_empty() {
        let rest = changes.split_off(changes.len().min(CHUNK));
        row.settle(changes).await?;
        changes = rest;
    }
    Ok(())
}

/// Keeps what was answered under what was asked, and gives those answers to items that ask the same. Counts what the
/// answers took on the way.
///
/// # Errors
/// When the store could not be asked.
pub(super) async fn share(row: &Row, maker: &Maker, found: &mut Found) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = row.page(Some(ItemStatus::Answered), after, true).await?;
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.item_id);
        let (asks, _) = maker.prompts(page).await?;
        for one in &asks {
            if let Some(usage) = found.used.remove(&one.item.item_id) {
                count_tokens(&maker.model, one.mode(), usage);
            }
        }
        let answers: Vec<(Fingerprint, Arc<str>)> = asks
            .into_iter()
            .filter_map(|one| Some((one.key, one.item.raw?)))
            .collect();
        if !answers.is_empty() {
            row.batches.keep_answers(row.tenant, answers).await?;
        }
    }
    for status in [ItemStatus::Queued, ItemStatus::Waiting] {
        after = None;
        loop {
            let page = row.page(Some(status), after, true).await?;
            let Some(last) = page.last() else {
                break;
            };
            after = Some(last.item_id);
            let (asks, _) = maker.prompts(page).await?;
            let keys = asks.iter().map(|one| one.key).collect();
            let paid = row.batches.paid_answers(row.tenant, keys).await?;
            let changes = asks.iter().zip(paid);
            let changes = changes.filter_map(|(one, paid)| Some(is_answered(&one.item, paid?)));
            row.settle(changes.collect()).await?;
        }
    }
    Ok(())
}

/// Sees to items that were asked and have no answer. One that was refused, or has none for the second time, ends; the
/// others are asked once more. `fate` says what became of the whole batch, if it came to nothing. Answers how many have
/// no line.
///
/// # Errors
/// When the store could not be asked.
pub(super) async fn see_to_missing(
    row: &Row,
    attempt: u32,
    faults: &Faults,
    fate: Option<&str>,
) -> Result<u64, Error> {
    let (mut after, mut missing) = (None, 0);
    loop {
        let page = row.page(Some(ItemStatus::Queued), after, false).await?;
        let Some(last) = page.last() else {
            return Ok(missing);
        };
        after = Some(last.item_id);
        let mut changes = Vec::new();
        for item in &page {
            let fault = faults.get(&custom_id(row.schema, item, attempt).to_string());
            missing += u64::from(fault.is_none());
            let is_refused = fault.is_some_and(|fault| !fault.is_transient());
            let was_missed = item.missed_in.is_some_and(|first| first < attempt);
            let to = if is_refused || was_missed {
                ItemStatus::Failed
            } else {
                ItemStatus::Queued
            };
            let why = fault.map_or_else(|| fate.unwrap_or(NO_LINE).to_owned(), ToString::to_string);
            changes.push(ItemChange {
                error: Some(cut(&why)),
                missed_in: Some(attempt),
                ..change(item, ItemStatus::Queued, to)
            });
        }
        row.settle(changes).await?;
    }
}
