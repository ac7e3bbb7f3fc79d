//! Messages of a mailbox as chunks to write: read, made into drafts and gathered on a thread of its own, a chunk ahead of
//! what the store has. What cannot be made into a draft is a fault of its own and stops nothing.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hapax_core::entry::{Chunk, Column, Cursor, Draft, Fields, ImportError, Incoming, Refused};
use hapax_intake::email;
use hapax_intake::mbox::{Item, MESSAGE_BYTES_MAX, Message, Reader, Variant};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::mailbox::{Mailbox, Trail, Unreadable, Watched};

/// A chunk with this much text is full, however few messages it has, so that memory stays flat.
const CHUNK_BYTES_MAX: usize = 2 << 20;
/// Where entries of an import come from.
const SOURCE: &str = "email-batch";
const NORMALIZE: &str = ImportError::PHASES[0];
const CUT: &str = "damaged: the compressed file breaks off in this message";

/// How chunks are made.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The most messages of one chunk.
    pub(crate) messages_max: usize,
    /// Whether threads are kept by the message that began them, and not by their subject.
    pub(crate) by_references: bool,
}

/// Opens the file. It may block.
pub(crate) type Open = Arc<dyn Fn() -> io::Result<Mailbox> + Send + Sync>;

/// Why there is no further chunk.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file cannot be read on.
    Unreadable(Unreadable),
    /// There is something in it, and no message.
    NoMailbox,
}

/// Chunks of a mailbox. Dropping them ends the reading.
pub(crate) struct Chunks {
    chunks: mpsc::Receiver<Result<Chunk, Fault>>,
    watched: Watched,
}

impl Chunks {
    /// Reads the file from `cursor` on.
    pub(crate) fn read(open: Open, cursor: Cursor, rule: Rule, watched: Watched) -> Self {
        let (sender, chunks) = mpsc::channel(1);
        let (reading, now) = (Watched::clone(&watched), Handle::current());
        tokio::task::spawn_blocking(move || {
            // The next chunk is made once the store has this one, and not before: one more than it takes at once is in memory.
            let is_taken = || now.block_on(sender.reserve()).is_ok();
            let give = |chunk| sender.blocking_send(Ok(chunk)).is_ok() && is_taken();
            if let Err(fault) = gather(&open, cursor, &rule, &reading, give) {
                // Nobody may be there any more.
                let _ = sender.blocking_send(Err(fault));
            }
        });
        Self { chunks, watched }
    }

    /// The next one. The last says so; after it and after a fault there is none.
    pub(crate) async fn next(&mut self) -> Option<Result<Chunk, Fault>> {
        self.chunks.recv().await
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.watched.stop();
    }
}

/// Reads to the end, or until `give` says that nobody wants more.
fn gather(
    open: &Open,
    cursor: Cursor,
    rule: &Rule,
    watched: &Watched,
    give: impl Fn(Chunk) -> bool,
) -> Result<(), Fault> {
    let mailbox = open().map_err(|why| Fault::Unreadable(Unreadable::Io(why)))?;
    let stream = mailbox.read_from(&cursor, watched);
    let stream = stream.map_err(Fault::Unreadable)?;
    let trail = stream.trail();
    let is_resumed = cursor.offset > 0;
    let reader = if is_resumed {
        Reader::resume(stream, Variant::Auto, cursor.index, cursor.offset)
    } else {
        Reader::new(stream, Variant::Auto)
    };
    let mut gathered = Gathered::from(cursor);
    for item in reader {
        let item = item.map_err(|why| Fault::Unreadable(Unreadable::Io(why)))?;
        let is_cut = trail.is_cut_at(end_of(&item));
        // Where an import stands, a message begins, unless the file ends by damage before that can be seen.
        let is_first = is_resumed && gathered.to.offset == gathered.first;
        if is_first && !is_cut && matches!(item, Item::Stray { .. }) {
            return Err(Fault::Unreadable(Unreadable::Changed));
        }
        gathered.add(item, rule, is_cut);
        trail.forget_before(gathered.to.offset);
        if gathered.is_full(rule) && !give(gathered.taken(&trail, false)) {
            return Ok(());
        }
    }
    if let Some(damage) = trail.damage() {
        if gathered.messages > 0 && !give(gathered.taken(&trail, false)) {
            return Ok(());
        }
        return Err(Fault::Unreadable(Unreadable::Damaged(damage)));
    }
    if gathered.to.index == 0 && gathered.to.offset > 0 {
        return Err(Fault::NoMailbox);
    }
    give(gathered.taken(&trail, true));
    Ok(())
}

/// Where an item ends.
fn end_of(item: &Item) -> u64 {
    match item {
        Item::Message(message) => message.end_offset,
        Item::Oversized { end_offset, .. } | Item::Stray { end_offset, .. } => *end_offset,
    }
}

