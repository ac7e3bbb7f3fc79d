//! One record's columns, sealed on the way in and opened on the way out. Without keys it seals nothing.
//! It knows which columns tell what was asked or answered, and runs no statement.

use bytes::Bytes;
use data_encoding::BASE64;
use hapax_core::{Error, Fingerprint};
use uuid::Uuid;

use super::ring::{self, Ring};
use crate::codec;
use crate::row::Row;

/// Before a text that is not as it was given: `=` follows if it is, else the sealed bytes in base64.
const MARK: char = '\u{2}';

/// The seal of one record: a value sealed for one record and column opens nowhere else.
#[derive(Clone, Copy)]
pub(crate) struct Seal<'a> {
    ring: Option<&'a Ring>,
    tenant: Uuid,
    record: Uuid,
}

impl<'a> Seal<'a> {
    /// The seal of this record under these keys; without keys what it makes is plain.
    pub(crate) fn new(ring: Option<&'a Ring>, tenant: Uuid, record: Uuid) -> Self {
        Self {
            ring,
            tenant,
            record,
        }
    }

    /// The column value for a body: packed, then sealed.
    pub(crate) fn body(&self, column: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
        let packed = codec::pack(body);
        match self.ring {
            Some(ring) => ring.seal(&self.aad(column), &packed),
            None => Ok(packed),
        }
    }

    /// The body behind a column value, sealed or not.
    pub(crate) fn open_body(&self, column: &str, mut value: Vec<u8>) -> Result<Bytes, Error> {
        if value.first() != Some(&codec::TAG_SEALED) {
            self.may_be_plain(column)?;
            return codec::unpack(&value.into());
        }
        let plain = ring::open(self.ring, &self.aad(column), &mut value)?;
        codec::unpack(&Bytes::from(value).slice(plain))
    }

    /// The column value for a text.
    pub(crate) fn text(&self, column: &str, text: &str) -> Result<String, Error> {
        match self.ring {
            // Nothing is left to hide, and it can still be read when the keys are gone.
            Some(_) if text.is_empty() => Ok(String::new()),
            Some(ring) => Ok(marked(&ring.seal(&self.aad(column), text.as_bytes())?)),
            None if text.starts_with(MARK) => Ok(format!("{MARK}={text}")),
            None => Ok(text.to_owned()),
        }
    }

    /// The text behind a column value, sealed or not.
    pub(crate) fn open_text(&self, column: &str, value: String) -> Result<String, Error> {
        let sealed = sealed_text(&value);
        // Where nothing was said there is nothing to seal.
        if sealed.is_none() && !value.is_empty() {
            self.may_be_plain(column)?;
        }
        let Some(rest) = sealed else {
            let marked = value.strip_prefix(MARK);
            return Ok(match marked.and_then(|rest| rest.strip_prefix('=')) {
                Some(plain) => plain.to_owned(),
                None => value,
            });
        };
        let plain = self.opened(column, rest)?;
        String::from_utf8(plain).map_err(|_| ring::invalid("it is not text"))
    }

    /// The column value for headers: their JSON, or a JSON string of the sealed bytes.
    pub(crate) fn headers(&self, headers: &[(String, Bytes)]) -> Result<String, Error> {
        let plain = codec::pack_headers(headers);
        let Some(ring) = self.ring else {
            return Ok(plain);
        };
        let sealed = ring.seal(&self.aad("response_headers"), plain.as_bytes())?;
        Ok(format!("\"{}\"", BASE64.encode(&sealed)))
    }

    /// The headers behind a column value, sealed or not.
    pub(crate) fn open_headers(&self, value: &str) -> Result<Vec<(String, Bytes)>, Error> {
        let Some(sealed) = quoted(value) else {
            self.may_be_plain("response_headers")?;
            return codec::unpack_headers(value);
        };
        let plain = self.opened("response_headers", sealed)?;
        let plain = String::from_utf8(plain).map_err(|_| ring::invalid("it is not text"))?;
        codec::unpack_headers(&plain)
    }

