//! Cleaning up in bounded steps, and looking through what is there.

use std::time::Duration;

use hapax_core::{
    Cause, Move, OnLost, Outcome, Policy, Record, Scan, Space, State, Swap, Sweep, Swept, Tenant,
    Verdict, decide,
};

use super::subject::{Subject, Taken, space, tenant};

const HOUR: Duration = Duration::from_secs(3600);

fn minutes(count: u64) -> Policy {
    Policy {
        ttl: Duration::from_secs(60 * count),
        lease: Duration::from_secs(30),
        wait: Duration::ZERO,
        on_lost: OnLost::Retry,
    }
}

async fn settled(subject: &Subject, key: &str, policy: Policy) -> hapax_core::Claim {
    let mut claim = subject.claim(key).with_policy(policy);
    claim.request = std::sync::Arc::new(hapax_core::Request {
        body: Some(bytes::Bytes::from_static(b"asked")),
        ..hapax_core::Request::default()
    });
    assert!(
        subject
            .settle(subject.take(&claim).await.lease(), Outcome::text(200, key))
            .await
    );
    claim
}

/// A swept record has lost its content; within its grace the next claim is told that it had expired.
pub async fn a_sweep_removes_content_and_the_next_claim_is_told(subject: &Subject) {
    let claim = settled(subject, "k", minutes(1)).await;
    subject.advance(Duration::from_secs(61));

    assert_eq!(
        subject.sweep(Sweep::default()).await,
        Swept {
            expired: 1,
            ..Swept::default()
        }
    );
    let stored = subject
        .stored(&claim)
        .await
        .expect("it is remembered for its grace");
    assert_eq!(stored.state, State::Expired);
    assert_eq!(
        stored.request.body, None,
        "nothing of what was asked is left"
    );
    assert_eq!(
        subject.take(&subject.again(&claim)).await.cause(),
        Cause::Expired
    );
}

/// What still answers for its key is not touched.
pub async fn a_sweep_leaves_what_still_answers_alone(subject: &Subject) {
    let claim = settled(subject, "k", minutes(10)).await;
    let before = subject.stored(&claim).await;
    subject.advance(Duration::from_secs(60 * 9));

    assert_eq!(subject.sweep(Sweep::default()).await, Swept::default());
    assert_eq!(subject.stored(&claim).await, before);
}

/// A key that is being worked on is not swept, even after its time.
pub async fn a_sweep_leaves_a_live_lease_alone(subject: &Subject) {
    let policy = Policy {
        ttl: Duration::from_secs(1),
        lease: HOUR,
        ..minutes(1)
    };
    let claim = subject.claim("k").with_policy(policy);
    let lease = subject.take(&claim).await.lease();
    subject.advance(Duration::from_secs(60));

    assert_eq!(subject.sweep(Sweep::default()).await, Swept::default());
    assert!(matches!(
        subject.take(&subject.again(&claim)).await,
        Taken::Busy(_)
    ));
    assert!(subject.settle(lease, Outcome::text(200, "ok")).await);
}

/// One step touches no more records than asked.
pub async fn a_sweep_step_is_bounded(subject: &Subject) {
    for n in 0..7 {
        settled(subject, &format!("k{n}"), minutes(1)).await;
    }
    subject.advance(Duration::from_secs(61));

    let step = Sweep {
        limit: 3,
        ..Sweep::default()
    };
    let mut steps = Vec::new();
    for _ in 0..4 {
        steps.push(
            subject
                .ledger
                .sweep(step)
                .await
                .expect("the ledger answers")
                .expired,
        );
    }
    assert_eq!(steps, [3, 3, 1, 0]);
}

/// After its grace a key is forgotten altogether, and the next claim is simply fresh.
pub async fn after_its_grace_a_key_is_forgotten(subject: &Subject) {
    let claim = settled(subject, "k", minutes(1)).await;
    let sweep = Sweep {
        grace: HOUR,
        ..Sweep::default()
    };
    subject.advance(Duration::from_secs(61));
    assert_eq!(
        subject.sweep(sweep).await,
        Swept {
            expired: 1,
            ..Swept::default()
        }
    );
    subject.advance(HOUR);
    assert_eq!(
        subject.sweep(sweep).await,
        Swept {
            forgotten: 1,
            ..Swept::default()
        }
    );

    assert_eq!(subject.stored(&claim).await, None);
    assert_eq!(
        subject.take(&subject.again(&claim)).await.cause(),
        Cause::Fresh
    );
}

/// The sweeper serves every tenant.
pub async fn a_sweep_covers_every_tenant(subject: &Subject) {
    for number in 1..=3 {
        let claim = subject
            .claim_in(&space(tenant(number), "POST:test"), "k")
            .with_policy(minutes(1));
        assert!(
            subject
                .settle(subject.take(&claim).await.lease(), Outcome::text(200, "ok"))
                .await
        );
    }
    subject.advance(Duration::from_secs(61));

    assert_eq!(subject.sweep(Sweep::default()).await.expired, 3);
}

