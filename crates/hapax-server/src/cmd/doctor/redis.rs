//! What `hapax doctor` says about Redis: whether it answers, which version it is, and whether it keeps what it is told.

use hapax_store::redis::{Server, inspect};

use super::{Check, WITHIN};
use crate::config::{Config, RedisMode};
use crate::store::redis::target;

const WHAT: &str = "redis";

/// The checks of Redis, if it is configured.
pub(super) async fn redis(config: &Config) -> Vec<Check> {
    if config.redis.is_empty() {
        return Vec::new();
    }
    let target = match target(config) {
        Ok(target) => target,
        Err(why) => {
            let next = "set --redis or HAPAX_REDIS";
            return vec![Check::fail(WHAT, why.to_string(), next)];
        }
    };
    let servers = match inspect(&target, WITHIN).await {
        Ok(servers) => servers,
        Err(why) => return vec![away(config.redis_mode, why.to_string())],
    };
    let mut found = vec![answers(&target.to_string(), &servers)];
    match config.redis_mode {
        RedisMode::Cache => found.push(cache(&servers)),
        RedisMode::Ledger => found.extend([
            evicts(&servers),
            appends(&servers),
            replicas(&servers, target.wait_replicas()),
        ]),
    }
    found
}

fn away(mode: RedisMode, why: String) -> Check {
    match mode {
        RedisMode::Cache => Check::warn(
            WHAT,
            why,
            "the database answers replays meanwhile; is the server running, and is the password right?",
        ),
        RedisMode::Ledger => Check::fail(
            WHAT,
            why,
            "no key can be claimed; is the server running, and is the password right?",
        ),
    }
}

fn answers(target: &str, servers: &[Server]) -> Check {
    let mut versions: Vec<&str> = servers
        .iter()
        .map(|server| server.version.as_deref().unwrap_or("unknown"))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    let found = format!("{target} answers, version {}", versions.join(" and "));
    let is_old = |version: &&str| {
        let major = version.split('.').next().and_then(|part| part.parse().ok());
        major.is_some_and(|major: u32| major < 6)
    };
    if versions.iter().any(is_old) {
        Check::warn(WHAT, found, "tested with 7; use 6 or newer")
    } else {
        Check::ok(WHAT, found)
    }
}

fn cache(servers: &[Server]) -> Check {
    let keeps_all = |server: &Server| server.eviction.as_deref() == Some("noeviction");
    if servers.iter().any(keeps_all) {
        return Check::warn(
            "redis memory",
            "maxmemory-policy noeviction",
            "a full cache takes nothing new; set maxmemory and maxmemory-policy allkeys-lru",
        );
    }
    Check::ok("redis memory", "what is old makes room")
}

fn evicts(servers: &[Server]) -> Check {
    let policy = |server: &Server| {
        let policy = server.eviction.clone();
        policy.filter(|policy| policy != "noeviction")
    };
    match servers.iter().find_map(policy) {
        None => Check::ok("redis memory", "maxmemory-policy noeviction"),
        Some(policy) => Check::fail(
            "redis memory",
            format!("maxmemory-policy {policy}"),
            "keys that are thrown away run again; set maxmemory-policy noeviction",
        ),
    }
}

fn appends(servers: &[Server]) -> Check {
    if servers.iter().all(|server| server.appends == Some(true)) {
        return Check::ok("redis disk", "appendonly yes");
    }
    Check::warn(
        "redis disk",
        "appendonly no",
        "a restart forgets every key; set appendonly yes, and appendfsync always if you can",
    )
}

fn replicas(servers: &[Server], wanted: usize) -> Check {
    let fewest = servers.iter().filter_map(|server| server.replicas).min();
    let found = format!(
        "{} replicas at least, {wanted} are waited for",
        fewest.unwrap_or(0)
    );
    match (fewest.unwrap_or(0), wanted) {
        (have, wanted) if have < wanted => Check::fail(
            "redis replicas",
            found,
            "no write is acknowledged; add replicas, or lower redis_wait_replicas",
        ),
        (_, 0) => Check::warn(
            "redis replicas",
            found,
            "a primary that dies takes what its replicas lack; set redis_wait_replicas = 1",
        ),
        (_, _) => Check::ok("redis replicas", found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn server(eviction: &str, appends: bool, replicas: usize) -> Server {
        Server {
            version: Some("7.0.15".to_owned()),
            eviction: Some(eviction.to_owned()),
            appends: Some(appends),
            replicas: Some(replicas),
        }
    }

    #[test]
    fn one_bad_server_of_a_cluster_is_enough() {
        let good = server("noeviction", true, 1);
        let all = [good.clone(), server("allkeys-lru", false, 0)];
        assert_eq!(evicts(&all).verdict, Verdict::Fail);
        assert_eq!(appends(&all).verdict, Verdict::Warn);
        assert_eq!(replicas(&all, 1).verdict, Verdict::Fail);
        let all = [good.clone(), good];
        assert_eq!(evicts(&all).verdict, Verdict::Ok);
        assert_eq!(appends(&all).verdict, Verdict::Ok);
        assert_eq!(replicas(&all, 1).verdict, Verdict::Ok);
        assert_eq!(replicas(&all, 0).verdict, Verdict::Warn);
        assert_eq!(cache(&all).verdict, Verdict::Warn);
    }

    #[test]
    fn a_server_from_before_the_tested_ones_is_a_warning() {
        let mut old = server("noeviction", true, 1);
        old.version = Some("5.0.7".to_owned());
        assert_eq!(answers("redis://h", &[old]).verdict, Verdict::Warn);
    }
}
