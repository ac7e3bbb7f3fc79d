//! Brings the file's tables up to date, once, however many processes start at the same time.

use std::path::Path;

use hapax_core::{Error, Kind, Time};
use rusqlite::{Connection, TransactionBehavior, params};

use super::SqliteOptions;
use super::connection::{self, Role};
use super::fault::failed;
use super::jobs::import;
use crate::migration::{self, Migration, migrations, pending};

static ALL: &[Migration] = migrations!("sqlite":
        "0001_idempotency_keys", "0002_token", "0003_audit", "0004_tenant_key", "0005_job",
        "0006_snapshot", "0007_entry", "0008_t1", "0009_lists", "0010_questions",
        "0011_shared_cache", "0012_job_queue", "0013_fewer_indexes", "0014_words_in_bulk", "0015_cheaper_checks",
        "0016_ended_session", "0017_shared_secret", "0018_doubtful_ops", "0019_reruns_and_readers", "0020_job_backoff",
        "0021_named_tokens", "0022_stored_masks");

/// The migration that takes the jobs of an older program over.
const JOBS: i64 = 5;
/// The migration that adds column by column, and what makes the same of a file that is new.
const T1: i64 = 8;
const T1_IN_A_NEW_FILE: &str = include_str!("../../migrations/new/0008_t1.sql");

const TABLE: &str = include_str!("../../sql/sqlite/migration_table.sql");
const EXISTS: &str = include_str!("../../sql/sqlite/migration_exists.sql");
const LIST: &str = include_str!("../../sql/sqlite/migration_list.sql");
const NAMES: &str = include_str!("../../sql/sqlite/migration_names.sql");
const RECORD: &str = include_str!("../../sql/sqlite/migration_record.sql");
const IS_NEW: &str = include_str!("../../sql/sqlite/migration_is_new.sql");

const OPERATION: &str = "migrating the database";

/// Makes the file if it is missing and runs what did not run yet. Returns the names of what ran now.
pub(super) fn migrate_file(
    path: &Path,
    options: &SqliteOptions,
) -> Result<Vec<&'static str>, Error> {
    let path = connection::prepare(path)?;
    let mut connection = connection::open(&path, options, Role::Writer)?;
    migrate(&mut connection, options.clock.now())
}

/// The names of what a newer program ran on this file.
pub(super) fn newer_in_file(path: &Path, options: &SqliteOptions) -> Result<Vec<String>, Error> {
    let path = connection::prepare(path)?;
    let connection = connection::open(&path, options, Role::Writer)?;
    let read = || {
        if connection.query_row(EXISTS, [], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(Vec::new());
        }
        let mut names = connection.prepare(NAMES)?;
        let rows = names.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    let ran = read().map_err(|error| failed("reading what ran", error))?;
    Ok(migration::newer(ALL, ran))
}

/// Runs what did not run yet, all of it in one transaction. Returns the names of what ran now.
pub(super) fn migrate(connection: &mut Connection, now: Time) -> Result<Vec<&'static str>, Error> {
    if todo(connection)?.is_empty() {
        return Ok(Vec::new());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| failed(OPERATION, error))?;
    // Asked again under the lock: another process may have been first.
    let todo = todo(&transaction)?;
    let is_new = transaction
        .query_row(IS_NEW, [], |row| row.get(0))
        .map_err(|error| failed(OPERATION, error))?;
    transaction
        .execute_batch(TABLE)
        .map_err(|error| failed(OPERATION, error))?;
    let mut old = None;
    for migration in &todo {
        if migration.number == JOBS {
            old = import::aside(&transaction)?;
        }
        run(&transaction, migration, is_new, now)?;
    }
    // Last: its rows are written with the columns of today.
    if let Some(old) = old {
        import::copy(&transaction, &old, now)?;
    }
    transaction
        .commit()
        .map_err(|error| failed(OPERATION, error))?;
    Ok(todo.iter().map(|migration| migration.name).collect())
}

fn run(
    connection: &Connection,
    migration: &Migration,
    is_new: bool,
    now: Time,
) -> Result<(), Error> {
    let sql = match migration.number {
        T1 if is_new => T1_IN_A_NEW_FILE,
        _ => migration.sql,
    };
    let ran = connection.execute_batch(sql).and_then(|()| {
        let row = params![
            migration.number,
            migration.name,
            migration.sha256(),
            now.as_ms()
        ];
        connection.execute(RECORD, row)
    });
    ran.map(drop).map_err(|error| {
        Error::new(Kind::Unavailable, OPERATION).because(format!("{}: {error}", migration.name))
    })
}

