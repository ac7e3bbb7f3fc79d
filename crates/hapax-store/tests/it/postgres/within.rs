//! Claim, effect and outcome in the caller's own transaction: once, in the same transaction.

use std::sync::Arc;

use hapax_core::{Ledger, Outcome};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use hapax_store::within::{Claimed, Settled};
use tokio_postgres::Client;

use super::claim;
use super::database::{Database, connect};

/// A shop with a table of its own and a login that has the app's rights.
async fn shop() -> (Database, Client) {
    let database = Database::migrated().await;
    let login = format!("shop_{}", database.name);
    let raw = database.raw().await;
    raw.batch_execute(&format!(
        "CREATE ROLE {login} LOGIN; GRANT hapax_app TO {login}; CREATE TABLE transfer (amount integer); \
         GRANT ALL ON transfer TO {login}"
    ))
    .await
    .unwrap();
    let client = connect(&database.url_for(&login, "")).await;
    (database, client)
}

async fn transfers(client: &Client) -> i64 {
    client
        .query_one("SELECT count(*) FROM transfer", &[])
        .await
        .unwrap()
        .get(0)
}

/// Claims, transfers and settles, and leaves the end of the transaction to the caller.
async fn transfer(
    transaction: &mut tokio_postgres::Transaction<'_>,
    owner: u128,
) -> Option<Arc<Outcome>> {
    match PgLedger::within(transaction)
        .claim(&claim(1, "t-1", owner))
        .await
        .unwrap()
    {
        Claimed::Granted(lease, _) => {
            transaction
                .execute("INSERT INTO transfer VALUES (10)", &[])
                .await
                .unwrap();
            let swap = PgLedger::within(transaction)
                .settle(*lease, Outcome::text(201, "moved"))
                .await
                .unwrap();
            assert!(matches!(swap, Settled::Recorded));
            None
        }
        Claimed::Replay(outcome) => Some(outcome),
        other => panic!("nobody holds it: {other:?}"),
    }
}

#[tokio::test]
async fn effect_and_outcome_appear_together_and_a_second_claim_replays() {
    let (database, mut client) = shop().await;
    let ledger = database.open(PgOptions::default()).await;
    let key = claim(1, "t-1", 0);
    let mut transaction = client.transaction().await.unwrap();
    assert_eq!(transfer(&mut transaction, 1).await, None);
    assert_eq!(
        ledger.find(key.scope.tenant, key.id()).await.unwrap(),
        None,
        "nobody sees it yet"
    );
    transaction.commit().await.unwrap();

    let stored = ledger
        .find(key.scope.tenant, key.id())
        .await
        .unwrap()
        .expect("both are there now");
    assert_eq!(stored.state.as_str(), "settled");
    let mut transaction = client.transaction().await.unwrap();
    assert_eq!(
        transfer(&mut transaction, 2).await.as_deref(),
        Some(&Outcome::text(201, "moved"))
    );
    transaction.commit().await.unwrap();
    assert_eq!(transfers(&client).await, 1);
}

#[tokio::test]
async fn a_rollback_leaves_neither_effect_nor_claim() {
    let (database, mut client) = shop().await;
    let ledger = database.open(PgOptions::default()).await;
    let mut transaction = client.transaction().await.unwrap();
    transfer(&mut transaction, 1).await;
    transaction.rollback().await.unwrap();

    assert_eq!(transfers(&client).await, 0);
    let key = claim(1, "t-1", 0);
    assert_eq!(ledger.find(key.scope.tenant, key.id()).await.unwrap(), None);
    let mut transaction = client.transaction().await.unwrap();
    assert_eq!(
        transfer(&mut transaction, 2).await,
        None,
        "the next one runs it"
    );
    transaction.commit().await.unwrap();
    assert_eq!(transfers(&client).await, 1);
}

#[tokio::test]
async fn of_many_transactions_at_once_one_acts_and_the_others_replay() {
    let (database, client) = shop().await;
    let login = format!("shop_{}", database.name);
    let tasks: Vec<_> = (1..=8)
        .map(|owner| {
            let url = database.url_for(&login, "");
            tokio::spawn(async move {
                let mut client = connect(&url).await;
                let mut transaction = client.transaction().await.unwrap();
                let replayed = transfer(&mut transaction, owner).await.is_some();
                transaction.commit().await.unwrap();
                replayed
            })
        })
        .collect();
    let mut replays = 0;
    for task in tasks {
        replays += usize::from(task.await.unwrap());
    }
    assert_eq!((transfers(&client).await, replays), (1, 7));
}

#[tokio::test]
async fn a_key_held_through_the_ledger_is_busy_within_a_transaction() {
    let (database, mut client) = shop().await;
    let ledger = database.open(PgOptions::default()).await;
    ledger
        .swap(vec![super::inserting(&ledger, &claim(1, "t-1", 1))])
        .await
        .unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let claimed = PgLedger::within(&mut transaction)
        .claim(&claim(1, "t-1", 2))
        .await
        .unwrap();
    assert!(matches!(claimed, Claimed::Busy(_)), "{claimed:?}");
}
