//! What the ledger in Redis can lose when a primary dies: measured, not promised. Ignored, since it asserts nothing
//! about the figure; it prints it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax_core::{
    Claim, Fingerprint, Key, Ledger, Move, Owner, Record, Scope, Swap, Tenant, Version,
};
use hapax_store::redis::{RedisLedger, RedisOptions, Target};

use super::server::Server;

const WRITERS: usize = 16;
const ROUNDS: usize = 5;
const LOAD: Duration = Duration::from_secs(3);

fn insert(ledger: &RedisLedger, key: &str) -> Move {
    let scope = Scope::new(Tenant::DEFAULT, "POST:loss").unwrap();
    let claim = Claim::new(
        scope,
        Key::new(key).unwrap(),
        Fingerprint::of(b"asked"),
        Owner::from_u128(uuid::Uuid::new_v4().as_u128()),
    );
    let now = ledger.now();
    Move::inserting(Record::granted(&claim, Version::seeded(now), now))
}

fn options() -> RedisOptions {
    RedisOptions {
        answer_timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(2),
        ..RedisOptions::default()
    }
}

/// Grants keys until the primary is killed, promotes the replica, and claims every granted key again. Answers how many
/// were granted, how many of them were granted a second time, and how many writes were not acknowledged.
async fn round(wait: &str, freezes: bool) -> (usize, usize, usize) {
    let mut primary = Server::start(&[]);
    let port = primary.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let patience = Instant::now() + Duration::from_secs(30);
    let linked = |server: &Server| {
        let info = server.ask("INFO replication");
        info.is_some_and(|info| info.contains("master_link_status:up"))
    };
    while !linked(&replica) {
        assert!(Instant::now() < patience, "the replica did not connect");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let target = Target::parse(&format!("{}{wait}", primary.url())).unwrap();
    let ledger = Arc::new(RedisLedger::open(target, options()).await.unwrap());
    let granted: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (stop, refused) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (ledger, granted) = (Arc::clone(&ledger), Arc::clone(&granted));
            let (stop, refused) = (Arc::clone(&stop), Arc::clone(&refused));
            tokio::spawn(async move {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("{writer}-{number}");
                    match ledger.swap(vec![insert(&ledger, &key)]).await {
                        Ok(swaps) if swaps == [Swap::Written] => {
                            granted.lock().unwrap().insert(key);
                        }
                        Ok(_) | Err(_) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(LOAD).await;
    if freezes {
        // A replica that lags: it is stopped a moment before its primary dies, and promoted as it is.
        replica.freeze();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    primary.kill();
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    if freezes {
        replica.thaw();
    }
    replica.ask("REPLICAOF NO ONE").unwrap();
    let target = Target::parse(&replica.url()).unwrap();
    let promoted = RedisLedger::open(target, options()).await.unwrap();
    let granted = std::mem::take(&mut *granted.lock().unwrap());
    let mut again = 0;
    for key in &granted {
        let swaps = promoted.swap(vec![insert(&promoted, key)]).await.unwrap();
        again += usize::from(swaps == [Swap::Written]);
    }
    (granted.len(), again, refused.load(Ordering::Relaxed))
}

#[test]
#[ignore = "a measurement of some minutes: dev/with-redis cargo nextest run -p hapax-store --run-ignored only --no-capture -E 'test(losses)'"]
fn losses_of_a_failover_are_printed() {
    hapax_store::conformance::run(async {
        println!("replica | wait | granted | granted again | not acknowledged");
        for (freezes, replica) in [(false, "keeps up"), (true, "stops 200 ms before")] {
            for (wait, shown) in [("", "0"), ("?wait=1&wait_ms=50", "1")] {
                let mut sum = (0, 0, 0);
                for _ in 0..ROUNDS {
                    let (granted, again, refused) = round(wait, freezes).await;
                    assert!(granted > 0, "there was a load");
                    sum = (sum.0 + granted, sum.1 + again, sum.2 + refused);
                }
                println!("{replica} | {shown} | {} | {} | {}", sum.0, sum.1, sum.2);
            }
        }
    });
}
