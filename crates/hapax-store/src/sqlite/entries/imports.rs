//! Imports: a chunk's entries, its counters, its candidates for enrichment and its place in the file are written in one
//! transaction. Reading a file is somebody else's business.

use data_encoding::HEXLOWER;
use hapax_core::entry::{
    Chunk, Cursor, Import, ImportBatch, ImportStatus, Imports, Incoming, NewImport, Schema, Step,
    Target,
};
use hapax_core::{Answer, Error, Kind, Tenant, Time};
use rusqlite::{Connection, OptionalExtension, Params, params};
use uuid::Uuid;

use super::super::SqliteLedger;
use super::super::fault::Fault;
use super::super::queue::Effect;
use super::rows::{self, tenant_bytes};
use super::statements::Statements;
use super::{WROTE, policies, writes};
use crate::entry::{at_most, page};
use crate::import::{
    Head, candidates, counts_list, counts_of, end, errors_json, errors_of, give_up, path_hash,
    schema_of, status_of, step_of,
};

pub(super) const FIND: &str = include_str!("../../../sql/sqlite/import_find.sql");
pub(super) const RUNNING: &str = include_str!("../../../sql/sqlite/import_running.sql");
pub(super) const LIST: &str = include_str!("../../../sql/sqlite/import_list.sql");
const INSERT: &str = include_str!("../../../sql/sqlite/import_insert.sql");
pub(super) const WRITE: &str = include_str!("../../../sql/sqlite/import_write.sql");

/// While two chunks are written and synced together, the next two gather. The writer keeps their order.
const AT_ONCE: usize = 4;
/// How many candidates one call looks at, so that many without anything to enrich do not hold the writer up.
const LOOKED_AT_MAX: usize = 5000;

/// Nothing was written.
const NOTHING: Effect = Effect {
    wrote: false,
    purged: 0,
};

impl Imports for SqliteLedger {
    fn begin_import(&self, tenant: Tenant, new: NewImport) -> Answer<'_, Import> {
        let clock = self.clock.clone();
        Box::pin(self.write(1, new.path.len(), move |connection| {
            begin(connection, tenant, &new, clock.now())
        }))
    }

    fn import(&self, tenant: Tenant, id: Uuid) -> Answer<'_, Option<Import>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            find(&seen, tenant, id)
        }))
    }

    fn imports(
        &self,
        tenant: Tenant,
        after: Option<Uuid>,
        limit: usize,
    ) -> Answer<'_, Vec<Import>> {
        Box::pin(self.read(move |connection| {
            let seen = connection.unchecked_transaction()?;
            let after = after.map(Uuid::into_bytes);
            let mut list = seen.prepare_cached(LIST)?;
            let params = params![tenant_bytes(tenant), after, page(limit)];
            list.query_and_then(params, |row| read(&seen, tenant, row))?
                .collect()
        }))
    }

    fn import_chunk(&self, tenant: Tenant, id: Uuid, chunk: Chunk) -> Answer<'_, Option<Import>> {
        Box::pin(async move {
            at_most(chunk.entries.len())?;
            let (head, entries) = Head::of(chunk);
            let (count, bytes) = (entries.len().max(1), writes::bytes(&entries));
            let clock = self.clock.clone();
            self.write(count, bytes, move |connection| {
                let Some(import) = find(connection, tenant, id)? else {
                    return Ok((None, NOTHING));
                };
                let (entries, now) = (entries.clone(), clock.now());
                let import = write_chunk(connection, tenant, import, &head, entries, now)?;
                Ok(told(import))
            })
            .await
        })
    }

    fn chunks_at_once(&self) -> usize {
        AT_ONCE
    }

    fn queue_candidates(
        &self,
        tenant: Tenant,
        id: Uuid,
        batch: Uuid,
    ) -> Answer<'_, Option<Import>> {
        let clock = self.clock.clone();
        Box::pin(self.write(1, 0, move |connection| {
            let Some(import) = find(connection, tenant, id)? else {
                return Ok((None, NOTHING));
            };
            let import = queue(connection, tenant, import, batch, clock.now())?;
            Ok(told(import))
        }))
    }

    fn fail_import(&self, tenant: Tenant, id: Uuid, error: String) -> Answer<'_, Option<Import>> {
        let clock = self.clock.clone();
        Box::pin(self.write(1, error.len(), move |connection| {
            let Some(mut import) = find(connection, tenant, id)? else {
                return Ok((None, NOTHING));
            };
            if !give_up(&mut import, &error, clock.now()) {
                return Ok((None, NOTHING));
            }
            store(connection, tenant, &import)?;
            Ok((Some(import), WROTE))
        }))
    }
}

