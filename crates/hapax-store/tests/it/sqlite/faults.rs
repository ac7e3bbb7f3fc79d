//! What goes wrong: a full disk, too much work, moves that cannot be written.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Kind, Ledger, Move, Policy, RecordId, Swap, Sweep, Version};
use hapax_store::sqlite::SqliteOptions;
use hapax_store::{Clock, SqliteLedger};
use tokio::sync::mpsc;

use super::{beside, claim, count, folder, insert, open_in};

#[tokio::test]
async fn a_full_disk_is_unavailable_and_is_got_over() {
    let (folder, clock) = (folder(), Clock::system());
    let options = SqliteOptions {
        clock: clock.clone(),
        pages_max: Some(200),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let policy = Policy {
        ttl: Duration::from_secs(60),
        ..Policy::default()
    };
    let large = |n: u128| {
        let mut claim = claim(&format!("k{n}"), n).with_policy(policy);
        std::sync::Arc::make_mut(&mut claim.request).body = Some(noise(50_000));
        claim
    };
    let mut written = 0;
    let refused = loop {
        match ledger.swap(vec![insert(&ledger, &large(written))]).await {
            Ok(swaps) => assert_eq!(swaps, [Swap::Written]),
            Err(error) => break error,
        }
        written += 1;
        assert!(written < 100, "the disk never fills");
    };
    assert_eq!(refused.kind(), Kind::Unavailable);
    assert!(refused.to_string().contains("full"), "{refused}");
    let unready = ledger.check().await.expect_err("claims are refused");
    assert_eq!(unready.kind(), Kind::Unavailable, "{unready}");
    let other = beside(&ledger);
    assert_eq!(
        count(&other, "SELECT count(1) FROM idempotency_keys"),
        i64::try_from(written).expect("few")
    );
    assert_eq!(
        count(&other, "SELECT count(1) FROM idempotency_body"),
        i64::try_from(written).expect("few")
    );

    clock.advance(Duration::from_secs(120));
    ledger
        .sweep(Sweep::default())
        .await
        .expect("a sweep makes space");
    ledger.check().await.expect("it finds the space");
    let kept = "SELECT count(1) FROM _meta WHERE key = 'write_probe'";
    assert_eq!(count(&other, kept), 0, "and leaves nothing in it");

    let swaps = ledger
        .swap(vec![insert(&ledger, &large(written))])
        .await
        .expect("there is space again");
    assert_eq!(swaps, [Swap::Written]);
}

#[tokio::test]
async fn too_much_waiting_work_is_refused_at_once_and_none_of_the_rest_is_lost() {
    let folder = folder();
    let ledger = Arc::new(open_in(
        &folder,
        SqliteOptions {
            queue_max: 8,
            ..SqliteOptions::default()
        },
    ));
    let other = beside(&ledger);
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the writer has to wait");
    let (done, mut answers) = mpsc::unbounded_channel();
    for n in 0..40 {
        let (ledger, done) = (ledger.clone(), done.clone());
        tokio::spawn(async move {
            let answer = ledger
                .swap(vec![insert(&*ledger, &claim(&format!("k{n}"), n))])
                .await;
            done.send(answer).expect("the test listens");
        });
    }
    drop(done);

    let first = answers
        .recv()
        .await
        .expect("an answer while the writer waits");
    let refused = first.expect_err("the queue is full");
    assert_eq!(refused.kind(), Kind::Unavailable);
    other.execute_batch("COMMIT").expect("the writer goes on");
    let mut written = 0;
    while let Some(answer) = answers.recv().await {
        match answer {
            Ok(swaps) => written += swaps.len(),
            Err(error) => assert_eq!(error.kind(), Kind::Unavailable),
        }
    }
    assert!(written >= 8, "{written} waited within the limit");
    ledger.close().await.expect("it files what it noted down");
    let stored = count(&other, "SELECT count(1) FROM idempotency_keys");
    assert_eq!(stored, i64::try_from(written).expect("few"));
}

/// Hands in `batches` while the writer waits, so that they form one group.
async fn in_one_group(
    ledger: &Arc<SqliteLedger>,
    batches: Vec<Vec<Move>>,
) -> Vec<Result<Vec<Swap>, Kind>> {
    let other = beside(ledger);
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the writer has to wait");
    let tasks: Vec<_> = batches
        .into_iter()
        .map(|batch| {
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.swap(batch).await.map_err(|error| error.kind()) })
        })
        .collect();
    // On one thread every task has handed in its moves before this goes on.
    tokio::task::yield_now().await;
    other.execute_batch("COMMIT").expect("the writer goes on");
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("no panic"));
    }
    answers
}

