//! What is due: batches that are not done and whose time has come, of everybody, without one hiding another.

use std::time::Duration;

use hapax_core::entry::{BatchState, BatchStatus, Schema, Target};
use uuid::Uuid;

use super::subject::{OTHER, T1Subject, TENANT, due_at, new, own};

/// A batch is due when its time has come.
pub async fn a_batch_is_due_when_its_time_has_come(subject: &T1Subject) {
    let batch = subject.add_one(TENANT, Schema::Pkm, 1).await;
    assert_eq!(subject.due(50).await, [1], "a new one at once");

    let later = batch.created_at.plus(Duration::from_secs(3600));
    let changed = subject.change(&batch, due_at(&batch, later)).await;
    assert_eq!(changed.expect("it is changed").state.next_at, later);
    assert_eq!(subject.due(50).await, [0; 0]);

    subject.advance(Duration::from_secs(3601));
    assert_eq!(subject.due(50).await, [1]);
}

/// Nothing is done about a batch that ended.
pub async fn a_batch_that_ended_is_never_due(subject: &T1Subject) {
    for (number, status) in (1..).zip(BatchStatus::ALL) {
        let batch = subject.add_one(TENANT, Schema::Pkm, number).await;
        let state = BatchState {
            status: *status,
            attempt: 7,
            ..batch.state.clone()
        };
        subject.change(&batch, state).await.expect("it is changed");
    }
    subject.advance(Duration::from_secs(3600));

    let due = subject.batches.due_batches(50).await;

    let due = due.expect("the store answers");
    let mut statuses: Vec<BatchStatus> = due.iter().map(|batch| batch.status).collect();
    statuses.sort_unstable();
    let expected: Vec<BatchStatus> = BatchStatus::ALL
        .iter()
        .copied()
        .filter(|status| !status.is_terminal())
        .collect();
    assert_eq!(statuses, expected);
    assert!(due.iter().all(|batch| batch.attempt == 7));
}

/// Who waited longest is first, whenever it was added.
pub async fn those_that_waited_longest_are_due_first(subject: &T1Subject) {
    let start = subject.add_one(TENANT, Schema::Pkm, 1).await.created_at;
    for (number, seconds) in [(2, 50), (3, 20), (4, 40), (5, 30)] {
        let batch = subject.add_one(TENANT, Schema::Pkm, number).await;
        let since = start.plus(Duration::from_secs(seconds));
        let changed = subject.change(&batch, due_at(&batch, since)).await;
        assert!(changed.is_some());
    }
    subject.advance(Duration::from_secs(3600));

    assert_eq!(subject.due(50).await, [1, 3, 5, 4, 2]);
    assert_eq!(subject.due(2).await, [1, 3]);
    assert_eq!(subject.due(0).await, [0; 0]);
}

/// Many due batches of one home do not hide the other's one.
pub async fn schemas_are_served_in_turn(subject: &T1Subject) {
    let adds = (1..=200_u128).map(|number| {
        let batches = subject.batches.clone();
        let target = Target::Pinned(Schema::Pkm);
        let asked = new(number, vec![own("a text")]);
        tokio::spawn(async move { batches.add_batch(TENANT, target, asked).await.is_ok() })
    });
    for add in adds.collect::<Vec<_>>() {
        assert!(add.await.expect("no panic"));
    }
    subject.advance(Duration::from_secs(60));
    let late = subject.add_one(TENANT, Schema::PkmTest, 1001).await;
    subject.add_one(TENANT, Schema::PkmTest, 1002).await;
    subject.set_test_mode(false).await;

    let due = subject.due(6).await;

    assert_eq!(due.len(), 6);
    assert_eq!((due[1], due[3]), (1001, 1002), "{due:?}");
    let waits = due_at(&late, late.created_at.plus(Duration::from_secs(9999)));
    subject.change(&late, waits).await.expect("it is changed");
    let due = subject.due(3).await;
    assert!(due[1] == 1002 && due[2] <= 200, "{due:?}");
    subject.set_test_mode(true).await;
    assert_eq!(subject.due(3).await, due, "whatever the test mode is");
}

/// Work of all tenants is found, and says whose it is.
pub async fn batches_of_all_tenants_are_due(subject: &T1Subject) {
    subject.add_one(TENANT, Schema::Pkm, 1).await;
    subject.advance(Duration::from_secs(1));
    subject.add_one(OTHER, Schema::Pkm, 2).await;
    subject.advance(Duration::from_secs(1));
    subject.add_one(OTHER, Schema::PkmTest, 1).await;

    let due = subject.batches.due_batches(50).await;

    let due = due.expect("the store answers");
    let found = due
        .iter()
        .map(|batch| (batch.tenant, batch.schema, batch.id));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            (TENANT, Schema::Pkm, Uuid::from_u128(1)),
            (OTHER, Schema::PkmTest, Uuid::from_u128(1)),
            (OTHER, Schema::Pkm, Uuid::from_u128(2)),
        ]
    );
    assert!(
        due.iter()
            .all(|batch| batch.status == BatchStatus::Queued && batch.attempt == 1)
    );
}
