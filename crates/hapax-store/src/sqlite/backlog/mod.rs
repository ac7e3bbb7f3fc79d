//! What a busy writer notes down instead of filing it: the moves of new keys, one row per commit, and in memory what they
//! say. Later all of it is filed at once, each key as one row with what became of it.
//!
//! Why: a new key is a page of its own in the index of ids. Alone it is read, changed, logged and brought back for
//! that one key; among a thousand it is not. The promise is the same, since what is noted down is committed as any other
//! write is, and everybody who needs the rows files the backlog first. A group that is not busy never comes here.

mod line;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hapax_core::{Error, Kind, Record, RecordId, State, Tenant, ledger::Write};
use rusqlite::{Connection, Statement, params};

use self::line::{Claimed, Line, Settled};
use super::fault::Fault;
use super::moves;
use super::pack::Packed;
use super::rows;
use crate::row::Applied;

const PUT: &str = include_str!("../../../sql/sqlite/backlog_put.sql");
const LIST: &str = include_str!("../../../sql/sqlite/backlog_list.sql");
const DROP: &str = include_str!("../../../sql/sqlite/backlog_drop.sql");
const WAITS: &str = include_str!("../../../sql/sqlite/backlog_waits.sql");
const COUNT: &str = include_str!("../../../sql/sqlite/backlog_count.sql");
const GUARDED_ONLY: &str = include_str!("../../../sql/sqlite/backlog_guarded_only.sql");
const STANDING: &str = include_str!("../../../sql/sqlite/backlog_standing.sql");

/// So many keys are filed at once. More would share more pages, and hold up whoever comes meanwhile for longer.
const KEYS_MAX: usize = 1024;
/// A move of more than this is filed at once, so that what is known in memory is bounded. A row may hold a body that is small
/// only while it is packed.
const MOVE_BYTES_MAX: usize = 16 * 1024;
/// So long a move waits at most while others come, be they ever so few.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Should filing fail, so many keys wait for it at most.
const KEYS_HARD_MAX: usize = 4 * KEYS_MAX;

/// The backlog as one opened ledger knows it.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Tells its rows from those of other ledgers on the file.
    writer: [u8; 16],
    /// A group of fewer moves is filed at once: nobody is waiting who would gain by it.
    moves_min: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What the rows of this ledger say, as it was committed.
    records: HashMap<RecordId, Arc<Record>>,
    /// How many rows it has.
    rows: i64,
    /// When the first of them was committed.
    since: Option<Instant>,
    /// How often nothing was left. What was known before says nothing of what is noted down after.
    generation: u64,
    /// The file's count of changes by others when the rows were last looked at.
    changes_seen: Option<i64>,
}

/// What waits in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Empty,
    /// Only what this ledger knows in memory.
    Own,
    /// Something that it does not know.
    Foreign,
}

/// What was known of a key, and when.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) record: Arc<Record>,
    generation: u64,
}

/// What one transaction adds, until it is committed.
#[derive(Debug, Default)]
pub(super) struct Staged {
    records: HashMap<RecordId, Arc<Record>>,
    lines: Vec<u8>,
}

impl Backlog {
    /// One that groups of at least `moves_min` moves go to.
    pub(super) fn new(moves_min: usize) -> Self {
        Self {
            writer: *uuid::Uuid::new_v4().as_bytes(),
            moves_min,
            inner: Mutex::default(),
        }
    }

