//! One connection that writes: it commits whatever has gathered the moment the previous commit returned.
//! No timer: idle, a move waits for nobody; under load, groups form by themselves.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hapax_core::{Error, Kind};
use tokio::sync::{mpsc, oneshot};

use super::clock::DbClock;
use super::columns::Step;
use super::fault;
use super::group::{self, Failure};
use super::link::Link;
use super::session::{self, Session, Taken};
use super::target::Target;
use crate::row::Applied;

pub(super) const OPERATION: &str = "swapping records";
/// The most moves in one transaction.
const GROUP_MOVES_MAX: usize = 512;
/// The most bytes in one transaction, beyond its first move.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How often a group that met a deadlock is tried.
const CONTENTION_TRIES: u32 = 8;
/// How long a group is taken apart to find the moves that cannot be written, while the others wait.
const HALVING: Duration = Duration::from_secs(3);
/// How often the clock is read when nothing else reads it.
const IDLE: Duration = Duration::from_secs(10);
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(3);

/// Where the answer to a move goes.
pub(super) type Reply = oneshot::Sender<Result<Applied, Error>>;

type Entry = (Box<Step>, Reply);

/// What a lane is asked to do.
pub(super) enum Order {
    /// Write this move.
    Swap(Box<Step>, Reply),
    /// Tell what the session is.
    Describe(oneshot::Sender<Result<Session, Error>>),
}

/// The answer of a ledger that takes no more moves.
pub(super) fn closed() -> Error {
    Error::new(Kind::Unavailable, OPERATION).because("the ledger is closed")
}

/// One connection and the moves that wait for it.
pub(super) struct Lane {
    orders: mpsc::Receiver<Order>,
    waiting: VecDeque<Entry>,
    link: Option<Link>,
    target: Target,
    clock: Arc<DbClock>,
    commit_timeout: Duration,
    retry_at: Instant,
    backoff: Duration,
    down: Option<Error>,
}

impl Lane {
    /// A lane over a connection that is already open.
    pub(super) fn new(
        orders: mpsc::Receiver<Order>,
        link: Link,
        target: Target,
        clock: Arc<DbClock>,
        commit_timeout: Duration,
    ) -> Self {
        Self {
            orders,
            waiting: VecDeque::new(),
            link: Some(link),
            target,
            clock,
            commit_timeout,
            retry_at: Instant::now(),
            backoff: BACKOFF_MIN,
            down: None,
        }
    }

    /// Runs until every sender is gone and what was queued is answered.
    pub(super) async fn run(mut self) {
        let mut orders = Vec::new();
        loop {
            if self.waiting.is_empty() {
                let idle = if self.link.is_some() {
                    IDLE
                } else {
                    self.backoff
                };
                match tokio::time::timeout(
                    idle,
                    self.orders.recv_many(&mut orders, GROUP_MOVES_MAX),
                )
                .await
                {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(_) => self.tick().await,
                }
            }
            // What came during the last commit joins the next group.
            while orders.len() + self.waiting.len() < 2 * GROUP_MOVES_MAX
                && let Ok(order) = self.orders.try_recv()
            {
                orders.push(order);
            }
            for order in orders.drain(..) {
                match order {
                    Order::Swap(step, reply) => self.waiting.push_back((step, reply)),
                    Order::Describe(reply) => drop(reply.send(self.describe().await)),
                }
            }
            if !self.waiting.is_empty() {
                self.round().await;
            }
        }
    }

    /// One group, from the oldest waiting moves.
    async fn round(&mut self) {
        if let Err(error) = self.connect().await {
            for (_, reply) in self.waiting.drain(..) {
                drop(reply.send(Err(error.clone())));
            }
            return;
        }
        let group = gather(&mut self.waiting);
        self.commit(group, Instant::now() + HALVING).await;
    }

