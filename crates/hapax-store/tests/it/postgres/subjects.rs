//! What the suites are run on, each over a database of its own.

use std::any::Any;
use std::sync::Arc;

use hapax_store::conformance::{
    EntrySubject, ImportSubject, QueueSubject, SnapshotSubject, Subject, T1Subject,
};
use hapax_store::postgres::PgOptions;
use hapax_store::vault::Vault;
use hapax_store::{Clock, PgLedger, Tokens};

use super::database::{self, Database};

/// How the ledger reaches its database.
#[derive(Default)]
pub(super) struct Way {
    /// More than one writing session.
    pub(super) writers: Option<usize>,
    /// Seals what it writes.
    pub(super) vault: Option<Arc<Vault>>,
    /// Through a pooler in transaction mode.
    pub(super) is_pooled: bool,
}

/// Sessions of the ledger's own, as by default.
pub(super) fn direct() -> Way {
    Way::default()
}

pub(super) fn pooled() -> Way {
    Way {
        is_pooled: true,
        ..Way::default()
    }
}

async fn open(way: Way) -> (Database, PgLedger, Clock) {
    let database = Database::migrated().await;
    let clock = Clock::system();
    let mut options = PgOptions {
        clock: clock.clone(),
        vault: way.vault,
        ..PgOptions::default()
    };
    options.writers = way.writers.unwrap_or(options.writers);
    let mut url = database.url.clone();
    if way.is_pooled {
        options.direct = Some(url);
        url = database.pooled();
    }
    let ledger = PgLedger::open(&url, options)
        .await
        .expect("the ledger opens");
    (database, ledger, clock)
}

pub(super) async fn keys(way: Way) -> Subject {
    let (database, ledger, clock) = open(way).await;
    Subject::new(Arc::new(ledger), clock).keeping(database)
}

pub(super) async fn tokens(way: Way) -> (Arc<dyn Tokens>, Box<dyn Any + Send>) {
    let (database, ledger, _) = open(way).await;
    (Arc::new(ledger), Box::new(database))
}

pub(super) async fn queue(way: Way) -> QueueSubject {
    let (database, ledger, clock) = open(way).await;
    QueueSubject::new(Arc::new(ledger), clock).keeping(database)
}

pub(super) async fn snapshots(way: Way) -> SnapshotSubject {
    let (database, ledger, clock) = open(way).await;
    let url = database.url.clone();
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

pub(super) async fn entries(way: Way) -> EntrySubject {
    let (database, ledger, clock) = open(way).await;
    EntrySubject::new(Arc::new(ledger), clock).keeping(database)
}

/// Makes every change of an import fail, after its entries were written.
const HURT: &str = "CREATE FUNCTION hurt() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN RAISE EXCEPTION 'it hurts'; END $$; \
     CREATE TRIGGER hurt BEFORE UPDATE ON imports FOR EACH ROW EXECUTE FUNCTION hurt()";
const HEAL: &str = "DROP TRIGGER hurt ON imports; DROP FUNCTION hurt()";

pub(super) async fn imports(way: Way) -> ImportSubject {
    let (database, ledger, clock) = open(way).await;
    let hurt = switch(database.url.clone(), HURT, HEAL);
    ImportSubject::new(Arc::new(ledger), clock, hurt).keeping(database)
}

/// Makes every write of an item of the entry 404 fail.
const HURT_ITEMS: &str = "CREATE FUNCTION hurt() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN RAISE EXCEPTION 'it hurts'; END $$; \
     CREATE TRIGGER hurt BEFORE INSERT OR UPDATE ON pkm.t1_batch_items FOR EACH ROW \
     WHEN (new.entry_id = 404) EXECUTE FUNCTION hurt()";
const HEAL_ITEMS: &str = "DROP TRIGGER hurt ON pkm.t1_batch_items; DROP FUNCTION hurt()";

pub(super) async fn t1(way: Way) -> T1Subject {
    let (database, ledger, clock) = open(way).await;
    let hurt = switch(database.url.clone(), HURT_ITEMS, HEAL_ITEMS);
    T1Subject::new(Arc::new(ledger), clock, hurt).keeping(database)
}

/// Runs one command or the other on the database itself.
fn switch(
    url: String,
    on: &'static str,
    off: &'static str,
) -> impl Fn(bool) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync + 'static {
    move |is_on| {
        let url = url.clone();
        Box::pin(async move {
            let raw = database::connect(&url).await;
            raw.batch_execute(if is_on { on } else { off })
                .await
                .unwrap();
        })
    }
}
