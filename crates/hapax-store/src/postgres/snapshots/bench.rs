//! What becomes of each payload of a batch, given what is there under its hash and its id. It runs no statement.

use std::collections::HashMap;

use hapax_core::Fingerprint;
use hapax_core::snapshot::{NewSnapshot, Put};
use uuid::Uuid;

use crate::snapshot::is_same;

/// A snapshot that is stored, or will be.
pub(super) struct Kept {
    pub(super) id: Uuid,
    entity_id: String,
    /// What is stored; that of the batch if it is new.
    payload: Option<String>,
    /// Which of the batch it is made of, if it is new or gets its hash now.
    pub(super) of: Option<usize>,
    /// How often the batch saw it.
    pub(super) seen: i64,
}

impl Kept {
    /// Whether the batch brought it.
    pub(super) fn is_new(&self) -> bool {
        self.payload.is_none()
    }
}

/// What was seen under the lock, and what the batch adds.
#[derive(Default)]
pub(super) struct Bench {
    pub(super) kept: Vec<Kept>,
    by_hash: HashMap<Fingerprint, usize>,
    /// `None` where the id is that of another payload.
    by_id: HashMap<Uuid, Option<usize>>,
    current: HashMap<String, Uuid>,
    /// Which snapshot each payload is that was seen, and which of the batch it was.
    pub(super) observed: Vec<(usize, usize)>,
}

/// An entity that has something new.
pub(super) struct Changed {
    /// Which of the batch is its current snapshot now.
    pub(super) last: usize,
    pub(super) snapshots: i64,
}

impl Bench {
    /// That a snapshot is stored, under this hash or without one.
    pub(super) fn stored(
        &mut self,
        id: Uuid,
        entity_id: String,
        payload: String,
        hash: Option<Fingerprint>,
        current: Option<Uuid>,
    ) {
        self.current
            .insert(entity_id.clone(), current.unwrap_or(id));
        match hash {
            Some(hash) => drop(self.by_hash.insert(hash, self.kept.len())),
            None => drop(self.by_id.insert(id, Some(self.kept.len()))),
        }
        self.kept.push(Kept {
            id,
            entity_id,
            payload: Some(payload),
            of: None,
            seen: 0,
        });
    }

    /// That an id is another payload's.
    pub(super) fn foreign(&mut self, id: Uuid) {
        self.by_id.insert(id, None);
    }

    /// Puts the batch, one after the other.
    pub(super) fn put_all(&mut self, batch: &[NewSnapshot]) -> Vec<Put> {
        (0..batch.len()).map(|at| self.put(batch, at)).collect()
    }

    fn put(&mut self, batch: &[NewSnapshot], at: usize) -> Put {
        let new = &batch[at];
        let known = self.by_hash.get(&new.hash).copied();
        let place = match known.map(Some).or_else(|| self.by_id.get(&new.id).copied()) {
            Some(Some(place)) => place,
            Some(None) => return Put::Collision,
            None => return self.add(new, at),
        };
        let kept = &mut self.kept[place];
        let stored = match (&kept.payload, kept.of) {
            (Some(payload), _) => payload.as_str(),
            (None, Some(of)) => &batch[of].payload,
            (None, None) => return Put::Collision,
        };
        // One that the batch brought is found by its id under another hash: another payload, or it would have this one.
        let is_other = known.is_none() && kept.of.is_some();
        if is_other || !is_same(stored, &new.payload) {
            return Put::Collision;
        }
        if known.is_none() {
            // A row from before hashes, found by its id: now its hash is known.
            kept.of = Some(at);
            self.by_hash.insert(new.hash, place);
        }
        kept.seen += 1;
        self.observed.push((place, at));
        Put::Kept {
            id: kept.id,
            was_there: true,
            current: *self.current.get(&kept.entity_id).unwrap_or(&kept.id),
        }
    }

    fn add(&mut self, new: &NewSnapshot, at: usize) -> Put {
        let place = self.kept.len();
        self.by_hash.insert(new.hash, place);
        self.by_id.insert(new.id, Some(place));
        self.current.insert(new.entity_id.clone(), new.id);
        self.observed.push((place, at));
        self.kept.push(Kept {
            id: new.id,
            entity_id: new.entity_id.clone(),
            payload: None,
            of: Some(at),
            seen: 1,
        });
        Put::Kept {
            id: new.id,
            was_there: false,
            current: new.id,
        }
    }

    /// The entities that have something new.
    pub(super) fn changed(&self) -> Vec<Changed> {
        let mut changed: HashMap<&str, Changed> = HashMap::new();
        for kept in self.kept.iter().filter(|kept| kept.is_new()) {
            let Some(last) = kept.of else { continue };
            let one = changed
                .entry(&kept.entity_id)
                .or_insert(Changed { last, snapshots: 0 });
            one.last = last;
            one.snapshots += 1;
        }
        changed.into_values().collect()
    }
}