    /// What waits, as the transaction that just began sees it.
    pub(super) fn standing(&self, connection: &Connection) -> rusqlite::Result<Standing> {
        let changes: i64 = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        let mut inner = self.inner();
        if inner.changes_seen != Some(changes) {
            let (all, own): (i64, i64) = connection
                .prepare_cached(COUNT)?
                .query_row(params![self.writer], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if all == 0 {
                // Somebody else filed it, or there was none.
                inner.clear();
            } else if all != own || own != inner.rows {
                return Ok(Standing::Foreign);
            }
            inner.changes_seen = Some(changes);
        }
        Ok(if inner.rows == 0 {
            Standing::Empty
        } else {
            Standing::Own
        })
    }

    /// Whether these moves are noted down rather than filed, given what waits.
    pub(super) fn takes(&self, standing: Standing, moves: &[&Packed]) -> bool {
        let is_busy = match standing {
            Standing::Empty => moves.len() >= self.moves_min,
            Standing::Own => true,
            Standing::Foreign => false,
        };
        let inner = self.inner();
        let mut touched = HashSet::with_capacity(if is_busy { moves.len() } else { 0 });
        is_busy
            && inner.records.len() < KEYS_HARD_MAX
            && moves.iter().all(|packed| {
                // A second move of one key goes by what the first made of it, which is not known yet.
                let is_first = touched.insert(packed.step.next.id);
                (is_first || packed.write == Write::Insert) && inner.fits(packed)
            })
    }

    /// Notes a move down, or does it where its key has a row already. Only after [`Backlog::takes`] said so of all.
    pub(super) fn note(
        &self,
        connection: &Connection,
        packed: &Packed,
        staged: &mut Staged,
    ) -> Result<Applied, Fault> {
        let next = &packed.step.next;
        let known = staged.records.get(&next.id).cloned();
        let known = known.or_else(|| self.inner().records.get(&next.id).cloned());
        if known
            .as_ref()
            .is_some_and(|record| !is_same_key(record, next))
        {
            return Err(moves::shared_id().into());
        }
        let is_noted = match (packed.write, known) {
            (Write::Insert, None) => {
                if let Some(row) = rows::find_rare(connection, next.scope.tenant, next.id)? {
                    return moves::stale(next, Some(row));
                }
                line::put_claim(packed, &mut staged.lines)
            }
            (Write::Settle, Some(record)) if packed.step.expect == Some(record.version) => {
                line::put_outcome(packed, &mut staged.lines)
            }
            (Write::Settle | Write::Renew, None) => return moves::apply(connection, packed),
            (_, Some(record)) => return Ok(Applied::Noted(record)),
            (Write::Replace, None) => false,
        };
        if !is_noted {
            let why = "a move came to the backlog that does not fit it";
            return Err(Error::new(Kind::Corrupt, "noting moves down")
                .because(why)
                .into());
        }
        staged.records.insert(next.id, next.clone());
        Ok(Applied::Written)
    }

    /// Writes what was noted down. Returns whether there was anything.
    pub(super) fn put(&self, connection: &Connection, staged: &Staged) -> rusqlite::Result<bool> {
        if staged.lines.is_empty() {
            return Ok(false);
        }
        connection
            .prepare_cached(PUT)?
            .execute(params![self.writer, staged.lines])?;
        Ok(true)
    }

    /// The transaction is committed: what it noted down is known from here on.
    pub(super) fn committed(&self, staged: Staged) {
        if staged.lines.is_empty() {
            return;
        }
        let mut inner = self.inner();
        inner.rows += 1;
        inner.since.get_or_insert_with(Instant::now);
        inner.records.extend(staged.records);
    }

    /// The transaction that filed everything is committed.
    pub(super) fn filed(&self) {
        self.inner().clear();
    }

    /// Nobody knows whether the transaction was committed: the file is asked before it is relied on.
    pub(super) fn doubted(&self) {
        self.inner().changes_seen = None;
    }

    /// Whether anything waits that this ledger noted down.
    pub(super) fn waits(&self) -> bool {
        self.inner().rows > 0
    }

    /// Whether it is time to file.
    pub(super) fn is_full(&self) -> bool {
        let inner = self.inner();
        inner.records.len() >= KEYS_MAX
            || inner.since.is_some_and(|since| since.elapsed() >= AGE_MAX)
    }

    /// Whether so much waits that it is worth preparing every statement anew to file it without triggers.
    pub(super) fn is_long(&self) -> bool {
        self.inner().records.len() >= KEYS_MAX / 4
    }

    /// What was noted down for this key. Good only if, asked after it, [`Backlog::standing_to_read`] is [`Standing::Own`] and
    /// the generation is the same.
    pub(super) fn find(&self, tenant: Tenant, id: RecordId) -> Option<Noted> {
        let inner = self.inner();
        let record = inner.records.get(&id)?;
        (record.scope.tenant == tenant).then(|| Noted {
            record: record.clone(),
            generation: inner.generation,
        })
    }

    /// Whether nothing has been filed, by whomever, since this was looked up.
    pub(super) fn is_current(&self, noted: &Noted) -> bool {
        self.inner().generation == noted.generation
    }

    /// Whose moves wait, as a reader sees it.
    pub(super) fn standing_to_read(&self, connection: &Connection) -> rusqlite::Result<Standing> {
        connection
            .prepare_cached(STANDING)?
            .query_row(params![self.writer], |row| {
                Ok(match (row.get(0)?, row.get(1)?) {
                    (true, _) => Standing::Foreign,
                    (false, true) => Standing::Own,
                    (false, false) => Standing::Empty,
                })
            })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is whole before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether a move can be noted down, or done beside the backlog since its key has a row or is refused.
    fn fits(&self, packed: &Packed) -> bool {
        let step = &packed.step;
        let request = &step.next.request;
        let bytes = packed.bytes()
            + packed.asked.path.len()
            + request.content_type.len()
            + request.method.len();
        if step.note.is_some() || step.purges || bytes > MOVE_BYTES_MAX {
            return false;
        }
        let known = self.records.get(&step.next.id);
        if known.is_some_and(|record| !is_same_key(record, &step.next)) {
            return false;
        }
        let is_current = known.is_some_and(|record| step.expect == Some(record.version));
        match packed.write {
            Write::Insert => {
                known.is_some()
                    || (is_row(packed)
                        && matches!(step.next.state, State::Held(_))
                        && !line::is_apart(packed.request.as_ref()))
            }
            Write::Settle => {
                let body = packed.response.as_ref().and_then(|one| one.body.as_ref());
                step.next.version.0 > 0 && !line::is_apart(body)
            }
            Write::Renew => !is_current,
            Write::Replace => known.is_some() && !is_current,
        }
    }

    fn clear(&mut self) {
        // What a burst needed is not kept for the quiet after it.
        self.records = HashMap::new();
        self.rows = 0;
        self.since = None;
        self.generation += 1;
    }
}

/// Whether the conditions of the table allow this claim, as far as types do not say so already. What they refuse is refused
/// by the table, at once and to its caller: noted down it could never be filed.
fn is_row(packed: &Packed) -> bool {
    let next = &packed.step.next;
    let is_fenced = next.hold().is_some_and(|hold| hold.epoch.0 <= next.version);
    next.version.0 > 0
        && is_fenced
        && packed.asked.fingerprint.len() == 32
        && (1..=255).contains(&next.key.as_str().len())
        && (1..=200).contains(&next.scope.space.as_str().len())
}

fn is_same_key(one: &Record, other: &Record) -> bool {
    one.scope == other.scope && one.key == other.key
}

/// Whether any moves wait, whoever noted them down.
pub(super) fn waits(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(WAITS)?
        .query_row([], |row| row.get(0))
}

/// Whether nobody but the backlog itself has a trigger run for a new row. Its own refuses rows beside a backlog, which filing
/// has emptied by then.
pub(super) fn is_guarded_only(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(GUARDED_ONLY)?
        .query_row([], |row| row.get(0))
}

/// A key of the backlog with all that became of it.
struct Filing<'b> {
    /// The row of the backlog with its claim.
    seq: i64,
    claimed: Claimed<'b>,
    settled: Option<Settled<'b>>,
}

/// Makes rows of all that waits, in the caller's transaction, whoever noted it down.
pub(super) fn file(connection: &Connection) -> Result<(), Fault> {
    let noted: Vec<(i64, Vec<u8>)> = connection
        .prepare_cached(LIST)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut filings = filings(&noted)?;
    // In the order of the index of ids, so that what shares a page is written to it together.
    filings.sort_unstable_by_key(|one| (one.claimed.tenant, one.claimed.id));
    // First, since no row is taken beside a backlog.
    connection.prepare_cached(DROP)?.execute([])?;
    let mut statement = connection.prepare_cached(moves::INSERT)?;
    for filing in &filings {
        if insert(&mut statement, filing)? == 0 {
            return Err(damaged(filing.seq, "a key in it is in idempotency_keys already").into());
        }
    }
    Ok(())
}

fn filings(noted: &[(i64, Vec<u8>)]) -> Result<Vec<Filing<'_>>, Error> {
    let mut filings: Vec<Filing<'_>> = Vec::new();
    let mut places = HashMap::new();
    let lines = noted
        .iter()
        .flat_map(|(seq, bytes)| line::lines(bytes).map(|line| (*seq, line)));
    for (seq, line) in lines {
        match line.ok_or_else(|| damaged(seq, "a move in it makes no sense"))? {
            Line::Claimed(claimed) => {
                places.insert((claimed.tenant, claimed.id), filings.len());
                filings.push(Filing {
                    seq,
                    claimed,
                    settled: None,
                });
            }
            Line::Settled(settled) => {
                let place = places.get(&(settled.tenant, settled.id));
                let filing = place.and_then(|at| filings.get_mut(*at));
                let filing = filing.ok_or_else(|| damaged(seq, "an outcome in it has no claim"))?;
                filing.settled = Some(settled);
            }
        }
    }
    Ok(filings)
}

