//! A ledger in memory, for tests and for trying things out. It keeps nothing when the process ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hapax_core::{
    Answer, Durability, Error, Ledger, Move, Page, Record, RecordId, Request, Scan, State, Swap,
    Sweep, Swept, Tenant, Time,
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
#[derive(Debug, Default)]
pub struct MemoryLedger {
    rows: Mutex<BTreeMap<(Tenant, RecordId), Stored>>,
    purges: AtomicU64,
    clock: Clock,
}

#[derive(Clone, Debug)]
struct Stored {
    record: Record,
    /// When the swept record is forgotten.
    forget_at: Option<Time>,
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

    fn apply(&self, step: Move) -> Swap {
        let mut rows = self.rows();
        let at = (step.next.scope.tenant, step.next.id);
        let stored = rows.get(&at).map(|stored| &stored.record);
        if stored.map(|record| record.version) != step.expect {
            return Swap::Stale(stored.cloned().map(Box::new));
        }
        rows.insert(
            at,
            Stored {
                record: step.next,
                forget_at: None,
            },
        );
        if step.purges {
            self.purges.fetch_add(1, Ordering::SeqCst);
        }
        Swap::Written
    }

    fn sweep_now(&self, sweep: Sweep, now: Time) -> Swept {
        let limit = sweep.limit.min(Sweep::LIMIT_MAX);
        let mut rows = self.rows();
        let mut swept = Swept::default();
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
                continue;
            }
            let freed = stored.record.state == State::Free;
            stored.forget_at = Some(stored.record.expires_at.plus(sweep.grace));
            stored.record.version = stored.record.version.next();
            stored.record.request = Request::default();
            if freed {
                swept.retired += 1;
            } else {
                stored.record.state = State::Expired;
                swept.expired += 1;
            }
        }
        swept
    }

    fn page(&self, scan: &Scan) -> Page {
        let limit = scan.limit.clamp(1, Scan::LIMIT_MAX);
        let mut records: Vec<Record> = self
            .rows()
            .values()
            .map(|stored| &stored.record)
            .filter(|record| record.scope.tenant == scan.tenant)
            .filter(|record| !matches!(record.state, State::Free | State::Expired))
            .filter(|record| {
                scan.space
                    .as_ref()
                    .is_none_or(|space| *space == record.scope.space)
            })
            .filter(|record| {
                scan.state
                    .is_none_or(|state| state == record.state.as_str())
            })
            .filter(|record| {
                scan.after
                    .is_none_or(|after| (record.created_at, record.id) < after)
            })
            .cloned()
            .collect();
        records.sort_by_key(|record| std::cmp::Reverse((record.created_at, record.id)));
        let more = records.len() > limit;
        records.truncate(limit);
        let next = records
            .last()
            .filter(|_| more)
            .map(|record| (record.created_at, record.id));
        Page { records, next }
    }
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

    fn purges(&self) -> Option<u64> {
        Some(self.purges.load(Ordering::SeqCst))
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok::<T, Error>(value)))
}
