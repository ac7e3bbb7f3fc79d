//! What the statements of snapshots touch does not grow with what is not asked for.

use tokio_postgres::Client;

use super::super::database::Database;

/// As the ledger's own sessions have it.
const SETTINGS: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
    SET enable_bitmapscan = off; SET enable_nestloop = off; SET enable_mergejoin = off; SET enable_sort = off; SET random_page_cost = 0.01; SET seq_page_cost = 0.01; SET cpu_index_tuple_cost = 0.1; \
    SET hapax.tenant = '00000000-0000-0000-0000-000000000001'";

/// For each of three tenants: eight thousand snapshots of two thousand entities, each with aliases and observations.
const GROW: &str = "INSERT INTO snapshot (tenant_id, id, collection, entity_id, label, payload_hash, hash_state, payload, \
        created_at, seen_at, seen) \
    SELECT ('00000000-0000-0000-0000-00000000000' || t)::uuid, md5(t || '-' || n)::uuid, 'courses', 'c-' || n % 2000, \
           'label', sha256(('x' || n)::bytea), 'there', repeat('x', 100), 0, 0, 1 \
      FROM generate_series(1, 8000) AS n, generate_series(1, 3) AS t ORDER BY n; \
    INSERT INTO snapshot_alias SELECT tenant_id, seq, k, collection, 'p' || k, id::text FROM snapshot, generate_series(1, 2) AS k; \
    INSERT INTO observation SELECT tenant_id, seq, k, k, 0 FROM snapshot, generate_series(1, 3) AS k; \
    INSERT INTO entity SELECT DISTINCT ON (tenant_id, entity_id) tenant_id, collection, entity_id, label, seq, id, 4, 0 \
      FROM snapshot ORDER BY tenant_id, entity_id, seq DESC; \
    UPDATE snapshot SET payload_hash = NULL, hash_state = 'missing' WHERE seq % 1000 = 0";

async fn grown() -> (Database, Client) {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    for table in super::TABLES {
        let off = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        raw.batch_execute(&off).await.unwrap();
    }
    raw.batch_execute(GROW).await.unwrap();
    raw.batch_execute(SETTINGS).await.unwrap();
    (database, raw)
}

/// How many pages the statement touches, and its plan.
async fn touched(raw: &Client, sql: &str, params: &str) -> (u64, String) {
    let statement: String = sql
        .lines()
        .filter(|line| !line.starts_with("--"))
        .fold("PREPARE it AS ".to_owned(), |all, line| all + line + "\n");
    raw.batch_execute("DEALLOCATE ALL").await.unwrap();
    raw.batch_execute(&statement).await.unwrap();
    raw.batch_execute("BEGIN").await.unwrap();
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
async fn no_statement_of_snapshots_walks_what_it_was_not_asked_for() {
    let (_database, raw) = grown().await;
    let tenant = "'00000000-0000-0000-0000-000000000001'";
    let courses = format!("{tenant}, 'courses'");
    let id = "md5('1-7')::uuid";
    let ids = format!("ARRAY[{id}, md5('new')::uuid]");
    let hashes = "ARRAY[sha256('x7'), sha256('new')]";
    let (app, janitor) = ("hapax_app", "hapax_janitor");
    // The pages are those of the plan that we have, and somewhat more; a walk touches thousands.
    let cases = [
        (app, sql!("snapshot_find"), format!("{courses}, {ids}"), 60),
        (
            app,
            sql!("snapshot_list"),
            format!("{courses}, 'c-7', 9000000000, 50"),
            120,
        ),
        (
            app,
            sql!("snapshot_there"),
            format!("{courses}, {hashes}"),
            60,
        ),
        (
            app,
            sql!("snapshot_of_id"),
            format!("{courses}, {ids}, {hashes}"),
            60,
        ),
        (
            app,
            sql!("snapshot_again"),
            format!("{tenant}, 0, {ids}, '{{1,1}}'"),
            60,
        ),
        (
            app,
            sql!("snapshot_alias_put"),
            format!("{tenant}, {ids}, '{{9,9}}', '{{p,p}}', '{{h,h}}'"),
            60,
        ),
        (
            app,
            sql!("snapshot_insert"),
            format!(
                "{courses}, 0, ARRAY[md5('new')::uuid], '{{c-7}}', '{{l}}', ARRAY[sha256('new')], '{{x}}', '{{1}}'"
            ),
            120,
        ),
        (
            app,
            sql!("observation_put"),
            format!("{tenant}, 1000, {ids}, '{{0,0}}', '{{b,b}}', '{{k,k}}'"),
            100,
        ),
        (
            app,
            sql!("observation_list"),
            format!("{courses}, {id}, 50"),
            60,
        ),
        (
            app,
            sql!("entity_put"),
            format!("{courses}, '{{c-7}}', '{{l}}', ARRAY[{id}], '{{1}}'"),
            100,
        ),
        (app, sql!("entity_find"), format!("{courses}, 'c-7'"), 60),
        (
            app,
            sql!("entity_list"),
            format!("{courses}, NULL, 5, 0"),
            120,
        ),
        (
            app,
            sql!("entity_list"),
            format!("{courses}, 'c-19', 5, 0"),
            400,
        ),
        (
            app,
            sql!("snapshot_unhashed_lock"),
            format!("{courses}, {ids}"),
            60,
        ),
        (
            app,
            sql!("snapshot_taken"),
            format!("{courses}, {hashes}"),
            40,
        ),
        (
            app,
            sql!("snapshot_fill"),
            format!("{tenant}, {ids}, {hashes}, '{{there,there}}'"),
            60,
        ),
        (janitor, sql!("snapshot_unhashed"), "5".to_owned(), 60),
    ];
    for statistics in ["none", "fresh"] {
        for (role, (name, sql), params, pages_max) in &cases {
            raw.batch_execute(&format!("SET ROLE {role}"))
                .await
                .unwrap();
            let (pages, plan) = touched(&raw, sql, params).await;
            println!("{statistics} {name}: {pages} pages");
            assert!(
                pages > 0 && pages <= *pages_max,
                "{name}, statistics {statistics}: {pages} pages\n{plan}"
            );
        }
        raw.batch_execute("RESET ROLE; ANALYZE snapshot; ANALYZE snapshot_alias; ANALYZE entity; ANALYZE observation")
            .await
            .unwrap();
    }
}
