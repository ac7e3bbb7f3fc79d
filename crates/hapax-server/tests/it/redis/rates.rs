//! `tenant_requests_per_second` among nodes: with a Redis they count together, and each by itself while it is away.

use std::time::Instant;

use super::TOKEN;
use super::server::Server as Redis;
use crate::fixture::Server;
use crate::postgres::database;

const PER_SECOND: u32 = 5;

fn node(url: &str, redis: &str) -> Server {
    Server::start_with(|command| {
        command
            .args(["--database", url, "--redis", redis])
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_REDIS_TIMEOUT_MS", "1000")
            .env("HAPAX_TENANT_REQUESTS_PER_SECOND", PER_SECOND.to_string());
    })
}

/// Whether a request is served, which it is or is told to wait.
fn is_served(node: &Server) -> bool {
    let answer = node.bearing(TOKEN, "GET", "/v1/stats", "");
    if answer.status == 429 {
        assert_eq!(answer.json()["error"]["code"], "rate_limited");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    answer.status != 429
}

/// Asks both nodes in turn until each has refused ten requests. How many were served, and in how many seconds.
fn press(nodes: &[Server; 2]) -> (u32, f64) {
    let (since, mut served, mut refused) = (Instant::now(), 0, [0, 0]);
    while refused.iter().any(|count| *count < 10) {
        for (node, refused) in nodes.iter().zip(&mut refused) {
            if is_served(node) {
                served += 1;
            } else {
                *refused += 1;
            }
        }
    }
    (served, since.elapsed().as_secs_f64())
}

#[test]
fn nodes_with_a_redis_serve_a_tenant_no_more_together_than_one_alone_may() {
    let (redis, url) = (Redis::start(&[]), database());
    let nodes = [node(&url, &redis.url()), node(&url, &redis.url())];
    let allowed = |seconds: f64| f64::from(PER_SECOND) * (seconds + 1.0) + 1.0;
    // Until a node has its connection it counts by itself.
    for node in &nodes {
        super::eventually("a node does not reach Redis", || {
            is_served(node);
            super::metric(node, "hapax_redis_up") == 1
        });
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    let (served, seconds) = press(&nodes);
    assert!(
        f64::from(served) <= allowed(seconds),
        "{served} in {seconds:.2} s"
    );
    assert!(served > 0, "a limit is not a lock");
    drop(redis);
    for node in &nodes {
        super::eventually("without Redis a node does not count by itself", || {
            is_served(node)
        });
    }
}
