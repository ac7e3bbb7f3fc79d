//! Rows that a person wrote in the database decide the next write.

use std::process::Command;

use serde_json::json;

use super::{get, insert, keyed, pull};
use crate::both::{Node, Store};

/// A statement by the owner of the database; what it answers.
fn psql(node: &Node, statement: &str) -> String {
    let url = &node.store[1];
    let output = Command::new("psql")
        .args([url, "-qAtc", statement])
        .output()
        .unwrap();
    assert!(output.status.success(), "{statement}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_test_mode_of_the_runtime_config_decides_the_next_write() {
    let node = Store::Postgres.serve("");
    insert(&node, &json!({"source": "web", "title": "real"}));
    for value in ["true", "\"on\"", "YES", "1"] {
        let statement =
            format!("UPDATE pkm.runtime_config SET value = '{value}' WHERE key = 'is_test_mode'");
        psql(&node, &statement);
        assert_eq!(
            get(&node, "/db/test-mode"),
            json!([{"is_test_mode": true}]),
            "{value}"
        );
    }
    insert(&node, &json!({"source": "web", "title": "trial"}));
    assert_eq!(psql(&node, "SELECT title FROM pkm_test.entries"), "trial");
    psql(&node, "DELETE FROM pkm.runtime_config");
    assert_eq!(
        get(&node, "/db/test-mode"),
        json!([{"is_test_mode": false}])
    );
    insert(&node, &json!({"source": "web", "title": "real again"}));
    assert_eq!(psql(&node, "SELECT count(*) FROM pkm.entries"), "2");
}

#[test]
fn a_policy_that_is_written_by_hand_is_followed() {
    let node = Store::Postgres.serve("");
    psql(
        &node,
        "INSERT INTO pkm.idempotency_policies (policy_key, source, content_type, conflict_action, update_fields) \
         VALUES ('shop_v1', 'shop', 'order', 'update', ARRAY['title', 'entry_id', 'nonsense'])",
    );
    let entry = |title: &str| {
        let more = json!({"title": title, "author": title});
        super::with(&keyed("shop_v1", Some("k"), None), &more)
    };
    let row = insert(&node, &entry("a"));
    assert_eq!(insert(&node, &entry("b"))["action"], "updated");
    let whole = pull(&node, &row["entry_id"]);
    assert_eq!(
        (&whole["title"], &whole["author"]),
        (&json!("b"), &json!("a")),
        "names that are no column do nothing"
    );
    psql(
        &node,
        "UPDATE pkm.idempotency_policies SET enabled = false WHERE policy_key = 'shop_v1'",
    );
    let answer = node.owner("POST", "/db/insert", &entry("c").to_string());
    super::refused(&answer, 400, "policy_disabled");
}

#[test]
fn the_unique_indexes_of_the_seed_are_in_both_schemas() {
    let node = Store::Postgres.serve("");
    for schema in ["pkm", "pkm_test"] {
        let indexes = psql(
            &node,
            &format!(
                "SELECT count(*) FROM pg_indexes WHERE schemaname = '{schema}' AND tablename = 'entries' \
                 AND indexdef LIKE 'CREATE UNIQUE INDEX%' AND indexdef LIKE '%idempotency_policy_key%' \
                 AND indexdef LIKE '%WHERE (idempotency_key_%IS NOT NULL)'"
            ),
        );
        assert_eq!(indexes, "2", "{schema}");
    }
}
