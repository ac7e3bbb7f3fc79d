//! The ledger in Redis alone: a compare-and-set script per record. What it acknowledged may be lost when a primary
//! fails, and it says so. It lists nothing and keeps no audit trail: that needs a database.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hapax_core::{
    Answer, Capabilities, Durability, Error, Kind, Ledger, Move, Note, NotePage, NoteScan, Page,
    Record, RecordId, Scan, Swap, Sweep, Swept, Tenant, Time,
};
use redis::{Value, cmd};
use uuid::Uuid;

use super::answer;
use super::fields;
use super::inspect::{self, Server};
use super::link::{Limits, Link};
use super::mark::{self, Marks};
use super::names;
use super::script::{Script, Wait};
use super::target::Target;
use crate::clock::Clock;
use crate::db_clock::DbClock;
use crate::row::Row;
use crate::vault::{self, TenantKeys};

const SWAP: &str = include_str!("../../lua/swap.lua");
const SWEEP: &str = include_str!("../../lua/sweep.lua");
const CHECK: &str = include_str!("../../lua/check.lua");

const SWAPPING: &str = "swapping records in Redis";
const SWEEPING: &str = "sweeping records in Redis";
const READING: &str = "reading a record from Redis";
const CHECKING: &str = "checking Redis";
/// How long the mark of a check stays.
const MARK_MS: &str = "60000";

/// Moves with their places in a batch.
type Numbered = Vec<(usize, Move)>;

/// How a [`RedisLedger`] is run.
#[derive(Clone)]
pub struct RedisOptions {
    /// Moves the ledger's clock in tests. The time itself is the server's.
    pub clock: Clock,
    /// Before every name in Redis, so that two ledgers can share a server. Letters, digits and `-_.:`.
    pub prefix: String,
    /// Whose keys seal what is asked and answered, and mark it. Without it nothing is sealed.
    pub keys: Option<Arc<dyn TenantKeys>>,
    /// The secret that marks outcomes of tenants without keys of their own, the same on all nodes: an outcome that something
    /// else wrote is an error. With neither this nor `keys` of a vault outcomes are not marked, and Redis is trusted.
    pub secret: Option<[u8; 32]>,
    /// How many connections carry writes that wait for replicas: such a wait stops everything behind it on its
    /// connection.
    pub waiting_links: usize,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a command may take. After that its outcome is unknown.
    pub answer_timeout: Duration,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            prefix: "hapax".to_owned(),
            keys: None,
            secret: None,
            waiting_links: 8,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("prefix", &self.prefix)
            .field("sealed", &self.keys.is_some())
            .finish_non_exhaustive()
    }
}

/// The ledger in Redis alone, single or cluster, labelled [`Durability::BestEffort`].
///
/// A claim is granted by one compare-and-set on the primary of its slot. Replication is asynchronous: a primary that
/// dies may take acknowledged claims with it, and such a key can be claimed a second time. With `wait` in the URL a
/// write is acknowledged only when that many replicas have it, and is an error otherwise; that makes the loss rare, and
/// is still no guarantee, since a replica that lacks the write can be promoted.
///
/// ```no_run
/// use hapax_core::{Kind, Ledger, Scan, Tenant};
/// use hapax_store::redis::{RedisLedger, RedisOptions, Target};
///
/// # async fn example() -> Result<(), hapax_core::Error> {
/// let target = Target::parse("redis+cluster://10.0.0.1:7000,10.0.0.2:7000?wait=1")?;
/// let ledger = RedisLedger::open(target, RedisOptions::default()).await?;
/// assert_eq!(ledger.durability().as_str(), "best_effort");
/// // The refusal: it lists nothing, and says so.
/// let refused = ledger.scan(Scan::of(Tenant::DEFAULT)).await.unwrap_err();
/// assert_eq!(refused.kind(), Kind::Unsupported);
/// # Ok(())
/// # }
/// ```
pub struct RedisLedger {
    links: Vec<Link>,
    wait: Option<Wait>,
    shards: Vec<names::Shard>,
    mark: String,
    swap: Script,
    sweep: Script,
    check: Script,
    server_clock: DbClock,
    clock: Clock,
    marks: Marks,
}

