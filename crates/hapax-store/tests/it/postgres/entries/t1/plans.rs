//! What the statements of enrichment touch does not grow with what is not asked for.

use super::super::super::database::Database;
use super::super::plans::{SETTINGS, touched};

const TABLES: [&str; 5] = [
    "pkm.entries",
    "pkm.t1_batches",
    "pkm.t1_batch_items",
    "llm_answer",
    "llm_question",
];

/// Entries, batches and items of three tenants, of which few did not end; a batch of a thousand items; and answers.
const GROW: &str = "INSERT INTO pkm.entries (tenant_id, source, clean_text) \
    SELECT ('00000000-0000-0000-0000-00000000000' || 1 + n % 3)::uuid, 'web', 'text ' || n FROM generate_series(1, 20000) AS n; \
    INSERT INTO pkm.t1_batches (tenant_id, batch_id, import_id, status, completion_window, request_count, next_at, created_at, \
        updated_at) \
      SELECT ('00000000-0000-0000-0000-00000000000' || 1 + n % 3)::uuid, md5(n::text)::uuid, NULL, \
             CASE WHEN n % 100 = 0 THEN 'queued' ELSE 'completed' END, '24h', 3, now() - n * interval '1 minute', \
             now() - n * interval '1 minute', now() \
        FROM generate_series(1, 20000) AS n; \
    INSERT INTO pkm.t1_batch_items (tenant_id, batch_id, entry_id, content_hash, status, created_at, updated_at) \
      SELECT b.tenant_id, b.batch_id, k, sha256(k::text::bytea), 'queued', now(), now() \
        FROM pkm.t1_batches AS b, generate_series(1, 3) AS k; \
    INSERT INTO pkm.t1_batch_items (tenant_id, batch_id, entry_id, content_hash, status, created_at, updated_at) \
      SELECT '00000000-0000-0000-0000-000000000001', md5('big')::uuid, n * 3, sha256(n::text::bytea), 'queued', now(), now() \
        FROM generate_series(1, 1000) AS n; \
    INSERT INTO llm_answer SELECT ('00000000-0000-0000-0000-00000000000' || 1 + n % 3)::uuid, sha256(n::text::bytea), 'A', 0 \
        FROM generate_series(1, 20000) AS n; \
    INSERT INTO llm_question SELECT ('00000000-0000-0000-0000-00000000000' || 1 + n % 3)::uuid, sha256(n::text::bytea), \
             md5((n / 10)::text)::uuid, 0 \
        FROM generate_series(1, 20000) AS n";

macro_rules! sql {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../../sql/postgres/", $name, ".sql")),
        )
    };
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn no_statement_of_enrichment_walks_what_it_was_not_asked_for() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    for table in TABLES {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        raw.batch_execute(&off).await.unwrap();
    }
    raw.batch_execute(GROW).await.unwrap();
    raw.batch_execute(SETTINGS).await.unwrap();
    let tenant = "'00000000-0000-0000-0000-000000000001'";
    let batch = format!("{tenant}, md5('3')::uuid");
    let big = format!("{tenant}, md5('big')::uuid");
    let first = "'infinity', 9223372036854775807, 20";
    let later = "now() - interval '200 hours', 9223372036854775807, 20";
    let numbers = "(SELECT array_agg(item_id) FROM (SELECT item_id FROM pkm.t1_batch_items WHERE batch_id = md5('3')::uuid) AS i)";
    let numbers: Vec<i64> = raw
        .query_one(&format!("SELECT {numbers}"), &[])
        .await
        .unwrap()
        .get(0);
    let numbers = format!("ARRAY{numbers:?}::bigint[]");
    let nulls = "NULL, ".repeat(7);
    let app = "hapax_app";
    // The pages are those of the plan that we have, and somewhat more; a walk touches thousands.
    let cases = [
        (sql!("t1_batch_find"), app, batch.clone(), 40),
        (
            sql!("t1_batch_newest"),
            app,
            format!("{tenant}, {first}"),
            400,
        ),
        (
            sql!("t1_batch_newest"),
            app,
            format!("{tenant}, {later}"),
            400,
        ),
        (
            sql!("t1_batch_live"),
            app,
            format!("{tenant}, {first}"),
            400,
        ),
        (
            sql!("t1_batch_live"),
            app,
            format!("{tenant}, {later}"),
            400,
        ),
        (
            sql!("t1_batch_add"),
            app,
            format!("{tenant}, gen_random_uuid(), '24h', 1, '{{}}', now()"),
            60,
        ),
        (
            sql!("t1_item_add"),
            app,
            format!(
                "{big}, now(), '{{3,NULL}}', ARRAY[sha256('a'), sha256('b')], ARRAY[NULL, '{{}}'], '{{NULL,3}}'"
            ),
            120,
        ),
        (
            sql!("t1_batch_change"),
            app,
            format!("{batch}, 1, 'submitted', 1, 0, now(), {nulls}now()"),
            80,
        ),
        (
            sql!("t1_item_list"),
            app,
            format!("{batch}, 0, NULL, 500, true, 8000000"),
            80,
        ),
        (
            sql!("t1_item_list"),
            app,
            format!("{big}, 0, NULL, 20, true, 8000000"),
            400,
        ),
        (
            sql!("t1_item_list"),
            app,
            format!("{big}, 0, 'queued', 20, false, 8000000"),
            200,
        ),
        (sql!("t1_item_lock"), app, format!("{batch}, {numbers}"), 60),
        (
            sql!("t1_item_settle"),
            app,
            format!(
                "{batch}, now(), {numbers}, '{{completed,failed,stale}}', '{{a,NULL,c}}', '{{1,NULL,3}}', '{{NULL,NULL,e}}', '{{NULL,2,1}}'"
            ),
            200,
        ),
        (
            sql!("answer_find"),
            app,
            format!("{tenant}, ARRAY[sha256('3'), sha256('new')]"),
            40,
        ),
        (
            sql!("answer_put"),
            app,
            format!("{tenant}, 0, ARRAY[sha256('3'), sha256('new')], '{{a,b}}'"),
            80,
        ),
        (
            sql!("question_ask"),
            app,
            format!("{tenant}, 0, md5('1')::uuid, 1000, ARRAY[sha256('3'), sha256('new')]"),
            80,
        ),
        (
            sql!("question_end"),
            app,
            format!("{tenant}, ARRAY[sha256('3'), sha256('new')]"),
            60,
        ),
        (
            sql!("question_stop"),
            app,
            format!("{tenant}, md5('1')::uuid"),
            80,
        ),
        (
            sql!("t1_batch_due"),
            "hapax_janitor",
            "0, 20".to_owned(),
            60,
        ),
    ];
    for statistics in ["none", "fresh"] {
        for ((name, sql), role, params, pages_max) in &cases {
            raw.batch_execute(&format!("SET ROLE {role}"))
                .await
                .unwrap();
            let (pages, plan) = touched(&raw, "", sql, params).await;
            println!("{statistics} {name}: {pages} pages");
            assert!(
                pages > 0 && pages <= *pages_max && !plan.contains("Seq Scan"),
                "{name}, statistics {statistics}: {pages} pages\n{plan}"
            );
        }
        raw.batch_execute("RESET ROLE").await.unwrap();
        for table in TABLES {
            raw.batch_execute(&format!("ANALYZE {table}"))
                .await
                .unwrap();
        }
    }
}
