//! Writing entries: lock their keys, see what is there, ask the rule, write what it says. Nothing is open between
//! calls, and a dropped future leaves nothing half done: its connection is closed, and the server takes it back.

use std::time::SystemTime;

use hapax_core::entry::{
    Done, Fields, Incoming, Merged, Plan, Row, Schema, Target, Which, Written,
};
use hapax_core::{Error, Tenant};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::{get, moment};
use super::super::jobs::link::{Failure, Link, Order};
use super::super::pack::aside;
use super::mode::At;
use super::policies::seen_or_seeded;
use super::rows::{self, Columns, Messages, Revisions};
use super::statements::Statements;

const OPERATION: &str = "writing entries";
/// How many locks the keys of a tenant share: one for each key would fill the server's table of locks.
const LOCKS: u8 = 128;

impl PgLedger {
    pub(super) async fn write_batch(
        &self,
        tenant: Tenant,
        target: Target,
        batch: Vec<Incoming>,
        all_or_nothing: bool,
    ) -> Result<Written, Error> {
        let locks = locks(tenant, &batch);
        trying!(self, OPERATION, link, {
            // A toggle that commits after this look and before our commit comes after us: we began before it ended, so
            // nobody who knows of it has asked us.
            let at = self.begin_at(link, tenant, target, &locks).await?;
            let planned = self.planned(link, tenant, at, batch.clone()).await?;
            let kept = !(all_or_nothing && planned.plan.has_a_fault());
            let seeded = planned.seeded;
            let done = if kept {
                let (writes, done) = numbered(link, tenant, at, planned).await?;
                let orders = writes.orders();
                let is_written = seeded || !orders.is_empty();
                link.finish(orders, is_written).await?;
                done
            } else {
                link.finish(Vec::new(), seeded).await?;
                planned.plan.answers()
            };
            Ok(Written {
                schema: at.schema,
                kept,
                done,
            })
        })
    }

    /// What the rule says of a batch whose keys are locked.
    pub(super) async fn planned(
        &self,
        link: &mut Link,
        tenant: Tenant,
        at: At,
        batch: Vec<Incoming>,
    ) -> Result<Planned, Failure> {
        let (to, statements) = (tenant.as_uuid(), Statements::of(at.schema));
        let lookups = Plan::lookups(&batch);
        let keys = |which: Which| {
            let of = lookups.iter().filter(move |lookup| lookup.which == which);
            of.map(|lookup| (&*lookup.policy, &*lookup.key))
                .unzip::<&str, &str, Vec<&str>, Vec<&str>>()
        };
        let (primary_policies, primaries) = keys(Which::Primary);
        let (secondary_policies, secondaries) = keys(Which::Secondary);
        let (numbers, ids) = Plan::named(&batch);
        let found = Order::Query(
            &statements.found,
            vec![
                &to,
                &primary_policies,
                &primaries,
                &secondary_policies,
                &secondaries,
                &numbers,
                &ids,
            ],
        );
        let orders = vec![Order::Query(&statements.policy_list, vec![&to]), found];
        let answers = link.look(orders).await?;
        let [policies, found] = &answers[..] else {
            let error = Error::new(hapax_core::Kind::Corrupt, OPERATION);
            return Err(link.give_up(error).await);
        };
        let (policies, seeded) = seen_or_seeded(link, statements, to, policies).await?;
        let bytes: usize = found.iter().map(tokio_postgres::Row::raw_size_bytes).sum();
        let found = match rows::rows(found) {
            Ok(found) => found,
            Err(error) => return Err(link.give_up(error).await),
        };
        let messages = Messages::of(Plan::merges(&batch, &found));
        let merged = merged(link, statements, to, &messages).await?;
        let bytes = bytes + bytes_of(&batch);
        let judged = aside(bytes, move || {
            Plan::of(batch, &policies, found, &merged, at.now, Uuid::now_v7)
        });
        match judged.await {
            Ok(plan) => Ok(Planned {
                plan,
                seeded,
                bytes,
            }),
            Err(error) => Err(link.give_up(error).await),
        }
    }
}

/// Those of the merges that happened before.
async fn merged(
    link: &mut Link,
    statements: &'static Statements,
    tenant: Uuid,
    messages: &Messages,
) -> Result<Vec<Merged>, Failure> {
    if messages.entry_id.is_empty() {
        return Ok(Vec::new());
    }
    let order = Order::Query(&statements.message_there, messages.params(&tenant));
    let answers = link.look(vec![order]).await?;
    let merged = answers.iter().flatten().map(rows::merged);
    match merged.collect() {
        Ok(merged) => Ok(merged),
        Err(error) => Err(link.give_up(error).await),
    }
}

/// What the rule says of a batch.
pub(super) struct Planned {
    pub(super) plan: Plan,
    /// Whether policies were written on the way.
    pub(super) seeded: bool,
    /// Roughly how much it is about.
    bytes: usize,
}

