//! Tenants and spaces never meet.

use hapax_core::{Fingerprint, Move, Outcome, RecordId, Scan, Swap};

use super::subject::{Subject, Taken, space, tenant};

/// Two tenants use one key for two operations.
pub async fn the_same_key_of_another_tenant_is_another_record(subject: &Subject) {
    let here = subject.claim_in(&space(tenant(1), "POST:test"), "k");
    let mut there = subject.claim_in(&space(tenant(2), "POST:test"), "k");
    there.fingerprint = Fingerprint::of(b"something else");
    let first = subject.take(&here).await.lease();
    let second = subject.take(&there).await.lease();
    assert!(subject.settle(first, Outcome::text(200, "one")).await);
    assert!(subject.settle(second, Outcome::text(200, "two")).await);

    for (claim, body) in [(here, "one"), (there, "two")] {
        match subject.take(&subject.again(&claim)).await {
            Taken::Replay(outcome) => assert_eq!(*outcome, Outcome::text(200, body)),
            other => panic!("each tenant has its own outcome, got {other:?}"),
        }
    }
}

/// One tenant uses one key for two operations in two spaces.
pub async fn the_same_key_in_another_space_is_another_record(subject: &Subject) {
    let here = subject.claim_in(&space(tenant(1), "POST:payments"), "k");
    let there = subject.claim_in(&space(tenant(1), "POST:refunds"), "k");
    assert!(
        subject
            .settle(
                subject.take(&here).await.lease(),
                Outcome::text(200, "paid")
            )
            .await
    );

    let _granted = subject.take(&there).await.lease();
}

/// Another tenant's id answers like one that does not exist.
pub async fn another_tenants_id_finds_nothing(subject: &Subject) {
    let claim = subject.claim_in(&space(tenant(1), "POST:test"), "k");
    subject
        .settle(
            subject.take(&claim).await.lease(),
            Outcome::text(200, "mine"),
        )
        .await;

    let found = subject
        .ledger
        .find(tenant(2), claim.id())
        .await
        .expect("the ledger answers");
    assert_eq!(found, None);
    let unknown = RecordId::from_uuid(uuid::Uuid::from_u128(7));
    assert_eq!(
        subject
            .ledger
            .find(tenant(1), unknown)
            .await
            .expect("the ledger answers"),
        None
    );
}

/// A move under one tenant cannot touch the record of another, even if it knows its id and version.
pub async fn another_tenants_record_cannot_be_moved(subject: &Subject) {
    let claim = subject.claim_in(&space(tenant(1), "POST:test"), "k");
    let lease = subject.take(&claim).await.lease();
    let before = subject.stored(&claim).await;

    let mut forged = lease
        .record()
        .settled(Outcome::text(200, "forged"), subject.ledger.now());
    forged.scope = space(tenant(2), "POST:test");
    let step = Move::replacing(lease.record(), forged);
    assert_eq!(
        subject.swap(step).await,
        Swap::Stale(None),
        "for the other tenant there is nothing"
    );
    assert_eq!(subject.stored(&claim).await, before);
}

/// A scan lists the records of its tenant and no other.
pub async fn a_scan_lists_only_its_tenant(subject: &Subject) {
    if !subject.lists().await {
        return;
    }
    for number in [1, 2, 2] {
        let name = format!("k{number}");
        let claim = subject.claim_in(&space(tenant(number), "POST:test"), &name);
        if let Taken::Granted(lease, _) = subject.take(&claim).await {
            subject.settle(lease, Outcome::text(200, "ok")).await;
        }
    }

    for number in [1, 2] {
        let page = subject
            .ledger
            .scan(Scan::of(tenant(number)))
            .await
            .expect("the ledger answers");
        assert_eq!(page.records.len(), 1);
        assert!(
            page.records
                .iter()
                .all(|record| record.scope.tenant == tenant(number))
        );
    }
    let page = subject
        .ledger
        .scan(Scan::of(tenant(3)))
        .await
        .expect("the ledger answers");
    assert!(page.records.is_empty());
}
