//! A cluster in front of the database loses a primary, or one freezes: no granted execution is lost or doubled, and
//! requests go on. What ran is read from a file of effects, not from the server's word.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::server::Cluster;
use super::{TOKEN, metric};
use crate::fixture::Server;
use crate::http;

const CLIENTS: usize = 6;
/// Every key is asked for by this many clients.
const RIVALS: usize = 3;

/// Clients that claim, act and complete against two nodes, and what they saw.
struct Load {
    nodes: [Server; 2],
    sink: tempfile::NamedTempFile,
    next: AtomicUsize,
    stop: AtomicBool,
    /// The key and the body of every acknowledged outcome and every replay.
    seen: Mutex<BTreeMap<String, Vec<String>>>,
    slowest_ms: AtomicUsize,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let (database, redis) = (crate::postgres::database(), cluster.url());
        let node = || super::node(&["--database", &database, "--redis", &redis]);
        Self {
            nodes: [node(), node()],
            sink: tempfile::NamedTempFile::new().unwrap(),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            seen: Mutex::default(),
            slowest_ms: AtomicUsize::new(0),
        }
    }

    fn post(&self, node: usize, path: &str, body: &serde_json::Value) -> http::Answer {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let begun = Instant::now();
        let address = self.nodes[node % 2].address;
        let answer = http::request(address, "POST", path, &headers, body.to_string().as_bytes());
        let took = usize::try_from(begun.elapsed().as_millis()).unwrap();
        self.slowest_ms.fetch_max(took, Ordering::Relaxed);
        answer
    }

    /// One client: every request must be answered, whatever Redis does.
    fn run(&self, client: usize) {
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let key = format!("k{}", number / RIVALS);
            let claim =
                json!({"key": key, "method": "POST", "path": "/outage", "body": {"of": key}});
            loop {
                let answer = self.post(number, "/v1/keys/claim", &claim);
                assert_eq!(answer.status, 200, "{}", answer.text());
                let claimed = answer.json();
                match claimed["action"].as_str() {
                    Some("process") => {
                        let body = json!({"by": client, "run": uuid::Uuid::new_v4()}).to_string();
                        // The effect, where everybody can count it.
                        let mut sink = OpenOptions::new()
                            .append(true)
                            .open(self.sink.path())
                            .unwrap();
                        sink.write_all(format!("{key}\n").as_bytes()).unwrap();
                        let id = claimed["id"].as_str().unwrap();
                        let complete =
                            json!({"token": claimed["token"], "status": 200, "body": body});
                        let path = format!("/v1/keys/{id}/complete");
                        let answer = self.post(number + 1, &path, &complete);
                        assert_eq!(answer.status, 200, "{}", answer.text());
                        self.saw(key, body);
                        break;
                    }
                    Some("replay") => {
                        let body = claimed["response"]["body"].as_str().unwrap();
                        self.saw(key, body.to_owned());
                        break;
                    }
                    Some("in_progress") => std::thread::sleep(Duration::from_millis(5)),
                    other => panic!("{other:?} for {key}: {claimed}"),
                }
            }
        }
    }

    fn saw(&self, key: String, body: String) {
        self.seen.lock().unwrap().entry(key).or_default().push(body);
    }

    /// Runs the clients while `meanwhile` does something to the cluster.
    fn during(&self, meanwhile: impl FnOnce(&Self)) {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| scope.spawn(move || self.run(client)))
                .collect();
            meanwhile(self);
            self.stop.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().unwrap();
            }
        });
    }

    /// Every key that was granted had its effect once, and everybody was told the same outcome.
    fn check(&self) -> (usize, usize) {
        let effects = std::fs::read_to_string(self.sink.path()).unwrap();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for key in effects.lines() {
            *counts.entry(key).or_default() += 1;
        }
        let doubled: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
        assert!(doubled.is_empty(), "effects that ran twice: {doubled:?}");
        let seen = self.seen.lock().unwrap();
        for (key, bodies) in &*seen {
            assert!(counts.contains_key(key.as_str()), "{key} has no effect");
            assert!(
                bodies.iter().all(|body| *body == bodies[0]),
                "{key}: {bodies:?}"
            );
        }
        (counts.len(), seen.values().map(Vec::len).sum())
    }

    fn total(&self, name: &str) -> u64 {
        self.nodes.iter().map(|node| metric(node, name)).sum()
    }
}

/// Waits until clients have done so many keys more.
fn more_keys(load: &Load, count: usize) {
    let wanted = load.next.load(Ordering::Relaxed) + count * RIVALS;
    let patience = Instant::now() + Duration::from_secs(60);
    while load.next.load(Ordering::Relaxed) < wanted {
        assert!(Instant::now() < patience, "the load stands still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_primary_in_front_of_the_database_loses_and_doubles_nothing() {
    let mut cluster = Cluster::start();
    let load = Load::start(&cluster);
    load.during(|load| {
        more_keys(load, 150);
        cluster.primaries[0].kill();
        more_keys(load, 300);
    });
    let (keys, answers) = load.check();
    let errors = load.total("hapax_redis_errors_total");
    println!(
        "{keys} effects, {answers} answers, {errors} errors of Redis, {} hits, slowest request {} ms",
        load.total("hapax_replay_cache_total{answer=\"hit\"}"),
        load.slowest_ms.load(Ordering::Relaxed)
    );
    assert!(keys >= 450 && errors > 0, "{keys} keys, {errors} errors");
}

#[test]
fn a_frozen_primary_in_front_of_the_database_stops_no_request() {
    let cluster = Cluster::start();
    let load = Load::start(&cluster);
    load.during(|load| {
        more_keys(load, 100);
        cluster.primaries[1].freeze();
        more_keys(load, 200);
        cluster.primaries[1].thaw();
        more_keys(load, 50);
    });
    let (keys, answers) = load.check();
    println!(
        "{keys} effects, {answers} answers, {} errors of Redis, slowest request {} ms",
        load.total("hapax_redis_errors_total"),
        load.slowest_ms.load(Ordering::Relaxed)
    );
    assert!(keys >= 350, "{keys} keys");
}
