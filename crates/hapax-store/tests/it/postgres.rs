//! The suites on PostgreSQL, and what only this store promises: its roles, its errors, its transactions.

// Helpers of tests, which clippy does not know as such.
#![allow(clippy::unwrap_used)]

mod audit;
mod database;
mod entries;
mod faults;
mod isolation;
mod jobs;
mod kept_snapshots;
mod opening;
mod plans;
mod purges;
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

mod entries_of_one_node {
    use super::{Arc, Clock, Database, PgOptions, database};
    use hapax_store::conformance::{EntrySubject, ImportSubject, T1Subject};

    async fn open() -> EntrySubject {
        let database = Database::create().await;
        let clock = Clock::system();
        let ledger = database
            .open(PgOptions {
                clock: clock.clone(),
                ..PgOptions::default()
            })
            .await;
        EntrySubject::new(Arc::new(ledger), clock).keeping(database)
    }

    hapax_store::entry_conformance!(open);

    /// Makes every change of an import fail, after its entries were written.
    const HURT: &str = "CREATE FUNCTION hurt() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'it hurts'; END $$; \
         CREATE TRIGGER hurt BEFORE UPDATE ON imports FOR EACH ROW EXECUTE FUNCTION hurt()";
    const HEAL: &str = "DROP TRIGGER hurt ON imports; DROP FUNCTION hurt()";

    async fn open_imports() -> ImportSubject {
        let database = Database::create().await;
        let clock = Clock::system();
        let ledger = database
            .open(PgOptions {
                clock: clock.clone(),
                ..PgOptions::default()
            })
            .await;
        let url = database.url.clone();
        let hurt = move |hurts: bool| {
            let url = url.clone();
            async move {
                let raw = database::connect(&url).await;
                let change = if hurts { HURT } else { HEAL };
                raw.batch_execute(change).await.unwrap();
            }
        };
        ImportSubject::new(Arc::new(ledger), clock, hurt).keeping(database)
    }

    hapax_store::import_conformance!(open_imports);

    /// Makes every write of an item of the entry 404 fail.
    const HURT_ITEMS: &str = "CREATE FUNCTION hurt() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'it hurts'; END $$; \
         CREATE TRIGGER hurt BEFORE INSERT OR UPDATE ON pkm.t1_batch_items FOR EACH ROW \
         WHEN (new.entry_id = 404) EXECUTE FUNCTION hurt()";
    const HEAL_ITEMS: &str = "DROP TRIGGER hurt ON pkm.t1_batch_items; DROP FUNCTION hurt()";

    async fn open_t1() -> T1Subject {
        let database = Database::create().await;
        let clock = Clock::system();
        let ledger = database
            .open(PgOptions {
                clock: clock.clone(),
                ..PgOptions::default()
            })
            .await;
        let url = database.url.clone();
        let hurt = move |hurts: bool| {
            let url = url.clone();
            async move {
                let raw = database::connect(&url).await;
                let change = if hurts { HURT_ITEMS } else { HEAL_ITEMS };
                raw.batch_execute(change).await.unwrap();
            }
        };
        T1Subject::new(Arc::new(ledger), clock, hurt).keeping(database)
    }

    hapax_store::t1_conformance!(open_t1);
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
