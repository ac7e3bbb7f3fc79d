//! Workers that vanish at random, and a server that is killed under them. A checker reads what the workers wrote down.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::Server;
use crate::http::Answer;
use crate::kill::exchange;

/// One in this many jobs loses its worker in the middle.
const DEATHS: u64 = 8;

/// Something that was acknowledged, with the moment it was sent and the moment it was known.
#[derive(Debug)]
struct Note {
    epoch: i64,
    sent: u64,
    known: u64,
    what: What,
}

#[derive(PartialEq, Eq, Debug)]
enum What {
    Leased,
    /// The operation's result, recorded or replayed.
    Result(String),
    Ended,
}

struct Crew {
    address: Mutex<SocketAddr>,
    token: String,
    clock: AtomicU64,
    notes: Mutex<BTreeMap<String, Vec<Note>>>,
    deaths: AtomicU64,
    unknown: AtomicU64,
    jobs: usize,
}

impl Crew {
    /// One request, or `None` if it is unknown what became of it.
    fn post(&self, path: &str, body: &Value) -> Option<Answer> {
        let address = *self.address.lock().unwrap();
        let body = body.to_string();
        let text = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) else {
            std::thread::sleep(Duration::from_millis(5));
            return None;
        };
        let answer = exchange(stream, text.as_bytes());
        if answer.is_none() {
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, job: &str, epoch: i64, sent: u64, what: What) {
        let known = self.now();
        let note = Note {
            epoch,
            sent,
            known,
            what,
        };
        self.notes
            .lock()
            .unwrap()
            .entry(job.to_owned())
            .or_default()
            .push(note);
    }

    fn ended(&self) -> usize {
        let notes = self.notes.lock().unwrap();
        let has_ended = |notes: &&Vec<Note>| notes.iter().any(|note| note.what == What::Ended);
        notes.values().filter(has_ended).count()
    }

    /// Leases and works until everything has ended, or the time is over.
    fn work(&self, name: usize, until: Instant) {
        let mut life = 0;
        while self.ended() < self.jobs && Instant::now() < until {
            life += 1;
            let owner = format!("worker-{name}-{life}");
            let sent = self.now();
            let ask = json!({"owner": owner, "ttl_s": 1, "kinds": ["test"], "limit": 3});
            let Some(answer) = self
                .post("/v1/jobs/lease", &ask)
                .filter(|answer| answer.status == 200)
            else {
                continue;
            };
            let jobs = answer.json()["jobs"].as_array().unwrap().clone();
            if jobs.is_empty() {
                std::thread::sleep(Duration::from_millis(50));
            }
            for job in &jobs {
                self.note(
                    job["job_id"].as_str().unwrap(),
                    job["epoch"].as_i64().unwrap(),
                    sent,
                    What::Leased,
                );
            }
            for job in &jobs {
                // A death takes the rest of the batch with it.
                if self.run(&owner, job).is_none() {
                    break;
                }
            }
        }
    }

    /// Whether the worker died here, on its own or with its answer.
    fn dies(&self) -> bool {
        let dies = u64::from(uuid::Uuid::new_v4().as_bytes()[0]).is_multiple_of(DEATHS);
        self.deaths.fetch_add(u64::from(dies), Ordering::Relaxed);
        dies
    }

    fn run(&self, owner: &str, job: &Value) -> Option<()> {
        let (id, epoch) = (
            job["job_id"].as_str().unwrap(),
            job["epoch"].as_i64().unwrap(),
        );
        let sent = self.now();
        let asked = json!({"job_id": id, "kind": "PAY", "context": {}, "owner": owner, "epoch": epoch, "class": "keyed"});
        let begun = self.post("/v1/ops/begin", &asked)?;
        if begun.status != 200 {
            return Some(());
        }
        let begun = begun.json();
        match begun["action"].as_str() {
            Some("replay") => self.note(id, epoch, sent, What::Result(begun["result"].to_string())),
            Some("execute") => {
                if self.dies() {
                    return None;
                }
                let result = json!({"by": owner, "run": uuid::Uuid::new_v4()});
                let sent = self.now();
                let path = format!("/v1/ops/{}/complete", begun["op_key"].as_str().unwrap());
                let complete = json!({
                    "token": begun["token"], "result": result, "advance_to": "FINALIZED", "owner": owner, "epoch": epoch,
                });
                if self.post(&path, &complete)?.status != 200 {
                    return Some(());
                }
                self.note(id, epoch, sent, What::Result(result.to_string()));
            }
            _ => return Some(()),
        }
        if self.dies() {
            return None;
        }
        let sent = self.now();
        let advance = json!({"owner": owner, "epoch": epoch, "to_state": "INDEXED"});
        if self
            .post(&format!("/v1/jobs/{id}/advance"), &advance)?
            .status
            == 200
        {
            self.note(id, epoch, sent, What::Ended);
        }
        Some(())
    }

