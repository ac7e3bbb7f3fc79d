//! Batches: made once for an id, listed, due, and changed one version after the other.

use hapax_core::entry::{Batch, BatchState, DueBatch, NewBatch, Schema, Target};
use hapax_core::{Error, Kind, Tenant, Time};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::super::PgLedger;
use super::super::super::columns::{Param, get, moment};
use super::super::super::jobs::BEGIN;
use super::super::super::jobs::link::{Failure, Link, Order};
use super::super::super::pack::aside;
use super::super::super::reader::SET_TENANT;
use super::super::mode::At;
use super::super::rows::json_text;
use super::super::writes::lock_key;
use super::questions::STOP;
use super::rows;
use super::statements::Statements;
use crate::t1::{
    After, Prepared, in_turn, newest, page, taken, taken_members, taken_state, weight,
};

const OPEN: &str = include_str!("../../../../sql/postgres/t1_batch_open.sql");

impl PgLedger {
    pub(super) async fn keep_batch(
        &self,
        tenant: Tenant,
        target: Target,
        new: NewBatch,
    ) -> Result<Batch, Error> {
        let new = aside(weight(&new.items), move || New::of(tenant, new)).await??;
        // The key of a table does not keep the other home from having the same one.
        let locks = vec![lock(tenant, new.id)];
        trying!(self, "keeping a batch", link, {
            let at = self.begin_at(link, tenant, target, &locks).await?;
            let there = either(link, tenant, new.id).await?;
            if let Some((_, batch)) = there {
                link.finish(Vec::new(), false).await?;
                return Ok(batch);
            }
            let batch = add(link, &new, at).await?;
            link.finish(Vec::new(), true).await?;
            Ok(batch)
        })
    }

    pub(super) async fn find_batch(
        &self,
        tenant: Tenant,
        id: Uuid,
    ) -> Result<Option<Batch>, Error> {
        trying!(self, "finding a batch", link, {
            begin(link, tenant).await?;
            let found = either(link, tenant, id).await?;
            link.finish(Vec::new(), false).await?;
            Ok(found.map(|(_, batch)| batch))
        })
    }

    pub(super) async fn count_open(&self, tenant: Tenant, at_most: u64) -> Result<u64, Error> {
        let to = tenant.as_uuid();
        let most = i64::try_from(at_most).unwrap_or(i64::MAX);
        let rows = self
            .reader
            .scoped("counting batches", SET_TENANT, &to, OPEN, &[&to, &most])
            .await?;
        let count = rows.first().map(|row| get::<i64>(row, 0)).transpose()?;
        Ok(count.unwrap_or(0).unsigned_abs())
    }

