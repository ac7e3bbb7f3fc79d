//! What an error of SQLite means: whose it is, whether a retry helps, whether the file can still be trusted.

use hapax_core::{Error, Kind};
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC};

/// An error while a job runs inside a transaction.
#[derive(Debug)]
pub(super) enum Fault {
    /// This job cannot be done; the others of its group can.
    Own(Error),
    /// The transaction cannot go on.
    Group(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match kind(&error) {
            Kind::Corrupt | Kind::Limit | Kind::Unsafe | Kind::Unsupported => {
                Fault::Own(failed("writing to the ledger", error))
            }
            Kind::Unavailable | Kind::OutcomeUnknown => Fault::Group(error),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Own(error)
    }
}

impl Fault {
    /// The error for a caller who runs the transaction and rolls it back.
    pub(super) fn into_error(self, operation: &'static str) -> Error {
        match self {
            Fault::Own(error) => error,
            Fault::Group(error) => failed(operation, error),
        }
    }
}

/// The error of an operation after which nothing is written.
pub(super) fn failed(operation: &'static str, error: rusqlite::Error) -> Error {
    Error::new(kind(&error), operation).caused_by(error)
}

/// The error of a COMMIT. Only a full disk and a locked database are sure to leave nothing behind.
pub(super) fn failed_commit(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Kind::Unavailable
        }
        Some(_) | None => Kind::OutcomeUnknown,
    };
    Error::new(kind, "committing to the ledger").caused_by(error)
}

/// Whether a sync failed. The kernel may then have dropped the pages and call the next sync a success,
/// so nothing written through this process can be promised any more.
pub(super) fn is_failed_sync(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        matches!(
            error.extended_code,
            SQLITE_IOERR_FSYNC | SQLITE_IOERR_DIR_FSYNC
        )
    })
}

/// Whether the file could not be read or written.
pub(super) fn is_io(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// Whether there is no room for what is written, or nothing may be written at all.
pub(super) fn is_unwritable(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure
        )
    )
}

/// Whether another connection was in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn kind(error: &rusqlite::Error) -> Kind {
    match error.sqlite_error_code() {
        Some(ErrorCode::TooBig) => Kind::Limit,
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch,
        )
        | None => Kind::Corrupt,
        Some(_) => Kind::Unavailable,
    }
}