    /// The column values for the fingerprint and the shown part of it. Sealed, the first is a keyed hash, which
    /// nobody can compare a guess with, and the fingerprint itself lies sealed in the second.
    pub(crate) fn asked(
        &self,
        fingerprint: &Fingerprint,
        content_hash: &str,
    ) -> Result<(Vec<u8>, String), Error> {
        let bytes = fingerprint.as_bytes();
        // What was erased has no fingerprint. Its row must answer when the keys are gone.
        let is_erased = bytes.iter().all(|byte| *byte == 0);
        let hash = self
            .ring
            .filter(|_| !is_erased)
            .and_then(|ring| Some((ring, ring.fingerprint(self.record, bytes)?)));
        let Some((ring, hash)) = hash else {
            return Ok((bytes.to_vec(), self.text("content_hash", content_hash)?));
        };
        let both = [bytes, content_hash.as_bytes()].concat();
        let sealed = ring.seal(&self.aad("content_hash"), &both)?;
        Ok((hash, marked(&sealed)))
    }

    /// The fingerprint's bytes and the shown part behind the two column values, sealed or not. `binds` says whether a rule
    /// compares with them.
    pub(crate) fn open_asked(
        &self,
        stored: Vec<u8>,
        content_hash: String,
        binds: bool,
    ) -> Result<(Vec<u8>, String), Error> {
        let Some(sealed) = sealed_text(&content_hash) else {
            if binds {
                self.may_be_plain("content_hash")?;
            }
            // A swept row keeps its hash and nothing to open; no rule looks at it any more.
            return Ok((stored, self.open_text("content_hash", content_hash)?));
        };
        let both = self.opened("content_hash", sealed)?;
        let (fingerprint, shown) = both
            .split_first_chunk::<32>()
            .ok_or_else(|| ring::invalid("it is too short for a fingerprint"))?;
        let hash = self
            .ring
            .and_then(|ring| ring.fingerprint(self.record, fingerprint));
        if hash.as_ref() != Some(&stored) {
            return Err(ring::invalid("the fingerprint is not the sealed one"));
        }
        let shown =
            String::from_utf8(shown.to_vec()).map_err(|_| ring::invalid("it is not text"))?;
        Ok((fingerprint.to_vec(), shown))
    }

    /// Refuses a plain value of a tenant of whom nothing is stored plain.
    pub(crate) fn may_be_plain(&self, column: &str) -> Result<(), Error> {
        match self.ring {
            Some(ring) if ring.is_sealed() => Err(ring::unsealed(self.tenant, column)),
            Some(_) | None => Ok(()),
        }
    }

    fn opened(&self, column: &str, base64: &str) -> Result<Vec<u8>, Error> {
        let mut sealed = decoded(base64).ok_or_else(|| ring::invalid("it is not base64"))?;
        let plain = ring::open(self.ring, &self.aad(column), &mut sealed)?;
        sealed.truncate(plain.end);
        Ok(sealed.split_off(plain.start))
    }

    fn aad(&self, column: &str) -> Vec<u8> {
        let parts: [&[u8]; 3] = [
            self.tenant.as_bytes(),
            self.record.as_bytes(),
            column.as_bytes(),
        ];
        parts.concat()
    }
}

/// The keys that a row is sealed under.
pub(crate) fn wanted(row: &Row) -> Vec<Uuid> {
    let text = |text: &str| ring::key_id(&decoded(text)?);
    let mut ids: Vec<Uuid> = [
        row.request_body.as_deref().and_then(ring::key_id),
        row.response_body.as_deref().and_then(ring::key_id),
        row.response_headers
            .as_deref()
            .and_then(quoted)
            .and_then(text),
        sealed_text(&row.request_path).and_then(text),
        sealed_text(&row.content_hash).and_then(text),
    ]
    .into_iter()
    .flatten()
    .collect();
    ids.dedup();
    ids
}

/// The key that the column value of a text is sealed under, if it is sealed.
pub(crate) fn wanted_text(value: &str) -> Option<Uuid> {
    // The first 24 digits are 18 bytes: the tag, the key's id and one more.
    ring::key_id(&decoded(sealed_text(value)?.get(..24)?)?)
}

/// Whether the column value of a text tells it. An empty one has nothing to tell.
pub(crate) fn is_plain(value: &str) -> bool {
    !value.is_empty() && wanted_text(value).is_none()
}

fn marked(sealed: &[u8]) -> String {
    format!("{MARK}{}", BASE64.encode(sealed))
}

fn sealed_text(value: &str) -> Option<&str> {
    value
        .strip_prefix(MARK)
        .filter(|rest| !rest.starts_with('='))
}

fn quoted(value: &str) -> Option<&str> {
    value.trim().strip_prefix('"')?.strip_suffix('"')
}

fn decoded(base64: &str) -> Option<Vec<u8>> {
    BASE64.decode(base64.as_bytes()).ok()
}
