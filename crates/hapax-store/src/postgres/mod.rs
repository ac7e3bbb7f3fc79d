//! The ledger in PostgreSQL: any number of nodes share it. Row level security always holds, because every
//! session drops to a restricted role and refuses to work if that does not bind it.
//!
//! Where to read on: `lane` gathers moves, `group` commits them, `jobs` is the queue, `snapshots` the store of payloads
//! and `entries` that of entries beside them, `session` is what makes a session safe.

mod batcher;
mod columns;
mod entries;
mod fault;
mod full;
mod group;
mod guards;
mod jobs;
mod lane;
mod leader;
mod link;
mod listener;
mod migrate;
mod notes;
mod pack;
mod pages;
mod pipeline;
mod protection;
mod purges;
mod reader;
mod roles;
mod sealing;
mod session;
mod snapshots;
mod speech;
mod target;
mod tenant_keys;
mod tokens;
mod within;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::{
    Answer, Chore, Durability, Error, Kind, Ledger, Move, Note, NotePage, NoteScan, Page, Record,
    RecordId, Scan, Space, State, Swap, Sweep, Swept, Tenant, Time, Wake,
};

use crate::db_clock as clock;
use crate::row::Applied;
use batcher::Batcher;
use clock::DbClock;
use jobs::Jobs;
use leader::Leader;
use link::Link;
use listener::Listener;
use purges::Purges;
use reader::Reader;
use target::Target;

use crate::clock::Clock;
use crate::row::Row;
use crate::vault::Vault;
use full::Full;

pub use protection::Protection;
pub use session::Session;
pub use within::Within;

const LEDGER_ID: &str = include_str!("../../sql/postgres/ledger_id.sql");

/// How a [`PgLedger`] is run. The defaults suit one server.
#[derive(Clone, Debug)]
pub struct PgOptions {
    /// Moves the ledger's clock in tests. The time itself is the database's.
    pub clock: Clock,
    /// Seals what is asked and answered. Without it nothing is sealed, and a database that has sealed rows is
    /// refused.
    pub vault: Option<Arc<Vault>>,
    /// How many connections write. One is enough until it is the bottleneck: groups then grow by themselves.
    pub writers: usize,
    /// How many connections read, and how many at most serve the queue of jobs and snapshots, opened when they are
    /// used.
    pub readers: usize,
    /// How many moves may wait per writer; past that a swap is told to retry.
    pub queue_moves_max: usize,
    /// How long connecting, and waiting for a free reader, may take.
    pub connect_timeout: Duration,
    /// How long a group may take, the commit included. After that its outcome is unknown.
    pub commit_timeout: Duration,
    /// How long a read may take.
    pub read_timeout: Duration,
    /// Whether nodes tell each other at once which leases ended, over LISTEN and NOTIFY. Without it a waiter on
    /// another node finds out at its next poll. The server commits transactions that notify one after the other, so
    /// switch it off where many nodes write and few wait.
    pub notify: bool,
    /// A URL that leads to the server itself, where the ledger's own leads to a pooler in transaction mode: for
    /// migrations and for LISTEN, which need a session. Without it a pooled ledger does not migrate, and waiters on
    /// other nodes poll.
    pub direct: Option<String>,
    /// Whether this node keeps an eye on outcomes that are taken back, so that it can answer replays from a cache. While
    /// any node does, taking an outcome back takes most of a second.
    pub watches_purges: bool,
}

impl Default for PgOptions {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            vault: None,
            writers: 1,
            readers: 4,
            queue_moves_max: 8192,
            connect_timeout: Duration::from_secs(5),
            commit_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(10),
            notify: true,
            direct: None,
            watches_purges: false,
        }
    }
}

/// The ledger in PostgreSQL. Nodes share it; what it acknowledged is on the server's disk.
///
/// A URL that ends in `?pool_mode=transaction` leads to a pooler in that mode: nothing is left on a session between
/// transactions, at the price of plans that are made anew each time.
/// `purges` is `None` unless [`PgOptions::watches_purges`] is set: then nothing is cached.
///
/// ```no_run
/// use hapax_core::{Kind, Ledger};
/// use hapax_store::postgres::{PgLedger, PgOptions};
///
/// # async fn example() -> Result<(), hapax_core::Error> {
/// let ledger = PgLedger::open("postgres://shop@db.example/shop?sslmode=require", PgOptions::default()).await?;
/// ledger.check().await?;
///
/// // The refusal: a database whose row level security does not hold is not used.
/// match PgLedger::open("postgres://unsafe@db.example/shop?sslmode=require", PgOptions::default()).await {
///     Err(error) if error.kind() == Kind::Unsafe => eprintln!("{error}"),
///     other => drop(other?),
/// }
/// # Ok(())
/// # }
/// ```
pub struct PgLedger {
    batcher: Batcher,
    reader: Arc<Reader>,
    purges: Option<Purges>,
    database_clock: Arc<DbClock>,
    clock: Clock,
    vault: Option<Arc<Vault>>,
    full: Full,
    durability: Durability,
    listener: Option<Listener>,
    leader: Leader,
    jobs: Jobs,
}

