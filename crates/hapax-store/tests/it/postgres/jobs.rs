//! What only this store promises of jobs: its roles, its errors, and nodes that share it.

mod beside;
mod faults;
mod plans;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::Tenant;
use hapax_core::job::{
    Act, Ask, Class, Deed, Done, Fence, Job, NewJob, On, OpKey, Queue, Refusal, State,
};
use hapax_store::PgLedger;
use hapax_store::postgres::PgOptions;
use tokio_postgres::Client;
use uuid::Uuid;

use super::database::Database;
use crate::vault::vault;

/// Far beyond what a loaded machine needs; a test that runs into it fails.
const PATIENCE: Duration = Duration::from_secs(30);

fn tenant(number: u128) -> Tenant {
    Tenant::from_uuid(Uuid::from_u128(number))
}

fn download(name: &str) -> NewJob {
    NewJob::download("w", name, "https://example.org/").unwrap()
}

async fn planned(ledger: &PgLedger, tenant: Tenant, name: &str) -> Job {
    let mut planned = ledger.plan(tenant, vec![download(name)]).await.unwrap();
    planned.remove(0).job
}

async fn leased(ledger: &PgLedger, tenant: Tenant) -> Job {
    let mut jobs = ledger.lease(tenant, Ask::by("worker")).await.unwrap();
    jobs.pop().expect("a job is due")
}

fn on(job: &Job, deed: Deed) -> Act {
    Act {
        on: On::Job(job.id.clone()),
        fence: Fence::of("worker", job.epoch),
        deed,
    }
}

fn begin(job: &Job, key: &str) -> Act {
    on(
        job,
        Deed::Begin {
            key: OpKey::new(key).unwrap(),
            kind: "HEAD".into(),
            class: Class::Probe,
            token: "t".into(),
        },
    )
}

fn complete(job: &Job, key: &str, result: &str) -> Act {
    Act {
        on: On::Op(OpKey::new(key).unwrap()),
        fence: Fence::of("worker", job.epoch),
        deed: Deed::Complete {
            token: "t".into(),
            result: result.into(),
            advance_to: Some(State::HeadDone),
        },
    }
}

async fn one(ledger: &PgLedger, tenant: Tenant, act: Act) -> Result<Done, Refusal> {
    ledger.apply(tenant, vec![act]).await.unwrap().remove(0)
}

/// Two tenants, each with a job under way and an operation that is done.
async fn two_tenants() -> (Database, PgLedger) {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    for number in [1, 2] {
        let tenant = tenant(number);
        let job = download("a").with_payload("{\"secret\":1}").unwrap();
        ledger.plan(tenant, vec![job]).await.unwrap();
        let job = leased(&ledger, tenant).await;
        one(&ledger, tenant, begin(&job, "op")).await.unwrap();
        one(&ledger, tenant, complete(&job, "op", "{\"secret\":2}"))
            .await
            .unwrap();
    }
    (database, ledger)
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn refused(client: &Client, sql: &str) -> String {
    let error = client.batch_execute(sql).await.unwrap_err();
    error.code().map_or("", |state| state.code()).to_owned()
}

#[tokio::test]
async fn the_app_role_sees_and_writes_one_tenants_jobs_only() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    assert_eq!(number(&raw, "SELECT count(*) FROM job").await, 2);
    raw.batch_execute("SET ROLE hapax_app").await.unwrap();
    let tables = ["job", "op", "artifact_jobs", "artifact_ops", "job_list"];
    for table in tables {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&raw, &count).await, 0, "no tenant, no rows: {table}");
    }
    raw.batch_execute("SET hapax.tenant = '00000000-0000-0000-0000-000000000001'")
        .await
        .unwrap();
    for table in tables {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&raw, &count).await, 1, "its own only: {table}");
    }
    let other = "tenant_id = '00000000-0000-0000-0000-000000000002'";
    for table in ["job", "op"] {
        let touch = format!("UPDATE {table} SET epoch = 9 WHERE {other}");
        let touched = raw.execute(&touch, &[]);
        assert_eq!(touched.await.unwrap(), 0, "another tenant's {table}");
        let moved =
            format!("UPDATE {table} SET tenant_id = '00000000-0000-0000-0000-000000000002'");
        assert_eq!(refused(&raw, &moved).await, "42501", "{table}");
        assert_eq!(
            refused(&raw, &format!("DELETE FROM {table}")).await,
            "42501"
        );
    }
    let forged = "INSERT INTO op (tenant_id, op_key, job_id, kind, state, class, epoch, token, tries, started_at) \
        VALUES ('00000000-0000-0000-0000-000000000002', 'op', 'x', 'k', 'running', 'tx', 1, 't', 1, 1)";
    assert_eq!(refused(&raw, forged).await, "42501", "and never 23505");
}

