//! What the statements of entries touch does not grow with what is not asked for.

use tokio_postgres::Client;

use super::super::database::Database;

/// As the ledger's own sessions have it.
pub(super) const SETTINGS: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
    SET enable_bitmapscan = off; SET enable_nestloop = off; SET enable_mergejoin = off; SET enable_sort = off; SET random_page_cost = 0.01; SET seq_page_cost = 0.01; SET cpu_index_tuple_cost = 0.1; \
    SET hapax.tenant = '00000000-0000-0000-0000-000000000001'";
/// As a search has it beside that.
const SEARCHING: &str =
    "SET enable_bitmapscan = on; SET enable_sort = on; SET hapax.words = 'common g77'";

/// Twenty thousand entries of three tenants, and as many revisions, items and imports.
const GROW: &str = "INSERT INTO pkm.entries (tenant_id, source, title, clean_text, idempotency_policy_key, \
        idempotency_key_primary, idempotency_key_secondary, text_hash, created_at) \
    SELECT ('00000000-0000-0000-0000-00000000000' || 1 + n % 3)::uuid, 'web', 'title ' || n, \
           'common words of group g' || n % 1000, 'p', 'k' || n, 's' || n, sha256(n::text::bytea), \
           now() - n * interval '1 minute' \
      FROM generate_series(1, 20000) AS n; \
    INSERT INTO pkm.entry_messages SELECT tenant_id, entry_id, sha256(k::text::bytea) FROM pkm.entries, generate_series(1, 3) AS k; \
    INSERT INTO pkm.entry_revisions SELECT tenant_id, entry_id, k, '{}', now() FROM pkm.entries, generate_series(1, 2) AS k; \
    INSERT INTO pkm.t1_batch_items (tenant_id, import_id, entry_id, content_hash, status, created_at, updated_at) \
      SELECT tenant_id, '00000000-0000-0000-0000-000000000009', entry_id, text_hash, \
             CASE WHEN entry_id % 10 = 0 THEN 'queued' ELSE 'candidate' END, now(), now() FROM pkm.entries; \
    INSERT INTO pkm.t1_batches (tenant_id, batch_id, import_id, status, completion_window, request_count, created_at, updated_at) \
      SELECT tenant_id, id, id, 'queued', '24h', 1, now(), now() FROM pkm.entries WHERE entry_id < 5000; \
    INSERT INTO imports (tenant_id, import_id, schema, path, path_hash, batch_size, insert_chunk_size, completion_window, \
        status, step, cursor_index, cursor_offset, total_messages, normalized_ok, normalize_errors, inserted, updated, \
        skipped, insert_errors, tier1_candidates, tier1_enqueued_items, errors, created_at, updated_at) \
      SELECT tenant_id, md5(entry_id::text)::uuid, 'pkm', 'a', sha256(entry_id::text::bytea), 1, 1, '24h', 'running', 'reading', \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '[]', 0, 0 FROM pkm.entries WHERE entry_id < 5000";

const TABLES: [&str; 6] = [
    "pkm.entries",
    "pkm.entry_messages",
    "pkm.entry_revisions",
    "pkm.t1_batch_items",
    "pkm.t1_batches",
    "imports",
];

async fn grown() -> (Database, Client) {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    for table in TABLES {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        raw.batch_execute(&off).await.unwrap();
    }
    raw.batch_execute(GROW).await.unwrap();
    raw.batch_execute(SETTINGS).await.unwrap();
    (database, raw)
}

/// How many pages the statement touches, and its plan.
pub(super) async fn touched(raw: &Client, set: &str, sql: &str, params: &str) -> (u64, String) {
    let statement: String = sql
        .lines()
        .filter(|line| !line.starts_with("--"))
        .fold("PREPARE it AS ".to_owned(), |all, line| all + line + "\n")
        .replace("{schema}", "pkm");
    raw.batch_execute("DEALLOCATE ALL").await.unwrap();
    raw.batch_execute(&statement).await.unwrap();
    raw.batch_execute("BEGIN").await.unwrap();
    raw.batch_execute(&set.replace("SET ", "SET LOCAL "))
        .await
        .unwrap();
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE it({params})");
    let rows = raw.simple_query(&explain).await.unwrap();
    raw.batch_execute("ROLLBACK").await.unwrap();
    let line = |message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    let plan: Vec<String> = rows.into_iter().filter_map(line).collect();
    // The first is that of the whole statement.
    let buffers = plan.iter().find(|line| line.contains("Buffers:"));
    let buffers = buffers.map(String::as_str).unwrap_or_default();
    let pages = buffers
        .split([' ', '='])
        .filter_map(|word| word.parse::<u64>().ok());
    (pages.sum(), plan.join("\n"))
}

