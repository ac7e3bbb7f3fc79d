//! Erasing: the content goes, the key stays used until its time is over, and what is about somebody can be found.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    Cause, Claim, Doubt, Fingerprint, Move, OnLost, Outcome, Policy, Principal, Record, Request,
    Scan, State, Swap, Sweep, Swept, Tenant,
};

use super::subject::{Subject, Taken, copy, space, tenant};

const MINUTE: Duration = Duration::from_secs(60);

fn policy(on_lost: OnLost) -> Policy {
    Policy {
        ttl: 10 * MINUTE,
        lease: Duration::from_secs(30),
        wait: Duration::ZERO,
        on_lost,
    }
}

/// A claim about Alice with a body that a store keeps apart.
fn about_alice(subject: &Subject, key: &str) -> Claim {
    let mut claim = subject
        .claim(key)
        .with_policy(policy(OnLost::Retry))
        .about(hapax_core::Subject::of(b"alice"));
    claim.principal = Some(Principal::of(b"alice"));
    claim.request = Arc::new(Request {
        method: "POST".to_owned(),
        path: "/customers/alice".to_owned(),
        content_type: "application/octet-stream".to_owned(),
        content_hash: "0123456789abcdef".to_owned(),
        body: Some(noise()),
        masks: Vec::new(),
    });
    claim
}

/// What does not compress.
fn noise() -> Bytes {
    (0..20_000u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1])
        .collect()
}

async fn settled(subject: &Subject, claim: &Claim) {
    let lease = subject.take(claim).await.lease();
    assert!(subject.settle(lease, Outcome::new(200, noise())).await);
}

async fn erase(subject: &Subject, claim: &Claim) -> Record {
    let seen = subject.stored(claim).await.expect("it is stored");
    let next = seen.erased(subject.ledger.now());
    let step = Move::replacing(&seen, next.clone());
    assert_eq!(subject.swap(step).await, Swap::Written);
    next
}

async fn found(subject: &Subject, of: Tenant, name: &[u8]) -> Vec<String> {
    let scan = Scan {
        subject: Some(hapax_core::Subject::of(name)),
        ..Scan::of(of)
    };
    let page = subject.ledger.scan(scan).await.expect("the ledger answers");
    let keys = page.records.iter().map(|record| record.key.to_string());
    keys.collect()
}

/// Of an erased record only the key, its times and the version are left.
pub async fn an_erased_record_keeps_its_key_and_its_time_only(subject: &Subject) {
    let claim = about_alice(subject, "k");
    settled(subject, &claim).await;
    let before = subject.stored(&claim).await.expect("it is stored");
    let erased = erase(subject, &claim).await;

    let stored = subject.stored(&claim).await.expect("a mark is left");
    assert_eq!(stored, erased);
    assert_eq!(stored.state, State::Erased);
    assert_eq!(*stored.request, Request::default());
    assert_eq!(stored.fingerprint, Fingerprint::from_bytes([0; 32]));
    assert_eq!((stored.principal, stored.subject), (None, None));
    assert_eq!(stored.expires_at, before.expires_at);
}

/// Every claim on an erased key is told so: the same request, another one, another principal's.
pub async fn every_claim_on_an_erased_key_is_told_so(subject: &Subject) {
    let claim = about_alice(subject, "k");
    settled(subject, &claim).await;
    erase(subject, &claim).await;

    let another = Claim {
        fingerprint: Fingerprint::of(b"another"),
        ..subject.again(&claim)
    };
    let somebody = Claim {
        principal: None,
        ..subject.again(&claim)
    };
    for claim in [claim.clone(), subject.again(&claim), another, somebody] {
        let taken = subject.take(&claim).await;
        assert!(matches!(taken, Taken::Erased), "{taken:?}");
    }
}

/// A holder whose record was erased can neither settle nor renew, and nobody runs in its place.
pub async fn a_holder_of_an_erased_record_cannot_settle(subject: &Subject) {
    let claim = about_alice(subject, "k");
    let lease = subject.take(&claim).await.lease();
    let twin = copy(&lease);
    let erased = erase(subject, &claim).await;

    assert!(!subject.settle(lease, Outcome::text(200, "late")).await);
    let renewal = twin.renewal(subject.ledger.now());
    assert!(matches!(subject.swap(renewal).await, Swap::Stale(Some(_))));
    assert_eq!(subject.stored(&claim).await, Some(erased));
    subject.advance(Duration::from_secs(31));
    let again = subject.take(&subject.again(&claim)).await;
    assert!(
        matches!(again, Taken::Erased),
        "the lost lease is not retried"
    );
}

/// Caches everywhere can tell that a settled outcome was erased.
pub async fn erasing_an_outcome_is_noticed(subject: &Subject) {
    let claim = about_alice(subject, "k");
    settled(subject, &claim).await;
    let before = subject.ledger.purges();
    erase(subject, &claim).await;
    assert!(before.is_none() || subject.ledger.purges() != before);
}

