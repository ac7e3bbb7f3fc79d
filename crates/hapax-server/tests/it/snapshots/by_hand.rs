//! Rows that somebody changed in the database: old ones without a hash, and one that no longer fits its own.

use std::process::Command;

use serde_json::{Value, json};

use super::{BATCH, INGEST, course, get, ingest, posted, refused, send, text};
use crate::both::{Node, Store};

/// A statement by the owner of the database.
fn psql(node: &Node, statement: &str) {
    let url = &node.store[1];
    let status = Command::new("psql")
        .args([url, "-qAtc", statement])
        .status();
    assert!(status.unwrap().success(), "{statement}");
}

#[test]
fn backfill_gives_old_rows_their_hashes() {
    let node = Store::Postgres.serve("");
    let old = ingest(&node, &course("old", "Old"));
    ingest(&node, &course("torn", "Torn"));
    ingest(&node, &course("new", "New"));
    psql(&node, "DELETE FROM snapshot_alias");
    psql(
        &node,
        "UPDATE snapshot SET payload_hash = NULL, hash_state = 'missing' WHERE entity_id <> 'new'",
    );
    psql(
        &node,
        "UPDATE snapshot SET payload = 'not json' WHERE entity_id = 'torn'",
    );
    let path = format!("/v1/courses/old/snapshots/{}", text(&old["snapshotId"]));
    assert_eq!(get(&node, &path)["hash"], Value::Null);

    let told = node.command(&["backfill"]);
    assert_eq!(told, json!({"filled": 1, "duplicates": 0, "unreadable": 1}));
    let shown = get(&node, &path);
    assert_eq!(text(&shown["hash"]).len(), 64);
    assert_eq!(text(&shown["aliases"]["py-json"]).len(), 64);
    let again = ingest(&node, &course("old", "Old"));
    assert_eq!(
        (&again["snapshotId"], &again["idempotent"]),
        (&old["snapshotId"], &json!(true))
    );
    assert_eq!(get(&node, "/v1/courses/torn")["payload"], Value::Null);
    let rest = node.command(&["backfill"]);
    assert_eq!(rest, json!({"filled": 0, "duplicates": 0, "unreadable": 0}));
}

#[test]
fn another_payload_under_the_same_hash_is_refused() {
    let node = Store::Postgres.serve("");
    let payload = course("c", "C").to_string();
    posted(&node, INGEST, &payload);
    psql(
        &node,
        r#"UPDATE snapshot SET payload = '{"course":{"id":"c","name":"forged"}}'"#,
    );
    let details = refused(&send(&node, INGEST, &[], &payload), 409, "hash_collision");
    assert_eq!(text(&details["hash"]).len(), 64);
    let batch = format!("[{},{payload}]", course("d", "D"));
    let told = posted(&node, BATCH, &batch);
    assert_eq!(
        (&told["ok"], &told["succeeded"], &told["failed"]),
        (&json!(false), &json!(1), &json!(1))
    );
    assert_eq!(
        (&told["errors"][0]["index"], &told["errors"][0]["error"]),
        (&json!(1), &json!("hash_collision"))
    );
    let kept = get(&node, "/v1/courses/c");
    assert_eq!(
        kept["payload"]["course"]["name"], "forged",
        "nothing was written"
    );
}
