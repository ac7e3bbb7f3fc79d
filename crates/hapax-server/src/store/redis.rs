//! Redis beside the database, as the configuration says: a cache of replays in front of it, or the ledger of keys.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hapax_core::{Durability, Ledger};
use hapax_store::redis::{
    BesideDatabase, RateOptions, RedisLedger, RedisOptions, RedisRates, RedisReplays,
    ReplayOptions, Target,
};
use hapax_store::vault::TenantKeys;
use uuid::Uuid;

use super::Store;
use crate::config::{Config, RedisMode};
use crate::exit::Usage;

/// Whether Redis is a cache in front of the database.
pub(super) fn is_cache(config: &Config) -> bool {
    !config.redis.is_empty() && config.redis_mode == RedisMode::Cache
}

/// Refuses what cannot be meant.
///
/// # Errors
/// [`Usage`] that says what to write instead.
pub(crate) fn check(config: &Config) -> Result<()> {
    match (config.redis.as_str(), config.redis_mode) {
        ("", RedisMode::Ledger) => Err(Usage::error(
            "redis_mode is ledger and no Redis is named; set --redis URL or HAPAX_REDIS",
        )),
        ("", RedisMode::Cache) => Ok(()),
        (_, _) => target(config).map(drop),
    }
}

/// Where Redis is.
///
/// # Errors
/// [`Usage`] when the URL is none. It may hold a password, so it is not repeated.
pub(crate) fn target(config: &Config) -> Result<Target> {
    let target = Target::parse(&config.redis).map_err(|why| {
        Usage::hinted(
            why,
            "give --redis redis://HOST:PORT, or leave it out: no Redis is needed",
        )
    })?;
    Ok(match config.redis_wait_replicas {
        0 => target,
        replicas => target.waiting_for(replicas),
    })
}

/// The store with what Redis is for.
pub(super) async fn beside(mut store: Store, config: &Config) -> Result<Store> {
    if config.redis.is_empty() {
        return Ok(store);
    }
    let target = target(config)?;
    let keys = Some(Arc::clone(&store.tenant_keys));
    if config.tenant_requests_per_second > 0 {
        let options = RateOptions {
            answer_timeout: Duration::from_millis(config.redis_timeout_ms),
            ..RateOptions::of(identity(&store).await?)
        };
        store.rates = Some(Arc::new(RedisRates::start(target.clone(), options)));
    }
    match config.redis_mode {
        RedisMode::Cache => cached(store, config, target, keys).await,
        RedisMode::Ledger => claimed(store, target, keys).await,
    }
}

/// What tells this database from others that use the same Redis.
async fn identity(store: &Store) -> Result<Uuid> {
    let name = store.ledger.identity().await?;
    name.context("this database has no name of its own; run `hapax migrate`")
}

async fn cached(
    mut store: Store,
    config: &Config,
    target: Target,
    keys: Option<Arc<dyn TenantKeys>>,
) -> Result<Store> {
    let options = ReplayOptions {
        keys,
        secret: Some(store.tenant_keys.shared_secret().await?),
        answer_timeout: Duration::from_millis(config.redis_timeout_ms),
        keep: Duration::from_secs(config.redis_keep_seconds),
        ..ReplayOptions::of(identity(&store).await?)
    };
    tracing::info!(redis = %target, "replays are answered from Redis where it knows them");
    store.replays = Some(Arc::new(RedisReplays::start(target, options)));
    Ok(store)
}

async fn claimed(
    mut store: Store,
    target: Target,
    keys: Option<Arc<dyn TenantKeys>>,
) -> Result<Store> {
    let shown = target.to_string();
    let wait_replicas = target.wait_replicas();
    // Nodes with a file each share Redis and no secret: what they record is marked only where HAPAX_KEK is set.
    let secret = match store.ledger.name() {
        "postgres" => Some(store.tenant_keys.shared_secret().await?),
        _ => None,
    };
    let options = RedisOptions {
        keys,
        secret,
        ..RedisOptions::default()
    };
    let opened = RedisLedger::open(target, options).await;
    let ledger = opened.with_context(|| format!("opening {shown}"))?;
    tracing::warn!(
        redis = shown,
        wait_replicas,
        durability = Durability::BestEffort.as_str(),
        "keys are claimed in Redis alone: what it acknowledged may be lost on failover, and then a key runs twice"
    );
    let database = Arc::clone(&store.ledger);
    store.ledger = Arc::new(BesideDatabase::new(ledger, database)) as Arc<dyn Ledger>;
    Ok(store)
}
