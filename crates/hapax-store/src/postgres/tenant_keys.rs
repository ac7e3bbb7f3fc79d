//! The tenants' keys in PostgreSQL: read and added as the app, rotated and deleted as the janitor.
//! What they seal is the vault's business.

use std::sync::Arc;

use hapax_core::{Answer, Error, Kind, Tenant};
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgLedger;
use super::columns::{Param, get};
use super::reader::{READ, Reader};
use crate::row::Row as Stored;
use crate::vault::{self, Keys, ROTATED_MAX, Ring, Rings, TenantKeys, Vault, Wrapped};

const SET_TENANT: &str = include_str!("../../sql/postgres/set_tenant.sql");
pub(super) const LIST: &str = include_str!("../../sql/postgres/tenant_key_list.sql");
pub(super) const PUT: &str = include_str!("../../sql/postgres/tenant_key_put.sql");
const MASTERS: &str = include_str!("../../sql/postgres/tenant_key_masters.sql");
const BEHIND: &str = include_str!("../../sql/postgres/tenant_key_behind.sql");
const REWRAP: &str = include_str!("../../sql/postgres/tenant_key_rewrap.sql");
const PLAIN_TENANTS: &str = include_str!("../../sql/postgres/plain_tenants.sql");
const SHARED_SECRET: &str = include_str!("../../sql/postgres/shared_secret.sql");
const SHRED: &str = include_str!("../../sql/postgres/tenant_key_shred.sql");

/// How often a new key is tried. Each further try means that another node added one in between.
const TRIES: usize = 8;

/// Refuses a database whose bodies could not be read, before anything is. Where there are no keys yet, whoever has stored
/// something did so plain, and gets a key that says so.
pub(super) async fn check(reader: &Reader, vault: Option<&Vault>) -> Result<(), Error> {
    let rows = reader
        .as_janitor("looking for tenants' keys", MASTERS, &[])
        .await?;
    let masters: Vec<String> = rows
        .iter()
        .map(|row| get(row, 0))
        .collect::<Result<_, _>>()?;
    vault::check(vault, &masters)?;
    let Some(vault) = vault.filter(|_| masters.is_empty()) else {
        return Ok(());
    };
    let operation = "looking for tenants who stored something plain";
    for row in reader.as_janitor(operation, PLAIN_TENANTS, &[]).await? {
        let minted = vault.mint_beside_plain(get(&row, 0)?)?;
        add(reader, &minted).await?;
    }
    Ok(())
}

/// Whether the key was added; not if the tenant has one of that number.
async fn add(reader: &Reader, key: &Wrapped) -> Result<bool, Error> {
    let operation = "adding a tenant's key";
    let added = reader
        .scoped_write(operation, SET_TENANT, &key.tenant, PUT, &params(key))
        .await?;
    Ok(!added.is_empty())
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
            if has(rings.get(tenant)) {
                continue;
            }
            let ring = match vault.fresh(tenant) {
                Some(ring) if has(Some(&ring)) => ring,
                Some(_) | None => vault::to_read_with(self.read_again(vault, tenant).await?),
            };
            rings.insert(tenant, ring);
        }
        Ok(rings)
    }

    /// One tenant's keys to read with, among them these if there are such. None without a vault.
    pub(super) async fn ring_with(
        &self,
        tenant: Tenant,
        wanted: &[Uuid],
    ) -> Result<Option<Arc<Ring>>, Error> {
        let tenant = tenant.as_uuid();
        let Some(vault) = &self.vault else {
            return Ok(None);
        };
        let ring = match vault.fresh(tenant) {
            Some(ring) if wanted.iter().all(|id| ring.has(*id)) => ring,
            Some(_) | None => vault::to_read_with(self.read_again(vault, tenant).await?),
        };
        Ok(Some(ring))
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

    pub(super) async fn list(&self, tenant: Uuid) -> Result<Vec<Wrapped>, Error> {
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

    /// Gives the tenant a new key. Of one who has none something may be stored plain.
    pub(super) async fn renew(&self, tenant: Tenant) -> Result<Uuid, Error> {
        let operation = "renewing a tenant's key";
        let Some(vault) = &self.vault else {
            return Err(vault::absent(operation));
        };
        let tenant = tenant.as_uuid();
        for _ in 0..TRIES {
            let ring = vault.ring(&self.list(tenant).await?)?;
            let minted = match &ring {
                Some(_) => vault.mint(tenant, ring.as_ref())?,
                None => vault.mint_beside_plain(tenant)?,
            };
            if self.put(&minted).await? {
                vault.keep(tenant, &self.list(tenant).await?)?;
                return Ok(minted.key_id);
            }
        }
        Err(Error::new(Kind::Unavailable, operation).because("other nodes renew it all the time"))
    }

    /// Puts these wrapped forms in place of those that nobody changed meanwhile, under the current master key. Returns how
    /// many it replaced.
    pub(super) async fn replace(
        &self,
        operation: &'static str,
        old: &[Wrapped],
        new: &[Vec<u8>],
    ) -> Result<usize, Error> {
        let vault = self.vault.as_deref();
        let master = vault.ok_or_else(|| vault::absent(operation))?.master_id();
        let tenants: Vec<Uuid> = old.iter().map(|key| key.tenant).collect();
        let numbers: Vec<i64> = old.iter().map(|key| key.number).collect();
        let ids: Vec<Uuid> = old.iter().map(|key| key.key_id).collect();
        let before: Vec<&[u8]> = old.iter().map(|key| key.bytes.as_slice()).collect();
        let params: [Param<'_>; 6] = [&tenants, &numbers, &ids, &before, &master, &new];
        let changed = self.reader.as_janitor(operation, REWRAP, &params).await?;
        Ok(changed.len())
    }

    /// Whether the key was added; not if the tenant has one of that number.
    async fn put(&self, key: &Wrapped) -> Result<bool, Error> {
        add(&self.reader, key).await
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
                let changed = self.replace(operation, &old, &new).await?;
                if old.is_empty() || changed > 0 {
                    return Ok(changed);
                }
            }
            Err(Error::new(Kind::Unavailable, operation).because("others rotate them as well"))
        })
    }

    fn renew_key(&self, tenant: Tenant) -> Answer<'_, Uuid> {
        Box::pin(self.renew(tenant))
    }

    fn shared_secret(&self) -> Answer<'_, [u8; 32]> {
        Box::pin(async move {
            let operation = "reading the shared secret";
            let rows = self
                .reader
                .transaction(operation, READ, None, SHARED_SECRET, &[])
                .await?;
            let secret: Option<Vec<u8>> = rows.first().map(|row| get(row, 0)).transpose()?;
            secret
                .and_then(|secret| secret.try_into().ok())
                .ok_or_else(|| Error::new(Kind::Corrupt, operation))
        })
    }

    fn seal_all(&self, tenant: Tenant) -> Answer<'_, usize> {
        Box::pin(self.seal_everything(tenant))
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
