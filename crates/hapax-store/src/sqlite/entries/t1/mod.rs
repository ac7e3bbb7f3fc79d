//! Enrichment as it is kept: batches and their items beside the entries, and the answers that were paid for. What is asked
//! of a model is somebody else's business.

mod batches;
mod items;
pub(super) mod questions;

use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{
    Asked, Batch, BatchState, Batches, DueBatch, Item, ItemChange, ItemScan, ItemStatus, NewBatch,
    Schema, Target,
};
use hapax_core::{Answer, Fingerprint, Tenant};
use uuid::Uuid;

use super::super::SqliteLedger;
use super::super::queue::Effect;
use crate::t1::{
    Prepared, at_most_answers, at_most_changes, taken, taken_answers, taken_change, taken_members,
    taken_state, weight,
};

impl Batches for SqliteLedger {
    fn add_batch(&self, tenant: Tenant, target: Target, new: NewBatch) -> Answer<'_, Batch> {
        Box::pin(async move {
            let items = Prepared::all(&new)?;
            let (count, bytes) = (items.len(), weight(&new.items));
            let new = NewBatch {
                completion_window: taken(&new.completion_window).into_owned(),
                metadata: taken_members(new.metadata),
                items: Vec::new(),
                id: new.id,
            };
            let clock = self.clock.clone();
            self.write(count, bytes, move |connection| {
                batches::add(connection, tenant, target, &new, &items, clock.now())
            })
            .await
        })
    }

    fn batch(&self, tenant: Tenant, id: Uuid) -> Answer<'_, Option<Batch>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            batches::find(&seen, tenant, id)
        }))
    }

    fn batches(
        &self,
        tenant: Tenant,
        schema: Option<Schema>,
        include_terminal: bool,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<'_, Vec<Batch>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            batches::list(&seen, tenant, schema, include_terminal, after, limit)
        }))
    }

    fn open_batches(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64> {
        Box::pin(self.read(move |connection| batches::count_open(connection, tenant, at_most)))
    }

    fn due_batches(&self, limit: usize) -> Answer<'_, Vec<DueBatch>> {
        let clock = self.clock.clone();
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            batches::due(&seen, limit, clock.now())
        }))
    }

    fn change_batch(
        &self,
        tenant: Tenant,
        schema: Schema,
        id: Uuid,
        version: i64,
        state: BatchState,
    ) -> Answer<'_, Option<Batch>> {
        let (state, clock) = (taken_state(state), self.clock.clone());
        Box::pin(self.write(1, 0, move |connection| {
            let now = clock.now();
            batches::change(connection, tenant, schema, (id, version), &state, now)
        }))
    }

    fn batch_items(
        &self,
        tenant: Tenant,
        schema: Schema,
        batch: Uuid,
        scan: ItemScan,
    ) -> Answer<'_, Vec<Item>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            items::list(&seen, tenant, schema, batch, &scan)
        }))
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
            let changes: Vec<ItemChange> = changes.into_iter().map(taken_change).collect();
            let (count, bytes) = (changes.len().max(1), items::bytes(&changes));
            let clock = self.clock.clone();
            self.write(count, bytes, move |connection| {
                items::settle(connection, tenant, schema, batch, &changes, clock.now())
            })
            .await
        })
    }

    fn paid_answers(
        &self,
        tenant: Tenant,
        keys: Vec<Fingerprint>,
    ) -> Answer<'_, Vec<Option<Arc<str>>>> {
        Box::pin(async move {
            at_most_answers(keys.len())?;
            self.read(move |connection| {
                let seen = connection.unchecked_transaction()?;
                questions::paid(&seen, tenant, &keys)
            })
            .await
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
            let clock = self.clock.clone();
            self.write(keys.len().max(1), 0, move |connection| {
                let now = clock.now();
                let until = now.plus(lasting);
                questions::ask(connection, tenant, who, (now, until), &keys)
            })
            .await
        })
    }

    fn stop_asking(&self, tenant: Tenant, who: Uuid) -> Answer<'_, ()> {
        Box::pin(self.write(1, 0, move |connection| {
            let stopped = questions::stop(connection, tenant, who)?;
            Ok(((), effect(stopped > 0)))
        }))
    }

    fn keep_answers(
        &self,
        tenant: Tenant,
        answers: Vec<(Fingerprint, Arc<str>)>,
    ) -> Answer<'_, ()> {
        Box::pin(async move {
            at_most_answers(answers.len())?;
            let answers = taken_answers(answers);
            let bytes = answers.iter().map(|(_, raw)| raw.len()).sum();
            let clock = self.clock.clone();
            self.write(answers.len().max(1), bytes, move |connection| {
                questions::keep(connection, tenant, &answers, clock.now())
            })
            .await
        })
    }
}

fn effect(wrote: bool) -> Effect {
    Effect { wrote, purged: 0 }
}
