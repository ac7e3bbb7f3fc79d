//! Periodic work among several nodes: one of them does it, and another one when that one is gone.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::{Server, succeed};
use crate::postgres::{database, pooled};

const TOKEN: &str = "a-token-of-all-nodes";
/// Far beyond what any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn node(url: &str) -> Server {
    Server::start_with(|command| {
        command
            .args(["--database", url, "--no-worker"])
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_SWEEP_INTERVAL_MS", "100")
            .env("HAPAX_SWEEP_GRACE_MS", "0");
    })
}

fn leads(node: &Server) -> Vec<String> {
    let health = node.send("GET", "/health", &[], b"").json();
    let leads = health["leads"].as_array().unwrap();
    leads
        .iter()
        .map(|chore| chore.as_str().unwrap().to_owned())
        .collect()
}

/// Waits until this node does all that is done for all.
fn until_it_leads(node: &Server) {
    let until = Instant::now() + PATIENCE;
    while leads(node) != ["sweep", "reconcile"] {
        assert!(
            Instant::now() < until,
            "it does not lead: {:?}",
            leads(node)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A figure of /metrics, 0 if it is not there.
fn figure(node: &Server, name: &str) -> u64 {
    let text = node.send("GET", "/metrics", &[], b"").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// Has a key expire, and waits until this node has swept it away.
fn until_it_swept(node: &Server) {
    let expired = "hapax_swept_total{what=\"expired\"}";
    let before = figure(node, expired);
    let bearer = format!("Bearer {TOKEN}");
    let claim = json!({
        "key": uuid::Uuid::new_v4(), "method": "POST", "path": "/p", "body": {}, "ttl_seconds": 1, "lease_seconds": 1,
    });
    let claimed: Value = node
        .send(
            "POST",
            "/v1/keys/claim",
            &[("authorization", &bearer)],
            claim.to_string().as_bytes(),
        )
        .json();
    assert_eq!(claimed["action"], "process", "{claimed}");
    let until = Instant::now() + PATIENCE;
    while figure(node, expired) == before {
        assert!(Instant::now() < until, "it does not sweep");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn one_of_two_works_for_both_until_it_is_killed(url: &str) {
    let first = node(url);
    until_it_leads(&first);
    let second = node(url);
    until_it_swept(&first);
    assert_eq!(leads(&second), [""; 0], "one is enough");
    assert_eq!(figure(&first, "hapax_leads{chore=\"sweep\"}"), 1);
    let swept = figure(&second, "hapax_swept_total{what=\"expired\"}");
    assert_eq!(swept, 0, "who does not lead does not sweep");

    first.signal("KILL");
    assert_eq!(first.wait().0, None, "it died of the signal");
    until_it_leads(&second);
    until_it_swept(&second);

    // In order, it is handed over.
    let third = node(url);
    assert_eq!(second.stop().0, Some(0));
    until_it_leads(&third);
}

#[test]
fn a_node_takes_over_what_a_killed_one_did_for_all() {
    one_of_two_works_for_both_until_it_is_killed(&database());
}

#[test]
fn a_node_takes_over_behind_a_pooler_in_transaction_mode_too() {
    let direct = database();
    succeed(&["migrate", "--database", &direct]);
    let through = format!("{}?pool_mode=transaction", pooled(&direct));
    one_of_two_works_for_both_until_it_is_killed(&through);
}

#[test]
fn a_node_that_has_its_store_for_itself_does_all() {
    let node = Server::start();
    assert_eq!(leads(&node), ["sweep", "reconcile"]);
}

#[test]
fn a_leader_that_stands_still_is_replaced() {
    let url = database();
    let first = node(&url);
    until_it_leads(&first);
    let second = node(&url);
    first.signal("STOP");
    until_it_leads(&second);
    first.signal("CONT");
    let until = Instant::now() + PATIENCE;
    while !leads(&first).is_empty() {
        assert!(Instant::now() < until, "it still thinks that it leads");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(leads(&second), ["sweep", "reconcile"]);
}
