//! The tenants' keys in the file: read, made once, rotated and deleted. What they seal is the vault's business.

use std::sync::Arc;

use hapax_core::{Answer, Error, Kind, Tenant, Time};
use rusqlite::{Connection, TransactionBehavior, params};
use uuid::Uuid;

use super::SqliteLedger;
use super::fault::{Fault, failed};
use super::queue::Effect;
use crate::row::Row;
use crate::vault::{self, Keys, ROTATED_MAX, Ring, Rings, TenantKeys, Vault, Wrapped};

const LIST: &str = include_str!("../../sql/sqlite/tenant_key_list.sql");
const PUT: &str = include_str!("../../sql/sqlite/tenant_key_put.sql");
const MASTERS: &str = include_str!("../../sql/sqlite/tenant_key_masters.sql");
const BEHIND: &str = include_str!("../../sql/sqlite/tenant_key_behind.sql");
const REWRAP: &str = include_str!("../../sql/sqlite/tenant_key_rewrap.sql");
const PLAIN_TENANTS: &str = include_str!("../../sql/sqlite/plain_tenants.sql");
const SHARED_SECRET: &str = include_str!("../../sql/sqlite/shared_secret.sql");
const SHRED: &str = include_str!("../../sql/sqlite/tenant_key_shred.sql");

/// Refuses a file whose bodies could not be read, before anything is.
pub(super) fn check(connection: &Connection, vault: Option<&Vault>) -> Result<(), Error> {
    let masters = masters(connection).map_err(|error| failed("opening the ledger", error))?;
    vault::check(vault, &masters)
}

