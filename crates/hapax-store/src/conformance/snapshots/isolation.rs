//! Tenants and collections: nothing of one is seen or changed through another.

use hapax_core::Tenant;
use hapax_core::snapshot::{NewSnapshot, Put};
use uuid::Uuid;

use super::super::subject::tenant;
use super::subject::{SnapshotSubject, kept, new, scan, shelf, shelf_of};

/// The same payload of two tenants is two snapshots, even under one id.
pub async fn the_same_payload_of_two_tenants_is_two_snapshots(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"a":1}"#);
    subject.put_one(asked.clone()).await;
    let mine = subject.stored(asked.id).await;
    let theirs = shelf_of(tenant(2), "courses");

    let put = subject.put_on(theirs.clone(), vec![asked.clone()]).await;

    assert_eq!(kept(&put[0]), (asked.id, false, asked.id));
    assert_eq!(subject.stored(asked.id).await, mine);
    let other = subject.stored_on(theirs, asked.id).await;
    assert_eq!(other.expect("it is there").seen, 1);
}

/// Another tenant's snapshot and entity are not there.
pub async fn another_tenants_snapshots_are_not_there(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"a":1}"#);
    subject.put_one(asked.clone()).await;

    for other in [shelf_of(tenant(2), "courses"), shelf_of(tenant(2), "books")] {
        let store = &subject.snapshots;
        assert_eq!(subject.stored_on(other.clone(), asked.id).await, None);
        let entity = store.entity(other.clone(), "c-1".to_owned()).await;
        assert_eq!(entity.expect("the store answers"), None);
        let entities = store.entities(other.clone(), scan(None, 9, 0)).await;
        assert_eq!(entities.expect("the store answers"), []);
        let history = store.snapshots_of(other.clone(), "c-1".to_owned(), None, 9);
        assert_eq!(history.await.expect("the store answers"), []);
        let seen = store.observations(other, asked.id, 9).await;
        assert_eq!(seen.expect("the store answers"), []);
    }
}

/// What another tenant puts under the same names moves nothing.
pub async fn another_tenants_puts_move_nothing(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"a":1}"#);
    subject.put_one(asked.clone()).await;
    let before = subject.entity("c-1").await;
    let theirs = shelf_of(tenant(2), "courses");

    let forged = NewSnapshot {
        hash: asked.hash,
        ..new("c-1", r#"{"a":2}"#)
    };
    let puts = subject.put_on(theirs, vec![forged, new("c-1", "3")]).await;

    assert!(puts.iter().all(|put| !kept(put).1));
    assert_eq!(subject.entity("c-1").await, before);
}

/// Another collection of the same tenant is another shelf.
pub async fn another_collection_is_another_shelf(subject: &SnapshotSubject) {
    let asked = new("c-1", r#"{"a":1}"#);
    subject.put_one(asked.clone()).await;
    let books = shelf_of(Tenant::DEFAULT, "books");
    assert_eq!(subject.stored_on(books.clone(), asked.id).await, None);

    let same = NewSnapshot {
        id: Uuid::from_u128(5),
        ..asked.clone()
    };
    let put = subject.put_on(books.clone(), vec![same]).await;
    assert_eq!(
        kept(&put[0]),
        (Uuid::from_u128(5), false, Uuid::from_u128(5))
    );
    let same_id = NewSnapshot {
        id: asked.id,
        ..new("c-1", r#"{"a":2}"#)
    };
    let put = subject.put_on(books, vec![same_id]).await;
    assert_eq!(put, [Put::Collision], "an id is of one collection");

    assert_eq!(
        subject
            .stored_on(shelf(), asked.id)
            .await
            .map(|one| one.seen),
        Some(1)
    );
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!(entity.snapshots, 1);
}
