//! kill -9 at random moments under load: no acknowledged outcome is lost, and none is recorded twice.
//!
//! Clients write down what the server acknowledged; a checker reads that history, not the server's word.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Server;
use crate::http::{self, Answer};

const CLIENTS: usize = 8;
/// Every key is asked for by this many clients.
const RIVALS: usize = 3;

/// What clients saw: for each key, every answer that was acknowledged, and who acknowledged it.
#[derive(Default)]
struct History {
    seen: Mutex<BTreeMap<String, Vec<(How, String)>>>,
    unknown: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Recorded,
    Replayed,
}

impl History {
    fn note(&self, key: &str, how: How, body: String) {
        self.seen
            .lock()
            .unwrap()
            .entry(key.to_owned())
            .or_default()
            .push((how, body));
    }
}

/// Where the servers are now, and how clients reach them.
pub(crate) struct Target {
    addresses: Mutex<Vec<SocketAddr>>,
    token: String,
    stop: AtomicBool,
    next: AtomicUsize,
    history: History,
}

impl Target {
    pub(crate) fn new(addresses: Vec<SocketAddr>, token: String) -> Self {
        Self {
            addresses: Mutex::new(addresses),
            token,
            stop: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            history: History::default(),
        }
    }

    /// The server with this number was started again.
    pub(crate) fn moved(&self, number: usize, address: SocketAddr) {
        self.addresses.lock().unwrap()[number] = address;
    }

    /// Any of the servers.
    pub(crate) fn any(&self) -> SocketAddr {
        let addresses = self.addresses.lock().unwrap();
        addresses[usize::from(uuid::Uuid::new_v4().as_bytes()[0]) % addresses.len()]
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// One request, or `None` if it is unknown what became of it.
    pub(crate) fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Option<Answer> {
        let address = self.any();
        let body = body.to_string();
        let key = key.map_or(String::new(), |key| format!("idempotency-key: {key}\r\n"));
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n{key}",
            self.token,
            body.len()
        );
        let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) else {
            // Nothing was sent: the server is being started again.
            std::thread::sleep(Duration::from_millis(5));
            return None;
        };
        let answer = exchange(stream, format!("{head}\r\n{body}").as_bytes());
        if answer.is_none() {
            self.history.unknown.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Claims and completes `key` over the remote API until it has an outcome, or the run ends.
    fn claim_until_settled(&self, key: &str, client: usize) {
        let claim = json!({"key": key, "method": "POST", "path": "/kill", "body": {"of": key}, "lease_seconds": 1});
        while !self.is_over() {
            let Some(answer) = self.post("/v1/keys/claim", None, &claim) else {
                continue;
            };
            if answer.status == 503 {
                continue;
            }
            let claimed = answer.json();
            match claimed["action"].as_str() {
                Some("process") => {
                    let body = json!({"run": uuid::Uuid::new_v4(), "by": client});
                    let complete = json!({"token": claimed["token"], "status": 200, "body": body});
                    let path = format!("/v1/keys/{}/complete", claimed["id"].as_str().unwrap());
                    match self.post(&path, None, &complete) {
                        Some(answer) if answer.status == 200 => {
                            return self.history.note(key, How::Recorded, body.to_string());
                        }
                        Some(_) | None => {}
                    }
                }
                Some("replay") => {
                    return self.history.note(
                        key,
                        How::Replayed,
                        claimed["response"]["body"].to_string(),
                    );
                }
                Some("in_progress") => std::thread::sleep(Duration::from_millis(50)),
                other => panic!("{other:?} for {key}: {claimed}"),
            }
        }
    }

    /// Sends `key` through the layer once; a process that dies with it holds it for a minute.
    fn echo(&self, key: &str) {
        if let Some(answer) = self.post("/v1/echo", Some(key), &json!({"of": key}))
            && answer.status == 200
        {
            let replayed = answer.header("idempotency-replayed").is_some();
            let how = if replayed {
                How::Replayed
            } else {
                How::Recorded
            };
            self.history.note(key, how, answer.text());
        }
    }

    pub(crate) fn work(&self, client: usize) {
        while !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::Relaxed) / RIVALS;
            if number.is_multiple_of(2) {
                self.claim_until_settled(&format!("claim-{number}"), client);
            } else {
                self.echo(&format!("echo-{number}"));
            }
        }
    }
}

