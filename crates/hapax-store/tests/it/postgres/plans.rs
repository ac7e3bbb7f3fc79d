//! How PostgreSQL runs the statements whose cost must not grow with the table.

use tokio_postgres::Client;

use super::database::Database;

/// As the ledger's own sessions have it.
const SETTINGS: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
    SET enable_bitmapscan = off; SET enable_nestloop = off; SET enable_mergejoin = off; SET enable_sort = off; \
    SET random_page_cost = 0.01; SET seq_page_cost = 0.01; SET cpu_index_tuple_cost = 0.1";

async fn plan(raw: &Client, sql: &str, params: &str) -> Vec<String> {
    let statement: String = sql
        .lines()
        .filter(|line| !line.starts_with("--"))
        .fold("PREPARE it AS ".to_owned(), |all, line| all + line + "\n");
    raw.batch_execute("DEALLOCATE ALL").await.unwrap();
    raw.batch_execute(&statement).await.unwrap();
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE it({params})");
    let rows = raw.simple_query(&explain).await.unwrap();
    let line = |message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    rows.into_iter().filter_map(line).collect()
}

#[tokio::test]
async fn a_step_of_a_sweep_touches_no_more_than_its_limit() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    raw.batch_execute(SETTINGS).await.unwrap();
    raw.batch_execute("SET ROLE hapax_janitor").await.unwrap();
    let sweep = include_str!("../../../sql/postgres/sweep.sql");
    let plan = plan(&raw, sweep, "now(), 1000, 100").await;
    for change in ["Update on idempotency_keys", "Delete on idempotency_keys"] {
        let from = plan.iter().position(|line| line.contains(change));
        let mut scans = plan[from.expect("it is in the plan")..]
            .iter()
            .filter(|line| line.contains("Index Scan"));
        let scan = scans.next().expect("it looks its rows up");
        assert!(scan.contains("idempotency_keys_pkey"), "{plan:#?}");
    }
    assert!(plan.iter().all(|line| !line.contains("Seq Scan")));
}

#[tokio::test]
async fn lists_walk_an_index_in_their_own_order() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    raw.batch_execute(SETTINGS).await.unwrap();
    let tenant = "'00000000-0000-0000-0000-000000000001'";
    let last = "'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    for (sql, index, params) in [
        (
            include_str!("../../../sql/postgres/notes.sql"),
            "audit_log_pkey",
            format!("{tenant}, now(), 9, NULL, 51"),
        ),
        (
            include_str!("../../../sql/postgres/notes_of_key.sql"),
            "idx_audit_key",
            format!("{tenant}, now(), 9, NULL, 51, {last}"),
        ),
        (
            include_str!("../../../sql/postgres/notes_of_action.sql"),
            "idx_audit_action",
            format!("{tenant}, now(), 9, 'x', 51"),
        ),
        (
            include_str!("../../../sql/postgres/scan.sql"),
            "idx_idempotency_tenant_created",
            format!("{tenant}, now(), {last}, NULL, 'held', 51, now(), 20000, 'a', 'b'"),
        ),
        (
            include_str!("../../../sql/postgres/scan_floor.sql"),
            "Index Only Scan Backward using idx_idempotency_tenant_created",
            format!("{tenant}, now(), {last}, 19999"),
        ),
        (
            include_str!("../../../sql/postgres/scan_space.sql"),
            "idx_idempotency_route",
            format!("{tenant}, now(), {last}, 'POST:a', 'held', 51, now(), 20000, 'a', 'b'"),
        ),
        (
            include_str!("../../../sql/postgres/scan_space_floor.sql"),
            "Index Only Scan Backward using idx_idempotency_route",
            format!("{tenant}, now(), {last}, 19999, 'POST:a'"),
        ),
        (
            include_str!("../../../sql/postgres/spaces.sql"),
            "Index Only Scan using idx_idempotency_route",
            format!("{tenant}, 200"),
        ),
        (
            include_str!("../../../sql/postgres/doubts.sql"),
            "idx_idempotency_tenant_created",
            format!("{tenant}, 10001, now()"),
        ),
        (
            include_str!("../../../sql/postgres/scan_subject.sql"),
            "idx_idempotency_subject",
            format!("{tenant}, now(), {last}, NULL, NULL, 51, 'x', now()"),
        ),
        (
            include_str!("../../../sql/postgres/sweep_notes.sql"),
            "idx_audit_at",
            "now(), 100".to_owned(),
        ),
    ] {
        let plan = plan(&raw, sql, &params).await;
        assert!(plan.iter().any(|line| line.contains(index)), "{plan:#?}");
        let costly = |line: &String| line.contains("Sort") || line.contains("Seq Scan");
        assert!(!plan.iter().any(costly), "{plan:#?}");
    }
}