/// Ids are unique within a tenant: a sweep takes a record by both, and leaves another tenant's record of the same id alone.
pub async fn a_sweep_takes_a_record_by_tenant_and_id(subject: &Subject) {
    let over = subject
        .claim_in(&space(tenant(1), "POST:test"), "k")
        .with_policy(minutes(1));
    assert!(
        subject
            .settle(subject.take(&over).await.lease(), Outcome::text(200, "ok"))
            .await
    );
    // Its time is over as well, and its holder is at work.
    let policy = Policy {
        lease: HOUR,
        ..minutes(1)
    };
    let claim = subject
        .claim_in(&space(tenant(2), "POST:test"), "k")
        .with_policy(policy);
    let Verdict::Grant(grant) = decide(None, &claim, subject.ledger.now()) else {
        unreachable!("nothing is stored")
    };
    let mut held = grant.next;
    held.id = over.id();
    assert_eq!(
        subject.swap(Move::inserting(held.clone())).await,
        Swap::Written
    );

    let sweep = Sweep {
        grace: Duration::from_secs(300),
        ..Sweep::default()
    };
    for (passes, expected) in [(61, [1, 0]), (400, [0, 1])] {
        subject.advance(Duration::from_secs(passes));
        let swept = subject.sweep(sweep).await;
        assert_eq!([swept.expired, swept.forgotten], expected);
        let stored = subject.ledger.find(tenant(2), held.id).await;
        assert_eq!(stored.expect("the ledger answers"), Some(held.clone()));
    }
    assert_eq!(subject.stored(&over).await, None);
}

/// A released key is forgotten after its time and grace; it never counts as expired.
pub async fn a_released_key_is_forgotten_without_a_flag(subject: &Subject) {
    let claim = subject.claim("k").with_policy(minutes(1));
    let lease = subject.take(&claim).await.lease();
    assert_eq!(
        subject.swap(lease.release(subject.ledger.now())).await,
        Swap::Written
    );
    subject.advance(Duration::from_secs(61));
    let sweep = Sweep {
        grace: HOUR,
        ..Sweep::default()
    };
    assert_eq!(
        subject.sweep(sweep).await,
        Swept {
            retired: 1,
            ..Swept::default()
        }
    );
    assert_eq!(
        subject.stored(&claim).await.map(|record| record.state),
        Some(State::Free)
    );
    subject.advance(HOUR);
    assert_eq!(
        subject.sweep(sweep).await,
        Swept {
            forgotten: 1,
            ..Swept::default()
        }
    );
    assert_eq!(subject.stored(&claim).await, None);
}

/// Pages of a scan list every record once, newest first, while others have the same time.
pub async fn a_scan_pages_newest_first_without_gap(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    for n in 0..23 {
        settled(subject, &format!("k{n}"), minutes(10)).await;
        if n % 4 == 0 {
            subject.advance(Duration::from_millis(5));
        }
    }

    let mut listed: Vec<Record> = Vec::new();
    let mut scan = Scan {
        limit: 5,
        ..Scan::of(Tenant::DEFAULT)
    };
    loop {
        let page = subject
            .ledger
            .scan(scan.clone())
            .await
            .expect("the ledger answers");
        assert!(page.records.len() <= 5);
        listed.extend(page.records);
        match page.next {
            Some(next) => scan.after = Some(next),
            None => break,
        }
    }
    assert_eq!(listed.len(), 23);
    assert!(
        listed.is_sorted_by(|a, b| (a.created_at, a.id) > (b.created_at, b.id)),
        "newest first, each once"
    );
}

/// A scan filters by space and state, and does not list freed or swept records.
pub async fn a_scan_filters_and_hides_what_no_longer_answers(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    settled(subject, "settled", minutes(10)).await;
    let _held = subject
        .take(&subject.claim("held").with_policy(minutes(10)))
        .await
        .lease();
    let elsewhere = subject
        .claim_in(&space(Tenant::DEFAULT, "POST:other"), "elsewhere")
        .with_policy(minutes(10));
    let _other = subject.take(&elsewhere).await.lease();
    let freed = subject
        .take(&subject.claim("freed").with_policy(minutes(10)))
        .await
        .lease();
    assert_eq!(
        subject.swap(freed.release(subject.ledger.now())).await,
        Swap::Written
    );

    let keys = async |scan: Scan| {
        let page = subject.ledger.scan(scan).await.expect("the ledger answers");
        let mut keys: Vec<_> = page
            .records
            .iter()
            .map(|record| record.key.to_string())
            .collect();
        keys.sort();
        keys
    };
    let all = Scan::of(Tenant::DEFAULT);
    assert_eq!(keys(all.clone()).await, ["elsewhere", "held", "settled"]);
    let here = Space::new("POST:test").ok();
    assert_eq!(
        keys(Scan {
            space: here,
            ..all.clone()
        })
        .await,
        ["held", "settled"]
    );
    assert_eq!(
        keys(Scan {
            state: Some("settled"),
            ..all.clone()
        })
        .await,
        ["settled"]
    );
    subject.advance(Duration::from_secs(60 * 11));
    subject.sweep(Sweep::default()).await;
    assert_eq!(keys(all).await, Vec::<String>::new());
}

/// A ledger that takes writes says so.
pub async fn a_healthy_ledger_says_so(subject: &Subject) {
    subject.ledger.check().await.expect("the ledger is healthy");
    assert!(!subject.ledger.name().is_empty());
}
