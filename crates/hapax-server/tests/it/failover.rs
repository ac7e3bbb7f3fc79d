//! A primary of PostgreSQL that is lost, with a standby that it waits for: what was acknowledged is there on the standby,
//! and what was not granted for sure was not granted.

mod pair;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Server;
use crate::http::Answer;
use crate::kill::{self, Target};
use pair::Pair;

const TOKEN: &str = "one-token-for-all-nodes";

fn node(pair: &Pair) -> Server {
    Server::start_with(|command| {
        command
            .args(["--database", &pair.url()])
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_LOG", "error");
    })
}

fn claim(server: &Server, key: &str) -> Answer {
    let body = json!({"key": key, "method": "POST", "path": "/failover", "body": {"of": key}});
    server.bearing(TOKEN, "POST", "/v1/keys/claim", &body.to_string())
}

/// Claims until the store answers.
fn claimed(server: &Server, key: &str) -> Value {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = claim(server, key);
        if answer.status == 200 {
            return answer.json();
        }
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(Instant::now() < patience, "{}", answer.text());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_claim_whose_wait_for_the_standby_is_cancelled_is_not_granted() {
    let mut pair = Pair::start();
    let server = node(&pair);
    assert_eq!(claimed(&server, "before")["action"], "process");
    pair.primary.senders("STOP");
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| claim(&server, "in-flight"));
        // Whoever cancels the wait has the server commit here and tell the client of success, with a warning.
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let patience = Instant::now() + Duration::from_secs(30);
        while pair.primary.ask(cancel).as_deref() == Some("0") {
            assert!(Instant::now() < patience, "nobody waits for the standby");
            assert!(
                !waiting.is_finished(),
                "it was answered before the standby had it"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        waiting.join().unwrap()
    });
    assert_eq!(answer.status, 503, "{}", answer.text());
    let told = answer.json();
    assert_eq!(told["error"]["code"], "store_unavailable", "{told}");
    assert_eq!(
        told["error"]["details"]["reason"], "outcome_unknown",
        "{told}"
    );
    // The standby never got it. There the key is new, so whoever would have been granted it above would run it twice.
    pair.fail_over();
    assert_eq!(claimed(&server, "in-flight")["action"], "process");
    assert_ne!(
        claimed(&server, "before")["action"],
        "process",
        "this one was acknowledged"
    );
}

#[test]
fn nothing_acknowledged_is_lost_or_recorded_twice_when_the_primary_is_lost_under_load() {
    let mut pair = Pair::start();
    let nodes = [node(&pair), node(&pair)];
    let addresses = nodes.iter().map(|node| node.address).collect();
    let target = Arc::new(Target::new(addresses, TOKEN.to_owned()));
    let clients: Vec<_> = (0..6)
        .map(|client| {
            let target = Arc::clone(&target);
            std::thread::spawn(move || target.work(client))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    pair.fail_over();
    // The old primary never comes back, so what is answered from now on is the standby's.
    claimed(&nodes[0], "after");
    claimed(&nodes[1], "after");
    std::thread::sleep(Duration::from_secs(2));
    target.stop();
    for client in clients {
        client.join().unwrap();
    }
    kill::check(&target, 1);
}