    pub(super) async fn list_batches(
        &self,
        tenant: Tenant,
        schema: Option<Schema>,
        include_terminal: bool,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Batch>, Error> {
        let homes = Schema::ALL.into_iter();
        let homes = homes.filter(|home| schema.is_none_or(|schema| schema == *home));
        let homes: Vec<Schema> = homes.collect();
        let (to, most) = (tenant.as_uuid(), page(limit));
        trying!(self, "listing batches", link, {
            begin(link, tenant).await?;
            let after = match after {
                None => None,
                Some(id) => match either(link, tenant, id).await? {
                    // Nothing comes after what is not there.
                    None => {
                        link.finish(Vec::new(), false).await?;
                        return Ok(Vec::new());
                    }
                    Some((seq, batch)) => Some(After {
                        created_at: batch.created_at,
                        schema: batch.schema,
                        seq,
                    }),
                },
            };
            let bound = |home: &Schema| {
                let last = || (Time::from_ms(i64::MAX), i64::MAX);
                let (before, seq) = after.as_ref().map_or_else(last, |after| after.bound(*home));
                (moment(before.as_ms()), seq)
            };
            let bounds: Vec<_> = homes.iter().map(bound).collect();
            let orders = homes.iter().zip(&bounds).map(|(home, (before, seq))| {
                let statements = Statements::of(*home);
                let sql = if include_terminal {
                    &statements.batch_newest
                } else {
                    &statements.batch_live
                };
                Order::Query(sql, vec![&to, before, seq, &most])
            });
            let orders: Vec<Order<'_>> = orders.collect();
            let answers = link.look(orders).await?;
            let listed = homes.iter().zip(&answers).map(|(home, found)| {
                let batch = |row| rows::batch(*home, row).map(|(_, batch)| batch);
                found.iter().map(batch).collect::<Result<Vec<Batch>, _>>()
            });
            let listed = read(link, listed.collect::<Result<Vec<_>, _>>()).await?;
            link.finish(Vec::new(), false).await?;
            Ok(newest(listed, limit))
        })
    }

    /// Who looks for them serves every tenant, and sees no content.
    pub(super) async fn list_due(&self, limit: usize) -> Result<Vec<DueBatch>, Error> {
        let (shift_ms, most) = (self.shift_ms(), page(limit));
        let mut homes = Vec::new();
        for schema in Schema::ALL {
            let params: [Param<'_>; 2] = [&shift_ms, &most];
            let sql = &Statements::of(schema).batch_due;
            let operation = "looking for batches that are due";
            let found = self.reader.as_janitor(operation, sql, &params).await?;
            let due = found.iter().map(|row| rows::due(schema, row));
            homes.push(due.collect::<Result<Vec<_>, _>>()?);
        }
        let [one, other] = <[_; 2]>::try_from(homes).unwrap_or_default();
        Ok(in_turn([one, other], limit))
    }

    pub(super) async fn write_batch_state(
        &self,
        tenant: Tenant,
        schema: Schema,
        id: Uuid,
        version: i64,
        state: BatchState,
    ) -> Result<Option<Batch>, Error> {
        let operation = "changing a batch";
        let state = taken_state(state);
        let (to, statements) = (tenant.as_uuid(), Statements::of(schema));
        let (status, next_at) = (state.status.as_str(), moment(state.next_at.as_ms()));
        let (attempt, failures) = (i64::from(state.attempt), i64::from(state.failures));
        let provider = &state.provider;
        trying!(self, operation, link, {
            let target = Target::Pinned(schema);
            let at = self.begin_at(link, tenant, target, &Vec::new()).await?;
            let now = moment(at.now.as_ms());
            let params: Vec<Param<'_>> = vec![
                &to,
                &id,
                &version,
                &status,
                &attempt,
                &failures,
                &next_at,
                &state.model,
                &provider.batch_id,
                &provider.status,
                &provider.input_file,
                &provider.output_file,
                &provider.error_file,
                &state.error,
                &now,
            ];
            let orders = vec![
                Order::Query(&statements.batch_change, params),
                Order::Query(&statements.batch_find, vec![&to, &id]),
            ];
            let answers = link.look(orders).await?;
            let is_changed = answers.first().is_some_and(|rows| !rows.is_empty());
            let found = answers.last().and_then(|rows| rows.first());
            let found = found
                .filter(|_| is_changed)
                .map(|row| rows::batch(schema, row));
            let found = read(link, found.transpose()).await?;
            let mut orders = Vec::new();
            if is_changed && state.status.is_terminal() {
                orders.push(Order::Query(STOP, vec![&to, &id]));
            }
            link.finish(orders, is_changed).await?;
            Ok(found.map(|(_, batch)| batch))
        })
    }
}

/// A batch to be written, column by column.
struct New {
    tenant: Uuid,
    id: Uuid,
    completion_window: String,
    metadata: String,
    request_count: i64,
    items: Vec<Items>,
}

/// Some of its items.
#[derive(Default)]
struct Items {
    entry_id: Vec<Option<i64>>,
    hash: Vec<Vec<u8>>,
    request: Vec<Option<String>>,
    request_bytes: Vec<Option<i64>>,
}

impl New {
    fn of(tenant: Tenant, new: NewBatch) -> Result<Self, Error> {
        let items = Prepared::all(&new)?;
        let request_count = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let parts = rows::parts(items, |item| item.request.as_ref().map_or(0, text_bytes));
        let metadata = Value::Object(taken_members(new.metadata));
        Ok(Self {
            tenant: tenant.as_uuid(),
            id: new.id,
            completion_window: taken(&new.completion_window).into_owned(),
            metadata: json_text(&metadata),
            request_count,
            items: parts.into_iter().map(Items::of).collect(),
        })
    }
}

impl Items {
    fn of(items: Vec<Prepared>) -> Self {
        let mut columns = Self::default();
        for item in items {
            let bytes = item.request.as_ref().map(text_bytes);
            let bytes = bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
            columns.entry_id.push(item.entry_id);
            columns.hash.push(item.hash.as_bytes().to_vec());
            columns
                .request
                .push(item.request.map(|request| request.to_string()));
            columns.request_bytes.push(bytes);
        }
        columns
    }
}

/// How many bytes the texts of a request have.
fn text_bytes(request: &Value) -> usize {
    let texts = request.as_object().into_iter().flat_map(Map::values);
    texts.filter_map(Value::as_str).map(str::len).sum()
}

/// Writes a batch and its items; what is there then.
async fn add(link: &mut Link, new: &New, at: At) -> Result<Batch, Failure> {
    let (statements, now) = (Statements::of(at.schema), moment(at.now.as_ms()));
    let params: Vec<Param<'_>> = vec![
        &new.tenant,
        &new.id,
        &new.completion_window,
        &new.request_count,
        &new.metadata,
        &now,
    ];
    let mut orders = vec![Order::Query(&statements.batch_add, params)];
    for part in &new.items {
        let params: Vec<Param<'_>> = vec![
            &new.tenant,
            &new.id,
            &now,
            &part.entry_id,
            &part.hash,
            &part.request,
            &part.request_bytes,
        ];
        orders.push(Order::Query(&statements.item_add, params));
    }
    let params: Vec<Param<'_>> = vec![&new.tenant, &new.id];
    orders.push(Order::Query(&statements.batch_find, params));
    let answers = link.look(orders).await?;
    let missing =
        || Error::new(Kind::Corrupt, "keeping a batch").because("what was just written is missing");
    let written = answers.last().and_then(|rows| rows.first());
    let written = written.ok_or_else(missing);
    let written = written.and_then(|row| rows::batch(at.schema, row));
    Ok(read(link, written).await?.1)
}

