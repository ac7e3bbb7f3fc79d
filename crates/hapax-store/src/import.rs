//! What both databases agree on about imports: what a chunk does to its import, and the words in their columns.
//! It knows no SQL.

use std::collections::BTreeMap;

use hapax_core::entry::{
    Action, Chunk, Counts, Done, Import, ImportError, ImportStatus, Incoming, Schema, Step,
    is_enrichable,
};
use hapax_core::{Error, Fingerprint, Kind, Time};
use serde_json::{Value, json};

/// A chunk without its entries, and where they stood.
pub(crate) struct Head {
    /// What is left of the chunk.
    pub(crate) chunk: Chunk,
    /// The place of each entry in the file.
    pub(crate) indices: Vec<u64>,
}

impl Head {
    /// Takes the entries out of a chunk, to be written.
    pub(crate) fn of(mut chunk: Chunk) -> (Self, Vec<Incoming>) {
        let (indices, entries) = std::mem::take(&mut chunk.entries).into_iter().unzip();
        (Self { chunk, indices }, entries)
    }

    /// Whether the import waits for this chunk.
    pub(crate) fn fits(&self, import: &Import) -> bool {
        import.status == ImportStatus::Running
            && import.step == Step::Reading
            && import.cursor == self.chunk.from
    }

    /// Moves the import behind the chunk, of whose entries this became. `candidates` is how many rows are new among
    /// the import's [candidates].
    pub(crate) fn add_to(&self, import: &mut Import, done: &[Done], candidates: u64, now: Time) {
        let refused = self.indices.iter().zip(done).filter_map(|(index, done)| {
            let message = match done {
                Done::Kept(_) => return None,
                Done::Refused(refused) => refused.message.clone(),
                Done::Missing => "the entry that it names is not there".to_owned(),
            };
            Some(ImportError {
                phase: "insert",
                index: *index,
                message,
            })
        });
        let mut errors: Vec<ImportError> = self.chunk.faults.clone();
        errors.extend(refused);
        errors.sort_by_key(|error| error.index);
        let inserts = errors
            .iter()
            .filter(|error| error.phase == "insert")
            .count();
        let acted = |action: Action| {
            let kept = |done: &&Done| matches!(done, Done::Kept(kept) if kept.action == action);
            done.iter().filter(kept).count() as u64
        };
        let counts = &mut import.counts;
        counts.total_messages += self.chunk.messages;
        counts.normalized_ok += self.indices.len() as u64;
        counts.normalize_errors += (errors.len() - inserts) as u64;
        counts.inserted += acted(Action::Inserted);
        counts.updated += acted(Action::Updated);
        counts.skipped += acted(Action::Skipped);
        counts.insert_errors += inserts as u64;
        counts.tier1_candidates += candidates;
        let room = ImportError::KEPT_MAX.saturating_sub(import.errors.len());
        import.errors.extend(errors.into_iter().take(room));
        import.cursor = self.chunk.to.clone();
        if self.chunk.is_last {
            import.step = Step::Queueing;
        }
        import.updated_at = now.max(import.updated_at);
    }
}

/// Stops reading, for this reason. What was written before is still to be queued. Whether that was to be done.
pub(crate) fn give_up(import: &mut Import, why: &str, now: Time) -> bool {
    if import.status != ImportStatus::Running || import.error.is_some() {
        return false;
    }
    import.step = Step::Queueing;
    import.error = Some(why.to_owned());
    import.updated_at = now.max(import.updated_at);
    true
}

/// Ends an import that has nothing left to queue.
pub(crate) fn end(import: &mut Import) {
    import.status = if import.error.is_some() {
        ImportStatus::Failed
    } else {
        ImportStatus::Completed
    };
}

