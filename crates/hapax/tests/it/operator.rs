//! What a person may do to a key, what the audit trail says of it, and what erasing leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use hapax::core::{
    Action, Cause, Claim, Doubt, Fingerprint, Key, Lease, Ledger, Note, NoteScan, OnLost, Outcome,
    Policy, Scan, Scope, State, Subject, Tenant,
};
use hapax::store::{Clock, MemoryLedger};
use hapax::{Claimed, Engine, IdempotencyLayer, Once, Ruled, Settled};
use tower::ServiceExt;

struct Setup {
    engine: Engine,
    ledger: Arc<MemoryLedger>,
    clock: Clock,
}

fn setup() -> Setup {
    let clock = Clock::system();
    let ledger = Arc::new(MemoryLedger::with_clock(clock.clone()));
    Setup {
        engine: Engine::new(ledger.clone()).with_audit(),
        ledger,
        clock,
    }
}

fn claim(key: &str) -> Claim {
    let scope = Scope::new(Tenant::DEFAULT, "POST:test").unwrap();
    let asked = Fingerprint::of(b"asked");
    Claim::new(scope, Key::new(key).unwrap(), asked, Engine::owner()).with_policy(Policy {
        on_lost: OnLost::Hold,
        ..Policy::default()
    })
}

async fn granted(engine: &Engine, claim: Claim) -> Lease {
    match engine.claim(claim).await.unwrap() {
        Claimed::Granted(lease, _) => lease,
        other => panic!("it is fresh, got {other:?}"),
    }
}

async fn settled(engine: &Engine, claim: Claim) {
    let lease = granted(engine, claim).await;
    let settled = engine.settle(lease, Outcome::text(201, "made")).await;
    assert!(matches!(settled.unwrap(), Settled::Recorded(_)));
}

/// The trail, oldest first, as (action, actor).
async fn trail(setup: &Setup) -> Vec<(Action, Option<String>)> {
    let notes = notes(setup).await.into_iter();
    notes.map(|note| (note.action, note.actor)).collect()
}

async fn notes(setup: &Setup) -> Vec<Note> {
    assert!(setup.engine.flush_notes().await, "memory is always written");
    let page = setup.ledger.notes(NoteScan::of(Tenant::DEFAULT)).await;
    let mut notes = page.unwrap().notes;
    notes.reverse();
    notes
}

fn by(action: Action, actor: &str) -> (Action, Option<String>) {
    (action, Some(actor.to_owned()))
}

