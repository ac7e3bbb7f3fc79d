//! Enrichment as it is kept: batches and their items beside the entries, and the answers that were paid for. What is asked
//! of a model is somebody else's business.

mod batches;
mod items;

use std::sync::Arc;

use hapax_core::entry::{
    Batch, BatchState, Batches, DueBatch, Item, ItemChange, ItemScan, ItemStatus, NewBatch, Schema,
    Target,
};
use hapax_core::{Answer, Fingerprint, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::super::SqliteLedger;
use super::super::fault::Fault;
use super::super::queue::Effect;
use super::rows::tenant_bytes;
use crate::t1::{
    Prepared, at_most_answers, at_most_changes, taken, taken_answers, taken_change, taken_members,
    taken_state, weight,
};

pub(super) const ANSWER_FIND: &str = include_str!("../../../../sql/sqlite/answer_find.sql");
const ANSWER_PUT: &str = include_str!("../../../../sql/sqlite/answer_put.sql");

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
                paid(&seen, tenant, &keys)
            })
            .await
        })
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
                keep(connection, tenant, &answers, clock.now())
            })
            .await
        })
    }
}

fn paid(
    connection: &Connection,
    tenant: Tenant,
    keys: &[Fingerprint],
) -> Result<Vec<Option<Arc<str>>>, Fault> {
    let mut find = connection.prepare_cached(ANSWER_FIND)?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let params = params![key.as_bytes(), tenant_bytes(tenant)];
        let raw: Option<Arc<str>> = find.query_row(params, |row| row.get(0)).optional()?;
        found.push(raw);
    }
    Ok(found)
}

fn keep(
    connection: &Connection,
    tenant: Tenant,
    answers: &[(Fingerprint, Arc<str>)],
    now: Time,
) -> Result<((), Effect), Fault> {
    let mut put = connection.prepare_cached(ANSWER_PUT)?;
    let mut written = 0;
    for (key, raw) in answers {
        let params = params![tenant_bytes(tenant), key.as_bytes(), raw, now.as_ms()];
        written += put.execute(params)?;
    }
    Ok(((), effect(written > 0)))
}

fn effect(wrote: bool) -> Effect {
    Effect { wrote, purged: 0 }
}
