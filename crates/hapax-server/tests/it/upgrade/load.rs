//! Clients that allow nothing: behind a balancer that takes a node out before it stops, every request is answered, and
//! no answer says that the server is at fault.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{self, Answer};

pub(super) const TOKEN: &str = "one-token-for-old-and-new";
/// Every key is asked for by this many requests.
const RIVALS: usize = 3;
/// The kind of the jobs, which no worker of hapax itself runs.
const KIND: &str = "by-hand";

/// Where clients are sent. Whoever asks a node holds its place, so that it is known when a node is out of use.
#[derive(Default)]
pub(super) struct Balancer(Mutex<Vec<Arc<SocketAddr>>>);

impl Balancer {
    pub(super) fn add(&self, address: SocketAddr) {
        self.0.lock().unwrap().push(Arc::new(address));
    }

    /// Sends nobody there any more, and waits until nobody is there.
    pub(super) fn remove(&self, address: SocketAddr) {
        let place = {
            let mut places = self.0.lock().unwrap();
            let at = places.iter().position(|place| **place == address).unwrap();
            places.remove(at)
        };
        let until = Instant::now() + Duration::from_secs(90);
        while Arc::strong_count(&place) > 1 {
            assert!(Instant::now() < until, "a request does not come to its end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn any(&self) -> Arc<SocketAddr> {
        let places = self.0.lock().unwrap();
        let at = usize::from(uuid::Uuid::new_v4().as_bytes()[0]) % places.len();
        Arc::clone(&places[at])
    }
}

/// What a client was told of a key: whether its own request did it, and what came of it.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    was_done_now: bool,
    what: String,
}

/// The clients, and what they were told.
#[derive(Default)]
pub(super) struct Load {
    pub(super) serving: Balancer,
    pub(super) proxies: Balancer,
    next: AtomicUsize,
    is_over: AtomicBool,
    asked: AtomicUsize,
    failed: Mutex<Vec<String>>,
    told: Mutex<BTreeMap<String, Vec<Told>>>,
}

impl Load {
    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn run(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed) / RIVALS;
            self.ask(&name_of(number));
        }
    }

    /// Asks once for what the name says.
    fn ask(&self, name: &str) {
        let told = match name.split_once('-').unwrap().0 {
            "echo" => self.echo(&self.serving, "/v1/echo", name),
            "pass" => self.echo(&self.proxies, "/echo", name),
            "claim" => self.claim(name),
            "course" => self.course(name),
            "intent" => self.intend(name),
            "entry" => self.insert(name),
            "job" => self.plan(name),
            "work" => return self.work(),
            other => panic!("{other}"),
        };
        if let Some(told) = told {
            self.note(name, told);
        }
    }

    fn note(&self, name: &str, told: Told) {
        let mut all = self.told.lock().unwrap();
        all.entry(name.to_owned()).or_default().push(told);
    }

    /// A service that answers what it was sent, behind a key: by the layer, or by a proxy.
    fn echo(&self, to: &Balancer, path: &str, name: &str) -> Option<Told> {
        let answer = self.post(to, path, Some(name), &json!({"of": name}), &[200, 409])?;
        (answer.status == 200).then(|| Told {
            was_done_now: !is_replay(&answer),
            what: answer.text(),
        })
    }

    fn claim(&self, name: &str) -> Option<Told> {
        let claim =
            json!({"key": name, "method": "POST", "path": "/upgrade", "body": {"of": name}});
        let claimed = self.call("/v1/keys/claim", &claim)?;
        match claimed["action"].as_str() {
            Some("process") => {
                let body = json!({"run": uuid::Uuid::new_v4()});
                let complete = json!({"token": claimed["token"], "status": 200, "body": body});
                let path = format!("/v1/keys/{}/complete", claimed["id"].as_str().unwrap());
                self.call(&path, &complete)?;
                Some(Told {
                    was_done_now: true,
                    what: body.to_string(),
                })
            }
            Some("replay") => Some(Told {
                was_done_now: false,
                what: claimed["response"]["body"].to_string(),
            }),
            Some("in_progress") => None,
            other => {
                self.fail(format!("{name}: {other:?}: {claimed}"));
                None
            }
        }
    }

    fn course(&self, name: &str) -> Option<Told> {
        let taken = self.call(
            "/v1/courses/ingest",
            &json!({"course": {"id": name, "name": name}}),
        )?;
        Some(Told {
            was_done_now: taken["idempotent"] == false,
            what: taken["snapshotId"].to_string(),
        })
    }

    fn intend(&self, name: &str) -> Option<Told> {
        let packet = json!({
            "kind": "intent", "intent_type": "create_task", "source": "shell", "confidence": 0.9,
            "fields": {"title": name, "due": "2026-12-24", "priority": "high"},
        });
        let answer = self.post(&self.serving, "/v1/intents", None, &packet, &[200])?;
        Some(Told {
            was_done_now: !is_replay(&answer),
            what: answer.json()["receipt_id"].to_string(),
        })
    }

    fn insert(&self, name: &str) -> Option<Told> {
        let entry = json!({
            "source": "web", "title": name, "idempotency_policy_key": "telegram_link_v1", "idempotency_key_primary": name,
        });
        let rows = self.call("/db/insert", &json!({"items": [entry]}))?;
        Some(Told {
            was_done_now: rows[0]["action"] == "inserted",
            what: rows[0]["entry_id"].to_string(),
        })
    }

    fn plan(&self, name: &str) -> Option<Told> {
        let job = json!({"kind": KIND, "work_id": "w", "artifact_id": name, "canonical_url": "https://example.org/"});
        let answer = self.post(&self.serving, "/v1/jobs", None, &job, &[200, 201])?;
        Some(Told {
            was_done_now: answer.status == 201,
            what: answer.json()["job_id"].to_string(),
        })
    }

    /// Leases a job, runs its one operation, and ends it, each step on any node.
    fn work(&self) {
        let owner = uuid::Uuid::new_v4().to_string();
        let lease = json!({"owner": owner, "kinds": [KIND], "ttl_s": 60});
        let Some(leased) = self.call("/v1/jobs/lease", &lease) else {
            return;
        };
        let Some(job) = leased["jobs"].get(0) else {
            return;
        };
        let operation = json!({
            "job_id": job["job_id"], "kind": "EFFECT", "owner": owner, "epoch": job["epoch"], "context": {},
        });
        let Some(begun) = self.call("/v1/ops/begin", &operation) else {
            return;
        };
        if begun["action"] != "execute" {
            return self.fail(format!("nobody else had the job: {begun}"));
        }
        let told = Told {
            was_done_now: true,
            what: owner.clone(),
        };
        self.note(&format!("effect of {}", job["job_id"]), told);
        let result = json!({
            "token": begun["token"], "result": {"by": owner}, "advance_to": "FINALIZED", "owner": owner,
            "epoch": job["epoch"],
        });
        let path = format!("/v1/ops/{}/complete", begun["op_key"].as_str().unwrap());
        if self.call(&path, &result).is_none() {
            return;
        }
        let path = format!("/v1/jobs/{}/advance", job["job_id"].as_str().unwrap());
        let advance = json!({"owner": owner, "epoch": job["epoch"], "to_state": "INDEXED"});
        self.call(&path, &advance);
    }

    /// A call that must answer 200.
    fn call(&self, path: &str, body: &Value) -> Option<Value> {
        let answer = self.post(&self.serving, path, None, body, &[200])?;
        Some(answer.json())
    }

    /// The answer, if it is one of those that are right.
    fn post(
        &self,
        to: &Balancer,
        path: &str,
        key: Option<&str>,
        body: &Value,
        right: &[u16],
    ) -> Option<Answer> {
        let bearer = format!("Bearer {TOKEN}");
        let mut headers = vec![
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        self.asked.fetch_add(1, Ordering::Relaxed);
        let node = to.any();
        let body = body.to_string();
        match http::try_request(*node, "POST", path, &headers, body.as_bytes()) {
            Some(answer) if right.contains(&answer.status) => Some(answer),
            Some(answer) => {
                self.fail(format!("{path}: {} {}", answer.status, answer.text()));
                None
            }
            None => {
                self.fail(format!("{path}: no answer"));
                None
            }
        }
    }

    fn fail(&self, what: String) {
        self.failed.lock().unwrap().push(what);
    }

    /// No request failed, each thing was done by one request and all were told the same, and it is so still.
    pub(super) fn check(&self) -> usize {
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        for (name, answers) in &told {
            let done = answers.iter().filter(|told| told.was_done_now).count();
            assert_eq!(done, 1, "{name}: {answers:?}");
            let same = answers.iter().all(|told| told.what == answers[0].what);
            assert!(same, "{name}: {answers:?}");
            if name.starts_with("effect") {
                continue;
            }
            self.ask(name);
            let again = self.told.lock().unwrap().remove(name);
            let expected = Told {
                was_done_now: false,
                what: answers[0].what.clone(),
            };
            assert_eq!(again, Some(vec![expected]), "{name} afterwards");
        }
        let failed = self.failed.lock().unwrap();
        assert!(
            failed.is_empty(),
            "{} of {} requests failed: {:?}",
            failed.len(),
            self.asked(),
            &failed[..failed.len().min(10)]
        );
        for kind in [
            "echo", "pass", "claim", "course", "intent", "entry", "job", "effect",
        ] {
            let of_kind = told.keys().filter(|name| name.starts_with(kind)).count();
            assert!(of_kind > 5, "{kind}: {of_kind}, too few to mean anything");
        }
        told.len()
    }
}

fn name_of(number: usize) -> String {
    let kinds = [
        "echo", "pass", "claim", "course", "intent", "entry", "job", "work",
    ];
    format!("{}-{number}", kinds[number % kinds.len()])
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotency-replayed").is_some()
}
