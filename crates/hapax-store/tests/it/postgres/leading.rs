//! Of all that share a database one leads a chore, and another does when it is gone.

use std::time::{Duration, Instant};

use hapax_core::{Chore, Ledger};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;

use super::database::Database;

/// Far beyond what any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which of them leads the chore, once one does.
async fn leader(nodes: &[&PgLedger], chore: Chore) -> usize {
    let until = Instant::now() + PATIENCE;
    loop {
        let led: Vec<bool> = nodes.iter().map(|node| node.leads(chore)).collect();
        assert!(
            led.iter().filter(|leads| **leads).count() <= 1,
            "two lead {chore:?}: {led:?}"
        );
        if let Some(at) = led.iter().position(|leads| *leads) {
            return at;
        }
        assert!(Instant::now() < until, "nobody leads {chore:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn open(url: &str) -> PgLedger {
    PgLedger::open(url, PgOptions::default()).await.unwrap()
}

async fn one_leads_until_it_is_gone(database: &Database, url: &str) {
    let (first, second) = (open(url).await, open(url).await);
    assert_eq!(leader(&[&first], Chore::Sweep).await, 0);
    assert_eq!(leader(&[&first, &second], Chore::Sweep).await, 0);
    // Each chore has its own leader: who asks for one does not hold another.
    assert_eq!(leader(&[&second], Chore::Batches).await, 0);
    assert_eq!(leader(&[&first, &second], Chore::Batches).await, 1);
    // The second has asked for both in one go by now, and was given one.
    assert_eq!(leader(&[&first, &second], Chore::Sweep).await, 0);

    // It holds nothing back meanwhile, and has written nothing.
    let raw = database.raw().await;
    let idle = "SELECT count(*), count(backend_xmin), count(backend_xid) FROM pg_stat_activity
                 WHERE datname = current_database() AND state = 'idle in transaction'
                   AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')";
    let row = raw.query_one(idle, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(1), 0, "no snapshot is kept");
    assert_eq!(row.get::<_, i64>(2), 0, "no number is taken");

    first.close().await.unwrap();
    assert!(!first.leads(Chore::Sweep), "who is closed leads nothing");
    assert_eq!(leader(&[&second], Chore::Sweep).await, 0);
}

#[tokio::test]
async fn one_process_leads_a_chore_until_it_is_closed() {
    let database = Database::migrated().await;
    one_leads_until_it_is_gone(&database, &database.url).await;
}

#[tokio::test]
async fn one_process_leads_behind_a_pooler_in_transaction_mode_too() {
    let database = Database::migrated().await;
    one_leads_until_it_is_gone(&database, &database.pooled()).await;
}

#[tokio::test]
async fn a_leader_whose_session_ends_asks_again() {
    let database = Database::migrated().await;
    let node = open(&database.url).await;
    leader(&[&node], Chore::Sweep).await;
    let raw = database.raw().await;
    let holder = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND database =
                  (SELECT oid FROM pg_database WHERE datname = current_database())";
    let before: i32 = raw.query_one(holder, &[]).await.unwrap().get(0);
    raw.query("SELECT pg_terminate_backend($1)", &[&before])
        .await
        .unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        let now = raw.query_opt(holder, &[]).await.unwrap();
        if now.is_some_and(|row| row.get::<_, i32>(0) != before) {
            break;
        }
        assert!(Instant::now() < until, "it does not ask again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    leader(&[&node], Chore::Sweep).await;
}

#[tokio::test]
async fn another_schema_of_the_same_database_has_a_leader_of_its_own() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    let here = open(&database.url).await;
    leader(&[&here], Chore::Sweep).await;
    let key =
        "SELECT pg_try_advisory_lock(hashtextextended('hapax chore sweep of ' || $1::text, 0))";
    let free = async |schema: &str| -> bool {
        let row = raw.query_one(key, &[&schema]).await.unwrap();
        row.get(0)
    };
    assert!(free("elsewhere").await, "nobody leads there");
    assert!(!free("public").await, "it leads here");
}
