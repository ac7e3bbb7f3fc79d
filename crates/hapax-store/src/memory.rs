//! A ledger in memory, for tests and for trying things out. It keeps nothing when the process ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::{
    Action, Answer, Durability, Error, Key, Ledger, Move, Note, NoteId, NotePage, NoteScan, Page,
    Record, RecordId, Scan, Space, State, Swap, Sweep, Swept, Tenant, Time, Wake,
};

use crate::clock::Clock;

/// A ledger in memory: as strict as the others, and gone with the process.
///
/// ```
/// use hapax_core::{Durability, Ledger};
/// use hapax_store::MemoryLedger;
///
/// assert_eq!(MemoryLedger::new().durability(), Durability::Process);
/// ```
#[derive(Default)]
pub struct MemoryLedger {
    rows: Mutex<BTreeMap<(Tenant, RecordId), Stored>>,
    notes: Mutex<Trail>,
    wakes: Mutex<Vec<Wake>>,
    purges: AtomicU64,
    clock: Clock,
}

#[derive(Clone, Debug)]
struct Stored {
    record: Record,
    /// When the swept record is forgotten.
    forget_at: Option<Time>,
}

/// The audit trail of every tenant, in the order it was written.
#[derive(Debug, Default)]
struct Trail {
    notes: BTreeMap<(Tenant, Time, NoteId), Note>,
    last: i64,
}

impl Trail {
    fn add(&mut self, note: Note) {
        self.last += 1;
        self.notes
            .insert((note.tenant, note.at, NoteId(self.last)), note);
    }
}

impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger").finish_non_exhaustive()
    }
}

impl MemoryLedger {
    /// An empty ledger on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty ledger on `clock`.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self {
            clock,
            ..Self::default()
        }
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<(Tenant, RecordId), Stored>> {
        // No code panics between two related changes, so a poisoned map is still whole.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trail(&self) -> MutexGuard<'_, Trail> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, step: Move) -> Swap {
        let mut rows = self.rows();
        let at = (step.next.scope.tenant, step.next.id);
        let stored = rows.get(&at).map(|stored| &stored.record);
        if stored.map(|record| record.version) != step.expect {
            return Swap::Stale(stored.cloned().map(Box::new));
        }
        let ended = step.ends().then_some(step.next.id);
        if let Some(note) = step.note {
            self.trail().add(*note);
        }
        rows.insert(
            at,
            Stored {
                record: Arc::unwrap_or_clone(step.next),
                forget_at: None,
            },
        );
        if step.purges {
            self.purges.fetch_add(1, Ordering::SeqCst);
        }
        drop(rows);
        if let Some(id) = ended {
            self.wake(id);
        }
        Swap::Written
    }

    fn wake(&self, id: RecordId) {
        let wakes = self.wakes.lock();
        let wakes = wakes.unwrap_or_else(PoisonError::into_inner).clone();
        for wake in wakes {
            wake(id);
        }
    }

    fn sweep_now(&self, sweep: Sweep, now: Time) -> Swept {
        let limit = sweep.limit.min(Sweep::LIMIT_MAX);
        let mut rows = self.rows();
        let mut swept = Swept::default();
        let mut tenants: BTreeMap<Tenant, Swept> = BTreeMap::new();
        let due: Vec<_> = rows
            .iter()
            .filter(|(_, stored)| match stored.forget_at {
                Some(forget_at) => forget_at <= now,
                None => stored.record.is_expired(now),
            })
            .map(|(at, _)| *at)
            .take(limit)
            .collect();
        for at in due {
            let Some(stored) = rows.get_mut(&at) else {
                continue;
            };
            if stored.forget_at.is_some() {
                rows.remove(&at);
                swept.forgotten += 1;
                tenants.entry(at.0).or_default().forgotten += 1;
                continue;
            }
            let freed = stored.record.state == State::Free;
            if matches!(stored.record.state, State::Settled { .. }) {
                // A cache goes by its record's time. Should the clock be set back, that time comes again.
                self.purges.fetch_add(1, Ordering::SeqCst);
            }
            stored.forget_at = Some(stored.record.expires_at.plus(sweep.grace));
            stored.record.version = stored.record.version.next();
            stored.record.request = Arc::default();
            stored.record.subject = None;
            if freed {
                swept.retired += 1;
                tenants.entry(at.0).or_default().retired += 1;
            } else {
                stored.record.state = State::Expired;
                swept.expired += 1;
                tenants.entry(at.0).or_default().expired += 1;
            }
        }
        let mut trail = self.trail();
        for (tenant, swept) in tenants {
            trail.add(cleanup(tenant, now, swept));
        }
        let kept_from = before(now, sweep.audit_keep);
        let mut old: Vec<_> = trail.notes.keys().copied().collect();
        old.retain(|(_, at, _)| *at <= kept_from);
        old.sort_by_key(|(_, at, id)| (*at, *id));
        old.truncate(limit);
        for place in &old {
            trail.notes.remove(place);
        }
        swept.notes = old.len();
        swept
    }

    fn note_page(&self, scan: &NoteScan) -> NotePage {
        let limit = scan.limit.clamp(1, NoteScan::LIMIT_MAX);
        let trail = self.trail();
        let mut found = trail.notes.iter().rev().filter(|((tenant, at, id), note)| {
            *tenant == scan.tenant
                && scan.after.is_none_or(|after| (*at, *id) < after)
                && scan.action.is_none_or(|action| action == note.action)
                && scan.key_id.is_none_or(|id| Some(id) == note.key_id)
        });
        let page: Vec<_> = found.by_ref().take(limit).collect();
        let next = match (found.next(), page.last()) {
            (Some(_), Some(((_, at, id), _))) => Some((*at, *id)),
            (_, _) => None,
        };
        NotePage {
            notes: page.into_iter().map(|(_, note)| note.clone()).collect(),
            next,
        }
    }

    fn page(&self, scan: &Scan) -> Page {
        let now = self.clock.now();
        let limit = scan.limit.clamp(1, Scan::LIMIT_MAX);
        let rows = self.rows();
        let rows = rows.values().map(|stored| &stored.record);
        let mut seen: Vec<&Record> = rows.filter(|record| is_seen(scan, record)).collect();
        seen.sort_by_key(|record| std::cmp::Reverse((record.created_at, record.id)));
        let looks_at = match scan.subject {
            Some(_) => usize::MAX,
            None => scan.looks_at.max(1),
        };
        let last_seen = seen.get(looks_at - 1).copied();
        seen.truncate(looks_at);
        let mut listed: Vec<&Record> = seen;
        listed.retain(|record| is_listed(scan, record, now));
        let full = listed.len() > limit;
        listed.truncate(limit);
        let end = if full {
            listed.last().copied()
        } else {
            last_seen
        };
        Page {
            next: end.map(|record| (record.created_at, record.id)),
            records: listed.into_iter().cloned().collect(),
        }
    }
}

