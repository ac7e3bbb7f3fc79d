//! Listing batches: newest first, of one home or both, page by page.

use std::time::Duration;

use hapax_core::entry::{BatchState, BatchStatus, ItemScan, Schema};

use super::subject::{T1Subject, TENANT};

/// Batches 1, 3, 5 in the real home and 2, 4, 6 in the other, a second apart.
async fn six(subject: &T1Subject) {
    for number in 1..=6_u128 {
        subject.advance(Duration::from_secs(1));
        let schema = Schema::of_test_mode(number.is_multiple_of(2));
        subject.add_one(TENANT, schema, number).await;
    }
}

async fn end(subject: &T1Subject, number: u128, status: BatchStatus) {
    let batch = subject.stored(uuid::Uuid::from_u128(number)).await;
    let state = BatchState {
        status,
        ..batch.state.clone()
    };
    subject.change(&batch, state).await.expect("it is changed");
}

/// The newest come first, of both homes together or of one.
pub async fn batches_are_listed_newest_first(subject: &T1Subject) {
    six(subject).await;
    let all = |schema| subject.listed(schema, true, None, 50);
    assert_eq!(all(None).await, [6, 5, 4, 3, 2, 1]);
    assert_eq!(all(Some(Schema::Pkm)).await, [5, 3, 1]);
    assert_eq!(all(Some(Schema::PkmTest)).await, [6, 4, 2]);
}

/// What ended is listed if it is asked for.
pub async fn batches_that_ended_are_left_out_unless_asked_for(subject: &T1Subject) {
    six(subject).await;
    end(subject, 5, BatchStatus::Completed).await;
    end(subject, 2, BatchStatus::Failed).await;
    end(subject, 1, BatchStatus::Submitted).await;
    end(subject, 6, BatchStatus::Collecting).await;

    assert_eq!(subject.listed(None, false, None, 50).await, [6, 4, 3, 1]);
    assert_eq!(
        subject.listed(Some(Schema::Pkm), false, None, 50).await,
        [3, 1]
    );
    assert_eq!(
        subject.listed(None, true, None, 50).await,
        [6, 5, 4, 3, 2, 1]
    );
}

/// Pages follow each other, also behind one that ended meanwhile.
pub async fn batches_page_without_gap(subject: &T1Subject) {
    six(subject).await;
    assert_eq!(subject.listed(None, true, None, 4).await, [6, 5, 4, 3]);
    assert_eq!(subject.listed(None, true, Some(3), 4).await, [2, 1]);
    assert_eq!(subject.listed(None, true, Some(1), 4).await, [0; 0]);
    assert_eq!(
        subject.listed(Some(Schema::Pkm), true, Some(5), 1).await,
        [3]
    );
    assert_eq!(
        subject.listed(Some(Schema::Pkm), true, Some(4), 4).await,
        [3, 1],
        "after one of the other home"
    );
    end(subject, 3, BatchStatus::Completed).await;
    assert_eq!(subject.listed(None, false, Some(3), 4).await, [2, 1]);
    assert_eq!(subject.listed(None, true, Some(99), 4).await, [0; 0]);
}

/// Batches of both homes that are made in the same moment are paged without gap, too.
pub async fn batches_of_one_moment_page_without_gap(subject: &T1Subject) {
    let mut all = Vec::new();
    for number in 1..=24_u128 {
        let schema = Schema::of_test_mode(number.is_multiple_of(3));
        subject.add_one(TENANT, schema, number).await;
        all.push(number);
    }
    for limit in [1, 5, 7] {
        let mut seen = Vec::new();
        loop {
            let page = subject
                .listed(None, true, seen.last().copied(), limit)
                .await;
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        seen.sort_unstable();
        assert_eq!(seen, all, "each once");
    }
}

/// A page has its limits.
pub async fn a_page_of_batches_is_bounded(subject: &T1Subject) {
    six(subject).await;
    assert_eq!(subject.listed(None, true, None, 0).await, [0; 0]);
    assert_eq!(subject.listed(None, true, None, 2).await, [6, 5]);
    let all = subject.listed(None, true, None, usize::MAX).await;
    assert!(all.len() == 6 && all.len() <= ItemScan::LIMIT_MAX);
}

/// A listed batch is the stored one.
pub async fn a_listed_batch_is_whole(subject: &T1Subject) {
    six(subject).await;
    let listed = subject.batches.batches(TENANT, None, true, None, 50).await;
    for batch in listed.expect("the store answers") {
        assert_eq!(subject.stored(batch.id).await, batch);
    }
}

/// Batches that did not end are counted in both homes, each up to a number, and no other tenant's.
pub async fn batches_that_did_not_end_are_counted(subject: &T1Subject) {
    let counted = async |tenant, at_most: u64| {
        let count = subject.batches.open_batches(tenant, at_most).await;
        count.expect("the store answers")
    };
    assert_eq!(counted(TENANT, 10).await, 0);
    six(subject).await;
    end(subject, 5, BatchStatus::Completed).await;
    end(subject, 1, BatchStatus::Submitted).await;
    assert_eq!(counted(TENANT, 10).await, 5);
    assert_eq!(counted(TENANT, 1).await, 2);
    let other = hapax_core::Tenant::from_uuid(uuid::Uuid::from_u128(77));
    assert_eq!(counted(other, 10).await, 0);
}
