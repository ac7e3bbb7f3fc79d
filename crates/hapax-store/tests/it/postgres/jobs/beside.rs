//! The rows beside the jobs agree with them, whoever wrote: this program, an older one, or the migration.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::job::{Ask, Deed, Job, JobKind, JobScan, NewJob, Queue, State};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use tokio_postgres::Client;

use super::super::database::Database;
use super::{number, on, one, tenant};

const MIGRATION: &str = include_str!("../../../../migrations/postgres/0012_job_queue.sql");

/// As if the migration had not been run.
const UNDO: &str = "DROP TRIGGER job_kept ON job; DROP FUNCTION job_kept; DROP TABLE job_ready, job_later, job_list; \
    ALTER TABLE job DROP COLUMN later; ALTER TABLE job DROP COLUMN listed; \
    DROP INDEX idx_job_seq; \
    CREATE INDEX idx_job_ready ON job (tenant_id, place, kind, attempts, seq) WHERE standing = 'ready'; \
    CREATE INDEX idx_job_resting ON job (tenant_id, place, kind, available_at) WHERE standing = 'resting'; \
    CREATE INDEX idx_job_held ON job (tenant_id, lease_until) WHERE lease_until IS NOT NULL; \
    CREATE INDEX idx_job_kind ON job (tenant_id, kind, state, seq) WHERE seq > 0";

/// Counts what does not agree: the queue, the lists, and what is looked at later.
const WRONG: [(&str, &str); 6] = [
    (
        "ready and not queued, or queued and not ready",
        "SELECT count(*) FROM (SELECT tenant_id, place, kind, attempts, seq FROM job WHERE standing = 'ready') AS j \
           FULL JOIN job_ready AS r USING (tenant_id, place, kind, attempts, seq) \
          WHERE j IS NULL OR r IS NULL",
    ),
    (
        "not listed under its state, or listed under another",
        "SELECT count(*) FROM (SELECT tenant_id, kind, coalesce(listed, state) AS state, seq FROM job) AS j \
           FULL JOIN job_list AS l USING (tenant_id, kind, state, seq) \
          WHERE j IS NULL OR l IS NULL",
    ),
    (
        "rests or is leased, and nobody looks at it in time",
        "SELECT count(*) FROM job AS j \
          WHERE (j.standing = 'resting' OR j.lease_until IS NOT NULL) \
            AND NOT EXISTS (SELECT 1 FROM job_later AS l \
                             WHERE l.number = j.later AND j.seq = ANY(l.jobs) AND l.tenant_id = j.tenant_id \
                               AND l.kind = j.kind AND l.place = j.place AND l.held = (j.lease_until IS NOT NULL) \
                               AND (j.standing = 'ready' OR l.at <= j.available_at))",
    ),
    (
        "neither rests nor is leased, and is looked at",
        "SELECT count(*) FROM job WHERE later IS NOT NULL AND standing <> 'resting' AND lease_until IS NULL",
    ),
    (
        "counted wrongly",
        "SELECT count(*) FROM job_later AS l \
          WHERE l.waiting <> (SELECT count(*) FROM job AS j WHERE j.later = l.number) OR l.waiting = 0",
    ),
    (
        "listed elsewhere without being leased",
        "SELECT count(*) FROM job WHERE listed IS NOT NULL AND (state <> 'LEASED' OR lease_until IS NULL)",
    ),
];

async fn agrees(raw: &Client) {
    for (what, sql) in WRONG {
        assert_eq!(number(raw, sql).await, 0, "{what}");
    }
}

/// A job that fetches nothing, so that it may be ended at once.
fn some(number: u32) -> NewJob {
    let kind = JobKind::new("some").unwrap();
    NewJob::new(kind, "w", &format!("a-{number}"), "https://example.org/").unwrap()
}

fn advance(to: State) -> Deed {
    Deed::Advance {
        to,
        allowed_from: None,
        result: None,
    }
}

fn fail(retryable: bool) -> Deed {
    Deed::Fail {
        error: Some("broken".into()),
        retryable,
        after: None,
    }
}

/// Jobs in every standing: waiting, held, resting, released, given up and done.
async fn jobs_of_all_sorts(ledger: &PgLedger, tenant: Tenant) {
    let names = (0..12).map(some);
    ledger.plan(tenant, names.collect()).await.unwrap();
    let ask = Ask {
        limit: 8,
        ..Ask::by("worker")
    };
    let jobs = ledger.lease(tenant, ask).await.unwrap();
    let deeds = [
        advance(State::Indexed),
        advance(State::HeadDone),
        fail(true),
        fail(false),
        Deed::Release,
        Deed::Renew {
            ttl: Duration::from_secs(600),
        },
        advance(State::SkippedDuplicate),
    ];
    for (job, deed) in jobs.iter().zip(deeds) {
        let first = match &deed {
            Deed::Advance { to, .. } if *to == State::Indexed => Some(advance(State::Finalized)),
            _ => None,
        };
        for deed in first.into_iter().chain([deed]) {
            one(ledger, tenant, on(job, deed)).await.unwrap();
        }
    }
}

/// What anybody can see of a tenant's jobs.
async fn seen(ledger: &PgLedger, tenant: Tenant) -> (String, Vec<Job>, Vec<Job>) {
    let tally = ledger.tally(tenant, u64::MAX).await.unwrap();
    let of = |state: Option<State>, held| JobScan {
        state,
        held,
        limit: JobScan::LIMIT_MAX,
        ..JobScan::of(tenant)
    };
    let mut listed = Vec::new();
    for state in State::ALL {
        let page = ledger.jobs(of(Some(state), false)).await.unwrap();
        assert!(page.jobs.iter().all(|job| job.state == state));
        listed.extend(page.jobs);
    }
    let held = ledger.jobs(of(None, true)).await.unwrap().jobs;
    (format!("{tally:?}"), listed, held)
}

