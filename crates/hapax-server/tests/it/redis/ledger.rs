//! `--redis-mode ledger`: keys are claimed in Redis, and the program says what that is worth.

use super::server::Server as Redis;
use super::{action, metric, node, settle, url};
use crate::fixture::{json, refused};

#[test]
fn nodes_share_keys_in_redis_and_say_that_it_is_best_effort() {
    for redis in [url("HAPAX_TEST_REDIS"), url("HAPAX_TEST_REDIS_CLUSTER")] {
        let arguments = ["--redis", redis.as_str(), "--redis-mode", "ledger"];
        let (one, two) = (node(&arguments), node(&arguments));
        let key = uuid::Uuid::new_v4().to_string();
        let id = settle(&one, &key);
        assert_eq!(action(&two, &key), "replay");
        let health = one.send("GET", "/health", &[], b"").json();
        assert_eq!(
            (&health["store"], &health["durability"]),
            (&"redis".into(), &"best_effort".into())
        );
        assert_eq!(one.send("GET", "/ready", &[], b"").status, 200);
        let info = "hapax_ledger_info{store=\"redis\",durability=\"best_effort\"}";
        assert_eq!(metric(&one, info), 1);
        assert!(one.log().contains("may be lost on failover"));
        // The refusal: Redis lists nothing.
        let list = one.bearing(super::TOKEN, "GET", "/v1/keys", "");
        assert_eq!(list.refusal(), (501, "not_supported".to_owned()));
        // What an operator does is noted in the database.
        let deleted = one.bearing(super::TOKEN, "DELETE", &format!("/v1/keys/{id}"), "");
        assert!((200..300).contains(&deleted.status), "{}", deleted.text());
        let trail = one.bearing(super::TOKEN, "GET", "/v1/audit", "").json();
        let notes = trail["items"].as_array().unwrap();
        assert!(
            notes
                .iter()
                .any(|note| note["action"] == "key_deleted" && note["key_id"] == id.as_str())
        );
        assert_eq!(action(&two, &key), "process");
    }
}

#[test]
fn a_redis_that_throws_keys_away_is_refused_and_the_doctor_says_why() {
    let redis = Redis::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let url = redis.url();
    let flags = [
        "--data",
        data,
        "--redis",
        url.as_str(),
        "--redis-mode",
        "ledger",
    ];
    let serve = [&["serve", "--listen", "127.0.0.1:0"], &flags[..]].concat();
    assert!(refused(&serve, 1).contains("noeviction"));
    let doctor = [&["doctor", "--listen", "127.0.0.1:0", "--json"], &flags[..]].concat();
    let output = crate::fixture::run(&doctor);
    assert_eq!(output.status.code(), Some(1));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |what: &str| {
        let items = found["items"].as_array().unwrap();
        items
            .iter()
            .find(|item| item["check"] == what)
            .unwrap()
            .clone()
    };
    assert_eq!(of("redis")["status"], "ok");
    assert_eq!(of("redis memory")["status"], "fail");
    assert_eq!(of("redis disk")["status"], "warn");
    // As a cache the same server is just right.
    let cache = [
        "doctor",
        "--listen",
        "127.0.0.1:0",
        "--data",
        data,
        "--redis",
        &url,
    ];
    let found = json(&cache);
    let items = found["items"].as_array().unwrap();
    assert!(
        items
            .iter()
            .any(|item| item["check"] == "redis memory" && item["status"] == "ok")
    );
}

#[test]
fn a_mode_without_a_redis_and_a_url_that_is_none_are_wrong_use() {
    assert!(refused(&["serve", "--redis-mode", "ledger"], 2).contains("--redis"));
    let said = refused(&["serve", "--redis", "http://:hunter2@h"], 2);
    assert!(
        said.contains("redis://") && !said.contains("hunter2"),
        "{said}"
    );
}
