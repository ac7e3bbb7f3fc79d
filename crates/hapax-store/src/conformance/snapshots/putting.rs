//! Putting: one snapshot for each payload, however often and by however many it is put.

use std::sync::Arc;

use hapax_core::Kind;
use hapax_core::snapshot::{NewSnapshot, Put};
use uuid::Uuid;

use super::subject::{SnapshotSubject, kept, new, shelf};

/// A new payload is kept, and everything of it comes back.
pub async fn a_new_payload_is_kept_whole(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"course":{"id":"c-1","name":"A"}}"#);
    let put = subject.put_one(asked.clone()).await;
    assert_eq!(kept(&put), (asked.id, false, asked.id));

    let stored = subject.stored(asked.id).await;
    assert_eq!(stored.id, asked.id);
    assert_eq!(
        (stored.entity_id, stored.label),
        (asked.entity_id, asked.label)
    );
    assert_eq!(
        (stored.hash, stored.payload),
        (Some(asked.hash), asked.payload)
    );
    assert_eq!(stored.aliases, asked.aliases);
    assert_eq!((stored.seen, stored.current), (1, true));
    assert_eq!(stored.seen_at, stored.created_at);
}

/// The same payload again is the same snapshot.
pub async fn the_same_payload_again_is_the_same_snapshot(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"a":1}"#);
    subject.put_one(asked.clone()).await;

    let again = subject.put_one(asked.clone()).await;

    assert_eq!(kept(&again), (asked.id, true, asked.id));
    assert_eq!(subject.history("c-1").await.len(), 1);
}

