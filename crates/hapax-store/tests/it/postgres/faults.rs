//! What goes wrong, and what the caller is told: lost connections, warnings, refused values, crossing batches.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Kind, Ledger, Move, Outcome, Swap};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;

use super::database::Database;
use super::{claim, inserting};

const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

async fn opened() -> (Database, Arc<PgLedger>) {
    let database = Database::create().await;
    let ledger = Arc::new(database.open(PgOptions::default()).await);
    (database, ledger)
}

/// Swaps until the ledger is back, which it has to be by itself and soon.
async fn swap_soon(ledger: &PgLedger, key: &str) -> Vec<Swap> {
    for _ in 0..100 {
        match ledger
            .swap(vec![inserting(ledger, &claim(1, key, 9))])
            .await
        {
            Ok(swaps) => return swaps,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the ledger did not come back");
}

#[tokio::test]
async fn a_backend_terminated_before_the_commit_means_that_nothing_was_written() {
    let (database, ledger) = opened().await;
    let mut raw = database.raw().await;
    let held = inserting(&ledger, &claim(1, "held", 1));
    let next = held.next.clone();
    ledger.swap(vec![held]).await.unwrap();
    // Whoever moves this row now waits for us, so the group is caught in the middle.
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT id FROM idempotency_keys FOR UPDATE")
        .await
        .unwrap();
    let settle = Move::replacing(&next, next.settled(Outcome::text(200, "ok"), ledger.now()));
    let waiting = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.swap(vec![settle]).await }
    });
    while lock.query_one("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'", &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    lock.query_one(TERMINATE, &[]).await.unwrap();

    let error = waiting.await.unwrap().unwrap_err();
    lock.commit().await.unwrap();

    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert_eq!(swap_soon(&ledger, "after").await, [Swap::Written]);
    assert_eq!(
        ledger.find(next.scope.tenant, next.id).await.unwrap(),
        Some((*next).clone()),
        "nothing was written"
    );
}

#[tokio::test]
async fn a_connection_lost_in_the_commit_leaves_the_outcome_unknown() {
    let (database, ledger) = opened().await;
    let raw = database.raw().await;
    // A deferred trigger runs inside COMMIT, and ends the backend there.
    raw.batch_execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \
         $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER die AFTER INSERT ON idempotency_keys DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION die()",
    )
    .await
    .unwrap();

    let error = ledger
        .swap(vec![inserting(&ledger, &claim(1, "k", 1))])
        .await
        .unwrap_err();

    assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
    raw.batch_execute("DROP TRIGGER die ON idempotency_keys")
        .await
        .unwrap();
    assert_eq!(swap_soon(&ledger, "after").await, [Swap::Written]);
}

