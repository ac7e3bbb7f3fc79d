//! What the statements of the queue touch does not grow with what is not asked for.

use tokio_postgres::Client;

use super::super::database::Database;

/// As the ledger's own sessions have it.
const SETTINGS: &str = "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off; \
    SET enable_bitmapscan = off; SET enable_nestloop = off; SET enable_mergejoin = off; SET enable_sort = off; SET random_page_cost = 0.01; SET seq_page_cost = 0.01; SET cpu_index_tuple_cost = 0.1; \
    SET hapax.tenant = '00000000-0000-0000-0000-000000000001'; SET hapax.keeps_queue = 'on'";

/// For each of four tenants: many jobs of another kind that wait, many that rest, many that are finished, a few held,
/// some of the asked kind, and operations that were done.
const GROW: &str = "INSERT INTO job (tenant_id, job_id, job_key, kind, place, state, standing, lease_owner, lease_until, \
        epoch, attempts, failures, max_attempts, available_at, redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at) \
    SELECT ('00000000-0000-0000-0000-00000000000' || t)::uuid, s.name || n, s.name || n, s.kind, '', s.state, s.standing, \
           CASE WHEN s.name = 'held' THEN 'w' END, CASE WHEN s.name = 'held' THEN n END, \
           1, s.attempts, 0, 5, s.available_at + n, -1, -1, 'w' || n % 1000, 'a', 'u', 0, 0 \
      FROM generate_series(1, 4) AS t, \
           (VALUES ('other', 'other', 'PLANNED', 'ready', 0, 0, 8000), \
                   ('rest', 'download', 'FAILED', 'resting', 1, 9000000000000000, 8000), \
                   ('done', 'download', 'INDEXED', 'off', 1, 0, 8000), \
                   ('held', 'held', 'LEASED', 'resting', 1, 9000000000000000, 30), \
                   ('mine', 'download', 'PLANNED', 'ready', 0, 0, 100)) \
               AS s (name, kind, state, standing, attempts, available_at, count), \
           generate_series(1, s.count) AS n";
const GROW_OPS: &str = "INSERT INTO op (tenant_id, op_key, job_id, kind, state, class, epoch, token, tries, started_at, \
        finished_at, result) \
    SELECT tenant_id, 'op' || job_id, job_id, 'HEAD', CASE WHEN standing = 'off' THEN 'done' ELSE 'running' END, 'tx', 1, 't', 1, 1, 1, '1' \
      FROM job WHERE standing = 'off' OR kind = 'held'";

/// Of the values that jobs have in common, there are none.
const ALIKE: &str = "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL";

async fn grown() -> (Database, Client) {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    raw.batch_execute("ALTER TABLE job SET (autovacuum_enabled = false); ALTER TABLE op SET (autovacuum_enabled = false)")
        .await
        .unwrap();
    raw.batch_execute(GROW).await.unwrap();
    raw.batch_execute(GROW_OPS).await.unwrap();
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
    executed(raw, &format!("it({params})")).await
}

