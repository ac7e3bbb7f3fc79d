//! What was asked and what came of it, byte for byte.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    Body, Doubt, Key, NotKept, OnLost, Outcome, Policy, Principal, Request, Space, State, Swap,
    Tenant,
};

use super::subject::{Subject, Taken, copy, space};

async fn replayed(subject: &Subject, key: &str, outcome: &Outcome) -> Outcome {
    let claim = subject.claim(key);
    assert!(
        subject
            .settle(subject.take(&claim).await.lease(), outcome.clone())
            .await
    );
    match subject.take(&subject.again(&claim)).await {
        Taken::Replay(outcome) => (*outcome).clone(),
        other => panic!("the key is settled, got {other:?}"),
    }
}

/// Empty, text, NUL, every byte, large and compressible, large and not: all come back as they were.
pub async fn any_body_comes_back_byte_for_byte(subject: &Subject) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let repeating = b"hapax ".repeat(200_000);
    let mut noise = vec![0u8; 1_000_000];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in &mut noise {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state.to_be_bytes()[0];
    }
    for (at, body) in [Vec::new(), b"\0".to_vec(), every_byte, repeating, noise]
        .into_iter()
        .enumerate()
    {
        let outcome = Outcome::new(200, Bytes::from(body));
        assert!(
            replayed(subject, &format!("k{at}"), &outcome).await == outcome,
            "body {at} came back changed"
        );
    }
}

/// A body that was not kept is never replayed as an empty one.
pub async fn an_omitted_body_is_not_an_empty_one(subject: &Subject) {
    let claim = subject.claim("k");
    assert!(
        subject
            .settle(
                subject.take(&claim).await.lease(),
                Outcome::not_kept(200).because(NotKept::Trailers)
            )
            .await
    );

    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Lost(Doubt::ResponseNotStored(Some(NotKept::Trailers)))
    ));
    let stored = subject.stored(&claim).await.expect("it is stored");
    assert!(
        matches!(stored.state, State::Settled { outcome, .. } if outcome.body == Body::Omitted)
    );
}

/// Headers keep their order, their repetitions and bytes that are not text.
pub async fn headers_keep_their_order_and_bytes(subject: &Subject) {
    let outcome = Outcome::text(204, "")
        .with_header("link", "</a>; rel=next")
        .with_header("etag", "\"é\"")
        .with_header("link", "</b>; rel=prev")
        .with_header("x-latin", Bytes::from_static(b"caf\xe9"));
    assert_eq!(replayed(subject, "k", &outcome).await, outcome);
}

/// What was asked is still there after the settle, for the next conflict to show.
pub async fn the_request_outlives_the_settle(subject: &Subject) {
    let mut claim = subject.claim("k");
    claim.request = asked(Bytes::from(vec![b'r'; 300_000]));
    let lease = subject.take(&claim).await.lease();
    subject
        .settle(lease, Outcome::new(200, Bytes::from(vec![b'a'; 300_000])))
        .await;

    let stored = subject.stored(&claim).await.expect("it is stored");
    assert!(stored.request == claim.request);
}

/// A settle that comes too late changes neither the state nor any part of the outcome.
pub async fn a_stale_settle_leaves_nothing_behind(subject: &Subject) {
    let claim = subject.claim("k");
    let lease = subject.take(&claim).await.lease();
    let twin = copy(&lease);
    assert!(
        subject
            .settle(lease, Outcome::text(201, "first").with_header("etag", "1"))
            .await
    );
    let before = subject.stored(&claim).await;

    let late = Outcome::new(500, Bytes::from(vec![b'x'; 100_000])).with_header("etag", "2");
    assert!(!subject.settle(twin, late).await);
    assert_eq!(subject.stored(&claim).await, before, "all or nothing");
}

/// A released key keeps nothing of the request.
pub async fn a_release_drops_what_was_asked(subject: &Subject) {
    let mut claim = subject.claim("k");
    claim.request = asked(Bytes::from_static(b"{\"card\":\"4242\"}"));
    claim.principal = Some(Principal::of(b"alice"));
    let lease = subject.take(&claim).await.lease();
    assert_eq!(
        subject.swap(lease.release(subject.ledger.now())).await,
        Swap::Written
    );

    let stored = subject.stored(&claim).await.expect("the version lives on");
    assert_eq!(stored.state, State::Free);
    assert_eq!(*stored.request, Request::default());
    assert_eq!(stored.principal, None);
}

/// Keys and spaces at their limits work, quotes and backslashes included.
pub async fn the_longest_key_and_space_fit(subject: &Subject) {
    let name = "S".repeat(Space::BYTES_MAX);
    let key = format!("'\"\\%_{}", "k".repeat(Key::BYTES_MAX - 5));
    let claim = subject.claim_in(&space(Tenant::DEFAULT, &name), &key);
    assert!(
        subject
            .settle(subject.take(&claim).await.lease(), Outcome::text(200, "ok"))
            .await
    );

    let stored = subject.stored(&claim).await.expect("it is stored");
    assert_eq!((stored.scope, stored.key), (claim.scope, claim.key));
}

/// Every field of a record survives the store, in every state.
pub async fn every_field_of_a_record_comes_back(subject: &Subject) {
    let mut claim = subject.claim("k").with_policy(Policy {
        ttl: Duration::from_millis(123_456),
        lease: Duration::from_millis(7_891),
        wait: Duration::ZERO,
        on_lost: OnLost::Hold,
    });
    claim.request = asked(Bytes::from_static(b"\xff\x00 not text"));
    claim.principal = Some(Principal::of(b"alice"));
    claim.subject = Some(hapax_core::Subject::of(b"alice"));
    let held = subject.take(&claim).await.lease();
    assert_eq!(subject.stored(&claim).await.as_ref(), Some(held.record()));

    let settle = held.settle(
        Outcome::text(302, "gone").with_header("location", "/there"),
        subject.ledger.now(),
    );
    let expected = settle.next.clone();
    assert_eq!(subject.swap(settle).await, Swap::Written);
    assert_eq!(subject.stored(&claim).await.as_ref(), Some(&*expected));
}

/// When a settled outcome is taken back, caches everywhere can tell.
pub async fn taking_back_an_outcome_is_noticed(subject: &Subject) {
    let claim = subject.claim("k");
    assert!(
        subject
            .settle(subject.take(&claim).await.lease(), Outcome::text(200, "ok"))
            .await
    );
    let Some(before) = subject.ledger.purges() else {
        return;
    };
    let _replay = subject.take(&subject.again(&claim)).await;
    assert_eq!(
        subject.ledger.purges(),
        Some(before),
        "answering takes nothing back"
    );

    let stored = subject.stored(&claim).await.expect("it is stored");
    let step = hapax_core::Move::replacing(&stored, stored.freed(subject.ledger.now()));
    assert_eq!(subject.swap(step).await, Swap::Written);
    assert_ne!(subject.ledger.purges(), Some(before));
}

fn asked(body: Bytes) -> Arc<Request> {
    Arc::new(Request {
        method: "POST".to_owned(),
        path: "/payments/7?q=%C3%A9&x='".to_owned(),
        content_type: "application/json; charset=utf-8".to_owned(),
        content_hash: "0123456789abcdef".to_owned(),
        body: Some(body),
        masks: ["card", r#"lines.*["it's"]"#, "[0]"]
            .map(|path| path.parse().expect("a path"))
            .to_vec(),
    })
}
