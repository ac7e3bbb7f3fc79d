//! Putting payloads: lock their entities, see what is there, write the rest. Two flights.

use std::sync::Arc;

use hapax_core::snapshot::{NewSnapshot, Put, Shelf};
use hapax_core::{Error, Kind};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PgLedger;
use super::super::columns::get;
use super::super::jobs::BEGIN;
use super::super::jobs::link::{Failure, Link, Order, Tries};
use super::super::pack::aside;
use super::super::reader::SET_TENANT;
use super::bench::Bench;
use super::rows::{self, get_hash, get_word};
use super::writes::Writes;

const LOCK: &str = include_str!("../../../sql/postgres/snapshot_lock.sql");
const THERE: &str = include_str!("../../../sql/postgres/snapshot_there.sql");
const OF_ID: &str = include_str!("../../../sql/postgres/snapshot_of_id.sql");

const OPERATION: &str = "putting snapshots";
/// How many locks the entities of a shelf share, so that a batch never needs more.
const LOCKS_MASK: u8 = 0x3f;

/// What is put, also in column form.
pub(super) struct Batch {
    pub(super) shelf: Shelf,
    pub(super) all: Vec<NewSnapshot>,
    /// The payloads, sealed.
    pub(super) columns: Vec<String>,
}

impl Batch {
    fn bytes(&self) -> usize {
        self.all.iter().map(|new| new.payload.len()).sum()
    }

    /// The locks of the entities, each once and in order, so that two batches never wait for each other.
    fn locks(&self) -> Vec<i64> {
        let mut place = Sha256::new();
        place.update(self.shelf.tenant.as_uuid().as_bytes());
        place.update(&*self.shelf.collection);
        let place: [u8; 32] = place.finalize().into();
        let lock = |new: &NewSnapshot| {
            let mut key = [0; 8];
            key.copy_from_slice(&place[..8]);
            let entity = Sha256::digest(&new.entity_id)[0];
            key[7] = (key[7] & !LOCKS_MASK) | (entity & LOCKS_MASK);
            i64::from_be_bytes(key)
        };
        let mut locks: Vec<i64> = self.all.iter().map(lock).collect();
        locks.sort_unstable();
        locks.dedup();
        locks
    }
}

impl PgLedger {
    pub(super) async fn put_payloads(
        &self,
        on: Shelf,
        snapshots: Vec<NewSnapshot>,
    ) -> Result<Vec<Put>, Error> {
        if snapshots.is_empty() {
            return Ok(Vec::new());
        }
        let ring = self.ring_of(on.tenant).await?;
        let bytes = snapshots.iter().map(|new| new.payload.len()).sum();
        let batch = aside(bytes, move || {
            let seal =
                |new: &NewSnapshot| rows::seal(ring.as_deref(), on.tenant, new.id, &new.payload);
            let columns = snapshots.iter().map(seal).collect::<Result<_, _>>()?;
            let all = snapshots;
            Ok::<_, Error>(Batch {
                shelf: on,
                all,
                columns,
            })
        });
        let batch = Arc::new(batch.await??);
        let mut tries = Tries::default();
        loop {
            let mut lent = self.jobs.pool.lend(OPERATION).await?;
            match self.put_on(&mut lent.link, &batch).await {
                Ok(answers) => {
                    lent.back();
                    return Ok(answers);
                }
                Err(failure) => tries.after(failure, lent).await?,
            }
        }
    }

    /// One try.
    async fn put_on(&self, link: &mut Link, batch: &Arc<Batch>) -> Result<Vec<Put>, Failure> {
        let judged = match self.see_there(link, batch).await? {
            Ok(mut bench) => {
                let shared = batch.clone();
                aside(batch.bytes(), move || {
                    let answers = bench.put_all(&shared.all);
                    (answers, bench)
                })
                .await
            }
            Err(error) => Err(error),
        };
        let (answers, bench) = match judged {
            Ok(judged) => judged,
            Err(error) => return Err(link.give_up(error).await),
        };
        let writes = Writes::of(&bench, batch, self.shift_ms());
        let orders = writes.orders();
        let is_written = !orders.is_empty();
        link.finish(orders, is_written).await?;
        Ok(answers)
    }

    /// The first flight: the entities, locked, and what is there under the hashes and ids.
    async fn see_there(
        &self,
        link: &mut Link,
        batch: &Batch,
    ) -> Result<Result<Bench, Error>, Failure> {
        let tenant = batch.shelf.tenant.as_uuid();
        let (collection, locks) = (&*batch.shelf.collection, batch.locks());
        let hashes = batch.all.iter().map(|new| &new.hash.as_bytes()[..]);
        let hashes: Vec<&[u8]> = hashes.collect();
        let ids: Vec<Uuid> = batch.all.iter().map(|new| new.id).collect();
        let orders = vec![
            Order::Command(BEGIN),
            Order::Query(SET_TENANT, vec![&tenant]),
            Order::Query(LOCK, vec![&locks]),
            // Each sees what was committed before it: the lock is had by now.
            Order::Query(THERE, vec![&tenant, &collection, &hashes]),
            Order::Query(OF_ID, vec![&tenant, &collection, &ids, &hashes]),
        ];
        let answers = link.look(orders).await?;
        let [_, _, _, there, of_id] = &answers[..] else {
            return Ok(Err(Error::new(Kind::Corrupt, OPERATION)));
        };
        Ok(self.bench(batch, there, of_id).await)
    }

    async fn bench(&self, batch: &Batch, there: &[Row], of_id: &[Row]) -> Result<Bench, Error> {
        let tenant = batch.shelf.tenant;
        let column = |row| get::<Option<&str>>(row, 2);
        let columns = there.iter().chain(of_id).map(column);
        let columns: Vec<Option<&str>> = columns.collect::<Result<_, _>>()?;
        let wanted = rows::wanted(columns.into_iter().flatten());
        let ring = self.ring_with(tenant, &wanted).await?;
        let mut bench = Bench::default();
        let stored = |bench: &mut Bench, row: &Row, payload: String, hash, current| {
            let id = get(row, 0)?;
            let payload = rows::open(ring.as_deref(), tenant, id, payload)?;
            bench.stored(id, get_word(row, 1)?, payload, hash, current);
            Ok::<_, Error>(())
        };
        for row in there {
            stored(
                &mut bench,
                row,
                get(row, 2)?,
                get_hash(row, 3)?,
                get(row, 4)?,
            )?;
        }
        for row in of_id {
            match get::<Option<String>>(row, 2)? {
                Some(payload) => stored(&mut bench, row, payload, None, get(row, 3)?)?,
                None => bench.foreign(get(row, 0)?),
            }
        }
        Ok(bench)
    }
}
