//! Who may do what with entries, and that two tenants never meet.

use serde_json::{Value, json};

use super::{get, insert, keyed, posted, pull, thought};
use crate::both::{Store, on_both_stores};

fn everybody_reads_a_writer_writes_and_an_owner_decides(store: Store) {
    let node = store.serve("");
    let viewer = node.token_of("default", "viewer");
    let writer = node.token_of("default", "writer");
    let reading = [
        ("GET", "/config", ""),
        ("GET", "/db/test-mode", ""),
        ("GET", "/v1/policies", ""),
        ("POST", "/db/read/last", "{}"),
        ("POST", "/db/read/find", r#"{"q":"x"}"#),
        ("POST", "/db/read/continue", r#"{"q":"x"}"#),
    ];
    let message = thought(1, 1, "hello").to_string();
    let writing = [
        ("POST", "/normalize/telegram", message.as_str()),
        (
            "POST",
            "/normalize/email",
            r#"{"raw_text":"a","from":"b@example.org","subject":"c"}"#,
        ),
        ("POST", "/normalize/webpage", r#"{"text":"a"}"#),
        ("POST", "/ingest/telegram/update", r#"{"update_id":1}"#),
        ("POST", "/db/insert", r#"{"source":"web","title":"t"}"#),
        ("POST", "/db/update", r#"{"entry_id":7000,"title":"x"}"#),
    ];
    let deciding = [
        ("POST", "/db/test-mode/set", r#"{"is_test_mode":false}"#),
        ("PUT", "/v1/policies/telegram_link_v1", "{}"),
    ];
    let ask = |token: &str, (method, path, body): (&str, &str, &str)| {
        let answer = node.bearing(token, method, path, body);
        assert!(
            [200, 403].contains(&answer.status),
            "{path}: {}",
            answer.text()
        );
        answer.status == 200
    };
    for asked in reading {
        assert!(ask(&viewer, asked) && ask(&writer, asked), "{asked:?}");
    }
    for asked in writing {
        assert!(!ask(&viewer, asked) && ask(&writer, asked), "{asked:?}");
    }
    for asked in deciding {
        assert!(!ask(&viewer, asked) && !ask(&writer, asked), "{asked:?}");
        assert!(ask(&node.token(), asked));
    }
    for (method, path, body) in [&reading[..], &writing, &deciding].concat() {
        let answer = node.send(method, path, &[], body.as_bytes());
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()), "{path}");
    }
}

fn the_same_key_of_two_tenants_is_two_entries(store: Store) {
    let node = store.serve("");
    let stranger = node.token_of(super::OTHER, "owner");
    let theirs = |method: &str, path: &str, body: &Value| {
        let body = if method == "GET" {
            String::new()
        } else {
            body.to_string()
        };
        node.bearing(&stranger, method, path, &body)
    };
    let entry = super::with(
        &keyed("telegram_link_v1", Some("k"), Some("s")),
        &json!({"title": "tea"}),
    );
    let ours = insert(&node, &entry);
    let told = super::only(&theirs("POST", "/db/insert", &entry).json());
    assert_eq!(
        told["action"], "inserted",
        "what another tenant has is new here"
    );
    assert_ne!(told["id"], ours["id"]);
    for (name, value) in [("entry_id", &ours["entry_id"]), ("id", &ours["id"])] {
        if *value == told[name] {
            continue;
        }
        let change = json!({name: value, "title": "stolen"});
        assert_eq!(theirs("POST", "/db/update", &change).json(), json!([]));
    }
    assert_eq!(pull(&node, &ours["entry_id"])["title"], "tea");
    let found = theirs("POST", "/db/read/find", &json!({"q": "tea"})).json();
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!(found[0]["id"], told["id"]);
    let last = posted(&node, "/db/read/last", &json!({}));
    assert_eq!(last.as_array().unwrap().len(), 1);
    if ours["entry_id"] != told["entry_id"] {
        let pulled = theirs(
            "POST",
            "/db/read/pull",
            &json!({"entry_id": ours["entry_id"]}),
        );
        assert_eq!(pulled.refusal(), (404, "not_found".to_owned()));
        let old = theirs(
            "GET",
            &format!("/v1/entries/{}/revisions", ours["entry_id"]),
            &json!({}),
        );
        assert_eq!(old.refusal(), (404, "not_found".to_owned()));
    }
}

fn policies_of_two_tenants_are_apart(store: Store) {
    let node = store.serve("");
    let stranger = node.token_of(super::OTHER, "owner");
    let theirs = |method: &str, path: &str, body: &str| node.bearing(&stranger, method, path, body);
    let list = theirs("GET", "/v1/policies", "").json();
    assert_eq!(
        list["items"].as_array().unwrap().len(),
        4,
        "the seed's, on the first look"
    );
    let off = theirs(
        "PUT",
        "/v1/policies/telegram_link_v1",
        r#"{"enabled":false}"#,
    );
    assert_eq!(off.status, 200, "{}", off.text());
    assert_eq!(theirs("PUT", "/v1/policies/mine", "{}").status, 200);
    let ours = get(&node, "/v1/policies");
    assert_eq!(ours["items"].as_array().unwrap().len(), 4);
    assert!(
        ours["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|item| item["enabled"] == true)
    );
    let entry = keyed("telegram_link_v1", Some("k"), None);
    assert_eq!(insert(&node, &entry)["action"], "inserted");
    let answer = theirs("POST", "/db/insert", &entry.to_string());
    assert_eq!(answer.refusal(), (400, "policy_disabled".to_owned()));
    let audit = get(&node, "/v1/audit?action=policy_changed");
    assert_eq!(audit["items"], json!([]));
}

on_both_stores!(
    everybody_reads_a_writer_writes_and_an_owner_decides,
    the_same_key_of_two_tenants_is_two_entries,
    policies_of_two_tenants_are_apart,
);
