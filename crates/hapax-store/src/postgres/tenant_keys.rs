//! The tenants' keys in PostgreSQL: read and added as the app, rotated and deleted as the janitor.
//! What they seal is the vault's business.

use std::sync::Arc;

use hapax_core::{Answer, Error, Kind, Tenant};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgLedger;
use super::columns::{Param, get};
use super::reader::Reader;
use crate::row::Row as Stored;
use crate::vault::{self, Keys, ROTATED_MAX, Ring, Rings, TenantKeys, Vault, Wrapped};

const SET_TENANT: &str = include_str!("../../sql/postgres/set_tenant.sql");
pub(super) const LIST: &str = include_str!("../../sql/postgres/tenant_key_list.sql");
pub(super) const PUT: &str = include_str!("../../sql/postgres/tenant_key_put.sql");
const MASTERS: &str = include_str!("../../sql/postgres/tenant_key_masters.sql");
const BEHIND: &str = include_str!("../../sql/postgres/tenant_key_behind.sql");
const REWRAP: &str = include_str!("../../sql/postgres/tenant_key_rewrap.sql");
const SHRED: &str = include_str!("../../sql/postgres/tenant_key_shred.sql");

/// How often a new key is tried. Each further try means that another node added one in between.
const TRIES: usize = 8;

/// Refuses a database whose bodies could not be read, before anything is.
pub(super) async fn check(reader: &Reader, vault: Option<&Vault>) -> Result<(), Error> {
    let rows = reader
        .as_janitor("looking for tenants' keys", MASTERS, &[])
        .await?;
    let masters: Vec<String> = rows
        .iter()
        .map(|row| get(row, 0))
        .collect::<Result<_, _>>()?;
    vault::check(vault, &masters)
}

impl PgLedger {
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
        rows: impl Iterator<Item = &'r Stored>,
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
            if wanted.is_empty() || has(rings.get(tenant)) {
                continue;
            }
            let ring = match vault.fresh(tenant) {
                Some(ring) if has(Some(&ring)) => Some(ring),
                Some(_) | None => self.read_again(vault, tenant).await?,
            };
            if let Some(ring) = ring {
                rings.insert(tenant, ring);
            }
        }
        Ok(rings)
    }

    /// One tenant's keys to read with, among them these if there are such.
    pub(super) async fn ring_with(
        &self,
        tenant: Tenant,
        wanted: &[Uuid],
    ) -> Result<Option<Arc<Ring>>, Error> {
        let tenant = tenant.as_uuid();
        let Some(vault) = &self.vault else {
            return Ok(None);
        };
        match vault.fresh(tenant) {
            Some(ring) if wanted.iter().all(|id| ring.has(*id)) => Ok(Some(ring)),
            Some(_) | None => self.read_again(vault, tenant).await,
        }
    }

    async fn make_ring(&self, vault: &Vault, tenant: Uuid) -> Result<Arc<Ring>, Error> {
        if let Some(ring) = self.read_again(vault, tenant).await? {
            return Ok(ring);
        }
        // Whoever is first, all nodes read what is committed.
        self.put(&vault.mint(tenant, None)?).await?;
        self.read_again(vault, tenant)
            .await?
            .ok_or_else(|| Error::new(Kind::Unavailable, "making a tenant's key"))
    }

    /// Reads the tenant's keys and remembers them. If they cannot be unwrapped, those known before still serve.
    async fn read_again(&self, vault: &Vault, tenant: Uuid) -> Result<Option<Arc<Ring>>, Error> {
        vault.refresh(tenant, self.list(tenant).await)
    }

    async fn list(&self, tenant: Uuid) -> Result<Vec<Wrapped>, Error> {
        let rows = self
            .reader
            .scoped(
                "reading a tenant's keys",
                SET_TENANT,
                &tenant,
                LIST,
                &[&tenant],
            )
            .await?;
        rows.iter().map(wrapped).collect()
    }

    /// Whether the key was added; not if the tenant has one of that number.
    async fn put(&self, key: &Wrapped) -> Result<bool, Error> {
        let added = self
            .reader
            .scoped_write(
                "adding a tenant's key",
                SET_TENANT,
                &key.tenant,
                PUT,
                &params(key),
            )
            .await?;
        Ok(!added.is_empty())
    }
}

