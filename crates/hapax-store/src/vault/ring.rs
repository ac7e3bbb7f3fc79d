//! The keys of one tenant: every data key it ever had, newest last, and the one key of its fingerprints.
//! Where they are stored is not its business.

use std::fmt;

use aws_lc_rs::{aead, hmac};
use hapax_core::{Error, Kind};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::cipher::Cipher;
use super::master::MasterKey;
use crate::codec::TAG_SEALED;

const KEY_BYTES: usize = 32;
/// Before the nonce: the tag byte and the id of the key.
const HEAD_BYTES: usize = 1 + 16;
/// Why a sealed value was not opened, for logs.
const INVALID: &str = "ciphertext_invalid";

/// A tenant's key as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wrapped {
    pub(crate) tenant: Uuid,
    /// Counts a tenant's keys from 1; unique, so that of two nodes that add one only one can.
    pub(crate) number: i64,
    pub(crate) key_id: Uuid,
    /// The master key that wraps it.
    pub(crate) kek_id: String,
    pub(crate) bytes: Vec<u8>,
}

/// The keys of one tenant.
pub(crate) struct Ring {
    keys: Vec<TenantKey>,
    /// Whether nothing of the tenant is stored plain, so that what is was not written by hapax.
    is_sealed: bool,
}

/// What a wrapped key says when it is unwrapped.
pub(super) struct Unwrapped {
    pub(super) secret: Zeroizing<Vec<u8>>,
    /// Whether it was wrapped for a tenant of whom nothing is stored plain.
    pub(super) is_sealed: bool,
}

struct TenantKey {
    id: Uuid,
    number: i64,
    cipher: Cipher,
    fingerprint: hmac::Key,
    /// Both keys, to be wrapped again with the next data key.
    secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<Uuid> = self.keys.iter().map(|key| key.id).collect();
        f.debug_struct("Ring")
            .field("keys", &ids)
            .field("is_sealed", &self.is_sealed)
            .finish()
    }
}

impl Ring {
    /// The ring of a tenant who has no keys: it opens nothing, and nothing of the tenant can have been stored plain.
    pub(super) fn bare() -> Self {
        Self {
            keys: Vec::new(),
            is_sealed: true,
        }
    }

    /// The ring of these keys, in the order of their numbers. None if there are none.
    pub(super) fn of(secrets: Vec<(Uuid, i64, Unwrapped)>) -> Result<Option<Self>, Error> {
        let mut keys = Vec::with_capacity(secrets.len());
        let is_sealed = secrets.iter().any(|(_, _, key)| key.is_sealed);
        for (id, number, Unwrapped { secret, .. }) in secrets {
            let damaged = || {
                Error::new(Kind::Corrupt, "reading a tenant's key")
                    .because(format!("key {id} is not two keys of 32 bytes"))
            };
            if secret.len() != 2 * KEY_BYTES {
                return Err(damaged());
            }
            let (data, fingerprint) = secret.split_at(KEY_BYTES);
            keys.push(TenantKey {
                id,
                number,
                cipher: Cipher::new(data).ok_or_else(damaged)?,
                fingerprint: hmac::Key::new(hmac::HMAC_SHA256, fingerprint),
                secret,
            });
        }
        keys.sort_by_key(|key| key.number);
        Ok((!keys.is_empty()).then_some(Self { keys, is_sealed }))
    }

    /// Whether nothing of the tenant is stored plain.
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// A new data key after those of `ring`, wrapped by `master`. The fingerprints' key stays the first one's.
    pub(super) fn mint(
        tenant: Uuid,
        ring: Option<&Ring>,
        master: &MasterKey,
        is_sealed: bool,
    ) -> Result<Wrapped, Error> {
        let failed =
            || Error::new(Kind::Unavailable, "making a tenant's key").because("no randomness");
        let mut secret = Zeroizing::new(vec![0; 2 * KEY_BYTES]);
        aws_lc_rs::rand::fill(&mut secret).map_err(|_| failed())?;
        if let Some(first) = ring.and_then(|ring| ring.keys.first()) {
            secret[KEY_BYTES..].copy_from_slice(&first.secret[KEY_BYTES..]);
        }
        let place = Place {
            tenant,
            number: ring.and_then(Ring::newest).map_or(0, |key| key.number) + 1,
            key_id: Uuid::new_v4(),
        };
        wrap(place, &Unwrapped { secret, is_sealed }, master)
    }

    /// Whether it has the key with this id.
    pub(crate) fn has(&self, id: Uuid) -> bool {
        self.keys.iter().any(|key| key.id == id)
    }

    /// The id of the key that seals.
    #[cfg(test)]
    pub(crate) fn newest_id(&self) -> Option<Uuid> {
        self.newest().map(|key| key.id)
    }

    /// `plain` as a sealed value: tag, key id, nonce, ciphertext.
    pub(super) fn seal(&self, aad: &[u8], plain: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = || Error::new(Kind::Unavailable, "sealing a body");
        let key = self.newest().ok_or_else(failed)?;
        let mut head = [TAG_SEALED; HEAD_BYTES];
        head[1..].copy_from_slice(key.id.as_bytes());
        key.cipher
            .seal(&head, aead::Aad::from(aad), plain)
            .ok_or_else(failed)
    }

