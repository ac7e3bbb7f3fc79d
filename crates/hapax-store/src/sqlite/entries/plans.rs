//! How the statements find their rows: through an index, and past nothing that is not asked for. Also what the code says a
//! second time after the migration: the columns and the seed policies.

use hapax_core::Tenant;
use hapax_core::entry::{Column, Policy, Schema};
use rusqlite::Connection;
use tempfile::TempDir;

use super::super::SqliteOptions;
use super::super::connection::{self, Role};
use super::super::migrate;
use super::statements::Statements;
use super::{imports, policies, t1};

fn file() -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::default();
    let path = connection::prepare(&folder.path().join("ledger.db")).unwrap();
    let mut connection = connection::open(&path, &options, Role::Writer).unwrap();
    migrate::migrate(&mut connection, options.clock.now()).unwrap();
    (folder, connection)
}

#[test]
fn every_statement_on_entries_goes_through_an_index_and_sorts_nothing() {
    let (_folder, connection) = file();
    for schema in Schema::ALL {
        let sql = Statements::of(schema);
        for (sql, index) in [
            (&sql.find, "INTEGER PRIMARY KEY"),
            (&sql.find_id, "sqlite_autoindex_{schema}_entries_1"),
            (&sql.find_primary, "idx_{schema}_entries_primary"),
            (&sql.find_secondary, "idx_{schema}_entries_secondary"),
            (&sql.update, "INTEGER PRIMARY KEY"),
            (&sql.newest, "COVERING INDEX idx_{schema}_entries_created"),
            (
                &sql.newest_source,
                "COVERING INDEX idx_{schema}_entries_source",
            ),
            (
                &sql.revision_list,
                "sqlite_autoindex_{schema}_entry_revisions_1",
            ),
            (&sql.message_there, "PRIMARY KEY"),
            (&sql.text_hash, "INTEGER PRIMARY KEY"),
            (
                &sql.policy_list,
                "sqlite_autoindex_{schema}_idempotency_policies_1",
            ),
            (&sql.candidate_list, "idx_{schema}_t1_items_candidate"),
            (&sql.candidate_drop, "INTEGER PRIMARY KEY"),
            (&sql.candidate_queue, "INTEGER PRIMARY KEY"),
            (&sql.queued, "idx_{schema}_t1_items_entry"),
            (&sql.batch_there, "sqlite_autoindex_{schema}_t1_batches_1"),
            (&sql.batch_list, "idx_{schema}_t1_batches_import"),
            (&sql.batch_find, "sqlite_autoindex_{schema}_t1_batches_1"),
            (&sql.batch_newest, "idx_{schema}_t1_batches_newest"),
            (&sql.batch_live, "idx_{schema}_t1_batches_live"),
            (&sql.batch_due, "idx_{schema}_t1_batches_due"),
            (&sql.batch_change, "sqlite_autoindex_{schema}_t1_batches_1"),
            (
                &sql.item_count,
                "COVERING INDEX idx_{schema}_t1_items_status",
            ),
            (&sql.item_list, "idx_{schema}_t1_items_batch"),
            (&sql.item_list_status, "idx_{schema}_t1_items_status"),
            (&sql.item_text, "INTEGER PRIMARY KEY"),
            (&sql.item_find, "INTEGER PRIMARY KEY"),
            (&sql.item_settle, "INTEGER PRIMARY KEY"),
        ] {
            is_direct(
                &connection,
                sql,
                &index.replace("{schema}", schema.as_str()),
            );
        }
        let newest = plan(&connection, &sql.words_newest);
        let sorts = newest.iter().any(|step| step.contains("B-TREE"));
        assert!(!sorts, "the newest are walked: {newest:?}");
        // The index of words is asked first, and each row that it names is looked up by its number.
        for sql in [&sql.words_newest, &sql.words_best] {
            let plan = plan(&connection, sql);
            let asked = |step: &String| step.contains("VIRTUAL TABLE INDEX") && step.contains(":M");
            assert!(
                plan[0].contains("_entry_words") && plan.iter().any(asked),
                "{plan:?}"
            );
            assert!(
                plan[1].contains("SEARCH entries USING INTEGER PRIMARY KEY"),
                "{plan:?}"
            );
        }
    }
    for (sql, index) in [
        (policies::MODE_FIND, "sqlite_autoindex_pkm_runtime_config_1"),
        (imports::FIND, "sqlite_autoindex_imports_1"),
        (imports::RUNNING, "idx_imports_running"),
        (imports::LIST, "idx_imports_newest"),
        (imports::WRITE, "sqlite_autoindex_imports_1"),
        (t1::questions::ANSWER_FIND, "sqlite_autoindex_llm_answer_1"),
        (t1::questions::END, "PRIMARY KEY"),
        (t1::questions::STOP, "idx_llm_question_asker"),
    ] {
        is_direct(&connection, sql, index);
    }
}

#[test]
fn the_statements_name_the_columns_in_their_order() {
    let words = |sql: &str| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let names = |columns: &[&str]| columns.join(", ");
    let all: Vec<&str> = Column::ALL.iter().map(|column| column.as_str()).collect();
    let said = |keep: fn(Column) -> bool| {
        let said = Column::ALL.iter().filter(move |column| keep(**column));
        said.map(|column| column.as_str()).collect::<Vec<_>>()
    };
    let sql = Statements::of(Schema::Pkm);
    for find in [
        &sql.find,
        &sql.find_id,
        &sql.find_primary,
        &sql.find_secondary,
    ] {
        assert!(
            words(find).contains(&format!("{} FROM", names(&all))),
            "{find}"
        );
    }
    let inserted = names(&said(|column| !column.is_given()));
    let start =
        format!("id, created_at, updated_at, revision, {inserted}, text_hash, words_revision )");
    assert!(words(&sql.insert).contains(&start), "{}", sql.insert);
    let mut set = vec!["updated_at", "revision"];
    set.extend(said(Column::is_changeable));
    set.push("text_hash");
    let set: Vec<String> = (3..)
        .zip(set)
        .map(|(nth, name)| format!("{name} = ?{nth}"))
        .collect();
    assert!(
        words(&sql.update).contains(&set.join(", ")),
        "{}",
        sql.update
    );
}

#[test]
fn the_migration_writes_the_seed_policies() {
    let (_folder, connection) = file();
    let mut seeds = Policy::seeds();
    seeds.sort_by(|one, other| one.key.cmp(&other.key));
    for schema in Schema::ALL {
        let there = policies::list(&connection, Statements::of(schema), Tenant::DEFAULT).unwrap();
        let there: Vec<Policy> = there
            .into_iter()
            .map(|policy| Policy { id: 0, ..policy })
            .collect();
        assert_eq!(there, seeds);
    }
}

fn is_direct(connection: &Connection, sql: &str, index: &str) {
    let plan = plan(connection, sql);
    assert!(
        plan.iter().any(|step| step.contains(index)),
        "{sql}: {plan:?}"
    );
    let is_direct = |step: &String| !step.contains("B-TREE") && !step.starts_with("SCAN ");
    let fixed = |step: &String| step == "SCAN CONSTANT ROW";
    assert!(
        plan.iter().all(|step| is_direct(step) || fixed(step)),
        "{sql}: {plan:?}"
    );
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&["EXPLAIN QUERY PLAN ", sql].concat())
        .unwrap();
    let count = explain.parameter_count();
    let rows = explain.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3));
    rows.unwrap().map(Result::unwrap).collect()
}
