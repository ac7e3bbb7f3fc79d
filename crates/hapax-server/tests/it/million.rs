//! A million keys, jobs and notes: every list that a page of the dashboard reads first answers in time. It fills tables by
//! SQL and takes minutes, so it runs when it is asked for:
//! `dev/with-postgres cargo nextest run -p hapax-server --run-ignored only million`.

mod kept;

use std::process::Command;
use std::time::{Duration, Instant};

use hapax_store::sqlite::rusqlite::Connection;
use serde_json::json;

use crate::both::{Node, Store, completed};

/// How soon a page has its first data.
const WITHIN: Duration = Duration::from_millis(300);

/// What every page asks for first, and what people search for.
const ROUTES: &[&str] = &[
    "/session",
    "/v1/overview",
    "/v1/keys",
    "/v1/keys?limit=500",
    "/v1/keys?q=many-77",
    "/v1/keys?q=many-500000",
    "/v1/keys?q=m",
    "/v1/keys?q=m&state=held",
    "/v1/keys?route=POST:rare",
    "/v1/keys?route=POST:nothing",
    "/v1/keys?state=held",
    "/v1/keys?state=in_doubt",
    "/v1/keys?state=settled",
    "/v1/jobs",
    "/v1/jobs?limit=500",
    "/v1/jobs?state=DEAD",
    "/v1/jobs?state=PLANNED",
    "/v1/jobs?kind=rare",
    "/v1/jobs?kind=enrich&state=FAILED",
    "/v1/jobs?held=true",
    "/v1/jobs?q=w-77",
    "/v1/jobs?q=many-500000",
    "/v1/jobs/stats",
    "/v1/audit",
    "/v1/audit?action=key_deleted",
    "/v1/audit?action=idempotency_replay",
    "/v1/receipts",
    "/v1/receipts?status=failed",
    "/v1/clarifications?status=open",
    "/v1/entries",
    "/v1/imports",
    "/status/t1/batch?include_terminal=true",
    "/v1/policies",
    "/v1/collections",
    "/v1/courses",
    "/v1/settings",
    "/v1/stats",
    "/health",
];

const SQLITE: &str = "
    PRAGMA synchronous = OFF;
    CREATE TEMP TABLE n AS WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000000) SELECT n FROM n;
    INSERT INTO idempotency_keys (id, tenant_id, idempotency_key, route_pattern, content_hash, request_method, request_path,
        request_content_type, request_body, request_body_apart, response_status_code, response_body, response_body_apart,
        response_headers, created_at, expires_at, completed_at, version, state, fingerprint, on_lost, lease_ms)
    SELECT randomblob(16), k.tenant_id, 'many-' || n, CASE n % 200000 WHEN 0 THEN 'POST:rare' ELSE k.route_pattern END,
           k.content_hash, k.request_method, k.request_path, k.request_content_type, k.request_body, k.request_body_apart,
           k.response_status_code, k.response_body, k.response_body_apart, k.response_headers, k.created_at - n * 10,
           k.expires_at, k.completed_at, k.version, k.state, k.fingerprint, k.on_lost, k.lease_ms
      FROM n, (SELECT * FROM idempotency_keys WHERE idempotency_key = 'template') AS k;
    INSERT INTO job (tenant_id, job_id, job_key, kind, place, state, standing, epoch, attempts, failures, max_attempts,
        available_at, redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at)
    SELECT j.tenant_id, 'many-' || n, 'many-' || n,
           CASE WHEN n % 200000 = 0 THEN 'rare' WHEN n % 2 THEN 'download' ELSE 'enrich' END, '',
           CASE n % 5 WHEN 0 THEN 'PLANNED' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'DEAD' ELSE 'INDEXED' END,
           CASE n % 5 WHEN 0 THEN 'ready' WHEN 1 THEN 'resting' ELSE 'off' END, 1, 1, 1, 5, j.available_at,
           j.redone, j.retried, 'w-' || (n % 100000), 'a', j.canonical_url, j.created_at, j.updated_at
      FROM n, (SELECT * FROM job WHERE work_id = 'template') AS j;
    INSERT INTO audit_log (tenant_id, at, action, details)
    SELECT k.tenant_id, k.created_at - n, CASE n % 200000 WHEN 0 THEN 'key_deleted' ELSE 'idempotency_replay' END, '{}'
      FROM n, (SELECT * FROM idempotency_keys WHERE idempotency_key = 'template') AS k;";

