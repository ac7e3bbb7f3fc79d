//! Jobs and operations over HTTP and by command, as a worker, a reader and an operator use them.

mod commands;
mod killed;
mod leasing;
mod many;
mod ops;
mod planning;
mod reading;
mod reconcile;
mod refusals;
mod steps;
mod tenants;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::both::Node;
use crate::http::Answer;

/// A body, posted by the owner.
fn post(node: &Node, path: &str, body: &Value) -> Answer {
    node.owner("POST", path, &body.to_string())
}

/// The answer of a post that must succeed.
fn posted(node: &Node, path: &str, body: &Value) -> Value {
    let answer = post(node, path, body);
    assert!(
        [200, 201].contains(&answer.status),
        "{path}: {}",
        answer.text()
    );
    answer.json()
}

fn get(node: &Node, path: &str) -> Value {
    let answer = node.owner("GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn work(n: usize) -> Value {
    json!({
        "work_id": format!("w-{n}"),
        "artifact_id": format!("a-{n}"),
        "canonical_url": format!("https://example.org/{n}.pdf"),
    })
}

/// A new download; its id.
fn plan(node: &Node, n: usize) -> String {
    id(&posted(node, "/v1/jobs", &work(n)))
}

fn id(job: &Value) -> String {
    job["job_id"].as_str().unwrap().to_owned()
}

/// The jobs that a worker gets now.
fn lease(node: &Node, ask: &Value) -> Vec<Value> {
    let leased = posted(node, "/v1/jobs/lease", ask);
    leased["jobs"].as_array().unwrap().clone()
}

/// The one job that there is to lease, for a long time.
fn leased(node: &Node, owner: &str) -> Value {
    let mut jobs = lease(node, &json!({"owner": owner}));
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.remove(0)
}

/// Asks again until there is a job: after a lease that runs out, or after a rest.
fn leased_later(node: &Node, owner: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(job) = lease(node, &json!({"owner": owner})).pop() {
            return job;
        }
        assert!(Instant::now() < until, "nothing becomes due");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The holder of a leased job, with more to say.
fn by(job: &Value, more: &Value) -> Value {
    let mut body = json!({"owner": job["owner"], "epoch": job["epoch"]});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// What the holder of a leased job does with it.
fn act(node: &Node, job: &Value, verb: &str, more: &Value) -> Answer {
    post(
        node,
        &format!("/v1/jobs/{}/{verb}", id(job)),
        &by(job, more),
    )
}

/// The same, which must succeed.
fn acted(node: &Node, job: &Value, verb: &str, more: &Value) -> Value {
    let answer = act(node, job, verb, more);
    assert_eq!(answer.status, 200, "{verb}: {}", answer.text());
    answer.json()
}

fn advance(node: &Node, job: &Value, to: &str) -> Value {
    acted(node, job, "advance", &json!({"to_state": to}))
}

/// Begins an operation of a leased job. What comes back also says under which lease.
fn begin(node: &Node, job: &Value, kind: &str, more: &Value) -> Value {
    let mut body = by(job, more);
    body["job_id"] = job["job_id"].clone();
    body["kind"] = json!(kind);
    let mut begun = posted(node, "/v1/ops/begin", &body);
    for name in ["owner", "epoch"] {
        begun[name] = job[name].clone();
    }
    begun
}

/// What is done with an operation: by a person who resolves it, or else under the lease that it was begun under, unless the
/// body names one.
fn op(node: &Node, begun: &Value, verb: &str, body: &Value) -> Answer {
    let path = format!("/v1/ops/{}/{verb}", begun["op_key"].as_str().unwrap());
    let mut body = body.clone();
    for name in ["owner", "epoch"] {
        if let (None, Some(value)) = (body.get(name), begun.get(name))
            && verb != "resolve"
        {
            body[name] = value.clone();
        }
    }
    post(node, &path, &body)
}

fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    assert_eq!(
        answer.refusal(),
        (status, code.to_owned()),
        "{}",
        answer.text()
    );
    answer.json()["error"]["details"].clone()
}