fn insert(statement: &mut Statement<'_>, filing: &Filing<'_>) -> rusqlite::Result<usize> {
    let (claimed, settled) = (&filing.claimed, filing.settled.as_ref());
    let held = settled.is_none();
    statement.execute(params![
        claimed.tenant,
        claimed.id,
        claimed.space,
        claimed.key,
        settled.map_or(claimed.version, |settled| settled.version),
        if held { "held" } else { "settled" },
        claimed.fingerprint,
        claimed.principal,
        claimed.on_lost,
        claimed.lease_ms,
        held.then_some(claimed.epoch),
        held.then_some(claimed.owner),
        held.then_some(claimed.until),
        None::<&str>,
        claimed.content_hash,
        claimed.method,
        claimed.path,
        claimed.content_type,
        claimed.body,
        false,
        settled.map(|settled| settled.status),
        settled.map(|settled| settled.headers),
        settled.and_then(|settled| settled.body),
        false,
        claimed.created_at,
        claimed.expires_at,
        settled.map(|settled| settled.completed_at),
        claimed.subject,
    ])
}

fn damaged(seq: i64, why: &str) -> Error {
    let why =
        format!("row {seq} of idempotency_backlog is damaged: {why}; restore the file from a copy");
    Error::new(Kind::Corrupt, "filing the backlog").because(why)
}

#[cfg(test)]
mod tests {
    use hapax_core::{Claim, Fingerprint, Key, Owner, Scope, Time, Version};

    use super::*;

    #[test]
    fn what_was_known_before_a_filing_is_not_relied_on_after_it() {
        let scope = Scope::new(Tenant::DEFAULT, "POST:payments").unwrap();
        let key = Key::new("order-7").unwrap();
        let claim = Claim::new(scope, key, Fingerprint::of(b"pay 10"), Owner::from_u128(7));
        let now = Time::from_ms(1_700_000_000_000);
        let record = Arc::new(Record::granted(&claim, Version::seeded(now), now));
        let staged = || Staged {
            records: HashMap::from([(record.id, record.clone())]),
            lines: vec![0],
        };

        let backlog = Backlog::new(1);
        backlog.committed(staged());
        let noted = backlog.find(Tenant::DEFAULT, record.id).unwrap();
        assert!(backlog.is_current(&noted));
        backlog.filed();
        assert!(!backlog.is_current(&noted));
        // Something else is noted down since, so the file says that this ledger has a backlog.
        backlog.committed(staged());
        assert!(!backlog.is_current(&noted));
    }
}
