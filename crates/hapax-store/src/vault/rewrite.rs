//! Stores every record of a tenant once more, so that it is sealed under the newest key. It knows no column and no statement.

use hapax_core::{Error, Kind, Ledger, Move, Record, Scan, State, Swap, Tenant};

/// How many records are rewritten at a time: a body may be large.
const TOGETHER: usize = 16;
/// How often a record is tried that others move meanwhile.
const TRIES: usize = 32;

/// Rewrites every record of the tenant that holds something, and says how many.
pub(crate) async fn records(ledger: &impl Ledger, tenant: Tenant) -> Result<usize, Error> {
    let mut scan = Scan {
        limit: TOGETHER,
        ..Scan::of(tenant)
    };
    let mut written = 0;
    loop {
        let page = ledger.scan(scan.clone()).await?;
        let mut moves: Vec<Move> = page.records.iter().filter_map(rewriting).collect();
        for _ in 0..TRIES {
            if moves.is_empty() {
                break;
            }
            let mut others = Vec::new();
            for swap in ledger.swap(moves).await? {
                match swap {
                    Swap::Written => written += 1,
                    Swap::Stale(Some(stored)) => others.extend(rewriting(&stored)),
                    Swap::Stale(None) => {}
                }
            }
            moves = others;
        }
        if !moves.is_empty() {
            return Err(
                Error::new(Kind::Unavailable, "sealing what is stored plain")
                    .because("a record is changed all the time; run it again"),
            );
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return Ok(written),
        }
    }
}

/// The move that stores it once more; none if nothing is left of what was asked and answered.
fn rewriting(record: &Record) -> Option<Move> {
    match record.state {
        State::Held(_) | State::InDoubt { .. } | State::Settled { .. } => {
            Some(Move::rewriting(record))
        }
        State::Free | State::Expired | State::Erased => None,
    }
}
