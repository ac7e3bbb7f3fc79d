//! Snapshots over HTTP and by command: payloads that are kept once, and the history of what they are about.

mod batches;
mod by_hand;
mod collections;
mod comparing;
mod keys;
mod many;
mod once;
mod reading;
mod refusals;
mod tenants;

use serde_json::{Value, json};

use crate::both::Node;
use crate::http::Answer;

const INGEST: &str = "/v1/courses/ingest";
const BATCH: &str = "/v1/courses/ingest/batch";

/// A course with this id and name.
fn course(id: &str, name: &str) -> Value {
    json!({"course": {"id": id, "name": name, "credits": 3}, "modules": [{"title": "One"}]})
}

/// A body with these headers, posted by the owner.
fn send(node: &Node, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let bearer = format!("Bearer {}", node.token());
    let own = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    node.send("POST", path, &[&own, headers].concat(), body.as_bytes())
}

/// The answer of a post that must succeed.
fn posted(node: &Node, path: &str, body: &str) -> Value {
    let answer = send(node, path, &[], body);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// A course that must be taken.
fn ingest(node: &Node, payload: &Value) -> Value {
    posted(node, INGEST, &payload.to_string())
}

fn get(node: &Node, path: &str) -> Value {
    let answer = node.owner("GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn items(list: &Value) -> &Vec<Value> {
    list["items"].as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
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
