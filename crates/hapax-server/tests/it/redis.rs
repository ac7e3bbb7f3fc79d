//! Redis beside the database: as a cache that answers replays and grants nothing, and as the ledger of keys.

mod cache;
mod ledger;
mod outage;
mod rates;
#[path = "../../../hapax-store/tests/it/redis/server.rs"]
pub(crate) mod server;

use serde_json::{Value, json};

use crate::fixture::Server;
use crate::http::Answer;

pub(crate) const TOKEN: &str = "a-token-that-all-nodes-know";

/// A node with these arguments, whose owner token is known.
fn node(arguments: &[&str]) -> Server {
    Server::start_with(|command| {
        command.args(arguments).env("HAPAX_TOKEN", TOKEN);
    })
}

/// The URL in this variable of the environment, which dev/with-redis sets.
fn url(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set; run the tests through dev/with-redis, as ./test does")
    })
}

pub(crate) fn ask(server: &Server, key: &str, body: &Value) -> Answer {
    let claim = json!({"key": key, "method": "POST", "path": "/redis", "body": body});
    server.bearing(TOKEN, "POST", "/v1/keys/claim", &claim.to_string())
}

pub(crate) fn claim(server: &Server, key: &str, body: &Value) -> Value {
    let answer = ask(server, key, body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn complete(server: &Server, claimed: &Value, body: &Value) -> Answer {
    let id = claimed["id"].as_str().unwrap();
    let complete = json!({"token": claimed["token"], "status": 200, "body": body});
    let path = format!("/v1/keys/{id}/complete");
    server.bearing(TOKEN, "POST", &path, &complete.to_string())
}

/// Claims and completes a key; its id.
pub(crate) fn settle(server: &Server, key: &str) -> String {
    let claimed = claim(server, key, &json!({"of": key}));
    assert_eq!(claimed["action"], "process", "{claimed}");
    assert_eq!(complete(server, &claimed, &json!({"did": key})).status, 200);
    claimed["id"].as_str().unwrap().to_owned()
}

pub(crate) fn action(server: &Server, key: &str) -> String {
    let claimed = claim(server, key, &json!({"of": key}));
    claimed["action"].as_str().unwrap().to_owned()
}

/// The value of a metric, by its name and labels as they are written.
pub(crate) fn metric(server: &Server, name: &str) -> u64 {
    let text = server.send("GET", "/metrics", &[], b"").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

pub(crate) fn hits(server: &Server) -> u64 {
    metric(server, "hapax_replay_cache_total{answer=\"hit\"}")
}

/// Waits for something that happens in the background.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < patience, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