impl fmt::Debug for PgLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgLedger")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl PgLedger {
    /// Connects, migrates what is pending, and opens the writing sessions.
    ///
    /// Any number of nodes may do so at once. A login that may not migrate can open a migrated database. A URL that leads off
    /// this machine says its `sslmode`: see [`Protection`].
    ///
    /// # Errors
    /// [`Kind::Unsafe`] when row level security would not hold, saying what to do;
    /// [`Kind::Unavailable`] when the server cannot be reached or takes no writes.
    pub async fn open(url: &str, options: PgOptions) -> Result<Self, Error> {
        let target = Target::parse(url, options.connect_timeout)?;
        let direct = match &options.direct {
            Some(url) => Some(Target::parse(url, options.connect_timeout)?),
            None => target.speech.is_own().then(|| target.clone()),
        };
        match &direct {
            Some(direct) => drop(prepare(direct).await?),
            None => look(&target).await?,
        }
        let mut links = Vec::new();
        for _ in 0..options.writers.max(1) {
            links.push(Link::open(&target).await?);
        }
        let first = links
            .first()
            .ok_or_else(|| Error::new(Kind::Unavailable, "connecting to PostgreSQL"))?;
        let durability = if first.session.syncs {
            Durability::Full
        } else {
            Durability::Relaxed
        };
        let database_clock =
            Arc::new(lane::read_clock(first, options.connect_timeout, DbClock::new).await?);
        let reader = Arc::new(Reader::new(&target, options.readers, options.read_timeout)?);
        tenant_keys::check(&reader, options.vault.as_deref()).await?;
        let batcher = Batcher::start(
            links,
            &target,
            &database_clock,
            options.queue_moves_max,
            options.commit_timeout,
        );
        let jobs = Jobs::new(target.clone(), options.readers, options.commit_timeout);
        let bell = jobs.bell();
        // Past a pooler, if there is a way: it then lends nobody a session for good.
        let leader = Leader::new(direct.clone().unwrap_or_else(|| target.clone()));
        Ok(Self {
            batcher,
            leader,
            purges: options.watches_purges.then(|| Purges::watch(&reader)),
            reader,
            database_clock,
            clock: options.clock,
            vault: options.vault,
            full: Full::default(),
            durability,
            listener: direct
                .filter(|_| options.notify)
                .map(|direct| Listener::new(direct, bell)),
            jobs,
        })
    }

    /// Runs what is pending, for `hapax migrate`, and says what ran.
    ///
    /// # Errors
    /// [`Kind::Unsafe`] when this login may not, saying what to do.
    pub async fn migrate(url: &str) -> Result<Vec<&'static str>, Error> {
        let target = Target::parse(url, PgOptions::default().connect_timeout)?;
        if !target.speech.is_own() {
            let why = "a pooler in transaction mode cannot hold the lock; use a URL that leads to the server itself";
            return Err(Error::new(Kind::Unsafe, "migrating the database").because(why));
        }
        prepare(&target).await
    }

    /// The names of the migrations that a newer program ran here. They are left alone.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the server does not answer.
    pub async fn newer(url: &str) -> Result<Vec<String>, Error> {
        let target = Target::parse(url, PgOptions::default().connect_timeout)?;
        let (client, wire) = target.connect().await?;
        let driver = tokio::spawn(wire);
        let newer = migrate::newer(&client).await;
        drop(client);
        hang_up(&target, driver).await;
        newer
    }

    /// Whether hapax has made its tables here. Nothing is made by asking.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the server does not answer.
    pub async fn is_made(url: &str) -> Result<bool, Error> {
        let target = Target::parse(url, PgOptions::default().connect_timeout)?;
        let (client, wire) = target.connect().await?;
        let driver = tokio::spawn(wire);
        let made = migrate::is_made(&client).await;
        drop(client);
        hang_up(&target, driver).await;
        made
    }

    /// What the ledger's own sessions are: those that write, then one that reads and one that sweeps.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when one of them cannot be had.
    #[doc(hidden)]
    pub async fn sessions(&self) -> Result<Vec<Session>, Error> {
        let mut sessions = self.batcher.describe().await?;
        sessions.extend(self.reader.describe().await?);
        Ok(sessions)
    }

    /// What a connection is, as the start check sees it.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when it does not answer.
    #[doc(hidden)]
    pub async fn examine(client: &tokio_postgres::Client) -> Result<Session, Error> {
        session::examine(client)
            .await
            .map_err(|error| fault::unwritten("describing a session", &error))
    }
}