const POSTGRES: &str = "
    INSERT INTO idempotency_keys (id, tenant_id, idempotency_key, route_pattern, content_hash, request_method, request_path,
        request_content_type, request_body, response_status_code, response_body, response_headers, created_at, expires_at,
        completed_at, version, state, fingerprint, on_lost, lease_ms)
    SELECT gen_random_uuid(), k.tenant_id, 'many-' || n, CASE n % 200000 WHEN 0 THEN 'POST:rare' ELSE k.route_pattern END,
           k.content_hash, k.request_method, k.request_path, k.request_content_type, k.request_body, k.response_status_code,
           k.response_body, k.response_headers, k.created_at - n * interval '10 ms', k.expires_at, k.completed_at, k.version,
           k.state, k.fingerprint, k.on_lost, k.lease_ms
      FROM generate_series(1, 1000000) AS n, (SELECT * FROM idempotency_keys WHERE idempotency_key = 'template') AS k;
    INSERT INTO job (tenant_id, job_id, job_key, kind, place, state, standing, epoch, attempts, failures, max_attempts,
        available_at, redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at)
    SELECT j.tenant_id, 'many-' || n, 'many-' || n,
           CASE WHEN n % 200000 = 0 THEN 'rare' WHEN n % 2 = 1 THEN 'download' ELSE 'enrich' END, '',
           CASE n % 5 WHEN 0 THEN 'PLANNED' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'DEAD' ELSE 'INDEXED' END,
           CASE n % 5 WHEN 0 THEN 'ready' WHEN 1 THEN 'resting' ELSE 'off' END, 1, 1, 1, 5, j.available_at,
           j.redone, j.retried, 'w-' || (n % 100000), 'a', j.canonical_url, j.created_at, j.updated_at
      FROM generate_series(1, 1000000) AS n, (SELECT * FROM job WHERE work_id = 'template') AS j;
    INSERT INTO audit_log (tenant_id, at, action, details)
    SELECT k.tenant_id, k.created_at - n * interval '1 ms',
           CASE n % 200000 WHEN 0 THEN 'key_deleted' ELSE 'idempotency_replay' END, '{}'
      FROM generate_series(1, 1000000) AS n, (SELECT * FROM idempotency_keys WHERE idempotency_key = 'template') AS k;";

/// Makes of one key and one job a million of each.
fn fill(store: Store, node: &Node) {
    let claim = json!({"key": "template", "method": "POST", "path": "/orders", "body": {"a": 1}, "ttl_seconds": 86_400});
    completed(node, &claim, &json!({"ok": true}));
    let job =
        json!({"work_id": "template", "artifact_id": "a", "canonical_url": "https://example.org/"});
    assert_eq!(node.owner("POST", "/v1/jobs", &job.to_string()).status, 201);
    sql(store, node, (SQLITE, POSTGRES));
}

/// Runs the statements of this store beside the server.
fn sql(store: Store, node: &Node, (sqlite, postgres): (&str, &str)) {
    let started = Instant::now();
    match store {
        Store::Sqlite => {
            let file = Connection::open(node.data().join("hapax.db")).unwrap();
            file.busy_timeout(Duration::from_secs(60)).unwrap();
            file.execute_batch(sqlite).unwrap();
        }
        Store::Postgres => {
            let url = node.store.last().unwrap();
            let filled = Command::new("psql").args([url, "-qc", postgres]).status();
            assert!(filled.unwrap().success());
        }
    }
    println!("{store:?} filled in {:.1?}", started.elapsed());
}

fn measure(store: Store) {
    let node = store.serve("access_log = false\n");
    fill(store, &node);
    in_time(store, &node, ROUTES.iter().map(|route| (*route).to_owned()));
}

/// Asks for each a few times. The first answer has to be there in time.
fn in_time(store: Store, node: &Node, routes: impl Iterator<Item = String>) {
    let mut late = Vec::new();
    for route in routes {
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..5 {
            let started = Instant::now();
            let answer = node.owner("GET", &route, "");
            times.push(started.elapsed());
            assert_eq!(answer.status, 200, "{route}: {}", answer.text());
        }
        let (first, worst) = (times[0], *times.iter().max().unwrap());
        println!("{store:?} {route}: first {first:.1?}, worst of five {worst:.1?}");
        if first > WITHIN {
            late.push((route, first));
        }
    }
    assert!(late.is_empty(), "{late:?}");
}

#[test]
#[ignore = "fills a database with three million rows"]
fn every_page_has_its_first_data_in_time_on_sqlite() {
    measure(Store::Sqlite);
}

#[test]
#[ignore = "fills a database with three million rows"]
fn every_page_has_its_first_data_in_time_on_postgres() {
    measure(Store::Postgres);
}
