//! Encryption at rest: what was asked and answered is sealed under a key of its tenant, and that key is wrapped
//! by a master key which the database never sees. It stores nothing: the ledgers keep the wrapped keys.
//!
//! Where to read on: `master` wraps, `ring` is one tenant's keys, `seal` knows the columns of a record.

mod cipher;
mod master;
pub(crate) mod rewrite;
mod ring;
mod seal;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hapax_core::{Answer, Error, Kind, Tenant};
use uuid::Uuid;

pub use master::MasterKey;

use ring::Unwrapped;
pub(crate) use ring::{Ring, Wrapped};
pub(crate) use seal::{Seal, is_plain, wanted, wanted_text};

/// Keys are read again after this, so that what another node renewed or deleted is noticed.
const FRESH: Duration = Duration::from_secs(30);
/// The most tenants whose keys are kept unwrapped.
const RINGS_MAX: usize = 10_000;

/// The master keys, and the tenants' keys they unwrapped. Shared by every ledger of a process.
///
/// ```
/// use std::sync::Arc;
/// use hapax_store::vault::{MasterKey, Vault};
/// use hapax_store::{SqliteLedger, sqlite::SqliteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ledger.db");
/// let key = MasterKey::parse("q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=")?;
/// let vault = Some(Arc::new(Vault::new(key, Vec::new())));
/// let ledger = SqliteLedger::open(&path, SqliteOptions { vault, ..SqliteOptions::default() })?;
/// assert!(!format!("{ledger:?}").contains("q83v"), "no key is ever shown");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Vault {
    current: MasterKey,
    previous: Vec<MasterKey>,
    rings: RwLock<HashMap<Uuid, Kept>>,
}

/// A tenant's keys, and when they were last asked for.
#[derive(Debug)]
struct Kept {
    ring: Arc<Ring>,
    asked_at: Instant,
}

impl Vault {
    /// A vault that wraps with `current` and unwraps with any of the keys.
    #[must_use]
    pub fn new(current: MasterKey, previous: Vec<MasterKey>) -> Self {
        Self {
            current,
            previous,
            rings: RwLock::default(),
        }
    }

    /// The id of the key that wraps.
    #[must_use]
    pub fn master_id(&self) -> &str {
        self.current.id()
    }

    /// The tenant's keys, if they were read a moment ago. Of those who come later one is told to read them
    /// again, and the others go on with what is known.
    pub(crate) fn fresh(&self, tenant: Uuid) -> Option<Arc<Ring>> {
        {
            let rings = self.rings.read().unwrap_or_else(PoisonError::into_inner);
            let kept = rings.get(&tenant)?;
            if kept.asked_at.elapsed() < FRESH {
                return Some(kept.ring.clone());
            }
        }
        let mut rings = self.rings.write().unwrap_or_else(PoisonError::into_inner);
        let kept = rings.get_mut(&tenant)?;
        if kept.asked_at.elapsed() < FRESH {
            return Some(kept.ring.clone());
        }
        kept.asked_at = Instant::now();
        None
    }

    /// The keys in what was read now. If it could not be read, or not be unwrapped, those known before serve on.
    pub(crate) fn refresh(
        &self,
        tenant: Uuid,
        stored: Result<Vec<Wrapped>, Error>,
    ) -> Result<Option<Arc<Ring>>, Error> {
        stored
            .and_then(|stored| self.keep(tenant, &stored))
            .or_else(|error| {
                let rings = self.rings.read().unwrap_or_else(PoisonError::into_inner);
                let kept = rings.get(&tenant).ok_or_else(|| error.clone())?;
                tracing::warn!(%error, "a tenant's keys are used as they were");
                Ok(Some(kept.ring.clone()))
            })
    }

    /// Remembers what was read, which must be committed: a row sealed under a key that is gone is lost.
    pub(crate) fn keep(
        &self,
        tenant: Uuid,
        stored: &[Wrapped],
    ) -> Result<Option<Arc<Ring>>, Error> {
        let ring = self.ring(stored)?.map(Arc::new);
        let mut rings = self.rings.write().unwrap_or_else(PoisonError::into_inner);
        if rings.len() >= RINGS_MAX {
            rings.clear();
        }
        match &ring {
            Some(ring) => rings.insert(
                tenant,
                Kept {
                    ring: ring.clone(),
                    asked_at: Instant::now(),
                },
            ),
            None => rings.remove(&tenant),
        };
        Ok(ring)
    }