#[tokio::test]
async fn the_janitor_sees_every_tenants_queue_and_no_content() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    raw.batch_execute("SET ROLE hapax_janitor").await.unwrap();
    assert_eq!(number(&raw, "SELECT count(job_id) FROM job").await, 2);
    assert_eq!(number(&raw, "SELECT count(op_key) FROM op").await, 2);
    for (table, columns) in [
        (
            "job",
            "payload result error lease_owner work_id artifact_id canonical_url job_key",
        ),
        ("op", "result error token kind"),
    ] {
        for column in columns.split(' ') {
            let read = format!("SELECT {column} FROM {table}");
            assert_eq!(refused(&raw, &read).await, "42501", "{table}.{column}");
        }
        let write = format!("UPDATE {table} SET epoch = 9");
        assert_eq!(refused(&raw, &write).await, "42501");
    }
    for view in ["artifact_jobs", "artifact_ops"] {
        let read = format!("SELECT * FROM {view}");
        assert_eq!(refused(&raw, &read).await, "42501");
    }
}

#[tokio::test]
async fn older_tools_find_their_tables() {
    let (database, _ledger) = two_tenants().await;
    let raw = database.raw().await;
    let row = raw
        .query_one(
            "SELECT j.state, j.lease_owner, j.lease_until > j.created_at, j.idempotency_key = j.job_id, o.op_type, \
                    o.result_code, o.result_json, pg_typeof(o.finished_at)::text, extract(epoch FROM now()) - j.created_at < 600 \
               FROM artifact_jobs AS j JOIN artifact_ops AS o USING (tenant_id, job_id) LIMIT 1",
            &[],
        )
        .await
        .unwrap();
    let text = |column: usize| row.get::<_, String>(column);
    assert_eq!(
        (text(0).as_str(), text(1).as_str()),
        ("HEAD_DONE", "worker")
    );
    assert!(row.get::<_, bool>(2) && row.get::<_, bool>(3) && row.get::<_, bool>(8));
    assert_eq!((text(4).as_str(), text(5).as_str()), ("HEAD", "OK"));
    assert_eq!(text(6), "{\"secret\":2}");
    assert_eq!(text(7), "double precision");
    let version = raw
        .query_one("SELECT value FROM _meta WHERE key = 'schema_version'", &[])
        .await
        .unwrap();
    assert_eq!(version.get::<_, String>(0), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_lease_two_thousand_jobs_and_none_twice() {
    let database = Database::create().await;
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(Arc::new(database.open(PgOptions::default()).await));
    }
    let all: Vec<NewJob> = (0..2000).map(|n| download(&n.to_string())).collect();
    for part in all.chunks(1000) {
        nodes[0].plan(tenant(1), part.to_vec()).await.unwrap();
    }

    let workers = (0..12).map(|worker| {
        let node = nodes[worker % 3].clone();
        let ask = Ask {
            limit: 1 + worker % 4 * 7,
            ..Ask::by(&format!("worker-{worker}"))
        };
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let jobs = node.lease(tenant(1), ask.clone()).await.unwrap();
                if jobs.is_empty() {
                    return mine;
                }
                mine.extend(jobs.into_iter().map(|job| (job.id, job.epoch)));
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut leased = Vec::new();
    for worker in workers {
        leased.extend(worker.await.unwrap());
    }

    assert!(leased.iter().all(|(_, epoch)| *epoch == 1));
    let ids: HashSet<_> = leased.iter().map(|(id, _)| id).collect();
    assert_eq!((leased.len(), ids.len()), (2000, 2000));
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_that_cross_do_not_stop_each_other() {
    let database = Database::create().await;
    let (one, two) = (
        Arc::new(database.open(PgOptions::default()).await),
        Arc::new(database.open(PgOptions::default()).await),
    );
    let jobs: Vec<NewJob> = (0..50).map(|n| download(&n.to_string())).collect();
    let backwards: Vec<NewJob> = jobs.iter().rev().cloned().collect();
    let (first, second) = tokio::join!(
        one.plan(tenant(1), jobs.clone()),
        two.plan(tenant(1), backwards)
    );
    let new =
        |planned: Vec<hapax_core::job::Planned>| planned.iter().filter(|one| one.planned).count();
    assert_eq!(new(first.unwrap()) + new(second.unwrap()), 50);

    let ask = Ask {
        limit: 50,
        ..Ask::by("worker")
    };
    let held = one.lease(tenant(1), ask).await.unwrap();
    let renew = |job: &Job| {
        let ttl = Duration::from_secs(60);
        on(job, Deed::Renew { ttl })
    };
    for _ in 0..20 {
        let (first, second) = tokio::join!(
            one.apply(tenant(1), held.iter().map(renew).collect()),
            two.apply(tenant(1), held.iter().rev().map(renew).collect())
        );
        assert!(
            first
                .unwrap()
                .into_iter()
                .chain(second.unwrap())
                .all(|done| done.is_ok())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_operation_begun_on_two_jobs_at_once_is_one_of_them() {
    let database = Database::create().await;
    let ledger = Arc::new(database.open(PgOptions::default()).await);
    for round in 0..20 {
        let names = [format!("a{round}"), format!("b{round}")];
        ledger
            .plan(tenant(1), names.iter().map(|name| download(name)).collect())
            .await
            .unwrap();
        let (a, b) = (
            leased(&ledger, tenant(1)).await,
            leased(&ledger, tenant(1)).await,
        );
        let key = format!("op-{round}");
        let (first, second) = tokio::join!(
            one(&ledger, tenant(1), begin(&a, &key)),
            one(&ledger, tenant(1), begin(&b, &key))
        );
        let conflicts = [&first, &second]
            .into_iter()
            .filter(|answer| matches!(answer, Err(Refusal::KeyConflict { .. })))
            .count();
        assert_eq!(conflicts, 1, "{first:?} {second:?}");
    }
}

/// Has `ledger` count what it is told.
fn told(ledger: &PgLedger) -> Arc<AtomicUsize> {
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    ledger.on_ready(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    told
}

/// Plans on `from` until `told` counts more, as it does once the listener is connected.
async fn until_told(from: &PgLedger, told: &AtomicUsize, name: &str) {
    let before = told.load(Ordering::Relaxed);
    let plans = async {
        for n in 0.. {
            planned(from, tenant(1), &format!("{name}{n}")).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if told.load(Ordering::Relaxed) > before {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, plans)
        .await
        .expect("it is told");
}

#[tokio::test]
async fn another_node_is_told_of_work_also_after_its_connection_was_lost() {
    let database = Database::create().await;
    let (here, there) = (
        database.open(PgOptions::default()).await,
        database.open(PgOptions::default()).await,
    );
    let told = told(&there);
    until_told(&here, &told, "a").await;

    let raw = database.raw().await;
    let listening = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE datname = current_database() AND query LIKE '%LISTEN hapax_jobs%' AND pid <> pg_backend_pid()";
    assert_eq!(number(&raw, listening).await, 1);
    // The listener rings once when it is back; what counts here is that plans are told again.
    tokio::time::timeout(PATIENCE, async {
        let before = told.load(Ordering::Relaxed);
        while told.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the listener comes back");
    until_told(&here, &told, "b").await;
}

#[tokio::test]
async fn without_notify_only_this_process_is_told() {
    let database = Database::create().await;
    let options = PgOptions {
        notify: false,
        ..PgOptions::default()
    };
    let (here, there) = (
        database.open(options.clone()).await,
        database.open(options).await,
    );
    let (at_once, never) = (told(&here), told(&there));
    planned(&here, tenant(1), "a").await;
    assert_eq!(at_once.load(Ordering::Relaxed), 1);
    assert_eq!(never.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_queue_that_nobody_uses_has_no_connection() {
    let database = Database::create().await;
    let ledger = database.open(PgOptions::default()).await;
    let raw = database.raw().await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'hapax'";
    let before = number(&raw, open).await;
    planned(&ledger, tenant(1), "a").await;
    for _ in 0..10 {
        leased_or_none(&ledger).await;
    }
    assert_eq!(
        number(&raw, open).await,
        before + 1,
        "one is kept and used again"
    );
}

async fn leased_or_none(ledger: &PgLedger) {
    ledger.lease(tenant(1), Ask::by("worker")).await.unwrap();
}

#[tokio::test]
async fn with_a_vault_no_content_of_a_job_is_readable_in_the_database() {
    let database = Database::create().await;
    let sealing = || PgOptions {
        vault: vault(&[1]),
        ..PgOptions::default()
    };
    let ledger = database.open(sealing()).await;
    let job = download("a").with_payload("{\"marmalade\":1}").unwrap();
    ledger.plan(tenant(1), vec![job]).await.unwrap();
    let job = leased(&ledger, tenant(1)).await;
    one(&ledger, tenant(1), begin(&job, "op")).await.unwrap();
    let done = complete(&job, "op", "\"marmalade\"");
    one(&ledger, tenant(1), done).await.unwrap();
    let failed = Deed::Fail {
        error: Some("no marmalade".into()),
        retryable: true,
        after: None,
    };
    one(&ledger, tenant(1), on(&job, failed)).await.unwrap();

    let raw = database.raw().await;
    for table in ["job", "op"] {
        let telling = format!("SELECT count(*) FROM {table} AS t WHERE t::text LIKE '%marmalade%'");
        assert_eq!(number(&raw, &telling).await, 0, "{table}");
    }
    // Another node has read no key yet.
    let other = database.open(sealing()).await;
    let (job, ops) = other.job(tenant(1), job.id).await.unwrap().unwrap();
    assert_eq!(job.payload.as_deref(), Some("{\"marmalade\":1}"));
    assert_eq!(job.error.as_deref(), Some("no marmalade"));
    assert_eq!(ops[0].result.as_deref(), Some("\"marmalade\""));
}
