//! Observations: every put of a payload that is kept says who saw it when.

use std::time::Duration;

use hapax_core::snapshot::{NewSnapshot, Observation, Put};
use uuid::Uuid;

use super::subject::{SnapshotSubject, new, shelf};

async fn observed(subject: &SnapshotSubject, id: Uuid, limit: usize) -> Vec<Observation> {
    let seen = subject.snapshots.observations(shelf(), id, limit).await;
    seen.expect("the store answers")
}

fn by(name: &str, key_match: Option<&str>) -> NewSnapshot {
    NewSnapshot {
        by: Some(name.to_owned()),
        key_match: key_match.map(str::to_owned),
        ..new("c-1", r#"{"a":1}"#)
    }
}

/// Every put is an observation, with who, when, and what the key matched; the newest first.
pub async fn every_put_is_an_observation(subject: &SnapshotSubject) {
    let first = by("token:1", None);
    subject.put_one(first.clone()).await;
    subject.advance(Duration::from_secs(5));
    subject.put_one(by("token:2", Some("py-json"))).await;
    let nobody = NewSnapshot {
        by: None,
        ..by("", Some("none"))
    };
    subject.put_one(nobody).await;

    let seen = observed(subject, first.id, 50).await;

    let told: Vec<_> = seen
        .iter()
        .map(|one| (one.by.as_deref(), one.key_match.as_deref()))
        .collect();
    let wanted = [
        (None, Some("none")),
        (Some("token:2"), Some("py-json")),
        (Some("token:1"), None),
    ];
    assert_eq!(told, wanted);
    let stored = subject.stored(first.id).await;
    assert_eq!(
        (seen[2].at, seen[0].at),
        (stored.created_at, stored.seen_at)
    );
    assert!(seen[1].at > seen[2].at);
    assert_eq!(stored.seen, 3);
    assert_eq!(observed(subject, first.id, 1).await, seen[..1]);
    assert!(observed(subject, first.id, 0).await.is_empty());
}

/// Those of one batch are told apart, in their order.
pub async fn a_batch_observes_in_its_order(subject: &SnapshotSubject) {
    let asked = by("1", None);
    subject.put_one(asked.clone()).await;
    let other = new("c-2", "[2]");
    let batch = vec![by("2", None), other.clone(), by("3", None), by("4", None)];
    subject.put(batch).await;

    let seen = observed(subject, asked.id, 50).await;

    let names: Vec<_> = seen.iter().filter_map(|one| one.by.as_deref()).collect();
    assert_eq!(names, ["4", "3", "2", "1"]);
    assert_eq!(subject.stored(asked.id).await.seen, 4);
    assert_eq!(observed(subject, other.id, 50).await.len(), 1);
}

/// A payload that collides is not an observation.
pub async fn a_collision_is_not_observed(subject: &SnapshotSubject) {
    let asked = by("1", None);
    subject.put_one(asked.clone()).await;
    let forged = NewSnapshot {
        hash: asked.hash,
        ..new("c-1", r#"{"a":2}"#)
    };

    assert_eq!(subject.put_one(forged).await, Put::Collision);

    assert_eq!(observed(subject, asked.id, 50).await.len(), 1);
    assert_eq!(subject.stored(asked.id).await.seen, 1);
}

/// A snapshot that is seen all the time keeps its newest observations, and counts them all.
pub async fn old_observations_make_room_for_new_ones(subject: &SnapshotSubject) {
    let batch = |from: usize, count: usize| {
        let all = (from..from + count).map(|number| by(&number.to_string(), None));
        subject.put(all.collect())
    };
    batch(0, 7).await;
    batch(7, NewSnapshot::BATCH_MAX).await;
    batch(1007, 3).await;

    let id = by("", None).id;
    let seen = observed(subject, id, usize::MAX).await;

    assert_eq!(subject.stored(id).await.seen, 1010);
    assert!(seen.len() >= 500 && seen.len() < 1010, "{}", seen.len());
    let names: Vec<_> = seen.iter().filter_map(|one| one.by.clone()).collect();
    let newest: Vec<_> = (0..seen.len())
        .map(|back| (1009 - back).to_string())
        .collect();
    assert_eq!(names, newest);
}