/// Begins a transaction of a tenant.
pub(super) async fn begin(link: &mut Link, tenant: Tenant) -> Result<(), Failure> {
    let to = tenant.as_uuid();
    let orders = vec![Order::Command(BEGIN), Order::Query(SET_TENANT, vec![&to])];
    link.look(orders).await.map(drop)
}

/// What was read, or the end of the transaction.
pub(super) async fn read<T>(link: &mut Link, read: Result<T, Error>) -> Result<T, Failure> {
    match read {
        Ok(value) => Ok(value),
        Err(error) => Err(link.give_up(error).await),
    }
}

/// The batch with this id and its number, in whichever home it is.
async fn either(
    link: &mut Link,
    tenant: Tenant,
    id: Uuid,
) -> Result<Option<(i64, Batch)>, Failure> {
    let to = tenant.as_uuid();
    let order = |schema| Order::Query(&Statements::of(schema).batch_find, vec![&to, &id]);
    let answers = link.look(Schema::ALL.map(order).into()).await?;
    let found = Schema::ALL.into_iter().zip(&answers);
    let found = found.filter_map(|(schema, rows): (Schema, &Vec<Row>)| {
        let row = rows.first()?;
        Some(rows::batch(schema, row))
    });
    let first = { found }.next().transpose();
    read(link, first).await
}

fn lock(tenant: Tenant, batch: Uuid) -> i64 {
    let mut hash = Sha256::new();
    hash.update(b"batch");
    hash.update(tenant.as_uuid().as_bytes());
    hash.update(batch.as_bytes());
    lock_key(&hash.finalize().into())
}
