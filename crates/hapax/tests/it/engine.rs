//! The engine: waiting and sharing, heartbeats, settling through faults, and a cache that never lies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax::core::{
    Cause, Claim, Doubt, Fingerprint, Key, Kind, OnLost, Outcome, Policy, Scope, State, Tenant,
};
use hapax::store::Clock;
use hapax::{Claimed, Engine, Once, Settled};

use crate::faulty::{Fault, Faulty};

struct Setup {
    engine: Engine,
    ledger: Arc<Faulty>,
    clock: Clock,
}

fn setup() -> Setup {
    let clock = Clock::system();
    let ledger = Arc::new(Faulty::new(clock.clone()));
    Setup {
        engine: Engine::new(ledger.clone()),
        ledger,
        clock,
    }
}

fn claim(key: &str) -> Claim {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    Claim::new(
        scope,
        Key::new(key).unwrap(),
        Fingerprint::of(b"asked"),
        Engine::owner(),
    )
}

fn waiting(key: &str) -> Claim {
    claim(key).with_policy(Policy {
        wait: Duration::from_secs(30),
        ..Policy::default()
    })
}

#[tokio::test]
async fn sixty_four_duplicates_share_one_run() {
    let Setup { engine, .. } = setup();
    let runs = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (engine, runs) = (engine.clone(), runs.clone());
            tokio::spawn(async move {
                let work = async |_fence| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Outcome::text(200, "once")
                };
                engine
                    .once(waiting("k"), work)
                    .await
                    .unwrap()
                    .receipt()
                    .unwrap()
            })
        })
        .collect();
    let mut replayed = 0;
    for task in tasks {
        let receipt = task.await.unwrap();
        assert_eq!(*receipt.outcome, Outcome::text(200, "once"));
        replayed += usize::from(receipt.replayed);
    }
    assert_eq!((runs.load(Ordering::SeqCst), replayed), (1, 63));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_and_does_not_sit_out_its_poll() {
    let Setup { engine, ledger, .. } = setup();
    let Claimed::Granted(lease, _) = engine.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    let waiter = tokio::spawn({
        let engine = engine.clone();
        async move { engine.claim(waiting("k")).await }
    });
    tokio::task::yield_now().await;
    let finds = ledger.finds.load(Ordering::SeqCst);
    let before = tokio::time::Instant::now();
    assert!(matches!(
        engine
            .settle(lease, Outcome::text(200, "ok"))
            .await
            .unwrap(),
        Settled::Recorded(_)
    ));
    assert!(matches!(waiter.await.unwrap().unwrap(), Claimed::Replay(_)));
    assert_eq!(before.elapsed(), Duration::ZERO, "no timer had to fire");
    assert_eq!(
        ledger.finds.load(Ordering::SeqCst),
        finds,
        "the settled record was at hand"
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiter_sees_what_another_process_settled() {
    let Setup { engine, ledger, .. } = setup();
    let elsewhere = Engine::new(ledger);
    let Claimed::Granted(lease, _) = elsewhere.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    let waiter = tokio::spawn(async move { engine.claim(waiting("k")).await });
    tokio::task::yield_now().await;
    elsewhere
        .settle(lease, Outcome::text(200, "there"))
        .await
        .unwrap();
    assert!(matches!(waiter.await.unwrap().unwrap(), Claimed::Replay(_)));
}

#[tokio::test]
async fn a_duplicate_that_may_not_wait_is_told_so_at_once() {
    let Setup { engine, .. } = setup();
    let Claimed::Granted(_lease, _) = engine.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    let Claimed::Busy(held_for) = engine.claim(claim("k")).await.unwrap() else {
        panic!("held")
    };
    assert!(held_for <= Duration::from_secs(60));
}

#[tokio::test]
async fn a_released_key_goes_to_one_of_the_waiters() {
    let Setup { engine, .. } = setup();
    let Claimed::Granted(lease, _) = engine.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let work = async |_fence| Outcome::text(200, "second");
                engine
                    .once(waiting("k"), work)
                    .await
                    .unwrap()
                    .receipt()
                    .unwrap()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    assert!(engine.release(lease).await.unwrap());
    let mut made = 0;
    for waiter in waiters {
        made += usize::from(!waiter.await.unwrap().replayed);
    }
    assert_eq!(made, 1);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_keeps_the_lease_while_the_work_goes_on() {
    let Setup { engine, clock, .. } = setup();
    let policy = Policy {
        lease: Duration::from_secs(3),
        ..Policy::default()
    };
    let rival = engine.clone();
    let work = async |_fence| {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
            assert!(
                matches!(rival.claim(claim("k")).await.unwrap(), Claimed::Busy(_)),
                "nobody takes it over"
            );
        }
        Outcome::text(200, "slow")
    };
    let receipt = engine
        .once(claim("k").with_policy(policy), work)
        .await
        .unwrap()
        .receipt()
        .unwrap();
    assert!(!receipt.replayed);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_fails_is_tried_again_and_the_work_goes_on() {
    let Setup { engine, ledger, .. } = setup();
    let policy = Policy {
        lease: Duration::from_secs(3),
        ..Policy::default()
    };
    let Claimed::Granted(lease, _) = engine.claim(claim("k").with_policy(policy)).await.unwrap()
    else {
        panic!("fresh")
    };
    let granted = lease.record().version;
    ledger.fail([Fault::Unavailable, Fault::WrittenUnknown, Fault::None]);
    let (lease, ()) = engine
        .run(lease, tokio::time::sleep(Duration::from_millis(3500)))
        .await;
    assert!(lease.record().version > granted, "a later beat got through");
    assert!(matches!(
        engine
            .settle(lease, Outcome::text(200, "ok"))
            .await
            .unwrap(),
        Settled::Recorded(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_settle_is_tried_again_until_the_store_is_back() {
    let Setup { engine, ledger, .. } = setup();
    let Claimed::Granted(lease, _) = engine.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    ledger.fail([Fault::Unavailable, Fault::Unavailable, Fault::LostUnknown]);
    assert!(matches!(
        engine
            .settle(lease, Outcome::text(200, "ok"))
            .await
            .unwrap(),
        Settled::Recorded(_)
    ));
    assert!(matches!(
        engine.claim(claim("k")).await.unwrap(),
        Claimed::Replay(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_settle_whose_answer_got_lost_is_recognised_as_done() {
    let Setup { engine, ledger, .. } = setup();
    let Claimed::Granted(lease, _) = engine.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    ledger.fail([Fault::WrittenUnknown]);
    let Settled::Recorded(receipt) = engine
        .settle(lease, Outcome::text(200, "ok"))
        .await
        .unwrap()
    else {
        panic!("it was written")
    };
    assert_eq!(*receipt.outcome, Outcome::text(200, "ok"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_is_an_error_and_leaves_the_key_held() {
    let Setup { engine, ledger, .. } = setup();
    let Claimed::Granted(lease, _) = engine.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    ledger.fail([Fault::Unavailable; 20]);
    let error = engine
        .settle(lease, Outcome::text(200, "ok"))
        .await
        .unwrap_err();
    assert!(error.is_transient());
    ledger.fail([]);
    let stored = engine
        .find(&claim("k").scope, &claim("k").key)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(stored.state, State::Held(_)));
}

#[tokio::test]
async fn a_claim_whose_outcome_is_unknown_is_not_granted() {
    let Setup { engine, ledger, .. } = setup();
    ledger.fail([Fault::WrittenUnknown]);
    let first = claim("k");
    let error = engine.claim(first.clone()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown);
    assert!(
        matches!(engine.claim(claim("k")).await.unwrap(), Claimed::Busy(_)),
        "others see the write"
    );
    // The same attempt, asked again, confirms its own write with another one.
    let Claimed::Granted(lease, cause) = engine.claim(first).await.unwrap() else {
        panic!("it is mine")
    };
    assert_eq!(cause, Cause::Mine);
    assert!(engine.release(lease).await.unwrap());
}

#[tokio::test]
async fn a_holder_that_lost_its_lease_records_nothing() {
    let Setup { engine, clock, .. } = setup();
    let Claimed::Granted(stale, _) = engine.claim(claim("k")).await.unwrap() else {
        panic!("fresh")
    };
    clock.advance(Duration::from_secs(61));
    let Claimed::Granted(current, cause) = engine.claim(claim("k")).await.unwrap() else {
        panic!("lost")
    };
    assert_eq!(cause, Cause::Lost);
    assert!(matches!(
        engine
            .settle(stale, Outcome::text(500, "stale"))
            .await
            .unwrap(),
        Settled::Lost(_)
    ));
    assert!(matches!(
        engine
            .settle(current, Outcome::text(200, "ok"))
            .await
            .unwrap(),
        Settled::Recorded(_)
    ));
}

#[tokio::test]
async fn doubt_under_hold_is_answered_until_it_is_deleted() {
    let Setup { engine, .. } = setup();
    let policy = Policy {
        on_lost: OnLost::Hold,
        ..Policy::default()
    };
    let Claimed::Granted(lease, _) = engine.claim(claim("k").with_policy(policy)).await.unwrap()
    else {
        panic!("fresh")
    };
    let id = lease.id();
    assert!(engine.doubt(lease, Doubt::OutcomeUnknown).await.unwrap());
    assert!(matches!(
        engine.claim(claim("k")).await.unwrap(),
        Claimed::Lost(Doubt::OutcomeUnknown)
    ));
    assert!(
        engine
            .delete(Tenant::DEFAULT, id, "op")
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        engine
            .delete(Tenant::DEFAULT, id, "op")
            .await
            .unwrap()
            .is_none(),
        "it is gone"
    );
    assert!(matches!(
        engine.claim(claim("k")).await.unwrap(),
        Claimed::Granted(_, Cause::Fresh)
    ));
}

#[tokio::test]
async fn a_cached_replay_asks_the_store_for_nothing() {
    let Setup { engine, ledger, .. } = setup();
    engine
        .once(claim("k"), async |_| Outcome::text(200, "ok"))
        .await
        .unwrap();
    let (swaps, finds) = (
        ledger.swaps.load(Ordering::SeqCst),
        ledger.finds.load(Ordering::SeqCst),
    );
    for _ in 0..10 {
        assert!(matches!(
            engine.claim(claim("k")).await.unwrap(),
            Claimed::Replay(_)
        ));
    }
    assert_eq!(
        (
            ledger.swaps.load(Ordering::SeqCst),
            ledger.finds.load(Ordering::SeqCst)
        ),
        (swaps, finds)
    );
}

#[tokio::test]
async fn the_cache_never_serves_what_another_process_deleted() {
    let Setup { engine, ledger, .. } = setup();
    let receipt = engine
        .once(claim("k"), async |_| Outcome::text(200, "ok"))
        .await
        .unwrap()
        .receipt()
        .unwrap();
    assert!(matches!(
        engine.claim(claim("k")).await.unwrap(),
        Claimed::Replay(_)
    ));
    let elsewhere = Engine::new(ledger);
    assert!(
        elsewhere
            .delete(Tenant::DEFAULT, receipt.id, "op")
            .await
            .unwrap()
            .is_some()
    );
    assert!(matches!(
        engine.claim(claim("k")).await.unwrap(),
        Claimed::Granted(_, Cause::Fresh)
    ));
}

#[tokio::test]
async fn the_cache_never_serves_what_has_expired() {
    let Setup { engine, clock, .. } = setup();
    engine
        .once(claim("k"), async |_| Outcome::text(200, "ok"))
        .await
        .unwrap();
    assert!(matches!(
        engine.claim(claim("k")).await.unwrap(),
        Claimed::Replay(_)
    ));
    clock.advance(Duration::from_secs(3601));
    assert!(matches!(
        engine.claim(claim("k")).await.unwrap(),
        Claimed::Granted(_, Cause::Expired)
    ));
}

#[tokio::test]
async fn once_tells_busy_conflict_and_doubt_from_done() {
    let Setup { engine, .. } = setup();
    let policy = Policy {
        on_lost: OnLost::Hold,
        ..Policy::default()
    };
    let Claimed::Granted(lease, _) = engine.claim(claim("k").with_policy(policy)).await.unwrap()
    else {
        panic!("fresh")
    };
    let never = async |_fence| -> Outcome { panic!("it must not run") };
    assert!(matches!(
        engine.once(claim("k"), never).await.unwrap(),
        Once::Busy(_)
    ));
    let other = Claim {
        fingerprint: Fingerprint::of(b"other"),
        ..claim("k")
    };
    assert!(matches!(
        engine.once(other, never).await.unwrap(),
        Once::Conflict(_)
    ));
    engine.doubt(lease, Doubt::OutcomeUnknown).await.unwrap();
    assert!(
        engine
            .once(claim("k"), never)
            .await
            .unwrap()
            .receipt()
            .is_err()
    );
}

#[tokio::test]
async fn a_process_that_must_stop_gives_up_what_it_works_under() {
    let Setup { engine, .. } = setup();
    for (on_lost, key) in [(OnLost::Retry, "retry"), (OnLost::Hold, "hold")] {
        let policy = Policy {
            on_lost,
            ..Policy::default()
        };
        let work = {
            let engine = engine.clone();
            async move {
                let never = async |_fence| -> Outcome { std::future::pending().await };
                engine.once(claim(key).with_policy(policy), never).await
            }
        };
        tokio::spawn(engine.outlive(work));
    }
    while engine
        .find(&claim("hold").scope, &claim("hold").key)
        .await
        .unwrap()
        .is_none()
    {
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    assert!(!engine.drain(Duration::from_millis(5)).await);
    assert_eq!(engine.abandon().await, 2);
    assert!(matches!(
        engine.claim(claim("retry")).await.unwrap(),
        Claimed::Granted(_, Cause::Fresh)
    ));
    assert!(matches!(
        engine.claim(claim("hold")).await.unwrap(),
        Claimed::Lost(Doubt::OutcomeUnknown)
    ));
}

#[tokio::test]
async fn draining_waits_for_work_that_outlives_its_callers() {
    let Setup { engine, .. } = setup();
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let done = tokio::spawn(engine.outlive(async move { wait.await.is_ok() }));
    assert!(
        !engine.drain(Duration::from_millis(5)).await,
        "it is still running"
    );
    go.send(()).unwrap();
    assert!(engine.drain(Duration::from_secs(30)).await);
    assert!(done.await.unwrap());
}