    async fn commit(&mut self, group: Vec<Entry>, until: Instant) {
        metrics::histogram!("hapax_ledger_batch_size", "store" => "postgres")
            .record(count(group.len()));
        let mut attempt = 1;
        let failure = loop {
            let Some(link) = &self.link else {
                break Failure::Lost(Error::new(Kind::Unavailable, OPERATION));
            };
            let steps: Vec<&Step> = group.iter().map(|(step, _)| &**step).collect();
            match group::commit(link, &self.clock, &steps, self.commit_timeout).await {
                Ok(swaps) => {
                    for ((_, reply), swap) in group.into_iter().zip(swaps) {
                        drop(reply.send(swap));
                    }
                    return;
                }
                Err(Failure::Contention(error)) if attempt < CONTENTION_TRIES => {
                    tracing::debug!(attempt, "the group is tried again: {error}");
                    tokio::time::sleep(pause(attempt, &group)).await;
                    attempt += 1;
                }
                Err(failure) => break failure,
            }
        };
        match failure {
            Failure::Contention(error) => refuse(group, &error),
            Failure::Refused(error) if group.len() == 1 => refuse(group, &error),
            Failure::Refused(_) if Instant::now() > until => {
                let why = "too many moves beside it cannot be written; retry in a moment";
                refuse(
                    group,
                    &Error::new(Kind::Unavailable, OPERATION).because(why),
                );
            }
            Failure::Refused(_) => {
                // One of them is at fault: halve until it is alone. The others are written.
                let mut first = group;
                let second = first.split_off(first.len() / 2);
                Box::pin(self.commit(first, until)).await;
                Box::pin(self.commit(second, until)).await;
            }
            Failure::Lost(error) | Failure::Unknown(error) => {
                tracing::warn!(
                    code = error.kind().code(),
                    "a group was not committed: {error}"
                );
                self.link = None;
                refuse(group, &error);
            }
        }
    }

    /// Makes sure there is a connection. While the server is away it says so at once, and tries now and then.
    async fn connect(&mut self) -> Result<(), Error> {
        if self
            .link
            .as_ref()
            .is_some_and(|link| !link.client.is_closed())
        {
            return Ok(());
        }
        self.link = None;
        if let Some(error) = &self.down
            && Instant::now() < self.retry_at
        {
            return Err(error.clone());
        }
        match Link::open(&self.target).await {
            Ok(link) => {
                self.link = Some(link);
                self.backoff = BACKOFF_MIN;
                self.down = None;
                Ok(())
            }
            Err(error) => {
                self.retry_at = Instant::now() + self.backoff;
                self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
                self.down = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Idle: reconnects if need be and reads the clock.
    async fn tick(&mut self) {
        if self.connect().await.is_err() {
            return;
        }
        let Some(link) = &self.link else { return };
        if read_clock(link, self.target.connect_timeout, |sent, received, read| {
            self.clock.observe(sent, received, read);
        })
        .await
        .is_err()
        {
            self.link = None;
        }
    }

    async fn describe(&mut self) -> Result<Session, Error> {
        self.connect().await?;
        let Some(link) = &self.link else {
            return Err(closed());
        };
        session::look(&link.client, &link.speech, Taken::App)
            .await
            .map_err(|error| fault::unwritten("describing a session", &error))
    }
}

/// Reads the database's clock and tells when it was asked, when it answered, and what.
pub(super) async fn read_clock<T>(
    link: &Link,
    limit: Duration,
    observe: impl FnOnce(Instant, Instant, hapax_core::Time) -> T,
) -> Result<T, Error> {
    let operation = "reading the database's clock";
    let sent = Instant::now();
    let rows = match tokio::time::timeout(limit, link.clock.query(&link.client, &[])).await {
        Ok(rows) => rows.map_err(|error| fault::unwritten(operation, &error))?,
        Err(_) => return Err(fault::timed_out(operation, Kind::Unavailable, limit)),
    };
    let received = Instant::now();
    let row = rows
        .first()
        .ok_or_else(|| Error::new(Kind::Unavailable, operation))?;
    let read: SystemTime = row
        .try_get(0)
        .map_err(|error| fault::unwritten(operation, &error))?;
    Ok(observe(sent, received, read.into()))
}

/// Takes the oldest moves, at most one per record. The others keep their order.
fn gather(waiting: &mut VecDeque<Entry>) -> Vec<Entry> {
    let (mut group, mut later) = (Vec::new(), VecDeque::new());
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    while let Some((step, reply)) = waiting.pop_front() {
        let fits = group.is_empty()
            || (group.len() < GROUP_MOVES_MAX && bytes + step.bytes() <= GROUP_BYTES_MAX);
        if seen.insert((step.row.tenant_id, step.row.id)) && fits {
            bytes += step.bytes();
            group.push((step, reply));
        } else {
            later.push_back((step, reply));
        }
    }
    *waiting = later;
    group
}

fn refuse(group: Vec<Entry>, error: &Error) {
    for (_, reply) in group {
        drop(reply.send(Err(error.clone())));
    }
}

/// Longer with every attempt, and different for groups that met each other.
fn pause(attempt: u32, group: &[Entry]) -> Duration {
    let spread = group.first().map_or(0, |(step, _)| {
        u64::from(step.row.lease_owner.map_or(3, |owner| owner.as_bytes()[15]) % 8)
    });
    Duration::from_millis(spread + 3 * u64::from(attempt))
}

fn count(moves: usize) -> f64 {
    f64::from(u32::try_from(moves).unwrap_or(u32::MAX))
}
