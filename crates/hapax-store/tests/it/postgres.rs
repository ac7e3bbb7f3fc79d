//! The suites on PostgreSQL, and what only this store promises: its roles, its errors, its transactions.

// Helpers of tests, which clippy does not know as such.
#![allow(clippy::unwrap_used)]

mod audit;
mod database;
mod faults;
mod isolation;
mod jobs;
mod kept_snapshots;
mod opening;
mod plans;
mod vault;
mod wakeups;
mod within;

use std::any::Any;
use std::sync::Arc;

use hapax_store::conformance::{SnapshotSubject, Subject};
use hapax_store::postgres::PgOptions;
use hapax_store::vault::Vault;
use hapax_store::{Clock, PgLedger, Tokens};

use database::Database;

async fn open() -> Subject {
    let database = Database::create().await;
    let clock = Clock::system();
    let ledger = database
        .open(PgOptions {
            clock: clock.clone(),
            ..PgOptions::default()
        })
        .await;
    Subject::new(Arc::new(ledger), clock).keeping(database)
}

async fn open_tokens() -> (Arc<dyn Tokens>, Box<dyn Any + Send>) {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    (Arc::new(ledger), Box::new(database))
}

mod one_writer {
    use super::open;
    hapax_store::ledger_conformance!(open);
}

mod jobs_of_one_node {
    use super::{Arc, Clock, Database, PgOptions};
    use hapax_store::conformance::QueueSubject;

    async fn open() -> QueueSubject {
        let database = Database::create().await;
        let clock = Clock::system();
        let ledger = database
            .open(PgOptions {
                clock: clock.clone(),
                ..PgOptions::default()
            })
            .await;
        QueueSubject::new(Arc::new(ledger), clock).keeping(database)
    }

    hapax_store::queue_conformance!(open);
}

async fn open_snapshots() -> SnapshotSubject {
    snapshots_with(None).await
}

/// An empty store of snapshots, sealed if there is a vault.
async fn snapshots_with(vault: Option<Arc<Vault>>) -> SnapshotSubject {
    let database = Database::create().await;
    let clock = Clock::system();
    let options = PgOptions {
        clock: clock.clone(),
        vault,
        ..PgOptions::default()
    };
    let (ledger, url) = (database.open(options).await, database.url.clone());
    let age = move || {
        let url = url.clone();
        async move {
            let raw = database::connect(&url).await;
            raw.batch_execute(
                "UPDATE snapshot SET payload_hash = NULL, hash_state = 'missing'; \
                 DELETE FROM snapshot_alias",
            )
            .await
            .unwrap();
        }
    };
    SnapshotSubject::new(Arc::new(ledger), clock, age).keeping(database)
}

mod snapshots_of_one_node {
    use super::open_snapshots;
    hapax_store::snapshot_conformance!(open_snapshots);
}

mod three_writers {
    use super::{Arc, Clock, Database, PgOptions, Subject};

    async fn open() -> Subject {
        let database = Database::create().await;
        let clock = Clock::system();
        let ledger = database
            .open(PgOptions {
                clock: clock.clone(),
                writers: 3,
                ..PgOptions::default()
            })
            .await;
        Subject::new(Arc::new(ledger), clock).keeping(database)
    }

    hapax_store::ledger_conformance!(open);
}

mod tokens {
    use super::open_tokens;
    hapax_store::token_conformance!(open_tokens);
}

/// A claim like any other, by the attempt with this number.
fn claim(tenant: u128, key: &str, owner: u128) -> hapax_core::Claim {
    let tenant = hapax_core::Tenant::from_uuid(uuid::Uuid::from_u128(tenant));
    let scope = hapax_core::Scope::new(tenant, "POST:test").unwrap();
    let key = hapax_core::Key::new(key).unwrap();
    hapax_core::Claim::new(
        scope,
        key,
        hapax_core::Fingerprint::of(b"asked"),
        hapax_core::Owner::from_u128(owner),
    )
}

/// The move that a fresh claim makes.
fn inserting(ledger: &PgLedger, claim: &hapax_core::Claim) -> hapax_core::Move {
    let now = hapax_core::Ledger::now(ledger);
    hapax_core::Move::inserting(hapax_core::Record::granted(
        claim,
        hapax_core::Version::seeded(now),
        now,
    ))
}
