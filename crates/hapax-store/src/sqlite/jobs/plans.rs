//! How the statements find their rows: through an index, and past nothing that is not asked for.

use rusqlite::{Connection, StatementStatus, params};
use tempfile::TempDir;

use super::super::SqliteOptions;
use super::super::connection::{self, Role};
use super::super::migrate;
use super::{lease, lists, rows};

fn file() -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default();
    let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
    let mut connection = connection::open(&path, &options, Role::Writer).unwrap();
    migrate::migrate(&mut connection, options.clock.now()).unwrap();
    (folder, connection)
}

#[test]
fn every_read_of_jobs_goes_through_an_index_and_sorts_nothing() {
    let (_folder, connection) = file();
    for (sql, index) in [
        (rows::FIND, "sqlite_autoindex_job_1"),
        (rows::FIND_KEY, "sqlite_autoindex_job_2"),
        (rows::FIND_SEQ, "INTEGER PRIMARY KEY"),
        (rows::FIND_OP, "sqlite_autoindex_op_1"),
        (rows::OPS, "idx_op_job"),
        (lease::READY, "COVERING INDEX idx_job_ready"),
        (lease::RESTED, "idx_job_resting"),
        (lease::KIND_READY, "COVERING INDEX idx_job_ready"),
        (lease::KIND_RESTING, "COVERING INDEX idx_job_resting"),
        (lists::IS_READY, "COVERING INDEX idx_job_ready"),
        (lists::IS_RESTED, "COVERING INDEX idx_job_resting"),
        (lists::TENANT_READY, "COVERING INDEX idx_job_ready"),
        (lists::TENANT_RESTING, "COVERING INDEX idx_job_resting"),
        (lists::KIND, "COVERING INDEX idx_job_state"),
        (lists::PAGE, "COVERING INDEX idx_job_state"),
        (lists::PAGE_WORK, "idx_job_work"),
        (lists::PAGE_HELD, "idx_job_held"),
        (lists::PAGE_WAITING, "idx_op_waiting"),
        (lists::PAGE_DOUBT, "idx_op_doubtful"),
        (lists::DOUBTFUL, "idx_op_doubtful"),
        (lists::TALLY, "COVERING INDEX idx_job_state"),
        (lists::HELD, "idx_job_held"),
        (lists::STALE, "idx_job_held"),
        (lists::STALE_OPS, "idx_op_running"),
    ] {
        let plan = plan(&connection, sql);
        assert!(
            plan.iter().any(|step| step.contains(index)),
            "{sql}: {plan:?}"
        );
        let is_direct = |step: &String| {
            // What was found and cut off at a number is counted by walking it.
            let walks = step.starts_with("SCAN") && !step.starts_with("SCAN (subquery");
            !step.contains("B-TREE") && (!walks || step == "SCAN CONSTANT ROW")
        };
        assert!(plan.iter().all(is_direct), "{sql}: {plan:?}");
    }
    // Those of every tenant walk what is held or running, and nothing else.
    for (sql, index) in [
        (lists::STALE_ALL, "SCAN job USING INDEX idx_job_held"),
        (lists::STALE_OPS_ALL, "SCAN op USING INDEX idx_op_running"),
    ] {
        let plan = plan(&connection, sql);
        assert!(plan.iter().any(|step| step == index), "{sql}: {plan:?}");
        assert!(
            plan.iter().all(|step| !step.contains("B-TREE")),
            "{sql}: {plan:?}"
        );
    }
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&["EXPLAIN QUERY PLAN ", sql].concat())
        .unwrap();
    let count = explain.parameter_count();
    let rows = explain.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
    rows.unwrap().map(Result::unwrap).collect()
}

const TENANT: [u8; 16] = [7; 16];

/// Twenty thousand jobs each that wait under another kind, rest, are held, wait for somebody, or have ended.
fn crowd(connection: &Connection) {
    let crowd = include_str!("../../../sql/sqlite/job_crowd_of_a_test.sql");
    connection.execute_batch(crowd).unwrap();
}

/// The steps of SQLite's machine that the statement takes, and the rows it finds.
fn steps(connection: &Connection, sql: &str, params: &[&dyn rusqlite::ToSql]) -> (i32, usize) {
    let mut statement = connection.prepare(sql).unwrap();
    statement.reset_status(StatementStatus::VmStep);
    let mut rows = statement.query(params).unwrap();
    let mut found = 0;
    while rows.next().unwrap().is_some() {
        found += 1;
    }
    drop(rows);
    (statement.get_status(StatementStatus::VmStep), found)
}

#[test]
fn a_poll_walks_past_nothing_however_much_lies_there() {
    let (_folder, connection) = file();
    crowd(&connection);
    let now = 1_000_000;
    let polls: [(&str, &[&dyn rusqlite::ToSql], usize); 8] = [
        (lease::READY, &[&TENANT, &"", &"download", &10], 0),
        (lease::RESTED, &[&TENANT, &"", &"download", &now, &10], 0),
        (lists::IS_READY, &[&TENANT, &"", &"download"], 1),
        (lists::IS_RESTED, &[&TENANT, &"", &"download", &now], 1),
        (lease::KIND_READY, &[&TENANT, &"", &"download"], 1),
        (lease::KIND_RESTING, &[&TENANT, &"", &""], 1),
        (lists::TENANT_READY, &[&[0_u8; 0].as_slice()], 1),
        (lists::TENANT_RESTING, &[&TENANT], 0),
    ];
    for (sql, params, count) in polls {
        let (steps, found) = steps(&connection, sql, params);
        assert!(steps < 200, "{steps} steps: {sql}");
        assert_eq!(found, count, "{sql}");
    }
    // One job's rest is over.
    let marked = connection.execute(lease::RESTED, params![TENANT, "", "download", 2_000_000, 1]);
    assert_eq!(marked.unwrap(), 1);
    let (steps, found) = steps(&connection, lease::READY, &[&TENANT, &"", &"download", &10]);
    assert!(steps < 200, "{steps} steps");
    assert_eq!(found, 1);
}
