//! Snapshots in the same file: the seam on top of the ledger's one writer and its readers.
//!
//! Where to read on: `puts` keeps payloads, `rows` reads what is kept, `fill` fills in the hashes of old rows.

mod fill;
#[cfg(test)]
mod plans;
mod puts;
mod rows;

use hapax_core::Answer;
use hapax_core::snapshot::{
    Entity, EntityScan, Filled, Hasher, NewSnapshot, Observation, Put, Shelf, Snapshot, Snapshots,
};
use uuid::Uuid;

use super::SqliteLedger;
use super::jobs::keys::Keys;
use super::ledger::aside;
use crate::snapshot::at_most;
use puts::Fresh;

impl Snapshots for SqliteLedger {
    fn put_snapshots(&self, on: Shelf, snapshots: Vec<NewSnapshot>) -> Answer<'_, Vec<Put>> {
        Box::pin(async move {
            at_most(snapshots.len())?;
            if snapshots.is_empty() {
                return Ok(Vec::new());
            }
            let keys = self.keys(on.tenant).await?;
            let bytes = snapshots.iter().map(|new| new.payload.len()).sum();
            let fresh: Vec<Fresh> = aside(bytes, {
                let keys = keys.clone();
                move || {
                    let fresh = |new| Fresh::of(new, &keys);
                    snapshots.into_iter().map(fresh).collect::<Result<_, _>>()
                }
            })
            .await??;
            let (count, bytes) = (fresh.len(), fresh.iter().map(Fresh::bytes).sum());
            let clock = self.clock.clone();
            self.write(count, bytes, move |connection| {
                puts::put_all(connection, &keys, &on, &fresh, clock.now())
            })
            .await
        })
    }

    fn snapshot(&self, on: Shelf, id: Uuid) -> Answer<'_, Option<Snapshot>> {
        let vault = self.vault.clone();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let keys = Keys::reading(&seen, vault.clone(), on.tenant)?;
            rows::find(&seen, &keys, &on, id)
        }))
    }

    fn snapshots_of(
        &self,
        on: Shelf,
        entity: String,
        before: Option<i64>,
        limit: usize,
    ) -> Answer<'_, Vec<Snapshot>> {
        let vault = self.vault.clone();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let keys = Keys::reading(&seen, vault.clone(), on.tenant)?;
            rows::list(&seen, &keys, &on, &entity, before, limit)
        }))
    }

    fn entity(&self, on: Shelf, id: String) -> Answer<'_, Option<Entity>> {
        let vault = self.vault.clone();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let keys = Keys::reading(&seen, vault.clone(), on.tenant)?;
            rows::entity(&seen, &keys, &on, &id)
        }))
    }

    fn entities(&self, on: Shelf, scan: EntityScan) -> Answer<'_, Vec<Entity>> {
        let vault = self.vault.clone();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let keys = Keys::reading(&seen, vault.clone(), on.tenant)?;
            rows::entities(&seen, &keys, &on, &scan)
        }))
    }

    fn observations(&self, on: Shelf, id: Uuid, limit: usize) -> Answer<'_, Vec<Observation>> {
        Box::pin(self.read(move |connection| rows::observations(connection, &on, id, limit)))
    }

    fn fill_hashes<'a>(&'a self, hasher: Hasher<'a>, limit: usize) -> Answer<'a, Filled> {
        Box::pin(self.fill(hasher, limit))
    }
}
