//! Imports: a chunk's entries, its counters, its candidates for enrichment and its place in the file are written in one
//! transaction. Reading a file is somebody else's business.

use std::collections::HashSet;
use std::time::SystemTime;

use hapax_core::entry::{
    Chunk, Counts, Cursor, Import, ImportBatch, ImportStatus, NewImport, Step, Target,
};
use hapax_core::{Error, Kind, Tenant, Time};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::{Param, get, moment};
use super::super::jobs::BEGIN;
use super::super::jobs::link::{Failure, Link, Order};
use super::super::reader::SET_TENANT;
use super::mode::At;
use super::rows;
use super::statements::Statements;
use super::writes::{Writes, locks, numbered};
use crate::entry::page;
use crate::import::{self, Head};

const FIND: &str = include_str!("../../../sql/postgres/import_find.sql");
const RUNNING: &str = include_str!("../../../sql/postgres/import_running.sql");
const LOCK: &str = include_str!("../../../sql/postgres/import_lock.sql");
const LIST: &str = include_str!("../../../sql/postgres/import_list.sql");
const INSERT: &str = include_str!("../../../sql/postgres/import_insert.sql");
const WRITE: &str = include_str!("../../../sql/postgres/import_write.sql");

impl PgLedger {
    pub(super) async fn begin(&self, tenant: Tenant, new: NewImport) -> Result<Import, Error> {
        let to = tenant.as_uuid();
        let hash = import::path_hash(&new.path).as_bytes().to_vec();
        trying!(self, "beginning an import", link, {
            let at = self.begin_at(link, tenant, new.target, &Vec::new()).await?;
            let orders = vec![
                Order::Query(FIND, vec![&to, &new.id]),
                Order::Query(RUNNING, vec![&to, &hash]),
            ];
            let answers = link.look(orders).await?;
            if let Some(there) = answers.iter().flatten().next() {
                let read = read(there);
                return match read {
                    Ok(import) => {
                        link.finish(Vec::new(), false).await?;
                        Ok(import)
                    }
                    Err(error) => Err(link.give_up(error).await),
                };
            }
            let import = begun(&new, at);
            let (schema, now_ms) = (at.schema.as_str(), at.now.as_ms());
            let (batch, chunk) = (i64::from(new.batch_size), i64::from(new.insert_chunk_size));
            let bytes = new.bytes.map(signed);
            let params: Vec<Param<'_>> = vec![
                &to,
                &new.id,
                &schema,
                &new.path,
                &hash,
                &batch,
                &chunk,
                &new.completion_window,
                &new.thread_policy,
                &bytes,
                &now_ms,
            ];
            link.finish(vec![Order::Query(INSERT, params)], true)
                .await?;
            Ok(import)
        })
    }

    pub(super) async fn find_import(
        &self,
        tenant: Tenant,
        id: Uuid,
    ) -> Result<Option<Import>, Error> {
        let to = tenant.as_uuid();
        let params: [Param<'_>; 2] = [&to, &id];
        let operation = "finding the import";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, FIND, &params)
            .await?;
        rows.first().map(read).transpose()
    }

    pub(super) async fn list_imports(
        &self,
        tenant: Tenant,
        after: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Import>, Error> {
        let (to, limit) = (tenant.as_uuid(), page(limit));
        let params: [Param<'_>; 3] = [&to, &after, &limit];
        let operation = "listing imports";
        let rows = self
            .reader
            .scoped(operation, SET_TENANT, &to, LIST, &params)
            .await?;
        rows.iter().map(read).collect()
    }

    pub(super) async fn write_chunk(
        &self,
        tenant: Tenant,
        id: Uuid,
        chunk: Chunk,
    ) -> Result<Option<Import>, Error> {
        let (head, entries) = Head::of(chunk);
        let locks = locks(tenant, &entries);
        trying!(self, "importing a chunk", link, {
            let Some(mut import) = locked(link, tenant, id).await? else {
                return none(link).await;
            };
            if !head.fits(&import) {
                return none(link).await;
            }
            let at = self
                .go_on_at(link, tenant, Target::Pinned(import.schema), &locks)
                .await?;
            let planned = self.planned(link, tenant, at, entries.clone()).await?;
            let (writes, done) = numbered(link, tenant, at, planned).await?;
            let fresh = fresh(link, tenant, &import, import::candidates(&done)).await?;
            head.add_to(&mut import, &done, fresh.len() as u64, at.now);
            let written = Stored::of(tenant, &import);
            let candidates = Candidates::of(tenant, &import, at, fresh);
            let mut orders = orders(&writes, &candidates);
            orders.push(written.order());
            link.finish(orders, true).await?;
            Ok(Some(import))
        })
    }

    pub(super) async fn fail(
        &self,
        tenant: Tenant,
        id: Uuid,
        error: String,
    ) -> Result<Option<Import>, Error> {
        // A text column does not take it.
        let error = error.replace('\0', "\u{fffd}");
        trying!(self, "giving up an import", link, {
            let Some(mut import) = locked(link, tenant, id).await? else {
                return none(link).await;
            };
            let target = Target::Pinned(import.schema);
            let at = self.go_on_at(link, tenant, target, &Vec::new()).await?;
            if !import::give_up(&mut import, &error, at.now) {
                return none(link).await;
            }
            let written = Stored::of(tenant, &import);
            link.finish(vec![written.order()], true).await?;
            Ok(Some(import))
        })
    }
}

/// Begins a transaction on an import, which is locked until it ends.
pub(super) async fn locked(
    link: &mut Link,
    tenant: Tenant,
    id: Uuid,
) -> Result<Option<Import>, Failure> {
    let to = tenant.as_uuid();
    let orders = vec![
        Order::Command(BEGIN),
        Order::Query(SET_TENANT, vec![&to]),
        Order::Query(LOCK, vec![&to, &id]),
    ];
    let answers = link.look(orders).await?;
    let there = answers.last().and_then(|rows| rows.first());
    match there.map(read).transpose() {
        Ok(import) => Ok(import),
        Err(error) => Err(link.give_up(error).await),
    }
}

/// Ends a transaction in which there was nothing to do.
pub(super) async fn none(link: &mut Link) -> Result<Option<Import>, Failure> {
    link.finish(Vec::new(), false).await?;
    Ok(None)
}

/// Those of the candidates that are new to the import.
async fn fresh(
    link: &mut Link,
    tenant: Tenant,
    import: &Import,
    candidates: Vec<i64>,
) -> Result<Vec<i64>, Failure> {
    if candidates.is_empty() {
        return Ok(candidates);
    }
    let (to, statements) = (tenant.as_uuid(), Statements::of(import.schema));
    let params: Vec<Param<'_>> = vec![&to, &import.id, &candidates];
    let orders = vec![Order::Query(&statements.candidate_there, params)];
    let answers = link.look(orders).await?;
    let there = answers.iter().flatten().map(|row| get(row, 0));
    match there.collect::<Result<HashSet<i64>, _>>() {
        Ok(there) => {
            let is_fresh = |number: &i64| !there.contains(number);
            Ok(candidates.into_iter().filter(is_fresh).collect())
        }
        Err(error) => Err(link.give_up(error).await),
    }
}

/// Candidates to be written.
struct Candidates {
    tenant: Uuid,
    import: Uuid,
    statements: &'static Statements,
    at: SystemTime,
    entry_id: Vec<i64>,
}

impl Candidates {
    fn of(tenant: Tenant, import: &Import, at: At, entry_id: Vec<i64>) -> Self {
        Self {
            tenant: tenant.as_uuid(),
            import: import.id,
            statements: Statements::of(import.schema),
            at: moment(at.now.as_ms()),
            entry_id,
        }
    }
}

fn orders<'a>(writes: &'a Writes, candidates: &'a Candidates) -> Vec<Order<'a>> {
    let mut orders = writes.orders();
    if !candidates.entry_id.is_empty() {
        let params: Vec<Param<'_>> = vec![
            &candidates.tenant,
            &candidates.import,
            &candidates.at,
            &candidates.entry_id,
        ];
        orders.push(Order::Query(&candidates.statements.candidate_put, params));
    }
    orders
}

