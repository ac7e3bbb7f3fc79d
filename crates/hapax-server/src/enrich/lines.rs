//! The items of a batch as lines for the provider. The same items, texts and rules make the same lines, in the same order.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{Asked, Item, ItemChange, ItemStatus, ItemText, Schema};
use hapax_core::{Error, Fingerprint, Kind};
use hapax_effects::enrich::{
    BatchFile, CustomId, Mode, Owner, Prompt, Rules, Text, batch_line, request_key,
};
use serde::{Deserialize, Serialize};

use super::row::{Row, change};
use super::settings::Settings;

/// The most lines and bytes of one file: what providers take, with room to spare. What is over is sent once this is done.
const LINES_MAX: usize = 50_000;
const BYTES_MAX: u64 = 150_000_000;

/// How long what a batch asks is its own, if nothing is heard of it. It ends with the batch, which may take days.
const ASKING: Duration = Duration::from_secs(7 * 24 * 3600);

/// How prompts of a batch are made.
#[derive(Clone)]
pub(super) struct Maker {
    pub(super) settings: Arc<Settings>,
    pub(super) model: Arc<str>,
}

/// What was found in the items that are queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Loaded {
    /// Items that say something else by now.
    pub(super) stale: u64,
    /// Items whose answer was paid for before.
    pub(super) paid: u64,
    /// Items that wait for an answer that somebody else asks for.
    #[serde(default)]
    pub(super) waiting: u64,
    /// Items that ask for an answer.
    pub(super) queued: u64,
}

/// The file of a batch. It is on disk: of all the prompts a page is in memory.
pub(super) struct Lines {
    pub(super) file: BatchFile,
    /// One for all items that ask the same.
    pub(super) count: usize,
    /// How many of them show the whole text, and how many a sample.
    pub(super) whole: u64,
    pub(super) sample: u64,
    asked: HashSet<Fingerprint>,
    is_full: bool,
}

impl Lines {
    fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            file: BatchFile::new(folder)?,
            count: 0,
            whole: 0,
            sample: 0,
            asked: HashSet::new(),
            is_full: false,
        })
    }

    /// Adds lines until the file is full. Its limits are given, so that a test need not write as much.
    fn add(
        mut self,
        asks: &[Asks],
        of: (Schema, u32, &str),
        most: (usize, u64),
    ) -> io::Result<Self> {
        let (schema, attempt, model) = of;
        for one in asks {
            if !self.asked.insert(one.key) {
                continue;
            }
            let id = custom_id(schema, &one.item, attempt);
            let line = batch_line(&id, model, &one.prompt);
            let bytes = self.file.bytes() + line.len() as u64 + 1;
            if self.count == most.0 || bytes > most.1 {
                self.is_full = true;
                break;
            }
            self.file.push(&line)?;
            self.count += 1;
            match one.mode() {
                Mode::Whole => self.whole += 1,
                Mode::Sample => self.sample += 1,
            }
        }
        Ok(self)
    }
}

/// An item that asks, and what it asks.
pub(super) struct Asks {
    pub(super) item: Item,
    pub(super) key: Fingerprint,
    prompt: Prompt,
}

impl Asks {
    /// How much of its text the model sees.
    pub(super) const fn mode(&self) -> Mode {
        self.prompt.mode
    }
}

impl Maker {
    /// Makes the prompts of a page. Items whose text is not the one they are about come second.
    pub(super) async fn prompts(&self, page: Vec<Item>) -> Result<(Vec<Asks>, Vec<Item>), Error> {
        let maker = self.clone();
        // Pages hold megabytes: longer than a thread of the runtime should be held up.
        let made = tokio::task::spawn_blocking(move || {
            let (mut asks, mut stale) = (Vec::new(), Vec::new());
            for mut item in page {
                match item
                    .text
                    .take()
                    .filter(|text| text.fingerprint() == Some(item.hash))
                {
                    Some(text) => {
                        let prompt = prompt(&text, &maker.settings.rules);
                        let key = request_key(&maker.model, &prompt);
                        asks.push(Asks { item, key, prompt });
                    }
                    None => stale.push(item),
                }
            }
            (asks, stale)
        });
        made.await.map_err(|_| {
            Error::new(Kind::Unavailable, "making prompts")
                .because("the thread that made them died")
        })
    }
}

/// The prompt for a text.
pub(super) fn prompt(text: &ItemText, rules: &Rules) -> Prompt {
    let text = Text {
        title: text.title.as_deref(),
        author: text.author.as_deref(),
        content_type: text.content_type.as_deref(),
        clean_text: &text.clean_text,
    };
    Prompt::new(&text, rules)
}

/// What comes of a page of items that want to ask.
#[derive(Default)]
struct Sorted {
    /// Those whose question is this batch's to ask.
    asks: Vec<Asks>,
    /// What becomes of the others, and of those that waited until now.
    changes: Vec<ItemChange>,
    stale: u64,
    paid: u64,
    waiting: u64,
}

