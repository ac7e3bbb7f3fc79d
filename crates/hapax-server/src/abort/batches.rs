//! What enrichment keeps, in a process that dies on cue. Adding a batch is its caller's write, and does not count.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{
    Asked, Batch, BatchState, Batches, DueBatch, Item, ItemChange, ItemScan, ItemStatus, NewBatch,
    Schema, Target,
};
use hapax_core::{Answer, Fingerprint, Tenant};
use uuid::Uuid;

use super::Clock;

pub(super) struct Doomed {
    pub(super) batches: Arc<dyn Batches>,
    pub(super) clock: Arc<Clock>,
}

impl Batches for Doomed {
    fn add_batch(&self, tenant: Tenant, target: Target, new: NewBatch) -> Answer<'_, Batch> {
        self.batches.add_batch(tenant, target, new)
    }

    fn batch(&self, tenant: Tenant, id: Uuid) -> Answer<'_, Option<Batch>> {
        self.batches.batch(tenant, id)
    }

    fn batches(
        &self,
        tenant: Tenant,
        schema: Option<Schema>,
        include_terminal: bool,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<'_, Vec<Batch>> {
        self.batches
            .batches(tenant, schema, include_terminal, after, limit)
    }

    fn open_batches(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        self.batches.open_batches(tenant, at_most)
    }

    fn due_batches(&self, limit: usize) -> Answer<'_, Vec<DueBatch>> {
        self.batches.due_batches(limit)
    }

    fn change_batch(
        &self,
        tenant: Tenant,
        schema: Schema,
        id: Uuid,
        version: i64,
        state: BatchState,
    ) -> Answer<'_, Option<Batch>> {
        Box::pin(async move {
            self.clock.writes();
            let changed = self
                .batches
                .change_batch(tenant, schema, id, version, state)
                .await?;
            self.clock.wrote();
            Ok(changed)
        })
    }

    fn batch_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        scan: ItemScan,
    ) -> Answer<'_, Vec<Item>> {
        self.batches.batch_items(tenant, schema, batch, scan)
    }

    fn settle_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        changes: Vec<ItemChange>,
    ) -> Answer<'_, Vec<Option<ItemStatus>>> {
        Box::pin(async move {
            self.clock.writes();
            let settled = self
                .batches
                .settle_items(tenant, schema, batch, changes)
                .await?;
            self.clock.wrote();
            Ok(settled)
        })
    }

    fn paid_answers(
        &self,
        tenant: Tenant,
        keys: Vec<Fingerprint>,
    ) -> Answer<'_, Vec<Option<Arc<str>>>> {
        self.batches.paid_answers(tenant, keys)
    }

    fn ask(
        &self,
        tenant: Tenant,
        who: Uuid,
        lasting: Duration,
        keys: Vec<Fingerprint>,
    ) -> Answer<'_, Vec<Asked>> {
        Box::pin(async move {
            self.clock.writes();
            let asked = self.batches.ask(tenant, who, lasting, keys).await?;
            self.clock.wrote();
            Ok(asked)
        })
    }

    fn stop_asking(&self, tenant: Tenant, who: Uuid) -> Answer<'_, ()> {
        self.batches.stop_asking(tenant, who)
    }

    fn keep_answers(
        &self,
        tenant: Tenant,
        answers: Vec<(Fingerprint, Arc<str>)>,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            self.clock.writes();
            self.batches.keep_answers(tenant, answers).await?;
            self.clock.wrote();
            Ok(())
        })
    }
}
