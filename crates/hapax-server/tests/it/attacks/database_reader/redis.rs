//! Answers planted in Redis, by somebody who has Redis and neither the database nor its keys.

use serde_json::json;

use crate::fixture::Server;
use crate::postgres::database;
use crate::redis::server::Server as Redis;
use crate::redis::{TOKEN, action, ask, claim, eventually, hits, metric, settle};

/// Two nodes on one database, with a Redis that may be slow for a test's sake.
fn two_nodes(redis: &Redis, more: &[&str]) -> [Server; 2] {
    let (url, redis) = (database(), redis.url());
    [0, 1].map(|_| {
        Server::start_with(|command| {
            command
                .args(["--database", &url, "--redis", &redis])
                .args(more)
                .env("HAPAX_TOKEN", TOKEN)
                .env("HAPAX_REDIS_TIMEOUT_MS", "1000");
        })
    })
}

/// The names in Redis that hold this id.
fn names(redis: &Redis, id: &str) -> Vec<String> {
    let id = id.replace('-', "");
    let all = redis.ask("KEYS *").unwrap();
    let names = all.split_whitespace().filter(|name| name.contains(&id));
    names.map(str::to_owned).collect()
}

fn refused(server: &Server) -> u64 {
    metric(server, "hapax_replay_cache_total{answer=\"refused\"}")
}

/// Settles `key`, waits for its entry, and answers the name of it.
fn kept(redis: &Redis, server: &Server, key: &str) -> String {
    let id = settle(server, key);
    eventually("nothing was kept", || !names(redis, &id).is_empty());
    names(redis, &id).remove(0)
}

#[test]
fn an_answer_planted_in_the_cache_is_not_replayed() {
    let redis = Redis::start(&[]);
    let [one, two] = two_nodes(&redis, &[]);
    // The second node looks at Redis once it knows the count of taken-back outcomes.
    settle(&one, "first");
    eventually("no replay came from Redis", || {
        assert_eq!(action(&two, "first"), "replay");
        settle(&one, &format!("k{}", uuid::Uuid::new_v4().simple()));
        hits(&two) > 0
    });
    let body = "\"\\x00{\\\"did\\\":\\\"planted\\\"}\"";
    for number in 0.. {
        let key = format!("planted-{number}");
        let entry = kept(&redis, &one, &key);
        redis
            .ask(&format!("HSET {entry} response_body {body}"))
            .unwrap();
        let before = refused(&two);
        let replay = claim(&two, &key, &json!({"of": key}));
        assert_eq!(replay["action"], "replay", "{replay}");
        assert_eq!(
            replay["response"]["body"],
            json!({"did": key}),
            "the ledger's answer"
        );
        if refused(&two) > before {
            break;
        }
        assert!(number < 100, "it never asked Redis");
    }
    assert!(two.log().contains("hapax did not write"), "it is said");
}

#[test]
fn an_entry_moved_to_another_key_is_not_replayed() {
    let redis = Redis::start(&[]);
    let [one, two] = two_nodes(&redis, &[]);
    for number in 0.. {
        let (from, to) = (format!("from-{number}"), format!("to-{number}"));
        let (rich, poor) = (kept(&redis, &one, &from), kept(&redis, &one, &to));
        redis.ask(&format!("COPY {rich} {poor} REPLACE")).unwrap();
        let before = refused(&two);
        let replay = claim(&two, &to, &json!({"of": to}));
        assert_eq!(replay["response"]["body"], json!({"did": to}), "{replay}");
        if refused(&two) > before {
            return;
        }
        assert!(number < 100, "it never asked Redis");
    }
}

#[test]
fn an_outcome_planted_in_the_ledger_is_an_error_and_never_a_replay() {
    let redis = Redis::start(&[]);
    let [one, two] = two_nodes(&redis, &["--redis-mode", "ledger"]);
    let id = settle(&one, "k");
    assert_eq!(action(&two, "k"), "replay");
    let record = names(&redis, &id).remove(0);
    redis
        .ask(&format!("HSET {record} response_status_code 299"))
        .unwrap();
    let answer = ask(&two, "k", &json!({"of": "k"}));
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert_eq!(
        metric(&two, "hapax_redis_refused_total{form=\"ledger\"}"),
        1
    );
    // Nor does a key that somebody holds get an outcome.
    let held = claim(&one, "held", &json!({"of": "held"}));
    let record = names(&redis, held["id"].as_str().unwrap()).remove(0);
    let planted =
        "state settled response_status_code 200 response_headers [] completed_at 1760000000000";
    redis.ask(&format!("HSET {record} {planted}")).unwrap();
    let answer = ask(&two, "held", &json!({"of": "held"}));
    assert_eq!(answer.status, 500, "{}", answer.text());
}
