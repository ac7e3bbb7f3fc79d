//! Lists of entities: those that changed last first, searched by id and label, and paged.

use hapax_core::snapshot::{EntityScan, NewSnapshot};

use super::subject::{SnapshotSubject, new, scan};

fn labelled(entity: &str, label: &str) -> NewSnapshot {
    NewSnapshot {
        label: Some(label.to_owned()),
        ..new(entity, &format!(r#"{{"id":"{entity}"}}"#))
    }
}

/// Entities that changed last come first; one that is only seen again stays where it is.
pub async fn entities_that_changed_last_come_first(subject: &SnapshotSubject) {
    for (entity, payload) in [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("b", "2")] {
        subject.put_one(new(entity, payload)).await;
    }
    assert_eq!(subject.listed(scan(None, 50, 0)).await, ["a", "c", "b"]);
}

/// A listed entity is whole, its current snapshot included.
pub async fn a_listed_entity_is_whole(subject: &SnapshotSubject) {
    subject.put_one(new("a", "1")).await;
    subject.put_one(new("a", "2")).await;

    let shelf = super::subject::shelf();
    let listed = subject.snapshots.entities(shelf, scan(None, 9, 0)).await;

    let entity = subject.entity("a").await.expect("it is there");
    assert_eq!(entity.current.aliases, super::subject::aliases("2"));
    assert_eq!(listed.expect("the store answers"), [entity]);
}

/// Entities page without gap.
pub async fn entities_page_without_gap(subject: &SnapshotSubject) {
    let all = (0..7).map(|number| new(&format!("c-{number}"), &number.to_string()));
    subject.put(all.collect()).await;
    let mut listed = Vec::new();
    for offset in [0, 3, 6, 9] {
        listed.extend(subject.listed(scan(None, 3, offset)).await);
    }
    let newest_first = ["c-6", "c-5", "c-4", "c-3", "c-2", "c-1", "c-0"];
    assert_eq!(listed, newest_first);
    let found = subject.listed(scan(Some("C-"), 2, 4)).await;
    assert_eq!(found, newest_first[4..6]);
}

/// A page of entities holds no more than was asked for, and never more than the limit.
pub async fn a_page_of_entities_is_bounded(subject: &SnapshotSubject) {
    let count = EntityScan::LIMIT_MAX + 1;
    let all = (0..count).map(|number| new(&format!("c-{number}"), &number.to_string()));
    subject.put(all.collect()).await;

    assert!(subject.listed(scan(None, 0, 0)).await.is_empty());
    let page = subject.listed(scan(None, usize::MAX, 0)).await;
    assert_eq!(page.len(), EntityScan::LIMIT_MAX);
    let far = subject.listed(scan(None, 5, usize::MAX)).await;
    assert!(far.is_empty());
}

/// A search finds parts of ids and labels.
pub async fn entities_are_found_by_id_and_label(subject: &SnapshotSubject) {
    for (entity, label) in [
        ("rust-1", "Systems"),
        ("go-2", "Trust and go"),
        ("c-3", "C"),
    ] {
        subject.put_one(labelled(entity, label)).await;
    }
    assert_eq!(subject.found("rust").await, ["go-2", "rust-1"]);
    assert_eq!(subject.found("stems").await, ["rust-1"]);
    assert_eq!(subject.found("nothing").await, Vec::<String>::new());
    assert_eq!(subject.found("").await.len(), 3);
}

/// An entity is found by what it is called now, not by what it was called.
pub async fn an_entity_is_found_by_its_current_label_only(subject: &SnapshotSubject) {
    subject.put_one(labelled("a", "before")).await;
    let renamed = NewSnapshot {
        label: Some("after".to_owned()),
        ..new("a", "2")
    };
    subject.put_one(renamed).await;

    assert!(subject.found("before").await.is_empty());
    assert_eq!(subject.found("after").await, ["a"]);
}

/// A search does not look at the case of ASCII letters.
pub async fn a_search_ignores_the_case_of_ascii_letters(subject: &SnapshotSubject) {
    subject.put_one(labelled("Rust-1", "KÄSE and more")).await;

    for search in ["rUST", "and MORE", "kÄse"] {
        assert_eq!(subject.found(search).await, ["Rust-1"], "{search}");
    }
    assert!(subject.found("käse").await.is_empty(), "only of ASCII ones");
}

/// Wildcards of patterns are taken for what they are.
pub async fn a_search_takes_wildcards_for_what_they_are(subject: &SnapshotSubject) {
    for (entity, label) in [
        ("a", "100% sure"),
        ("b", "snake_case"),
        ("c", r"back\slash"),
    ] {
        subject.put_one(labelled(entity, label)).await;
    }
    for (search, found) in [("%", "a"), ("_", "b"), ("\\", "c"), ("0% s", "a")] {
        assert_eq!(subject.found(search).await, [found], "{search}");
    }
    for search in ["s%e", "snake?case", "*", "[a-z]", "'"] {
        assert!(subject.found(search).await.is_empty(), "{search}");
    }
}
