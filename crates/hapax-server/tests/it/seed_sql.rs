//! The SQL that the seed of the keys prints, run as printed on PostgreSQL, and what people read beside it.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::both::{Node, Store};
use crate::fixture::Server;

/// The three monitoring queries, letter by letter.
const MONITORING: &str = include_str!("seed_sql/monitoring.sql");
const TENANT: &str = "00000000-0000-0000-0000-000000000000";

/// What somebody is told by these statements, and whether they were taken.
fn asked(url: &str, statements: &[&str]) -> (bool, String) {
    let all = statements.iter().flat_map(|statement| ["-c", statement]);
    let output = Command::new("psql")
        .args([url, "-qAt", "-v", "ON_ERROR_STOP=1"])
        .args(all)
        .output()
        .expect("psql is installed");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(said).unwrap().trim().to_owned(),
    )
}

/// What a superuser is answered.
fn told(node: &Node, statement: &str) -> String {
    let (is_taken, said) = asked(&node.store[1], &[statement]);
    assert!(is_taken, "{statement}: {said}");
    said
}

/// What a role that drops to `role` is answered about this tenant.
fn told_as(node: &Node, role: &str, tenant: &str, statement: &str) -> (bool, String) {
    let (role, tenant) = (
        format!("SET ROLE {role}"),
        format!("SET hapax.tenant = '{tenant}'"),
    );
    asked(&node.store[1], &[&role, &tenant, statement])
}

/// The queries, each by itself.
fn queries() -> Vec<&'static str> {
    let queries: Vec<&str> = MONITORING.split_inclusive(';').map(str::trim).collect();
    let queries: Vec<&str> = queries
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    assert_eq!(queries.len(), 3);
    queries
}

/// Claims and completes a key with these bodies.
fn settled(node: &Server, key: &str, body: &Value, answer: &Value) -> Value {
    let claim = json!({"key": key, "method": "POST", "path": "/payments/link", "body": body});
    let claimed = node
        .owner("POST", "/v1/keys/claim", &claim.to_string())
        .json();
    let (id, token) = (claimed["id"].as_str().unwrap(), &claimed["token"]);
    let done = json!({"token": token, "status": 201, "body": answer});
    let path = format!("/v1/keys/{id}/complete");
    assert_eq!(node.owner("POST", &path, &done.to_string()).status, 200);
    claimed
}

/// A server with a settled key, a conflict under it, and a key that has expired.
fn busy() -> Node {
    let node = Store::Postgres.serve("");
    settled(&node, "one", &json!({"amount": 1}), &json!({"link": "a"}));
    let other =
        json!({"key": "one", "method": "POST", "path": "/payments/link", "body": {"amount": 2}});
    let refused = node
        .owner("POST", "/v1/keys/claim", &other.to_string())
        .json();
    assert_eq!(refused["action"], "conflict", "{refused}");
    settled(&node, "old", &json!({"amount": 3}), &json!({"link": "b"}));
    told(
        &node,
        "UPDATE idempotency_keys SET expires_at = now() - interval '1 hour' WHERE idempotency_key LIKE '%old'",
    );
    let until = Instant::now() + Duration::from_secs(60);
    let noted = "SELECT count(*) FROM audit_log WHERE action = 'idempotency_conflict'";
    while told(&node, noted) != "1" {
        assert!(Instant::now() < until, "the conflict is never noted");
        std::thread::sleep(Duration::from_millis(20));
    }
    node
}

#[test]
fn the_monitoring_queries_run_as_printed() {
    let node = busy();
    let [usage, conflicts, times] = queries()[..] else {
        panic!("there are three");
    };
    let used = told(&node, usage);
    assert!(
        used.starts_with(&format!("{TENANT}|POST:payments-link|2|2|")),
        "{used}"
    );
    let (hour, count) = told(&node, conflicts)
        .rsplit_once('|')
        .map(|(hour, count)| (hour.to_owned(), count.to_owned()))
        .unwrap();
    assert!(hour.contains(":00:00"), "{hour}");
    assert_eq!(count, "1");
    let kept = told(&node, times);
    assert!(kept.starts_with("POST:payments-link|2|1|"), "{kept}");
}

