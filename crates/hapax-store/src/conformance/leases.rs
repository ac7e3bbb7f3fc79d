//! What a holder may do, and what a holder that lost its lease may not.

use std::time::Duration;

use hapax_core::{Cause, Doubt, OnLost, Outcome, Policy, Scan, State, Swap, Sweep, Tenant};

use super::subject::{Subject, Taken, copy};

fn policy(on_lost: OnLost) -> Policy {
    Policy {
        ttl: Duration::from_secs(600),
        lease: Duration::from_secs(30),
        wait: Duration::ZERO,
        on_lost,
    }
}

/// Under `retry` the next claimant runs it again, and is told why.
pub async fn a_lost_lease_is_taken_over_under_retry(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Retry));
    let _lost = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(31));

    assert_eq!(
        subject.take(&subject.again(&claim)).await.cause(),
        Cause::Lost
    );
}

/// Under `hold` nobody runs it again: every claimant is told that it is in doubt.
pub async fn a_lost_lease_is_in_doubt_under_hold(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Hold));
    let lost = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(31));

    for _ in 0..2 {
        assert!(matches!(
            subject.take(&subject.again(&claim)).await,
            Taken::Lost(Doubt::RunnerDied)
        ));
    }
    assert_eq!(
        subject.stored(&claim).await.as_ref(),
        Some(lost.record()),
        "asking changes nothing"
    );
}

/// Doubt under `hold` outlives the record's time and every sweep: only a person ends it.
pub async fn doubt_under_hold_never_expires(subject: &Subject) {
    let died = subject.claim("died").with_policy(policy(OnLost::Hold));
    let _lost = subject.take(&died).await.lease();
    let unknown = subject.claim("unknown").with_policy(policy(OnLost::Hold));
    let lease = subject.take(&unknown).await.lease();
    assert_eq!(
        subject.swap(lease.doubt(Doubt::OutcomeUnknown)).await,
        Swap::Written
    );
    // Where a lost lease means to run again, an outcome may be held all the same.
    let held = subject.claim("held").with_policy(policy(OnLost::Retry));
    let lease = subject.take(&held).await.lease();
    assert_eq!(
        subject
            .swap(lease.hold_in_doubt(Doubt::OutcomeUnknown))
            .await,
        Swap::Written
    );
    subject.advance(Duration::from_secs(3600));

    let swept = subject.sweep(Sweep::default()).await;

    assert_eq!((swept.expired, swept.forgotten), (0, 0));
    assert!(matches!(
        subject.take(&subject.again(&died)).await,
        Taken::Lost(Doubt::RunnerDied)
    ));
    for claim in [unknown, held] {
        assert!(matches!(
            subject.take(&subject.again(&claim)).await,
            Taken::Lost(Doubt::OutcomeUnknown)
        ));
    }
}

/// A holder that could not find out says so, and may still settle when it does.
pub async fn doubt_is_stored_with_its_reason(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Hold));
    let lease = subject.take(&claim).await.lease();
    let (epoch, owner) = (lease.epoch(), lease.owner());
    assert_eq!(
        subject.swap(lease.doubt(Doubt::OutcomeUnknown)).await,
        Swap::Written
    );

    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Lost(Doubt::OutcomeUnknown)
    ));
    let stored = subject.stored(&claim).await.expect("doubt is stored");
    let lease = hapax_core::Lease::of(stored, epoch, owner).expect("the last holder may come back");
    assert!(
        subject
            .settle(lease, Outcome::text(200, "it did happen"))
            .await
    );
    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Replay(_)
    ));
}

/// A holder whose lease was taken over cannot record anything.
pub async fn a_stale_lease_cannot_settle(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Retry));
    let stale = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(31));
    let current = subject.take(&subject.again(&claim)).await.lease();

    assert!(!subject.settle(stale, Outcome::text(200, "stale")).await);
    assert!(subject.settle(current, Outcome::text(200, "current")).await);
    match subject.take(&subject.again(&claim)).await {
        Taken::Replay(outcome) => assert_eq!(*outcome, Outcome::text(200, "current")),
        other => panic!("the current holder settled, got {other:?}"),
    }
}

