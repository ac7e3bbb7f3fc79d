//! The audit trail: who did what to which key, newest first, and nobody else's.

use serde_json::{Value, json};

use crate::both::{Node, Store, claim, completed, on_both_stores};

const OTHER: &str = "33333333-3333-3333-3333-333333333333";

fn pay(key: &str, amount: u32) -> Value {
    json!({"key": key, "method": "POST", "path": "/pay", "body": {"secret": amount}})
}

fn audit(server: &Node, query: &str) -> Value {
    let answer = server.owner("GET", &format!("/v1/audit{query}"), "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn actions(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["action"].as_str().unwrap()).collect()
}

fn every_answer_and_every_word_of_an_operator_is_noted(store: Store) {
    let server = store.serve("");
    let id = completed(&server, &pay("k", 1), &json!("paid"));
    let id = id.as_str().unwrap();
    claim(&server, &pay("k", 1));
    claim(&server, &pay("k", 2));
    let path = format!("/v1/keys/{id}");
    assert_eq!(server.owner("DELETE", &path, "").status, 200);

    let page = audit(&server, "");
    let mut seen = actions(&page);
    seen.sort_unstable();
    assert_eq!(
        seen,
        ["idempotency_conflict", "idempotency_replay", "key_deleted"],
        "{page}"
    );
    for item in page["items"].as_array().unwrap() {
        assert_eq!(
            (&item["key_id"], &item["route_pattern"]),
            (&json!(id), &json!("POST:pay"))
        );
        assert!(item["at"].as_str().unwrap().ends_with('Z') && item["details"].is_object());
        assert_eq!(item.as_object().unwrap().len(), 6, "{item}");
    }
    let deleted = audit(&server, "?action=key_deleted");
    assert_eq!(actions(&deleted), ["key_deleted"]);
    let actor = deleted["items"][0]["actor"].as_str().unwrap();
    assert!(actor.starts_with("token "), "{actor}");
    assert!(!deleted.to_string().contains(&server.token()));
}

fn the_trail_is_read_by_key_and_by_page(store: Store) {
    let server = store.serve("");
    for key in ["a", "b"] {
        completed(&server, &pay(key, 1), &json!("paid"));
        for _ in 0..3 {
            claim(&server, &pay(key, 1));
        }
    }
    let id = claim(&server, &pay("a", 1))["id"].clone();
    let of_a = audit(&server, &format!("?key_id={}", id.as_str().unwrap()));
    assert_eq!(of_a["items"].as_array().unwrap().len(), 4);

    let mut seen = 0;
    let mut query = "?limit=3".to_owned();
    loop {
        let page = audit(&server, &query);
        seen += page["items"].as_array().unwrap().len();
        let Some(cursor) = page["next_cursor"].as_str() else {
            break;
        };
        query = format!("?limit=3&cursor={cursor}");
    }
    assert_eq!(seen, 7, "each once");

    for wrong in [
        "?action=nonsense",
        "?key_id=x",
        "?cursor=x",
        "?limit=0",
        "?limit=501",
        "?x=1",
    ] {
        let answer = server.owner("GET", &format!("/v1/audit{wrong}"), "");
        assert_eq!(
            answer.refusal(),
            (400, "schema_validation_failed".to_owned()),
            "{wrong}"
        );
    }
}

fn a_conflict_is_noted_by_its_paths_and_without_any_value(store: Store) {
    let server = store.serve("");
    let request = |body: Value| json!({"key": "k", "method": "POST", "path": "/pay", "body": body});
    let first =
        json!({"password": "planted-old", "note": "planted-note", "to": {"iban": "planted-1"}});
    let other = json!({"password": "planted-new", "to": {"iban": "planted-2"}, "cvv": "planted-3"});
    completed(&server, &request(first), &json!("paid"));
    let refused = claim(&server, &request(other));
    assert_eq!(refused["action"], "conflict", "{refused}");
    let page = audit(&server, "?action=idempotency_conflict");
    let details = &page["items"][0]["details"];
    let change = |path: &str, kind: &str| json!({"path": path, "kind": kind});
    assert_eq!(
        details["changes"],
        json!([
            change("note", "removed"),
            change("password", "changed"),
            change("to.iban", "changed"),
            change("cvv", "added"),
        ])
    );
    assert_eq!(
        (&details["changes_count"], &details["more"]),
        (&json!(4), &json!(0))
    );
    assert!(!page.to_string().contains("planted"), "{page}");
}

fn a_sweep_is_noted_and_another_tenant_sees_nothing_of_it(store: Store) {
    let server = store.serve("");
    let mut request = pay("k", 1);
    request["ttl_seconds"] = json!(0);
    completed(&server, &request, &json!("paid"));
    let swept = loop {
        let swept = server.owner("POST", "/v1/sweep", "").json();
        if swept["swept"] != 0 {
            break swept;
        }
    };
    assert_eq!(swept["swept"], 1, "{swept}");
    let page = audit(&server, "?action=cleanup_idempotency_keys");
    assert_eq!(actions(&page), ["cleanup_idempotency_keys"]);

    let stranger = server.token_of(OTHER, "owner");
    let theirs = server.bearing(&stranger, "GET", "/v1/audit", "").json();
    assert_eq!(theirs["items"], json!([]));
    assert_eq!(
        server.bearing(&stranger, "POST", "/v1/sweep", "").refusal(),
        (403, "forbidden".to_owned()),
        "a sweep is for all tenants"
    );
}

on_both_stores![
    every_answer_and_every_word_of_an_operator_is_noted,
    the_trail_is_read_by_key_and_by_page,
    a_conflict_is_noted_by_its_paths_and_without_any_value,
    a_sweep_is_noted_and_another_tenant_sees_nothing_of_it,
];
