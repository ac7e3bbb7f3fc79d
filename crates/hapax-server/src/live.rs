//! How it goes: a sample of each watched tenant every two seconds, kept for a while and told to whoever watches.
//! Counters are this process's; what waits and what runs is the store's.

mod seats;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hapax::observe::Pulse;
use hapax::{Observer, observe};
use hapax_core::job::{State, Tally};
use hapax_core::{Action, Error, NoteScan, Tenant, Time};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{broadcast, watch};
use utoipa::ToSchema;

use seats::{Seat, Seats};

use crate::api::jobs::COUNTED_MAX;
use crate::store::Store;
use crate::{import, intents};

/// How often a sample is taken.
pub(crate) const EVERY: Duration = Duration::from_secs(2);
/// How many samples of a tenant are kept.
pub(crate) const SAMPLES_MAX: usize = 720;
/// How many tenants have samples. No more can be watched than there are seats.
const TENANTS_MAX: usize = seats::SEATS;
/// How long a tenant that nobody watches any more is sampled on, so that whoever comes back sees no gap.
const KEPT_FOR: Duration = Duration::from_secs(1440);
/// A store that does not answer for this long leaves the gauges of a sample empty.
const GAUGES_WITHIN: Duration = Duration::from_millis(1500);
/// Samples that a slow watcher may be behind; older ones it misses.
const BEHIND_MAX: usize = 16;

/// How it went since the sample before, and how it stands.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Sample {
    #[schema(format = DateTime)]
    at: String,
    /// Requests under a key per second, as the next six are.
    requests: f64,
    replays: f64,
    conflicts: f64,
    in_progress: f64,
    expired: f64,
    errors: f64,
    /// Keys that sweeps of this process removed per second.
    swept: f64,
    /// Half of the look-ups took no longer than this.
    lookup_us_p50: u64,
    lookup_us_p99: u64,
    #[serde(flatten)]
    gauges: Gauges,
}

/// What waits and what runs now. Each is counted up to 10001, which means "more"; null where the store did not answer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, ToSchema)]
#[schema(as = SampleGauges)]
struct Gauges {
    /// Of the newest 10001 keys.
    in_doubt: Option<u64>,
    jobs: Option<JobGauges>,
    /// Operations of jobs that wait for a person.
    ops_in_doubt: Option<u64>,
    /// Receipts that are not at their end.
    receipts_open: Option<u64>,
    imports_running: Option<u64>,
    batches_open: Option<u64>,
}

/// Jobs of every kind, by how they stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, ToSchema)]
struct JobGauges {
    /// Nobody holds them, and they are not at their end.
    ready: u64,
    /// Somebody holds them.
    running: u64,
    /// They rest after a failure.
    failed: u64,
    /// They were given up.
    dead: u64,
}

/// The samples of every tenant that is watched.
pub(crate) struct Live {
    store: Store,
    observer: Arc<Observer>,
    rings: Mutex<HashMap<Tenant, Ring>>,
    seats: Arc<Seats>,
    closed: watch::Sender<bool>,
}

struct Ring {
    samples: VecDeque<Sample>,
    /// The counters at the last sample, and when that was.
    last: Option<(Pulse, Instant, Time)>,
    watched: Instant,
    told: broadcast::Sender<Sample>,
}

/// What a watcher gets.
pub(crate) struct Watching {
    pub(crate) samples: Vec<Sample>,
    pub(crate) next: broadcast::Receiver<Sample>,
    pub(crate) closed: watch::Receiver<bool>,
    /// Given back when this is dropped.
    _seat: Seat,
}

impl Live {
    pub(crate) fn new(store: &Store, observer: &Arc<Observer>) -> Self {
        Self {
            store: store.clone(),
            observer: Arc::clone(observer),
            rings: Mutex::default(),
            seats: Arc::default(),
            closed: watch::channel(false).0,
        }
    }

    /// The samples of a tenant so far, at least one, and those to come. None if every seat is taken, or as many as a tenant may
    /// have.
    pub(crate) async fn watch(&self, tenant: Tenant) -> Option<Watching> {
        let seat = self.seats.take(tenant)?;
        let samples = self.samples(tenant).await;
        // Subscribed to last, so a sample may be missing in between, and none comes twice.
        let next = ring(&mut self.rings(), tenant).told.subscribe();
        let closed = self.closed.subscribe();
        Some(Watching {
            samples,
            next,
            closed,
            _seat: seat,
        })
    }

    /// The samples of a tenant so far, at least one. It is sampled from now on.
    pub(crate) async fn samples(&self, tenant: Tenant) -> Vec<Sample> {
        let samples = |rings: &mut HashMap<Tenant, Ring>| {
            let ring = ring(rings, tenant);
            ring.watched = Instant::now();
            ring.samples.iter().cloned().collect::<Vec<Sample>>()
        };
        let there = samples(&mut self.rings());
        if !there.is_empty() {
            return there;
        }
        self.sample(tenant).await;
        samples(&mut self.rings())
    }

