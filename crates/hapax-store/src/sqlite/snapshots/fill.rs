//! Filling in the hashes of rows from before hashes: read by a reader, hashed here, written by the writer.

use std::sync::Arc;

use hapax_core::snapshot::{Filled, Hasher, Shelf};
use hapax_core::{Error, Fingerprint, Kind, Tenant};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::super::SqliteLedger;
use super::super::fault::Fault;
use super::super::jobs::keys::Keys;
use super::super::queue::Effect;
use super::puts::{FILL, put_aliases};
use super::rows::{open, tenant_bytes};
use crate::snapshot::{DUPLICATE, FILLED_AT_ONCE, FILLED_MAX, THERE, UNREADABLE, signed};
use crate::vault::Vault;

pub(super) const UNHASHED: &str = include_str!("../../../sql/sqlite/snapshot_unhashed.sql");
pub(super) const TAKEN: &str = include_str!("../../../sql/sqlite/snapshot_taken.sql");

/// A row without a hash; no payload if it cannot be opened.
struct Old {
    seq: i64,
    shelf: Shelf,
    payload: Option<Arc<str>>,
}

/// What a row gets.
struct Found {
    seq: i64,
    shelf: Shelf,
    hash: Option<(Fingerprint, Vec<(String, String)>)>,
}

impl SqliteLedger {
    pub(super) async fn fill(&self, hasher: Hasher<'_>, limit: usize) -> Result<Filled, Error> {
        let mut filled = Filled::default();
        let mut left = limit.min(FILLED_MAX);
        while left > 0 {
            let (vault, ask) = (self.vault.clone(), left.min(FILLED_AT_ONCE));
            let read = self.read(move |connection| unhashed(connection, vault.as_ref(), ask));
            let old = read.await?;
            if old.is_empty() {
                break;
            }
            left -= old.len();
            let mut found = Vec::with_capacity(old.len());
            for Old {
                seq,
                shelf,
                payload,
            } in old
            {
                let hash = payload.and_then(|payload| hasher(&shelf, &payload));
                found.push(Found { seq, shelf, hash });
                // Hashing a large payload takes a while; others go on in between.
                tokio::task::yield_now().await;
            }
            let step = self
                .write(found.len(), 0, move |connection| write(connection, &found))
                .await?;
            filled.filled += step.filled;
            filled.duplicates += step.duplicates;
            filled.unreadable += step.unreadable;
        }
        Ok(filled)
    }
}

fn unhashed(
    connection: &Connection,
    vault: Option<&Arc<Vault>>,
    limit: usize,
) -> Result<Vec<Old>, Fault> {
    let seen = connection.unchecked_transaction()?;
    let mut statement = seen.prepare_cached(UNHASHED)?;
    let read = |row: &Row<'_>| -> Result<Old, Fault> {
        let tenant = Tenant::from_uuid(Uuid::from_bytes(row.get(1)?));
        let collection: String = row.get(2)?;
        let keys = Keys::reading(&seen, vault.cloned(), tenant)?;
        let payload = open(&seen, &keys, Uuid::from_bytes(row.get(3)?), row.get(4)?);
        let payload = match payload {
            Ok(payload) => Some(payload),
            Err(Fault::Own(error)) if error.kind() == Kind::Corrupt => None,
            Err(fault) => return Err(fault),
        };
        let collection = collection.into();
        Ok(Old {
            seq: row.get(0)?,
            shelf: Shelf { tenant, collection },
            payload,
        })
    };
    statement.query_and_then([signed(limit)], read)?.collect()
}

/// Writes what the rows get; of equal payloads the first gets the hash.
fn write(connection: &Connection, found: &[Found]) -> Result<(Filled, Effect), Fault> {
    let mut filled = Filled::default();
    for Found { seq, shelf, hash } in found {
        let (hash, state) = match hash {
            None => (None, UNREADABLE),
            Some((hash, _)) if is_taken(connection, shelf, hash)? => (None, DUPLICATE),
            Some(found) => (Some(found), THERE),
        };
        let bytes = hash.map(|(hash, _)| hash.as_bytes());
        let mut fill = connection.prepare_cached(FILL)?;
        if fill.execute(params![seq, bytes, state])? == 0 {
            // Somebody else has filled it in meanwhile.
            continue;
        }
        match hash {
            Some((_, aliases)) => {
                put_aliases(connection, shelf, *seq, aliases)?;
                filled.filled += 1;
            }
            None if state == DUPLICATE => filled.duplicates += 1,
            None => filled.unreadable += 1,
        }
    }
    let wrote = filled != Filled::default();
    Ok((filled, Effect { wrote, purged: 0 }))
}

fn is_taken(connection: &Connection, shelf: &Shelf, hash: &Fingerprint) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(TAKEN)?;
    let tenant = tenant_bytes(shelf.tenant);
    let params = params![tenant, &*shelf.collection, hash.as_bytes()];
    let count: i64 = statement.query_row(params, |row| row.get(0))?;
    Ok(count > 0)
}
