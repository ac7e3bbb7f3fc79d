//! Clients of the program: each request bears an id that its answer repeats, so that the answer is found in what strace
//! wrote. They note what they were promised.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_core::{Key, RecordId, Scope, Tenant};
use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::promise::Promise;

/// The owner's token, given to the program by its variable.
pub(crate) const TOKEN: &str = "a-token-that-the-test-knows";

/// Who asks, and what was promised.
#[derive(Default)]
pub(crate) struct Clients {
    next: AtomicUsize,
    /// The id of the request, and what its answer promised.
    pub(crate) promised: Mutex<Vec<(String, Promise)>>,
    /// The first answer that was no success.
    pub(crate) refused: Mutex<Option<Answer>>,
}

impl Clients {
    /// Clients whose keys begin with this number.
    pub(crate) fn from(number: usize) -> Self {
        Self {
            next: AtomicUsize::new(number),
            ..Self::default()
        }
    }

    fn note(&self, id: String, promise: Promise) {
        self.promised.lock().unwrap().push((id, promise));
    }

    /// One round of everything that can be promised. `None` when the program gave no answer, or refused.
    pub(crate) fn round(&self, address: SocketAddr) -> Option<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // Some bodies are large enough for a table of their own.
        let filler = "x".repeat(if number.is_multiple_of(5) { 6_000 } else { 40 });

        let key = format!("claim-{number}");
        let body = json!({"of": key, "filler": filler});
        let claim = json!({"key": key, "method": "POST", "path": "/fault", "body": body});
        let (id, claimed) = post(address, "/v1/keys/claim", None, &claim);
        let claimed = self.ok(claimed)?;
        assert_eq!(claimed["action"], "process", "{claimed}");
        let record: RecordId = claimed["id"].as_str()?.parse().ok()?;
        self.note(id, Promise::Claimed(record));

        let outcome = json!({"did": uuid::Uuid::new_v4(), "filler": filler});
        let complete = json!({"token": claimed["token"], "status": 200, "body": outcome});
        let (id, completed) = post(
            address,
            &format!("/v1/keys/{record}/complete"),
            None,
            &complete,
        );
        self.ok(completed)?;
        self.note(
            id,
            Promise::Settled(record, outcome.to_string().into_bytes()),
        );

        let key = format!("echo-{number}");
        let (id, echoed) = post(address, "/v1/echo", Some(&key), &json!({"n": number}));
        let echoed = self.succeeded(echoed)?;
        let scope = Scope::new(Tenant::DEFAULT, "POST:echo").unwrap();
        let record = RecordId::of(&scope, &Key::new(&key).unwrap());
        self.note(id, Promise::Settled(record, echoed.body));

        let job = json!({"kind": "nobodys", "work_id": "w", "artifact_id": key, "canonical_url": "http://h/"});
        let (id, planned) = post(address, "/v1/jobs", None, &job);
        self.note(
            id,
            Promise::Planned(self.ok(planned)?["job_id"].as_str()?.to_owned()),
        );

        let intent = json!({
            "kind": "intent", "intent_type": "create_task", "source": "shell", "confidence": 0.9,
            "fields": {"title": key, "due": "2026-12-24", "priority": "high"},
        });
        let (id, receipt) = post(address, "/v1/intents", None, &intent);
        self.note(
            id,
            Promise::Planned(self.ok(receipt)?["receipt_id"].as_str()?.to_owned()),
        );

        let course = json!({"course": {"id": key, "name": "One"}, "filler": filler});
        let (id, kept) = post(address, "/v1/courses/ingest", None, &course);
        self.note(
            id,
            Promise::Kept(self.ok(kept)?["snapshotId"].as_str()?.parse().ok()?),
        );
        Some(())
    }

    fn ok(&self, answer: Option<Answer>) -> Option<Value> {
        self.succeeded(answer).map(|answer| answer.json())
    }

    fn succeeded(&self, answer: Option<Answer>) -> Option<Answer> {
        let answer = answer?;
        if (200..300).contains(&answer.status) {
            return Some(answer);
        }
        self.refused.lock().unwrap().get_or_insert(answer);
        None
    }
}

/// One request; the id it bore, and the answer if all of it came.
pub(crate) fn post(
    address: SocketAddr,
    path: &str,
    key: Option<&str>,
    body: &Value,
) -> (String, Option<Answer>) {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let (bearer, parent) = (
        format!("Bearer {TOKEN}"),
        format!("00-{id}-0123456789abcdef-01"),
    );
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("traceparent", parent.as_str()),
    ];
    if let Some(key) = key {
        headers.push(("idempotency-key", key));
    }
    let answer = http::try_request(address, "POST", path, &headers, body.to_string().as_bytes());
    (id, answer)
}