#[tokio::test]
async fn a_move_that_cannot_be_written_fails_its_own_caller_only() {
    let folder = folder();
    let ledger = Arc::new(open_in(&folder, SqliteOptions::default()));
    let good: Vec<_> = (0..6)
        .map(|n| insert(&*ledger, &claim(&format!("k{n}"), n + 1)))
        .collect();
    let mut bad = insert(&*ledger, &claim("bad", 99));
    Arc::make_mut(&mut bad.next).version = Version(-1);

    let batches = vec![
        vec![good[0].clone()],
        vec![good[1].clone(), bad.clone(), good[2].clone()],
        vec![good[3].clone(), good[4].clone()],
        vec![bad],
        vec![good[5].clone()],
    ];
    let answers = in_one_group(&ledger, batches).await;

    let written = |moves: usize| Ok(vec![Swap::Written; moves]);
    assert_eq!(
        answers,
        [
            written(1),
            Err(Kind::Corrupt),
            written(2),
            Err(Kind::Corrupt),
            written(1)
        ]
    );
    let stored = "SELECT group_concat(idempotency_key) FROM (SELECT idempotency_key FROM idempotency_keys ORDER BY 1)";
    let stored: String = beside(&ledger)
        .query_row(stored, [], |row| row.get(0))
        .expect("it answers");
    assert_eq!(
        stored, "k0,k3,k4,k5",
        "nothing of a batch that failed is left"
    );
}

#[tokio::test]
async fn two_keys_with_one_id_are_an_error_and_never_a_replay() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let first = insert(&ledger, &claim("k", 1));
    ledger.swap(vec![first.clone()]).await.expect("it answers");
    let id: RecordId = first.next.id;
    let mut other = insert(&ledger, &claim("other", 2));
    Arc::make_mut(&mut other.next).id = id;

    let refused = ledger
        .swap(vec![other.clone()])
        .await
        .expect_err("it is noticed");
    assert_eq!(refused.kind(), Kind::Corrupt);
    Arc::make_mut(&mut other.next).version = first.next.version;
    let renewal = Move::replacing(&other.next, other.next.renewed(ledger.now()));
    assert_eq!(
        ledger
            .swap(vec![renewal])
            .await
            .expect_err("it is noticed")
            .kind(),
        Kind::Corrupt
    );

    let stored = ledger
        .find(first.next.scope.tenant, id)
        .await
        .expect("it answers");
    assert_eq!(stored.as_ref(), Some(&*first.next));
}

#[tokio::test]
async fn a_swap_over_its_limit_is_refused() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let moves = |count: usize| vec![insert(&ledger, &claim("k", 1)); count];

    let refused = ledger
        .swap(moves(SqliteLedger::MOVES_MAX + 1))
        .await
        .expect_err("it is refused");
    assert_eq!(refused.kind(), Kind::Limit);
    assert_eq!(
        ledger
            .swap(moves(SqliteLedger::MOVES_MAX))
            .await
            .expect("it answers")
            .len(),
        SqliteLedger::MOVES_MAX
    );
}

/// Bytes that do not compress.
pub(super) fn noise(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        })
        .collect()
}