/// After its time an erased key runs as an expired one, and is swept and forgotten like any other.
pub async fn an_erased_record_is_swept_after_its_time(subject: &Subject) {
    let claim = about_alice(subject, "k");
    settled(subject, &claim).await;
    erase(subject, &claim).await;
    assert_eq!(subject.sweep(Sweep::default()).await, Swept::default());

    subject.advance(11 * MINUTE);
    let other = about_alice(subject, "other");
    settled(subject, &other).await;
    let swept = subject.sweep(Sweep::default()).await;
    assert_eq!((swept.expired, swept.retired), (1, 0));
    let state = subject.stored(&claim).await.map(|record| record.state);
    assert_eq!(state, Some(State::Expired));
    let again = subject.take(&subject.again(&claim)).await;
    assert_eq!(again.cause(), Cause::Expired);
}

/// An erased key whose time is over but that nobody swept runs as an expired one.
pub async fn an_erased_key_runs_again_after_its_time(subject: &Subject) {
    let claim = about_alice(subject, "k");
    settled(subject, &claim).await;
    erase(subject, &claim).await;
    subject.advance(11 * MINUTE);
    let again = subject.take(&subject.again(&claim)).await;
    assert_eq!(again.cause(), Cause::Expired);
    let stored = subject.stored(&claim).await.expect("it is held");
    assert_eq!(
        stored.subject, claim.subject,
        "the new life is about her too"
    );
}

/// Erased records are listed, by their word too.
pub async fn an_erased_record_is_listed(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    let claim = about_alice(subject, "k");
    settled(subject, &claim).await;
    erase(subject, &claim).await;
    for state in [None, Some("erased")] {
        let scan = Scan {
            state,
            ..Scan::of(Tenant::DEFAULT)
        };
        let page = subject.ledger.scan(scan).await.expect("the ledger answers");
        assert_eq!(page.records.len(), 1);
    }
}

/// What is about somebody is found in every state that has content, and nobody else's is.
pub async fn what_is_about_a_subject_is_found(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    settled(subject, &about_alice(subject, "settled")).await;
    let _held = subject.take(&about_alice(subject, "held")).await.lease();
    let doubted = subject.take(&about_alice(subject, "doubted")).await.lease();
    let step = doubted.doubt(Doubt::OutcomeUnknown);
    assert_eq!(subject.swap(step).await, Swap::Written);
    let freed = subject.take(&about_alice(subject, "freed")).await.lease();
    let step = freed.release(subject.ledger.now());
    assert_eq!(subject.swap(step).await, Swap::Written);
    let erased = about_alice(subject, "erased");
    settled(subject, &erased).await;
    erase(subject, &erased).await;
    let bob = subject.claim("bob").about(hapax_core::Subject::of(b"bob"));
    settled(subject, &bob).await;
    settled(subject, &subject.claim("nobody")).await;
    let elsewhere = subject
        .claim_in(&space(tenant(2), "POST:test"), "elsewhere")
        .about(hapax_core::Subject::of(b"alice"));
    settled(subject, &elsewhere).await;

    let mut keys = found(subject, Tenant::DEFAULT, b"alice").await;
    keys.sort();
    assert_eq!(keys, ["doubted", "held", "settled"]);
    assert_eq!(found(subject, tenant(2), b"alice").await, ["elsewhere"]);
    assert_eq!(found(subject, tenant(2), b"bob").await, [""; 0]);
    subject.advance(11 * MINUTE);
    subject.sweep(Sweep::default()).await;
    let left = found(subject, Tenant::DEFAULT, b"alice").await;
    assert_eq!(left, [""; 0], "what is swept is about nobody");
}

/// Pages of what is about somebody have no gap.
pub async fn what_is_about_a_subject_is_paged(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    for n in 0..7 {
        settled(subject, &about_alice(subject, &format!("k{n}"))).await;
    }
    let mut scan = Scan {
        subject: Some(hapax_core::Subject::of(b"alice")),
        limit: 3,
        ..Scan::of(Tenant::DEFAULT)
    };
    let mut listed = Vec::new();
    loop {
        let page = subject.ledger.scan(scan.clone()).await;
        let page = page.expect("the ledger answers");
        listed.extend(page.records);
        match page.next {
            Some(next) => scan.after = Some(next),
            None => break,
        }
    }
    assert_eq!(listed.len(), 7);
    assert!(listed.is_sorted_by(|a, b| (a.created_at, a.id) > (b.created_at, b.id)));
}

/// An outcome recorded after the record's time moves its end, and comes back whole.
pub async fn an_operators_late_outcome_is_stored_with_its_new_end(subject: &Subject) {
    let mut claim = about_alice(subject, "k");
    claim.policy = policy(OnLost::Hold);
    let lease = subject.take(&claim).await.lease();
    let step = lease.doubt(Doubt::OutcomeUnknown);
    assert_eq!(subject.swap(step).await, Swap::Written);
    subject.advance(60 * MINUTE);

    let seen = subject.stored(&claim).await.expect("doubt stays");
    let outcome = Outcome::new(201, noise()).with_header("location", "/there");
    let ruled = seen.ruled(outcome.clone(), subject.ledger.now());
    let step = Move::replacing(&seen, ruled.clone());
    assert_eq!(subject.swap(step).await, Swap::Written);
    assert_eq!(subject.stored(&claim).await, Some(ruled));
    let taken = subject.take(&subject.again(&claim)).await;
    assert!(matches!(taken, Taken::Replay(replayed) if *replayed == outcome));
}
