//! The test mode: where writes go, seen at once by every node.

use std::sync::Barrier;

use serde_json::{Value, json};

use super::{get, insert, keyed, posted, refused};
use crate::both::{Node, Store, on_both_stores};
use crate::fixture::Server;

fn mode(node: &Node) -> bool {
    let told = get(node, "/db/test-mode");
    assert_eq!(told, json!([{"is_test_mode": told[0]["is_test_mode"]}]));
    told[0]["is_test_mode"].as_bool().unwrap()
}

fn titles(node: &Node) -> Vec<String> {
    let rows = posted(node, "/db/read/last", &json!({}));
    let titles = rows.as_array().unwrap().iter();
    titles
        .map(|row| row["title"].as_str().unwrap().to_owned())
        .collect()
}

fn it_decides_where_writes_and_reads_go(store: Store) {
    let node = store.serve("");
    assert!(!mode(&node));
    insert(&node, &json!({"source": "web", "title": "real"}));
    let on = posted(&node, "/db/test-mode/set", &json!({"is_test_mode": true}));
    assert_eq!(on, json!([{"is_test_mode": true}]));
    insert(&node, &json!({"source": "web", "title": "trial"}));
    assert_eq!(titles(&node), ["trial"]);
    assert_eq!(
        posted(&node, "/db/test-mode/toggle", &json!({})),
        json!([{"is_test_mode": false}])
    );
    assert_eq!(titles(&node), ["real"]);
    let off = posted(&node, "/db/test-mode/set", &json!({"is_test_mode": false}));
    assert_eq!(off, json!([{"is_test_mode": false}]), "said twice");
    assert!(!mode(&node));
}

fn the_same_key_in_two_schemas_is_two_entries(store: Store) {
    let node = store.serve("");
    let entry = keyed("telegram_link_v1", Some("k"), Some("s"));
    assert_eq!(insert(&node, &entry)["action"], "inserted");
    posted(&node, "/db/test-mode/toggle", &json!({}));
    assert_eq!(insert(&node, &entry)["action"], "inserted");
    assert_eq!(insert(&node, &entry)["action"], "skipped");
}

fn it_survives_a_restart(store: Store) {
    let node = store.serve("");
    posted(&node, "/db/test-mode/toggle", &json!({}));
    let node = node.restarted();
    assert!(mode(&node));
}

fn it_is_not_part_of_the_static_config_and_is_noted(store: Store) {
    let node = store.serve("");
    let before = get(&node, "/config");
    posted(&node, "/db/test-mode/toggle", &json!({}));
    assert_eq!(get(&node, "/config"), before);
    assert!(!before.to_string().contains("test_mode"), "{before}");
    let audit = get(&node, "/v1/audit?action=test_mode_changed");
    assert_eq!(audit["items"][0]["details"], json!({"is_test_mode": true}));
}

fn what_it_shall_be_is_true_or_false(store: Store) {
    let node = store.serve("");
    for body in [
        "{}",
        r#"{"is_test_mode":"true"}"#,
        r#"{"is_test_mode":1}"#,
        r#"{"is_test_mode":true,"x":1}"#,
        "[true]",
    ] {
        let answer = node.owner("POST", "/db/test-mode/set", body);
        refused(&answer, 400, "schema_validation_failed");
    }
    assert!(!mode(&node));
}

fn each_tenant_has_its_own(store: Store) {
    let node = store.serve("");
    let stranger = node.token_of(super::OTHER, "owner");
    let theirs = |method: &str, path: &str| node.bearing(&stranger, method, path, "").json();
    assert_eq!(
        theirs("POST", "/db/test-mode/toggle"),
        json!([{"is_test_mode": true}])
    );
    assert!(!mode(&node));
    assert_eq!(
        theirs("GET", "/db/test-mode"),
        json!([{"is_test_mode": true}])
    );
}

/// Toggles so many times at once, over these servers in turn.
fn toggles(servers: &[&Server], token: &str, count: usize) -> Vec<Value> {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let clients: Vec<_> = servers
            .iter()
            .cycle()
            .take(count)
            .map(|server| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let answer = server.bearing(token, "POST", "/db/test-mode/toggle", "");
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    answer.json()[0]["is_test_mode"].clone()
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    })
}

fn toggles_at_once_do_not_lose_each_other(store: Store) {
    let node = store.serve("");
    let told = toggles(&[&node], &node.token(), 50);
    assert_eq!(told.iter().filter(|told| **told == true).count(), 25);
    assert!(!mode(&node));
    toggles(&[&node], &node.token(), 5);
    assert!(mode(&node));
}

#[test]
fn toggles_on_two_nodes_at_once_end_where_they_should() {
    let node = Store::Postgres.serve("");
    let second = Server::start_with(|command| {
        command.args(&node.store).arg("--no-worker");
    });
    let told = toggles(&[&node, &second], &node.token(), 50);
    assert_eq!(told.iter().filter(|told| **told == true).count(), 25);
    for server in [&*node, &second] {
        let shown = server.bearing(&node.token(), "GET", "/db/test-mode", "");
        assert_eq!(shown.json(), json!([{"is_test_mode": false}]));
    }
    // A write on one node sees at once what the other one said.
    for round in 0..20 {
        let is_on = round % 2 == 0;
        let set = json!({"is_test_mode": is_on}).to_string();
        let set = second.bearing(&node.token(), "POST", "/db/test-mode/set", &set);
        assert_eq!(set.status, 200);
        insert(&node, &json!({"source": "web", "title": is_on.to_string()}));
        assert!(
            titles(&node)
                .iter()
                .all(|title| *title == is_on.to_string())
        );
    }
}

on_both_stores!(
    it_decides_where_writes_and_reads_go,
    the_same_key_in_two_schemas_is_two_entries,
    it_survives_a_restart,
    it_is_not_part_of_the_static_config_and_is_noted,
    what_it_shall_be_is_true_or_false,
    each_tenant_has_its_own,
    toggles_at_once_do_not_lose_each_other,
);