/// Where there are no keys yet, whoever has stored something did so plain, and gets a key that says so.
pub(super) fn meet(connection: &mut Connection, vault: &Vault, now: Time) -> Result<(), Error> {
    let operation = "looking for tenants who stored something plain";
    let failed = |error| failed(operation, error);
    if !masters(connection).map_err(failed)?.is_empty() {
        return Ok(());
    }
    // All of them or none: of those left out everything plain would be refused.
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let tenants = || -> rusqlite::Result<Vec<[u8; 16]>> {
        let mut statement = transaction.prepare(PLAIN_TENANTS)?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    for tenant in tenants().map_err(failed)? {
        let minted = vault.mint_beside_plain(Uuid::from_bytes(tenant))?;
        put(&transaction, &minted, now).map_err(|fault| fault.into_error(operation))?;
    }
    transaction.commit().map_err(failed)
}

fn masters(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(MASTERS)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

/// The record in `row`, with the keys it needs. `connection` sees only what is committed.
pub(super) fn open(
    connection: &Connection,
    vault: Option<&Vault>,
    row: Row,
) -> Result<hapax_core::Record, Fault> {
    let Some(vault) = vault else {
        return Ok(row.open(None)?);
    };
    let (tenant, wanted) = (row.tenant_id, vault::wanted(&row));
    let ring = match vault.fresh(tenant) {
        Some(ring) if wanted.iter().all(|id| ring.has(*id)) => ring,
        Some(_) | None => vault::to_read_with(read_again(connection, vault, tenant)?),
    };
    Ok(row.open(Some(&ring))?)
}

/// The keys to read the tenant's with, those known a moment ago or read again. `connection` sees only what is committed.
pub(super) fn known(
    connection: &Connection,
    vault: &Vault,
    tenant: Uuid,
) -> Result<Arc<Ring>, Fault> {
    match vault.fresh(tenant) {
        Some(ring) => Ok(ring),
        None => Ok(vault::to_read_with(read_again(connection, vault, tenant)?)),
    }
}

/// The keys to read the tenant's with as this connection sees them. Never remembered: what it sees may be rolled back.
pub(super) fn seen(
    connection: &Connection,
    vault: &Vault,
    tenant: Uuid,
) -> Result<Arc<Ring>, Fault> {
    let ring = vault.ring(&list(connection, tenant)?)?;
    Ok(vault::to_read_with(ring.map(Arc::new)))
}

/// The keys to write with inside a caller's transaction, made if there are none. Never remembered: the
/// transaction may be rolled back, and its keys with it.
pub(super) fn within(
    connection: &Connection,
    vault: &Vault,
    tenant: Uuid,
    now: Time,
) -> Result<Option<Arc<Ring>>, Fault> {
    let mut stored = list(connection, tenant)?;
    if stored.is_empty() {
        put(connection, &vault.mint(tenant, None)?, now)?;
        stored = list(connection, tenant)?;
    }
    Ok(vault.ring(&stored)?.map(Arc::new))
}

/// Whether the tenant's bodies are sealed, so that nobody without a vault may write beside them.
pub(super) fn has_keys(connection: &Connection, tenant: Uuid) -> Result<bool, Fault> {
    Ok(!list(connection, tenant)?.is_empty())
}

impl SqliteLedger {
    /// The keys to write for these tenants with, made where there are none. Without a vault there are none.
    pub(super) async fn sealing(
        &self,
        tenants: impl Iterator<Item = Tenant>,
    ) -> Result<Rings, Error> {
        let mut rings = Rings::default();
        let Some(vault) = &self.vault else {
            return Ok(rings);
        };
        for tenant in tenants.map(Tenant::as_uuid) {
            if !rings.has(tenant) {
                let ring = match vault.fresh(tenant) {
                    Some(ring) => ring,
                    None => self.make_ring(vault, tenant).await?,
                };
                rings.insert(tenant, ring);
            }
        }
        Ok(rings)
    }

    /// The keys to read these rows with.
    pub(super) async fn opening<'r>(
        &self,
        rows: impl Iterator<Item = &'r Row>,
    ) -> Result<Rings, Error> {
        let mut rings = Rings::default();
        let Some(vault) = &self.vault else {
            return Ok(rings);
        };
        for row in rows {
            let (tenant, wanted) = (row.tenant_id, vault::wanted(row));
            let has = |ring: Option<&Ring>| {
                ring.is_some_and(|ring| wanted.iter().all(|id| ring.has(*id)))
            };
            if has(rings.get(tenant)) {
                continue;
            }
            let ring = match vault.fresh(tenant) {
                Some(ring) if has(Some(&ring)) => ring,
                Some(_) | None => {
                    let shared = vault.clone();
                    let read = self.read(move |connection| read_again(connection, &shared, tenant));
                    vault::to_read_with(read.await?)
                }
            };
            rings.insert(tenant, ring);
        }
        Ok(rings)
    }

    /// Gives the tenant a new key. Of one who has none something may be stored plain.
    pub(super) async fn renew(&self, tenant: Tenant) -> Result<Uuid, Error> {
        let Some(vault) = self.vault.clone() else {
            return Err(vault::absent("renewing a tenant's key"));
        };
        let (tenant, now) = (tenant.as_uuid(), self.clock.now());
        let shared = vault.clone();
        let (key_id, stored) = self
            .write(1, 0, move |connection| {
                let ring = shared.ring(&list(connection, tenant)?)?;
                let minted = match &ring {
                    Some(_) => shared.mint(tenant, ring.as_ref())?,
                    None => shared.mint_beside_plain(tenant)?,
                };
                // Nobody else writes meanwhile, so its number is free.
                let wrote = put(connection, &minted, now)?;
                Ok(((minted.key_id, list(connection, tenant)?), effect(wrote)))
            })
            .await?;
        vault.keep(tenant, &stored)?;
        Ok(key_id)
    }

    async fn make_ring(&self, vault: &Arc<Vault>, tenant: Uuid) -> Result<Arc<Ring>, Error> {
        let shared = vault.clone();
        let read = self.read(move |connection| read_again(connection, &shared, tenant));
        if let Some(ring) = read.await? {
            return Ok(ring);
        }
        let minted = vault.mint(tenant, None)?;
        let now = self.clock.now();
        let stored = self
            .write(1, 0, move |connection| {
                let wrote = put(connection, &minted, now)?;
                Ok((list(connection, tenant)?, effect(wrote)))
            })
            .await?;
        vault
            .keep(tenant, &stored)?
            .ok_or_else(|| Error::new(Kind::Unavailable, "making a tenant's key"))
    }
}

impl TenantKeys for SqliteLedger {
    fn sealing_keys(&self, tenant: Tenant) -> Answer<'_, Keys> {
        Box::pin(async move {
            let rings = self.sealing(std::iter::once(tenant)).await?;
            Ok(Keys::of(rings.into_one(tenant.as_uuid())))
        })
    }

    fn opening_keys(&self, tenant: Tenant, wanted: Vec<Uuid>) -> Answer<'_, Keys> {
        Box::pin(async move {
            let Some(vault) = self.vault.clone() else {
                return Ok(Keys::default());
            };
            let tenant = tenant.as_uuid();
            let ring = match vault.fresh(tenant) {
                Some(ring) if wanted.iter().all(|id| ring.has(*id)) => ring,
                Some(_) | None => {
                    let read = self.read(move |connection| read_again(connection, &vault, tenant));
                    vault::to_read_with(read.await?)
                }
            };
            Ok(Keys::of(Some(ring)))
        })
    }

    fn rotate(&self) -> Answer<'_, usize> {
        let Some(vault) = self.vault.clone() else {
            let none = vault::absent("rotating tenants' keys");
            return Box::pin(std::future::ready(Err(none)));
        };
        Box::pin(self.write(1, 0, move |connection| {
            let behind = {
                let mut statement = connection.prepare_cached(BEHIND)?;
                let limit = i64::try_from(ROTATED_MAX).unwrap_or(i64::MAX);
                let rows = statement.query_map(params![vault.master_id(), limit], wrapped)?;
                rows.collect::<rusqlite::Result<Vec<_>>>()?
            };
            let mut rotated = 0;
            for old in behind {
                let new = vault.rewrap(&old)?;
                rotated += replace(connection, &old, &new)?;
            }
            Ok((rotated, effect(rotated > 0)))
        }))
    }

    fn renew_key(&self, tenant: Tenant) -> Answer<'_, Uuid> {
        Box::pin(self.renew(tenant))
    }

    fn shared_secret(&self) -> Answer<'_, [u8; 32]> {
        Box::pin(
            self.read(|connection| Ok(connection.query_row(SHARED_SECRET, [], |row| row.get(0))?)),
        )
    }

    fn seal_all(&self, tenant: Tenant) -> Answer<'_, usize> {
        Box::pin(self.seal_everything(tenant))
    }

    fn shred(&self, tenant: Tenant) -> Answer<'_, usize> {
        let tenant = tenant.as_uuid();
        Box::pin(async move {
            let shredded = self
                .write(1, 0, move |connection| {
                    let mut statement = connection.prepare_cached(SHRED)?;
                    let deleted = statement.execute([tenant.as_bytes()])?;
                    // Caches forget the outcomes they hold.
                    let purged = u64::from(deleted > 0);
                    let wrote = deleted > 0;
                    Ok((deleted, Effect { wrote, purged }))
                })
                .await?;
            if let Some(vault) = &self.vault {
                vault.forget(tenant);
            }
            Ok(shredded)
        })
    }
}