/// How many pages a prepared statement touches, and its plan. Nothing of it stays.
async fn executed(raw: &Client, call: &str) -> (u64, String) {
    raw.batch_execute("BEGIN").await.unwrap();
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE {call}");
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
async fn no_statement_walks_what_it_was_not_asked_for() {
    let (_database, raw) = grown().await;
    let tenant = "'00000000-0000-0000-0000-000000000001'";
    let any = "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let asked = format!("{tenant}, '', '{{download}}', 0");
    let list = "NULL, NULL, false, 51, 0";
    let (app, janitor) = ("hapax_app", "hapax_janitor");
    // The pages are those of the plan that we have, and somewhat more; a walk touches thousands.
    let cases = [
        (app, sql!("job_rested"), format!("{asked}, 500"), 60),
        (app, sql!("job_take"), format!("{asked}, 1"), 600),
        (
            app,
            sql!("job_is_ready"),
            format!("{tenant}, '', '{{download}}'"),
            60,
        ),
        (app, sql!("job_kinds"), format!("{tenant}, ''"), 100),
        (
            app,
            sql!("job_lock"),
            format!("{tenant}, '{{mine1}}', '{{opdone7}}'"),
            60,
        ),
        (app, sql!("job_find"), format!("{tenant}, 'mine1'"), 20),
        (
            app,
            sql!("job_by_key"),
            format!("{tenant}, '{{mine1,mine2}}'"),
            30,
        ),
        (app, sql!("op_find"), format!("{tenant}, '{{opdone7}}'"), 20),
        (app, sql!("op_of_job"), format!("{tenant}, 'done7'"), 20),
        (
            app,
            sql!("op_of_jobs"),
            format!("{tenant}, '{{done7,done8}}'"),
            40,
        ),
        (
            app,
            sql!("job_list_waiting"),
            format!("{tenant}, 9000000000, 'CLARIFY', 'asked', 51"),
            200,
        ),
        (
            app,
            sql!("job_list_doubt"),
            format!("{tenant}, 9000000000, NULL, 51"),
            200,
        ),
        (app, sql!("op_doubtful"), format!("{tenant}, 100"), 200),
        (
            app,
            sql!("job_list"),
            format!("{tenant}, 9000000000, NULL, {list}"),
            200,
        ),
        (
            app,
            sql!("job_list_state"),
            format!("{tenant}, 9000000000, NULL, '{{DEAD}}', 51"),
            200,
        ),
        (
            app,
            sql!("job_list_state"),
            format!("{tenant}, 9000000000, 'held', '{{PLANNED,LEASED,DEAD}}', 51"),
            500,
        ),
        (
            app,
            sql!("job_tally"),
            format!("{tenant}, 0, 100, '{{PLANNED,LEASED,FAILED,INDEXED,DEAD}}'"),
            200,
        ),
        (
            app,
            sql!("job_list_work"),
            format!("{tenant}, 9000000000, NULL, NULL, 'w7', false, 51, 0"),
            200,
        ),
        (
            app,
            sql!("job_list_held"),
            format!("{tenant}, 9000000000, NULL, NULL, NULL, true, 51, 0"),
            100,
        ),
        (app, sql!("job_stale"), format!("{tenant}, 0, 100"), 100),
        (
            app,
            sql!("op_stale"),
            format!("{tenant}, 0, 100, 600000"),
            300,
        ),
        (
            app,
            sql!("job_write"),
            format!(
                "{tenant}, '{{7}}', '{{there}}', '{{LEASED}}', '{{resting}}', '{{w}}', '{{9}}', '{{2}}', '{{2}}', \
                 '{{0}}', '{{9}}', '{{-1}}', '{{-1}}', '{{NULL}}', '{{NULL}}', '{{9}}', '{{NULL}}', '{{NULL}}', {ALIKE}"
            ),
            100,
        ),
        (
            app,
            sql!("job_ready_drop"),
            format!("{tenant}, '{{\"\"}}', '{{other}}', '{{0}}', '{{7}}'"),
            60,
        ),
        (
            app,
            sql!("job_ready_shift"),
            format!("{tenant}, '', '{{other}}', '{{0}}', '{{7}}', '{{9}}', '{{7,9}}'"),
            60,
        ),
        (
            app,
            sql!("job_later_less"),
            format!("{tenant}, '{{7,9}}', '{{1,1}}'"),
            60,
        ),
        (
            app,
            sql!("job_later_drop"),
            format!("{tenant}, '{{7,9}}'"),
            60,
        ),
        (
            app,
            sql!("job_list_move"),
            format!("{tenant}, 'other', 'PLANNED', 'LEASED', '{{7}}'"),
            60,
        ),
        (
            app,
            sql!("op_write"),
            format!(
                "{tenant}, '{{opdone7}}', '{{done7}}', '{{HEAD}}', '{{running}}', '{{tx}}', '{{2}}', '{{t}}', '{{2}}', \
                 '{{9}}', '{{NULL}}', '{{NULL}}', '{{NULL}}'"
            ),
            60,
        ),
        (
            app,
            sql!("job_plan"),
            format!(
                "{tenant}, 0, '{{mine1,new}}', '{{mine1,new}}', '{{k,k}}', '{{x,x}}', '{{5,5}}', '{{w,w}}', '{{a,a}}', \
                 '{{u,u}}', '{{NULL,NULL}}', '{{NULL,NULL}}'"
            ),
            150,
        ),
        (
            janitor,
            sql!("job_due"),
            format!("'{{download}}', '', {any}, 10, 0"),
            200,
        ),
        (
            janitor,
            sql!("job_due"),
            format!("'{{held}}', '', {any}, 10, 0"),
            200,
        ),
        (
            janitor,
            sql!("job_due_any"),
            format!("'', {any}, 10, 0"),
            200,
        ),
        (
            janitor,
            sql!("job_due_any"),
            format!("'elsewhere', {any}, 10, 0"),
            200,
        ),
        (janitor, sql!("job_stale_all"), "0, 100".to_owned(), 300),
        (
            janitor,
            sql!("op_stale_all"),
            "0, 100, 600000".to_owned(),
            600,
        ),
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
        raw.batch_execute("RESET ROLE; ANALYZE").await.unwrap();
    }
}

/// A session keeps the plan that it made when it was first asked, which is often before there is anything.
#[tokio::test]
async fn a_plan_made_of_empty_tables_does_not_walk_them_later() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    raw.batch_execute("ALTER TABLE job SET (autovacuum_enabled = false)")
        .await
        .unwrap();
    raw.batch_execute(SETTINGS).await.unwrap();
    let tenant = "'00000000-0000-0000-0000-000000000001'";
    let ids = "'{mine1,mine2,mine3}'";
    let (numbers, none) = ("'{1,2,3}'", "'{NULL,NULL,NULL}'");
    let jobs = "'{x,x,x}', '{PLANNED,PLANNED,PLANNED}', '{ready,ready,ready}', '{NULL,NULL,NULL}', '{NULL,NULL,NULL}'";
    let figures = "'{1,1,1}', '{1,1,1}', '{0,0,0}', '{9,9,9}', '{1,1,1}', '{1,1,1}', '{NULL,NULL,NULL}', '{NULL,NULL,NULL}', '{9,9,9}'";
    let words =
        "'{k,k,k}', '{x,x,x}', '{5,5,5}', '{w,w,w}', '{a,a,a}', '{u,u,u}', '{NULL,NULL,NULL}'";
    let cases = [
        (
            sql!("job_plan"),
            format!("{tenant}, 0, {ids}, {ids}, {words}, {none}"),
        ),
        (sql!("job_by_key"), format!("{tenant}, {ids}")),
        (sql!("job_lock"), format!("{tenant}, {ids}, '{{}}'")),
        (
            sql!("job_write"),
            format!("{tenant}, {numbers}, {jobs}, {figures}, {none}, {none}, {ALIKE}"),
        ),
        (
            sql!("job_ready_drop"),
            format!("{tenant}, '{{\"\",\"\"}}', '{{other,other}}', '{{0,0}}', '{{1,2}}'"),
        ),
        (
            sql!("job_ready_shift"),
            format!("{tenant}, '', '{{other}}', '{{0}}', '{{1}}', '{{3}}', '{{1,3}}'"),
        ),
        (
            sql!("job_later_less"),
            format!("{tenant}, '{{1,2}}', '{{1,1}}'"),
        ),
        (sql!("job_later_drop"), format!("{tenant}, '{{1,2}}'")),
        (
            sql!("job_list_move"),
            format!("{tenant}, 'other', 'PLANNED', 'LEASED', '{{1,2}}'"),
        ),
        (
            sql!("job_rested"),
            format!("{tenant}, '', '{{download}}', 0, 500"),
        ),
        (
            sql!("job_take"),
            format!("{tenant}, '', '{{download}}', 0, 1"),
        ),
        (
            sql!("job_list_state"),
            format!("{tenant}, 9000000000, 'held', '{{PLANNED,LEASED,DEAD}}', 51"),
        ),
        (
            sql!("job_tally"),
            format!("{tenant}, 0, 100, '{{PLANNED,LEASED,FAILED,INDEXED,DEAD}}'"),
        ),
    ];
    raw.batch_execute("SET ROLE hapax_app").await.unwrap();
    for ((name, sql), params) in &cases {
        let lines = sql.lines().filter(|line| !line.starts_with("--"));
        let sql: String = lines.collect::<Vec<_>>().join("\n");
        raw.batch_execute(&format!("PREPARE {name} AS {sql}"))
            .await
            .unwrap();
        raw.batch_execute(&format!("BEGIN; EXECUTE {name}({params}); ROLLBACK"))
            .await
            .unwrap();
    }
    raw.batch_execute("RESET ROLE; SET hapax.keeps_queue = 'off'")
        .await
        .unwrap();
    raw.batch_execute(GROW).await.unwrap();

    raw.batch_execute("SET ROLE hapax_app; SET hapax.keeps_queue = 'on'")
        .await
        .unwrap();
    for ((name, _), params) in &cases {
        let (pages, plan) = executed(&raw, &format!("{name}({params})")).await;
        assert!(pages > 0 && pages <= 600, "{name}: {pages} pages\n{plan}");
    }
}
