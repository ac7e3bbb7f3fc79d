//! What goes wrong under an act on a job, and what the caller is told.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::Kind;
use hapax_core::job::{Deed, Done, Queue, State};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;

use super::super::database::Database;
use super::{begin, complete, leased, number, on, one, planned, tenant};

const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";
const TERMINATE_WAITING: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

async fn opened() -> (Database, Arc<PgLedger>) {
    let database = Database::create().await;
    let ledger = Arc::new(database.open(PgOptions::default()).await);
    (database, ledger)
}

#[tokio::test]
async fn a_backend_terminated_while_it_waits_means_that_nothing_was_written() {
    let (database, ledger) = opened().await;
    planned(&ledger, tenant(1), "a").await;
    let job = leased(&ledger, tenant(1)).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM job FOR UPDATE")
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let (ledger, act) = (ledger.clone(), begin(&job, "op"));
        async move { ledger.apply(tenant(1), vec![act]).await }
    });
    while number(lock.client(), TERMINATE_WAITING).await == 0 {
        tokio::task::yield_now().await;
    }
    let error = waiting.await.unwrap().unwrap_err();
    lock.commit().await.unwrap();

    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    let (stored, ops) = ledger
        .job(tenant(1), job.id.clone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((stored, ops.len()), (job.clone(), 0));
    one(&ledger, tenant(1), begin(&job, "op"))
        .await
        .expect("the next connection serves");
}

#[tokio::test]
async fn a_connection_lost_in_the_commit_leaves_the_outcome_unknown() {
    let (database, ledger) = opened().await;
    planned(&ledger, tenant(1), "a").await;
    let job = leased(&ledger, tenant(1)).await;
    let raw = database.raw().await;
    // A deferred trigger runs inside COMMIT, and ends the backend there.
    raw.batch_execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \
         $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER die AFTER INSERT ON op DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION die()",
    )
    .await
    .unwrap();
    let error = ledger
        .apply(tenant(1), vec![begin(&job, "op")])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::OutcomeUnknown, "{error}");

    raw.batch_execute("DROP TRIGGER die ON op").await.unwrap();
    assert!(
        ledger
            .op(tenant(1), hapax_core::job::OpKey::new("op").unwrap())
            .await
            .unwrap()
            .is_none()
    );
    one(&ledger, tenant(1), begin(&job, "op")).await.unwrap();
    one(&ledger, tenant(1), complete(&job, "op", "1"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_warning_on_commit_leaves_the_outcome_unknown() {
    let (database, ledger) = opened().await;
    let raw = database.raw().await;
    // What a cancelled wait for a synchronous standby looks like: success, and a warning.
    raw.batch_execute(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER warn AFTER INSERT OR UPDATE ON job DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION warn()",
    )
    .await
    .unwrap();
    let plan = || ledger.plan(tenant(1), vec![super::download("a")]);
    assert_eq!(plan().await.unwrap_err().kind(), Kind::OutcomeUnknown);
    assert!(
        !plan().await.unwrap()[0].planned,
        "it was written, and a second plan finds it"
    );
    let lease = ledger.lease(tenant(1), hapax_core::job::Ask::by("worker"));
    assert_eq!(lease.await.unwrap_err().kind(), Kind::OutcomeUnknown);
}

#[tokio::test]
async fn a_busy_job_is_waited_for() {
    let (database, ledger) = opened().await;
    planned(&ledger, tenant(1), "a").await;
    let job = leased(&ledger, tenant(1)).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM job FOR UPDATE")
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let (ledger, act) = (ledger.clone(), on(&job, Deed::Release));
        async move { ledger.apply(tenant(1), vec![act]).await }
    });
    // Longer than one wait for a lock.
    while number(lock.client(), WAITING).await == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    lock.commit().await.unwrap();
    let done = waiting.await.unwrap().unwrap().remove(0).unwrap();
    assert!(matches!(done, Done::Job(job) if job.lease.is_none()));
}

#[tokio::test]
async fn a_job_that_stays_busy_is_unavailable_and_unchanged() {
    let (database, ledger) = opened().await;
    planned(&ledger, tenant(1), "a").await;
    let job = leased(&ledger, tenant(1)).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM job FOR UPDATE")
        .await
        .unwrap();
    let error = ledger
        .apply(tenant(1), vec![on(&job, Deed::Release)])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    lock.commit().await.unwrap();
    assert_eq!(
        ledger
            .job(tenant(1), job.id.clone())
            .await
            .unwrap()
            .unwrap()
            .0,
        job
    );
}

#[tokio::test]
async fn a_value_that_the_database_refuses_fails_its_batch_and_no_other() {
    let (_database, ledger) = opened().await;
    planned(&ledger, tenant(1), "a").await;
    let job = leased(&ledger, tenant(1)).await;
    let bad = on(
        &job,
        Deed::Begin {
            key: hapax_core::job::OpKey::new("bad").unwrap(),
            kind: "HE\0AD".into(),
            class: hapax_core::job::Class::Tx,
            token: "t".into(),
        },
    );
    let error = ledger
        .apply(tenant(1), vec![begin(&job, "op"), bad])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Limit, "{error}");
    let (_, ops) = ledger
        .job(tenant(1), job.id.clone())
        .await
        .unwrap()
        .unwrap();
    assert!(ops.is_empty(), "all or nothing");
    one(&ledger, tenant(1), begin(&job, "op")).await.unwrap();
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_lock_behind() {
    let (database, ledger) = opened().await;
    planned(&ledger, tenant(1), "a").await;
    let job = leased(&ledger, tenant(1)).await;
    let mut raw = database.raw().await;
    let lock = raw.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM job FOR UPDATE")
        .await
        .unwrap();
    let step = |to| Deed::Advance {
        to,
        allowed_from: None,
        result: None,
    };
    let dropped = ledger.apply(tenant(1), vec![on(&job, step(State::HeadDone))]);
    let late = tokio::time::timeout(Duration::from_millis(200), dropped).await;
    assert!(late.is_err(), "it waits for the lock");
    lock.commit().await.unwrap();
    let done = one(&ledger, tenant(1), on(&job, step(State::HeadDone)))
        .await
        .unwrap();
    assert!(matches!(done, Done::Job(job) if job.state == State::HeadDone));
}