/// Roughly how many bytes the items hold.
fn bytes_of(batch: &[Incoming]) -> usize {
    let fields = |fields: &Fields| {
        let each = fields.iter().map(|(_, value)| match value {
            Value::String(text) => text.len(),
            Value::Object(members) => members.len() * 64,
            _ => 8,
        });
        each.sum::<usize>()
    };
    let each = batch.iter().map(|incoming| match incoming {
        Incoming::Insert(draft) => fields(&draft.fields),
        Incoming::Update(change) => fields(&change.fields),
        Incoming::Refused(_) => 0,
    });
    each.sum()
}

/// Draws the numbers that a plan needs; what is to be written then, and the answers.
pub(super) async fn numbered(
    link: &mut Link,
    tenant: Tenant,
    at: At,
    planned: Planned,
) -> Result<(Writes, Vec<Done>), Failure> {
    let Planned {
        mut plan, bytes, ..
    } = planned;
    let needed = i64::try_from(plan.numbers_needed()).unwrap_or(i64::MAX);
    if needed > 0 {
        let numbers = &Statements::of(at.schema).numbers;
        let answers = link
            .look(vec![Order::Query(numbers, vec![&needed])])
            .await?;
        let drawn = answers.iter().flatten().map(|row| get(row, 0));
        match drawn.collect::<Result<Vec<i64>, _>>() {
            Ok(drawn) => plan.number(drawn),
            Err(error) => return Err(link.give_up(error).await),
        }
    }
    let to = tenant.as_uuid();
    let made = aside(bytes, move || {
        let writes = Writes::of(to, at, &plan);
        (writes, plan.answers())
    });
    match made.await {
        Ok(made) => Ok(made),
        Err(error) => Err(link.give_up(error).await),
    }
}

/// What is written of a batch.
pub(super) struct Writes {
    tenant: Uuid,
    schema: Schema,
    at: SystemTime,
    inserts: Columns,
    updates: Columns,
    replaced: Revisions,
    merged: Messages,
}

impl Writes {
    fn of(tenant: Uuid, at: At, plan: &Plan) -> Self {
        let inserts: Vec<&Row> = plan.inserts().collect();
        let updates: Vec<&Row> = plan.updates().collect();
        Self {
            tenant,
            schema: at.schema,
            at: moment(at.now.as_ms()),
            inserts: Columns::of(&inserts),
            updates: Columns::of(&updates),
            replaced: Revisions::of(plan.replaced()),
            merged: Messages::of(plan.merged()),
        }
    }

    pub(super) fn orders(&self) -> Vec<Order<'_>> {
        let statements = Statements::of(self.schema);
        let mut orders = Vec::new();
        if !self.inserts.entry_id.is_empty() {
            let params = self.inserts.inserting(&self.tenant);
            orders.push(Order::Query(&statements.insert, params));
        }
        if !self.updates.entry_id.is_empty() {
            let params = self.updates.updating(&self.tenant);
            orders.push(Order::Query(&statements.update, params));
        }
        if !self.replaced.entry_id.is_empty() {
            let params = self.replaced.params(&self.tenant, &self.at);
            orders.push(Order::Query(&statements.revision_put, params));
        }
        if !self.merged.entry_id.is_empty() {
            let params = self.merged.params(&self.tenant);
            orders.push(Order::Query(&statements.message_put, params));
        }
        orders
    }
}

/// The locks of a batch's keys, each once and in order, so that two batches never wait for each other. They do not
/// know the schema: it is read under them.
pub(super) fn locks(tenant: Tenant, batch: &[Incoming]) -> Vec<i64> {
    let lock = |policy: &str, key: &str| {
        let mut hash = Sha256::new();
        hash.update((policy.len() as u64).to_be_bytes());
        hash.update(policy);
        hash.update(key);
        let stripe = hash.finalize()[0] % LOCKS;
        let mut place = Sha256::new();
        place.update(b"entries");
        place.update(tenant.as_uuid().as_bytes());
        place.update([stripe]);
        lock_key(&place.finalize().into())
    };
    let lookups = Plan::lookups(batch);
    let locks = lookups
        .iter()
        .map(|lookup| lock(&lookup.policy, &lookup.key));
    let mut locks: Vec<i64> = locks.collect();
    locks.sort_unstable();
    locks.dedup();
    locks
}

/// The key of an advisory lock.
pub(super) fn lock_key(hash: &[u8; 32]) -> i64 {
    let mut key = [0; 8];
    key.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(key)
}

#[cfg(test)]
mod tests {
    use hapax_core::entry::Draft;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_batch_of_any_size_needs_few_locks_in_one_order() {
        let insert = |number: usize| {
            let entry = json!({
                "source": "web", "idempotency_policy_key": "p", "idempotency_key_primary": number.to_string(),
            });
            let entry = entry.as_object().cloned().unwrap_or_default();
            Incoming::Insert(Draft::read(&entry, |_| None).expect("it is an entry"))
        };
        let mut batch: Vec<Incoming> = (0..2000).map(insert).collect();
        let tenant = Tenant::DEFAULT;
        let locked = locks(tenant, &batch);
        assert_eq!(locked.len(), usize::from(LOCKS));
        assert!(locked.is_sorted());
        batch.reverse();
        assert_eq!(locks(tenant, &batch), locked);
        let other = Tenant::from_uuid(Uuid::from_u128(1));
        assert!(
            locks(other, &batch)
                .iter()
                .all(|lock| !locked.contains(lock))
        );
    }
}
