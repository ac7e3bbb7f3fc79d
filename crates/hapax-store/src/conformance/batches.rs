//! Many moves at once: independent of each other, answered in order.

use hapax_core::{Claim, Move, Outcome, Record, State, Swap, Version};

use super::claims::join;
use super::subject::{Subject, lease, space, tenant};

fn insert(subject: &Subject, claim: &Claim) -> Move {
    let now = subject.ledger.now();
    Move::inserting(Record::granted(claim, Version::seeded(now), now))
}

async fn swap(subject: &Subject, moves: Vec<Move>) -> Vec<Swap> {
    let asked = moves.len();
    let swaps = subject
        .ledger
        .swap(moves)
        .await
        .expect("the ledger answers");
    assert_eq!(swaps.len(), asked, "one answer per move");
    swaps
}

/// A stale move in a batch neither stops nor undoes the others.
pub async fn moves_of_a_batch_are_independent(subject: &Subject) {
    let taken = subject.claim("taken");
    let held = subject.take(&taken).await.lease();
    let (first, second) = (subject.claim("first"), subject.claim("second"));
    let again = subject.again(&taken);

    let swaps = swap(
        subject,
        vec![
            insert(subject, &first),
            insert(subject, &again),
            insert(subject, &second),
        ],
    )
    .await;

    assert_eq!(swaps[0], Swap::Written);
    assert_eq!(swaps[1], Swap::Stale(Some(Box::new(held.record().clone()))));
    assert_eq!(swaps[2], Swap::Written);
    assert!(subject.stored(&first).await.is_some());
    assert!(subject.stored(&second).await.is_some());
}

/// A provisional claim is there for everybody at once, blocks its key, and is settled like any other, also beside moves that
/// are not provisional.
pub async fn a_provisional_claim_blocks_its_key_and_is_settled(subject: &Subject) {
    let (soon, sure) = (subject.claim("soon"), subject.claim("sure"));
    let provisional = insert(subject, &soon).provisionally();
    let held = provisional.next.clone();
    let mixed = vec![insert(subject, &sure), provisional.clone()];

    assert_eq!(swap(subject, mixed).await, [Swap::Written, Swap::Written]);
    assert_eq!(
        swap(subject, vec![provisional]).await,
        [Swap::Stale(Some(Box::new((*held).clone())))]
    );
    assert_eq!(subject.stored(&soon).await.as_ref(), Some(&*held));
    let alone = subject.claim("alone");
    let provisional = insert(subject, &alone).provisionally();
    let lease = lease(provisional.next.clone());
    assert_eq!(swap(subject, vec![provisional]).await, [Swap::Written]);
    let settle = lease.settle(Outcome::text(200, "done"), subject.ledger.now());
    let settled = settle.next.clone();
    assert_eq!(swap(subject, vec![settle]).await, [Swap::Written]);
    assert_eq!(subject.stored(&alone).await.as_ref(), Some(&*settled));
}

/// 200 mixed moves are answered in the order they were given.
pub async fn answers_come_in_the_order_of_the_moves(subject: &Subject) {
    let claims: Vec<_> = (0..200).map(|n| subject.claim(&format!("k{n}"))).collect();
    let odd = claims
        .iter()
        .skip(1)
        .step_by(2)
        .map(|claim| insert(subject, claim))
        .collect();
    assert!(
        swap(subject, odd)
            .await
            .iter()
            .all(|swap| *swap == Swap::Written)
    );

    let attempts: Vec<_> = claims.iter().map(|claim| subject.again(claim)).collect();
    let swaps = swap(
        subject,
        attempts
            .iter()
            .map(|claim| insert(subject, claim))
            .collect(),
    )
    .await;

    for (at, swap) in swaps.iter().enumerate() {
        match swap {
            Swap::Written => assert_eq!(at % 2, 0, "an even key was free"),
            Swap::Stale(Some(record)) => assert_eq!(
                record.key, claims[at].key,
                "the answer is about its own move"
            ),
            Swap::Stale(None) => panic!("an odd key is stored"),
        }
    }
}

/// Two moves on one key in one batch behave as if one came after the other.
pub async fn the_same_key_twice_in_a_batch_is_applied_in_order(subject: &Subject) {
    let claim = subject.claim("k");
    let (first, second) = (
        insert(subject, &claim),
        insert(subject, &subject.again(&claim)),
    );
    let winner = Record::clone(&first.next);

    let swaps = swap(subject, vec![first, second]).await;

    assert_eq!(
        swaps,
        [Swap::Written, Swap::Stale(Some(Box::new(winner.clone())))]
    );
    assert_eq!(subject.stored(&claim).await, Some(winner));
}

/// A claim and its settle can travel together.
pub async fn a_claim_and_its_settle_fit_one_batch(subject: &Subject) {
    let claim = subject.claim("k");
    let grant = insert(subject, &claim);
    let settle = lease(grant.next.clone()).settle(Outcome::text(200, "ok"), subject.ledger.now());

    assert_eq!(
        swap(subject, vec![grant, settle]).await,
        [Swap::Written, Swap::Written]
    );
    let stored = subject.stored(&claim).await.expect("it is stored");
    assert!(matches!(stored.state, State::Settled { .. }));
}

/// One batch may hold the moves of many tenants; each lands with its own.
pub async fn a_batch_may_hold_many_tenants(subject: &Subject) {
    let claims: Vec<_> = (1..=20)
        .map(|number| {
            subject.claim_in(
                &space(tenant(number % 5 + 1), "POST:test"),
                &format!("k{number}"),
            )
        })
        .collect();

    let swaps = swap(
        subject,
        claims.iter().map(|claim| insert(subject, claim)).collect(),
    )
    .await;

    assert!(swaps.iter().all(|swap| *swap == Swap::Written));
    for claim in &claims {
        assert_eq!(
            subject.stored(claim).await.map(|record| record.scope),
            Some(claim.scope.clone())
        );
    }
}

/// No moves, no answers, no error.
pub async fn an_empty_batch_answers_nothing(subject: &Subject) {
    assert_eq!(swap(subject, Vec::new()).await, []);
}

/// Batches that overlap in different orders leave every key with one winner, and do not block each other.
pub async fn overlapping_batches_have_one_winner_per_key(subject: &Subject) {
    let names: Vec<_> = (0..40).map(|n| format!("k{n}")).collect();
    let batches = (0..8).map(|batch: usize| {
        let claims: Vec<_> = names
            .iter()
            .cycle()
            .skip(batch * 5)
            .take(names.len())
            .map(|name| subject.claim(name))
            .collect();
        async move {
            let swaps = swap(
                subject,
                claims.iter().map(|claim| insert(subject, claim)).collect(),
            )
            .await;
            swaps
                .into_iter()
                .filter(|swap| *swap == Swap::Written)
                .count()
        }
    });

    let written: usize = join(batches).await.into_iter().sum();

    assert_eq!(written, names.len());
}