/// Sorts a page of items by what comes of wanting to ask. With `again` they ask whatever others ask or were answered.
async fn sort(row: &Row, maker: &Maker, page: Vec<Item>, again: bool) -> Result<Sorted, Error> {
    let (asks, stale) = maker.prompts(page).await?;
    let mut sorted = Sorted {
        changes: stale.iter().map(is_stale).collect(),
        stale: stale.len() as u64,
        ..Sorted::default()
    };
    let asked = if again {
        vec![Asked::Ours; asks.len()]
    } else {
        let keys = asks.iter().map(|one| one.key).collect();
        let batches = &row.batches;
        batches.ask(row.tenant, row.id, ASKING, keys).await?
    };
    for (one, asked) in asks.into_iter().zip(asked) {
        match (asked, one.item.status) {
            (Asked::Paid(paid), _) => {
                sorted.paid += 1;
                sorted.changes.push(is_answered(&one.item, paid));
            }
            (Asked::Theirs, from) => {
                sorted.waiting += 1;
                if from != ItemStatus::Waiting {
                    let waits = change(&one.item, from, ItemStatus::Waiting);
                    sorted.changes.push(waits);
                }
            }
            (Asked::Ours, ItemStatus::Waiting) => {
                let asks = change(&one.item, ItemStatus::Waiting, ItemStatus::Queued);
                sorted.changes.push(asks);
            }
            (Asked::Ours, _) => sorted.asks.push(one),
        }
    }
    Ok(sorted)
}

/// Settles the items that need not be sent, has those wait that others ask for, and counts the rest. With `again` answers
/// that were paid for before do not count.
///
/// # Errors
/// When the store could not be asked. What was settled stays so.
pub(super) async fn load(row: &Row, maker: &Maker, again: bool) -> Result<Loaded, Error> {
    let mut loaded = Loaded::default();
    // Those that waited first: what they wait for may be theirs to ask by now, and then they are queued.
    for status in [ItemStatus::Waiting, ItemStatus::Queued] {
        let mut after = None;
        loop {
            let page = row.page(Some(status), after, true).await?;
            let Some(last) = page.last() else {
                break;
            };
            after = Some(last.item_id);
            let sorted = sort(row, maker, page, again).await?;
            loaded.stale += sorted.stale;
            loaded.paid += sorted.paid;
            loaded.waiting += sorted.waiting;
            loaded.queued += sorted.asks.len() as u64;
            row.settle(sorted.changes).await?;
        }
    }
    Ok(loaded)
}

/// The file with a line for every text that queued items ask about. What would go over a limit stays queued.
///
/// # Errors
/// When the store could not be asked, or there is no room for the file. What was settled stays so.
pub(super) async fn build(
    row: &Row,
    maker: &Maker,
    attempt: u32,
    again: bool,
) -> Result<Lines, Error> {
    let unwritten = |error: io::Error| {
        Error::new(Kind::Unavailable, "writing the file of a batch").caused_by(error)
    };
    let mut lines = Lines::new(&maker.settings.folder()).map_err(unwritten)?;
    let mut after = None;
    while !lines.is_full {
        let page = row.page(Some(ItemStatus::Queued), after, true).await?;
        let Some(last) = page.last() else {
            break;
        };
        after = Some(last.item_id);
        let sorted = sort(row, maker, page, again).await?;
        row.settle(sorted.changes).await?;
        let (model, schema, asks) = (Arc::clone(&maker.model), row.schema, sorted.asks);
        let most = (LINES_MAX, BYTES_MAX);
        let adding = move || lines.add(&asks, (schema, attempt, &model), most);
        let added = tokio::task::spawn_blocking(adding).await;
        let added = added.map_err(|error| unwritten(io::Error::other(error)))?;
        lines = added.map_err(unwritten)?;
    }
    Ok(lines)
}

/// What the line of an item is called.
pub(super) fn custom_id(schema: Schema, item: &Item, attempt: u32) -> CustomId {
    let owner = match item.entry_id {
        Some(entry_id) => Owner::Entry(entry_id),
        None => Owner::Item(item.item_id),
    };
    CustomId::new(schema, owner, &item.hash, attempt)
}

fn is_stale(item: &Item) -> ItemChange {
    ItemChange {
        error: Some("its entry says something else by now".to_owned()),
        ..change(item, item.status, ItemStatus::Stale)
    }
}

/// An item gets this answer.
pub(super) fn is_answered(item: &Item, kept: Arc<str>) -> ItemChange {
    ItemChange {
        raw: Some(kept),
        ..change(item, item.status, ItemStatus::Answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::Time;

    fn asks(number: i64, text: &str) -> Asks {
        let text = ItemText {
            clean_text: text.to_owned(),
            ..ItemText::default()
        };
        let item = Item {
            item_id: number,
            entry_id: None,
            hash: text.fingerprint().unwrap(),
            status: ItemStatus::Queued,
            text: None,
            raw: None,
            result: None,
            error: None,
            missed_in: None,
            updated_at: Time::from_ms(0),
        };
        let prompt = prompt(&text, &Rules::default());
        let key = request_key("m", &prompt);
        Asks { item, key, prompt }
    }

    #[test]
    fn a_file_ends_before_its_limits_and_asks_the_same_once() {
        let all: Vec<Asks> = (0..5).map(|nth| asks(nth, &format!("tea {nth}"))).collect();
        let add = |most| {
            let lines = Lines::new(&std::env::temp_dir()).unwrap();
            let lines = lines.add(&all, (Schema::Pkm, 1, "m"), most).unwrap();
            lines.add(&all[..1], (Schema::Pkm, 1, "m"), most).unwrap()
        };
        let whole = add((5, u64::MAX));
        assert_eq!((whole.count, whole.whole, whole.is_full), (5, 5, false));
        let bytes = whole.file.bytes();
        assert_eq!(
            (add((4, u64::MAX)).count, add((4, u64::MAX)).is_full),
            (4, true)
        );
        assert_eq!((add((5, bytes)).count, add((5, bytes)).is_full), (5, false));
        let cut = add((5, bytes - 1));
        assert_eq!((cut.count, cut.is_full), (4, true));
        assert!(cut.file.bytes() < bytes);
    }
}