    /// Remembers nothing of the tenant.
    pub(crate) fn forget(&self, tenant: Uuid) {
        let mut rings = self.rings.write().unwrap_or_else(PoisonError::into_inner);
        rings.remove(&tenant);
    }

    /// The keys that these rows hold; none if there are no rows.
    pub(crate) fn ring(&self, stored: &[Wrapped]) -> Result<Option<Ring>, Error> {
        let secrets = stored.iter().map(|stored| {
            let key = ring::unwrap(stored, self.master(&stored.kek_id)?)?;
            Ok((stored.key_id, stored.number, key))
        });
        Ring::of(secrets.collect::<Result<_, Error>>()?)
    }

    /// A new key for the tenant, after those it has. Nothing is stored plain of a tenant who had none.
    pub(crate) fn mint(&self, tenant: Uuid, ring: Option<&Ring>) -> Result<Wrapped, Error> {
        let is_sealed = ring.is_none_or(Ring::is_sealed);
        Ring::mint(tenant, ring, &self.current, is_sealed)
    }

    /// The first key of a tenant of whom something may be stored plain, from before there was a vault.
    pub(crate) fn mint_beside_plain(&self, tenant: Uuid) -> Result<Wrapped, Error> {
        Ring::mint(tenant, None, &self.current, false)
    }

    /// The same key under the current master key.
    pub(crate) fn rewrap(&self, stored: &Wrapped) -> Result<Wrapped, Error> {
        let key = ring::unwrap(stored, self.master(&stored.kek_id)?)?;
        ring::wrap(ring::Place::of(stored), &key, &self.current)
    }

    /// The same key of a tenant of whom nothing is stored plain any more.
    pub(crate) fn seal_off(&self, stored: &Wrapped) -> Result<Wrapped, Error> {
        let key = ring::unwrap(stored, self.master(&stored.kek_id)?)?;
        let key = Unwrapped {
            is_sealed: true,
            ..key
        };
        ring::wrap(ring::Place::of(stored), &key, &self.current)
    }

    fn master(&self, id: &str) -> Result<&MasterKey, Error> {
        let mut all = std::iter::once(&self.current).chain(&self.previous);
        all.find(|key| key.id() == id)
            .ok_or_else(|| unknown_master(id))
    }
}

/// Refuses a database whose keys could not be read, before anything is: `masters` are the ids that wrap them.
pub(crate) fn check(vault: Option<&Vault>, masters: &[String]) -> Result<(), Error> {
    match (vault, masters.first()) {
        (None, Some(id)) => {
            let why = format!(
                "the database is encrypted under master key {id} and HAPAX_KEK is not set; set it, or its bodies \
                 cannot be read"
            );
            Err(Error::new(Kind::Unsafe, "opening the ledger").because(why))
        }
        (Some(vault), Some(_)) => masters.iter().try_for_each(|id| vault.master(id).map(drop)),
        (_, None) => Ok(()),
    }
}

/// The keys to read with where there is a vault: a tenant without any has nothing that may be plain.
pub(crate) fn to_read_with(ring: Option<Arc<Ring>>) -> Arc<Ring> {
    ring.unwrap_or_else(|| Arc::new(Ring::bare()))
}

/// The refusal of a ledger that was given no master key.
pub(crate) fn absent(operation: &'static str) -> Error {
    Error::new(Kind::Unsafe, operation).because("HAPAX_KEK is not set, so nothing is encrypted")
}

fn unknown_master(id: &str) -> Error {
    let why = format!(
        "a tenant's key is wrapped by master key {id}, which is neither HAPAX_KEK nor in HAPAX_KEK_PREVIOUS"
    );
    Error::new(Kind::Unsafe, "reading a tenant's key").because(why)
}

/// The keys of the tenants in one call, each found by its tenant.
#[derive(Clone, Default, Debug)]
pub(crate) struct Rings(HashMap<Uuid, Arc<Ring>>);

