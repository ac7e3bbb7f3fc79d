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
        f.debug_struct("Ring").field("keys", &ids).finish()
    }
}

impl Ring {
    /// The ring of these keys, in the order of their numbers. None if there are none.
    pub(super) fn of(secrets: Vec<(Uuid, i64, Zeroizing<Vec<u8>>)>) -> Result<Option<Self>, Error> {
        let mut keys = Vec::with_capacity(secrets.len());
        for (id, number, secret) in secrets {
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
        Ok((!keys.is_empty()).then(|| Self { keys }))
    }

    /// A new data key after those of `ring`, wrapped by `master`. The fingerprints' key stays the first one's.
    pub(super) fn mint(
        tenant: Uuid,
        ring: Option<&Ring>,
        master: &MasterKey,
    ) -> Result<Wrapped, Error> {
        let failed =
            || Error::new(Kind::Unavailable, "making a tenant's key").because("no randomness");
        let mut secret = Zeroizing::new(vec![0; 2 * KEY_BYTES]);
        aws_lc_rs::rand::fill(&mut secret).map_err(|_| failed())?;
        if let Some(first) = ring.and_then(|ring| ring.keys.first()) {
            secret[KEY_BYTES..].copy_from_slice(&first.secret[KEY_BYTES..]);
        }
        let key_id = Uuid::new_v4();
        let number = ring.and_then(Ring::newest).map_or(0, |key| key.number) + 1;
        wrap(tenant, number, key_id, &secret, master)
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

/// The key that a value is sealed under, if it is sealed.
pub(super) fn key_id(value: &[u8]) -> Option<Uuid> {
    let (tag, rest) = value.split_first()?;
    let id = rest.first_chunk::<16>().filter(|_| *tag == TAG_SEALED)?;
    Some(Uuid::from_bytes(*id))
}

/// The two keys under `master`, for this tenant and this place among its keys only.
pub(super) fn wrap(
    tenant: Uuid,
    number: i64,
    key_id: Uuid,
    secret: &[u8],
    master: &MasterKey,
) -> Result<Wrapped, Error> {
    let wrapped = master.wrap(&context(tenant, number, key_id), secret);
    Ok(Wrapped {
        tenant,
        number,
        key_id,
        kek_id: master.id().to_owned(),
        bytes: wrapped.ok_or_else(|| Error::new(Kind::Unavailable, "wrapping a tenant's key"))?,
    })
}

/// The two keys, if `master` wrapped them for this tenant and place.
pub(super) fn unwrap(stored: &Wrapped, master: &MasterKey) -> Result<Zeroizing<Vec<u8>>, Error> {
    master
        .unwrap(
            &context(stored.tenant, stored.number, stored.key_id),
            &stored.bytes,
        )
        .ok_or_else(|| {
            let why = format!(
                "{INVALID}: tenant key {} was changed, or belongs to another tenant",
                stored.key_id
            );
            Error::new(Kind::Corrupt, "reading a tenant's key").because(why)
        })
}

fn context(tenant: Uuid, number: i64, key_id: Uuid) -> Vec<u8> {
    let parts: [&[u8]; 4] = [
        b"hapax tenant key 1",
        tenant.as_bytes(),
        &number.to_be_bytes(),
        key_id.as_bytes(),
    ];
    parts.concat()
}
