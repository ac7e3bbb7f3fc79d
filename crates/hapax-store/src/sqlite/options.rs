//! How a SQLite ledger is set up. Every wait and every queue has its limit here.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hapax_core::{Durability, Error, Kind};

use crate::clock::Clock;
use crate::vault::Vault;

/// How a SQLite ledger is set up. The defaults keep every promise.
///
/// ```
/// use hapax_core::{Durability, Ledger};
/// use hapax_store::{SqliteLedger, sqlite::SqliteOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ledger.db");
/// let options = SqliteOptions { durability: Durability::Relaxed, ..SqliteOptions::default() };
/// assert_eq!(SqliteLedger::open(&path, options)?.durability(), Durability::Relaxed);
///
/// // The refusal: a file is either synced or it is not.
/// let options = SqliteOptions { durability: Durability::BestEffort, ..SqliteOptions::default() };
/// assert!(SqliteLedger::open(&path, options).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// `Full` syncs every commit. `Relaxed` syncs at checkpoints only: power loss may take what was
    /// acknowledged since the last one. Anything else is refused.
    pub durability: Durability,
    /// The clock that rules leases and expiry.
    pub clock: Clock,
    /// Seals what is asked and answered. Without it nothing is sealed, and a file that has sealed rows is refused.
    pub vault: Option<Arc<Vault>>,
    /// How many threads read.
    pub readers: usize,
    /// Past this many waiting moves, and as many waiting reads, work is refused.
    pub queue_max: usize,
    /// Past this much memory of waiting moves, work is refused.
    pub queue_bytes_max: usize,
    /// How many moves share one commit at most. One swap is never split.
    pub batch_max: usize,
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
    /// The writer's page cache. Larger is not faster: SQLite looks through all of it at most commits.
    pub cache_kib: u32,
    /// From about how many pages on the log is brought back into the file. That is done beside the writer, which waits only
    /// when it is four times as far ahead.
    pub checkpoint_pages: u32,
    /// The log is cut back to this after a checkpoint.
    pub log_bytes_max: i64,
    /// The file grows to this many pages of 4096 bytes at most; then writes answer as on a full disk.
    pub pages_max: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            clock: Clock::system(),
            vault: None,
            readers: thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8)),
            queue_max: 16_384,
            queue_bytes_max: 256 * 1024 * 1024,
            batch_max: 512,
            busy_timeout: Duration::from_secs(5),
            cache_kib: 8 * 1024,
            checkpoint_pages: 4_000,
            log_bytes_max: 64 * 1024 * 1024,
            pages_max: None,
        }
    }
}

impl SqliteOptions {
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.durability {
            Durability::Full | Durability::Relaxed => Ok(()),
            Durability::BestEffort | Durability::Process => {
                let why = format!(
                    "durability '{}' is not SQLite's; use full or relaxed",
                    self.durability.as_str()
                );
                Err(Error::new(Kind::Unsafe, "opening the ledger").because(why))
            }
        }
    }
}
