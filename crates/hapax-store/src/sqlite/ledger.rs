//! The seam on top of the queues: packs moves on the way in and makes records of rows on the way out.

use hapax_core::{
    Answer, Durability, Error, Kind, Ledger, Move, Page, Record, RecordId, Scan, Swap, Sweep,
    Swept, Tenant, Time,
};

use super::moves::{self, Applied};
use super::pack::{self, Packed};
use super::{NAME, SqliteLedger, rows};

/// Packing and unpacking more than this leaves the async thread.
const INLINE_WORK_BYTES_MAX: usize = 64 * 1024;

impl Ledger for SqliteLedger {
    fn name(&self) -> &'static str {
        NAME
    }

    fn durability(&self) -> Durability {
        self.durability
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
            let packed: Vec<Packed> =
                aside(weight, move || moves.into_iter().map(Packed::of).collect()).await?;
            let bytes = packed.iter().map(Packed::bytes).sum();
            let applied = self
                .write(packed.len(), bytes, move |connection| {
                    moves::apply_all(connection, &packed)
                })
                .await?;
            let weight = applied.iter().map(weight_of).sum();
            aside(weight, move || {
                applied.into_iter().map(Swap::try_from).collect()
            })
            .await?
        })
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        Box::pin(self.read(move |connection| {
            let row = rows::find(connection, tenant, id)?;
            Ok(row.map(Record::try_from).transpose()?)
        }))
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        Box::pin(self.read(move |connection| rows::scan(connection, &scan)))
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        let clock = self.clock.clone();
        Box::pin(self.write(1, 0, move |connection| {
            rows::sweep(connection, sweep, clock.now())
        }))
    }

    fn check(&self) -> Answer<'_, ()> {
        Box::pin(self.write(1, 0, moves::check))
    }

    fn purges(&self) -> Option<u64> {
        self.purges.shown()
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

/// Runs `work` on a thread for blocking work if there is much of it, else here.
async fn aside<T: Send + 'static>(
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

fn weight_of(applied: &Applied) -> usize {
    match applied {
        Applied::Stale(Some(row)) => rows::bodies(row),
        Applied::Stale(None) | Applied::Written => 0,
    }
}
