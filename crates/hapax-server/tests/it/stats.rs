//! What is counted: a tenant's figures, and Prometheus'.

use serde_json::json;

use crate::both::{Store, claim, completed, on_both_stores};
use crate::fixture::Server;

const OTHER: &str = "22222222-2222-2222-2222-222222222222";

fn echo(server: &Server, key: &str, body: &str) -> u16 {
    let bearer = format!("Bearer {}", server.token());
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
    server
        .send("POST", "/v1/echo", &headers, body.as_bytes())
        .status
}

/// The value of the one series with this name and these labels.
fn figure(metrics: &str, series: &str) -> Option<f64> {
    let line = metrics
        .lines()
        .find(|line| line.starts_with(&format!("{series} ")))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

fn a_tenant_sees_its_own_figures_by_the_names_of_the_seed(store: Store) {
    let server = store
        .serve("[[routes]]\npattern = 'POST:echo'\nrequired = true\n[[routes]]\npattern = '*:*'\n");
    let pay = |amount: u32| json!({"key": "k", "method": "POST", "path": "/pay", "body": amount});
    completed(&server, &pay(1), &json!("paid"));
    assert_eq!(claim(&server, &pay(1))["action"], "replay");
    assert_eq!(claim(&server, &pay(2))["action"], "conflict");
    assert_eq!(echo(&server, "k", "{}"), 200, "the layer's door counts too");
    assert_eq!(echo(&server, "k", "{}"), 200);
    assert_eq!(echo(&server, "two words", "{}"), 400);
    assert_eq!(server.owner("POST", "/v1/echo", "{}").status, 400);
    let mut expired = json!({"key": "e", "method": "POST", "path": "/pay", "ttl_seconds": 0});
    completed(&server, &expired, &json!("paid"));
    expired["ttl_seconds"] = json!(60);
    while claim(&server, &expired)["action"] == "replay" {}
    assert_eq!(server.owner("POST", "/v1/sweep", "").status, 200);

    let stats = server.owner("GET", "/v1/stats", "").json();
    assert_eq!(stats.as_object().unwrap().len(), 11, "{stats}");
    assert!(stats["total_requests"].as_u64().unwrap() >= 9, "{stats}");
    assert!(stats["replayed_requests"].as_u64().unwrap() >= 2, "{stats}");
    for (name, value) in [
        ("conflict_requests", 1),
        ("expired_keys", 1),
        ("cleanup_operations", 1),
        ("key_generation_errors", 2),
        ("storage_failures", 0),
        ("cleanup_failures", 0),
    ] {
        assert_eq!(stats[name], value, "{name} in {stats}");
    }
    let rate = stats["cache_hit_rate"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&rate), "{stats}");
    for mean in ["avg_lookup_time", "avg_storage_time"] {
        assert!(stats[mean].as_f64().unwrap() > 0.0, "{mean} in {stats}");
    }

    let stranger = server.token_of(OTHER, "viewer");
    let theirs = server.bearing(&stranger, "GET", "/v1/stats", "").json();
    assert_eq!(
        (&theirs["total_requests"], &theirs["conflict_requests"]),
        (&json!(0), &json!(0)),
        "another tenant's requests are not theirs"
    );
}

fn prometheus_counts_by_route_and_action(store: Store) {
    let server = store.serve("[[routes]]\npattern = '*:*'\n[[routes]]\npattern = 'POST:pay'\n");
    let pay = |amount: u32| json!({"key": "k", "method": "POST", "path": "/pay", "body": amount});
    let granted = claim(&server, &pay(1));
    assert_eq!(claim(&server, &pay(1))["action"], "in_progress");
    let outcome = json!({"token": granted["token"], "status": 200});
    crate::both::post(&server, &granted["id"], "complete", &outcome);
    claim(&server, &pay(1));
    claim(&server, &pay(2));
    echo(&server, "k", "{}");
    echo(&server, "k", "{}");
    echo(&server, "two words", "{}");
    assert_eq!(server.owner("POST", "/v1/sweep", "").status, 200);

    let metrics = server.send("GET", "/metrics", &[], b"").text();
    for (series, value) in [
        (
            r#"hapax_requests_total{route="POST:pay",action="process"}"#,
            1.0,
        ),
        (
            r#"hapax_requests_total{route="POST:pay",action="in_progress"}"#,
            1.0,
        ),
        (
            r#"hapax_requests_total{route="POST:pay",action="replay"}"#,
            1.0,
        ),
        (
            r#"hapax_requests_total{route="POST:pay",action="conflict"}"#,
            1.0,
        ),
        (r#"hapax_requests_total{route="*:*",action="process"}"#, 1.0),
        (r#"hapax_requests_total{route="*:*",action="replay"}"#, 1.0),
        (r#"hapax_requests_total{route="*:*",action="error"}"#, 1.0),
        (r#"hapax_key_errors_total{route="*:*"}"#, 1.0),
        (r#"hapax_cleanup_operations_total{result="ok"}"#, 1.0),
        (r#"hapax_keys_expired_total{found_by="sweep"}"#, 0.0),
        (r#"hapax_lookup_seconds_count{route="POST:pay"}"#, 4.0),
        (r#"hapax_store_seconds_count{route="POST:pay"}"#, 1.0),
    ] {
        assert_eq!(
            figure(&metrics, series),
            Some(value),
            "{series} in {metrics}"
        );
    }
    let hits = figure(&metrics, "hapax_cache_hits_total").unwrap();
    let misses = figure(&metrics, "hapax_cache_misses_total").unwrap();
    assert!(
        (hits + misses - 6.0).abs() < f64::EPSILON,
        "{hits} {misses}"
    );
}

on_both_stores![
    a_tenant_sees_its_own_figures_by_the_names_of_the_seed,
    prometheus_counts_by_route_and_action,
];

#[test]
fn routes_that_nobody_configured_share_a_label() {
    let server = Server::start();
    for n in 0..260 {
        let request = json!({"key": "k", "method": "POST", "path": format!("/r{n}x")});
        claim(&server, &request);
    }
    let metrics = server.send("GET", "/metrics", &[], b"").text();
    let routes = metrics
        .lines()
        .filter(|line| line.starts_with("hapax_requests_total{"))
        .count();
    assert_eq!(routes, 1);
    let rest = r#"hapax_requests_total{route="other",action="process"}"#;
    assert_eq!(figure(&metrics, rest), Some(260.0));
}

#[test]
fn neither_bodies_nor_secrets_reach_the_log() {
    let server = Server::start_with(|command| {
        command.env("HAPAX_LOG", "trace");
    });
    let request = json!({"key": "k", "method": "POST", "path": "/pay?query=planted-1", "body": {"name": "planted-2"}});
    completed(&server, &request, &json!("planted-3"));
    let mut other = request.clone();
    other["body"] = json!({"name": "planted-4"});
    assert_eq!(claim(&server, &other)["action"], "conflict");
    let bearer = format!("Bearer {}", server.token());
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    server.send(
        "POST",
        "/v1/echo?planted-5",
        &headers,
        br#"{"name":"planted-6"}"#,
    );
    let log = server.log();
    assert!(!log.contains("planted-"), "{log}");
    assert!(!log.contains(&server.token()), "{log}");
}