/// A version never restarts, so a lease from before a sweep cannot settle the claim made after it.
pub async fn a_stale_lease_cannot_settle_after_sweep_and_new_claim(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Retry));
    let stale = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(601));
    let swept = subject
        .sweep(Sweep {
            grace: Duration::ZERO,
            ..Sweep::default()
        })
        .await;
    assert_eq!(
        (swept.expired, swept.forgotten),
        (1, 1),
        "the key is forgotten altogether"
    );
    assert_eq!(subject.stored(&claim).await, None);
    let current = subject.take(&subject.again(&claim)).await.lease();

    assert!(
        !subject
            .settle(copy(&stale), Outcome::text(200, "stale"))
            .await
    );
    assert_eq!(
        subject.stored(&claim).await.as_ref(),
        Some(current.record())
    );
    assert!(subject.settle(current, Outcome::text(200, "current")).await);
    assert!(!subject.settle(stale, Outcome::text(200, "stale")).await);
}

/// A holder whose lease was taken over can neither extend it nor give the key away.
pub async fn a_stale_lease_cannot_renew_or_release(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Retry));
    let stale = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(31));
    let current = subject.take(&subject.again(&claim)).await.lease();

    let now = subject.ledger.now();
    assert!(matches!(
        subject.swap(stale.renewal(now)).await,
        Swap::Stale(Some(_))
    ));
    assert!(matches!(
        subject
            .swap(copy(&stale).doubt(Doubt::OutcomeUnknown))
            .await,
        Swap::Stale(Some(_))
    ));
    assert!(matches!(
        subject.swap(stale.release(now)).await,
        Swap::Stale(Some(_))
    ));
    assert_eq!(
        subject.stored(&claim).await.as_ref(),
        Some(current.record())
    );
}

/// The first settle is the only one, even from the same holder.
pub async fn a_lease_settles_only_once(subject: &Subject) {
    let claim = subject.claim("k");
    let lease = subject.take(&claim).await.lease();
    let twin = copy(&lease);

    assert!(subject.settle(lease, Outcome::text(200, "first")).await);
    assert!(!subject.settle(twin, Outcome::text(500, "second")).await);
    match subject.take(&subject.again(&claim)).await {
        Taken::Replay(outcome) => assert_eq!(*outcome, Outcome::text(200, "first")),
        other => panic!("the first outcome answers, got {other:?}"),
    }
}

/// A heartbeat keeps the key held past the first end of the lease, and the holder can settle after it.
pub async fn a_renewed_lease_stays_held_past_its_first_end(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Retry));
    let mut lease = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(20));
    let renewal = lease.renewal(subject.ledger.now());
    let renewed = renewal.next.clone();
    assert_eq!(subject.swap(renewal).await, Swap::Written);
    assert!(lease.renewed(renewed));
    subject.advance(Duration::from_secs(20));

    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Busy(_)
    ));
    assert_eq!(subject.stored(&claim).await.as_ref(), Some(lease.record()));
    assert!(subject.settle(lease, Outcome::text(200, "slow")).await);
}

/// A holder that was silent too long may still settle, as long as nobody else was granted the key.
pub async fn a_late_holder_settles_if_nobody_took_over(subject: &Subject) {
    for on_lost in [OnLost::Retry, OnLost::Hold] {
        let claim = subject.claim(on_lost.as_str()).with_policy(policy(on_lost));
        let lease = subject.take(&claim).await.lease();
        subject.advance(Duration::from_secs(31));

        assert!(subject.settle(lease, Outcome::text(200, "late")).await);
        assert!(matches!(
            subject.take(&subject.again(&claim)).await,
            Taken::Replay(_)
        ));
    }
}

