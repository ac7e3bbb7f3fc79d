//! A file of the older program: every row is kept, under the state that fits, or the file is left as it is.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hapax_core::job::{
    Act, Ask, Begun, Class, Deed, Done, Fence, JobId, JobKind, NewJob, On, Op, OpKey, OpState,
    Queue, State, job_key,
};
use hapax_core::{Kind, Tenant};
use hapax_store::SqliteLedger;
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use tempfile::TempDir;

use super::{count, folder};

const MADE: &str = "
    CREATE TABLE _meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO _meta (key, value) VALUES ('schema_version', '3');
    CREATE TABLE artifact_jobs (
        job_id TEXT PRIMARY KEY, work_id TEXT NOT NULL, artifact_id TEXT NOT NULL, canonical_url TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'PLANNED', lease_owner TEXT, lease_until REAL, created_at REAL NOT NULL,
        updated_at REAL NOT NULL, idempotency_key TEXT NOT NULL,
        UNIQUE(work_id, artifact_id, canonical_url), UNIQUE(idempotency_key),
        CHECK (state IN ('PLANNED', 'LEASED', 'HEAD_DONE', 'RESUME_OK', 'STREAMING', 'FINALIZED', 'INDEXED',
                         'DEDUPED', 'FAILED', 'SKIPPED_DUPLICATE'))
    );
    CREATE INDEX idx_artifact_jobs_state ON artifact_jobs(state);
    CREATE INDEX idx_artifact_jobs_lease ON artifact_jobs(lease_until);
    CREATE TABLE artifact_ops (
        op_key TEXT PRIMARY KEY, job_id TEXT NOT NULL, op_type TEXT NOT NULL, started_at REAL NOT NULL,
        finished_at REAL, result_code TEXT, result_json TEXT,
        FOREIGN KEY(job_id) REFERENCES artifact_jobs(job_id) ON DELETE CASCADE
    );
    CREATE INDEX idx_artifact_ops_job ON artifact_ops(job_id);
    CREATE VIEW waiting AS SELECT job_id FROM artifact_jobs WHERE state = 'PLANNED';
    CREATE TABLE manifest (id INTEGER PRIMARY KEY, url TEXT);
    INSERT INTO manifest (url) VALUES ('https://example.org/kept');";

/// The key, the end, the code and the result of an operation.
type Situation<'a> = (&'a str, Option<f64>, Option<&'a str>, Option<&'a str>);

struct Old {
    _folder: TempDir,
    path: PathBuf,
    now: f64,
}

fn job_id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn url(number: usize) -> String {
    format!("https://example.org/{number}")
}

/// The states of the older program; those in which somebody may have died hold a lease that ran out.
fn states() -> impl Iterator<Item = State> {
    State::ALL.into_iter().filter(|state| *state != State::Dead)
}