/// The answer, and whether anything was written.
fn told(import: Option<Import>) -> (Option<Import>, Effect) {
    let effect = if import.is_some() { WROTE } else { NOTHING };
    (import, effect)
}

fn begin(
    connection: &Connection,
    tenant: Tenant,
    new: &NewImport,
    now: Time,
) -> Result<(Import, Effect), Fault> {
    let path_hash = path_hash(&new.path);
    let mut there = find(connection, tenant, new.id)?;
    if there.is_none() {
        let params = params![tenant_bytes(tenant), path_hash.as_bytes()];
        there = one(connection, tenant, RUNNING, params)?;
    }
    if let Some(import) = there {
        return Ok((import, NOTHING));
    }
    let schema = policies::schema(connection, tenant, new.target)?;
    connection.prepare_cached(INSERT)?.execute(params![
        tenant_bytes(tenant),
        new.id.as_bytes(),
        schema.as_str(),
        new.path,
        path_hash.as_bytes(),
        new.batch_size,
        new.insert_chunk_size,
        new.completion_window,
        new.thread_policy,
        new.bytes.map(signed),
        now.as_ms(),
    ])?;
    let import = find(connection, tenant, new.id)?;
    let missing = || {
        Error::new(Kind::Corrupt, "beginning an import").because("what was just written is missing")
    };
    let import = import.ok_or_else(missing)?;
    Ok((import, WROTE))
}

/// Writes the entries of a chunk and moves the import behind it, if it is where the chunk begins.
fn write_chunk(
    connection: &Connection,
    tenant: Tenant,
    mut import: Import,
    head: &Head,
    entries: Vec<Incoming>,
    now: Time,
) -> Result<Option<Import>, Fault> {
    if !head.fits(&import) {
        return Ok(None);
    }
    let (_, done, _) = writes::write_to(connection, tenant, import.schema, entries, false, now)?;
    let mut fresh = 0;
    let mut put = connection.prepare_cached(&Statements::of(import.schema).candidate_put)?;
    for entry_id in candidates(&done) {
        let params = params![
            tenant_bytes(tenant),
            import.id.as_bytes(),
            entry_id,
            now.as_ms()
        ];
        fresh += put.execute(params)?;
    }
    head.add_to(&mut import, &done, fresh as u64, now);
    store(connection, tenant, &import)?;
    Ok(Some(import))
}

/// Queues at most a batch of candidates; without any left the import ends.
fn queue(
    connection: &Connection,
    tenant: Tenant,
    mut import: Import,
    batch: Uuid,
    now: Time,
) -> Result<Option<Import>, Fault> {
    if import.status != ImportStatus::Running || import.step != Step::Queueing {
        return Ok(None);
    }
    let sql = Statements::of(import.schema);
    let (tenant_id, batch_id) = (tenant_bytes(tenant), batch.into_bytes());
    let mut there = connection.prepare_cached(&sql.batch_there)?;
    if there.query_row(params![tenant_id, batch_id], |row| row.get(0))? {
        return Ok(Some(import));
    }
    let most = usize::try_from(import.asked.batch_size).unwrap_or(usize::MAX);
    let (mut queued, mut looked_at) = (0, 0);
    loop {
        let ask = (most - queued).min(LOOKED_AT_MAX - looked_at);
        let waiting = waiting(connection, tenant, &import, ask)?;
        if waiting.is_empty() {
            break;
        }
        looked_at += waiting.len();
        for (item_id, entry_id) in waiting {
            if let Some(hash) = unenriched(connection, sql, tenant, entry_id)? {
                let mut queue = connection.prepare_cached(&sql.candidate_queue)?;
                let params = params![item_id, tenant_id, batch_id, hash, now.as_ms()];
                queued += queue.execute(params)?;
            } else {
                let mut drop = connection.prepare_cached(&sql.candidate_drop)?;
                drop.execute(params![item_id, tenant_id])?;
            }
        }
    }
    if queued > 0 {
        let mut insert = connection.prepare_cached(&sql.batch_insert)?;
        insert.execute(params![
            batch_id,
            tenant_id,
            import.id.as_bytes(),
            import.asked.completion_window,
            signed(queued as u64),
            None::<String>,
            now.as_ms(),
        ])?;
        import.batches = batches(connection, tenant, import.schema, import.id)?;
    }
    import.counts.tier1_enqueued_items += queued as u64;
    if waiting(connection, tenant, &import, 1)?.is_empty() {
        end(&mut import);
    }
    import.updated_at = now.max(import.updated_at);
    store(connection, tenant, &import)?;
    Ok(Some(import))
}