/// The numbers of the rows that were inserted or updated and have a text to enrich at the end, in the order of the
/// items, each once.
pub(crate) fn candidates(done: &[Done]) -> Vec<i64> {
    let mut rows: BTreeMap<i64, (usize, bool)> = BTreeMap::new();
    for (at, done) in done.iter().enumerate() {
        let Done::Kept(kept) = done else { continue };
        if kept.action != Action::Skipped {
            let has_text = is_enrichable(&kept.row.fields);
            rows.entry(kept.row.entry_id).or_insert((at, has_text)).1 = has_text;
        }
    }
    let mut found: Vec<(usize, i64)> = rows
        .into_iter()
        .filter(|(_, (_, has_text))| *has_text)
        .map(|(entry_id, (at, _))| (at, entry_id))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, entry_id)| entry_id).collect()
}

/// What stands for a path in an index, however long it is.
pub(crate) fn path_hash(path: &str) -> Fingerprint {
    Fingerprint::of(path.as_bytes())
}

/// Faults as they are stored.
pub(crate) fn errors_json(errors: &[ImportError]) -> Value {
    let one = |error: &ImportError| {
        json!({
            "phase": error.phase, "index": error.index,
            // A text column does not take it.
            "message": error.message.replace('\0', "\u{fffd}"),
        })
    };
    errors.iter().map(one).collect()
}

/// The faults behind [`errors_json`].
///
/// # Errors
/// [`Kind::Corrupt`] if they are none.
pub(crate) fn errors_of(stored: &Value) -> Result<Vec<ImportError>, Error> {
    let one = |error: &Value| {
        let phase = error.get("phase")?.as_str()?;
        Some(ImportError {
            phase: ImportError::PHASES.into_iter().find(|one| *one == phase)?,
            index: error.get("index")?.as_u64()?,
            message: error.get("message")?.as_str()?.to_owned(),
        })
    };
    let errors = stored.as_array().ok_or_else(|| unreadable("errors"))?;
    let errors: Option<Vec<ImportError>> = errors.iter().map(one).collect();
    errors.ok_or_else(|| unreadable("errors"))
}

/// The status with this word.
///
/// # Errors
/// [`Kind::Corrupt`] if there is none.
pub(crate) fn status_of(word: &str) -> Result<ImportStatus, Error> {
    use ImportStatus::{Completed, Failed, Running};
    let all = [Running, Completed, Failed].into_iter();
    let mut all = all.filter(|status| status.as_str() == word);
    all.next().ok_or_else(|| unreadable("status"))
}

/// The step with this word.
///
/// # Errors
/// [`Kind::Corrupt`] if there is none.
pub(crate) fn step_of(word: &str) -> Result<Step, Error> {
    let all = [Step::Reading, Step::Queueing].into_iter();
    let mut all = all.filter(|step| step.as_str() == word);
    all.next().ok_or_else(|| unreadable("step"))
}

/// The schema with this word.
///
/// # Errors
/// [`Kind::Corrupt`] if there is none.
pub(crate) fn schema_of(word: &str) -> Result<Schema, Error> {
    word.parse().map_err(|_| unreadable("schema"))
}

/// The counters in the order of their columns.
pub(crate) fn counts_list(counts: &Counts) -> [u64; 9] {
    [
        counts.total_messages,
        counts.normalized_ok,
        counts.normalize_errors,
        counts.inserted,
        counts.updated,
        counts.skipped,
        counts.insert_errors,
        counts.tier1_candidates,
        counts.tier1_enqueued_items,
    ]
}

/// The counters behind [`counts_list`].
pub(crate) fn counts_of(list: [u64; 9]) -> Counts {
    let [
        total_messages,
        normalized_ok,
        normalize_errors,
        inserted,
        updated,
        skipped,
        insert_errors,
        tier1_candidates,
        tier1_enqueued_items,
    ] = list;
    Counts {
        total_messages,
        normalized_ok,
        normalize_errors,
        inserted,
        updated,
        skipped,
        insert_errors,
        tier1_candidates,
        tier1_enqueued_items,
    }
}

fn unreadable(what: &str) -> Error {
    let why = format!("the {what} of the import cannot be read");
    Error::new(Kind::Corrupt, "reading an import").because(why)
}
