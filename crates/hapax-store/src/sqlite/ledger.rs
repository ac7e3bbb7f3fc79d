//! The seam on top of the queues: packs moves on the way in and makes records of rows on the way out.

use std::sync::atomic::Ordering;

use hapax_core::{
    Answer, Durability, Error, Kind, Ledger, Move, Note, NotePage, NoteScan, Page, Record,
    RecordId, Scan, Space, Swap, Sweep, Swept, Tenant, Time,
};

use super::fault::Fault;
use super::moves;
use super::moving::{Moved, Moving};
use super::pack::{self, Packed};
use super::{NAME, SqliteLedger, notes, pages, rows, tenant_keys};
use crate::row::Applied;
use crate::vault::Vault;
use rusqlite::Connection;

/// Packing and unpacking more than this leaves the async thread.
const INLINE_WORK_BYTES_MAX: usize = 64 * 1024;

const LEDGER_ID: &str = include_str!("../../sql/sqlite/ledger_id.sql");

impl Ledger for SqliteLedger {
    fn name(&self) -> &'static str {
        NAME
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn seals(&self) -> bool {
        self.vault.is_some()
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        Box::pin(async move {
            if moves.is_empty() {
                return Ok(Vec::new());
            }
            if moves.len() > Self::MOVES_MAX {
                let why = format!(
                    "{} moves in one swap; at most {} are taken",
                    moves.len(),
                    Self::MOVES_MAX
                );
                return Err(Error::new(Kind::Limit, "moving records").because(why));
            }
            let weight = moves.iter().map(pack::weight).sum();
            let rings = self
                .sealing(moves.iter().map(|step| step.next.scope.tenant))
                .await?;
            let pack = move |step: Move| {
                let ring = rings.get(step.next.scope.tenant.as_uuid());
                Packed::of(step, ring)
            };
            let packed: Vec<Packed> = aside(weight, move || {
                moves.into_iter().map(pack).collect::<Result<_, _>>()
            })
            .await??;
            let (job, answered) = Moving::new(packed);
            let Moved { applied, .. } = self.written(job, answered).await?;
            let weight = applied.iter().map(weight_of).sum();
            let rings = self.opening(applied.iter().filter_map(Applied::row));
            let rings = rings.await.map_err(|error| after(&applied, error))?;
            aside(weight, move || {
                applied.into_iter().map(|one| one.open(&rings)).collect()
            })
            .await?
        })
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            let vault = self.vault.clone();
            let read =
                move |connection: &Connection| find(connection, vault.as_deref(), tenant, id);
            Ok(self.read(read).await?.map(|record| *record))
        })
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        Box::pin(async move {
            let (vault, now) = (self.vault.clone(), self.now());
            let read = move |connection: &Connection| {
                pages::scan(connection, vault.as_deref(), &scan, now)
            };
            self.read(read).await
        })
    }

    fn spaces(&self, tenant: Tenant, limit: usize) -> Answer<'_, Vec<Space>> {
        Box::pin(async move {
            self.read(move |connection| pages::spaces(connection, tenant, limit))
                .await
        })
    }

    fn doubts(&self, tenant: Tenant, looks_at: usize) -> Answer<'_, u64> {
        Box::pin(async move {
            let now = self.now();
            self.read(move |connection| pages::doubts(connection, tenant, looks_at, now))
                .await
        })
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        let clock = self.clock.clone();
        Box::pin(self.write(1, 0, move |connection| {
            rows::sweep(connection, sweep, clock.now())
        }))
    }

    fn check(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            if self.is_full.load(Ordering::Acquire) {
                // A write of one page can pass where a claim cannot.
                self.write(1, 0, moves::take_room).await?;
                self.write(1, 0, moves::give_room_back).await?;
                self.is_full.store(false, Ordering::Release);
            }
            self.write(1, 0, moves::check).await
        })
    }

    fn note(&self, notes: Vec<Note>) -> Answer<'_, ()> {
        Box::pin(async move {
            if notes.is_empty() {
                return Ok(());
            }
            let bytes = notes.iter().map(notes::bytes).sum();
            self.write(notes.len(), bytes, move |connection| {
                notes::add_all(connection, &notes)
            })
            .await
        })
    }

    fn notes(&self, scan: NoteScan) -> Answer<'_, NotePage> {
        Box::pin(self.read(move |connection| notes::scan(connection, &scan)))
    }

    fn purges(&self) -> Option<u64> {
        self.purges.shown()
    }

    fn purges_lately(&self) -> Option<u64> {
        Some(self.purges.lately())
    }

    fn identity(&self) -> Answer<'_, Option<uuid::Uuid>> {
        Box::pin(self.read(|connection| {
            let name: String = connection.query_row(LEDGER_ID, [], |row| row.get(0))?;
            Ok(name.parse().ok())
        }))
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.end();
            let mut running = self.running.clone();
            while running.changed().await.is_ok() {}
            Ok(())
        })
    }
}

fn find(
    connection: &Connection,
    vault: Option<&Vault>,
    tenant: Tenant,
    id: RecordId,
) -> Result<Option<Box<Record>>, Fault> {
    let row = rows::find(connection, tenant, id)?;
    row.map(|row| tenant_keys::open(connection, vault, row).map(Box::new))
        .transpose()
}

/// Runs `work` on a thread for blocking work if there is much of it, else here.
pub(super) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) if bytes > INLINE_WORK_BYTES_MAX => runtime
            .spawn_blocking(work)
            .await
            .map_err(|error| Error::new(Kind::OutcomeUnknown, "packing a body").caused_by(error)),
        Ok(_) | Err(_) => Ok(work()),
    }
}

/// Some of the moves may stand, so an error after them must not say that nothing was written.
fn after(applied: &[Applied], error: Error) -> Error {
    let wrote = applied.iter().any(|one| matches!(one, Applied::Written));
    match error.kind() {
        Kind::Unavailable if wrote => {
            Error::new(Kind::OutcomeUnknown, "moving records").caused_by(error)
        }
        Kind::Unavailable
        | Kind::OutcomeUnknown
        | Kind::Corrupt
        | Kind::Limit
        | Kind::Unsafe
        | Kind::Unsupported => error,
    }
}

fn weight_of(applied: &Applied) -> usize {
    applied.row().map_or(0, rows::bodies)
}
