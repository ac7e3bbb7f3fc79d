//! What a claimant gets: granted, replay, busy, conflict.

use std::time::Duration;

use hapax_core::{Cause, Fingerprint, Outcome, Policy, Principal, State, Swap};

use super::subject::{Subject, Taken, lease};

const SHORT: Policy = Policy {
    ttl: Duration::from_secs(10),
    ..POLICY
};
const POLICY: Policy = Policy {
    ttl: Duration::from_secs(3600),
    lease: Duration::from_secs(60),
    wait: Duration::ZERO,
    on_lost: hapax_core::OnLost::Retry,
};

/// A fresh key is granted, and the record says it is held.
pub async fn a_fresh_key_is_granted_and_stored_as_held(subject: &Subject) {
    let claim = subject.claim("k");
    let lease = subject.take(&claim).await.lease();

    let stored = subject
        .stored(&claim)
        .await
        .expect("a granted claim is stored");
    assert_eq!(
        &stored,
        lease.record(),
        "what is stored is what was decided"
    );
    assert!(matches!(stored.state, State::Held(_)));
}

/// A second claimant is told that it is held, and until when.
pub async fn a_second_claimant_is_told_who_holds_it_until_when(subject: &Subject) {
    let claim = subject.claim("k");
    let lease = subject.take(&claim).await.lease();

    match subject.take(&subject.again(&claim)).await {
        Taken::Busy(until) => assert_eq!(until, lease.until()),
        other => panic!("the key is held, got {other:?}"),
    }
}

/// Of 64 concurrent claimants one is granted; the others are told that it is busy.
pub async fn sixty_four_concurrent_claimants_get_one_grant(subject: &Subject) {
    let claim = subject.claim("k");
    let claims: Vec<_> = (0..64).map(|_| subject.again(&claim)).collect();

    let taken = join(claims.iter().map(|claim| subject.take(claim))).await;

    let granted = taken
        .iter()
        .filter(|taken| matches!(taken, Taken::Granted(..)))
        .count();
    let busy = taken
        .iter()
        .filter(|taken| matches!(taken, Taken::Busy(_)))
        .count();
    assert_eq!((granted, busy), (1, 63));
}

/// A settled key answers with the recorded outcome, every time.
pub async fn a_settled_key_replays_the_same_bytes(subject: &Subject) {
    let claim = subject.claim("k");
    let outcome = Outcome::text(201, "{\"id\":7}").with_header("content-type", "application/json");
    assert!(
        subject
            .settle(subject.take(&claim).await.lease(), outcome.clone())
            .await
    );

    for _ in 0..3 {
        match subject.take(&subject.again(&claim)).await {
            Taken::Replay(replayed) => assert_eq!(*replayed, outcome),
            other => panic!("the key is settled, got {other:?}"),
        }
    }
}

/// The same key for another request is a conflict, and changes nothing.
pub async fn another_fingerprint_conflicts(subject: &Subject) {
    let claim = subject.claim("k");
    subject
        .settle(subject.take(&claim).await.lease(), Outcome::text(200, "ok"))
        .await;
    let before = subject.stored(&claim).await;

    let mut other = subject.again(&claim);
    other.fingerprint = Fingerprint::of(b"something else");
    match subject.take(&other).await {
        Taken::Conflict(record) => assert_eq!(record.fingerprint, claim.fingerprint),
        taken => panic!("the request is another one, got {taken:?}"),
    }
    assert_eq!(subject.stored(&claim).await, before);
}

/// All 256 bits of a fingerprint are stored and compared, not a prefix.
pub async fn a_fingerprint_that_differs_in_its_last_bit_conflicts(subject: &Subject) {
    let claim = subject.claim("k");
    subject
        .settle(subject.take(&claim).await.lease(), Outcome::text(200, "ok"))
        .await;

    let mut bytes = *claim.fingerprint.as_bytes();
    bytes[31] ^= 1;
    let mut other = subject.again(&claim);
    other.fingerprint = Fingerprint::from_bytes(bytes);
    assert!(matches!(subject.take(&other).await, Taken::Conflict(_)));
}

/// While a key is held, another request under it is a conflict rather than busy: waiting would not help.
pub async fn conflict_beats_busy(subject: &Subject) {
    let claim = subject.claim("k");
    let _held = subject.take(&claim).await.lease();

    let mut other = subject.again(&claim);
    other.fingerprint = Fingerprint::of(b"something else");
    assert!(matches!(subject.take(&other).await, Taken::Conflict(_)));
}

