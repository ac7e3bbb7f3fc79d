//! Filling in: rows from before hashes are read as they are, and get their hash in bounded steps.

use hapax_core::Fingerprint;
use hapax_core::snapshot::{Filled, NewSnapshot, Shelf};
use uuid::Uuid;

use super::super::subject::tenant;
use super::subject::{SnapshotSubject, aliases, hash, kept, new, scan, shelf, shelf_of};

type Hashed = Option<(Fingerprint, Vec<(String, String)>)>;

/// As a door would hash it; not what is called `"bad"`.
fn hasher(_: &Shelf, payload: &str) -> Hashed {
    (payload != r#""bad""#).then(|| (hash(payload), aliases(payload)))
}

async fn fill(subject: &SnapshotSubject, limit: usize) -> Filled {
    let filled = subject.snapshots.fill_hashes(&hasher, limit).await;
    filled.expect("the store answers")
}

fn filled(filled: u64, duplicates: u64, unreadable: u64) -> Filled {
    Filled {
        filled,
        duplicates,
        unreadable,
    }
}

/// A row without a hash is there like any other, and gets the hash and the aliases it would have had.
pub async fn a_row_without_a_hash_is_read_and_filled(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"b":2,"a":1}"#);
    subject.put_one(asked.clone()).await;
    let whole = subject.stored(asked.id).await;
    subject.age().await;
    let old = subject.stored(asked.id).await;
    assert_eq!(
        (old.hash, &old.payload, old.current),
        (None, &asked.payload, true)
    );
    assert_eq!(subject.history("c-1").await, [old]);
    assert_eq!(subject.listed(scan(None, 9, 0)).await, ["c-1"]);

    assert_eq!(fill(subject, 100).await, filled(1, 0, 0));

    assert_eq!(subject.stored(asked.id).await, whole);
    assert_eq!(fill(subject, 100).await, Filled::default());
}

/// After that the row answers a put of its payload.
pub async fn a_filled_row_answers_a_put(subject: &SnapshotSubject) {
    let old = NewSnapshot {
        id: Uuid::from_u128(77),
        ..new("c-1", r#"{"a":1}"#)
    };
    subject.put_one(old.clone()).await;
    subject.age().await;
    fill(subject, 100).await;

    let put = subject.put_one(new("c-1", r#"{"a":1.0}"#)).await;

    assert_eq!(kept(&put), (old.id, true, old.id));
}

/// Before that, a payload that is put under the same id finds its row all the same.
pub async fn a_put_finds_its_own_row_that_has_no_hash_yet(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"a":1}"#);
    subject.put_one(asked.clone()).await;
    subject.age().await;

    let answers = subject.put(vec![asked.clone(), asked.clone()]).await;

    for put in &answers {
        assert_eq!(kept(put), (asked.id, true, asked.id));
    }
    let stored = subject.stored(asked.id).await;
    assert_eq!((stored.hash, stored.seen), (Some(asked.hash), 3));
    assert_eq!(stored.aliases, asked.aliases);
    assert_eq!(fill(subject, 100).await, Filled::default());
}

/// A payload that is kept under another id already stays without a hash; of equal rows the oldest gets it.
pub async fn a_payload_that_is_kept_already_stays_without_a_hash(subject: &SnapshotSubject) {
    let named = |number, payload| NewSnapshot {
        id: Uuid::from_u128(number),
        ..new("c-1", payload)
    };
    for number in [1, 2] {
        subject.put_one(named(number, r#"{"a":1}"#)).await;
        subject.age().await;
    }
    subject.put_one(named(3, r#"{"b":1}"#)).await;
    subject.age().await;
    subject.put_one(named(4, r#"{"b":1}"#)).await;

    assert_eq!(fill(subject, 100).await, filled(1, 2, 0));
    assert_eq!(fill(subject, 100).await, Filled::default());

    let mut has_hash = Vec::new();
    for number in 1..=4 {
        let stored = subject.stored(Uuid::from_u128(number)).await;
        has_hash.push(stored.hash.is_some());
    }
    assert_eq!(has_hash, [true, false, false, true]);
}

/// What cannot be hashed is counted once, stays readable, and does not hide what comes after it.
pub async fn what_cannot_be_hashed_is_counted_once(subject: &SnapshotSubject) {
    let (bad, good) = (new("c-1", r#""bad""#), new("c-1", r#""good""#));
    subject.put(vec![bad.clone(), good.clone()]).await;
    subject.age().await;

    assert_eq!(fill(subject, 1).await, filled(0, 0, 1));
    assert_eq!(fill(subject, 1).await, filled(1, 0, 0));
    assert_eq!(fill(subject, 1).await, Filled::default());

    let bad = subject.stored(bad.id).await;
    assert_eq!((bad.hash, &*bad.payload), (None, r#""bad""#));
    assert!(subject.stored(good.id).await.hash.is_some());
}

/// A step does no more than was asked for, and the steps come to an end.
pub async fn filling_goes_in_bounded_steps_and_ends(subject: &SnapshotSubject) {
    let all: Vec<_> = (0..80)
        .map(|number| new("c-1", &number.to_string()))
        .collect();
    subject.put(all.clone()).await;
    subject.age().await;

    assert_eq!(fill(subject, 0).await, Filled::default());
    assert_eq!(fill(subject, 70).await.filled, 70);
    assert_eq!(fill(subject, 70).await.filled, 10);
    assert_eq!(fill(subject, 70).await, Filled::default());

    for new in &all {
        assert_eq!(subject.stored(new.id).await.hash, Some(new.hash));
    }
}

/// The rows of every tenant and collection are filled, each on its own shelf.
pub async fn filling_covers_every_shelf(subject: &SnapshotSubject) {
    let shelves = [
        shelf(),
        shelf_of(tenant(2), "courses"),
        shelf_of(tenant(2), "books"),
    ];
    for (number, shelf) in shelves.iter().enumerate() {
        let asked = NewSnapshot {
            id: Uuid::from_u128(number as u128 + 1),
            ..new("c-1", "[1]")
        };
        subject.put_on(shelf.clone(), vec![asked]).await;
    }
    subject.age().await;
    let asked = std::sync::Mutex::new(Vec::new());
    let hasher = |shelf: &Shelf, payload: &str| {
        asked.lock().expect("no panic").push(shelf.clone());
        Some((hash(payload), Vec::new()))
    };

    let done = subject.snapshots.fill_hashes(&hasher, 100).await;

    assert_eq!(done.expect("the store answers"), filled(3, 0, 0));
    let mut asked = asked.into_inner().expect("no panic");
    asked.sort();
    let mut wanted = shelves.to_vec();
    wanted.sort();
    assert_eq!(asked, wanted);
    for (number, shelf) in shelves.into_iter().enumerate() {
        let id = Uuid::from_u128(number as u128 + 1);
        let stored = subject.stored_on(shelf, id).await.expect("it is there");
        assert_eq!(stored.hash, Some(hash("[1]")));
    }
}
