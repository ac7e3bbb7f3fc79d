//! How many keys a second can be claimed and settled durably here: alone, and 64 at a time.
//!
//! `cargo run --release -p hapax-store --example throughput`
//!
//! Both figures are of the same run, disk and settings (SQLite, `synchronous=FULL`), so their ratio says
//! what group commit is worth on this machine. It is a quick look, not a benchmark.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_core::{
    Claim, Fingerprint, Key, Lease, Ledger, Move, Outcome, Owner, Scope, Swap, Tenant, Verdict,
    decide,
};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::SqliteOptions;

const TIME: Duration = Duration::from_secs(4);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::current_dir()?.join(format!("throughput-{}", std::process::id()));
    let ledger = Arc::new(SqliteLedger::open(
        &folder.join("ledger.db"),
        SqliteOptions::default(),
    )?);
    let alone = rate(&ledger, 1).await;
    let together = rate(&ledger, 64).await;
    ledger.close().await?;
    drop(ledger);
    std::fs::remove_dir_all(&folder)?;
    println!(
        "keys claimed and settled per second, SQLite synchronous=FULL, two durable writes each"
    );
    println!("  one at a time     {alone:>8.0}");
    println!(
        "  64 at a time      {together:>8.0}   {:.1} times as many",
        together / alone
    );
    Ok(())
}

/// Keys per second with `tasks` at once.
async fn rate(ledger: &Arc<SqliteLedger>, tasks: usize) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|task| tokio::spawn(work(ledger.clone(), task, begun + TIME)))
        .collect();
    let mut keys = 0;
    for task in tasks {
        keys += task.await.expect("no task panics");
    }
    f64::from(keys) / begun.elapsed().as_secs_f64()
}

async fn work(ledger: Arc<SqliteLedger>, task: usize, until: Instant) -> u32 {
    let scope = Scope::new(Tenant::DEFAULT, "POST:throughput").expect("a valid space");
    let mut keys = 0;
    while Instant::now() < until {
        let key =
            Key::new(&format!("{task}-{keys}-{}", ledger.now().as_ms())).expect("a valid key");
        let claim = Claim::new(
            scope.clone(),
            key,
            Fingerprint::of(b"asked"),
            Owner::from_u128(1 + task as u128),
        );
        let Verdict::Grant(grant) = decide(None, &claim, ledger.now()) else {
            unreachable!("a fresh key is granted")
        };
        let granted = grant.next;
        swap(&ledger, Move::inserting(granted.clone())).await;
        let hold = granted.hold().expect("a granted record is held");
        let lease = Lease::of(granted, hold.epoch, hold.owner).expect("the hold is its own");
        swap(
            &ledger,
            lease.settle(
                Outcome::text(201, "{\"id\":\"7f3a\",\"status\":\"paid\"}"),
                ledger.now(),
            ),
        )
        .await;
        keys += 1;
    }
    keys
}

async fn swap(ledger: &Arc<SqliteLedger>, step: Move) {
    let swaps = ledger.swap(vec![step]).await.expect("the ledger answers");
    assert_eq!(swaps, [Swap::Written]);
}
