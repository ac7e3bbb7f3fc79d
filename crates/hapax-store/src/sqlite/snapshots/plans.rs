//! How the statements find their rows: through an index, and past nothing that is not asked for.

use rusqlite::Connection;
use tempfile::TempDir;

use super::super::SqliteOptions;
use super::super::connection::{self, Role};
use super::super::migrate;
use super::{fill, puts, rows};

fn file() -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default();
    let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
    let mut connection = connection::open(&path, &options, Role::Writer).unwrap();
    migrate::migrate(&mut connection, options.clock.now()).unwrap();
    (folder, connection)
}

#[test]
fn every_read_of_snapshots_goes_through_an_index_and_sorts_nothing() {
    let (_folder, connection) = file();
    for (sql, index) in [
        (rows::FIND, "sqlite_autoindex_snapshot_1"),
        (rows::FIND_SEQ, "INTEGER PRIMARY KEY"),
        (rows::LIST, "idx_snapshot_entity"),
        (rows::ALIASES, "PRIMARY KEY"),
        (rows::ENTITY, "PRIMARY KEY"),
        (rows::ENTITIES, "idx_entity_changed"),
        (puts::OF_HASH, "idx_snapshot_hash"),
        (puts::OF_ID, "sqlite_autoindex_snapshot_1"),
        (fill::TAKEN, "COVERING INDEX idx_snapshot_hash"),
    ] {
        let plan = plan(&connection, sql);
        assert!(
            plan.iter().any(|step| step.contains(index)),
            "{sql}: {plan:?}"
        );
        let is_direct = |step: &String| !step.contains("B-TREE") && !step.starts_with("SCAN");
        assert!(plan.iter().all(is_direct), "{sql}: {plan:?}");
    }
    // What misses its hash is walked, and nothing else.
    let unhashed = plan(&connection, fill::UNHASHED);
    let walk = "SCAN snapshot USING INDEX idx_snapshot_unhashed";
    assert!(unhashed.iter().any(|step| step == walk), "{unhashed:?}");
    assert!(unhashed.iter().all(|step| !step.contains("B-TREE")));
    // A snapshot keeps a bounded number of observations, which are sorted.
    let observations = plan(&connection, rows::OBSERVATIONS);
    let is_read = |step: &String| step.contains("SEARCH observation USING PRIMARY KEY");
    assert!(observations.iter().any(is_read), "{observations:?}");
    assert!(observations.iter().all(|step| !step.starts_with("SCAN")));
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&["EXPLAIN QUERY PLAN ", sql].concat())
        .unwrap();
    let count = explain.parameter_count();
    let rows = explain.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
    rows.unwrap().map(Result::unwrap).collect()
}
