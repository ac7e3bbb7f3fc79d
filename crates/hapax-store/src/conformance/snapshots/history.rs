//! History: every payload of an entity is kept, and the current one is the one that was new last.

use std::time::Duration;

use hapax_core::snapshot::EntityScan;

use super::putting::put_again;
use super::subject::{SnapshotSubject, kept, new};

/// The current snapshot is the one that was new last.
pub async fn the_current_snapshot_is_the_one_that_was_new_last(subject: &SnapshotSubject) {
    let (a, b) = (new("c-1", r#""A""#), new("c-1", r#""B""#));
    subject.put_one(a.clone()).await;
    let created_at = subject.stored(a.id).await.created_at;
    subject.advance(Duration::from_secs(5));

    let put = subject.put_one(b.clone()).await;

    assert_eq!(kept(&put), (b.id, false, b.id));
    let (a, b) = (subject.stored(a.id).await, subject.stored(b.id).await);
    assert!(b.seq > a.seq && b.created_at > a.created_at);
    assert_eq!((a.current, b.current), (false, true));
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!(entity.current, b);
    assert_eq!((entity.snapshots, entity.created_at), (2, created_at));
    assert_eq!(subject.history("c-1").await, [b, a]);
}

/// An old payload that is put again is seen, and does not move the current one.
pub async fn an_old_payload_put_again_does_not_move_the_current_one(subject: &SnapshotSubject) {
    let (a, b) = (new("c-1", r#""A""#), new("c-1", r#""B""#));
    subject.put_one(a.clone()).await;
    subject.put_one(b.clone()).await;
    subject.advance(Duration::from_secs(5));

    let put = subject.put_one(a.clone()).await;

    assert_eq!(kept(&put), (a.id, true, b.id));
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!((entity.current.id, entity.snapshots), (b.id, 2));
    let a = subject.stored(a.id).await;
    assert!(!a.current && a.seen_at > a.created_at);
}

/// A batch is put in its order: what was new last in it is current.
pub async fn a_batch_moves_the_current_one_in_its_order(subject: &SnapshotSubject) {
    let (a, b, c) = (new("c-1", "1"), new("c-1", "2"), new("c-1", "3"));
    subject.put_one(a.clone()).await;

    let batch = vec![a.clone(), b.clone(), a.clone(), c.clone(), b.clone()];
    let answers = subject.put(batch).await;

    let answers: Vec<_> = answers.iter().map(kept).collect();
    assert_eq!(
        answers,
        [
            (a.id, true, a.id),
            (b.id, false, b.id),
            (a.id, true, b.id),
            (c.id, false, c.id),
            (b.id, true, c.id),
        ]
    );
    let ids: Vec<_> = subject
        .history("c-1")
        .await
        .iter()
        .map(|one| one.id)
        .collect();
    assert_eq!(ids, [c.id, b.id, a.id]);
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!((entity.current.id, entity.snapshots), (c.id, 3));
}

/// The label of an entity is that of its current snapshot.
pub async fn an_entity_is_called_what_its_current_snapshot_calls_it(subject: &SnapshotSubject) {
    for (payload, label) in [("1", Some("old")), ("2", None), ("3", Some("new"))] {
        let mut asked = new("c-1", payload);
        asked.label = label.map(str::to_owned);
        subject.put_one(asked).await;
        let entity = subject.entity("c-1").await.expect("it is there");
        assert_eq!(entity.label.as_deref(), label);
        assert_eq!(entity.current.label.as_deref(), label);
    }
}

/// Of many different payloads at once the one with the highest number is current, whoever was last to be answered.
pub async fn of_different_puts_at_once_the_highest_number_is_current(subject: &SnapshotSubject) {
    let puts = (0..40).map(|number: usize| {
        let snapshots = subject.snapshots.clone();
        tokio::spawn(async move {
            let asked = new("c-1", &number.to_string());
            put_again(&*snapshots, vec![asked]).await
        })
    });
    for put in puts.collect::<Vec<_>>() {
        let (id, was_there, current) = kept(&put.await.expect("no panic")[0]);
        assert!(!was_there);
        let (mine, current) = (subject.stored(id).await, subject.stored(current).await);
        assert!(current.seq >= mine.seq, "what it was told was new as late");
    }
    let history = subject.history("c-1").await;
    assert_eq!(history.len(), 40);
    let entity = subject.entity("c-1").await.expect("it is there");
    assert_eq!((&entity.current, entity.snapshots), (&history[0], 40));
    assert_eq!(history.iter().filter(|one| one.current).count(), 1);
}

/// The snapshots of an entity page newest first, without gap.
pub async fn snapshots_page_newest_first_without_gap(subject: &SnapshotSubject) {
    for number in 0..7 {
        subject.put_one(new("c-1", &number.to_string())).await;
        subject.put_one(new("c-2", &format!("[{number}]"))).await;
    }
    let (mut texts, mut before) = (Vec::new(), None);
    loop {
        let page = subject.page_of("c-1", before, 3).await;
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        texts.extend(page.iter().map(|one| one.payload.to_string()));
    }
    assert_eq!(texts, ["6", "5", "4", "3", "2", "1", "0"]);
}

/// A page of snapshots holds no more than was asked for, and never more than the limit.
pub async fn a_page_of_snapshots_is_bounded(subject: &SnapshotSubject) {
    let count = EntityScan::LIMIT_MAX + 1;
    let all = (0..count).map(|number| new("c-1", &number.to_string()));
    subject.put(all.collect()).await;

    assert!(subject.page_of("c-1", None, 0).await.is_empty());
    assert_eq!(subject.page_of("c-1", None, 2).await.len(), 2);
    let page = subject.page_of("c-1", None, usize::MAX).await;
    assert_eq!(page.len(), EntityScan::LIMIT_MAX);
}

/// What nobody put is not there.
pub async fn what_nobody_put_is_not_there(subject: &SnapshotSubject) {
    subject.put_one(new("c-1", "1")).await;
    let (shelf, id) = (super::subject::shelf(), uuid::Uuid::from_u128(9));

    assert_eq!(subject.entity("c-2").await, None);
    assert_eq!(subject.entity("C-1").await, None, "ids are exact");
    assert!(subject.history("c-2").await.is_empty());
    assert_eq!(subject.stored_on(shelf.clone(), id).await, None);
    let seen = subject.snapshots.observations(shelf, id, 9).await;
    assert!(seen.expect("the store answers").is_empty());
}
