//! The ledger in one SQLite file: enough for one machine, and any number of processes on it.
//! It decides nothing: it compares and sets, in groups that share one sync.
//!
//! How a write travels: [`SqliteLedger`] packs the bodies and hands the moves to a bounded queue; the one
//! writer thread takes all that has gathered, writes it in one transaction, and answers after the commit.
//! Reads go to threads of their own, and so does bringing the log back into the file. In a caller's own transaction:
//! [`SqliteLedger::within`].

mod connection;
mod entries;
mod fault;
mod jobs;
mod ledger;
mod log;
mod migrate;
mod moves;
mod moving;
mod notes;
mod options;
mod pack;
mod pages;
mod purges;
mod queue;
mod reader;
mod rows;
mod sealing;
mod snapshots;
mod tenant_keys;
mod tokens;
mod within;
mod writer;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use hapax_core::{Durability, Error, Kind};
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

/// The version of rusqlite whose transactions [`SqliteLedger::within`] takes.
pub use rusqlite;

pub use options::SqliteOptions;
pub use within::Within;

use crate::clock::Clock;
use crate::vault::Vault;
use connection::Role;
use fault::Fault;
use jobs::Bell;
use log::Log;
use purges::Purges;
use queue::{Done, Effect, Job, Queue, Task};
use reader::Reader;
use writer::Writer;

const NAME: &str = "sqlite";
const CLOSED: &str = "the ledger is closed";

/// The ledger in one SQLite file.
///
/// - A write is answered after its commit. With [`Durability::Full`] the commit is synced to the disk, so
///   what was acknowledged survives kill -9 and power loss.
/// - Several ledgers, in one process or many, may use the same file at the same time.
/// - More waiting work than [`SqliteOptions::queue_max`] is refused at once with [`Kind::Unavailable`].
/// - A full disk answers [`Kind::Unavailable`] and is got over when there is space again. When the disk
///   fails to sync, the writes of that group answer [`Kind::OutcomeUnknown`], and all later ones
///   [`Kind::Unavailable`] until the process is restarted; [`SqliteLedger::broken`] tells when that is so.
///
/// ```
/// use hapax_core::{Claim, Fingerprint, Key, Ledger, Move, Owner, Scope, Swap, Tenant, Verdict, decide};
/// use hapax_store::SqliteLedger;
///
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # runtime.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let ledger = SqliteLedger::open(&folder.path().join("ledger.db"), Default::default())?;
///
/// let scope = Scope::new(Tenant::DEFAULT, "POST:payments")?;
/// let claim = Claim::new(scope, Key::new("order-7")?, Fingerprint::of(b"pay 10"), Owner::from_u128(1));
/// let Verdict::Grant(grant) = decide(None, &claim, ledger.now()) else { unreachable!() };
/// let insert = Move::inserting(grant.next);
/// assert_eq!(ledger.swap(vec![insert.clone()]).await?, [Swap::Written]);
///
/// // The refusal: somebody was first, and this is what they wrote.
/// let stored = Box::new(insert.next.as_ref().clone());
/// assert_eq!(ledger.swap(vec![insert]).await?, [Swap::Stale(Some(stored))]);
///
/// ledger.close().await?;
/// assert!(ledger.check().await.is_err(), "a closed ledger takes nothing");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SqliteLedger {
    path: PathBuf,
    clock: Clock,
    vault: Option<Arc<Vault>>,
    durability: Durability,
    writes: Arc<Queue>,
    reads: Arc<Queue>,
    purges: Arc<Purges>,
    /// Whether a write found no room, and none has been found since.
    is_full: Arc<AtomicBool>,
    /// Why no write is taken any more, if so.
    broken: watch::Receiver<Option<&'static str>>,
    bell: Bell,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Ends when every thread has.
    running: watch::Receiver<()>,
}

impl SqliteLedger {
    /// The most moves of one swap.
    pub const MOVES_MAX: usize = 4096;

    /// Opens the ledger in the file at `path`. Missing folders and a missing file are made, readable by their
    /// owner only, and the tables are brought up to date.
    ///
    /// It blocks for as long as the disk takes, and up to [`SqliteOptions::busy_timeout`] for other processes.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the file cannot be opened, [`Kind::Corrupt`] when it is not a database,
    /// [`Kind::Unsafe`] when the options or the migrations that ran would break a promise.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, Error> {
        options.check()?;
        let path = connection::prepare(path)?;
        let mut connection = connection::open(&path, &options, Role::Writer)?;
        migrate::migrate(&mut connection, options.clock.now())?;
        connection::keep_undo_in_memory(&connection)?;
        tenant_keys::check(&connection, options.vault.as_deref())?;
        if let Some(vault) = &options.vault {
            tenant_keys::meet(&mut connection, vault, options.clock.now())?;
        }
        let purges = Arc::new(Purges::beside(&path));
        let count = moves::purge_count(&connection)
            .map_err(|error| fault::failed("opening the ledger", error))?;
        purges
            .raise(count)
            .map_err(|error| Error::unavailable("opening the ledger", error))?;

