//! The network between a node and PostgreSQL is slow, silent or cut, while another node on the same database works on: no
//! promise is broken, and the node serves again within ten seconds of healing.

mod relay;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fixture::Server;
use crate::kill::{self, Target};
use crate::postgres::database;
use relay::{Relay, Weather};

const TOKEN: &str = "one-token-for-both-nodes";
const CLIENTS: usize = 8;
const HEALED_WITHIN: Duration = Duration::from_secs(10);

fn node(url: &str) -> Server {
    Server::start_with(|command| {
        command
            .args(["--database", url, "--no-worker"])
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_LOG", "error");
    })
}

/// How long it takes until this node takes a new key.
fn healed(address: SocketAddr) -> Duration {
    let begun = Instant::now();
    let only = Target::new(vec![address], TOKEN.to_owned());
    loop {
        let key = uuid::Uuid::new_v4().to_string();
        let claim = json!({"key": key, "method": "POST", "path": "/healed", "body": {}});
        let answer = only.post("/v1/keys/claim", None, &claim);
        if answer.is_some_and(|answer| answer.status == 200) {
            return begun.elapsed();
        }
        let waited = begun.elapsed();
        assert!(
            waited < HEALED_WITHIN,
            "it does not serve {waited:?} after healing"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets the weather change for this long, then checks what clients were told.
fn survive(time: Duration, spell: Duration) {
    let url = database();
    let (before, rest) = url.split_once('@').unwrap();
    let (host, name) = rest.split_once('/').unwrap();
    let relay = Relay::to(host.parse().unwrap());
    let far = node(&format!("{before}@{}/{name}", relay.address));
    let near = node(&url);
    let target = Arc::new(Target::new(
        vec![far.address, near.address],
        TOKEN.to_owned(),
    ));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let target = Arc::clone(&target);
            std::thread::spawn(move || target.work(client))
        })
        .collect();
    let (begun, mut spells, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    while begun.elapsed() < time {
        let slow = Weather::Slow(Duration::from_millis(100));
        for weather in [slow, Weather::Silent, Weather::Cut] {
            relay.turns(weather);
            std::thread::sleep(spell);
            relay.turns(Weather::Fair);
            slowest = slowest.max(healed(far.address));
            spells += 1;
        }
    }
    target.stop();
    for client in clients {
        client.join().unwrap();
    }
    kill::check(&target, 2);
    println!(
        "{spells} spells of {} ms: slow by 100 ms, silent, cut; it served again {} ms after healing at the latest",
        spell.as_millis(),
        slowest.as_millis()
    );
}

#[test]
fn a_node_cut_off_from_its_database_breaks_no_promise_and_comes_back() {
    survive(Duration::from_secs(1), Duration::from_secs(1));
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults net 60"]
fn soak_a_node_cut_off_from_its_database_breaks_no_promise_and_comes_back() {
    let seconds = std::env::var("HAPAX_FAULTS_SECONDS").map_or(60, |text| text.parse().unwrap());
    survive(Duration::from_secs(seconds), Duration::from_secs(5));
}
