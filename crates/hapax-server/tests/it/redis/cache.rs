//! `--redis URL`: what one node recorded another replays from Redis, and what was taken back is never replayed.

use serde_json::json;

use super::server::Server as Redis;
use super::{action, claim, eventually, hits, metric, node, settle};
use crate::fixture::Server;
use crate::postgres::database;

/// Two nodes on one PostgreSQL, with a Redis in front that may be slow for a test's sake.
fn two_nodes(redis: &Redis) -> (Server, Server) {
    let (url, redis) = (database(), redis.url());
    let start = || {
        Server::start_with(|command| {
            command
                .args(["--database", &url, "--redis", &redis])
                .env("HAPAX_TOKEN", super::TOKEN)
                .env("HAPAX_REDIS_TIMEOUT_MS", "1000");
        })
    };
    (start(), start())
}

/// Replays `key` on `server` until one of its answers came from Redis.
fn replay_from_redis(server: &Server, key: &str) {
    let before = hits(server);
    eventually("no replay came from Redis", || {
        assert_eq!(action(server, key), "replay");
        hits(server) > before
    });
}

#[test]
fn what_one_node_recorded_another_replays_from_redis() {
    let redis = Redis::start(&[]);
    let (one, two) = two_nodes(&redis);
    settle(&one, "k");
    let before = hits(&two);
    // Within a fraction of a second a node may not know whether it may answer; then the database does.
    eventually("no replay came from Redis", || {
        let replay = claim(&two, "k", &json!({"of": "k"}));
        assert_eq!(replay["action"], "replay");
        assert_eq!(replay["response"]["body"], json!({"did": "k"}));
        // In its own memory now, so the next one is asked of Redis by another key only.
        settle(&one, &format!("k{}", uuid::Uuid::new_v4().simple()));
        hits(&two) > before
    });
    let conflict = claim(&two, "k", &json!({"of": "another"}));
    assert_eq!(conflict["action"], "conflict");
    assert_eq!(metric(&two, "hapax_redis_up"), 1);
    let health = two.send("GET", "/health", &[], b"").json();
    assert_eq!(health["store"], "postgres", "a cache changes no promise");
}

#[test]
fn an_outcome_that_was_taken_back_is_not_replayed_anywhere_though_redis_was_not_told() {
    let redis = Redis::start(&[]);
    let (one, two) = two_nodes(&redis);
    for (how, method) in [("deleted", "DELETE"), ("erased", "POST")] {
        let id = settle(&one, how);
        replay_from_redis(&two, how);
        // Redis is not told: it refuses to remove anything.
        redis.ask("ACL SETUSER default -unlink").unwrap();
        let path = match method {
            "DELETE" => format!("/v1/keys/{id}"),
            _ => format!("/v1/keys/{id}/erase"),
        };
        let taken_back = one.bearing(super::TOKEN, method, &path, "");
        assert!(
            (200..300).contains(&taken_back.status),
            "{}",
            taken_back.text()
        );
        for node in [&two, &one] {
            let claimed = super::ask(node, how, &json!({"of": how}));
            match method {
                "DELETE" => assert_ne!(claimed.json()["action"], "replay"),
                _ => assert_eq!(claimed.json()["action"], "erased", "{}", claimed.text()),
            }
        }
        let names = redis.ask("KEYS hapax:replay:*").unwrap();
        assert!(
            names.contains(&id.replace('-', "")),
            "it is still there: {names}"
        );
        redis.ask("ACL SETUSER default +unlink").unwrap();
    }
}

#[test]
fn a_node_that_starts_again_replays_from_redis_and_a_new_database_does_not() {
    let redis = Redis::start(&[]);
    let url = redis.url();
    let server = node(&["--redis", &url]);
    settle(&server, "k");
    eventually("nothing was kept", || {
        let names = redis.ask("KEYS hapax:replay:*").unwrap();
        names.contains("hapax:replay:")
    });
    let (code, _, folder) = server.stop();
    assert_eq!(code, Some(0));
    let server = Server::start_in(folder, |command| {
        command
            .args(["--redis", &url])
            .env("HAPAX_TOKEN", super::TOKEN);
    });
    eventually("Redis does not answer", || {
        assert_eq!(
            action(&server, &format!("x{}", uuid::Uuid::new_v4())),
            "process"
        );
        metric(&server, "hapax_redis_up") == 1
    });
    replay_from_redis(&server, "k");
    // The refusal: another database has nothing to do with these entries.
    let another = node(&["--redis", &url]);
    eventually("Redis does not answer", || {
        assert_eq!(
            action(&another, &format!("x{}", uuid::Uuid::new_v4())),
            "process"
        );
        metric(&another, "hapax_redis_up") == 1
    });
    assert_eq!(action(&another, "k"), "process");
}
