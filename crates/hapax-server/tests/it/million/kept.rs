//! A million entries with their words, a million receipts and a million snapshots.

use serde_json::{Value, json};

use super::{in_time, sql};
use crate::both::{Node, Store};

/// What pages ask for first, what people search for, and what is rare.
const ROUTES: &[&str] = &[
    "/v1/overview",
    "/v1/entries",
    "/v1/entries?limit=500",
    "/v1/entries?source=note",
    "/v1/entries?source=rare",
    "/v1/entries?q=rare77",
    "/v1/entries?q=common",
    "/v1/entries?q=common%20once&source=rare",
    "/v1/entries?q=nothingofthekind",
    "/v1/entries/{entry}",
    "/v1/entries/{entry}/revisions",
    "/v1/receipts",
    "/v1/receipts?limit=500",
    "/v1/receipts?status=failed",
    "/v1/receipts?status=needs_clarification",
    "/v1/receipts?status=accepted",
    "/v1/receipts?status=rejected",
    "/v1/receipts?status=executed",
    "/v1/receipts/{receipt}",
    "/v1/intents/{receipt}",
    "/v1/clarifications?status=open&limit=10",
    "/v1/collections",
    "/v1/courses",
    "/v1/courses?limit=500",
    "/v1/courses?search=course-77",
    "/v1/courses?search=nothingofthekind",
    "/v1/courses/busy",
    "/v1/courses/busy/snapshots?limit=200",
    "/v1/courses/course-77",
    "/v1/courses/course-77/snapshots?limit=200",
];

const SQLITE: &str = "
    PRAGMA synchronous = OFF;
    CREATE TEMP TABLE n AS WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000000) SELECT n FROM n;
    INSERT INTO pkm_entries (tenant_id, created_at, updated_at, source, intent, content_type, title, clean_text, metadata)
    SELECT e.tenant_id, e.created_at - n * 10, e.updated_at, CASE n % 200000 WHEN 0 THEN 'rare' ELSE 'note' END, e.intent,
           e.content_type, 'Note ' || n, 'a common text about doing things once, number ' || n || ', rare' || (n % 1000), e.metadata
      FROM n, (SELECT * FROM pkm_entries WHERE title = 'template') AS e;
    INSERT INTO job (tenant_id, job_id, job_key, kind, place, state, standing, epoch, attempts, failures, max_attempts,
        available_at, redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at)
    SELECT j.tenant_id, 'many-' || n, 'many-' || n, j.kind, j.place, CASE n % 100000 WHEN 0 THEN 'DEAD' ELSE 'INDEXED' END,
           'off', 1, 1, 0, 5, j.available_at, j.redone, j.retried, j.work_id, 'many-' || n, j.canonical_url, j.created_at,
           j.updated_at
      FROM n, (SELECT * FROM job WHERE kind = 'intent') AS j;
    INSERT INTO job_payload (job_seq, payload)
    SELECT j.seq, p.payload FROM job AS j, (SELECT payload FROM job_payload LIMIT 1) AS p WHERE j.job_id LIKE 'many-%';
    INSERT INTO op (tenant_id, op_key, job_seq, kind, state, class, epoch, token, tries, started_at, finished_at, result)
    SELECT tenant_id, 'op-' || job_id, seq, CASE seq % 50000 WHEN 0 THEN 'CLARIFY' ELSE 'OUTCOME' END,
           CASE seq % 50000 WHEN 0 THEN 'waiting' ELSE 'done' END, 'replayable', 1, 't', 1, created_at, created_at, '{}'
      FROM job WHERE job_id LIKE 'many-%';
    INSERT INTO snapshot (tenant_id, collection, id, entity_id, label, payload_hash, hash_state, created_at, seen_at, seen)
    SELECT s.tenant_id, s.collection, randomblob(16), CASE n % 10 WHEN 0 THEN 'busy' ELSE 'course-' || n END, 'Course ' || n,
           randomblob(32), 'there', s.created_at, s.seen_at, 1
      FROM n, (SELECT * FROM snapshot LIMIT 1) AS s;
    INSERT INTO snapshot_payload (snapshot_seq, payload)
    SELECT s.seq, p.payload FROM snapshot AS s, (SELECT payload FROM snapshot_payload LIMIT 1) AS p
     WHERE s.label LIKE 'Course %';
    INSERT INTO entity (tenant_id, collection, entity_id, label, current_seq, current_id, snapshots, created_at)
    SELECT tenant_id, collection, entity_id, label, max(seq), id, count(1), created_at
      FROM snapshot WHERE label LIKE 'Course %' GROUP BY tenant_id, collection, entity_id;";

