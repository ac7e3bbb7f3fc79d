//! Snapshots in PostgreSQL. It locks the entities, looks what is there, and writes the rest, in two flights.
//!
//! Where to read on: `puts` is the heart, `bench` its rule and `writes` what it writes; `reads` answers the rest, `fill`
//! fills in the hashes of old rows, `rows` is what is read.

mod bench;
mod fill;
mod puts;
mod reads;
mod rows;
mod writes;

pub(super) use rows::{open, seal};

use hapax_core::Answer;
use hapax_core::snapshot::{
    Entity, EntityScan, Filled, Hasher, NewSnapshot, Observation, Put, Shelf, Snapshot, Snapshots,
};
use uuid::Uuid;

use super::PgLedger;
use crate::snapshot::at_most;

impl Snapshots for PgLedger {
    fn put_snapshots(&self, on: Shelf, snapshots: Vec<NewSnapshot>) -> Answer<'_, Vec<Put>> {
        Box::pin(async move {
            at_most(snapshots.len())?;
            self.put_payloads(on, snapshots).await
        })
    }

    fn snapshot(&self, on: Shelf, id: Uuid) -> Answer<'_, Option<Snapshot>> {
        Box::pin(self.find_snapshot(on, id))
    }

    fn snapshots_of(
        &self,
        on: Shelf,
        entity: String,
        before: Option<i64>,
        limit: usize,
    ) -> Answer<'_, Vec<Snapshot>> {
        Box::pin(self.list_snapshots(on, entity, before, limit))
    }

    fn entity(&self, on: Shelf, id: String) -> Answer<'_, Option<Entity>> {
        Box::pin(self.find_entity(on, id))
    }

    fn entities(&self, on: Shelf, scan: EntityScan) -> Answer<'_, Vec<Entity>> {
        Box::pin(self.list_entities(on, scan))
    }

    fn observations(&self, on: Shelf, id: Uuid, limit: usize) -> Answer<'_, Vec<Observation>> {
        Box::pin(self.list_observations(on, id, limit))
    }

    fn fill_hashes<'a>(&'a self, hasher: Hasher<'a>, limit: usize) -> Answer<'a, Filled> {
        Box::pin(self.fill(hasher, limit))
    }
}