    /// A hash of `asked` that only this tenant's keys can make. It outlives every data key.
    pub(super) fn fingerprint(&self, record: Uuid, asked: &[u8; 32]) -> Option<Vec<u8>> {
        let key = self.keys.first()?;
        let mut context = hmac::Context::with_key(&key.fingerprint);
        context.update(record.as_bytes());
        context.update(asked);
        Some(context.sign().as_ref().to_vec())
    }

    /// A key for one use outside of the database, made of the one that outlives every data key.
    #[cfg(feature = "redis")]
    pub(crate) fn derived(&self, what: &[u8]) -> Option<hmac::Key> {
        let first = self.keys.first()?;
        let derived = hmac::sign(&first.fingerprint, what);
        Some(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    fn newest(&self) -> Option<&TenantKey> {
        self.keys.last()
    }
}

/// Opens a sealed value in place and says where the plain bytes are.
pub(super) fn open(
    ring: Option<&Ring>,
    aad: &[u8],
    sealed: &mut [u8],
) -> Result<std::ops::Range<usize>, Error> {
    let id = key_id(sealed).ok_or_else(|| invalid("it is cut short"))?;
    let key = ring.and_then(|ring| ring.keys.iter().find(|key| key.id == id));
    let Some(key) = key else {
        return Err(invalid(&format!(
            "tenant key {id} is missing: it was deleted, is another tenant's, or HAPAX_KEK is not set"
        )));
    };
    key.cipher
        .open(HEAD_BYTES, aead::Aad::from(aad), sealed)
        .ok_or_else(|| invalid("it was changed, or belongs to another row, column or tenant"))
}

/// The error of a value that cannot be what was sealed.
pub(super) fn invalid(why: &str) -> Error {
    Error::new(Kind::Corrupt, "opening a sealed value").because(format!("{INVALID}: {why}"))
}

/// The error of a value that is stored plain although everything of its tenant is sealed. It is counted.
pub(super) fn unsealed(tenant: Uuid, column: &str) -> Error {
    metrics::counter!("hapax_vault_unsealed_total").increment(1);
    invalid(&format!(
        "{column} is not sealed, and everything of tenant {tenant} is; something else than hapax wrote it. If it is from \
         before HAPAX_KEK was set, `hapax vault renew --tenant {tenant}` seals it"
    ))
}

/// The key that a value is sealed under, if it is sealed.
pub(super) fn key_id(value: &[u8]) -> Option<Uuid> {
    let (tag, rest) = value.split_first()?;
    let id = rest.first_chunk::<16>().filter(|_| *tag == TAG_SEALED)?;
    Some(Uuid::from_bytes(*id))
}

/// Whose key it is, and which of them.
#[derive(Clone, Copy)]
pub(super) struct Place {
    tenant: Uuid,
    number: i64,
    key_id: Uuid,
}

impl Place {
    pub(super) fn of(stored: &Wrapped) -> Self {
        Self {
            tenant: stored.tenant,
            number: stored.number,
            key_id: stored.key_id,
        }
    }

    /// The bytes that a key is bound to: its place, and whether everything of its tenant is sealed. Whoever would have that
    /// forgotten must forge the key itself.
    fn context(self, is_sealed: bool) -> Vec<u8> {
        let parts: [&[u8]; 4] = [
            if is_sealed {
                b"hapax tenant key 1, all is sealed"
            } else {
                b"hapax tenant key 1"
            },
            self.tenant.as_bytes(),
            &self.number.to_be_bytes(),
            self.key_id.as_bytes(),
        ];
        parts.concat()
    }
}

/// The two keys under `master`, for this tenant and this place among its keys only.
pub(super) fn wrap(place: Place, key: &Unwrapped, master: &MasterKey) -> Result<Wrapped, Error> {
    let wrapped = master.wrap(&place.context(key.is_sealed), &key.secret);
    Ok(Wrapped {
        tenant: place.tenant,
        number: place.number,
        key_id: place.key_id,
        kek_id: master.id().to_owned(),
        bytes: wrapped.ok_or_else(|| Error::new(Kind::Unavailable, "wrapping a tenant's key"))?,
    })
}

/// The two keys, if `master` wrapped them for this tenant and place.
pub(super) fn unwrap(stored: &Wrapped, master: &MasterKey) -> Result<Unwrapped, Error> {
    let place = Place::of(stored);
    let opened = [true, false].into_iter().find_map(|is_sealed| {
        let secret = master.unwrap(&place.context(is_sealed), &stored.bytes)?;
        Some(Unwrapped { secret, is_sealed })
    });
    opened.ok_or_else(|| {
        let why = format!(
            "{INVALID}: tenant key {} was changed, or belongs to another tenant",
            stored.key_id
        );
        Error::new(Kind::Corrupt, "reading a tenant's key").because(why)
    })
}