#[tokio::test]
async fn replays_conflicts_and_expired_keys_are_noted() {
    let setup = setup();
    settled(&setup.engine, claim("k")).await;
    assert_eq!(trail(&setup).await, [], "a first run needs no note");

    assert!(setup.engine.cached(&claim("k")).is_some());
    let replay = setup.engine.claim(claim("k")).await.unwrap();
    assert!(matches!(replay, Claimed::Replay(_)));
    let mut other = claim("k");
    other.fingerprint = Fingerprint::of(b"other");
    let conflict = setup.engine.claim(other).await.unwrap();
    assert!(matches!(conflict, Claimed::Conflict(_)));
    setup.clock.advance(Duration::from_secs(86_400));
    let lease = granted(&setup.engine, claim("k")).await;

    let notes = notes(&setup).await;
    let actions: Vec<Action> = notes.iter().map(|note| note.action).collect();
    let expected = [
        Action::Replay,
        Action::Replay,
        Action::Conflict,
        Action::Expired,
    ];
    assert_eq!(actions, expected);
    assert!(notes.iter().all(|note| note.key_id == Some(lease.id())));
    assert_eq!(notes[0].details, r#"{"key":"k","status":201}"#);
    assert_eq!(notes[0].space.as_ref().unwrap().as_str(), "POST:test");
}

#[tokio::test]
async fn an_engine_without_audit_notes_no_answers() {
    let mut setup = setup();
    setup.engine = Engine::new(setup.ledger.clone());
    settled(&setup.engine, claim("k")).await;
    let _replay = setup.engine.claim(claim("k")).await.unwrap();
    assert_eq!(trail(&setup).await, []);
}

#[tokio::test]
async fn draining_writes_what_was_noted() {
    let setup = setup();
    settled(&setup.engine, claim("k")).await;
    for _ in 0..1000 {
        let _replay = setup.engine.claim(claim("k")).await.unwrap();
    }
    assert!(setup.engine.drain(Duration::from_secs(5)).await);
    let scan = NoteScan {
        limit: 500,
        ..NoteScan::of(Tenant::DEFAULT)
    };
    let first = setup.ledger.notes(scan.clone()).await.unwrap();
    let after = first.next;
    let second = setup.ledger.notes(NoteScan { after, ..scan }).await;
    let second = second.unwrap();
    assert_eq!((first.notes.len(), second.notes.len()), (500, 500));
    assert_eq!(second.next, None);
}

#[tokio::test]
async fn an_operator_settles_what_is_in_doubt_and_retries_get_it() {
    let setup = setup();
    let lease = granted(&setup.engine, claim("k")).await;
    let id = lease.id();
    let doubt = setup.engine.doubt(lease, Doubt::OutcomeUnknown).await;
    assert!(doubt.unwrap());
    // Doubt under hold outlasts the record's time; what settles it answers all the same.
    setup.clock.advance(Duration::from_secs(90 * 86_400));

    let outcome = Outcome::text(201, "it did");
    let settle = setup
        .engine
        .settle_by_operator(Tenant::DEFAULT, id, outcome.clone(), "ann");
    let Ruled::Recorded(receipt) = settle.await.unwrap() else {
        panic!("nobody else can say")
    };
    assert_eq!((receipt.id, receipt.replayed), (id, false));
    let replay = setup.engine.claim(claim("k")).await.unwrap();
    assert!(matches!(replay, Claimed::Replay(receipt) if *receipt.outcome == outcome));

    let other = Outcome::text(500, "it did not");
    let again = setup
        .engine
        .settle_by_operator(Tenant::DEFAULT, id, other, "bob");
    assert!(matches!(again.await.unwrap(), Ruled::Settled(receipt) if *receipt.outcome == outcome));
    let release = setup.engine.release_by_operator(Tenant::DEFAULT, id, "bob");
    assert!(matches!(release.await.unwrap(), Ruled::Settled(_)));
    let expected = [by(Action::Settled, "ann"), (Action::Replay, None)];
    assert_eq!(trail(&setup).await, expected, "a refusal leaves no note");
}

#[tokio::test]
async fn an_operator_pushes_no_live_holder_aside_and_may_once_its_lease_is_lost() {
    let setup = setup();
    let lease = granted(&setup.engine, claim("k")).await;
    let (id, tenant) = (lease.id(), Tenant::DEFAULT);
    let refused = setup.engine.release_by_operator(tenant, id, "ann").await;
    let Ruled::Held(left) = refused.unwrap() else {
        panic!("its holder is alive")
    };
    assert!(left <= Duration::from_secs(60) && !left.is_zero());
    let outcome = Outcome::text(200, "no");
    let refused = setup
        .engine
        .settle_by_operator(tenant, id, outcome, "ann")
        .await;
    assert!(matches!(refused.unwrap(), Ruled::Held(_)));

    setup.clock.advance(Duration::from_secs(61));
    let released = setup.engine.release_by_operator(tenant, id, "ann").await;
    assert!(matches!(released.unwrap(), Ruled::Released(record) if record.id == id));
    assert!(!setup.engine.release(lease).await.unwrap(), "it was lost");
    let Claimed::Granted(_, cause) = setup.engine.claim(claim("k")).await.unwrap() else {
        panic!("it was given back")
    };
    assert_eq!(cause, Cause::Fresh);
    assert_eq!(trail(&setup).await, [by(Action::Released, "ann")]);
}

#[tokio::test]
async fn an_operator_cannot_rule_on_what_is_not_there() {
    let setup = setup();
    let id = claim("k").id();
    let ruled = setup.engine.release_by_operator(Tenant::DEFAULT, id, "ann");
    assert!(matches!(ruled.await.unwrap(), Ruled::Absent));
    let lease = granted(&setup.engine, claim("k")).await;
    setup.clock.advance(Duration::from_secs(61));
    let stranger = Tenant::from_uuid(uuid::Uuid::from_u128(7));
    let ruled = setup
        .engine
        .release_by_operator(stranger, lease.id(), "eve");
    assert!(matches!(ruled.await.unwrap(), Ruled::Absent), "not hers");
}

#[tokio::test]
async fn a_deleted_key_is_noted_with_who_did_it() {
    let setup = setup();
    settled(&setup.engine, claim("k")).await;
    let id = claim("k").id();
    let gone = setup.engine.delete(Tenant::DEFAULT, id, "ann").await;
    assert!(gone.unwrap().is_some());
    assert_eq!(trail(&setup).await, [by(Action::Deleted, "ann")]);
}

#[tokio::test]
async fn an_erased_key_is_neither_replayed_nor_run_again() {
    let setup = setup();
    settled(&setup.engine, claim("k")).await;
    assert!(setup.engine.cached(&claim("k")).is_some());
    let id = claim("k").id();
    let erased = setup
        .engine
        .erase(Tenant::DEFAULT, id, "ann")
        .await
        .unwrap();
    assert_eq!(erased.map(|record| record.state), Some(State::Erased));

    assert!(
        setup.engine.cached(&claim("k")).is_none(),
        "nor from memory"
    );
    assert!(matches!(
        setup.engine.claim(claim("k")).await.unwrap(),
        Claimed::Erased
    ));
    let once = setup
        .engine
        .once(claim("k"), async |_| unreachable!("never runs"));
    assert!(matches!(once.await.unwrap(), Once::Erased));
    let outcome = Outcome::text(200, "no");
    let ruled = setup
        .engine
        .settle_by_operator(Tenant::DEFAULT, id, outcome, "bob");
    assert!(matches!(ruled.await.unwrap(), Ruled::Erased));

    let again = setup
        .engine
        .erase(Tenant::DEFAULT, id, "bob")
        .await
        .unwrap();
    assert!(again.is_some(), "erasing twice is fine");
    let mut erasures = trail(&setup).await;
    erasures.retain(|(action, _)| *action == Action::Erased);
    assert_eq!(erasures, [by(Action::Erased, "ann")]);
    setup.clock.advance(Duration::from_secs(86_400));
    let Claimed::Granted(_, cause) = setup.engine.claim(claim("k")).await.unwrap() else {
        panic!("its time is over")
    };
    assert_eq!(cause, Cause::Expired);
}

#[tokio::test]
async fn a_runner_whose_record_is_erased_records_nothing() {
    let setup = setup();
    let lease = granted(&setup.engine, claim("k")).await;
    let waiter = tokio::spawn({
        let engine = setup.engine.clone();
        let mut claim = claim("k");
        claim.policy.wait = Duration::from_secs(30);
        async move { engine.claim(claim).await }
    });
    tokio::task::yield_now().await;
    let erased = setup.engine.erase(Tenant::DEFAULT, lease.id(), "ann").await;
    assert!(erased.unwrap().is_some());
    assert!(matches!(waiter.await.unwrap().unwrap(), Claimed::Erased));
    let late = setup.engine.settle(lease, Outcome::text(200, "late")).await;
    let Settled::Lost(Some(stored)) = late.unwrap() else {
        panic!("it cannot settle")
    };
    assert_eq!(stored.state, State::Erased);
}

#[tokio::test]
async fn everything_about_a_subject_is_erased_and_nothing_else() {
    let setup = setup();
    let alice = Subject::of(b"alice");
    for n in 0..230 {
        settled(&setup.engine, claim(&format!("a{n}")).about(alice)).await;
    }
    let _held = granted(&setup.engine, claim("held").about(alice)).await;
    settled(&setup.engine, claim("bob").about(Subject::of(b"bob"))).await;

    let erase = setup.engine.erase_subject(Tenant::DEFAULT, alice, "ann");
    assert_eq!(erase.await.unwrap(), 231);
    let again = setup.engine.erase_subject(Tenant::DEFAULT, alice, "ann");
    assert_eq!(again.await.unwrap(), 0);
    for key in ["a0", "a229", "held"] {
        let claimed = setup.engine.claim(claim(key)).await.unwrap();
        assert!(matches!(claimed, Claimed::Erased), "{key}: {claimed:?}");
    }
    let bob = setup.engine.claim(claim("bob")).await.unwrap();
    assert!(matches!(bob, Claimed::Replay(_)));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_what_ends_through_another_engine() {
    let setup = setup();
    let elsewhere = Engine::new(setup.ledger.clone());
    let lease = granted(&elsewhere, claim("k")).await;
    let engine = Engine::new(setup.ledger.clone()).with_poll(Duration::from_secs(3600));
    let waiter = tokio::spawn(async move {
        let mut claim = claim("k");
        claim.policy.wait = Duration::from_secs(30);
        engine.claim(claim).await
    });
    tokio::task::yield_now().await;
    let before = tokio::time::Instant::now();
    elsewhere
        .settle(lease, Outcome::text(200, "there"))
        .await
        .unwrap();
    assert!(matches!(waiter.await.unwrap().unwrap(), Claimed::Replay(_)));
    assert_eq!(before.elapsed(), Duration::ZERO, "no timer had to fire");
}

#[tokio::test]
async fn a_retry_over_http_after_an_erase_is_gone_and_does_not_run() {
    let setup = setup();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let handler = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready((http::StatusCode::CREATED, "made"))
    };
    let app = Router::new()
        .route("/orders", post(handler))
        .layer(IdempotencyLayer::new(setup.engine.clone()));
    let order = || {
        http::Request::post("/orders")
            .header("idempotency-key", "order-7")
            .body(Body::from("one"))
            .unwrap()
    };
    let first = app.clone().oneshot(order()).await.unwrap();
    assert_eq!(first.status(), 201);

    let listed = setup.ledger.scan(Scan::of(Tenant::DEFAULT)).await.unwrap();
    let id = listed.records[0].id;
    let erased = setup.engine.erase(Tenant::DEFAULT, id, "ann").await;
    assert!(erased.unwrap().is_some());
    let again = app.oneshot(order()).await.unwrap();
    assert_eq!(again.status(), 410);
    let body = axum::body::to_bytes(again.into_body(), 10_000).await;
    let body: serde_json::Value = serde_json::from_slice(&body.unwrap()).unwrap();
    assert_eq!(body["error"]["code"], "erased");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
