//! An import as callers see it, over the API and on the command line.

use std::path::Path;

use hapax_core::entry::{Import, ImportBatch, ImportError};
use serde::Serialize;
use utoipa::ToSchema;

use super::roots::Folders;
use crate::api::openapi::words::EntrySchema;

/// An import.
#[derive(Serialize, ToSchema)]
#[schema(as = Import)]
pub(crate) struct Shown {
    import_id: String,
    /// running, completed or failed.
    status: &'static str,
    step: &'static str,
    #[schema(value_type = EntrySchema)]
    schema: &'static str,
    /// Beneath the folder of imports, or only the file's name.
    mbox_path: String,
    total_messages: u64,
    normalized_ok: u64,
    normalize_errors: u64,
    inserted: u64,
    updated: u64,
    skipped: u64,
    insert_errors: u64,
    tier1_candidates: u64,
    tier1_batches: Vec<Batch>,
    tier1_enqueued_items: u64,
    errors: Vec<Fault>,
    /// Why it failed, or will once the rest is queued, or why it does not go on just now. There only then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    progress: Progress,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ImportBatch)]
struct Batch {
    #[serde(rename = "batch_id")]
    id: String,
    status: String,
    #[schema(value_type = EntrySchema)]
    schema: &'static str,
    request_count: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ImportFault)]
struct Fault {
    phase: &'static str,
    index: u64,
    message: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ImportProgress)]
struct Progress {
    offset: u64,
    bytes: Option<u64>,
}

impl Shown {
    /// As it stands. `folders` are the tenant's folders of imports, if there are any here.
    pub(crate) fn of(import: &Import, folders: Option<&Folders>) -> Self {
        let path = Path::new(&import.asked.path);
        let name = || path.file_name().unwrap_or_default().display().to_string();
        let schema = import.schema.as_str();
        let batch = |batch: &ImportBatch| Batch {
            id: batch.batch_id.to_string(),
            status: batch.status.clone(),
            schema,
            request_count: batch.request_count,
        };
        let fault = |fault: &ImportError| Fault {
            phase: fault.phase,
            index: fault.index,
            message: fault.message.clone(),
        };
        let counts = &import.counts;
        Self {
            import_id: import.id.to_string(),
            status: import.status.as_str(),
            step: import.step.as_str(),
            schema,
            mbox_path: folders.map_or_else(name, |folders| folders.shown(path)),
            total_messages: counts.total_messages,
            normalized_ok: counts.normalized_ok,
            normalize_errors: counts.normalize_errors,
            inserted: counts.inserted,
            updated: counts.updated,
            skipped: counts.skipped,
            insert_errors: counts.insert_errors,
            tier1_candidates: counts.tier1_candidates,
            tier1_batches: import.batches.iter().map(batch).collect(),
            tier1_enqueued_items: counts.tier1_enqueued_items,
            errors: import.errors.iter().map(fault).collect(),
            error: import.error.clone(),
            progress: Progress {
                offset: import.cursor.offset,
                bytes: import.asked.bytes,
            },
            created_at: import.created_at.to_string(),
            updated_at: import.updated_at.to_string(),
        }
    }

    /// The same, which does not go on just now.
    pub(crate) fn stalled(self, why: String) -> Self {
        let error = Some(why);
        Self { error, ..self }
    }
}
