//! What a database error means to us: whether anything was written, and whether a retry helps.
//! Its text never holds a row, a parameter or the connection string.

use std::error::Error as _;

use hapax_core::{Error, Kind};
use tokio_postgres::error::SqlState;

/// What a failed statement says about the group it was in. In each case nothing was committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// Somebody else was in the way; the same statements may pass at once.
    Contention,
    /// One of the records is held by a transaction of somebody else for longer than we wait.
    Locked,
    /// One of the values is refused, and will be again.
    Refused,
    /// The session may not do this: the database is not set up as it was at the start.
    Forbidden,
    /// The server cannot do it now, or is gone.
    Down,
}

/// Classifies a failure by its SQLSTATE.
pub(super) fn class(error: &tokio_postgres::Error) -> Class {
    let Some(state) = error.code() else {
        // Without an answer from the server it was the connection, unless a value could not even be sent.
        let is_wire = |source: &(dyn std::error::Error + 'static)| source.is::<std::io::Error>();
        return if error.source().is_none_or(is_wire) {
            Class::Down
        } else {
            Class::Refused
        };
    };
    match state {
        &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE => {
            Class::Contention
        }
        &SqlState::LOCK_NOT_AVAILABLE => Class::Locked,
        &SqlState::INSUFFICIENT_PRIVILEGE
        | &SqlState::UNDEFINED_TABLE
        | &SqlState::UNDEFINED_COLUMN => Class::Forbidden,
        other => match other.code().get(..2) {
            Some("22" | "23" | "54") => Class::Refused,
            _ => Class::Down,
        },
    }
}

/// The error for a failure in which nothing was written.
pub(super) fn unwritten(operation: &'static str, error: &tokio_postgres::Error) -> Error {
    let kind = match class(error) {
        Class::Contention | Class::Locked | Class::Down => Kind::Unavailable,
        Class::Refused => Kind::Limit,
        Class::Forbidden => Kind::Unsafe,
    };
    Error::new(kind, operation).because(text(error))
}

/// Whether the error is of a server without room on its disk.
pub(super) fn is_full(error: &Error) -> bool {
    let state = SqlState::DISK_FULL;
    error.to_string().contains(&sqlstate(&state))
}

fn sqlstate(state: &SqlState) -> String {
    format!("(SQLSTATE {})", state.code())
}

/// What the server or the connection said. A row's content comes in DETAIL, which is left out.
pub(super) fn text(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(db), _) if is_anothers_session(db.code()) => format!(
            "{} (SQLSTATE {}); if a pooler in transaction mode is between, add pool_mode=transaction to the URL",
            db.message(),
            db.code().code()
        ),
        (Some(db), _) => match db.constraint() {
            Some(constraint) => {
                let state = sqlstate(db.code());
                format!("constraint {constraint} refuses it {state}")
            }
            None => format!("{} {}", db.message(), sqlstate(db.code())),
        },
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// A statement's name is taken or unknown: somebody else uses the session too.
fn is_anothers_session(code: &SqlState) -> bool {
    [
        SqlState::DUPLICATE_PSTATEMENT,
        SqlState::INVALID_SQL_STATEMENT_NAME,
    ]
    .contains(code)
}

/// The error of a wait that was longer than allowed.
pub(super) fn timed_out(operation: &'static str, kind: Kind, limit: std::time::Duration) -> Error {
    Error::new(kind, operation).because(format!("no answer within {} ms", limit.as_millis()))
}

/// Counts `error` in the metrics, and gives it back.
pub(super) fn counted(error: Error) -> Error {
    metrics::counter!("hapax_ledger_errors_total", "store" => "postgres", "code" => error.kind().code()).increment(1);
    error
}
