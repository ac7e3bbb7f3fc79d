//! kill -9 at random moments under load, on every store: a node that serves and a proxy in front of a service, one of them
//! killed every 50 to 500 ms. The service is the sink of effects: it runs apart from what is killed, and counts by key.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{Server, path};
use crate::http::{self, Answer};
use crate::kill::{self, Target};
use crate::proxy::upstream::Upstream;
use crate::redis::server::Server as Redis;

const CLIENTS_SERVED: usize = 8;
const CLIENTS_PASSED: usize = 4;
/// Every key through the proxy is asked for by this many clients.
const RIVALS: usize = 3;

/// What clients asked through the proxy, and the answers that came whole.
struct Passing {
    address: Mutex<SocketAddr>,
    next: AtomicUsize,
    told: Mutex<BTreeMap<String, Vec<Vec<u8>>>>,
}

impl Passing {
    fn ask(&self, key: &str) -> Option<Answer> {
        let address = *self.address.lock().unwrap();
        let headers = [
            ("idempotency-key", key),
            ("content-type", "application/json"),
        ];
        let body = json!({"of": key}).to_string();
        http::try_request(address, "POST", "/work", &headers, body.as_bytes())
    }

    fn run(&self, target: &Target) {
        while !target.is_over() {
            let key = format!(
                "pass-{}",
                self.next.fetch_add(1, Ordering::Relaxed) / RIVALS
            );
            match self.ask(&key) {
                Some(answer) if answer.status == 201 => {
                    let mut told = self.told.lock().unwrap();
                    told.entry(key).or_default().push(answer.body);
                }
                // In flight, in doubt or refused: nothing was acknowledged.
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The service was called once at most for each key, and whoever was answered is answered the same now.
    fn check(&self, upstream: &Upstream) -> (usize, usize) {
        let mut calls: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for call in upstream.calls() {
            *calls.entry(call.body).or_default() += 1;
        }
        for (body, count) in &calls {
            let of = String::from_utf8_lossy(body);
            assert_eq!(*count, 1, "{of} was passed on twice, under hold");
        }
        let told = self.told.lock().unwrap();
        for (key, answers) in told.iter() {
            let now = self.ask(key).unwrap();
            assert_eq!(now.status, 201, "{key} was acknowledged and is lost");
            let replayed = now.header("idempotency-replayed").is_some();
            assert!(replayed, "{key} was acknowledged and ran again");
            let same = answers.iter().all(|answer| *answer == now.body);
            assert!(same, "{key} has two outcomes: {answers:?}, {now:?}");
            let asked = json!({"of": key}).to_string().into_bytes();
            assert!(calls.contains_key(&asked), "{key} was answered by nobody");
        }
        (calls.len(), told.len())
    }
}

/// The two nodes that are killed in turn, and how each is started again.
struct Pair {
    more: Vec<String>,
    upstream: Upstream,
    serving: Option<Server>,
    proxy: Option<Server>,
    /// From the kill to the line that says it answers.
    recoveries_ms: Vec<u128>,
}

impl Pair {
    fn start(more: &[String]) -> Self {
        let mut pair = Self {
            more: more.to_vec(),
            upstream: Upstream::start(),
            serving: None,
            proxy: None,
            recoveries_ms: Vec::new(),
        };
        pair.serving = Some(pair.serve(tempfile::tempdir().unwrap()));
        pair.proxy = Some(pair.stand(tempfile::tempdir().unwrap()));
        pair
    }

    fn serve(&self, folder: TempDir) -> Server {
        Server::start_in(folder, |command| {
            command.args(&self.more).env("HAPAX_LOG", "warn");
        })
    }

    fn stand(&self, folder: TempDir) -> Server {
        let file = folder.path().join("hapax.toml");
        std::fs::write(&file, "[[routes]]\npattern = '*:*'\nlease_seconds = 1\n").unwrap();
        Server::proxy_in(folder, |command| {
            command
                .args(["--upstream", &self.upstream.url(), "--config", path(&file)])
                .args(&self.more)
                .env("HAPAX_LOG", "warn");
        })
    }

    fn kill(&mut self, number: usize, target: &Target, passing: &Passing) {
        let begun = Instant::now();
        if number.is_multiple_of(2) {
            let folder = killed(self.serving.take().unwrap());
            let again = self.serve(folder);
            target.moved(0, again.address);
            self.serving = Some(again);
        } else {
            let folder = killed(self.proxy.take().unwrap());
            let again = self.stand(folder);
            *passing.address.lock().unwrap() = again.address;
            self.proxy = Some(again);
        }
        self.recoveries_ms.push(begun.elapsed().as_millis());
    }
}

fn killed(server: Server) -> TempDir {
    server.signal("KILL");
    let (code, _, folder) = server.wait();
    assert_eq!(code, None, "it died of the signal");
    folder
}

/// Kills the nodes `kills` times under load, then asks for everything that was ever acknowledged.
fn survive(store: &str, kills: usize, more: &[String]) {
    let mut pair = Pair::start(more);
    let serving = pair.serving.as_ref().unwrap();
    let target = Arc::new(Target::new(vec![serving.address], serving.token()));
    let passing = Arc::new(Passing {
        address: Mutex::new(pair.proxy.as_ref().unwrap().address),
        next: AtomicUsize::new(0),
        told: Mutex::default(),
    });
    let clients: Vec<_> = (0..CLIENTS_SERVED + CLIENTS_PASSED)
        .map(|client| {
            let (target, passing) = (target.clone(), passing.clone());
            std::thread::spawn(move || match client.checked_sub(CLIENTS_SERVED) {
                None => target.work(client),
                Some(_) => passing.run(&target),
            })
        })
        .collect();
    for number in 0..kills {
        let random = uuid::Uuid::new_v4().as_u64_pair().0 % 451;
        std::thread::sleep(Duration::from_millis(50 + random));
        pair.kill(number, &target, &passing);
    }
    std::thread::sleep(Duration::from_millis(300));
    target.stop();
    for client in clients {
        client.join().unwrap();
    }
    kill::check(&target, kills.div_ceil(2));
    let (calls, told) = passing.check(&pair.upstream);
    pair.recoveries_ms.sort_unstable();
    let at = |share: usize| pair.recoveries_ms[(pair.recoveries_ms.len() - 1) * share / 100];
    println!(
        "{store}: {kills} kills, {} of the node that serves and {} of the proxy; {calls} calls through the proxy, none \
         twice, {told} keys told and none lost; it answered again after {} ms (median), {} ms (p99), {} ms (most)",
        kills.div_ceil(2),
        kills / 2,
        at(50),
        at(99),
        at(100)
    );
    assert!(told > kills / 4, "the load was too light to mean anything");
}

fn on_sqlite(kills: usize) {
    survive("sqlite", kills, &[]);
}

fn on_postgres(kills: usize) {
    let database = crate::postgres::database();
    survive("postgres", kills, &["--database".to_owned(), database]);
}

/// Redis itself goes on: what a killed node wrote to it is there.
fn on_redis(kills: usize) {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]);
    let more = ["--redis", &redis.url(), "--redis-mode", "ledger"];
    survive("redis", kills, &more.map(str::to_owned));
}

/// How many kills: `dev/faults kills` says so.
fn asked() -> usize {
    let kills = std::env::var("HAPAX_FAULTS_KILLS");
    kills.map_or(50, |kills| kills.parse().unwrap())
}

#[test]
fn nothing_acknowledged_is_lost_or_recorded_twice_over_five_kills() {
    on_sqlite(5);
}

#[test]
fn the_same_holds_on_postgres() {
    on_postgres(4);
}

#[test]
fn the_same_holds_where_redis_is_the_ledger() {
    on_redis(4);
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults kills 500 sqlite"]
fn soak_many_kills_on_sqlite() {
    on_sqlite(asked());
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults kills 500 postgres"]
fn soak_many_kills_on_postgres() {
    on_postgres(asked());
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults kills 500 redis"]
fn soak_many_kills_on_redis() {
    on_redis(asked());
}