const POSTGRES: &str = "
    INSERT INTO pkm.entries (tenant_id, created_at, updated_at, source, intent, content_type, title, clean_text, metadata)
    SELECT e.tenant_id, e.created_at - n * interval '10 ms', e.updated_at, CASE n % 200000 WHEN 0 THEN 'rare' ELSE 'note' END,
           e.intent, e.content_type, 'Note ' || n, 'a common text about doing things once, number ' || n || ', rare' || (n % 1000),
           e.metadata
      FROM generate_series(1, 1000000) AS n, (SELECT * FROM pkm.entries WHERE title = 'template') AS e;
    INSERT INTO job (tenant_id, job_id, job_key, kind, place, state, standing, epoch, attempts, failures, max_attempts,
        available_at, redone, retried, work_id, artifact_id, canonical_url, payload, created_at, updated_at)
    SELECT j.tenant_id, 'many-' || n, 'many-' || n, j.kind, j.place, CASE n % 100000 WHEN 0 THEN 'DEAD' ELSE 'INDEXED' END,
           'off', 1, 1, 0, 5, j.available_at, j.redone, j.retried, j.work_id, 'many-' || n, j.canonical_url, j.payload,
           j.created_at, j.updated_at
      FROM generate_series(1, 1000000) AS n, (SELECT * FROM job WHERE kind = 'intent') AS j;
    INSERT INTO op (tenant_id, op_key, job_id, kind, state, class, epoch, token, tries, started_at, finished_at, result)
    SELECT tenant_id, 'op-' || job_id, job_id, CASE seq % 50000 WHEN 0 THEN 'CLARIFY' ELSE 'OUTCOME' END,
           CASE seq % 50000 WHEN 0 THEN 'waiting' ELSE 'done' END, 'replayable', 1, 't', 1, created_at, created_at, '{}'
      FROM job WHERE job_id LIKE 'many-%';
    INSERT INTO snapshot (tenant_id, collection, id, entity_id, label, payload_hash, hash_state, payload, created_at, seen_at, seen)
    SELECT s.tenant_id, s.collection, gen_random_uuid(), CASE n % 10 WHEN 0 THEN 'busy' ELSE 'course-' || n END, 'Course ' || n,
           sha256(n::text::bytea), 'there', s.payload, s.created_at, s.seen_at, 1
      FROM generate_series(1, 1000000) AS n, (SELECT * FROM snapshot LIMIT 1) AS s;
    INSERT INTO entity (tenant_id, collection, entity_id, label, current_seq, current_id, snapshots, created_at)
    SELECT DISTINCT ON (tenant_id, collection, entity_id) tenant_id, collection, entity_id, label, seq, id, 1, created_at
      FROM snapshot WHERE label LIKE 'Course %' ORDER BY tenant_id, collection, entity_id, seq DESC;";

fn text(answer: &Value, name: &str) -> String {
    let value = &answer[name];
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Makes of one entry, one receipt and one snapshot a million of each. Returns the entry and the receipt to look at.
fn fill(store: Store, node: &Node) -> (String, String) {
    let post = |path: &str, body: Value| {
        let answer = node.owner("POST", path, &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let entry = json!({"source": "note", "title": "template", "clean_text": "a template", "metadata": {"a": 1}});
    let entry = text(&post("/db/insert", entry)[0], "entry_id");
    for n in 0..3 {
        let number: i64 = entry.parse().unwrap();
        post(
            "/db/update",
            json!({"entry_id": number, "author": format!("author {n}")}),
        );
    }
    let packet = json!({
        "kind": "intent", "intent_type": "create_task", "source": "cli", "confidence": 0.9,
        "natural_language": "water the plants", "fields": {"title": "water the plants"},
    });
    let receipt = text(&post("/v1/intents", packet), "receipt_id");
    post(
        "/v1/courses/ingest",
        json!({"course": {"id": "first", "name": "First"}}),
    );
    sql(store, node, (SQLITE, POSTGRES));
    (entry, receipt)
}

fn measure(store: Store) {
    // Nobody works on the receipt, and nobody waits long for it.
    let node = store.serve("access_log = false\nrequest_timeout_ms = 10000\n");
    let (entry, receipt) = fill(store, &node);
    let routes = ROUTES.iter();
    let named = routes.map(|route| {
        route
            .replace("{entry}", &entry)
            .replace("{receipt}", &receipt)
    });
    in_time(store, &node, named);
}

#[test]
#[ignore = "fills a database with millions of rows"]
fn every_page_of_what_is_kept_has_its_first_data_in_time_on_sqlite() {
    measure(Store::Sqlite);
}

#[test]
#[ignore = "fills a database with millions of rows"]
fn every_page_of_what_is_kept_has_its_first_data_in_time_on_postgres() {
    measure(Store::Postgres);
}