#[test]
fn a_reading_role_sees_its_tenant_and_no_other() {
    let node = busy();
    let reads = [
        "SELECT count(*) FROM audit_log",
        "SELECT count(*) FROM idempotency_requests",
    ];
    for query in queries().into_iter().chain(reads) {
        let (is_taken, mine) = told_as(&node, "hapax_app", TENANT, query);
        assert!(
            is_taken && !mine.is_empty() && mine != "0",
            "{query}: {mine}"
        );
        let other = "11111111-1111-1111-1111-111111111111";
        let (is_taken, theirs) = told_as(&node, "hapax_app", other, query);
        assert!(
            is_taken && (theirs.is_empty() || theirs == "0"),
            "{query}: {theirs}"
        );
        let (is_taken, said) = asked(&node.store[1], &["SET ROLE hapax_janitor", query]);
        assert!(
            !is_taken || query.contains("FROM idempotency_keys"),
            "{query}: {said}"
        );
    }
    // Neither the view nor its function lets anything be written, and the program starts beside them.
    let (is_taken, said) = told_as(
        &node,
        "hapax_app",
        TENANT,
        "DELETE FROM idempotency_requests",
    );
    assert!(!is_taken, "{said}");
    node.run(&["doctor", "--listen", "127.0.0.1:0"], 0);
}

#[test]
fn what_was_asked_and_answered_is_readable_unless_it_is_no_json_packed_or_sealed() {
    let node = Store::Postgres.serve("");
    settled(
        &node,
        "plain",
        &json!({"a": [1, "ü"]}),
        &json!({"ok": true}),
    );
    let long = "tea ".repeat(1000);
    settled(
        &node,
        "packed",
        &json!({ "a": long }),
        &json!({ "b": long }),
    );
    let claim = json!({"key": "text", "method": "POST", "path": "/x", "body_base64": "/w==", "content_type": "text/plain"});
    node.owner("POST", "/v1/keys/claim", &claim.to_string());
    let read = |key: &str, columns: &str| {
        told(
            &node,
            &format!(
                "SELECT {columns} FROM idempotency_requests WHERE idempotency_key LIKE '%{key}'"
            ),
        )
    };
    assert_eq!(
        read("plain", "request->'a'->>1, response, response_status_code"),
        "ü|{\"ok\": true}|201"
    );
    assert_eq!(read("packed", "request IS NULL, response IS NULL"), "t|t");
    assert_eq!(read("text", "request IS NULL, response IS NULL"), "t|t");
}

#[test]
fn a_sealed_body_is_not_readable() {
    let url = crate::postgres::database();
    let server = Server::start_with(|command| {
        let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        command.args(["--database", &url]).env("HAPAX_KEK", key);
    });
    settled(&server, "sealed", &json!({"a": 1}), &json!({"b": 2}));
    let read =
        "SELECT request IS NULL, response IS NULL, response_status_code FROM idempotency_requests";
    assert_eq!(asked(&url, &[read]), (true, "t|t|201".to_owned()));
}

#[test]
fn the_cleanup_function_empties_what_has_expired_and_answers_how_many() {
    let node = busy();
    let cleanup = "SELECT cleanup_expired_idempotency_keys()";
    assert_eq!(told(&node, cleanup), "1");
    assert_eq!(told(&node, cleanup), "0");
    let kept = "SELECT count(*) FILTER (WHERE response_body IS NOT NULL), count(*) FILTER (WHERE state = 'expired'), \
                bool_and(request_body IS NULL) FILTER (WHERE state = 'expired') FROM idempotency_keys";
    assert_eq!(told(&node, kept), "1|1|t");
    let noted =
        "SELECT details->>'deleted_count' FROM audit_log WHERE action = 'cleanup_idempotency_keys'";
    assert_eq!(told(&node, noted), "1");
    // A retry after it is told that the key had expired: the tombstone is there.
    let claim =
        json!({"key": "old", "method": "POST", "path": "/payments/link", "body": {"amount": 3}});
    let again = node
        .owner("POST", "/v1/keys/claim", &claim.to_string())
        .json();
    assert_eq!(
        (&again["action"], &again["expired"]),
        (&json!("process"), &json!(true))
    );
}

#[test]
fn only_who_may_become_the_sweeper_cleans_up() {
    let node = busy();
    let (is_taken, said) = told_as(
        &node,
        "hapax_app",
        TENANT,
        "SELECT cleanup_expired_idempotency_keys()",
    );
    assert!(!is_taken && said.contains("permission denied"), "{said}");
    let name = format!("reader_{}", uuid::Uuid::new_v4().simple());
    told(
        &node,
        &format!(
            "CREATE ROLE {name} LOGIN; GRANT hapax_app TO {name}; GRANT EXECUTE ON FUNCTION cleanup_expired_idempotency_keys TO {name}"
        ),
    );
    let host = node.store[1].split_once("://").unwrap().1;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let (is_taken, said) = asked(
        &format!("postgres://{name}@{host}"),
        &["SELECT cleanup_expired_idempotency_keys()"],
    );
    assert!(
        !is_taken && said.contains("permission denied to set role"),
        "{said}"
    );
    told(&node, &format!("DROP OWNED BY {name}; DROP ROLE {name}"));
    assert_eq!(
        told(
            &node,
            "SELECT count(*) FROM idempotency_keys WHERE state = 'expired'"
        ),
        "0"
    );
}