/// A replay goes only to the principal who asked.
pub async fn another_principal_conflicts(subject: &Subject) {
    let mut claim = subject.claim("k");
    claim.principal = Some(Principal::of(b"alice"));
    subject
        .settle(
            subject.take(&claim).await.lease(),
            Outcome::text(200, "alice's"),
        )
        .await;

    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Replay(_)
    ));
    let mut other = subject.again(&claim);
    other.principal = Some(Principal::of(b"bob"));
    assert!(matches!(subject.take(&other).await, Taken::Conflict(_)));
}

/// After its time a key runs as new, and the claimant is told that it had expired.
pub async fn an_expired_key_is_granted_anew_and_says_so(subject: &Subject) {
    let claim = subject.claim("k").with_policy(SHORT);
    subject
        .settle(
            subject.take(&claim).await.lease(),
            Outcome::text(200, "old"),
        )
        .await;
    subject.advance(Duration::from_secs(11));

    match subject.take(&subject.again(&claim)).await {
        Taken::Granted(lease, cause) => {
            assert_eq!(cause, Cause::Expired);
            assert!(subject.settle(lease, Outcome::text(200, "new")).await);
        }
        other => panic!("the key has expired, got {other:?}"),
    }
    match subject.take(&subject.again(&claim)).await {
        Taken::Replay(outcome) => assert_eq!(*outcome, Outcome::text(200, "new")),
        other => panic!("the new outcome answers, got {other:?}"),
    }
}

/// An expired record answers for nothing, so another request under its key is no conflict.
pub async fn an_expired_key_does_not_conflict(subject: &Subject) {
    let claim = subject.claim("k").with_policy(SHORT);
    subject
        .settle(
            subject.take(&claim).await.lease(),
            Outcome::text(200, "old"),
        )
        .await;
    subject.advance(Duration::from_secs(11));

    let mut other = subject.again(&claim);
    other.fingerprint = Fingerprint::of(b"something else");
    assert_eq!(subject.take(&other).await.cause(), Cause::Expired);
    assert_eq!(
        subject
            .stored(&claim)
            .await
            .map(|record| record.fingerprint),
        Some(other.fingerprint)
    );
}

/// A released key runs as new for any request, and nothing is said of expiry.
pub async fn a_released_key_is_granted_anew_without_a_flag(subject: &Subject) {
    let claim = subject.claim("k");
    let lease = subject.take(&claim).await.lease();
    assert_eq!(
        subject.swap(lease.release(subject.ledger.now())).await,
        Swap::Written
    );

    let mut other = subject.again(&claim);
    other.fingerprint = Fingerprint::of(b"something else");
    assert_eq!(subject.take(&other).await.cause(), Cause::Fresh);
}

/// An attempt whose answer got lost finds its own write, instead of waiting for itself.
pub async fn the_same_attempt_recognises_its_own_write(subject: &Subject) {
    let claim = subject.claim("k");
    let first = subject.take(&claim).await.lease();

    match subject.take(&claim).await {
        Taken::Granted(second, cause) => {
            assert_eq!(cause, Cause::Mine);
            assert_eq!(second.epoch(), first.epoch(), "it is the same lease");
            assert!(subject.settle(second, Outcome::text(200, "once")).await);
        }
        other => panic!("the attempt holds the key, got {other:?}"),
    }
}

/// When a lease is lost, one of many claimants takes it over.
pub async fn concurrent_takeovers_of_a_lost_lease_grant_one(subject: &Subject) {
    let claim = subject.claim("k").with_policy(POLICY);
    let lost = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(61));
    let claims: Vec<_> = (0..32).map(|_| subject.again(&claim)).collect();

    let taken = join(claims.iter().map(|claim| subject.take(claim))).await;

    let granted: Vec<_> = taken
        .into_iter()
        .filter(|taken| matches!(taken, Taken::Granted(..)))
        .collect();
    assert_eq!(granted.len(), 1);
    let stored = subject.stored(&claim).await.expect("it is held");
    assert!(
        lease(stored).epoch() > lost.epoch(),
        "every grant has a higher fence"
    );
}

/// Runs all futures at once on this task, so that the ledger sees them together.
pub(super) async fn join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, done) in &mut pending {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *done = Some(value),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
    pending.into_iter().filter_map(|(_, done)| done).collect()
}