/// A chunk that is being made.
struct Gathered {
    /// Where the reading began.
    first: u64,
    from: Cursor,
    to: Cursor,
    messages: u64,
    entries: Vec<(u64, Incoming)>,
    faults: Vec<ImportError>,
    text_bytes: usize,
}

impl Gathered {
    fn from(cursor: Cursor) -> Self {
        Self {
            first: cursor.offset,
            to: cursor.clone(),
            from: cursor,
            messages: 0,
            entries: Vec::new(),
            faults: Vec::new(),
            text_bytes: 0,
        }
    }

    /// Adds what was read. A message that is cut becomes no entry: it would stand in the way of the whole one.
    fn add(&mut self, item: Item, rule: &Rule, is_cut: bool) {
        let (index, end_offset, made) = match item {
            Item::Message(message) if is_cut => {
                (message.index, message.end_offset, Err(CUT.to_owned()))
            }
            Item::Message(message) => {
                let (index, end_offset) = (message.index, message.end_offset);
                (index, end_offset, normalized(&message, rule))
            }
            Item::Oversized {
                index, end_offset, ..
            } => {
                let why =
                    format!("mime_limit: the message has more than {MESSAGE_BYTES_MAX} bytes");
                (index, end_offset, Err(why))
            }
            Item::Stray { end_offset, .. } => {
                self.to.offset = end_offset;
                return;
            }
        };
        self.messages += 1;
        self.to.index = index + 1;
        self.to.offset = end_offset;
        match made {
            Ok(fields) => {
                self.text_bytes += weight(&fields);
                self.entries.push((index, incoming(fields)));
            }
            Err(message) => self.faults.push(ImportError {
                phase: NORMALIZE,
                index,
                message,
            }),
        }
    }

    fn is_full(&self, rule: &Rule) -> bool {
        self.messages >= rule.messages_max as u64 || self.text_bytes >= CHUNK_BYTES_MAX
    }

    /// The chunk; the next one begins where it ends.
    fn taken(&mut self, trail: &Trail, is_last: bool) -> Chunk {
        self.to.mark = trail.mark(self.to.offset);
        let next = Self {
            first: self.first,
            ..Self::from(self.to.clone())
        };
        let done = std::mem::replace(self, next);
        Chunk {
            from: done.from,
            to: done.to,
            messages: done.messages,
            entries: done.entries,
            faults: done.faults,
            is_last,
        }
    }
}

/// The entry that a message becomes, or why it becomes none.
fn normalized(message: &Message, rule: &Rule) -> Result<Fields, String> {
    // A fault in a parser, met by one message among thousands, must not end the import.
    let made = catch_unwind(AssertUnwindSafe(|| {
        let fields = email::message(&message.bytes, SOURCE)?;
        let is_thread = fields.text(Column::IdempotencyPolicyKey) == Some(email::THREAD_POLICY);
        if is_thread && rule.by_references {
            return email::message_by_references(&message.bytes, SOURCE);
        }
        Ok(fields)
    }));
    match made {
        Ok(Ok(fields)) => Ok(fields),
        Ok(Err(fault)) => Err(format!("{}: {fault}", fault.code())),
        Err(_) => Err("internal: the message met a fault of the program".to_owned()),
    }
}

/// The draft of an entry, or the refusal that the store counts.
fn incoming(fields: Fields) -> Incoming {
    if let Some(refused) = keyless(&fields) {
        return Incoming::Refused(refused);
    }
    match Draft::of(fields) {
        Ok(draft) => Incoming::Insert(draft),
        Err(refused) => Incoming::Refused(refused),
    }
}

/// The refusal of a mail that no key can be made for, in words about mail.
fn keyless(fields: &Fields) -> Option<Refused> {
    let keys = [
        Column::IdempotencyKeyPrimary,
        Column::IdempotencyKeySecondary,
    ];
    if keys.into_iter().any(|key| fields.text(key).is_some()) {
        return None;
    }
    let missing = fields
        .get(Column::Metadata)
        .pointer("/email/missing_keys")?
        .as_array()?;
    let missing: Vec<&str> = missing.iter().filter_map(Value::as_str).collect();
    let why = format!(
        "the mail has nothing to be known again by: {}",
        missing.join(", ")
    );
    Some(Refused::new("idempotency_fields_required", why))
}

/// About how many bytes the texts of an entry take.
fn weight(fields: &Fields) -> usize {
    fields.iter().map(|(_, value)| of(value)).sum::<usize>() + 64 * Column::ALL.len()
}

fn of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(of).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| name.len() + of(value))
            .sum(),
    }
}
