//! Seals what a tenant has stored plain, row by row, and then says so under the master key. What a value says never changes.

use hapax_core::{Error, Kind, Tenant};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::SqliteLedger;
use super::fault::Fault;
use super::jobs::keys::{Keys, Spot};
use super::queue::Effect;
use super::tenant_keys;
use crate::vault::{self, rewrite};

const JOB_TEXTS: &str = include_str!("../../sql/sqlite/job_texts.sql");
const JOB_SAY: &str = include_str!("../../sql/sqlite/job_say.sql");
const JOB_PAYLOAD_SEAL: &str = include_str!("../../sql/sqlite/job_payload_seal.sql");
const OP_TEXTS: &str = include_str!("../../sql/sqlite/op_texts.sql");
const OP_SEAL: &str = include_str!("../../sql/sqlite/op_seal.sql");
const SNAPSHOT_TEXTS: &str = include_str!("../../sql/sqlite/snapshot_texts.sql");
const SNAPSHOT_PAYLOAD_SEAL: &str = include_str!("../../sql/sqlite/snapshot_payload_seal.sql");

/// How many rows one write looks at.
const PAGE: i64 = 200;

/// One page of rows: how many were written, and after which one the next page begins, if there is one.
type Page<C> = (usize, Option<C>);

impl SqliteLedger {
    pub(super) async fn seal_everything(&self, tenant: Tenant) -> Result<usize, Error> {
        let operation = "sealing what is stored plain";
        let vault = self.vault.clone().ok_or_else(|| vault::absent(operation))?;
        let to = tenant.as_uuid();
        let stored = self.read(move |connection| tenant_keys::list(connection, to));
        match vault.ring(&stored.await?)? {
            Some(ring) if ring.is_sealed() => return Ok(0),
            Some(_) => {}
            None => drop(self.renew(tenant).await?),
        }
        let mut written = rewrite::records(self, tenant).await?;
        written += self.pages(tenant, 0, jobs).await?;
        written += self.pages(tenant, String::new(), ops).await?;
        written += self.pages(tenant, 0, snapshots).await?;
        let shared = vault.clone();
        let sealed = self
            .write(1, 0, move |connection| {
                for old in tenant_keys::list(connection, to)? {
                    if tenant_keys::replace(connection, &old, &shared.seal_off(&old)?)? == 0 {
                        return Err(Error::new(Kind::Unavailable, operation).into());
                    }
                }
                let effect = Effect {
                    wrote: true,
                    purged: 0,
                };
                Ok((tenant_keys::list(connection, to)?, effect))
            })
            .await?;
        vault.keep(to, &sealed)?;
        Ok(written)
    }

    /// Goes through all rows of one kind. Nobody else writes while a page is.
    async fn pages<C: Clone + Send + 'static>(
        &self,
        tenant: Tenant,
        first: C,
        page: fn(&Connection, &Keys, C) -> Result<Page<C>, Fault>,
    ) -> Result<usize, Error> {
        let (mut after, mut written) = (first, 0);
        loop {
            let keys = self.keys(tenant).await?;
            let (count, next) = self
                .write(1, 0, move |connection| {
                    let (count, next) = page(connection, &keys, after.clone())?;
                    let effect = Effect {
                        wrote: count > 0,
                        purged: 0,
                    };
                    Ok(((count, next), effect))
                })
                .await?;
            written += count;
            match next {
                Some(next) => after = next,
                None => return Ok(written),
            }
        }
    }
}

fn jobs(connection: &Connection, keys: &Keys, after: i64) -> Result<Page<i64>, Fault> {
    type Job = (i64, String, [Option<String>; 3]);
    let mut statement = connection.prepare_cached(JOB_TEXTS)?;
    let rows = statement.query_map(
        params![keys.tenant.as_uuid().as_bytes(), after, PAGE],
        |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                [row.get(2)?, row.get(3)?, row.get(4)?],
            ))
        },
    )?;
    let rows: Vec<Job> = rows.collect::<rusqlite::Result<_>>()?;
    let next = next(&rows, |row| row.0);
    let mut written = 0;
    for (seq, id, texts) in rows {
        if !texts.iter().flatten().any(|text| vault::is_plain(text)) {
            continue;
        }
        let [payload, result, error] = sealed(
            connection,
            keys,
            ("job", &id),
            ["payload", "result", "error"],
            texts,
        )?;
        connection
            .prepare_cached(JOB_SAY)?
            .execute(params![seq, result, error])?;
        if let Some(payload) = payload {
            connection
                .prepare_cached(JOB_PAYLOAD_SEAL)?
                .execute(params![seq, payload])?;
        }
        written += 1;
    }
    Ok((written, next))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the pages of all kinds are asked for in one way"
)]
fn ops(connection: &Connection, keys: &Keys, after: String) -> Result<Page<String>, Fault> {
    type Op = (String, [Option<String>; 2]);
    let tenant = keys.tenant.as_uuid();
    let mut statement = connection.prepare_cached(OP_TEXTS)?;
    let rows = statement.query_map(params![tenant.as_bytes(), after, PAGE], |row| {
        Ok((row.get(0)?, [row.get(1)?, row.get(2)?]))
    })?;
    let rows: Vec<Op> = rows.collect::<rusqlite::Result<_>>()?;
    let next = next(&rows, |row| row.0.clone());
    let mut written = 0;
    for (key, texts) in rows {
        if !texts.iter().flatten().any(|text| vault::is_plain(text)) {
            continue;
        }
        let [result, error] = sealed(connection, keys, ("op", &key), ["result", "error"], texts)?;
        connection.prepare_cached(OP_SEAL)?.execute(params![
            tenant.as_bytes(),
            key,
            result,
            error
        ])?;
        written += 1;
    }
    Ok((written, next))
}

fn snapshots(connection: &Connection, keys: &Keys, after: i64) -> Result<Page<i64>, Fault> {
    type Snapshot = (i64, [u8; 16], String);
    let mut statement = connection.prepare_cached(SNAPSHOT_TEXTS)?;
    let rows = statement.query_map(
        params![keys.tenant.as_uuid().as_bytes(), after, PAGE],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let rows: Vec<Snapshot> = rows.collect::<rusqlite::Result<_>>()?;
    let next = next(&rows, |row| row.0);
    let mut written = 0;
    for (seq, id, payload) in rows {
        if !vault::is_plain(&payload) {
            continue;
        }
        let id = Uuid::from_bytes(id).to_string();
        let [payload] = sealed(
            connection,
            keys,
            ("snapshot", &id),
            ["payload"],
            [Some(payload)],
        )?;
        connection
            .prepare_cached(SNAPSHOT_PAYLOAD_SEAL)?
            .execute(params![seq, payload])?;
        written += 1;
    }
    Ok((written, next))
}

/// The column values of one row's texts, sealed under the newest key.
fn sealed<const N: usize>(
    connection: &Connection,
    keys: &Keys,
    (table, id): (&'static str, &str),
    columns: [&'static str; N],
    mut texts: [Option<String>; N],
) -> Result<[Option<String>; N], Fault> {
    for (column, text) in columns.into_iter().zip(&mut texts) {
        let spot = Spot { table, id, column };
        if let Some(value) = text.take() {
            let plain = keys.open(connection, spot, value)?;
            *text = Some(keys.seal(spot, &plain)?);
        }
    }
    Ok(texts)
}

fn next<R, C>(rows: &[R], place: impl Fn(&R) -> C) -> Option<C> {
    let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= PAGE);
    rows.last().filter(|_| is_full).map(place)
}
