//! Settled records kept in memory, so that a replay needs no store. It never answers by itself: every hit
//! goes through `decide`, and none is given once anybody has taken back an outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::{Record, RecordId, State};

const SHARDS: usize = 16;
/// What one entry costs beside its bodies.
const ENTRY_BYTES: usize = 512;

/// A bounded cache in two generations: when the young one is full it becomes the old one, and the old
/// one is dropped whole. A hit in the old one moves back to the young.
#[derive(Debug)]
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    shard_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shard {
    young: HashMap<RecordId, Entry>,
    old: HashMap<RecordId, Entry>,
    young_bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    record: Arc<Record>,
    purges: u64,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            shard_bytes_max: bytes_max / SHARDS / 2,
        }
    }

    /// The record, if nobody anywhere has taken back an outcome since it was read. The count of purges is asked
    /// for only when there is a record: to ask may be a call to the system, and most keys are new.
    pub(super) fn get(
        &self,
        id: RecordId,
        purges: impl FnOnce() -> Option<u64>,
    ) -> Option<Arc<Record>> {
        let entry = self.entry(id)?;
        (Some(entry.purges) == purges()).then_some(entry.record)
    }

    fn entry(&self, id: RecordId) -> Option<Entry> {
        let mut shard = self.shard(id);
        if let Some(entry) = shard.young.get(&id) {
            return Some(entry.clone());
        }
        let entry = shard.old.remove(&id)?;
        shard.insert(entry.clone(), self.shard_bytes_max);
        Some(entry)
    }

    /// Keeps a settled record that was read when the ledger's count of purges was `purges`.
    pub(super) fn put(&self, record: Arc<Record>, purges: u64) {
        if cost(&record) <= self.shard_bytes_max / 4 {
            self.shard(record.id)
                .insert(Entry { record, purges }, self.shard_bytes_max);
        }
    }

    pub(super) fn remove(&self, id: RecordId) {
        let mut shard = self.shard(id);
        if let Some(entry) = shard.young.remove(&id) {
            shard.young_bytes -= cost(&entry.record);
        }
        shard.old.remove(&id);
    }

    fn shard(&self, id: RecordId) -> std::sync::MutexGuard<'_, Shard> {
        let shard = usize::from(id.as_uuid().as_bytes()[0]) % SHARDS;
        // A shard is whole between any two lines that could panic; losing an entry is harmless anyway.
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn insert(&mut self, entry: Entry, bytes_max: usize) {
        let bytes = cost(&entry.record);
        if self.young_bytes + bytes > bytes_max {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some(replaced) = self.young.insert(entry.record.id, entry) {
            self.young_bytes -= cost(&replaced.record);
        }
    }
}

fn cost(record: &Record) -> usize {
    let answered = match &record.state {
        State::Settled { outcome, .. } => {
            let headers: usize = outcome
                .headers
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            headers + outcome.whole().map_or(0, bytes::Bytes::len)
        }
        State::Held(_) | State::InDoubt { .. } | State::Free | State::Expired | State::Erased => 0,
    };
    ENTRY_BYTES + answered + record.request.body.as_ref().map_or(0, bytes::Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use hapax_core::{Claim, Fingerprint, Key, Outcome, Owner, Scope, Tenant, Time, Version};

    fn settled(key: &str, body_bytes: usize) -> Arc<Record> {
        let scope = Scope::new(Tenant::DEFAULT, "s").unwrap();
        let claim = Claim::new(
            scope,
            Key::new(key).unwrap(),
            Fingerprint::of(b"a"),
            Owner::from_u128(1),
        );
        let now = Time::from_ms(1);
        let outcome = Outcome::new(200, Bytes::from(vec![0; body_bytes]));
        Arc::new(Record::granted(&claim, Version(1), now).settled(outcome, now))
    }

    #[test]
    fn an_entry_is_not_given_once_anything_was_taken_back() {
        let cache = Cache::new(1 << 20);
        let record = settled("k", 10);
        cache.put(record.clone(), 7);
        assert!(cache.get(record.id, || Some(7)).is_some());
        assert!(cache.get(record.id, || Some(8)).is_none());
        assert!(
            cache.get(record.id, || None).is_none(),
            "a ledger that cannot tell is never answered for"
        );
    }

    #[test]
    fn the_cache_stays_within_its_bytes() {
        let cache = Cache::new(1 << 20);
        for n in 0..5000 {
            cache.put(settled(&format!("k{n}"), 1000), 0);
        }
        let held: usize = cache
            .shards
            .iter()
            .map(|shard| {
                let shard = shard.lock().unwrap();
                shard.young.len() + shard.old.len()
            })
            .sum();
        assert!(held * 1512 <= 1 << 20, "{held} entries are held");
        assert!(held > 100);
    }

    #[test]
    fn a_body_too_large_for_the_cache_is_not_kept() {
        let cache = Cache::new(1 << 20);
        let record = settled("k", 1 << 20);
        cache.put(record.clone(), 0);
        assert!(cache.get(record.id, || Some(0)).is_none());
    }
}