impl Rings {
    pub(crate) fn insert(&mut self, tenant: Uuid, ring: Arc<Ring>) {
        self.0.insert(tenant, ring);
    }

    pub(crate) fn get(&self, tenant: Uuid) -> Option<&Ring> {
        self.0.get(&tenant).map(Arc::as_ref)
    }

    pub(crate) fn into_one(mut self, tenant: Uuid) -> Option<Arc<Ring>> {
        self.0.remove(&tenant)
    }

    pub(crate) fn has(&self, tenant: Uuid) -> bool {
        self.0.contains_key(&tenant)
    }
}

/// A tenant's keys, for what is kept of it outside of its ledger. Nothing is sealed where there are none.
#[derive(Clone, Default, Debug)]
pub struct Keys(Option<Arc<Ring>>);

impl Keys {
    pub(crate) fn of(ring: Option<Arc<Ring>>) -> Self {
        Self(ring)
    }

    #[cfg_attr(
        not(feature = "redis"),
        allow(dead_code, reason = "only Redis keeps anything elsewhere")
    )]
    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.0.as_deref()
    }

    /// A key for one use outside of the database, if the tenant has keys.
    #[cfg(feature = "redis")]
    pub(crate) fn derived(&self, what: &[u8]) -> Option<aws_lc_rs::hmac::Key> {
        self.0.as_ref()?.derived(what)
    }

    /// Whether nothing of the tenant is stored plain.
    #[cfg(feature = "redis")]
    pub(crate) fn is_sealed(&self) -> bool {
        self.0.as_ref().is_some_and(|ring| ring.is_sealed())
    }
}

/// How many tenants' keys one step of a rotation wraps again, at most.
pub const ROTATED_MAX: usize = 500;

/// What an operator does with the keys of tenants. Every ledger that can encrypt offers it.
pub trait TenantKeys: Send + Sync {
    /// One bounded step of wrapping keys by the current master key again, at most [`ROTATED_MAX`] of them. Zero
    /// ends the rotation. Bodies are not touched; a step that was interrupted is taken up by the next.
    ///
    /// # Errors
    /// [`Kind::Unsafe`] without a vault, or when a key is wrapped by a master key that is not known.
    fn rotate(&self) -> Answer<'_, usize>;

    /// Gives the tenant a new data key and answers its id. New rows are sealed under it, at once here and within
    /// half a minute on other nodes; old rows stay readable.
    ///
    /// # Errors
    /// [`Kind::Unsafe`] without a vault.
    fn renew_key(&self, tenant: Tenant) -> Answer<'_, Uuid>;

    /// Seals what is stored plain of the tenant, and says how many rows it wrote. From then on a value that is not sealed is
    /// refused, at once here and within half a minute on other nodes. Where that is so already nothing is done.
    ///
    /// Everything that writes to the database has the vault by then. What was interrupted is begun again by the next call.
    ///
    /// # Errors
    /// [`Kind::Unsafe`] without a vault, those of the store, and [`Kind::Corrupt`] where something cannot be read.
    fn seal_all(&self, tenant: Tenant) -> Answer<'_, usize>;

    /// Deletes all keys of the tenant, and says how many there were: what was sealed under them is never
    /// readable again. Other nodes notice within half a minute.
    ///
    /// # Errors
    /// Those of the store.
    fn shred(&self, tenant: Tenant) -> Answer<'_, usize>;

    /// The keys to seal what is kept of a tenant elsewhere, made if there are none; none without a vault.
    ///
    /// # Errors
    /// Those of the store.
    fn sealing_keys(&self, tenant: Tenant) -> Answer<'_, Keys>;

    /// A secret that everything which uses this database knows, and nothing else: it marks what is kept elsewhere for tenants
    /// without keys of their own.
    ///
    /// # Errors
    /// Those of the store.
    fn shared_secret(&self) -> Answer<'_, [u8; 32]>;

    /// The keys to open what was sealed with these, as far as the tenant still has them.
    ///
    /// # Errors
    /// Those of the store.
    fn opening_keys(&self, tenant: Tenant, wanted: Vec<Uuid>) -> Answer<'_, Keys>;
}

#[cfg(test)]
mod tests;
