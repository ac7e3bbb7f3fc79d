//! Entries over HTTP and by command: normalised, inserted once per key, changed, read, and the policies of their keys.

mod batches;
mod by_hand;
mod conflicts;
mod hostile;
mod inserting;
mod many;
mod normalizing;
mod policies;
mod reading;
mod roles;
mod settings;
mod telegram;
mod test_mode;
mod updating;

use serde_json::{Value, json};

use crate::both::Node;
use crate::http::Answer;

const OTHER: &str = "11111111-1111-1111-1111-111111111111";

/// What a post that must succeed answers.
fn posted(node: &Node, path: &str, body: &Value) -> Value {
    let answer = node.owner("POST", path, &body.to_string());
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// What a read that must succeed answers.
fn get(node: &Node, path: &str) -> Value {
    let answer = node.owner("GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// The one row that an insert of one entry answers.
fn insert(node: &Node, entry: &Value) -> Value {
    only(&posted(node, "/db/insert", entry))
}

/// The one row that a change of one entry answers.
fn update(node: &Node, entry: &Value) -> Value {
    only(&posted(node, "/db/update", entry))
}

/// A normalised document, and the row that it becomes.
fn kept(node: &Node, path: &str, document: &Value) -> (Value, Value) {
    let entry = posted(node, path, document);
    let row = insert(node, &entry);
    (entry, row)
}

/// The whole entry.
fn pull(node: &Node, entry_id: &Value) -> Value {
    posted(node, "/db/read/pull", &json!({"entry_id": entry_id}))
}

/// The states of an entry that were replaced, newest first.
fn revisions(node: &Node, entry_id: &Value) -> Vec<Value> {
    let page = get(node, &format!("/v1/entries/{entry_id}/revisions"));
    page["items"].as_array().unwrap().clone()
}

fn only(rows: &Value) -> Value {
    let rows = rows.as_array().unwrap_or_else(|| panic!("{rows}"));
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

fn refused(answer: &Answer, status: u16, code: &str) -> Value {
    let told = (status, code.to_owned());
    assert_eq!(answer.refusal(), told, "{}", answer.text());
    answer.json()["error"]["details"].clone()
}

/// The paths of the faults that a refusal lists.
fn paths(details: &Value) -> Vec<&str> {
    let errors = details["errors"].as_array().unwrap();
    errors
        .iter()
        .map(|error| error["path"].as_str().unwrap())
        .collect()
}

fn thought(chat: i64, message: i64, text: &str) -> Value {
    json!({"text": text, "source": {"chat_id": chat, "message_id": message}})
}

/// An entry with keys of its own making, under this policy.
fn keyed(policy: &str, primary: Option<&str>, secondary: Option<&str>) -> Value {
    json!({
        "source": "web",
        "clean_text": "a text to keep",
        "idempotency_policy_key": policy,
        "idempotency_key_primary": primary,
        "idempotency_key_secondary": secondary,
    })
}

/// The entry with more members.
fn with(entry: &Value, more: &Value) -> Value {
    let mut entry = entry.as_object().unwrap().clone();
    entry.extend(more.as_object().unwrap().clone());
    Value::Object(entry)
}
