//! Seals what a tenant has stored plain, row by row, and then says so under the master key. What a value says never changes.

use hapax_core::{Error, Kind, Tenant};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgLedger;
use super::columns::{Param, get};
use super::jobs::Sealer;
use super::snapshots;
use crate::vault::{self, Ring, rewrite};

const SET_TENANT: &str = include_str!("../../sql/postgres/set_tenant.sql");
const JOB_TEXTS: &str = include_str!("../../sql/postgres/job_texts.sql");
const JOB_SEAL: &str = include_str!("../../sql/postgres/job_seal.sql");
const OP_TEXTS: &str = include_str!("../../sql/postgres/op_texts.sql");
const OP_SEAL: &str = include_str!("../../sql/postgres/op_seal.sql");
const SNAPSHOT_TEXTS: &str = include_str!("../../sql/postgres/snapshot_texts.sql");
const SNAPSHOT_SEAL: &str = include_str!("../../sql/postgres/snapshot_seal.sql");

const OPERATION: &str = "sealing what is stored plain";
/// How many rows are looked at together.
const PAGE: i64 = 200;
/// How often all rows are gone through: one that somebody changed meanwhile is left to the next time.
const PASSES: usize = 16;

/// One row's column values: as they are, and as they are to be.
struct Texts<K> {
    key: K,
    old: Vec<Option<String>>,
    new: Vec<Option<String>>,
}

impl PgLedger {
    pub(super) async fn seal_everything(&self, tenant: Tenant) -> Result<usize, Error> {
        let vault = self
            .vault
            .as_deref()
            .ok_or_else(|| vault::absent(OPERATION))?;
        let to = tenant.as_uuid();
        match vault.ring(&self.list(to).await?)? {
            Some(ring) if ring.is_sealed() => return Ok(0),
            Some(_) => {}
            None => drop(self.renew(tenant).await?),
        }
        let mut written = rewrite::records(self, tenant).await?;
        for pass in 1.. {
            let plain = self.jobs(tenant).await? + self.ops(tenant).await?;
            let plain = plain + self.payloads(tenant).await?;
            written += plain;
            if plain == 0 {
                break;
            }
            if pass == PASSES {
                return Err(Error::new(Kind::Unavailable, OPERATION)
                    .because("others change it all the time"));
            }
        }
        let old = self.list(to).await?;
        let new = old.iter().map(|key| Ok(vault.seal_off(key)?.bytes));
        let new: Vec<Vec<u8>> = new.collect::<Result<_, Error>>()?;
        if self.replace(OPERATION, &old, &new).await? < old.len() {
            let why = "others changed the keys; run it again";
            return Err(Error::new(Kind::Unavailable, OPERATION).because(why));
        }
        vault.keep(to, &self.list(to).await?)?;
        Ok(written)
    }

