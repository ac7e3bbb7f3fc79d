//! Enrichment as it is kept: batches and their items beside the entries, and the answers that were paid for. What is
//! asked of a model is somebody else's business.
//!
//! Where to read on: `batches` keeps and changes batches, `items` reads and settles their items as `settling` says,
//! `questions` is what is asked and keeps what was paid for, `rows` is what is read.

mod batches;
mod items;
mod questions;
mod rows;
mod settling;
mod statements;

use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{
    Asked, Batch, BatchState, Batches, DueBatch, Item, ItemChange, ItemScan, ItemStatus, NewBatch,
    Schema, Target,
};
use hapax_core::{Answer, Fingerprint, Tenant};
use uuid::Uuid;

use super::super::PgLedger;
use crate::t1::{at_most_answers, at_most_changes};

impl Batches for PgLedger {
    fn add_batch(&self, tenant: Tenant, target: Target, new: NewBatch) -> Answer<'_, Batch> {
        Box::pin(self.keep_batch(tenant, target, new))
    }

    fn batch(&self, tenant: Tenant, id: Uuid) -> Answer<'_, Option<Batch>> {
        Box::pin(self.find_batch(tenant, id))
    }

    fn batches(
        &self,
        tenant: Tenant,
        schema: Option<Schema>,
        include_terminal: bool,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<'_, Vec<Batch>> {
        Box::pin(self.list_batches(tenant, schema, include_terminal, after, limit))
    }

    fn open_batches(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        Box::pin(self.count_open(tenant, at_most))
    }

    fn due_batches(&self, limit: usize) -> Answer<'_, Vec<DueBatch>> {
        Box::pin(self.list_due(limit))
    }

    fn change_batch(
        &self,
        tenant: Tenant,
        schema: Schema,
        id: Uuid,
        version: i64,
        state: BatchState,
    ) -> Answer<'_, Option<Batch>> {
        Box::pin(self.write_batch_state(tenant, schema, id, version, state))
    }

    fn batch_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        scan: ItemScan,
    ) -> Answer<'_, Vec<Item>> {
        Box::pin(self.list_items(tenant, schema, batch, scan))
    }

    fn settle_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        changes: Vec<ItemChange>,
    ) -> Answer<'_, Vec<Option<ItemStatus>>> {
        Box::pin(async move {
            at_most_changes(changes.len())?;
            if changes.is_empty() {
                return Ok(Vec::new());
            }
            self.settle(tenant, schema, batch, changes).await
        })
    }

    fn paid_answers(
        &self,
        tenant: Tenant,
        keys: Vec<Fingerprint>,
    ) -> Answer<'_, Vec<Option<Arc<str>>>> {
        Box::pin(async move {
            at_most_answers(keys.len())?;
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            self.find_answers(tenant, keys).await
        })
    }

    fn ask(
        &self,
        tenant: Tenant,
        who: Uuid,
        lasting: Duration,
        keys: Vec<Fingerprint>,
    ) -> Answer<'_, Vec<Asked>> {
        Box::pin(async move {
            at_most_answers(keys.len())?;
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            self.put_questions(tenant, who, lasting, keys).await
        })
    }

    fn stop_asking(&self, tenant: Tenant, who: Uuid) -> Answer<'_, ()> {
        Box::pin(self.drop_questions(tenant, who))
    }

    fn keep_answers(
        &self,
        tenant: Tenant,
        answers: Vec<(Fingerprint, Arc<str>)>,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            at_most_answers(answers.len())?;
            if answers.is_empty() {
                return Ok(());
            }
            self.put_answers(tenant, answers).await
        })
    }
}