#[tokio::test]
async fn every_act_leaves_rows_that_agree_with_the_jobs() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    jobs_of_all_sorts(&ledger, tenant(1)).await;

    agrees(&database.raw().await).await;
    let (_, listed, held) = seen(&ledger, tenant(1)).await;
    assert_eq!(listed.len(), 12, "each under one state");
    assert_eq!(
        held.len(),
        3,
        "one made a step, one was renewed, one is new"
    );
}

#[tokio::test]
async fn many_hands_at_once_leave_rows_that_agree_with_the_jobs() {
    let database = Database::create().await;
    let ledger = Arc::new(database.open(PgOptions::default()).await);
    let jobs = (0..200).map(some);
    ledger.plan(tenant(1), jobs.collect()).await.unwrap();
    let hands = (0..4).map(|hand| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            for round in 0..12_usize {
                let ask = Ask {
                    limit: 20,
                    ..Ask::by("worker")
                };
                let jobs = ledger.lease(tenant(1), ask).await.unwrap();
                let acts = jobs.iter().enumerate().map(|(nth, job)| {
                    let deed = match (job.state, (nth + round + hand) % 4) {
                        (State::Leased, 0) => advance(State::Finalized),
                        (State::Leased, 1) => advance(State::HeadDone),
                        (_, 2) => fail(true),
                        _ => Deed::Release,
                    };
                    on(job, deed)
                });
                for answer in ledger.apply(tenant(1), acts.collect()).await.unwrap() {
                    answer.unwrap();
                }
            }
        })
    });
    for hand in hands.collect::<Vec<_>>() {
        hand.await.unwrap();
    }
    agrees(&database.raw().await).await;
    assert_eq!(seen(&ledger, tenant(1)).await.1.len(), 200);
}

#[tokio::test]
async fn leases_that_ran_out_are_queued_again_and_still_found_as_such() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let jobs = (0..6).map(some);
    ledger.plan(tenant(1), jobs.collect()).await.unwrap();
    let ask = |limit| Ask {
        limit,
        ttl: Duration::from_millis(1),
        ..Ask::by("worker")
    };
    let first = ledger.lease(tenant(1), ask(6)).await.unwrap();
    assert_eq!(first.len(), 6);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let again = ledger.lease(tenant(1), Ask::by("other")).await.unwrap();
    assert_eq!(again.len(), 1);

    let raw = database.raw().await;
    agrees(&raw).await;
    assert_eq!(number(&raw, "SELECT count(*) FROM job_ready").await, 5);
    let stale = ledger.stale(Some(tenant(1)), 100).await.unwrap();
    assert_eq!(stale.leases.len(), 5, "all but the one that is held again");
    assert_eq!(
        ledger.stale(None, 100).await.unwrap().leases.len(),
        5,
        "also for whoever looks after all tenants"
    );
}

#[tokio::test]
async fn what_an_older_program_writes_is_queued_and_listed() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    jobs_of_all_sorts(&ledger, tenant(1)).await;
    let raw = database.raw().await;
    raw.batch_execute(
        "SET ROLE hapax_app; SET hapax.tenant = '00000000-0000-0000-0000-000000000001'; \
         UPDATE job SET standing = 'ready' WHERE standing = 'resting' AND lease_until IS NULL; \
         UPDATE job SET state = 'LEASED', standing = 'resting', lease_owner = 'old', lease_until = 9000000000000, \
                available_at = 9000000000000, epoch = epoch + 1, attempts = attempts + 1 WHERE state = 'PLANNED'; \
         UPDATE job SET state = 'INDEXED', standing = 'off', lease_owner = NULL, lease_until = NULL WHERE state = 'HEAD_DONE'; \
         INSERT INTO job (tenant_id, job_id, job_key, kind, place, state, standing, epoch, attempts, failures, max_attempts, \
                available_at, redone, retried, work_id, artifact_id, canonical_url, created_at, updated_at) \
         VALUES ('00000000-0000-0000-0000-000000000001', 'x', 'x', 'old', '', 'PLANNED', 'ready', 0, 0, 0, 5, 0, -1, -1, 'w', \
                'a', 'u', 0, 0); \
         RESET ROLE",
    )
    .await
    .unwrap();

    agrees(&raw).await;
    let (_, listed, held) = seen(&ledger, tenant(1)).await;
    assert_eq!((listed.len(), held.len()), (13, 6));
    let ask = Ask {
        limit: 100,
        ..Ask::by("worker")
    };
    let leased = ledger.lease(tenant(1), ask).await.unwrap();
    assert!(leased.iter().any(|job| job.id.as_str() == "x"));
    agrees(&raw).await;
}

#[tokio::test]
async fn the_migration_carries_every_job_over() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    jobs_of_all_sorts(&ledger, tenant(1)).await;
    jobs_of_all_sorts(&ledger, tenant(2)).await;
    let before = (
        seen(&ledger, tenant(1)).await,
        seen(&ledger, tenant(2)).await,
    );
    let raw = database.raw().await;
    raw.batch_execute(UNDO).await.unwrap();
    raw.batch_execute(&format!("BEGIN; {MIGRATION} COMMIT"))
        .await
        .unwrap();

    agrees(&raw).await;
    let ledger = database.open(PgOptions::default()).await;
    let after = (
        seen(&ledger, tenant(1)).await,
        seen(&ledger, tenant(2)).await,
    );
    assert_eq!(before, after);
}
