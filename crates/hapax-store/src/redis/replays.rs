//! Settled outcomes in Redis, shared by nodes, in front of a SQL ledger. It answers replays, grants nothing, and is
//! never needed: a Redis that is away or slow is passed by.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use hapax_core::replays::{Known, Replays};
use hapax_core::{Error, Record, RecordId, State, Tenant, Time};
use redis::cmd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::answer;
use super::fields::{self, Field};
use super::link::Limits;
use super::mark::{self, Marks};
use super::script::Script;
use super::spare::{Spare, Words};
use super::target::Target;
use crate::row::Row;
use crate::vault::{self, TenantKeys};

const KEEP: &str = include_str!("../../lua/keep.lua");
const WORDS: Words = Words {
    back: "the replay cache is in use",
    gone: "the ledger answers replays",
};
/// How many entries may wait to be kept; past that they are not.
const WAITING_MAX: usize = 1024;
/// How many are sent at a time.
const TOGETHER_MAX: usize = 64;
/// How long the last entries have when the cache is closed.
const CLOSES_WITHIN: Duration = Duration::from_secs(1);

/// How [`RedisReplays`] is run.
#[derive(Clone)]
pub struct ReplayOptions {
    /// Before every name in Redis.
    pub prefix: String,
    /// Which ledger this is a cache of: entries of another one are never seen.
    pub ledger: Uuid,
    /// Whose keys seal what is asked and answered, and mark it. Without it nothing is sealed.
    pub keys: Option<Arc<dyn TenantKeys>>,
    /// The secret that marks entries of tenants without keys of their own, the same on all nodes: an entry that something else
    /// wrote is none. With neither this nor `keys` of a vault entries are not marked, and Redis is trusted.
    pub secret: Option<[u8; 32]>,
    /// How long an answer may take; after that the ledger is asked.
    pub answer_timeout: Duration,
    /// The longest that an entry stays, however long its record answers.
    pub keep: Duration,
    /// A record with more than this in its bodies is not kept.
    pub body_bytes_max: usize,
}

impl ReplayOptions {
    /// The defaults, for the ledger with this id.
    #[must_use]
    pub fn of(ledger: Uuid) -> Self {
        Self {
            prefix: "hapax".to_owned(),
            ledger,
            keys: None,
            secret: None,
            answer_timeout: Duration::from_millis(50),
            keep: Duration::from_secs(3600),
            body_bytes_max: 256 << 10,
        }
    }
}

impl fmt::Debug for ReplayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayOptions")
            .field("ledger", &self.ledger)
            .field("sealed", &self.keys.is_some())
            .finish_non_exhaustive()
    }
}

/// The shared cache of settled outcomes.
pub struct RedisReplays {
    cache: Arc<Cache>,
    todo: Mutex<Option<mpsc::Sender<Todo>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for RedisReplays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisReplays").finish_non_exhaustive()
    }
}

struct Cache {
    spare: Spare,
    keep: Script,
    marks: Marks,
    options: ReplayOptions,
}

enum Todo {
    Keep {
        record: Box<Record>,
        purges: u64,
        stays: Duration,
    },
    Forget(Tenant, RecordId),
}

impl RedisReplays {
    /// The cache at `target`. It connects by itself, and goes on trying; until then it knows nothing.
    #[must_use]
    pub fn start(target: Target, options: ReplayOptions) -> Self {
        let limits = Limits {
            connect: Duration::from_secs(2),
            answer: options.answer_timeout,
        };
        let cache = Arc::new(Cache {
            spare: Spare::new(target, limits, WORDS),
            keep: Script::new(KEEP),
            marks: Marks::new(
                options.keys.clone(),
                options.secret,
                options.ledger.as_bytes().to_vec(),
            ),
            options,
        });
        let (todo, waiting) = mpsc::channel(WAITING_MAX);
        let task = tokio::spawn(work(Arc::clone(&cache), waiting));
        Self {
            cache,
            todo: Mutex::new(Some(todo)),
            task: Mutex::new(Some(task)),
        }
    }

    fn later(&self, todo: Todo) {
        let sender = self.todo.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender
            && sender.try_send(todo).is_err()
        {
            metrics::counter!("hapax_replay_cache_dropped_total").increment(1);
        }
    }
}

impl Replays for RedisReplays {
    fn get(&self, tenant: Tenant, id: RecordId, purges: u64) -> Known<'_> {
        Box::pin(async move {
            let (record, how) = self.cache.get(tenant, id, purges).await;
            metrics::counter!("hapax_replay_cache_total", "answer" => how).increment(1);
            record
        })
    }

    fn put(&self, record: &Record, purges: u64, now: Time) {
        let stays = record.expires_at.since(now).min(self.cache.options.keep);
        if is_kept(record, self.cache.options.body_bytes_max) && !stays.is_zero() {
            self.later(Todo::Keep {
                record: Box::new(record.clone()),
                purges,
                stays,
            });
        }
    }

    fn forget(&self, tenant: Tenant, id: RecordId) {
        self.later(Todo::Forget(tenant, id));
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let take = |task: &Mutex<Option<JoinHandle<()>>>| {
                task.lock().unwrap_or_else(PoisonError::into_inner).take()
            };
            let sender = self
                .todo
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            drop(sender);
            if let Some(mut task) = take(&self.task)
                && tokio::time::timeout(CLOSES_WITHIN, &mut task)
                    .await
                    .is_err()
            {
                task.abort();
            }
        })
    }
}