/// The next candidates of an import: the numbers of the items and of their entries.
fn waiting(
    connection: &Connection,
    tenant: Tenant,
    import: &Import,
    most: usize,
) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut list = connection.prepare_cached(&Statements::of(import.schema).candidate_list)?;
    let params = params![
        tenant_bytes(tenant),
        import.id.as_bytes(),
        signed(most as u64)
    ];
    let rows = list.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// The hash of the entry's text as it is now, if it was neither enriched nor queued before.
fn unenriched(
    connection: &Connection,
    sql: &Statements,
    tenant: Tenant,
    entry_id: i64,
) -> Result<Option<[u8; 32]>, Fault> {
    let params = params![tenant_bytes(tenant), entry_id];
    let mut find = connection.prepare_cached(&sql.text_hash)?;
    let found = find.query_row(params, |row| {
        let (hash, enriched): (Option<[u8; 32]>, Option<String>) = (row.get(0)?, row.get(1)?);
        Ok((hash, enriched))
    });
    let Some((Some(hash), enriched)) = found.optional()? else {
        return Ok(None);
    };
    if enriched.as_deref() == Some(HEXLOWER.encode(&hash).as_str()) {
        return Ok(None);
    }
    let params = params![tenant_bytes(tenant), entry_id, hash];
    let mut queued = connection.prepare_cached(&sql.queued)?;
    let was_queued: bool = queued.query_row(params, |row| row.get(0))?;
    Ok((!was_queued).then_some(hash))
}

/// Writes how far an import is.
fn store(connection: &Connection, tenant: Tenant, import: &Import) -> Result<(), Fault> {
    let [
        total,
        normalized,
        unnormalized,
        inserted,
        updated,
        skipped,
        refused,
        candidates,
        enqueued,
    ] = counts_list(&import.counts).map(signed);
    connection.prepare_cached(WRITE)?.execute(params![
        tenant_bytes(tenant),
        import.id.as_bytes(),
        import.status.as_str(),
        import.step.as_str(),
        signed(import.cursor.index),
        signed(import.cursor.offset),
        import.cursor.mark,
        total,
        normalized,
        unnormalized,
        inserted,
        updated,
        skipped,
        refused,
        candidates,
        enqueued,
        errors_json(&import.errors).to_string(),
        import.error,
        import.updated_at.as_ms(),
    ])?;
    Ok(())
}

fn find(connection: &Connection, tenant: Tenant, id: Uuid) -> Result<Option<Import>, Fault> {
    let params = params![tenant_bytes(tenant), id.as_bytes()];
    one(connection, tenant, FIND, params)
}

fn one(
    connection: &Connection,
    tenant: Tenant,
    sql: &str,
    params: impl Params,
) -> Result<Option<Import>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params, |row| Ok(read(connection, tenant, row)));
    found.optional()?.transpose()
}

fn batches(
    connection: &Connection,
    tenant: Tenant,
    schema: Schema,
    import: Uuid,
) -> rusqlite::Result<Vec<ImportBatch>> {
    let mut list = connection.prepare_cached(&Statements::of(schema).batch_list)?;
    let rows = list.query_map(params![tenant_bytes(tenant), import.as_bytes()], |row| {
        Ok(ImportBatch {
            batch_id: Uuid::from_bytes(row.get(0)?),
            status: row.get(1)?,
            request_count: unsigned(row.get(2)?),
        })
    })?;
    rows.collect()
}

/// Reads the columns in the order of the statements that find imports.
fn read(connection: &Connection, tenant: Tenant, row: &rusqlite::Row<'_>) -> Result<Import, Fault> {
    let id = Uuid::from_bytes(row.get(0)?);
    let word = |at: usize| row.get::<_, String>(at);
    let count = |at: usize| row.get(at).map(unsigned);
    let schema = schema_of(&word(1)?)?;
    let bytes: Option<i64> = row.get(7)?;
    let mut counts = [0; 9];
    for (nth, counted) in counts.iter_mut().enumerate() {
        *counted = count(13 + nth)?;
    }
    Ok(Import {
        id,
        asked: NewImport {
            id,
            path: row.get(2)?,
            target: Target::Pinned(schema),
            batch_size: row.get(3)?,
            insert_chunk_size: row.get(4)?,
            completion_window: row.get(5)?,
            thread_policy: row.get(6)?,
            bytes: bytes.map(unsigned),
        },
        schema,
        status: status_of(&word(8)?)?,
        step: step_of(&word(9)?)?,
        cursor: Cursor {
            index: count(10)?,
            offset: count(11)?,
            mark: row.get(12)?,
        },
        counts: counts_of(counts),
        errors: errors_of(&rows::json(&word(22)?)?)?,
        batches: batches(connection, tenant, schema, id)?,
        error: row.get(23)?,
        created_at: Time::from_ms(row.get(24)?),
        updated_at: Time::from_ms(row.get(25)?),
    })
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
