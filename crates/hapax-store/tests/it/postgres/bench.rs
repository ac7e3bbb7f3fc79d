//! A measurement, not a test: `cargo test --release … pg_rate -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hapax_core::{Ledger, Move, Outcome, Swap};
use hapax_store::postgres::PgOptions;

use super::database::Database;
use super::{claim, inserting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn pg_rate() {
    let writers = std::env::var("HAPAX_WRITERS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let tenants: u128 = std::env::var("HAPAX_TENANTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let database = Database::create().await;
    let ledger = Arc::new(
        database
            .open(PgOptions {
                writers,
                ..PgOptions::default()
            })
            .await,
    );
    let span = Duration::from_secs(10);
    let end = Instant::now() + span;
    let tasks: Vec<_> = (0..64u128)
        .map(|task| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let mut done = 0u32;
                while Instant::now() < end {
                    let mut claim = claim(
                        task % tenants,
                        &format!("key-{task}-{done}"),
                        task << 32 | u128::from(done),
                    );
                    claim.request.body = Some(bytes::Bytes::from_static(&[b'x'; 200]));
                    let step = inserting(&ledger, &claim);
                    let held = step.next.clone();
                    assert_eq!(ledger.swap(vec![step]).await.unwrap(), [Swap::Written]);
                    let settled =
                        held.settled(Outcome::text(201, "{\"id\":\"0123456789\"}"), ledger.now());
                    let swaps = ledger
                        .swap(vec![Move::replacing(&held, settled)])
                        .await
                        .unwrap();
                    assert_eq!(swaps, [Swap::Written]);
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    println!(
        "{writers} writers, {tenants} tenants: {:.0} fresh swap+settle per second",
        f64::from(done) / span.as_secs_f64()
    );
    let raw = database.raw().await;
    let row = raw
        .query_one(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'",
            &[],
        )
        .await
        .unwrap();
    println!(
        "updates {}, of them heap-only {}",
        row.get::<_, i64>(0),
        row.get::<_, i64>(1)
    );
}