impl Ledger for PgLedger {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn seals(&self) -> bool {
        self.vault.is_some()
    }

    fn now(&self) -> Time {
        self.clock.shifted(self.database_clock.now())
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        Box::pin(async move {
            let rings = self
                .sealing(moves.iter().map(|step| step.next.scope.tenant))
                .await?;
            // Not those whose time was over: that needs no telling.
            let takes_back: Vec<bool> = moves
                .iter()
                .map(|step| step.purges && !matches!(step.next.state, State::Held(_)))
                .collect();
            let mut steps = pack::pack(moves, rings).await?;
            for step in &mut steps {
                step.ends &= self.listener.is_some();
            }
            let applied = self.batcher.swap(steps).await;
            self.full.learn(&applied);
            let applied = applied?;
            let took_back = |(applied, takes_back): (&Applied, &bool)| {
                *takes_back && matches!(applied, Applied::Written)
            };
            if applied.iter().zip(&takes_back).any(took_back) {
                purges::told(&self.reader).await;
            }
            let rings = self.opening(applied.iter().filter_map(Applied::row));
            let rings = rings.await.map_err(|error| pack::after(&applied, error))?;
            pack::answers(applied, rings).await
        })
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        Box::pin(async move {
            let found: Vec<Row> = self.reader.find(tenant, id).await?.into_iter().collect();
            let rings = self.opening(found.iter()).await?;
            Ok(pack::open(found, rings).await?.pop())
        })
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        Box::pin(async move {
            let found = self.reader.scan(&scan, self.now()).await?;
            let rings = self.opening(found.rows.iter()).await?;
            Ok(Page {
                records: pack::open(found.rows, rings).await?,
                next: found.next,
            })
        })
    }

    fn spaces(&self, tenant: Tenant, limit: usize) -> Answer<'_, Vec<Space>> {
        Box::pin(self.reader.spaces(tenant, limit))
    }

    fn doubts(&self, tenant: Tenant, looks_at: usize) -> Answer<'_, u64> {
        Box::pin(self.reader.doubts(tenant, looks_at, self.now()))
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        Box::pin(self.reader.sweep(sweep, self.now()))
    }

    fn check(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.full.check()?;
            self.reader.check().await
        })
    }

    fn note(&self, notes: Vec<Note>) -> Answer<'_, ()> {
        Box::pin(async move { self.reader.note(&notes).await })
    }

    fn notes(&self, scan: NoteScan) -> Answer<'_, NotePage> {
        Box::pin(async move { self.reader.notes(&scan).await })
    }

    fn subscribe(&self, wake: Wake) {
        if let Some(listener) = &self.listener {
            listener.subscribe(wake);
        }
    }

    fn leads(&self, chore: Chore) -> bool {
        self.leader.leads(chore)
    }

    fn purges(&self) -> Option<u64> {
        self.purges.as_ref()?.count()
    }

    fn identity(&self) -> Answer<'_, Option<uuid::Uuid>> {
        Box::pin(async move {
            let operation = "reading the ledger's name";
            let rows = self
                .reader
                .transaction(operation, reader::READ, None, LEDGER_ID, &[]);
            let name = rows
                .await?
                .first()
                .map(|row| columns::get::<String>(row, 0));
            Ok(name.transpose()?.and_then(|name| name.parse().ok()))
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            if let Some(purges) = &self.purges {
                purges.stop();
            }
            self.leader.close().await;
            self.batcher.close().await;
            if let Some(listener) = &self.listener {
                listener.close().await;
            }
            self.jobs.close();
            self.reader.close();
            Ok(())
        })
    }
}

/// Migrates on a session of its own, and closes it: the lock goes with it.
async fn prepare(target: &Target) -> Result<Vec<&'static str>, Error> {
    let (mut client, wire) = target.connect().await?;
    let driver = tokio::spawn(wire);
    let ran = migrate::run(&mut client).await;
    drop(client);
    hang_up(target, driver).await;
    ran
}

/// Refuses a database that is not migrated, over a session that cannot hold a lock.
async fn look(target: &Target) -> Result<(), Error> {
    let (client, wire) = target.connect().await?;
    let driver = tokio::spawn(wire);
    let ready = migrate::refuse_pending(&client).await;
    drop(client);
    hang_up(target, driver).await;
    ready
}

async fn hang_up(
    target: &Target,
    mut driver: tokio::task::JoinHandle<Result<(), tokio_postgres::Error>>,
) {
    if tokio::time::timeout(target.connect_timeout, &mut driver)
        .await
        .is_err()
    {
        driver.abort();
    }
}
