//! What the program promised by an answer, and whether the real store still finds it.

use std::path::Path;

use hapax_core::job::{JobId, Queue};
use hapax_core::snapshot::{Shelf, Snapshots};
use hapax_core::{Ledger, RecordId, State, Tenant};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::rusqlite::Connection;

/// One thing that was acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// A key is held, or more than that since.
    Claimed(RecordId),
    /// A key has this outcome.
    Settled(RecordId, Vec<u8>),
    /// A job or a receipt is there.
    Planned(String),
    /// A payload is kept.
    Kept(uuid::Uuid),
}

/// What is wrong with a folder that was found.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// The store does not open, or its file is damaged.
    Corrupt(String),
    /// These were promised and are not there.
    Lost(Vec<Promise>),
}

/// Opens the database at `path` with the real store, and looks for what was promised.
pub(crate) async fn look<'a>(
    path: &Path,
    promises: impl Iterator<Item = &'a Promise>,
) -> Result<(), Wrong> {
    let corrupt = |why: &dyn std::fmt::Display| Wrong::Corrupt(why.to_string());
    let ledger = SqliteLedger::open(path, hapax_store::sqlite::SqliteOptions::default())
        .map_err(|why| corrupt(&why))?;
    let mut lost = Vec::new();
    for promise in promises {
        if !is_kept(&ledger, promise)
            .await
            .map_err(|why| corrupt(&why))?
        {
            lost.push(promise.clone());
        }
    }
    ledger.close().await.map_err(|why| corrupt(&why))?;
    let said: String = Connection::open(path)
        .and_then(|file| file.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
        .map_err(|why| corrupt(&why))?;
    if said != "ok" {
        return Err(Wrong::Corrupt(said));
    }
    if lost.is_empty() {
        Ok(())
    } else {
        Err(Wrong::Lost(lost))
    }
}

async fn is_kept(ledger: &SqliteLedger, promise: &Promise) -> Result<bool, hapax_core::Error> {
    let tenant = Tenant::DEFAULT;
    Ok(match promise {
        Promise::Claimed(id) => ledger
            .find(tenant, *id)
            .await?
            .is_some_and(|record| matches!(record.state, State::Held(_) | State::Settled { .. })),
        Promise::Settled(id, body) => {
            ledger
                .find(tenant, *id)
                .await?
                .is_some_and(|record| match record.state {
                    State::Settled { outcome, .. } => {
                        outcome.whole().is_some_and(|whole| whole == body)
                    }
                    _ => false,
                })
        }
        Promise::Planned(id) => {
            let shown = JobId::new(id).unwrap();
            let stored = ledger.named(tenant, vec![shown]).await?.remove(0);
            ledger.job(tenant, stored).await?.is_some()
        }
        Promise::Kept(id) => {
            let shelf = Shelf {
                tenant,
                collection: "courses".into(),
            };
            ledger.snapshot(shelf, *id).await?.is_some()
        }
    })
}