        let readers: Vec<_> = (0..options.readers.max(1))
            .map(|_| connection::open(&path, &options, Role::Reader))
            .collect::<Result<_, _>>()?;
        let beside = connection::open(&path, &options, Role::Reader)?;
        let log = Log::of(&mut connection, options.checkpoint_pages)
            .map_err(|error| fault::failed("opening the ledger", error))?;

        let writes = Arc::new(Queue::new(options.queue_max, options.queue_bytes_max));
        let reads = Arc::new(Queue::new(options.queue_max, options.queue_bytes_max));
        let is_full = Arc::new(AtomicBool::new(false));
        let (alive, running) = watch::channel(());
        let (breaking, broken) = watch::channel(None);
        let ledger = Self {
            path,
            clock: options.clock,
            vault: options.vault,
            durability: options.durability,
            writes: writes.clone(),
            reads: reads.clone(),
            purges: purges.clone(),
            is_full: is_full.clone(),
            broken,
            bell: Bell::default(),
            threads: Mutex::default(),
            running,
        };
        for connection in readers {
            let reader = Reader {
                connection,
                queue: reads.clone(),
            };
            ledger.spawn("hapax-sqlite-read", alive.clone(), move || reader.run())?;
        }
        let only = Writer {
            connection,
            queue: writes,
            purges,
            log: log.clone(),
            is_full,
            durability: options.durability,
            set: Cell::new(options.durability),
            broken: breaking,
            batch_max: options.batch_max.max(1),
        };
        // The writer first: it ends with the ledger, and the other thread with it.
        log.expect_thread();
        ledger.spawn("hapax-sqlite-write", alive.clone(), move || only.run())?;
        ledger.spawn("hapax-sqlite-log", alive, move || log.run(beside))?;
        Ok(ledger)
    }

    /// Brings the tables of the file at `path` up to date, and makes the file if it is missing. Returns the
    /// names of the migrations that ran now; none if all had. Several processes may do this at once.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("ledger.db");
    /// assert_eq!(hapax_store::SqliteLedger::migrate(&path)?, ["0001_idempotency_keys", "0002_token", "0003_audit", "0004_tenant_key", "0005_job", "0006_snapshot", "0007_entry", "0008_t1", "0009_lists", "0010_questions", "0011_shared_cache", "0012_job_queue", "0013_fewer_indexes", "0014_words_in_bulk", "0015_cheaper_checks", "0016_ended_session", "0017_shared_secret", "0018_doubtful_ops", "0019_reruns_and_readers", "0020_job_backoff", "0021_named_tokens", "0022_stored_masks"]);
    /// assert!(hapax_store::SqliteLedger::migrate(&path)?.is_empty(), "each runs once");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`SqliteLedger::open`].
    pub fn migrate(path: &Path) -> Result<Vec<&'static str>, Error> {
        migrate::migrate_file(path, &SqliteOptions::default())
    }

    /// The names of the migrations that a newer program ran on this file. They are left alone.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the file cannot be read.
    pub fn newer(path: &Path) -> Result<Vec<String>, Error> {
        migrate::newer_in_file(path, &SqliteOptions::default())
    }

    /// The real path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends when no write will be taken until the process is started again, and says why: the disk failed to sync, or a
    /// bug stopped the writer. A ledger that is closed never breaks.
    pub async fn broken(&self) -> &'static str {
        let mut broken = self.broken.clone();
        match broken.wait_for(Option::is_some).await.map(|why| *why) {
            Ok(Some(why)) => why,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    fn spawn(
        &self,
        name: &str,
        alive: watch::Sender<()>,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        let work = move || {
            let _alive = alive;
            work();
        };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(|error| Error::unavailable("starting a thread of the ledger", error))?;
        self.threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(thread);
        Ok(())
    }

    /// Has the writer run `run` in its next group.
    async fn write<T, F, D>(&self, moves: usize, bytes: usize, run: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<(T, D), Fault> + Send + 'static,
        D: Into<Done> + 'static,
    {
        let (job, answered) = Task::new(moves, bytes, run);
        self.written(job, answered).await
    }

    /// Hands the writer a job and waits for its answer.
    async fn written<T>(
        &self,
        job: Box<dyn Job>,
        answered: oneshot::Receiver<Result<T, Error>>,
    ) -> Result<T, Error> {
        if let Err(refused) = self.writes.push(job) {
            writer::count_errors(1);
            return Err(refused);
        }
        answered
            .await
            .unwrap_or_else(|_| Err(unanswered(Kind::OutcomeUnknown)))
    }

    /// Has a reader run `run`.
    async fn read<T, F>(&self, mut run: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (job, answered) = Task::new(1, 0, move |connection| {
            Ok((run(connection)?, Effect::default()))
        });
        self.reads.push(job)?;
        answered
            .await
            .unwrap_or_else(|_| Err(unanswered(Kind::Unavailable)))
    }

    fn end(&self) {
        self.writes.close(CLOSED);
        self.reads.close(CLOSED);
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        self.end();
        let threads = self
            .threads
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A thread that panicked has left nobody waiting.
            let _ = thread.join();
        }
    }
}

fn unanswered(kind: Kind) -> Error {
    Error::new(kind, "waiting for the ledger")
        .because("its thread ended before it answered; restart the process")
}