/// Through grant, renewal, release, grant, settle, expiry, sweep and a new grant a version only rises.
pub async fn a_version_rises_with_every_write_and_never_restarts(subject: &Subject) {
    let claim = subject.claim("k").with_policy(policy(OnLost::Retry));
    let mut versions = Vec::new();
    let lease = subject.take(&claim).await.lease();
    versions.push(lease.record().version);
    let renewal = lease.renewal(subject.ledger.now());
    versions.push(renewal.next.version);
    assert_eq!(subject.swap(renewal).await, Swap::Written);
    let stored = subject.stored(&claim).await.expect("it is held");
    assert_eq!(
        subject
            .swap(hapax_core::Move::replacing(
                &stored,
                stored.freed(subject.ledger.now())
            ))
            .await,
        Swap::Written
    );
    let lease = subject.take(&subject.again(&claim)).await.lease();
    versions.push(lease.record().version);
    subject.settle(lease, Outcome::text(200, "ok")).await;
    versions.push(subject.stored(&claim).await.expect("it is settled").version);
    subject.advance(Duration::from_secs(601));
    subject.sweep(Sweep::default()).await;
    let tombstone = subject
        .stored(&claim)
        .await
        .expect("it is remembered for its grace");
    assert_eq!(tombstone.state, State::Expired);
    versions.push(tombstone.version);
    versions.push(
        subject
            .take(&subject.again(&claim))
            .await
            .lease()
            .record()
            .version,
    );
    subject.advance(Duration::from_secs(601));
    subject
        .sweep(Sweep {
            grace: Duration::ZERO,
            ..Sweep::default()
        })
        .await;
    versions.push(
        subject
            .take(&subject.again(&claim))
            .await
            .lease()
            .record()
            .version,
    );

    assert!(
        versions.is_sorted_by(|earlier, later| earlier < later),
        "{versions:?}"
    );
}

/// Leases and expiry follow the ledger's clock, whatever the caller's clock says.
pub async fn the_clock_is_the_ledgers(subject: &Subject) {
    let before = subject.ledger.now();
    subject.advance(Duration::from_secs(86_400));
    let after = subject.ledger.now();
    assert!(after.since(before) >= Duration::from_secs(86_400));

    let claim = subject.claim("k").with_policy(policy(OnLost::Retry));
    let lease = subject.take(&claim).await.lease();
    assert!(
        lease.record().created_at >= after,
        "times are taken from the ledger"
    );
    assert!(lease.until() >= after.plus(Duration::from_secs(30)));
    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Busy(_)
    ));
}

/// An outcome recorded after the record's time still answers for its key: those who waited get it.
pub async fn an_outcome_recorded_late_answers_as_long_as_any_other(subject: &Subject) {
    let brief = Policy {
        ttl: Duration::from_secs(10),
        lease: Duration::from_secs(60),
        ..policy(OnLost::Hold)
    };
    let claim = subject.claim("k").with_policy(brief);
    let lease = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(20));
    assert!(subject.settle(lease, Outcome::text(200, "slow")).await);

    subject.advance(Duration::from_secs(9));
    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Replay(_)
    ));
    subject.advance(Duration::from_secs(2));
    assert_eq!(
        subject.take(&subject.again(&claim)).await.cause(),
        Cause::Expired
    );
}

/// A key whose runner died under `hold` is listed as in doubt, so that an operator finds it.
pub async fn a_dead_runner_under_hold_is_listed_as_in_doubt(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    let claim = subject.claim("k").with_policy(policy(OnLost::Hold));
    let _held = subject.take(&claim).await.lease();
    let listed = async |state: &'static str| {
        let scan = Scan {
            state: Some(state),
            ..Scan::of(Tenant::DEFAULT)
        };
        let page = subject.ledger.scan(scan).await.expect("the ledger answers");
        page.records.len()
    };
    assert_eq!((listed("held").await, listed("in_doubt").await), (1, 0));
    subject.advance(Duration::from_secs(31));
    assert_eq!((listed("held").await, listed("in_doubt").await), (0, 1));
}