    /// Takes a sample of every tenant that is watched, or was not long ago.
    pub(crate) async fn tick(&self) {
        let tenants: Vec<Tenant> = {
            let mut rings = self.rings();
            rings.retain(|_, ring| {
                ring.told.receiver_count() > 0 || ring.watched.elapsed() < KEPT_FOR
            });
            // A rate over a moment says nothing, so one that was just sampled waits.
            let is_due = |ring: &Ring| {
                let last = ring.last.as_ref();
                last.is_none_or(|(_, at, _)| at.elapsed() >= EVERY / 2)
            };
            let due = rings.iter().filter(|(_, ring)| is_due(ring));
            due.map(|(tenant, _)| *tenant).collect()
        };
        for tenant in tenants {
            self.sample(tenant).await;
        }
    }

    /// Ends every stream.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    async fn sample(&self, tenant: Tenant) {
        let last = self.rings().get(&tenant).and_then(|ring| ring.last.clone());
        let (pulse, taken, now) = (
            self.observer.pulse(tenant),
            Instant::now(),
            self.store.ledger.now(),
        );
        let has_swept = last
            .as_ref()
            .is_some_and(|(last, _, _)| last.sweeps < pulse.sweeps);
        let since = last.as_ref().filter(|_| has_swept).map(|(_, _, at)| *at);
        let asked = async {
            let gauges = self.gauges(tenant).await?;
            let swept = match since {
                Some(since) => self.swept(tenant, since).await?,
                None => 0,
            };
            Ok::<_, Error>((gauges, swept))
        };
        let (gauges, swept) = match tokio::time::timeout(GAUGES_WITHIN, asked).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a sample has no gauges");
                (Gauges::default(), 0)
            }
            Err(_) => {
                tracing::warn!("a sample has no gauges: the store takes too long");
                (Gauges::default(), 0)
            }
        };
        let before = last.as_ref().map_or(&pulse, |(pulse, _, _)| pulse);
        let span = last
            .as_ref()
            .map_or(Duration::ZERO, |(_, at, _)| taken.duration_since(*at));
        let sample = sample(now, &pulse, before, span, swept, gauges);
        let mut rings = self.rings();
        let ring = ring(&mut rings, tenant);
        if ring.samples.len() == SAMPLES_MAX {
            ring.samples.pop_front();
        }
        ring.samples.push_back(sample.clone());
        ring.last = Some((pulse, taken, now));
        // Nobody may be listening.
        let _ = ring.told.send(sample);
    }

    async fn gauges(&self, tenant: Tenant) -> Result<Gauges, Error> {
        let looks_at = usize::try_from(COUNTED_MAX).unwrap_or(usize::MAX);
        let ledger = &self.store.ledger;
        let in_doubt = if ledger.capabilities().lists {
            Some(capped(ledger.doubts(tenant, looks_at).await?))
        } else {
            None
        };
        let tallies = self.store.queue.tally(tenant, COUNTED_MAX).await?;
        let doubtful = self.store.queue.doubtful_ops(tenant, COUNTED_MAX).await?;
        let batches = self.store.batches.open_batches(tenant, COUNTED_MAX).await?;
        let open = |kind| {
            let of_kind = tallies.iter().filter(|tally| tally.kind == kind);
            let open = of_kind.filter(|tally| !tally.state.is_terminal());
            capped(open.map(|tally| tally.count).sum())
        };
        Ok(Gauges {
            in_doubt,
            jobs: Some(jobs(&tallies)),
            ops_in_doubt: Some(capped(doubtful)),
            receipts_open: Some(open(intents::inbox::kind())),
            imports_running: Some(open(import::job::kind())),
            batches_open: Some(capped(batches)),
        })
    }

    /// How many keys of a tenant were removed since then, as the trail says.
    async fn swept(&self, tenant: Tenant, since: Time) -> Result<u64, Error> {
        let scan = NoteScan {
            action: Some(Action::Cleanup),
            ..NoteScan::of(tenant)
        };
        let page = self.store.ledger.notes(scan).await?;
        let new = page.notes.iter().filter(|note| note.at > since);
        let removed = new.filter_map(|note| {
            let details: Value = serde_json::from_str(&note.details).ok()?;
            details["deleted_count"].as_u64()
        });
        Ok(removed.sum())
    }

    fn rings(&self) -> MutexGuard<'_, HashMap<Tenant, Ring>> {
        // Nothing panics while this is held.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ring of a tenant. Where there are too many, the one that was watched longest ago makes room.
