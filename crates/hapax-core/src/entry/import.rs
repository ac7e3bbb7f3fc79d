//! How a backlog gets in: an import reads its file in chunks, and each chunk, its counters and the place in the file
//! are written in one transaction. So a killed import goes on where it stopped, and counts nothing twice.

use uuid::Uuid;

use super::catalog::{Incoming, Target};
use super::schema::Schema;
use crate::ledger::Answer;
use crate::scope::Tenant;
use crate::time::Time;

/// A place in the file, at the beginning of a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// The message that begins there, counted from 0 in the whole file.
    pub index: u64,
    /// Its offset in bytes, of what is read: of a compressed file, of what comes out.
    pub offset: u64,
    /// A hash of the bytes just before it, by which a changed file is noticed. Nothing at the beginning.
    pub mark: Option<String>,
}

/// An import to be begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewImport {
    /// The id it gets, unless an import of the same path is running.
    pub id: Uuid,
    /// Which file, as the caller names it.
    pub path: String,
    /// Where to. The active schema is looked up once, and stays for the whole import.
    pub target: Target,
    /// How many entries a batch for enrichment holds.
    pub batch_size: u32,
    /// How many messages are written at once.
    pub insert_chunk_size: u32,
    /// How long enrichment may take, such as `24h`.
    pub completion_window: String,
    /// The policy that threads are kept by, if not the usual one.
    pub thread_policy: Option<String>,
    /// How large the file is, if that is known, for whoever watches.
    pub bytes: Option<u64>,
}

/// How far an import is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportStatus {
    /// It goes on, or waits for somebody to go on with it.
    Running,
    /// It is done.
    Completed,
    /// It was given up, and what it wrote before is queued.
    Failed,
}

impl ImportStatus {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// What a running import does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It reads messages and writes entries.
    Reading,
    /// It queues entries for enrichment.
    Queueing,
}

impl Step {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Queueing => "queueing",
        }
    }
}

/// What came of the messages so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Messages read.
    pub total_messages: u64,
    /// Messages that became an entry to insert.
    pub normalized_ok: u64,
    /// Messages that did not.
    pub normalize_errors: u64,
    /// Entries that are new.
    pub inserted: u64,
    /// Entries that went over one that was there.
    pub updated: u64,
    /// Entries that were there and stayed.
    pub skipped: u64,
    /// Entries that were refused.
    pub insert_errors: u64,
    /// Rows that were inserted or updated and have a text to enrich, each once.
    pub tier1_candidates: u64,
    /// Rows that were queued for enrichment.
    pub tier1_enqueued_items: u64,
}

/// One message that did not become an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportError {
    /// Where it failed: `normalize` or `insert`.
    pub phase: &'static str,
    /// Which message, counted from 0 in the whole file.
    pub index: u64,
    /// Why, for a person. It quotes no part of the message.
    pub message: String,
}

impl ImportError {
    /// How many an import keeps. The counters count all.
    pub const KEPT_MAX: usize = 50;
    /// The phases there are.
    pub const PHASES: [&'static str; 2] = ["normalize", "insert"];
}

/// A batch for enrichment that an import made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportBatch {
    /// Its id.
    pub batch_id: Uuid,
    /// How far it is.
    pub status: String,
    /// How many entries it holds.
    pub request_count: u64,
}

/// An import as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// Its id.
    pub id: Uuid,
    /// What was asked for. Its target is the pinned schema.
    pub asked: NewImport,
    /// Where its entries go.
    pub schema: Schema,
    /// How far it is.
    pub status: ImportStatus,
    /// What it does while it runs.
    pub step: Step,
    /// The first message that was not read yet.
    pub cursor: Cursor,
    /// What came of those before it.
    pub counts: Counts,
    /// The first faults, at most [`ImportError::KEPT_MAX`].
    pub errors: Vec<ImportError>,
    /// The batches it made.
    pub batches: Vec<ImportBatch>,
    /// Why it was given up. While it runs, what it wrote before is still being queued.
    pub error: Option<String>,
    /// When it was begun.
    pub created_at: Time,
    /// When it last went on.
    pub updated_at: Time,
}

/// Some messages in a row.
#[derive(Clone, PartialEq, Debug)]
pub struct Chunk {
    /// Where the first begins. If the import is elsewhere by now, nothing is written.
    pub from: Cursor,
    /// Where the next chunk begins.
    pub to: Cursor,
    /// How many messages it has.
    pub messages: u64,
    /// Those that became entries, with their index.
    pub entries: Vec<(u64, Incoming)>,
    /// Those that did not.
    pub faults: Vec<ImportError>,
    /// Whether the file ends here.
    pub is_last: bool,
}

/// The store of imports. It belongs to the [`Catalog`](super::Catalog): a chunk's entries are written by the same rule.
///
/// What every store promises, and the conformance suite checks:
/// - A chunk is written once: its entries, its counters, its candidates for enrichment and the cursor in one
///   transaction, and only if the import is where the chunk begins.
/// - Everything goes to the schema that was active when the import was begun, whatever the test mode is meanwhile.
/// - A row becomes one candidate of an import, however many messages touched it. It is queued if its text, as it is
///   when it is queued, was neither enriched nor queued before.
/// - An import that is given up queues what it wrote, as one that read its whole file. A rerun skips those rows, and what
///   is skipped is no candidate.
pub trait Imports: Send + Sync + 'static {
    /// Begins an import, or answers the one of the same path that is running. The same id again answers what is there.
    fn begin_import(&self, tenant: Tenant, new: NewImport) -> Answer<'_, Import>;

    /// The import with this id.
    fn import(&self, tenant: Tenant, id: Uuid) -> Answer<'_, Option<Import>>;

    /// A page of imports, newest first, after the one with this id; at most `limit`, never more than
    /// [`Search::LIMIT_MAX`](super::Search::LIMIT_MAX).
    fn imports(&self, tenant: Tenant, after: Option<Uuid>, limit: usize)
    -> Answer<'_, Vec<Import>>;

    /// Writes a chunk. `None` if the import is not running, or not where the chunk begins: then nothing was written.
    /// With the last chunk its step becomes [`Step::Queueing`].
    fn import_chunk(&self, tenant: Tenant, id: Uuid, chunk: Chunk) -> Answer<'_, Option<Import>>;

    /// How many chunks may be handed in before the first of them is answered. More than one only where they are written in
    /// the order in which they were polled first: any other order would refuse all but one of them.
    fn chunks_at_once(&self) -> usize {
        1
    }

    /// Queues at most a batch of candidates under the id `batch`. When there are no more, the import ends: it is completed,
    /// or failed if it was given up. `None` if it is not running or still reading.
    fn queue_candidates(&self, tenant: Tenant, id: Uuid, batch: Uuid)
    -> Answer<'_, Option<Import>>;

    /// Gives up reading: the step becomes [`Step::Queueing`], and the import fails when nothing is left to queue. `None` if
    /// it is not running, or was given up before.
    fn fail_import(&self, tenant: Tenant, id: Uuid, error: String) -> Answer<'_, Option<Import>>;
}
