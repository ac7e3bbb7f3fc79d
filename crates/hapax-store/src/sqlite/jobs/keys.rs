//! The keys of one tenant in one call, for the texts of its jobs, operations and snapshots. Without a vault nothing is sealed.

use std::sync::Arc;

use hapax_core::{Error, Tenant};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::super::fault::Fault;
use super::super::tenant_keys;
use crate::vault::{Ring, Rings, Seal, Vault, wanted_text};

/// The keys of one tenant.
#[derive(Clone)]
pub(in super::super) struct Keys {
    pub(in super::super) tenant: Tenant,
    vault: Option<Arc<Vault>>,
    ring: Option<Arc<Ring>>,
}

/// Where a text is kept. One that is sealed for one place opens nowhere else.
#[derive(Clone, Copy)]
pub(in super::super) struct Spot<'a> {
    /// `job`, `op` or `snapshot`.
    pub(in super::super) table: &'static str,
    /// The id of the job or snapshot, or the key of the operation.
    pub(in super::super) id: &'a str,
    pub(in super::super) column: &'static str,
}

impl Keys {
    /// The keys that a writer was given before it began.
    pub(in super::super) fn writing(
        vault: Option<Arc<Vault>>,
        rings: Rings,
        tenant: Tenant,
    ) -> Self {
        let ring = rings.into_one(tenant.as_uuid());
        Self {
            tenant,
            vault,
            ring,
        }
    }

    /// The keys that a reader finds. `connection` sees only what is committed.
    pub(in super::super) fn reading(
        connection: &Connection,
        vault: Option<Arc<Vault>>,
        tenant: Tenant,
    ) -> Result<Self, Fault> {
        let ring = match &vault {
            Some(vault) => Some(tenant_keys::known(connection, vault, tenant.as_uuid())?),
            None => None,
        };
        Ok(Self {
            tenant,
            vault,
            ring,
        })
    }

    /// The column value for a text.
    pub(in super::super) fn seal(&self, spot: Spot<'_>, text: &str) -> Result<String, Error> {
        spot.seal(self.ring.as_deref(), self.tenant)
            .text(spot.column, text)
    }

    /// The text behind a column value, sealed or not.
    pub(in super::super) fn open(
        &self,
        connection: &Connection,
        spot: Spot<'_>,
        value: String,
    ) -> Result<Arc<str>, Fault> {
        let has = |id| self.ring.as_ref().is_some_and(|ring| ring.has(id));
        let seen = match (&self.vault, wanted_text(&value)) {
            // Another process renewed the key a moment ago.
            (Some(vault), Some(id)) if !has(id) => {
                Some(tenant_keys::seen(connection, vault, self.tenant.as_uuid())?)
            }
            (Some(_) | None, _) => self.ring.clone(),
        };
        let seal = spot.seal(seen.as_deref(), self.tenant);
        Ok(seal.open_text(spot.column, value)?.into())
    }
}

impl Spot<'_> {
    fn seal<'r>(&self, ring: Option<&'r Ring>, tenant: Tenant) -> Seal<'r> {
        let mut hash = Sha256::new();
        hash.update(self.table);
        hash.update([0]);
        hash.update(self.id);
        let hash: [u8; 32] = hash.finalize().into();
        let mut row = [0; 16];
        row.copy_from_slice(&hash[..16]);
        Seal::new(ring, tenant.as_uuid(), Uuid::from_bytes(row))
    }
}
