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
mod leading;
mod migrating;
mod opening;
mod plans;
mod pooled;
mod purges;
mod subjects;
mod vault;
mod wakeups;
mod within;

use hapax_store::PgLedger;

mod suites {
    use super::subjects::{self, direct};
    use hapax_store::conformance::{
        EntrySubject, ImportSubject, QueueSubject, SnapshotSubject, T1Subject,
    };

    async fn queue() -> QueueSubject {
        subjects::queue(direct()).await
    }
    async fn snapshots() -> SnapshotSubject {
        subjects::snapshots(direct()).await
    }
    async fn entries() -> EntrySubject {
        subjects::entries(direct()).await
    }
    async fn imports() -> ImportSubject {
        subjects::imports(direct()).await
    }
    async fn t1() -> T1Subject {
        subjects::t1(direct()).await
    }

    hapax_store::queue_conformance!(queue);
    hapax_store::snapshot_conformance!(snapshots);
    hapax_store::entry_conformance!(entries);
    hapax_store::import_conformance!(imports);
    hapax_store::t1_conformance!(t1);
}

mod one_writer {
    use super::subjects::{self, direct};

    async fn open() -> hapax_store::conformance::Subject {
        subjects::keys(direct()).await
    }

    hapax_store::ledger_conformance!(open);
}

mod three_writers {
    use super::subjects::{self, Way};

    async fn open() -> hapax_store::conformance::Subject {
        subjects::keys(Way {
            writers: Some(3),
            ..Way::default()
        })
        .await
    }

    hapax_store::ledger_conformance!(open);
}

mod tokens {
    use super::subjects::{self, direct};

    async fn open() -> (
        std::sync::Arc<dyn hapax_store::Tokens>,
        Box<dyn std::any::Any + Send>,
    ) {
        subjects::tokens(direct()).await
    }

    hapax_store::token_conformance!(open);
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
