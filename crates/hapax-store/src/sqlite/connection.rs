//! Opening connections to the file, each with the settings our promises rest on. It runs no statement
//! of the ledger.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hapax_core::{Durability, Error, Kind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::SqliteOptions;
use super::fault::{failed, is_busy};

/// More than there are statements, so that none is ever prepared twice.
const STATEMENTS_MAX: usize = 256;
const RETRY: Duration = Duration::from_millis(5);
/// How long one try to empty the log waits for readers. Every writer waits as long.
const LOG_WAIT: Duration = Duration::from_millis(50);
const LOG_TRIES_MAX: usize = 3;
const READER_CACHE_KIB: i64 = 4 * 1024;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Writer,
    Reader,
}

/// Makes the file and the folders to it if they are missing, readable by their owner only.
/// Returns its real path, so that every process names the files beside it alike.
pub(super) fn prepare(path: &Path) -> Result<PathBuf, Error> {
    let operation = "opening the database file";
    let failed = |error: io::Error| {
        Error::new(Kind::Unavailable, operation).because(format!("{}: {error}", path.display()))
    };
    let path = std::path::absolute(path).map_err(failed)?;
    if let Some(folder) = path.parent() {
        create_folders(folder).map_err(failed)?;
    }
    create_file(&path).map_err(failed)?;
    path.canonicalize().map_err(failed)
}

fn create_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    // A folder that is lost with the power takes its files along. SQLite syncs the folder of its file only.
    #[cfg(unix)]
    for above in folder.ancestors().skip(1) {
        if File::open(above)
            .and_then(|above| above.sync_all())
            .is_err()
        {
            break;
        }
    }
    Ok(())
}

fn create_file(path: &Path) -> io::Result<()> {
    // Closing any handle of a file drops every lock this process has on it, SQLite's included. So the file is
    // opened here only if it is new, and one at a time: nobody can have locked it before it is closed again.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match owner_only(OpenOptions::new().write(true).create_new(true)).open(path) {
        Ok(file) => drop::<File>(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The same options, for a file that only its owner may read.
pub(super) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// A connection to a file that [`prepare`] made.
pub(super) fn open(path: &Path, options: &SqliteOptions, role: Role) -> Result<Connection, Error> {
    let deadline = Instant::now() + options.busy_timeout;
    loop {
        match try_open(path, options, role) {
            // Several processes may turn a new file into a WAL file at once; SQLite does not wait there.
            Err(error) if is_busy(&error) && Instant::now() < deadline => thread::sleep(RETRY),
            Err(error) => return Err(failed("opening the database", error)),
            Ok(connection) => return Ok(connection),
        }
    }
}

fn try_open(path: &Path, options: &SqliteOptions, role: Role) -> rusqlite::Result<Connection> {
    // No URI: a path means the file of that name, whatever it looks like.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Without this SQLite plans a statement anew whenever a value that it compares or limits by is another one.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
            Some("the file system cannot hold a write-ahead log; use a local disk".to_owned()),
        ));
    }
    sync(&connection, options.durability)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "journal_size_limit", options.log_bytes_max)?;
    connection.pragma_update(None, "wal_autocheckpoint", options.checkpoint_pages)?;
    match role {
        Role::Writer => {
            // A row leaves copies behind when it moves or is cut short. They are overwritten there and then:
            // erasing the row later would not find them.
            connection.pragma_update(None, "secure_delete", true)?;
            connection.pragma_update(None, "cache_size", -i64::from(options.cache_kib))?;
            if let Some(pages) = options.pages_max {
                connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
            }
        }
        Role::Reader => {
            connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
            connection.pragma_update(None, "query_only", true)?;
        }
    }
    Ok(connection)
}

/// Keeps what one statement may have to take back in memory: a file for it is two writes for every page that is changed.
/// Not for migrations, which may sort a whole table.
pub(super) fn keep_undo_in_memory(connection: &Connection) -> Result<(), Error> {
    connection
        .pragma_update(None, "temp_store", "MEMORY")
        .map_err(|error| failed("opening the database", error))
}

/// Brings the log back into the file and cuts it to nothing, unless somebody still reads from it after a few
/// short tries. Returns whether it is empty.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    let patience: u32 = connection.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    connection.busy_timeout(LOG_WAIT)?;
    let emptied = (0..LOG_TRIES_MAX).try_fold(false, |emptied, _| {
        if emptied {
            return Ok(true);
        }
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .map(|busy: bool| !busy)
    });
    connection.busy_timeout(Duration::from_millis(patience.into()))?;
    emptied
}

/// Has every commit from here on synced, or the log only when it is brought back into the file. Not inside a transaction.
pub(super) fn sync(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    // In WAL mode FULL syncs the log at every commit, NORMAL only at checkpoints.
    let level = match durability {
        Durability::Full => "FULL",
        Durability::Relaxed | Durability::BestEffort | Durability::Process => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", level)
}