/// Reads the tenant's keys and remembers them. If they cannot be unwrapped, those known before still serve.
fn read_again(
    connection: &Connection,
    vault: &Vault,
    tenant: Uuid,
) -> Result<Option<Arc<Ring>>, Fault> {
    let stored = list(connection, tenant)?;
    Ok(vault.refresh(tenant, Ok(stored))?)
}

pub(super) fn list(connection: &Connection, tenant: Uuid) -> Result<Vec<Wrapped>, Fault> {
    let mut statement = connection.prepare_cached(LIST)?;
    let rows = statement.query_map([tenant.as_bytes()], wrapped)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn put(connection: &Connection, key: &Wrapped, now: Time) -> Result<bool, Fault> {
    let put = connection.prepare_cached(PUT)?.execute(params![
        key.tenant.as_bytes(),
        key.number,
        key.key_id.as_bytes(),
        key.kek_id,
        key.bytes,
        now.as_ms(),
    ])?;
    Ok(put > 0)
}

/// Puts a key in place of one that nobody changed meanwhile. Returns how many it replaced.
pub(super) fn replace(
    connection: &Connection,
    old: &Wrapped,
    new: &Wrapped,
) -> Result<usize, Fault> {
    let mut statement = connection.prepare_cached(REWRAP)?;
    Ok(statement.execute(params![
        old.tenant.as_bytes(),
        old.number,
        old.key_id.as_bytes(),
        old.bytes,
        new.kek_id,
        new.bytes,
    ])?)
}

fn wrapped(row: &rusqlite::Row<'_>) -> rusqlite::Result<Wrapped> {
    Ok(Wrapped {
        tenant: Uuid::from_bytes(row.get(0)?),
        number: row.get(1)?,
        key_id: Uuid::from_bytes(row.get(2)?),
        kek_id: row.get(3)?,
        bytes: row.get(4)?,
    })
}

fn effect(wrote: bool) -> Effect {
    Effect { wrote, purged: 0 }
}