/// Another text of the same payload is the same snapshot, and the first text stays.
pub async fn another_text_of_the_same_payload_is_the_same_snapshot(subject: &SnapshotSubject) {
    let first = new("c-1", r#"{"a":1,"b":"é"}"#);
    let other = new("c-1", "{ \"b\": \"\\u00e9\", \"a\": 1.0 }");
    assert_eq!(first.hash, other.hash);
    subject.put_one(first.clone()).await;

    let again = subject.put_one(other).await;

    assert_eq!(kept(&again), (first.id, true, first.id));
    assert_eq!(subject.stored(first.id).await.payload, first.payload);
}

/// Another payload with the same hash is told so, and nothing of it is written.
pub async fn another_payload_with_the_same_hash_is_a_collision(subject: &SnapshotSubject) {
    let first = new("c-1", r#"{"a":1}"#);
    subject.put_one(first.clone()).await;
    let before = subject.stored(first.id).await;
    let forged = NewSnapshot {
        id: Uuid::from_u128(7),
        hash: first.hash,
        ..new("c-2", r#"{"a":"1"}"#)
    };

    let put = subject.put_one(forged).await;

    assert_eq!(put, Put::Collision);
    assert_eq!(subject.stored(first.id).await, before);
    assert_eq!(subject.entity("c-2").await, None);
    let found = subject.stored_on(shelf(), Uuid::from_u128(7)).await;
    assert_eq!(found, None);
}

/// Another payload under the id of a stored one is told so too.
pub async fn another_payload_with_the_same_id_is_a_collision(subject: &SnapshotSubject) {
    let first = new("c-1", r#"{"a":1}"#);
    subject.put_one(first.clone()).await;
    let before = subject.stored(first.id).await;
    let forged = NewSnapshot {
        id: first.id,
        ..new("c-2", r#"{"a":2}"#)
    };

    assert_eq!(subject.put_one(forged).await, Put::Collision);
    assert_eq!(subject.stored(first.id).await, before);
}

/// Answers come in the order of the payloads, each on its own.
pub async fn a_batch_is_answered_in_order(subject: &SnapshotSubject) {
    let old = new("c-1", r#"{"n":0}"#);
    subject.put_one(old.clone()).await;
    let forged = NewSnapshot {
        hash: old.hash,
        ..new("c-9", r#"{"n":9}"#)
    };
    let (one, two) = (new("c-2", r#"{"n":1}"#), new("c-3", r#"{"n":2}"#));

    let batch = vec![one.clone(), forged, old.clone(), two.clone()];
    let answers = subject.put(batch).await;

    assert_eq!(kept(&answers[0]), (one.id, false, one.id));
    assert_eq!(answers[1], Put::Collision, "and the others are kept");
    assert_eq!(kept(&answers[2]), (old.id, true, old.id));
    assert_eq!(kept(&answers[3]), (two.id, false, two.id));
}

/// The same payload twice in a batch is one snapshot; the second was there.
pub async fn the_same_payload_twice_in_a_batch_is_one_snapshot(subject: &SnapshotSubject) {
    let one = new("c-1", r#"{"a":1,"b":2}"#);
    let same = new("c-1", r#"{"b":2,"a":1}"#);

    let answers = subject.put(vec![one.clone(), same]).await;

    assert_eq!(kept(&answers[0]), (one.id, false, one.id));
    assert_eq!(kept(&answers[1]), (one.id, true, one.id));
    let stored = subject.stored(one.id).await;
    assert_eq!((stored.seen, stored.payload), (2, one.payload));
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!(entity.snapshots, 1);
}

/// Two payloads of a batch with one hash collide as well.
pub async fn a_collision_within_a_batch_is_noticed(subject: &SnapshotSubject) {
    let one = new("c-1", r#"{"a":1}"#);
    let same_hash = NewSnapshot {
        hash: one.hash,
        ..new("c-1", r#"{"a":2}"#)
    };
    let same_id = NewSnapshot {
        id: one.id,
        ..new("c-1", r#"{"a":3}"#)
    };

    let answers = subject.put(vec![one.clone(), same_hash, same_id]).await;

    assert_eq!(kept(&answers[0]), (one.id, false, one.id));
    assert_eq!(answers[1..], [Put::Collision, Put::Collision]);
    assert_eq!(subject.history("c-1").await.len(), 1);
}

/// A full batch is kept in one call, and found in another.
pub async fn a_thousand_payloads_are_put_in_one_call(subject: &SnapshotSubject) {
    let one = |number: usize| {
        new(
            &format!("c-{}", number % 300),
            &format!(r#"{{"n":{number}}}"#),
        )
    };
    let all: Vec<NewSnapshot> = (0..NewSnapshot::BATCH_MAX).map(one).collect();

    let answers = subject.put(all.clone()).await;
    assert!(answers.iter().all(|put| !kept(put).1));
    let again = subject.put(all.clone()).await;
    assert!(again.iter().all(|put| kept(put).1));

    let ids: Vec<Uuid> = again.iter().map(|put| kept(put).0).collect();
    assert_eq!(ids, all.iter().map(|new| new.id).collect::<Vec<_>>());
    let history = subject.history("c-7").await;
    let texts: Vec<&str> = history.iter().map(|one| &*one.payload).collect();
    let wanted = [r#"{"n":907}"#, r#"{"n":607}"#, r#"{"n":307}"#, r#"{"n":7}"#];
    assert_eq!(texts, wanted);
}

/// More payloads than a batch holds are refused, and none is kept.
pub async fn over_the_limit_of_a_batch_is_refused(subject: &SnapshotSubject) {
    let one = |number: usize| new("c-1", &number.to_string());
    let all: Vec<NewSnapshot> = (0..=NewSnapshot::BATCH_MAX).map(one).collect();

    let refused = subject.snapshots.put_snapshots(shelf(), all).await;

    assert_eq!(refused.expect_err("too many").kind(), Kind::Limit);
    assert_eq!(subject.entity("c-1").await, None);
}

/// An empty batch answers nothing.
pub async fn putting_nothing_answers_nothing(subject: &SnapshotSubject) {
    assert!(subject.put(Vec::new()).await.is_empty());
}

/// A hundred equal puts at once make one snapshot, and all are told its id.
pub async fn a_hundred_equal_puts_at_once_make_one_snapshot(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"a":1}"#);
    let puts = (0..100).map(|_| {
        let (snapshots, asked) = (subject.snapshots.clone(), asked.clone());
        tokio::spawn(async move { put_again(&*snapshots, vec![asked]).await })
    });
    let mut fresh = 0;
    for put in puts.collect::<Vec<_>>() {
        let (id, was_there, current) = kept(&put.await.expect("no panic")[0]);
        assert_eq!((id, current), (asked.id, asked.id));
        fresh += usize::from(!was_there);
    }
    assert_eq!(fresh, 1);
    let stored = subject.stored(asked.id).await;
    assert_eq!(stored.seen, 100);
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!(entity.snapshots, 1);
}

/// Batches that overlap, in whatever order, make one snapshot of each payload.
pub async fn overlapping_batches_at_once_make_one_snapshot_each(subject: &SnapshotSubject) {
    let one = |number: usize| new(&format!("c-{}", number % 10), &format!("[{number}]"));
    let all: Arc<Vec<NewSnapshot>> = Arc::new((0..40).map(one).collect());
    let puts = (0..12).map(|turn: usize| {
        let (snapshots, all) = (subject.snapshots.clone(), all.clone());
        tokio::spawn(async move {
            let mut batch = all.to_vec();
            batch.rotate_left(turn * 7 % 40);
            if turn % 2 == 1 {
                batch.reverse();
            }
            put_again(&*snapshots, batch).await
        })
    });
    let mut fresh = 0;
    for put in puts.collect::<Vec<_>>() {
        let answers = put.await.expect("no panic");
        fresh += answers.iter().filter(|put| !kept(put).1).count();
    }
    assert_eq!(fresh, 40);
    for new in &*all {
        assert_eq!(subject.stored(new.id).await.seen, 12);
    }
    for number in 0..10 {
        let history = subject.history(&format!("c-{number}")).await;
        assert_eq!(history.len(), 4);
        let current: Vec<bool> = history.iter().map(|one| one.current).collect();
        assert_eq!(current, [true, false, false, false]);
    }
}

/// Puts, and again while the store is busy.
pub(super) async fn put_again(
    snapshots: &dyn hapax_core::snapshot::Snapshots,
    all: Vec<NewSnapshot>,
) -> Vec<Put> {
    loop {
        match snapshots.put_snapshots(shelf(), all.clone()).await {
            Err(error) if error.kind() == Kind::Unavailable => {}
            answers => return answers.expect("the store answers"),
        }
    }
}