/// A file with a job in every state, a job that is held now, and operations in every situation.
fn old() -> Old {
    let folder = folder();
    let path = folder.path().join("manifest.sqlite3");
    let connection = rusqlite::Connection::open(&path).expect("the file is made");
    connection.execute_batch(MADE).expect("the tables are made");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.expect("a time").as_secs_f64();
    for (number, state) in states().chain([State::Streaming]).enumerate() {
        let held = number == 10;
        let until = if held { now + 3600.0 } else { now - 60.0 };
        let lease = matches!(
            state,
            State::Leased | State::HeadDone | State::Streaming | State::Indexed
        )
        .then_some(("old-worker", until));
        let artifact = format!("a-{number}");
        let key = job_key(&JobKind::DOWNLOAD, "w", &artifact, &url(number));
        let count = f64::from(u32::try_from(number).expect("a small number"));
        connection
            .execute(
                "INSERT INTO artifact_jobs VALUES (?1, 'w', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                rusqlite::params![
                    job_id(number),
                    artifact,
                    url(number),
                    state.as_str(),
                    lease.map(|(owner, _)| owner),
                    lease.map(|(_, until)| until),
                    now - 1000.0 + count,
                    now - 500.0,
                    key,
                ],
            )
            .expect("the row is written");
    }
    let cut = format!("{{\"text\": \"{}", "x".repeat(19_990));
    let ops: [Situation<'_>; 9] = [
        (
            "ok",
            Some(now),
            Some("OK"),
            Some(r#"{"code": "OK", "status": 200}"#),
        ),
        ("other-code", Some(now), Some("SKIPPED"), Some("null")),
        (
            "error",
            Some(now),
            Some("ERROR"),
            Some(r#"{"code": "ERROR", "error": "timed out"}"#),
        ),
        (
            "error-text",
            Some(now),
            Some("ERROR"),
            Some("timed out, cut of"),
        ),
        ("running", None, None, None),
        ("abandoned", Some(now), Some("ABANDONED"), Some("{}")),
        ("abandoned-open", None, Some("ABANDONED"), None),
        ("cut", Some(now), Some("OK"), Some(&cut)),
        ("empty", Some(now), Some("OK"), None),
    ];
    for (key, finished, code, result) in ops {
        connection
            .execute(
                "INSERT INTO artifact_ops VALUES (?1, ?2, 'HEAD', ?3, ?4, ?5, ?6)",
                rusqlite::params![key, job_id(2), now - 100.0, finished, code, result],
            )
            .expect("the row is written");
    }
    Old {
        _folder: folder,
        path,
        now,
    }
}

fn open(path: &Path) -> SqliteLedger {
    SqliteLedger::open(path, SqliteOptions::default()).expect("it opens")
}

async fn op(ledger: &SqliteLedger, key: &str) -> Op {
    let found = ledger
        .op(Tenant::DEFAULT, OpKey::new(key).expect("a key"))
        .await;
    found.expect("it answers").expect("it is kept")
}

#[tokio::test]
async fn every_old_job_keeps_its_id_its_key_and_its_state() {
    let old = old();
    let ran = SqliteLedger::migrate(&old.path).expect("it migrates");
    assert!(ran.contains(&"0005_job"));
    assert!(
        SqliteLedger::migrate(&old.path)
            .expect("it migrates")
            .is_empty()
    );
    let ledger = open(&old.path);

    for (number, state) in states().chain([State::Streaming]).enumerate() {
        let id = JobId::new(&job_id(number)).expect("an id");
        let found = ledger.job(Tenant::DEFAULT, id.clone()).await;
        let (job, ops) = found.expect("it answers").expect("it is kept");
        assert_eq!((job.state, job.epoch, job.attempts), (state, 0, 0));
        assert_eq!(
            (&job.kind, &job.canonical_url),
            (&JobKind::DOWNLOAD, &url(number))
        );
        let is_held = number == 10;
        assert_eq!(job.is_held(ledger.time()), is_held, "{state}");
        if job.state.is_terminal() {
            assert_eq!(job.lease, None);
        }
        #[allow(clippy::cast_precision_loss, reason = "milliseconds fit")]
        let updated_at = job.updated_at.as_ms() as f64 / 1000.0;
        assert!((updated_at - (old.now - 500.0)).abs() < 0.01);
        assert_eq!(ops.len(), if number == 2 { 9 } else { 0 });
        let artifact = format!("a-{number}");
        let again = NewJob::download("w", &artifact, &url(number)).expect("a job");
        let again = ledger.plan(Tenant::DEFAULT, vec![again]).await;
        let again = again.expect("it answers").remove(0);
        assert_eq!((again.planned, again.job.id), (false, id));
    }
    let connection = rusqlite::Connection::open(&old.path).expect("it opens");
    assert_eq!(count(&connection, "SELECT count(1) FROM artifact_jobs"), 11);
    assert_eq!(count(&connection, "SELECT count(1) FROM artifact_ops"), 9);
    assert_eq!(count(&connection, "SELECT count(1) FROM manifest"), 1);
    assert_eq!(count(&connection, "SELECT count(1) FROM waiting"), 1);
    let left = "SELECT count(1) FROM sqlite_schema WHERE name LIKE '%before' OR name LIKE 'idx_artifact%' OR name LIKE '%orphaned'";
    assert_eq!(count(&connection, left), 0);
}

#[tokio::test]
async fn an_old_operation_is_done_run_again_or_in_doubt() {
    let old = old();
    let ledger = open(&old.path);

    for (key, state) in [
        ("ok", OpState::Done),
        ("other-code", OpState::Done),
        ("error", OpState::Retryable),
        ("error-text", OpState::Retryable),
        ("running", OpState::InDoubt),
        ("abandoned", OpState::InDoubt),
        ("abandoned-open", OpState::InDoubt),
        ("cut", OpState::InDoubt),
        ("empty", OpState::InDoubt),
    ] {
        let op = op(&ledger, key).await;
        assert_eq!(op.state, state, "{key}");
        assert_eq!(
            (op.kind.as_str(), op.job.as_str()),
            ("HEAD", job_id(2).as_str())
        );
        assert_eq!(op.result.is_some(), state == OpState::Done, "{key}");
    }
    let result = op(&ledger, "ok").await.result;
    assert_eq!(result.as_deref(), Some(r#"{"code": "OK", "status": 200}"#));
    assert_eq!(
        op(&ledger, "error").await.error.as_deref(),
        Some("timed out")
    );
    let text = op(&ledger, "error-text").await.error;
    assert_eq!(text.as_deref(), Some("timed out, cut of"));
    let cut = op(&ledger, "cut").await.error.expect("it says so");
    assert!(cut.contains("not kept whole"), "{cut}");
}

#[tokio::test]
async fn an_old_job_whose_worker_died_is_leased_and_goes_on() {
    let old = old();
    let ledger = open(&old.path);
    let ask = Ask {
        limit: 100,
        ..Ask::by("new-worker")
    };
    let leased = ledger.lease(Tenant::DEFAULT, ask).await;
    let leased = leased.expect("it answers");

    let mut seen: Vec<State> = leased.iter().map(|job| job.state).collect();
    seen.sort_unstable();
    let wanted = [
        State::Leased, // It was planned.
        State::Leased,
        State::Leased, // It had failed.
        State::HeadDone,
        State::ResumeOk,
        State::Streaming,
        State::Finalized,
    ];
    assert_eq!(seen, wanted, "neither what is held nor what has ended");
    assert!(leased.iter().all(|job| job.epoch == 1 && job.attempts == 1));
    let job = leased.iter().find(|job| job.state == State::HeadDone);
    let job = job.expect("it is leased");
    let ask_for = |key: &str| Act {
        on: On::Job(job.id.clone()),
        fence: Fence::of("new-worker", job.epoch),
        deed: Deed::Begin {
            key: OpKey::new(key).expect("a key"),
            kind: "HEAD".into(),
            class: Class::AtMostOnce,
            token: "t".into(),
        },
    };
    let acts = vec![ask_for("ok"), ask_for("error"), ask_for("running")];
    let answers = ledger.apply(Tenant::DEFAULT, acts).await;
    let begun: Vec<Begun> = answers
        .expect("it answers")
        .into_iter()
        .map(|answer| match answer {
            Ok(Done::Begun(begun, _)) => begun,
            other => panic!("it is begun, got {other:?}"),
        })
        .collect();
    let replay = Begun::Replay(r#"{"code": "OK", "status": 200}"#.into());
    assert_eq!(begun, [replay, Begun::Execute("t".into()), Begun::InDoubt]);
}

#[test]
fn an_operation_without_a_job_is_kept_beside() {
    let old = old();
    let connection = rusqlite::Connection::open(&old.path).expect("it opens");
    connection
        .execute_batch(
            "PRAGMA foreign_keys = OFF;
             INSERT INTO artifact_ops VALUES ('orphan', 'nobody', 'HEAD', 1.0, NULL, NULL, NULL)",
        )
        .expect("the row is written");

    SqliteLedger::migrate(&old.path).expect("it migrates");

    assert_eq!(count(&connection, "SELECT count(1) FROM artifact_ops"), 9);
    let kept = "SELECT count(1) FROM artifact_ops_orphaned WHERE op_key = 'orphan'";
    assert_eq!(count(&connection, kept), 1);
}

#[test]
fn tables_that_only_share_a_name_are_refused_and_left_as_they_are() {
    for made in [
        "CREATE TABLE artifact_jobs (job_id TEXT PRIMARY KEY, url TEXT)",
        "CREATE TABLE artifact_ops (op_key TEXT)",
        "CREATE VIEW artifact_jobs AS SELECT 1 AS job_id",
        "CREATE TABLE _meta (name TEXT)",
        "CREATE TABLE job (id INTEGER)",
    ] {
        let folder = folder();
        let path = folder.path().join("other.db");
        let connection = rusqlite::Connection::open(&path).expect("the file is made");
        connection.execute_batch(made).expect("it is made");

        let refused = SqliteLedger::migrate(&path).expect_err("it is refused");

        assert_eq!(refused.kind(), Kind::Unsafe, "{made}: {refused}");
        assert!(
            refused.to_string().contains("use a file of its own"),
            "{refused}"
        );
        let ours = "SELECT count(1) FROM sqlite_schema WHERE name = 'idempotency_keys'";
        assert_eq!(count(&connection, ours), 0, "nothing was made");
    }
}

#[test]
fn a_row_that_cannot_be_kept_stops_the_migration_and_is_named() {
    let old = old();
    let connection = rusqlite::Connection::open(&old.path).expect("it opens");
    connection
        .execute_batch("UPDATE artifact_jobs SET job_id = 'two words' WHERE state = 'PLANNED'")
        .expect("it is changed");

    let refused = SqliteLedger::migrate(&old.path).expect_err("it is refused");

    assert_eq!(refused.kind(), Kind::Unsafe);
    assert!(refused.to_string().contains("'two words'"), "{refused}");
    let kept = "SELECT count(1) FROM artifact_jobs WHERE idempotency_key IS NOT NULL";
    assert_eq!(count(&connection, kept), 11);
    assert_eq!(count(&connection, "SELECT count(1) FROM artifact_ops"), 9);
}