fn ring(rings: &mut HashMap<Tenant, Ring>, tenant: Tenant) -> &mut Ring {
    if rings.len() >= TENANTS_MAX && !rings.contains_key(&tenant) {
        let unwatched = rings
            .iter()
            .filter(|(_, ring)| ring.told.receiver_count() == 0);
        let oldest = unwatched.min_by_key(|(_, ring)| ring.watched);
        if let Some(oldest) = oldest.map(|(tenant, _)| *tenant) {
            rings.remove(&oldest);
        }
    }
    rings.entry(tenant).or_insert_with(|| Ring {
        samples: VecDeque::new(),
        last: None,
        watched: Instant::now(),
        told: broadcast::channel(BEHIND_MAX).0,
    })
}

fn sample(
    now: Time,
    pulse: &Pulse,
    before: &Pulse,
    span: Duration,
    swept: u64,
    gauges: Gauges,
) -> Sample {
    let rate = |now: u64, before: u64| per_second(now.saturating_sub(before), span);
    let lookups: observe::Spread = pulse.lookups.since(&before.lookups);
    Sample {
        at: now.to_string(),
        requests: rate(pulse.requests, before.requests),
        replays: rate(pulse.replays, before.replays),
        conflicts: rate(pulse.conflicts, before.conflicts),
        in_progress: rate(pulse.in_progress, before.in_progress),
        expired: rate(pulse.expired, before.expired),
        errors: rate(pulse.errors, before.errors),
        swept: per_second(swept, span),
        lookup_us_p50: lookups.percentile_us(50),
        lookup_us_p99: lookups.percentile_us(99),
        gauges,
    }
}

/// With two digits behind the point, which is what a chart can show.
#[expect(
    clippy::cast_precision_loss,
    reason = "a count of two seconds is far below 2^52"
)]
fn per_second(count: u64, span: Duration) -> f64 {
    if count == 0 || span.is_zero() {
        return 0.0;
    }
    (count as f64 / span.as_secs_f64() * 100.0).round() / 100.0
}

fn jobs(tallies: &[Tally]) -> JobGauges {
    let mut gauges = JobGauges::default();
    for tally in tallies {
        let free = tally.count.saturating_sub(tally.held);
        gauges.running = capped(gauges.running + tally.held);
        match tally.state {
            State::Failed => gauges.failed = capped(gauges.failed + free),
            State::Dead => gauges.dead = capped(gauges.dead + free),
            state if state.is_terminal() => {}
            _ready => gauges.ready = capped(gauges.ready + free),
        }
    }
    gauges
}

fn capped(count: u64) -> u64 {
    count.min(COUNTED_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_core::job::JobKind;

    fn tally(state: State, count: u64, held: u64) -> Tally {
        let kind = JobKind::new("k").unwrap();
        Tally {
            kind,
            state,
            count,
            held,
        }
    }

    #[test]
    fn jobs_are_told_apart_by_who_holds_them_and_no_count_goes_further_than_it_says() {
        let tallies = [
            tally(State::Planned, 10_001, 0),
            tally(State::Leased, 3, 2),
            tally(State::Failed, 4, 0),
            tally(State::Dead, 5, 0),
            tally(State::Indexed, 6, 0),
        ];
        let expected = JobGauges {
            ready: 10_001,
            running: 2,
            failed: 4,
            dead: 5,
        };
        assert_eq!(jobs(&tallies), expected);
    }

    #[test]
    fn a_rate_is_of_the_time_between_two_samples() {
        let before = Pulse {
            requests: 10,
            ..Pulse::default()
        };
        let now = Pulse {
            requests: 13,
            ..before.clone()
        };
        let of = |span| sample(Time::from_ms(0), &now, &before, span, 4, Gauges::default());
        let taken = of(Duration::from_secs(2));
        assert!((taken.requests - 1.5).abs() < 1e-9 && (taken.swept - 2.0).abs() < 1e-9);
        assert!(
            of(Duration::ZERO).requests.abs() < 1e-9,
            "the first one has no span"
        );
    }

    #[test]
    fn a_new_tenant_takes_the_place_of_the_one_that_was_watched_longest_ago() {
        let tenant = |n: usize| Tenant::from_uuid(uuid::Uuid::from_u128(n as u128));
        let mut rings = HashMap::new();
        for n in 0..TENANTS_MAX {
            ring(&mut rings, tenant(n)).watched = Instant::now();
        }
        let watching = ring(&mut rings, tenant(0)).told.subscribe();
        ring(&mut rings, tenant(TENANTS_MAX));
        assert_eq!(rings.len(), TENANTS_MAX);
        assert!(rings.contains_key(&tenant(0)) && !rings.contains_key(&tenant(1)));
        drop(watching);
    }
}