impl TenantKeys for PgLedger {
    fn sealing_keys(&self, tenant: Tenant) -> Answer<'_, Keys> {
        Box::pin(async move {
            let rings = self.sealing(std::iter::once(tenant)).await?;
            Ok(Keys::of(rings.into_one(tenant.as_uuid())))
        })
    }

    fn opening_keys(&self, tenant: Tenant, wanted: Vec<Uuid>) -> Answer<'_, Keys> {
        Box::pin(async move { Ok(Keys::of(self.ring_with(tenant, &wanted).await?)) })
    }

    fn rotate(&self) -> Answer<'_, usize> {
        Box::pin(async move {
            let operation = "rotating tenants' keys";
            let Some(vault) = &self.vault else {
                return Err(vault::absent(operation));
            };
            let limit = i64::try_from(ROTATED_MAX).unwrap_or(i64::MAX);
            let master = vault.master_id();
            for _ in 0..TRIES {
                let rows = self
                    .reader
                    .as_janitor(operation, BEHIND, &[&master, &limit])
                    .await?;
                let old: Vec<Wrapped> = rows.iter().map(wrapped).collect::<Result<_, _>>()?;
                let new = old.iter().map(|key| Ok(vault.rewrap(key)?.bytes));
                let new: Vec<Vec<u8>> = new.collect::<Result<_, Error>>()?;
                let tenants: Vec<Uuid> = old.iter().map(|key| key.tenant).collect();
                let numbers: Vec<i64> = old.iter().map(|key| key.number).collect();
                let ids: Vec<Uuid> = old.iter().map(|key| key.key_id).collect();
                let masters: Vec<&str> = old.iter().map(|key| key.kek_id.as_str()).collect();
                let params: [Param<'_>; 6] = [&tenants, &numbers, &ids, &masters, &master, &new];
                let changed = self.reader.as_janitor(operation, REWRAP, &params).await?;
                if old.is_empty() || !changed.is_empty() {
                    return Ok(changed.len());
                }
            }
            Err(Error::new(Kind::Unavailable, operation).because("others rotate them as well"))
        })
    }

    fn renew_key(&self, tenant: Tenant) -> Answer<'_, Uuid> {
        Box::pin(async move {
            let operation = "renewing a tenant's key";
            let Some(vault) = &self.vault else {
                return Err(vault::absent(operation));
            };
            let tenant = tenant.as_uuid();
            for _ in 0..TRIES {
                let ring = vault.ring(&self.list(tenant).await?)?;
                let minted = vault.mint(tenant, ring.as_ref())?;
                if self.put(&minted).await? {
                    vault.keep(tenant, &self.list(tenant).await?)?;
                    return Ok(minted.key_id);
                }
            }
            Err(Error::new(Kind::Unavailable, operation)
                .because("other nodes renew it all the time"))
        })
    }

    fn shred(&self, tenant: Tenant) -> Answer<'_, usize> {
        Box::pin(async move {
            let tenant = tenant.as_uuid();
            let deleted = self
                .reader
                .as_janitor("deleting a tenant's keys", SHRED, &[&tenant])
                .await?;
            if let Some(vault) = &self.vault {
                vault.forget(tenant);
            }
            Ok(deleted.len())
        })
    }
}

/// The parameters of `tenant_key_put.sql`.
pub(super) fn params(key: &Wrapped) -> [Param<'_>; 5] {
    [
        &key.tenant,
        &key.number,
        &key.key_id,
        &key.kek_id,
        &key.bytes,
    ]
}

/// A row of `tenant_key_list.sql` or `tenant_key_behind.sql`.
pub(super) fn wrapped(row: &Row) -> Result<Wrapped, Error> {
    Ok(Wrapped {
        tenant: get(row, 0)?,
        number: get(row, 1)?,
        key_id: get(row, 2)?,
        kek_id: get(row, 3)?,
        bytes: get(row, 4)?,
    })
}
