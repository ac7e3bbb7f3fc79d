//! Clients of nodes that are killed, and what must be true afterwards: no acknowledged outcome is lost, none is recorded twice.
//!
//! Clients write down what they asked and were told; the checker of hapax-check reads that history, not the server's word.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hapax_check::{Act, Cause, History, KeyId, Linear, OpId, Rules, Told, is_linear};
use serde_json::{Value, json};

use crate::http::{self, Answer};

/// Every key is asked for by this many clients.
const RIVALS: usize = 3;

/// How many states the search for one order may look at per key.
const STATES_MAX: usize = 100_000;

/// What clients of the layer saw, who are told only the end: for each key, every answer that was acknowledged.
#[derive(Default)]
struct Echoed(Mutex<BTreeMap<String, Vec<(How, String)>>>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Recorded,
    Replayed,
}

impl Echoed {
    fn note(&self, key: &str, how: How, body: String) {
        let mut seen = self.0.lock().unwrap();
        seen.entry(key.to_owned()).or_default().push((how, body));
    }
}

/// What clients of the remote API asked and were told.
struct Claims {
    history: Mutex<History>,
    fences: AtomicI64,
}

impl Claims {
    fn new() -> Self {
        // Tokens are names, and what is cut off may still arrive.
        let rules = Rules {
            fences_rise: false,
            ..Rules::default()
        };
        Self {
            history: Mutex::new(History::new(rules)),
            fences: AtomicI64::new(0),
        }
    }

    fn locked(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    fn key(&self, key: &str) -> KeyId {
        self.locked().key("default", key)
    }

    fn begin(&self, client: usize, key: KeyId, act: Act) -> OpId {
        self.locked().invoke(client as u64, key, act)
    }

    fn told(&self, op: OpId, told: Told) {
        self.locked().ok(op, told);
    }

    fn unknown(&self, op: OpId) {
        self.locked().unknown(op);
    }
}

/// Where the servers are now, and how clients reach them.
pub(crate) struct Target {
    addresses: Mutex<Vec<SocketAddr>>,
    token: String,
    stop: AtomicBool,
    next: AtomicUsize,
    unknown: AtomicUsize,
    claims: Claims,
    echoed: Echoed,
}

impl Target {
    pub(crate) fn new(addresses: Vec<SocketAddr>, token: String) -> Self {
        Self {
            addresses: Mutex::new(addresses),
            token,
            stop: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
            claims: Claims::new(),
            echoed: Echoed::default(),
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
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// Claims and completes `key` over the remote API until it has an outcome, or the run ends.
    fn claim_until_settled(&self, key: &str, client: usize) {
        let claim = json!({"key": key, "method": "POST", "path": "/kill", "body": {"of": key}, "lease_seconds": 1});
        let (claims, id) = (&self.claims, self.claims.key(key));
        while !self.is_over() {
            let op = claims.begin(client, id, Act::Claim { asked: 1 });
            let answer = self.post("/v1/keys/claim", None, &claim);
            let Some(answer) = answer.filter(|answer| answer.status != 503) else {
                claims.unknown(op);
                continue;
            };
            let claimed = answer.json();
            match claimed["action"].as_str() {
                Some("process") => {
                    let fence = claims.fences.fetch_add(1, Ordering::Relaxed);
                    let taken = claimed["lost"] == true;
                    let cause = if taken { Cause::Taken } else { Cause::New };
                    let expires_at = None;
                    claims.told(
                        op,
                        Told::Granted {
                            fence,
                            cause,
                            expires_at,
                        },
                    );
                    claims.locked().effect(id, fence);
                    if self.complete(&claimed, client, id, fence) {
                        return;
                    }
                }
                Some("replay") => {
                    let body = claimed["response"]["body"].to_string().into_bytes();
                    return claims.told(op, Told::Replay(body));
                }
                Some("in_progress") => {
                    claims.told(op, Told::Busy);
                    std::thread::sleep(Duration::from_millis(50));
                }
                other => panic!("{other:?} for {key}: {claimed}"),
            }
        }
    }

    /// Records what came of it. False if it is unknown whether it is recorded, or it is not.
    fn complete(&self, claimed: &Value, client: usize, id: KeyId, fence: i64) -> bool {
        let body = json!({"run": uuid::Uuid::new_v4(), "by": client});
        let complete = json!({"token": claimed["token"], "status": 200, "body": body});
        let body = body.to_string().into_bytes();
        let act = Act::Settle {
            fence,
            body: body.clone(),
        };
        let op = self.claims.begin(client, id, act);
        let path = format!("/v1/keys/{}/complete", claimed["id"].as_str().unwrap());
        let answer = self.post(&path, None, &complete);
        let recorded = answer.is_some_and(|answer| answer.status == 200);
        if recorded {
            self.claims.told(
                op,
                Told::Recorded {
                    body,
                    expires_at: None,
                },
            );
        } else {
            // A refusal may follow a first try that did arrive.
            self.claims.unknown(op);
        }
        recorded
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
            self.echoed.note(key, how, answer.text());
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

/// Every acknowledged outcome is there, the same for everyone. Fails too if fewer keys than this were told.
pub(crate) fn check(target: &Target, keys_min: usize) {
    let (keys, acknowledged) = check_echoed(target);
    let mut history = target.claims.locked();
    let told: Vec<(KeyId, String, Vec<u8>)> = history
        .told()
        .map(|(id, _, key, body)| (id, key.to_owned(), body.clone()))
        .collect();
    for (id, key, body) in &told {
        let op = history.invoke(u64::MAX, *id, Act::Claim { asked: 1 });
        let now = ask(target, key).into_bytes();
        assert_eq!(&now, body, "{key} was acknowledged and is lost");
        history.ok(op, Told::Replay(now));
    }
    assert_eq!(history.violations(), [], "the history breaks a promise");
    let (mut ordered, mut too_long) = (0, 0);
    for (key, spans) in history.spans() {
        match is_linear(spans, STATES_MAX) {
            Linear::Yes => ordered += 1,
            Linear::TooLarge => too_long += 1,
            Linear::No => panic!("{key}: no order explains {spans:#?}"),
        }
    }
    let counts = history.counts();
    let unknown = target.unknown.load(Ordering::Relaxed);
    let (keys, told) = (
        keys + told.len(),
        acknowledged + counts.recorded + counts.replayed,
    );
    println!(
        "{keys} keys, {told} answers acknowledged, {unknown} unknown, {} leases taken over: none lost, none \
         twice; one order found for {ordered} keys, {too_long} too long to search",
        counts.takeovers
    );
    // A busy machine serves few between two kills.
    assert!(
        keys > keys_min,
        "the load was too light to mean anything: {keys} keys"
    );
}

/// What was told through the layer is there, the same for everyone. How many keys, and how many answers.
fn check_echoed(target: &Target) -> (usize, u64) {
    let seen = std::mem::take(&mut *target.echoed.0.lock().unwrap());
    let mut acknowledged = 0;
    for (key, answers) in &seen {
        let bodies: BTreeSet<_> = answers.iter().map(|(_, body)| body).collect();
        assert_eq!(bodies.len(), 1, "{key} has two outcomes: {answers:?}");
        let recorded = answers.iter().filter(|(how, _)| *how == How::Recorded);
        assert!(
            recorded.count() <= 1,
            "{key} was recorded twice: {answers:?}"
        );
        acknowledged += answers.len() as u64;
        let now = ask(target, key);
        assert_eq!(now, answers[0].1, "{key} was acknowledged and is lost");
    }
    (seen.len(), acknowledged)
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
