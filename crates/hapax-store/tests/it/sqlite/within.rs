//! The ledger within a caller's own transaction.

use hapax_core::{Cause, Ledger, Move, Outcome, State, Swap};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::SqliteOptions;
use hapax_store::sqlite::rusqlite::{Connection, Transaction, TransactionBehavior};
use hapax_store::within::{Claimed, Settled};

use super::{beside, claim, count, folder, insert, open_in};

fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .expect("the lock is free")
}

#[tokio::test]
async fn what_commits_is_seen_by_the_ledger_and_what_is_rolled_back_is_not() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let mut caller = beside(&ledger);
    caller
        .execute_batch("CREATE TABLE payment (amount INTEGER)")
        .expect("the caller's table");
    let claim = claim("k", 1);
    for commit in [false, true] {
        let tx = begin(&mut caller);
        let claimed = SqliteLedger::within(&tx)
            .claim(&claim, ledger.now())
            .expect("it answers");
        let Claimed::Granted(lease, Cause::Fresh) = claimed else {
            panic!("nothing was left behind, got {claimed:?}")
        };
        tx.execute_batch("INSERT INTO payment (amount) VALUES (10)")
            .expect("the caller's write");
        let settled =
            SqliteLedger::within(&tx).settle(*lease, Outcome::text(201, "paid"), ledger.now());
        assert!(matches!(settled.expect("it answers"), Settled::Recorded));
        if commit { tx.commit() } else { tx.rollback() }.expect("it ends");

        let stored = ledger
            .find(claim.scope.tenant, claim.id())
            .await
            .expect("it answers");
        assert_eq!(stored.is_some(), commit);
        assert_eq!(
            count(&caller, "SELECT count(1) FROM payment"),
            i64::from(commit)
        );
    }
}

#[tokio::test]
async fn a_renewed_lease_settles_and_a_lost_one_does_not() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let mut caller = beside(&ledger);
    let claim = claim("k", 1);
    let grant = insert(&ledger, &claim);
    let lease = |record: &hapax_core::Record| {
        let hold = record.hold().expect("held");
        hapax_core::Lease::of(record.clone(), hold.epoch, hold.owner).expect("its own hold")
    };
    let (first, second) = (lease(&grant.next), lease(&grant.next));
    let renewed = grant.next.renewed(ledger.now());
    let moves = vec![grant.clone(), Move::replacing(&grant.next, renewed)];
    assert_eq!(
        ledger.swap(moves).await.expect("it answers"),
        [Swap::Written, Swap::Written]
    );

    let tx = begin(&mut caller);
    let settled =
        SqliteLedger::within(&tx).settle(first, Outcome::text(200, "first"), ledger.now());
    assert!(matches!(settled.expect("it answers"), Settled::Recorded));
    let settled =
        SqliteLedger::within(&tx).settle(second, Outcome::text(200, "second"), ledger.now());
    let Settled::LeaseLost(Some(stored)) = settled.expect("it answers") else {
        panic!("it is settled already")
    };
    assert!(matches!(stored.state, State::Settled { .. }));
}

#[test]
fn a_second_claimant_is_told_and_changes_nothing() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let mut caller = beside(&ledger);
    let tx = begin(&mut caller);
    let within = SqliteLedger::within(&tx);
    let Claimed::Granted(lease, _) = within
        .claim(&claim("k", 1), ledger.now())
        .expect("it answers")
    else {
        panic!("a fresh key is granted")
    };

    let second = within
        .claim(&claim("k", 2), ledger.now())
        .expect("it answers");
    assert!(matches!(second, Claimed::Busy(until) if until == lease.until()));
    let mut other = claim("k", 3);
    other.fingerprint = hapax_core::Fingerprint::of(b"something else");
    assert!(matches!(
        within.claim(&other, ledger.now()).expect("it answers"),
        Claimed::Conflict(_)
    ));
    let mine = within
        .claim(&claim("k", 1), ledger.now())
        .expect("it answers");
    assert!(matches!(mine, Claimed::Granted(_, Cause::Mine)));
}
