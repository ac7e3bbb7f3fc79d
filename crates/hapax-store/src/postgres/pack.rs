//! Moves into columns and rows into records, sealed and opened on the way. Much work leaves the async threads.

use hapax_core::{Error, Kind, Move, Record, Swap};

use super::columns::Step;
use crate::row::Applied;
use crate::row::Row;
use crate::vault::Rings;

/// Packing and unpacking more than this leaves the async thread.
const INLINE_BYTES_MAX: usize = 128 * 1024;

/// Packs the moves into columns.
pub(super) async fn pack(moves: Vec<Move>, rings: Rings) -> Result<Vec<Step>, Error> {
    let bytes = moves.iter().map(body_bytes).sum();
    let pack = move |step: Move| {
        let ring = rings.get(step.next.scope.tenant.as_uuid());
        Step::of(step, ring)
    };
    aside(bytes, move || moves.into_iter().map(pack).collect()).await?
}

/// The records in these rows.
pub(super) async fn open(rows: Vec<Row>, rings: Rings) -> Result<Vec<Record>, Error> {
    let bytes = rows.iter().map(row_bytes).sum();
    let open = move |row: Row| {
        let tenant = row.tenant_id;
        row.open(rings.get(tenant))
    };
    aside(bytes, move || rows.into_iter().map(open).collect()).await?
}

/// The answers, with the record that is stored where a move was not written.
pub(super) async fn answers(applied: Vec<Applied>, rings: Rings) -> Result<Vec<Swap>, Error> {
    let bytes = applied.iter().filter_map(Applied::row).map(row_bytes).sum();
    let open = move |one: Applied| one.open(&rings);
    aside(bytes, move || applied.into_iter().map(open).collect()).await?
}

/// Runs `work` on a thread for blocking work if there is much of it, else here.
pub(super) async fn aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if bytes <= INLINE_BYTES_MAX {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::new(Kind::OutcomeUnknown, "packing a body").caused_by(error))
}

/// Some of the moves may stand, so an error after them must not say that nothing was written.
pub(super) fn after(applied: &[Applied], error: Error) -> Error {
    let wrote = applied.iter().any(|one| matches!(one, Applied::Written));
    match error.kind() {
        Kind::Unavailable if wrote => {
            Error::new(Kind::OutcomeUnknown, "moving records").caused_by(error)
        }
        Kind::Unavailable
        | Kind::OutcomeUnknown
        | Kind::Corrupt
        | Kind::Limit
        | Kind::Unsafe
        | Kind::Unsupported => error,
    }
}

fn row_bytes(row: &Row) -> usize {
    let body = |body: &Option<Vec<u8>>| body.as_ref().map_or(0, Vec::len);
    body(&row.request_body) + body(&row.response_body)
}

fn body_bytes(step: &Move) -> usize {
    let request = step.next.request.body.as_ref().map_or(0, bytes::Bytes::len);
    let response = match &step.next.state {
        hapax_core::State::Settled { outcome, .. } => outcome.whole().map_or(0, bytes::Bytes::len),
        hapax_core::State::Held(_)
        | hapax_core::State::InDoubt { .. }
        | hapax_core::State::Free
        | hapax_core::State::Expired
        | hapax_core::State::Erased => 0,
    };
    request + response
}