    async fn jobs(&self, tenant: Tenant) -> Result<usize, Error> {
        let (to, mut after, mut plain) = (tenant.as_uuid(), 0_i64, 0);
        loop {
            let rows = self.texts(&to, JOB_TEXTS, &after).await?;
            let ring = self.ring_of(tenant).await?;
            let sealer = Sealer {
                ring: ring.as_deref(),
                tenant,
            };
            let mut changed = Vec::new();
            for row in &rows {
                let (seq, id): (i64, String) = (get(row, 0)?, get(row, 1)?);
                let columns = ["payload", "result", "error"];
                changed.extend(changes(row, 2, &columns, seq, |column, value| {
                    sealer.again(("job", &id), column, value)
                })?);
                after = seq;
            }
            plain += changed.len();
            if !changed.is_empty() {
                let keys: Vec<i64> = changed.iter().map(|texts| texts.key).collect();
                let [new, old] = columns(&changed, 3);
                let params: Vec<Param<'_>> = vec![
                    &to, &keys, &new[0], &new[1], &new[2], &old[0], &old[1], &old[2],
                ];
                self.reader
                    .scoped_write(OPERATION, SET_TENANT, &to, JOB_SEAL, &params)
                    .await?;
            }
            if is_last(&rows) {
                return Ok(plain);
            }
        }
    }

    async fn ops(&self, tenant: Tenant) -> Result<usize, Error> {
        let (to, mut after, mut plain) = (tenant.as_uuid(), String::new(), 0);
        loop {
            let rows = self.texts(&to, OP_TEXTS, &after).await?;
            let ring = self.ring_of(tenant).await?;
            let sealer = Sealer {
                ring: ring.as_deref(),
                tenant,
            };
            let mut changed = Vec::new();
            for row in &rows {
                let key: String = get(row, 0)?;
                after.clone_from(&key);
                changed.extend(changes(
                    row,
                    1,
                    &["result", "error"],
                    key.clone(),
                    |column, value| sealer.again(("op", &key), column, value),
                )?);
            }
            plain += changed.len();
            if !changed.is_empty() {
                let keys: Vec<&str> = changed.iter().map(|texts| texts.key.as_str()).collect();
                let [new, old] = columns(&changed, 2);
                let params: Vec<Param<'_>> = vec![&to, &keys, &new[0], &new[1], &old[0], &old[1]];
                self.reader
                    .scoped_write(OPERATION, SET_TENANT, &to, OP_SEAL, &params)
                    .await?;
            }
            if is_last(&rows) {
                return Ok(plain);
            }
        }
    }

    async fn payloads(&self, tenant: Tenant) -> Result<usize, Error> {
        let (to, mut after, mut plain) = (tenant.as_uuid(), 0_i64, 0);
        loop {
            let rows = self.texts(&to, SNAPSHOT_TEXTS, &after).await?;
            let ring = self.ring_of(tenant).await?;
            let mut changed = Vec::new();
            for row in &rows {
                let (seq, id): (i64, Uuid) = (get(row, 0)?, get(row, 1)?);
                changed.extend(changes(row, 2, &["payload"], seq, |_, value| {
                    payload(ring.as_deref(), tenant, id, value)
                })?);
                after = seq;
            }
            plain += changed.len();
            if !changed.is_empty() {
                let keys: Vec<i64> = changed.iter().map(|texts| texts.key).collect();
                let [new, old] = columns(&changed, 1);
                let params: Vec<Param<'_>> = vec![&to, &keys, &new[0], &old[0]];
                self.reader
                    .scoped_write(OPERATION, SET_TENANT, &to, SNAPSHOT_SEAL, &params)
                    .await?;
            }
            if is_last(&rows) {
                return Ok(plain);
            }
        }
    }

    /// The next page of rows after this one.
    async fn texts(
        &self,
        to: &Uuid,
        sql: &'static str,
        after: &(dyn tokio_postgres::types::ToSql + Sync),
    ) -> Result<Vec<Row>, Error> {
        let params: [Param<'_>; 3] = [to, after, &PAGE];
        self.reader
            .scoped(OPERATION, SET_TENANT, to, sql, &params)
            .await
    }
}

fn payload(ring: Option<&Ring>, tenant: Tenant, id: Uuid, value: String) -> Result<String, Error> {
    let plain = snapshots::open(ring, tenant, id, value)?;
    snapshots::seal(ring, tenant, id, &plain)
}

/// The texts of a row, from its column `first` on, if one of them is plain.
fn changes<K>(
    row: &Row,
    first: usize,
    names: &[&'static str],
    key: K,
    seal: impl Fn(&'static str, String) -> Result<String, Error>,
) -> Result<Option<Texts<K>>, Error> {
    let old: Vec<Option<String>> = (first..first + names.len())
        .map(|column| get(row, column))
        .collect::<Result<_, _>>()?;
    if !old.iter().flatten().any(|text| vault::is_plain(text)) {
        return Ok(None);
    }
    let new = names.iter().zip(&old).map(|(name, text)| {
        let text = text.clone();
        text.map(|text| seal(name, text)).transpose()
    });
    let new = new.collect::<Result<_, Error>>()?;
    Ok(Some(Texts { key, old, new }))
}

/// The new texts and the old ones, column by column.
fn columns<K>(changed: &[Texts<K>], count: usize) -> [Vec<Vec<Option<&str>>>; 2] {
    let column = |of: fn(&Texts<K>) -> &Vec<Option<String>>, at: usize| {
        changed
            .iter()
            .map(|texts| of(texts)[at].as_deref())
            .collect()
    };
    [
        (0..count)
            .map(|at| column(|texts| &texts.new, at))
            .collect(),
        (0..count)
            .map(|at| column(|texts| &texts.old, at))
            .collect(),
    ]
}

fn is_last(rows: &[Row]) -> bool {
    i64::try_from(rows.len()).is_ok_and(|count| count < PAGE)
}