macro_rules! sql {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../sql/postgres/", $name, ".sql")),
        )
    };
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn no_statement_of_entries_walks_what_it_was_not_asked_for() {
    let (_database, raw) = grown().await;
    let tenant = "'00000000-0000-0000-0000-000000000001'";
    let import = format!("{tenant}, '00000000-0000-0000-0000-000000000009'");
    let keys = "'{p,p}', '{k3,new}', '{p,p}', '{s6,new}', '{9,10}', ARRAY[gen_random_uuid()]";
    let now = "now()";
    // The pages are those of the plan that we have, and somewhat more; a walk touches thousands.
    let cases = [
        (sql!("entry_found"), "", format!("{tenant}, {keys}"), 120),
        (
            sql!("entry_message_there"),
            "",
            format!("{tenant}, '{{3,6,9}}', array_fill(sha256('2'), ARRAY[3])"),
            40,
        ),
        (sql!("entry_find"), "", format!("{tenant}, 9"), 20),
        (
            sql!("entry_newest"),
            "",
            format!("{tenant}, '-infinity', 20, 'infinity', 9223372036854775807"),
            200,
        ),
        (
            sql!("entry_newest_source"),
            "",
            format!("{tenant}, '-infinity', 20, 'infinity', 9223372036854775807, 'nothing'"),
            200,
        ),
        (
            sql!("entry_words_newest"),
            SEARCHING,
            format!("{tenant}, '-infinity', 20, 'infinity', 9223372036854775807, NULL"),
            150,
        ),
        (
            sql!("entry_words_walk"),
            "",
            format!(
                "{tenant}, '-infinity', 20, 'infinity', 9223372036854775807, NULL, 100, 'common'"
            ),
            250,
        ),
        (
            sql!("entry_words_best"),
            SEARCHING,
            format!("{tenant}, '-infinity', 20, 'common g77', NULL"),
            150,
        ),
        (
            sql!("entry_revision_put"),
            "",
            format!("{tenant}, {now}, '{{9}}', '{{9}}', ARRAY['{{}}']"),
            60,
        ),
        (
            sql!("entry_revision_list"),
            "",
            format!("{tenant}, 9, 100, 50"),
            30,
        ),
        (
            sql!("entry_insert"),
            "",
            format!(
                "{tenant}, '{{99999}}', ARRAY[gen_random_uuid()], '{{now}}', '{{now}}', '{{1}}', '{{web}}'{}",
                ", '{NULL}'".repeat(35)
            ),
            120,
        ),
        (
            sql!("entry_update"),
            "",
            format!(
                "{tenant}, '{{9}}', '{{now}}', '{{2}}', '{{web}}'{}",
                ", '{NULL}'".repeat(32)
            ),
            120,
        ),
        (sql!("policy_list"), "", tenant.to_owned(), 20),
        (
            sql!("runtime_find"),
            "",
            format!("{tenant}, 'is_test_mode'"),
            10,
        ),
        (
            sql!("t1_candidate_there"),
            "",
            format!("{import}, '{{3,6,9}}'"),
            40,
        ),
        (
            sql!("t1_candidate_put"),
            "",
            format!("{import}, {now}, '{{30,60}}'"),
            120,
        ),
        (sql!("t1_candidate_list"), "", format!("{import}, 20"), 400),
        (
            sql!("t1_candidate_queue"),
            "",
            format!(
                "{tenant}, gen_random_uuid(), {now}, ARRAY[3,6]::bigint[], ARRAY[sha256('a'), sha256('b')]"
            ),
            150,
        ),
        (
            sql!("t1_candidate_drop"),
            "",
            format!("{tenant}, '{{3,6}}'"),
            60,
        ),
        (
            sql!("t1_batch_there"),
            "",
            format!("{tenant}, gen_random_uuid()"),
            20,
        ),
        (
            sql!("import_find"),
            "",
            format!("{tenant}, md5('3')::uuid"),
            40,
        ),
        (
            sql!("import_lock"),
            "",
            format!("{tenant}, md5('3')::uuid"),
            40,
        ),
        (
            sql!("import_running"),
            "",
            format!("{tenant}, sha256('3')"),
            40,
        ),
        (sql!("import_list"), "", format!("{tenant}, NULL, 5"), 60),
        (
            sql!("import_list"),
            "",
            format!("{tenant}, md5('3000')::uuid, 5"),
            60,
        ),
    ];
    for statistics in ["none", "fresh"] {
        raw.batch_execute("SET ROLE hapax_app").await.unwrap();
        for ((name, sql), set, params, pages_max) in &cases {
            let (pages, plan) = touched(&raw, set, sql, params).await;
            println!("{statistics} {name}: {pages} pages");
            assert!(
                pages > 0 && pages <= *pages_max,
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

/// Whoever owns the tables: a superuser, or a login that is bound by their policies and a member of our roles.
#[tokio::test]
async fn a_search_takes_the_index_of_words_below_row_security() {
    for by_owner in [false, true] {
        let (database, raw) = grown().await;
        if by_owner {
            let owner = format!("maker_{}", database.name);
            raw.batch_execute(&format!(
                "CREATE ROLE {owner}; GRANT hapax_app, hapax_janitor TO {owner}; \
                 ALTER TABLE pkm.entries OWNER TO {owner}; ALTER SCHEMA pkm OWNER TO {owner}"
            ))
            .await
            .unwrap();
        }
        raw.batch_execute("SET ROLE hapax_app").await.unwrap();
        for (name, sql) in [sql!("entry_words_newest"), sql!("entry_words_best")] {
            let is_best = name.ends_with("best");
            let words = if is_best {
                ", 'common g77', NULL"
            } else {
                ", 'infinity', 9223372036854775807, NULL"
            };
            let params = format!("'00000000-0000-0000-0000-000000000001', '-infinity', 20{words}");
            let (pages, plan) = touched(&raw, SEARCHING, sql, &params).await;
            println!("{name}, by owner {by_owner}: {pages} pages\n{plan}");
            assert!(
                plan.contains("Bitmap Index Scan on idx_entries_found_by"),
                "{plan}"
            );
        }
    }
}
