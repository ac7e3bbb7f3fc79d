//! How many requests each tenant may send, counted in Redis for all nodes together. It is never needed: a Redis that is
//! away or slow says nothing, and each node counts by itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::Tenant;
use redis::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::link::Limits;
use super::script::Script;
use super::spare::{Spare, Words};
use super::target::Target;

const TAKE: &str = include_str!("../../lua/take.lua");
/// The longest that there is no room for one request: a burst is a second's, and the script rounds.
const WAIT_MAX: Duration = Duration::from_secs(2);
const WORDS: Words = Words {
    back: "nodes share the rates of tenants",
    gone: "each node counts the requests of a tenant by itself",
};

/// How [`RedisRates`] is run.
#[derive(Clone, Debug)]
pub struct RateOptions {
    /// Before every name in Redis.
    pub prefix: String,
    /// Which ledger's tenants these are: those of another one are counted apart.
    pub ledger: Uuid,
    /// How long an answer may take; after that the node counts by itself.
    pub answer_timeout: Duration,
}

impl RateOptions {
    /// The defaults, for the ledger with this id.
    #[must_use]
    pub fn of(ledger: Uuid) -> Self {
        Self {
            prefix: "hapax".to_owned(),
            ledger,
            answer_timeout: Duration::from_millis(50),
        }
    }
}

/// What there was room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// How many requests may be served.
    pub requests: u32,
    /// If none: when there is room for one.
    pub wait: Duration,
}

/// The rates of tenants, shared by nodes.
pub struct RedisRates {
    counts: Arc<Counts>,
    connects: JoinHandle<()>,
}

struct Counts {
    spare: Spare,
    take: Script,
    options: RateOptions,
    wanted: Notify,
}

impl fmt::Debug for RedisRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisRates").finish_non_exhaustive()
    }
}

impl RedisRates {
    /// The counts at `target`. It connects by itself when it is first asked; until then it says nothing.
    #[must_use]
    pub fn start(target: Target, options: RateOptions) -> Self {
        let limits = Limits {
            connect: Duration::from_secs(2),
            answer: options.answer_timeout,
        };
        let counts = Arc::new(Counts {
            spare: Spare::new(target, limits, WORDS),
            take: Script::new(TAKE),
            options,
            wanted: Notify::new(),
        });
        let of_task = Arc::clone(&counts);
        let connects = tokio::spawn(async move {
            of_task.spare.connect().await;
            while !of_task.spare.link.is_made() {
                of_task.wanted.notified().await;
                of_task.spare.connect().await;
            }
        });
        Self { counts, connects }
    }

    /// Takes up to `wanted` requests of this tenant out of `per_second`, of which as many may come at once as come in a
    /// second. `None` when Redis did not say: it is away, slow, or gives itself a rest.
    pub async fn take(&self, tenant: Tenant, per_second: u32, wanted: u32) -> Option<Taken> {
        if !self.counts.spare.is_ready() {
            self.counts.wanted.notify_one();
            return None;
        }
        let name = format!(
            "{}:rate:{}:{}",
            self.counts.options.prefix,
            self.counts.options.ledger.simple(),
            tenant.simple()
        );
        let each = (1_000_000.0 / f64::from(per_second.max(1))).to_string();
        let wanted_at_most = wanted;
        let (burst, wanted) = (per_second.max(1).to_string(), wanted.to_string());
        let arguments = [each.as_bytes(), burst.as_bytes(), wanted.as_bytes()];
        let link = &self.counts.spare.link;
        let answer = self.counts.take.run(link, &[&name], &arguments, None).await;
        self.counts.spare.heard(&answer);
        taken(&answer.ok()?.0, wanted_at_most)
    }
}

impl Drop for RedisRates {
    fn drop(&mut self) {
        self.connects.abort();
    }
}

/// The two numbers of the script's answer, as far as the script itself goes: a count that something else wrote grants no more
/// than was asked for, and holds a tenant up no longer than a full burst lasts.
fn taken(answer: &Value, wanted: u32) -> Option<Taken> {
    let Value::Array(parts) = answer else {
        return None;
    };
    match parts.as_slice() {
        [Value::Int(requests), Value::Int(wait)] => Some(Taken {
            requests: u32::try_from(*requests).ok()?.min(wanted),
            wait: Duration::from_millis(u64::try_from(*wait).ok()?).min(WAIT_MAX),
        }),
        _ => None,
    }
}