    /// What the workers wrote down must be possible.
    fn check(&self) {
        for (job, notes) in &*self.notes.lock().unwrap() {
            let results: BTreeSet<&String> = notes
                .iter()
                .filter_map(|note| match &note.what {
                    What::Result(result) => Some(result),
                    What::Leased | What::Ended => None,
                })
                .collect();
            assert!(results.len() <= 1, "{job} has two results: {notes:?}");
            let ended = notes.iter().filter(|note| note.what == What::Ended).count();
            assert!(ended <= 1, "{job} ended {ended} times: {notes:?}");
            let leases: Vec<&Note> = notes
                .iter()
                .filter(|note| note.what == What::Leased)
                .collect();
            let epochs: BTreeSet<i64> = leases.iter().map(|note| note.epoch).collect();
            assert_eq!(
                epochs.len(),
                leases.len(),
                "{job}: one epoch was leased twice: {notes:?}"
            );
            for note in notes.iter().filter(|note| note.what != What::Leased) {
                let is_stale = |lease: &&&Note| lease.epoch > note.epoch && lease.known < note.sent;
                let newer = leases.iter().find(is_stale);
                assert!(
                    newer.is_none(),
                    "{job}: {note:?} was taken although {newer:?} was known before"
                );
            }
        }
    }
}

fn survive(workers: usize, jobs: usize, kills: usize, store: &[String]) {
    let with = |command: &mut std::process::Command| {
        command
            .args(store)
            .arg("--no-worker")
            .env("HAPAX_LOG", "warn");
    };
    let mut server = Server::start_with(with);
    let one = |n: usize| json!({"kind": "test", "work_id": format!("w-{n}"), "artifact_id": "a", "canonical_url": "test:", "max_attempts": 100});
    for first in (0..jobs).step_by(1000) {
        let batch: Vec<Value> = (first..jobs.min(first + 1000)).map(one).collect();
        let planned = server.owner(
            "POST",
            "/v1/jobs/batch",
            &json!({"jobs": batch}).to_string(),
        );
        assert_eq!(planned.status, 200, "{}", planned.text());
    }
    let crew = Arc::new(Crew {
        address: Mutex::new(server.address),
        token: server.token(),
        clock: AtomicU64::new(0),
        notes: Mutex::default(),
        deaths: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
        jobs,
    });
    let until = Instant::now() + Duration::from_secs(300);
    let threads: Vec<_> = (0..workers)
        .map(|name| {
            let crew = Arc::clone(&crew);
            std::thread::spawn(move || crew.work(name, until))
        })
        .collect();
    let mut killed = 0;
    while killed < kills && crew.ended() < jobs {
        let pause = 200 + u64::from(uuid::Uuid::new_v4().as_bytes()[0]) * 2;
        std::thread::sleep(Duration::from_millis(pause));
        server.signal("KILL");
        let (_, _, folder) = server.wait();
        server = Server::start_in(folder, with);
        *crew.address.lock().unwrap() = server.address;
        killed += 1;
    }
    // An end whose answer got lost is known to the server only.
    let stats = |server: &Server| server.owner("GET", "/v1/jobs/stats", "").json();
    let is_done = |stats: &Value| {
        let all = stats["items"].as_array().unwrap();
        all.iter().all(|one| one["state"] == "INDEXED")
    };
    while !is_done(&stats(&server)) {
        assert!(Instant::now() < until, "{}", stats(&server));
        std::thread::sleep(Duration::from_millis(100));
    }
    *crew.address.lock().unwrap() = server.address;
    for id in crew.notes.lock().unwrap().keys() {
        let job = server.owner("GET", &format!("/v1/jobs/{id}"), "").json();
        let ops = job["ops"].as_array().unwrap();
        assert!(ops.len() == 1 && ops[0]["state"] == "done", "{job}");
    }
    crew.check();
    let deaths = crew.deaths.load(Ordering::Relaxed);
    let unknown = crew.unknown.load(Ordering::Relaxed);
    let known = crew.ended();
    println!(
        "{jobs} jobs, {workers} workers, {deaths} of them died, {killed} kills of the server, {unknown} answers lost, {known} ends acknowledged"
    );
    // The rest ended unheard: let the threads see that there is nothing left.
    drop(server);
    drop(threads);
}

#[test]
fn jobs_end_once_though_workers_vanish_and_the_server_is_killed() {
    survive(8, 120, 3, &[]);
}

#[test]
fn the_same_holds_on_postgres() {
    survive(
        8,
        120,
        3,
        &["--database".to_owned(), crate::postgres::database()],
    );
}

#[test]
#[ignore = "a soak of some minutes: ./test --soak"]
fn soak_two_thousand_jobs_of_thirty_workers_end_once() {
    survive(30, 2000, 10, &[]);
}

#[test]
#[ignore = "a soak of some minutes: ./test --soak"]
fn soak_the_same_holds_on_postgres() {
    survive(
        30,
        2000,
        10,
        &["--database".to_owned(), crate::postgres::database()],
    );
}