#[tokio::test]
async fn a_warning_on_commit_leaves_the_outcome_unknown() {
    let (database, ledger) = opened().await;
    let raw = database.raw().await;
    // What a cancelled wait for a synchronous standby looks like: success, and a warning.
    raw.batch_execute(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON idempotency_keys DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION warn()",
    )
    .await
    .unwrap();

    let error = ledger
        .swap(vec![inserting(&ledger, &claim(1, "k", 1))])
        .await
        .unwrap_err();

    assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
    raw.batch_execute("DROP TRIGGER warn ON idempotency_keys")
        .await
        .unwrap();
    assert_eq!(swap_soon(&ledger, "after").await, [Swap::Written]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_given_up() {
    let database = Database::create().await;
    let options = PgOptions {
        commit_timeout: Duration::from_millis(300),
        ..PgOptions::default()
    };
    let ledger = database.open(options).await;
    let raw = database.raw().await;
    raw.batch_execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$; \
         CREATE TRIGGER slow BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    .await
    .unwrap();
    let early = ledger
        .swap(vec![inserting(&ledger, &claim(1, "early", 1))])
        .await
        .unwrap_err();
    assert_eq!(
        early.kind(),
        Kind::Unavailable,
        "the commit was not sent: {early}"
    );
    raw.batch_execute(
        "DROP TRIGGER slow ON idempotency_keys; CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON idempotency_keys \
         DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    .await
    .unwrap();

    let late = ledger
        .swap(vec![inserting(&ledger, &claim(1, "late", 1))])
        .await
        .unwrap_err();

    assert_eq!(late.kind(), Kind::OutcomeUnknown, "{late}");
    raw.batch_execute("DROP TRIGGER slow ON idempotency_keys")
        .await
        .unwrap();
    assert_eq!(swap_soon(&ledger, "after").await, [Swap::Written]);
}

#[tokio::test]
async fn idle_sessions_that_were_ended_are_replaced() {
    let (database, ledger) = opened().await;
    let tenant = claim(1, "k", 1).scope.tenant;
    ledger.find(tenant, claim(1, "k", 1).id()).await.unwrap();
    database
        .raw()
        .await
        .query_one(TERMINATE, &[])
        .await
        .unwrap();

    assert_eq!(swap_soon(&ledger, "k").await, [Swap::Written]);
    let mut found = ledger.find(tenant, claim(1, "k", 1).id()).await;
    for _ in 0..20 {
        if found.is_ok() {
            break;
        }
        found = ledger.find(tenant, claim(1, "k", 1).id()).await;
    }
    assert!(found.unwrap().is_some());
    ledger.check().await.unwrap();
}

#[tokio::test]
async fn a_refused_move_fails_its_caller_only() {
    let (_database, ledger) = opened().await;
    let good: Vec<_> = (0..20).map(|n| claim(n % 3, &format!("k{n}"), n)).collect();
    let mut bad = claim(1, "bad", 99);
    std::sync::Arc::make_mut(&mut bad.request).path = "/nul\0byte".to_owned();
    let calls: Vec<_> = good
        .iter()
        .chain([&bad])
        .map(|claim| vec![inserting(&ledger, claim)])
        .collect();

    let answers: Vec<_> = calls
        .into_iter()
        .map(|moves| {
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.swap(moves).await })
        })
        .collect();

    let mut kinds = Vec::new();
    for answer in answers {
        kinds.push(answer.await.unwrap().map_err(|error| error.kind()));
    }
    assert_eq!(kinds.pop(), Some(Err(Kind::Limit)));
    assert!(
        kinds.iter().all(|kind| *kind == Ok(vec![Swap::Written])),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn a_record_locked_by_somebody_else_does_not_hold_up_the_others() {
    let (database, ledger) = opened().await;
    let held = inserting(&ledger, &claim(1, "locked", 1));
    let next = held.next.clone();
    ledger.swap(vec![held]).await.unwrap();
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT id FROM idempotency_keys FOR UPDATE")
        .await
        .unwrap();

    let stuck = Move::replacing(&next, next.settled(Outcome::text(200, "ok"), ledger.now()));
    let mut calls = vec![ledger.swap(vec![stuck.clone()])];
    calls.extend(
        (0..9).map(|n| ledger.swap(vec![inserting(&ledger, &claim(n % 2, &format!("k{n}"), n))])),
    );
    let mut answers = futures_util::future::join_all(calls).await;

    let stuck_answer = answers.remove(0).unwrap_err();
    assert_eq!(stuck_answer.kind(), Kind::Unavailable, "{stuck_answer}");
    assert!(
        answers
            .into_iter()
            .all(|answer| answer.is_ok_and(|swaps| swaps == [Swap::Written]))
    );
    lock.commit().await.unwrap();
    assert_eq!(ledger.swap(vec![stuck]).await.unwrap(), [Swap::Written]);
}

#[tokio::test]
async fn two_keys_with_one_id_are_never_a_replay() {
    let (database, ledger) = opened().await;
    let step = inserting(&ledger, &claim(1, "k", 1));
    ledger.swap(vec![step.clone()]).await.unwrap();
    database
        .raw()
        .await
        .batch_execute("UPDATE idempotency_keys SET idempotency_key = 'another'")
        .await
        .unwrap();

    assert_eq!(
        ledger.swap(vec![step]).await.unwrap_err().kind(),
        Kind::Corrupt
    );
}

#[tokio::test]
async fn a_read_only_server_fails_the_check() {
    let (database, ledger) = opened().await;
    ledger.check().await.unwrap();
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "ALTER DATABASE {} SET default_transaction_read_only = on",
        database.name
    ))
    .await
    .unwrap();
    raw.query_one(TERMINATE, &[]).await.unwrap();
    let mut last = None;
    for _ in 0..20 {
        last = ledger.check().await.err();
    }
    assert_eq!(last.map(|error| error.kind()), Some(Kind::Unavailable));
    assert_eq!(
        ledger
            .swap(vec![inserting(&ledger, &claim(1, "k", 1))])
            .await
            .unwrap_err()
            .kind(),
        Kind::Unavailable
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_cross_on_two_ledgers_do_not_block_each_other() {
    let database = Database::create().await;
    let ledgers = [
        Arc::new(database.open(PgOptions::default()).await),
        Arc::new(database.open(PgOptions::default()).await),
    ];
    let tasks: Vec<_> = (0..8u128)
        .map(|task| {
            let ledger = ledgers[(task % 2) as usize].clone();
            tokio::spawn(async move {
                let mut written = 0;
                for round in 0..10u128 {
                    let mut order: Vec<u128> =
                        (0..30).map(|n| (n * (2 * task + 1) + round) % 30).collect();
                    order.dedup();
                    let moves: Vec<Move> = order
                        .iter()
                        .map(|n| {
                            inserting(
                                &ledger,
                                &claim(n % 3, &format!("k{round}-{n}"), task * 1000 + n),
                            )
                        })
                        .collect();
                    let mine: Vec<_> = moves.iter().map(|step| step.next.clone()).collect();
                    let swaps = ledger
                        .swap(moves)
                        .await
                        .expect("crossing batches get through");
                    let settles: Vec<Move> = mine
                        .iter()
                        .zip(&swaps)
                        .map(|(next, swap)| match swap {
                            Swap::Written | Swap::Stale(None) => next.clone(),
                            Swap::Stale(Some(stored)) => Arc::new((**stored).clone()),
                        })
                        .filter(|record| record.hold().is_some())
                        .map(|record| {
                            Move::replacing(
                                &record,
                                record.settled(Outcome::text(200, "ok"), ledger.now()),
                            )
                        })
                        .collect();
                    let swaps = ledger
                        .swap(settles)
                        .await
                        .expect("crossing batches get through");
                    written += swaps
                        .into_iter()
                        .filter(|swap| *swap == Swap::Written)
                        .count();
                }
                written
            })
        })
        .collect();
    let mut written = 0;
    for task in tasks {
        written += task.await.unwrap();
    }
    assert_eq!(written, 300, "every key is settled once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_backends_die_nothing_acknowledged_is_lost_and_nothing_refused_is_there() {
    let (database, ledger) = opened().await;
    let tasks: Vec<_> = (0..16u128)
        .map(|task| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for n in 0..150u128 {
                    let claim = claim(task % 2, &format!("k{task}-{n}"), task * 1000 + n);
                    let answer = ledger.swap(vec![inserting(&ledger, &claim)]).await;
                    if answer.is_err() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    answers.push((claim, answer));
                }
                answers
            })
        })
        .collect();
    let raw = database.raw().await;
    let killer = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(40)).await;
            raw.query_one(TERMINATE, &[]).await.unwrap();
        }
    });
    let mut answers = Vec::new();
    for task in tasks {
        answers.extend(task.await.unwrap());
    }
    killer.abort();
    assert_eq!(swap_soon(&ledger, "after").await, [Swap::Written]);

    let mut failed = 0;
    for (claim, answer) in answers {
        let mut stored = ledger.find(claim.scope.tenant, claim.id()).await;
        while stored.is_err() {
            stored = ledger.find(claim.scope.tenant, claim.id()).await;
        }
        let is_there = stored.is_ok_and(|record| record.is_some());
        match answer {
            Ok(swaps) => assert!(
                swaps == [Swap::Written] && is_there,
                "an acknowledged write is there"
            ),
            Err(error) if error.kind() == Kind::Unavailable => {
                failed += 1;
                assert!(!is_there, "nothing was written: {error}");
            }
            Err(error) => {
                failed += 1;
                assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");
            }
        }
    }
    assert!(failed > 0, "the killer met some of them");
}