impl fmt::Debug for RedisLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLedger")
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl RedisLedger {
    /// Connects, and checks that no server throws keys away to make room.
    ///
    /// # Errors
    /// [`Kind::Unsafe`] when it does, saying what to do; [`Kind::Unavailable`] when Redis takes no writes.
    pub async fn open(target: Target, options: RedisOptions) -> Result<Self, Error> {
        if !names::is_prefix(&options.prefix) {
            return Err(Error::new(Kind::Unsafe, "opening the ledger in Redis")
                .because("the prefix is not 1 to 64 letters, digits or -_.:"));
        }
        let limits = Limits {
            connect: options.connect_timeout,
            answer: options.answer_timeout,
        };
        let replicas = target.wait_replicas();
        let wait = (replicas > 0).then(|| Wait {
            replicas,
            limit: target.wait(),
        });
        let links = if wait.is_some() {
            options.waiting_links.max(1)
        } else {
            1
        };
        let links: Vec<Link> = (0..links)
            .map(|_| Link::new(target.clone(), limits))
            .collect();
        let first = links
            .first()
            .ok_or_else(|| Error::new(Kind::Unavailable, CHECKING))?;
        for server in inspect::servers(first).await? {
            refuse_eviction(&server)?;
        }
        let mark = format!("{}:check", options.prefix);
        let check = Script::new(CHECK);
        let sent = Instant::now();
        let (answer, _) = check
            .run(first, &[&mark], &[MARK_MS.as_bytes()], None)
            .await
            .map_err(|failure| failure.reading(CHECKING))?;
        let read = answer::time(&answer).ok_or_else(|| answer::odd(CHECKING))?;
        Ok(Self {
            server_clock: DbClock::new(sent, Instant::now(), read),
            links,
            wait,
            shards: (0..names::SHARDS)
                .map(|number| names::shard(&options.prefix, number))
                .collect(),
            mark,
            swap: Script::new(SWAP),
            sweep: Script::new(SWEEP),
            check,
            clock: options.clock,
            marks: Marks::new(options.keys, options.secret, options.prefix.into_bytes()),
        })
    }

    /// How many replicas must have a write before it is acknowledged.
    #[must_use]
    pub fn wait_replicas(&self) -> usize {
        self.wait.map_or(0, |wait| wait.replicas)
    }

    /// Waits of different records do not stand behind each other, as far as there are connections.
    fn link(&self, id: RecordId) -> &Link {
        let bytes = id.as_uuid().into_bytes();
        &self.links[usize::from(bytes[15]) % self.links.len()]
    }

    /// Moves of one record in their order; those of different records do not wait for each other.
    async fn moves(&self, moves: Vec<Move>) -> Result<Vec<Swap>, Error> {
        if moves.iter().any(|step| step.note.is_some()) {
            return Err(unsupported(
                SWAPPING,
                "keeps no audit trail, so a move has no note",
            ));
        }
        let mut of_records: Vec<(RecordId, Tenant, Numbered)> = Vec::new();
        for (at, step) in moves.into_iter().enumerate() {
            let (id, tenant) = (step.next.id, step.next.scope.tenant);
            match of_records
                .iter_mut()
                .find(|(other, of, _)| (*other, *of) == (id, tenant))
            {
                Some((_, _, steps)) => steps.push((at, step)),
                None => of_records.push((id, tenant, vec![(at, step)])),
            }
        }
        let done = join_all(of_records.into_iter().map(async |(_, _, steps)| {
            let mut done = Vec::with_capacity(steps.len());
            for (at, step) in steps {
                done.push((at, self.one(step).await));
            }
            done
        }));
        let mut done: Vec<_> = done.await.into_iter().flatten().collect();
        done.sort_unstable_by_key(|(at, _)| *at);
        let wrote = done
            .iter()
            .any(|(_, swap)| matches!(swap, Ok(Swap::Written)));
        done.into_iter()
            .map(|(_, swap)| swap)
            .collect::<Result<Vec<_>, Error>>()
            .map_err(|error| {
                // Some of the moves stand, so nobody may be told that nothing was written.
                if wrote && error.kind() == Kind::Unavailable {
                    Error::new(Kind::OutcomeUnknown, SWAPPING).caused_by(error)
                } else {
                    error
                }
            })
    }

    async fn one(&self, step: Move) -> Result<Swap, Error> {
        let Move { expect, next, .. } = &step;
        let (id, tenant) = (next.id, next.scope.tenant);
        let keys = self.marks.writing(tenant).await?;
        let mut change = fields::change(step.write(), Row::of(next, keys.ring())?);
        let mark = self.marks.of_record(&keys, next);
        change.set.extend(mark.map(|mark| (mark::FIELD, mark)));
        let shard = &self.shards[names::number(id)];
        let member = names::member(tenant, id);
        let expected = expect.map_or(String::new(), |version| version.0.to_string());
        let due = fields::due_ms(next).map_or(String::new(), |ms| ms.to_string());
        // Unique for this call: if the client sends it again, the script knows its own write.
        let token = Uuid::new_v4().into_bytes();
        let gone = change.removed.len().to_string();
        let mut arguments: Vec<&[u8]> = vec![
            expected.as_bytes(),
            &token,
            due.as_bytes(),
            member.as_bytes(),
            if change.replaces { b"1" } else { b"0" },
            gone.as_bytes(),
        ];
        arguments.extend(change.removed.iter().map(|name| name.as_bytes()));
        for (name, value) in &change.set {
            arguments.push(name.as_bytes());
            arguments.push(value);
        }
        let record = format!("{}{member}", shard.stem);
        let sent = Instant::now();
        let ran = self
            .swap
            .run(
                self.link(id),
                &[&record, &shard.due, &shard.gone],
                &arguments,
                self.wait,
            )
            .await;
        let (answer, replicas) = ran.map_err(|failure| failure.writing(SWAPPING))?;
        let time = answer::time(&answer).ok_or_else(|| answer::odd(SWAPPING))?;
        self.server_clock.observe(sent, Instant::now(), time);
        match answer::swapped(answer).ok_or_else(|| answer::odd(SWAPPING))? {
            answer::Swapped::Written => self.waited(replicas).map(|()| Swap::Written),
            answer::Swapped::Stored(fields) if fields.is_empty() => Ok(Swap::Stale(None)),
            answer::Swapped::Stored(fields) => {
                let stored = self.opened((tenant, id), fields).await?;
                Ok(Swap::Stale(Some(Box::new(stored))))
            }
        }
    }

    /// A write that too few replicas have is neither done nor undone: nothing may run on the strength of it.
    fn waited(&self, replicas: Option<usize>) -> Result<(), Error> {
        match self.wait {
            Some(wait) if replicas.is_none_or(|have| have < wait.replicas) => {
                metrics::counter!("hapax_redis_wait_short_total").increment(1);
                let why = format!(
                    "{} of {} replicas had the write within {:?}",
                    replicas.unwrap_or(0),
                    wait.replicas,
                    wait.limit
                );
                Err(Error::new(Kind::OutcomeUnknown, SWAPPING).because(why))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The record in these fields, if what it says happened was written by hapax, for this tenant and id.
    async fn opened(
        &self,
        (tenant, id): (Tenant, RecordId),
        mut fields: HashMap<String, Vec<u8>>,
    ) -> Result<Record, Error> {
        let mark = fields.remove(mark::FIELD);
        let row = fields::row(fields)?;
        let keys = self.marks.reading(tenant, vault::wanted(&row)).await?;
        let record = row.open(keys.ring())?;
        if (record.scope.tenant, record.id) != (tenant, id) {
            let why = "it is of another tenant, or of another key";
            return Err(Error::new(Kind::Corrupt, READING).because(why));
        }
        self.marks.check_record(&keys, &record, mark.as_ref())?;
        Ok(record)
    }

    async fn read(&self, tenant: Tenant, id: RecordId) -> Result<Option<Record>, Error> {
        let stem = &self.shards[names::number(id)].stem;
        let mut get = cmd("HGETALL");
        get.arg(format!("{stem}{}", names::member(tenant, id)));
        let answer = self.link(id).send(&get).await;
        let answer = answer.map_err(|failure| failure.reading(READING))?;
        let found = answer::fields(answer).ok_or_else(|| answer::odd(READING))?;
        if found.is_empty() {
            return Ok(None);
        }
        self.opened((tenant, id), found).await.map(Some)
    }

    /// How many records of each shard have something to sweep.
    async fn due(&self, now: &str) -> Result<Vec<usize>, Error> {
        let counts = join_all(self.shards.iter().enumerate().map(async |(number, shard)| {
            let mut count = 0;
            for index in [&shard.due, &shard.gone] {
                let mut ask = cmd("ZCOUNT");
                ask.arg(index).arg("-inf").arg(now);
                let link = &self.links[number % self.links.len()];
                let answer = link.send(&ask).await;
                match answer.map_err(|failure| failure.reading(SWEEPING))? {
                    Value::Int(found) => count += usize::try_from(found).unwrap_or(0),
                    _ => return Err(answer::odd(SWEEPING)),
                }
            }
            Ok(count)
        }));
        counts.await.into_iter().collect()
    }

    async fn sweep_step(&self, sweep: Sweep) -> Result<Swept, Error> {
        let now = self.now().as_ms().to_string();
        let grace = sweep.grace.as_millis().to_string();
        let mut left = sweep.limit.clamp(1, Sweep::LIMIT_MAX);
        let mut swept = Swept::default();
        for (number, due) in self.due(&now).await?.into_iter().enumerate() {
            if due == 0 || left == 0 {
                continue;
            }
            let (shard, limit) = (&self.shards[number], left.to_string());
            let mut arguments: Vec<&[u8]> = vec![
                now.as_bytes(),
                limit.as_bytes(),
                grace.as_bytes(),
                shard.stem.as_bytes(),
            ];
            arguments.extend(fields::OF_A_LIFE.iter().map(|name| name.as_bytes()));
            let link = &self.links[number % self.links.len()];
            let ran = self
                .sweep
                .run(link, &[&shard.due, &shard.gone], &arguments, None)
                .await;
            let (answer, _) = ran.map_err(|failure| failure.writing(SWEEPING))?;
            let [expired, retired, forgotten] =
                answer::counts(&answer).ok_or_else(|| answer::odd(SWEEPING))?;
            swept.expired += expired;
            swept.retired += retired;
            swept.forgotten += forgotten;
            left = left.saturating_sub(expired + retired + forgotten);
        }
        Ok(swept)
    }

    async fn check_now(&self) -> Result<(), Error> {
        let link = &self.links[0];
        let ran = self
            .check
            .run(link, &[&self.mark], &[MARK_MS.as_bytes()], self.wait)
            .await;
        let (_, replicas) = ran.map_err(|failure| failure.reading(CHECKING))?;
        self.waited(replicas)
    }
}

impl Ledger for RedisLedger {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn durability(&self) -> Durability {
        Durability::BestEffort
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lists: false,
            audits: false,
        }
    }

    fn now(&self) -> Time {
        self.clock.shifted(self.server_clock.now())
    }

    fn swap(&self, moves: Vec<Move>) -> Answer<'_, Vec<Swap>> {
        Box::pin(self.moves(moves))
    }

    fn find(&self, tenant: Tenant, id: RecordId) -> Answer<'_, Option<Record>> {
        Box::pin(self.read(tenant, id))
    }

    fn scan(&self, _scan: Scan) -> Answer<'_, Page> {
        refuse(
            "listing records",
            "lists no records; ask for a key by its id",
        )
    }

    fn sweep(&self, sweep: Sweep) -> Answer<'_, Swept> {
        Box::pin(self.sweep_step(sweep))
    }

    fn check(&self) -> Answer<'_, ()> {
        Box::pin(self.check_now())
    }

    fn note(&self, _notes: Vec<Note>) -> Answer<'_, ()> {
        refuse("noting in the audit trail", "keeps no audit trail")
    }

    fn notes(&self, _scan: NoteScan) -> Answer<'_, NotePage> {
        refuse("reading the audit trail", "keeps no audit trail")
    }
}

fn refuse_eviction(server: &Server) -> Result<(), Error> {
    match server.eviction.as_deref() {
        None | Some("noeviction") => Ok(()),
        Some(policy) => {
            let why = format!(
                "it throws keys away when memory is short (maxmemory-policy {policy}), and with them what was done; \
                 set maxmemory-policy noeviction"
            );
            Err(Error::new(Kind::Unsafe, "opening the ledger in Redis").because(why))
        }
    }
}

fn unsupported(operation: &'static str, why: &str) -> Error {
    Error::new(Kind::Unsupported, operation).because(format!("a ledger in Redis {why}"))
}

fn refuse<'a, T: Send + 'a>(operation: &'static str, why: &str) -> Answer<'a, T> {
    Box::pin(std::future::ready(Err(unsupported(operation, why))))
}
