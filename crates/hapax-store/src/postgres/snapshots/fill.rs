//! Filling in the hashes of rows from before hashes. Who looks for them sees no content; they are filled tenant by
//! tenant.

use std::collections::HashSet;

use hapax_core::snapshot::{Filled, Hasher, Shelf};
use hapax_core::{Error, Fingerprint, Kind, Tenant};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::get;
use super::super::jobs::BEGIN;
use super::super::jobs::link::{Failure, Link, Order, Tries};
use super::super::reader::SET_TENANT;
use super::rows::{self, get_hash};
use super::writes::{Aliases, Hashes};
use crate::snapshot::{DUPLICATE, FILLED_AT_ONCE, FILLED_MAX, THERE, UNREADABLE, signed};

const UNHASHED: &str = include_str!("../../../sql/postgres/snapshot_unhashed.sql");
const LOCK: &str = include_str!("../../../sql/postgres/snapshot_unhashed_lock.sql");
const TAKEN: &str = include_str!("../../../sql/postgres/snapshot_taken.sql");

const OPERATION: &str = "filling in hashes";

/// A row without a hash, and the one it could get.
struct Found {
    id: Uuid,
    hash: Option<(Fingerprint, Vec<(String, String)>)>,
}

impl PgLedger {
    pub(super) async fn fill(&self, hasher: Hasher<'_>, limit: usize) -> Result<Filled, Error> {
        let limit = signed(limit.min(FILLED_MAX));
        let rows = self
            .reader
            .as_janitor(OPERATION, UNHASHED, &[&limit])
            .await?;
        let mut shelves: Vec<(Shelf, Vec<Uuid>)> = Vec::new();
        for row in &rows {
            let tenant = Tenant::from_uuid(get(row, 0)?);
            let (collection, id) = (get::<&str>(row, 1)?, get(row, 2)?);
            match shelves.last_mut() {
                Some((on, ids))
                    if on.tenant == tenant
                        && *on.collection == *collection
                        && ids.len() < FILLED_AT_ONCE =>
                {
                    ids.push(id);
                }
                _ => {
                    let collection = collection.into();
                    shelves.push((Shelf { tenant, collection }, vec![id]));
                }
            }
        }
        let mut filled = Filled::default();
        for (on, ids) in &shelves {
            let step = self.fill_shelf(on, ids, hasher).await?;
            filled.filled += step.filled;
            filled.duplicates += step.duplicates;
            filled.unreadable += step.unreadable;
        }
        Ok(filled)
    }

    async fn fill_shelf(
        &self,
        on: &Shelf,
        ids: &Vec<Uuid>,
        hasher: Hasher<'_>,
    ) -> Result<Filled, Error> {
        let mut tries = Tries::default();
        loop {
            let mut lent = self.jobs.pool.lend(OPERATION).await?;
            match self.fill_on(&mut lent.link, on, ids, hasher).await {
                Ok(filled) => {
                    lent.back();
                    return Ok(filled);
                }
                Err(failure) => tries.after(failure, lent).await?,
            }
        }
    }

    /// One try.
    async fn fill_on(
        &self,
        link: &mut Link,
        on: &Shelf,
        ids: &Vec<Uuid>,
        hasher: Hasher<'_>,
    ) -> Result<Filled, Failure> {
        let (tenant, collection) = (on.tenant.as_uuid(), &*on.collection);
        let orders = vec![
            Order::Command(BEGIN),
            Order::Query(SET_TENANT, vec![&tenant]),
            Order::Query(LOCK, vec![&tenant, &collection, ids]),
        ];
        let answers = link.look(orders).await?;
        let old = answers.last().map_or(&[][..], Vec::as_slice);
        let found = match self.hashed(on, old, hasher).await {
            Ok(found) => found,
            Err(error) => return Err(link.give_up(error).await),
        };
        let known = found.iter().filter_map(|one| one.hash.as_ref());
        let known: Vec<&[u8]> = known.map(|(hash, _)| &hash.as_bytes()[..]).collect();
        let orders = vec![Order::Query(TAKEN, vec![&tenant, &collection, &known])];
        let answers = link.look(orders).await?;
        let taken = answers.iter().flatten().map(|row| get_hash(row, 0));
        let taken: HashSet<Fingerprint> = match taken.collect::<Result<Vec<_>, _>>() {
            Ok(taken) => taken.into_iter().flatten().collect(),
            Err(error) => return Err(link.give_up(error).await),
        };
        let (filled, given, aliases) = decide(&found, taken);
        let orders = given.order(&tenant).into_iter();
        let orders: Vec<Order<'_>> = orders.chain(aliases.order(&tenant)).collect();
        let writes = !orders.is_empty();
        link.finish(orders, writes).await?;
        Ok(filled)
    }

    /// The rows and the hashes they could get.
    async fn hashed(
        &self,
        on: &Shelf,
        old: &[Row],
        hasher: Hasher<'_>,
    ) -> Result<Vec<Found>, Error> {
        let columns = old.iter().map(|row| get::<&str>(row, 1));
        let columns: Vec<&str> = columns.collect::<Result<_, _>>()?;
        let wanted = rows::wanted(columns.into_iter());
        let ring = self.ring_with(on.tenant, &wanted).await?;
        let mut found = Vec::with_capacity(old.len());
        for row in old {
            let id = get(row, 0)?;
            let hash = match rows::open(ring.as_deref(), on.tenant, id, get(row, 1)?) {
                Ok(payload) => hasher(on, &payload),
                Err(error) if error.kind() == Kind::Corrupt => None,
                Err(error) => return Err(error),
            };
            found.push(Found { id, hash });
            // Hashing a large payload takes a while; others go on in between.
            tokio::task::yield_now().await;
        }
        Ok(found)
    }
}

/// What the rows get, oldest first: of equal payloads the first gets the hash, unless it is taken.
fn decide(found: &[Found], mut taken: HashSet<Fingerprint>) -> (Filled, Hashes<'_>, Aliases<'_>) {
    let (mut filled, mut given, mut aliases) =
        (Filled::default(), Hashes::default(), Aliases::default());
    for Found { id, hash } in found {
        match hash {
            Some((hash, called)) if taken.insert(*hash) => {
                given.add(*id, Some(hash.as_bytes()), THERE);
                aliases.add(*id, called);
                filled.filled += 1;
            }
            Some(_) => {
                given.add(*id, None, DUPLICATE);
                filled.duplicates += 1;
            }
            None => {
                given.add(*id, None, UNREADABLE);
                filled.unreadable += 1;
            }
        }
    }
    (filled, given, aliases)
}
