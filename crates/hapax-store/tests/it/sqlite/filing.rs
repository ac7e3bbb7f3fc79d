//! Many keys of the backlog that are filed at once, and the triggers of a user's own.

use hapax_core::Ledger;
use hapax_store::SqliteLedger;

use super::backlog::{FILED, NOTED, busy, claimed, listed, noted_among_claims, settled};
use super::{beside, claim, count, folder, insert, open_in};

/// Claims so many keys that they are filed without waiting for quiet, and one more, which is answered after that filing.
async fn claimed_many(ledger: &SqliteLedger) {
    for at in 0..11 {
        let moves = (0..100).map(|n| insert(ledger, &claim(&format!("{at}-{n}"), 1)));
        ledger.swap(moves.collect()).await.expect("it answers");
    }
    claimed(ledger, "last").await;
}

#[tokio::test]
async fn many_keys_are_filed_without_waiting_for_quiet() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    claimed_many(&ledger).await;
    let raw = beside(&ledger);
    assert_eq!((count(&raw, NOTED), count(&raw, FILED)), (1, 1100));
}

#[tokio::test]
async fn a_trigger_of_the_users_own_runs_for_every_row_however_it_is_filed() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    let raw = beside(&ledger);
    let follows = "CREATE TABLE seen (key TEXT);
         CREATE TRIGGER follows AFTER INSERT ON idempotency_keys
         BEGIN INSERT INTO seen VALUES (new.idempotency_key); END";
    raw.execute_batch(follows).expect("it is made");
    claimed_many(&ledger).await;
    assert_eq!(count(&raw, "SELECT count(DISTINCT key) FROM seen"), 1100);
    assert_eq!(listed(&ledger).await, 50, "the first page, filed for it");
    assert_eq!(count(&raw, "SELECT count(DISTINCT key) FROM seen"), 1101);
}

#[tokio::test]
async fn triggers_run_again_after_many_keys_were_filed() {
    let folder = folder();
    let ledger = open_in(&folder, busy());
    claimed_many(&ledger).await;
    let raw = beside(&ledger);
    let refusal = "CREATE TRIGGER refused BEFORE INSERT ON audit_log BEGIN SELECT raise(ABORT, 'refused'); END";
    raw.execute_batch(refusal).expect("it is made");
    let record = settled(&ledger, "k").await;
    let noted = noted_among_claims(&ledger, &raw, &record).await;
    noted.expect_err("it is refused");
}