#[tokio::test]
async fn a_closed_ledger_has_committed_what_was_queued_and_takes_no_more() {
    let (_database, ledger) = opened().await;
    let calls: Vec<_> = (0..50)
        .map(|n| ledger.swap(vec![inserting(&ledger, &claim(1, &format!("k{n}"), n))]))
        .collect();
    let queued = futures_util::future::join_all(calls);
    let (answers, closed) = futures_util::future::join(queued, ledger.close()).await;
    closed.unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Ok(swaps) if *swaps == [Swap::Written]))
    );
    assert_eq!(
        ledger
            .swap(vec![inserting(&ledger, &claim(1, "late", 1))])
            .await
            .unwrap_err()
            .kind(),
        Kind::Unavailable
    );
    assert_eq!(ledger.check().await.unwrap_err().kind(), Kind::Unavailable);
}

#[tokio::test]
async fn a_server_that_is_away_is_said_at_once() {
    let (database, ledger) = opened().await;
    let raw = super::database::connect(&super::database::server_url()).await;
    raw.batch_execute(&format!(
        "ALTER DATABASE {} ALLOW_CONNECTIONS false",
        database.name
    ))
    .await
    .unwrap();
    raw.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1",
        &[&database.name],
    )
    .await
    .unwrap();
    let start = std::time::Instant::now();
    for _ in 0..20 {
        let answer = ledger
            .swap(vec![inserting(&ledger, &claim(1, "k", 1))])
            .await;
        assert_eq!(answer.unwrap_err().kind(), Kind::Unavailable);
    }
    assert!(start.elapsed() < Duration::from_secs(2));
    raw.batch_execute(&format!(
        "ALTER DATABASE {} ALLOW_CONNECTIONS true",
        database.name
    ))
    .await
    .unwrap();
    assert_eq!(swap_soon(&ledger, "back").await, [Swap::Written]);
}

#[tokio::test]
async fn a_server_whose_disk_was_full_at_the_last_write_is_not_ready() {
    let (database, ledger) = opened().await;
    let raw = database.raw().await;
    raw.batch_execute(
        "CREATE FUNCTION fills() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$; \
         CREATE TRIGGER fills BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION fills()",
    )
    .await
    .unwrap();
    ledger.check().await.expect("nobody has written yet");
    let step = inserting(&ledger, &claim(1, "k", 1));
    let refused = ledger.swap(vec![step]).await.expect_err("it is full");
    assert_eq!(refused.kind(), Kind::Unavailable, "{refused}");

    let unready = ledger.check().await.expect_err("claims are refused");
    assert_eq!(unready.kind(), Kind::Unavailable);
    assert!(unready.to_string().contains("full"), "{unready}");

    raw.batch_execute("DROP TRIGGER fills ON idempotency_keys")
        .await
        .unwrap();
    assert_eq!(swap_soon(&ledger, "k").await, [Swap::Written]);
    ledger.check().await.expect("a write succeeded");
}
