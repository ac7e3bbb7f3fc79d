//! The ledger suite on Redis, single and cluster, and what only this store promises.

// Helpers of tests, which clippy does not know as such.
#![allow(clippy::unwrap_used)]

mod losses;
mod promises;
mod replays;
mod server;

use std::sync::Arc;

use hapax_store::Clock;
use hapax_store::conformance::Subject;
use hapax_store::redis::{RedisLedger, RedisOptions, Target};

/// The URL in this variable of the environment, which dev/with-redis sets.
fn url(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set; run the tests through dev/with-redis, as ./test does")
    })
}

fn single() -> Target {
    Target::parse(&url("HAPAX_TEST_REDIS")).unwrap()
}

fn cluster() -> Target {
    Target::parse(&url("HAPAX_TEST_REDIS_CLUSTER")).unwrap()
}

/// Names of this test's own, so that tests can share the server.
fn options(clock: &Clock) -> RedisOptions {
    RedisOptions {
        clock: clock.clone(),
        prefix: format!("test-{}", uuid::Uuid::new_v4().simple()),
        secret: Some([7; 32]),
        ..RedisOptions::default()
    }
}

async fn open(target: Target) -> Subject {
    let clock = Clock::system();
    let ledger = RedisLedger::open(target, options(&clock)).await.unwrap();
    Subject::new(Arc::new(ledger), clock)
}

mod of_one_server {
    async fn open() -> super::Subject {
        super::open(super::single()).await
    }
    hapax_store::ledger_conformance!(open);
}

mod of_a_cluster {
    async fn open() -> super::Subject {
        super::open(super::cluster()).await
    }
    hapax_store::ledger_conformance!(open);
}
