//! Keys in Redis, and everything a ledger in Redis does not do in a database beside it. A note and the move it is about
//! are two writes here, in that order of risk: the move first.

use std::fmt;
use std::sync::Arc;

use hapax_core::{
    Answer, Capabilities, Chore, Durability, Error, Ledger, Move, Note, NotePage, NoteScan, Page,
    Record, RecordId, Scan, Space, Swap, Sweep, Swept, Tenant, Time, Wake,
};

use super::ledger::RedisLedger;

/// A ledger whose keys are in Redis and whose audit trail is in the ledger beside it.
///
/// It promises no more than Redis does. A note is written after its move, so a process that dies in between, or a
/// database that is away, leaves a move without its note; such notes stand in the log.
pub struct BesideDatabase {
    keys: RedisLedger,
    database: Arc<dyn Ledger>,
}

impl BesideDatabase {
    /// Keys in `keys`, notes in `database`.
    #[must_use]
    pub fn new(keys: RedisLedger, database: Arc<dyn Ledger>) -> Self {
        Self { keys, database }
    }

    async fn moves(&self, mut moves: Vec<Move>) -> Result<Vec<Swap>, Error> {
        let mut notes: Vec<Option<Note>> = moves
            .iter_mut()
            .map(|step| step.note.take().map(|note| *note))
            .collect();
        let swaps = self.keys.swap(moves).await?;
        let written: Vec<Note> = swaps
            .iter()
            .zip(&mut notes)
            .filter(|(swap, _)| **swap == Swap::Written)
            .filter_map(|(_, note)| note.take())
            .collect();
        if !written.is_empty() {
            self.keep(written).await;
        }
        Ok(swaps)
    }

    /// The move stands, so a note that cannot be kept must not turn it into an error.
    async fn keep(&self, notes: Vec<Note>) {
        let said: Vec<String> = notes
            .iter()
            .map(|note| {
                let actor = note.actor.as_deref().unwrap_or("nobody");
                format!("{} by {actor}: {}", note.action, note.details)
            })
            .collect();
        if let Err(error) = self.database.note(notes).await {
            metrics::counter!("hapax_redis_notes_lost_total").increment(said.len() as u64);
            tracing::error!(%error, notes = said.join("; "), "the audit trail misses notes");
        }
    }

    async fn sweep_both(&self, sweep: Sweep) -> Result<Swept, Error> {
        let mut swept = self.keys.sweep(sweep).await?;
        // Keys from before Redis was used, and notes whose time is over.
        let other = self.database.sweep(sweep).await?;
        swept.expired += other.expired;
        swept.retired += other.retired;
        swept.forgotten += other.forgotten;
        swept.notes += other.notes;
        Ok(swept)
    }
}

impl fmt::Debug for BesideDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BesideDatabase")
            .field("keys", &self.keys)
            .field("database", &self.database.name())
            .finish()
    }
}

impl Ledger for BesideDatabase {
    fn name(&self) -> &'static str {
        self.keys.name()
    }

    fn durability(&self) -> Durability {
        self.keys.durability()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            audits: self.database.capabilities().audits,
            ..self.keys.capabilities()
        }
    }

    fn now(&self) -> Time {
        self.keys.now()
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        Box::pin(self.moves(moves))
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        self.keys.find(tenant, id)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.keys.scan(scan)
    }

    fn spaces(&self, tenant: Tenant, limit: usize) -> Answer<'_, Vec<Space>> {
        self.keys.spaces(tenant, limit)
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        Box::pin(self.sweep_both(sweep))
    }

    fn check(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.keys.check().await?;
            self.database.check().await
        })
    }

    fn note(&self, notes: Vec<Note>) -> Answer<'_, ()> {
        self.database.note(notes)
    }

    fn notes(&self, scan: NoteScan) -> Answer<'_, NotePage> {
        self.database.notes(scan)
    }

    fn subscribe(&self, wake: Wake) {
        self.keys.subscribe(wake);
    }

    fn leads(&self, chore: Chore) -> bool {
        self.database.leads(chore)
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.keys.close().await?;
            self.database.close().await
        })
    }
}
