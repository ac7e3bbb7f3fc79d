//! Changes of a batch: one for each version, so that two workers cannot both go on.

use std::time::Duration;

use hapax_core::Kind;
use hapax_core::entry::{BatchState, BatchStatus, Provider, Schema};
use uuid::Uuid;

use super::subject::{T1Subject, TENANT};

fn submitted(batch: &hapax_core::entry::Batch, by: &str) -> BatchState {
    BatchState {
        status: BatchStatus::Submitted,
        attempt: 2,
        failures: 3,
        next_at: batch.created_at.plus(Duration::from_millis(1234)),
        model: Some("t1-batch".to_owned()),
        provider: Provider {
            batch_id: Some(by.to_owned()),
            status: Some("in_progress".to_owned()),
            input_file: Some("file-in".to_owned()),
            output_file: Some("file-out".to_owned()),
            error_file: Some("file-error".to_owned()),
        },
        error: Some("slow".to_owned()),
    }
}

/// A change is kept whole; nothing else of the batch changes.
pub async fn a_change_is_kept_whole(subject: &T1Subject) {
    let batch = subject.add_one(TENANT, Schema::Pkm, 1).await;
    subject.advance(Duration::from_secs(5));
    let state = submitted(&batch, &"batch_".repeat(200));

    let changed = subject.change(&batch, state.clone()).await;

    let changed = changed.expect("it is changed");
    assert_eq!(subject.stored(batch.id).await, changed);
    assert_eq!(changed.version, batch.version + 1);
    assert!(changed.updated_at > batch.updated_at);
    let expected = hapax_core::entry::Batch {
        state,
        version: changed.version,
        updated_at: changed.updated_at,
        ..batch
    };
    assert_eq!(changed, expected);
}

/// What is not said is empty from then on.
pub async fn a_change_replaces_the_whole_state(subject: &T1Subject) {
    let batch = subject.add_one(TENANT, Schema::PkmTest, 1).await;
    let full = subject.change(&batch, submitted(&batch, "b1")).await;
    let full = full.expect("it is changed");

    let back = subject.change(&full, batch.state.clone()).await;

    let back = back.expect("it is changed");
    assert_eq!(back.state, batch.state);
    assert_eq!(back.version, 3);
    assert_eq!(subject.stored(batch.id).await, back);
}

/// Who saw an older version changes nothing.
pub async fn a_change_of_another_version_is_refused(subject: &T1Subject) {
    let batch = subject.add_one(TENANT, Schema::Pkm, 1).await;
    let changed = subject.change(&batch, submitted(&batch, "b1")).await;
    let changed = changed.expect("it is changed");

    assert_eq!(subject.change(&batch, submitted(&batch, "b2")).await, None);

    assert_eq!(subject.stored(batch.id).await, changed);
}

/// Of many who change one version at once, one does.
pub async fn of_many_who_change_a_batch_at_once_one_does(subject: &T1Subject) {
    let batch = subject.add_one(TENANT, Schema::Pkm, 1).await;
    let changes = (0..20).map(|number| {
        let (batches, batch) = (subject.batches.clone(), batch.clone());
        let state = submitted(&batch, &number.to_string());
        tokio::spawn(async move {
            loop {
                let changed = batches.change_batch(
                    TENANT,
                    batch.schema,
                    batch.id,
                    batch.version,
                    state.clone(),
                );
                match changed.await {
                    Err(error) if error.kind() == Kind::Unavailable => {}
                    changed => return changed.expect("the store answers"),
                }
            }
        })
    });
    let mut won = Vec::new();
    for change in changes.collect::<Vec<_>>() {
        won.extend(change.await.expect("no panic"));
    }
    assert_eq!(won.len(), 1);
    assert_eq!(subject.stored(batch.id).await, won[0]);
    assert_eq!(won[0].version, 2);
}

/// A batch is changed where it is.
pub async fn a_batch_that_is_not_there_is_not_changed(subject: &T1Subject) {
    let batch = subject.add_one(TENANT, Schema::Pkm, 1).await;
    let store = &subject.batches;
    let state = submitted(&batch, "b1");

    let elsewhere = store.change_batch(TENANT, Schema::PkmTest, batch.id, 1, state.clone());
    assert_eq!(elsewhere.await.expect("the store answers"), None);
    let unknown = store.change_batch(TENANT, Schema::Pkm, Uuid::from_u128(9), 1, state);
    assert_eq!(unknown.await.expect("the store answers"), None);

    assert_eq!(subject.stored(batch.id).await, batch);
}