/// Whether a scan comes past this record, be it listed or not.
fn is_seen(scan: &Scan, record: &Record) -> bool {
    let of_subject = scan
        .subject
        .is_none_or(|subject| Some(subject) == record.subject);
    let is_behind = scan
        .after
        .is_none_or(|after| (record.created_at, record.id) < after);
    let of_space = |space: &Space| *space == record.scope.space;
    record.scope.tenant == scan.tenant
        && of_subject
        && is_behind
        && scan.space.as_ref().is_none_or(of_space)
}

fn is_listed(scan: &Scan, record: &Record, now: Time) -> bool {
    let begins = |prefix: &Key| record.key.as_str().starts_with(prefix.as_str());
    let prefix = scan.prefix.as_ref().filter(|_| scan.subject.is_none());
    !matches!(record.state, State::Free | State::Expired)
        && prefix.is_none_or(begins)
        && scan.state.is_none_or(|state| state == record.word(now))
}

impl Ledger for MemoryLedger {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn durability(&self) -> Durability {
        Durability::Process
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        ready(moves.into_iter().map(|step| self.apply(step)).collect())
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        ready(
            self.rows()
                .get(&(tenant, id))
                .map(|stored| stored.record.clone()),
        )
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        ready(self.page(&scan))
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        ready(self.sweep_now(sweep, self.now()))
    }

    fn check(&self) -> Answer<'_, ()> {
        ready(())
    }

    fn note(&self, notes: Vec<Note>) -> Answer<'_, ()> {
        let mut trail = self.trail();
        for note in notes {
            trail.add(note);
        }
        ready(())
    }

    fn notes(&self, scan: NoteScan) -> Answer<'_, NotePage> {
        ready(self.note_page(&scan))
    }

    fn subscribe(&self, wake: Wake) {
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.push(wake);
    }

    fn purges(&self) -> Option<u64> {
        Some(self.purges.load(Ordering::SeqCst))
    }
}

/// What the audit trail says of a sweep that touched records of `tenant`.
pub(crate) fn cleanup(tenant: Tenant, at: Time, swept: Swept) -> Note {
    Note::new(tenant, at, Action::Cleanup).saying([
        ("deleted_count", swept.expired.into()),
        ("retired", swept.retired.into()),
        ("forgotten", swept.forgotten.into()),
    ])
}

/// The time `span` before `now`.
pub(crate) fn before(now: Time, span: Duration) -> Time {
    let span_ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Time::from_ms(now.as_ms().saturating_sub(span_ms))
}

fn ready<'a, T: Send + 'a>(value: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok::<T, Error>(value)))
}