fn todo(connection: &Connection) -> Result<Vec<&'static Migration>, Error> {
    let ran = ran(connection).map_err(|error| failed(OPERATION, error))?;
    pending(ALL, &ran)
}

fn ran(connection: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    let exists: i64 = connection.query_row(EXISTS, [], |row| row.get(0))?;
    if exists == 0 {
        return Ok(Vec::new());
    }
    let mut list = connection.prepare(LIST)?;
    let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB_INSERT: &str = include_str!("../../sql/sqlite/job_insert.sql");
    const OP_PUT: &str = include_str!("../../sql/sqlite/op_put.sql");
    const SCHEMA: &str = include_str!("../../sql/sqlite/schema_of_a_test.sql");
    /// What is written for every key, job, operation, snapshot and entry.
    const WRITES: [&str; 8] = [
        include_str!("../../sql/sqlite/insert.sql"),
        include_str!("../../sql/sqlite/settle.sql"),
        JOB_INSERT,
        include_str!("../../sql/sqlite/job_move.sql"),
        include_str!("../../sql/sqlite/job_say.sql"),
        OP_PUT,
        include_str!("../../sql/sqlite/snapshot_insert.sql"),
        include_str!("../../sql/sqlite/entry_insert.sql"),
    ];

    fn migrated() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default();
        let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
        let mut connection = connection::open(&path, &options, Role::Writer).unwrap();
        migrate(&mut connection, options.clock.now()).unwrap();
        (folder, connection)
    }

    /// All that a file says of its tables, indexes and triggers.
    fn schema(connection: &Connection) -> Vec<(String, String, Option<String>)> {
        let mut list = connection.prepare(SCHEMA).unwrap();
        let rows = list.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_new_file_is_made_the_same_as_by_every_migration_in_its_turn() {
        let (_folder, made) = migrated();
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default();
        let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
        let grown = connection::open(&path, &options, Role::Writer).unwrap();
        grown.execute_batch(TABLE).unwrap();
        for migration in ALL {
            run(&grown, migration, false, options.clock.now()).unwrap();
        }
        assert_eq!(schema(&made), schema(&grown));
    }

    #[test]
    fn no_write_makes_a_table_of_its_own_for_every_row() {
        let (_folder, connection) = migrated();
        for sql in WRITES {
            let sql = sql.replace("{schema}", "pkm");
            let mut explain = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
            let params = rusqlite::params_from_iter(vec![1; explain.parameter_count()]);
            let steps: Vec<String> = explain
                .query_map(params, |row| row.get(1))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(steps.len() > 10, "{sql}");
            assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{sql}");
        }
    }

    #[test]
    fn the_file_is_whole_after_all_migrations_and_refuses_what_it_did_before() {
        let (_folder, connection) = migrated();
        let whole: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(whole, "ok");
        let (tenant, none) = ([7_u8; 16], None::<i64>);
        let job = |state: &str, standing: &str| {
            let name = format!("{state}-{standing}");
            connection.execute(
                JOB_INSERT,
                params![
                    tenant, name, name, "k", "", state, standing, none, none, 0, 0, 0, 5, 0, 0, 0,
                    "", "", "", 0, 0, none
                ],
            )
        };
        for (state, standing) in [("PLANNED", "ready"), ("FAILED", "resting"), ("DEAD", "off")] {
            assert_eq!(job(state, standing).unwrap(), 1);
        }
        for (state, standing) in [
            ("PLANNED", "off"),
            ("DEAD", "ready"),
            ("LOST", "ready"),
            ("PLANNED", "asleep"),
        ] {
            assert!(job(state, standing).is_err(), "{state} {standing}");
        }
        let op = |state: &str, class: &str| {
            let name = format!("{state}-{class}");
            let params = params![
                tenant, name, 1, "k", state, class, 0, "", 1, 0, none, none, none
            ];
            connection.execute(OP_PUT, params)
        };
        assert_eq!(op("running", "probe").unwrap(), 1);
        assert!(op("asleep", "probe").is_err());
        assert!(op("running", "never").is_err());
        assert!(op("done", "probe").is_err(), "what is done has a result");
    }
}