impl Drop for RedisReplays {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Keeps and forgets what is asked for, many at a time, until nobody asks any more.
async fn work(cache: Arc<Cache>, mut waiting: mpsc::Receiver<Todo>) {
    let mut todo = Vec::with_capacity(TOGETHER_MAX);
    cache.spare.connect().await;
    while waiting.recv_many(&mut todo, TOGETHER_MAX).await > 0 {
        cache.spare.connect().await;
        join_all(todo.drain(..).map(|todo| cache.act(todo))).await;
    }
}

impl Cache {
    async fn get(
        &self,
        tenant: Tenant,
        id: RecordId,
        purges: u64,
    ) -> (Option<Record>, &'static str) {
        // A caller does not wait for a connection to be made.
        if !self.spare.is_ready() {
            return (None, "away");
        }
        let get = cmd("HGETALL").arg(self.name(tenant, id)).take();
        let answer = self.spare.link.send(&get).await;
        self.spare.heard(&answer);
        let Some(found) = answer.ok().and_then(answer::fields) else {
            return (None, "away");
        };
        let Some(count) = found.get("purges") else {
            return (None, "miss");
        };
        if *count != purges.to_string().into_bytes() {
            return (None, "stale");
        }
        match self.open(tenant, id, found).await {
            Ok(Some(record)) if record.id == id && record.scope.tenant == tenant => {
                (Some(record), "hit")
            }
            Ok(Some(_)) => (None, "unreadable"),
            Ok(None) => {
                self.marks.refused("cache");
                (None, "refused")
            }
            Err(error) => {
                tracing::debug!(%error, "an entry of the replay cache is not readable");
                (None, "unreadable")
            }
        }
    }

    /// The record in these fields; none if something else wrote them.
    async fn open(
        &self,
        tenant: Tenant,
        id: RecordId,
        mut found: HashMap<String, Vec<u8>>,
    ) -> Result<Option<Record>, Error> {
        // Nothing of an entry is read before its mark is known to be ours.
        let keys = self.marks.reading(tenant, Vec::new()).await?;
        if !self.marks.knows_fields(&keys, &named(tenant, id), &found) {
            return Ok(None);
        }
        found.remove(mark::FIELD);
        let row = fields::row(found)?;
        let keys = self.marks.reading(tenant, vault::wanted(&row)).await?;
        row.open(keys.ring()).map(Some)
    }

    async fn act(&self, todo: Todo) {
        if !self.spare.is_ready() {
            metrics::counter!("hapax_replay_cache_dropped_total").increment(1);
            return;
        }
        match todo {
            Todo::Keep {
                record,
                purges,
                stays,
            } => match self.fields(&record, purges).await {
                Ok(fields) => self.put(&record, &fields, purges, stays).await,
                Err(error) => tracing::debug!(%error, "an outcome is not kept in the replay cache"),
            },
            Todo::Forget(tenant, id) => {
                let unlink = cmd("UNLINK").arg(self.name(tenant, id)).take();
                let answer = self.spare.link.send(&unlink).await;
                self.spare.heard(&answer);
            }
        }
    }

    /// The fields to send, sealed where the tenant's are, and marked.
    async fn fields(&self, record: &Record, purges: u64) -> Result<Vec<Field>, Error> {
        let keys = self.marks.writing(record.scope.tenant).await?;
        let mut sent = fields::fields(Row::of(record, keys.ring())?);
        sent.push(("purges", purges.to_string().into_bytes()));
        let name = named(record.scope.tenant, record.id);
        let mark = self.marks.of_fields(&keys, &name, &sent);
        sent.pop();
        sent.extend(mark.map(|mark| (mark::FIELD, mark)));
        Ok(sent)
    }

    async fn put(&self, record: &Record, fields: &[Field], purges: u64, stays: Duration) {
        let (version, purges) = (record.version.0.to_string(), purges.to_string());
        let stays = stays.as_millis().max(1).to_string();
        let mut arguments: Vec<&[u8]> =
            vec![version.as_bytes(), purges.as_bytes(), stays.as_bytes()];
        for (name, value) in fields {
            arguments.push(name.as_bytes());
            arguments.push(value);
        }
        let name = self.name(record.scope.tenant, record.id);
        let link = &self.spare.link;
        let answer = self.keep.run(link, &[&name], &arguments, None).await;
        self.spare.heard(&answer);
    }

    fn name(&self, tenant: Tenant, id: RecordId) -> String {
        format!(
            "{}:replay:{}:{}:{}",
            self.options.prefix,
            self.options.ledger.simple(),
            tenant.simple(),
            id.as_uuid().simple()
        )
    }
}

/// Whose entry it is, and of which record.
fn named(tenant: Tenant, id: RecordId) -> Vec<u8> {
    [tenant.as_uuid().into_bytes(), id.as_uuid().into_bytes()].concat()
}

/// Only what can be replayed is kept, and nothing large.
fn is_kept(record: &Record, body_bytes_max: usize) -> bool {
    let State::Settled { outcome, .. } = &record.state else {
        return false;
    };
    let asked = record.request.body.as_ref().map_or(0, bytes::Bytes::len);
    outcome
        .whole()
        .is_some_and(|body| body.len() + asked <= body_bytes_max)
}
