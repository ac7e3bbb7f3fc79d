//! Sweeping many expired keys beside a running server: bounded steps, traffic goes on, an audit row tells.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::{
    Claim, Fingerprint, Key, Ledger, Move, Outcome, Owner, Policy, Record, Scope, Swap, Tenant,
    Version,
};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::SqliteOptions;

use crate::fixture::{Server, json, path};

/// Puts `count` keys into the ledger that expired an hour ago.
fn fill(database: &Path, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ledger = SqliteLedger::open(database, SqliteOptions::default()).unwrap();
    let scope = Scope::new(Tenant::DEFAULT, "POST:old").unwrap();
    let policy = Policy {
        ttl: Duration::from_secs(1),
        ..Policy::default()
    };
    let then = hapax_core::Time::from_ms(ledger.now().as_ms() - 3_600_000);
    let record = |number: usize| {
        let key = Key::new(&format!("old-{number}")).unwrap();
        let claim = Claim::new(
            scope.clone(),
            key,
            Fingerprint::of(b"asked"),
            Owner::from_u128(1),
        );
        let held = Record::granted(&claim.with_policy(policy), Version::seeded(then), then);
        Move::inserting(held.settled(Outcome::text(200, "done"), then))
    };
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(4000) {
        let moves = numbers.iter().map(|number| record(*number)).collect();
        let swaps = runtime.block_on(ledger.swap(moves)).unwrap();
        assert!(swaps.iter().all(|swap| *swap == Swap::Written));
    }
    runtime.block_on(ledger.close()).unwrap();
}

fn sweep_beside_traffic(count: usize) {
    let server = Server::start();
    let database = std::fs::read_dir(server.data())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|file| file.extension().is_some_and(|extension| extension == "db"))
        .expect("the database is in the data folder");
    fill(&database, count);
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let swept = std::thread::scope(|scope| {
        for client in 0..2 {
            let (server, stop, answered) = (&server, &stop, &answered);
            scope.spawn(move || {
                let bearer = format!("Bearer {}", server.token());
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("new-{client}-{number}");
                    let headers = [
                        ("authorization", bearer.as_str()),
                        ("idempotency-key", key.as_str()),
                    ];
                    let answer = server.send("POST", "/v1/echo", &headers, b"{}");
                    assert_eq!(answer.status, 200, "traffic goes on: {}", answer.text());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let swept = json(&["sweep", "--data", path(&server.data())]);
        stop.store(true, Ordering::Relaxed);
        swept
    });
    assert_eq!(swept["swept"], count, "{swept}");
    assert!(
        answered.load(Ordering::Relaxed) > 0,
        "requests were answered meanwhile"
    );
    let again = json(&["sweep", "--data", path(&server.data())]);
    assert_eq!(again["swept"], 0, "what still answers is left alone");
    assert_eq!(
        told(&server),
        count as u64,
        "the audit trail tells of every one"
    );
}

/// How many swept keys the audit trail tells of, page by page.
fn told(server: &Server) -> u64 {
    let mut told = 0;
    let mut after = String::new();
    loop {
        let path = format!("/v1/audit?action=cleanup_idempotency_keys&limit=500{after}");
        let page = server.owner("GET", &path, "").json();
        told += page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["details"]["deleted_count"].as_u64().unwrap())
            .sum::<u64>();
        match page["next_cursor"].as_str() {
            Some(cursor) => after = format!("&cursor={cursor}"),
            None => return told,
        }
    }
}

#[test]
fn twenty_thousand_expired_keys_are_swept_while_traffic_goes_on() {
    sweep_beside_traffic(20_000);
}

#[test]
#[ignore = "a soak of about a minute: ./test --soak"]
fn soak_a_million_expired_keys_are_swept_while_traffic_goes_on() {
    sweep_beside_traffic(1_000_000);
}
