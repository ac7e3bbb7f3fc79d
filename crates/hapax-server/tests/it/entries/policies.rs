//! Policies are rows: listed, changed, added and disabled without a release.

use serde_json::{Value, json};

use super::{get, insert, keyed, paths, refused, with};
use crate::both::{Node, Store, on_both_stores};

const SEEDS: [&str; 4] = [
    "email_correspondence_thread_v1",
    "email_newsletter_v1",
    "telegram_link_v1",
    "telegram_thought_v1",
];

fn keys(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["policy_key"].as_str().unwrap())
        .collect()
}

fn put(node: &Node, path: &str, body: &Value) -> Value {
    let answer = node.owner("PUT", path, &body.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn policy(node: &Node, schema: &str, key: &str) -> Value {
    let list = get(node, &format!("/v1/policies?schema={schema}"));
    let items = list["items"].as_array().unwrap();
    let found = items.iter().find(|item| item["policy_key"] == key);
    found.cloned().unwrap_or(Value::Null)
}

fn both_schemas_begin_with_the_four_of_the_seed(store: Store) {
    let node = store.serve("");
    for path in [
        "/v1/policies",
        "/v1/policies?schema=pkm",
        "/v1/policies?schema=pkm_test",
    ] {
        let list = get(&node, path);
        assert_eq!(keys(&list), SEEDS, "{path}");
        let items = list["items"].as_array().unwrap();
        let actions: Vec<&Value> = items.iter().map(|item| &item["conflict_action"]).collect();
        assert_eq!(actions, ["update", "skip", "skip", "update"]);
        for item in items {
            assert_eq!(
                (&item["enabled"], &item["update_fields"]),
                (&json!(true), &Value::Null)
            );
            assert!(item["policy_id"].is_i64(), "{item}");
        }
        assert_eq!(
            (&items[2]["source"], &items[2]["content_type"]),
            (&json!("telegram"), &json!("link"))
        );
    }
    let wrong = node.owner("GET", "/v1/policies?schema=public", "");
    assert_eq!(
        paths(&refused(&wrong, 400, "schema_validation_failed")),
        ["schema"]
    );
}

fn a_change_is_in_both_schemas_unless_one_is_named(store: Store) {
    let node = store.serve("");
    let told = put(
        &node,
        "/v1/policies/telegram_link_v1",
        &json!({"conflict_action": "update", "update_fields": ["title"]}),
    );
    assert_eq!(told["schemas"], json!(["pkm", "pkm_test"]));
    assert_eq!(
        (&told["policy_key"], &told["conflict_action"]),
        (&json!("telegram_link_v1"), &json!("update"))
    );
    for schema in ["pkm", "pkm_test"] {
        let policy = policy(&node, schema, "telegram_link_v1");
        assert_eq!(
            (&policy["conflict_action"], &policy["update_fields"]),
            (&json!("update"), &json!(["title"]))
        );
        assert_eq!(policy["source"], "telegram", "what is not said stays");
    }
    let told = put(
        &node,
        "/v1/policies/telegram_link_v1?schema=pkm_test",
        &json!({"conflict_action": "skip"}),
    );
    assert_eq!(told["schemas"], json!(["pkm_test"]));
    assert_eq!(
        policy(&node, "pkm", "telegram_link_v1")["conflict_action"],
        "update"
    );
    assert_eq!(
        policy(&node, "pkm_test", "telegram_link_v1")["conflict_action"],
        "skip"
    );
}

fn a_change_decides_the_next_write(store: Store) {
    let node = store.serve("");
    let entry = |title: &str| {
        with(
            &keyed("telegram_link_v1", Some("k"), None),
            &json!({ "title": title }),
        )
    };
    insert(&node, &entry("a"));
    assert_eq!(insert(&node, &entry("b"))["action"], "skipped");
    put(
        &node,
        "/v1/policies/telegram_link_v1",
        &json!({"conflict_action": "update"}),
    );
    let row = insert(&node, &entry("b"));
    assert_eq!(
        (&row["action"], &row["title"]),
        (&json!("updated"), &json!("b"))
    );
}

fn a_new_policy_is_added_and_used(store: Store) {
    let node = store.serve("");
    let told = put(
        &node,
        "/v1/policies/shop.order:v1",
        &json!({"source": "shop", "content_type": "order", "conflict_action": "skip"}),
    );
    assert_eq!(
        (&told["source"], &told["enabled"]),
        (&json!("shop"), &json!(true))
    );
    let entry = keyed("shop.order:v1", Some("7"), None);
    assert_eq!(insert(&node, &entry)["action"], "inserted");
    assert_eq!(insert(&node, &entry)["action"], "skipped");
}

fn what_cannot_be_a_policy_is_named(store: Store) {
    let node = store.serve("");
    for (key, body, place) in [
        (
            "telegram_link_v1",
            json!({"conflict_action": "replace"}),
            "/conflict_action",
        ),
        (
            "telegram_link_v1",
            json!({"update_fields": ["title = 'x'; DROP TABLE pkm.entries; --"]}),
            "/update_fields/0",
        ),
        (
            "telegram_link_v1",
            json!({"update_fields": ["title", "entry_id"]}),
            "/update_fields/1",
        ),
        (
            "telegram_link_v1",
            json!({"update_fields": ["idempotency_key_primary"]}),
            "/update_fields/0",
        ),
        (
            "telegram_link_v1",
            json!({"update_fields": ["tenant_id"]}),
            "/update_fields/0",
        ),
        (
            "telegram_link_v1",
            json!({"secondary_match": "never"}),
            "/secondary_match",
        ),
        ("telegram_link_v1", json!({"source": "a\u{0}b"}), "/source"),
        ("a'b%22", json!({}), "/policy_key"),
        ("%D1%8B", json!({}), "/policy_key"),
    ] {
        let answer = node.owner("PUT", &format!("/v1/policies/{key}"), &body.to_string());
        let details = refused(&answer, 400, "schema_validation_failed");
        assert_eq!(paths(&details), [place], "{body}");
    }
    let long = "k".repeat(101);
    let answer = node.owner("PUT", &format!("/v1/policies/{long}"), "{}");
    refused(&answer, 400, "schema_validation_failed");
    for body in [
        r#"{"enabled":"no"}"#,
        r#"{"policy_key":"x"}"#,
        "[]",
        r#"{"update_fields":"title"}"#,
    ] {
        let answer = node.owner("PUT", "/v1/policies/telegram_link_v1", body);
        refused(&answer, 400, "schema_validation_failed");
    }
    assert_eq!(keys(&get(&node, "/v1/policies")), SEEDS);
}

fn a_change_is_noted_with_who_made_it(store: Store) {
    let node = store.serve("");
    put(
        &node,
        "/v1/policies/telegram_link_v1?schema=pkm",
        &json!({"enabled": false}),
    );
    let audit = get(&node, "/v1/audit?action=policy_changed");
    let item = &audit["items"][0];
    assert_eq!(
        (
            &item["details"]["schema"],
            &item["details"]["policy"]["enabled"]
        ),
        (&json!("pkm"), &json!(false))
    );
    assert!(item["actor"].is_string(), "{item}");
}

fn the_command_lists_and_changes_them(store: Store) {
    let node = store.serve("");
    assert_eq!(keys(&node.command(&["policies", "list"])), SEEDS);
    assert_eq!(
        keys(&node.command(&["policies", "list", "--schema", "pkm_test"])),
        SEEDS
    );
    let told = node.command(&[
        "policies",
        "set",
        "telegram_link_v1",
        "--conflict-action",
        "update",
        "--update-fields",
        "title, author",
        "--enabled",
        "false",
    ]);
    assert_eq!(told["schemas"], json!(["pkm", "pkm_test"]));
    for schema in ["pkm", "pkm_test"] {
        let policy = policy(&node, schema, "telegram_link_v1");
        assert_eq!(
            (&policy["conflict_action"], &policy["enabled"]),
            (&json!("update"), &json!(false))
        );
        assert_eq!(policy["update_fields"], json!(["title", "author"]));
    }
    node.command(&[
        "policies",
        "set",
        "telegram_link_v1",
        "--update-fields",
        "*",
        "--schema",
        "pkm",
    ]);
    assert_eq!(
        policy(&node, "pkm", "telegram_link_v1")["update_fields"],
        Value::Null
    );
    assert_eq!(
        policy(&node, "pkm_test", "telegram_link_v1")["update_fields"],
        json!(["title", "author"])
    );
    let output = node.run(&["policies", "list"], 0);
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 4);
    assert!(
        lines.contains("telegram_link_v1\ttelegram\tlink\tupdate\t*\talways\tno\n"),
        "{lines}"
    );
    let output = node.run(
        &["policies", "set", "telegram_link_v1", "--enabled", "true"],
        0,
    );
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        said,
        "policy telegram_link_v1 in pkm and pkm_test: update on conflict, enabled\n"
    );
    let audit = get(&node, "/v1/audit?action=policy_changed");
    assert_eq!(audit["items"][0]["actor"], "hapax policies set");
}

fn the_command_refuses_what_cannot_be_a_policy(store: Store) {
    let node = store.serve("");
    for wrong in [
        &[
            "policies",
            "set",
            "telegram_link_v1",
            "--conflict-action",
            "replace",
        ][..],
        &[
            "policies",
            "set",
            "telegram_link_v1",
            "--update-fields",
            "entry_id",
        ],
        &["policies", "set", "a b"],
        &["policies", "list", "--schema", "public"],
    ] {
        node.run(wrong, 2);
    }
}

on_both_stores!(
    both_schemas_begin_with_the_four_of_the_seed,
    a_change_is_in_both_schemas_unless_one_is_named,
    a_change_decides_the_next_write,
    a_new_policy_is_added_and_used,
    what_cannot_be_a_policy_is_named,
    a_change_is_noted_with_who_made_it,
    the_command_lists_and_changes_them,
    the_command_refuses_what_cannot_be_a_policy,
);