/// An import as columns.
pub(super) struct Stored {
    tenant: Uuid,
    id: Uuid,
    status: &'static str,
    step: &'static str,
    cursor_index: i64,
    cursor_offset: i64,
    cursor_mark: Option<String>,
    counts: [i64; 9],
    errors: String,
    error: Option<String>,
    updated_ms: i64,
}

impl Stored {
    pub(super) fn of(tenant: Tenant, import: &Import) -> Self {
        Self {
            tenant: tenant.as_uuid(),
            id: import.id,
            status: import.status.as_str(),
            step: import.step.as_str(),
            cursor_index: signed(import.cursor.index),
            cursor_offset: signed(import.cursor.offset),
            cursor_mark: import.cursor.mark.clone(),
            counts: import::counts_list(&import.counts).map(signed),
            errors: import::errors_json(&import.errors).to_string(),
            error: import.error.clone(),
            updated_ms: import.updated_at.as_ms(),
        }
    }

    pub(super) fn order(&self) -> Order<'_> {
        let mut params: Vec<Param<'_>> = vec![
            &self.tenant,
            &self.id,
            &self.status,
            &self.step,
            &self.cursor_index,
            &self.cursor_offset,
            &self.cursor_mark,
        ];
        params.extend(self.counts.iter().map(|count| count as Param<'_>));
        params.extend([&self.errors as Param<'_>, &self.error, &self.updated_ms]);
        Order::Query(WRITE, params)
    }
}

/// An import that is new.
fn begun(new: &NewImport, at: At) -> Import {
    Import {
        id: new.id,
        asked: NewImport {
            target: Target::Pinned(at.schema),
            ..new.clone()
        },
        schema: at.schema,
        status: ImportStatus::Running,
        step: Step::Reading,
        cursor: Cursor::default(),
        counts: Counts::default(),
        errors: Vec::new(),
        batches: Vec::new(),
        error: None,
        created_at: at.now,
        updated_at: at.now,
    }
}

/// A row of a statement that lists imports.
fn read(row: &Row) -> Result<Import, Error> {
    let count = |column: usize| Ok::<_, Error>(get::<i64>(row, column)?.unsigned_abs());
    let size = |column: usize| {
        let size: i64 = get(row, column)?;
        u32::try_from(size).map_err(|_| unreadable())
    };
    let schema = import::schema_of(get(row, 1)?)?;
    let mut counts = [0; 9];
    for (place, number) in counts.iter_mut().enumerate() {
        *number = count(13 + place)?;
    }
    let id = get(row, 0)?;
    Ok(Import {
        id,
        asked: NewImport {
            id,
            path: get(row, 2)?,
            target: Target::Pinned(schema),
            batch_size: size(3)?,
            insert_chunk_size: size(4)?,
            completion_window: get(row, 5)?,
            thread_policy: get(row, 6)?,
            bytes: get::<Option<i64>>(row, 7)?.map(i64::unsigned_abs),
        },
        schema,
        status: import::status_of(get(row, 8)?)?,
        step: import::step_of(get(row, 9)?)?,
        cursor: Cursor {
            index: count(10)?,
            offset: count(11)?,
            mark: get(row, 12)?,
        },
        counts: import::counts_of(counts),
        errors: import::errors_of(&rows::json(get(row, 22)?)?)?,
        error: get(row, 23)?,
        created_at: Time::from_ms(get(row, 24)?),
        updated_at: Time::from_ms(get(row, 25)?),
        batches: match get::<Option<&str>>(row, 26)? {
            Some(batches) => batches_of(&rows::json(batches)?)?,
            None => Vec::new(),
        },
    })
}

fn batches_of(list: &Value) -> Result<Vec<ImportBatch>, Error> {
    let one = |batch: &Value| {
        Some(ImportBatch {
            batch_id: Uuid::parse_str(batch.get(0)?.as_str()?).ok()?,
            status: batch.get(1)?.as_str()?.to_owned(),
            request_count: batch.get(2)?.as_u64()?,
        })
    };
    let list = list.as_array().ok_or_else(unreadable)?;
    let batches: Option<Vec<ImportBatch>> = list.iter().map(one).collect();
    batches.ok_or_else(unreadable)
}

fn unreadable() -> Error {
    Error::new(Kind::Corrupt, "reading an import").because("its row cannot be read")
}

/// A count as the database counts.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