/// The answer, if all of it came.
pub(crate) fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Option<Answer> {
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .ok()?;
    stream.write_all(bytes).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = http::parse(&answer)?;
    let whole = answer
        .header("content-length")
        .and_then(|length| length.parse().ok())
        == Some(answer.body.len());
    whole.then_some(answer)
}

/// Kills the server `kills` times under load, then asks for everything that was ever acknowledged.
fn survive(kills: usize, more: &[String]) {
    let with = |command: &mut std::process::Command| {
        command.args(more).env("HAPAX_LOG", "warn");
    };
    let mut server = Server::start_with(with);
    let target = Arc::new(Target::new(vec![server.address], server.token()));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let target = target.clone();
            std::thread::spawn(move || target.work(client))
        })
        .collect();
    for _ in 0..kills {
        let pause = 50 + u64::from(uuid::Uuid::new_v4().as_bytes()[0]) * 2;
        std::thread::sleep(Duration::from_millis(pause));
        server.signal("KILL");
        let (code, _, folder) = server.wait();
        assert_eq!(code, None, "it died of the signal");
        server = Server::start_in(folder, with);
        target.moved(0, server.address);
    }
    std::thread::sleep(Duration::from_millis(300));
    target.stop();
    for client in clients {
        client.join().unwrap();
    }
    check(&target, kills);
}

/// Every acknowledged outcome is there, the same for everyone.
pub(crate) fn check(target: &Target, kills: usize) {
    let seen = std::mem::take(&mut *target.history.seen.lock().unwrap());
    let mut acknowledged = 0;
    for (key, answers) in &seen {
        let bodies: BTreeSet<_> = answers.iter().map(|(_, body)| body).collect();
        assert_eq!(bodies.len(), 1, "{key} has two outcomes: {answers:?}");
        let recorded = answers
            .iter()
            .filter(|(how, _)| *how == How::Recorded)
            .count();
        assert!(
            recorded <= 1,
            "{key} was recorded {recorded} times: {answers:?}"
        );
        acknowledged += answers.len();
        let now = ask(target, key);
        assert_eq!(
            &now,
            answers[0].1.as_str(),
            "{key} was acknowledged and is lost"
        );
    }
    let unknown = target.history.unknown.load(Ordering::Relaxed);
    println!(
        "{kills} kills, {} keys, {acknowledged} answers acknowledged, {unknown} unknown: none lost, none twice",
        seen.len()
    );
    assert!(
        seen.len() > kills * 10,
        "the load was too light to mean anything: {} keys",
        seen.len()
    );
}

/// What the server says now of a key that was acknowledged.
fn ask(target: &Target, key: &str) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        let answer = if key.starts_with("claim") {
            let claim = json!({"key": key, "method": "POST", "path": "/kill", "body": {"of": key}, "lease_seconds": 1});
            target.post("/v1/keys/claim", None, &claim)
        } else {
            target.post("/v1/echo", Some(key), &json!({"of": key}))
        };
        let Some(answer) = answer.filter(|answer| answer.status == 200) else {
            continue;
        };
        if key.starts_with("claim") {
            let claimed = answer.json();
            assert_eq!(
                claimed["action"], "replay",
                "{key} was acknowledged and is lost: {claimed}"
            );
            return claimed["response"]["body"].to_string();
        }
        assert!(
            answer.header("idempotency-replayed").is_some(),
            "{key} was acknowledged and ran again"
        );
        return answer.text();
    }
    panic!("{key} gets no answer");
}

#[test]
fn nothing_acknowledged_is_lost_or_recorded_twice_over_five_kills() {
    survive(5, &[]);
}

#[test]
fn the_same_holds_on_postgres() {
    let database = crate::postgres::database();
    survive(3, &["--database".to_owned(), database]);
}

#[test]
#[ignore = "a soak of about a minute: ./test --soak"]
fn soak_nothing_acknowledged_is_lost_or_recorded_twice_over_fifty_kills() {
    survive(50, &[]);
}

#[test]
#[ignore = "a soak of about a minute: ./test --soak"]
fn soak_the_same_holds_on_postgres_over_fifty_kills() {
    let database = crate::postgres::database();
    survive(50, &["--database".to_owned(), database]);
}
