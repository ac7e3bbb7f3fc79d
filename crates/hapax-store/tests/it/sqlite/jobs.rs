//! Jobs in one file: several ledgers at once, a new start, the names that older tools know, and what is sealed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hapax_core::job::{
    Act, Ask, Class, Deed, Done, Fence, Job, JobScan, NewJob, On, OpKey, Queue, State,
};
use hapax_core::{Ledger, Tenant};
use hapax_store::sqlite::{SqliteOptions, rusqlite};
use hapax_store::vault::TenantKeys;
use hapax_store::{Clock, SqliteLedger};

use super::{beside, count, folder, open_in};
use crate::vault::vault;

fn download(name: &str) -> NewJob {
    NewJob::download("w-1", name, &format!("https://example.org/{name}")).expect("a job")
}

fn ask(owner: &str, limit: usize) -> Ask {
    Ask {
        limit,
        ..Ask::by(owner)
    }
}

async fn lease(ledger: &SqliteLedger, ask: Ask) -> Vec<Job> {
    let leased = ledger.lease(Tenant::DEFAULT, ask).await;
    leased.expect("it answers")
}

async fn apply(ledger: &SqliteLedger, acts: Vec<Act>) -> Vec<Done> {
    let done = ledger.apply(Tenant::DEFAULT, acts).await;
    let done = done.expect("it answers").into_iter();
    done.map(|one| one.expect("it is done")).collect()
}

/// The acts that record a result and move the job with it.
fn recorded(job: &Job, name: &str) -> Vec<Act> {
    let key = OpKey::new(name).expect("a key");
    let begin = Deed::Begin {
        key: key.clone(),
        kind: "HEAD".into(),
        class: Class::Probe,
        token: "secret".into(),
    };
    let complete = Deed::Complete {
        token: "secret".into(),
        result: r#"{"status":"tell-tale-result"}"#.into(),
        advance_to: Some(State::HeadDone),
    };
    let hold = job.lease.as_ref().expect("it is held");
    let fence = Fence::of(&hold.owner, job.epoch);
    [(On::Job(job.id.clone()), begin), (On::Op(key), complete)]
        .map(|(on, deed)| Act {
            on,
            fence: fence.clone(),
            deed,
        })
        .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_on_one_file_lease_each_job_once() {
    let folder = folder();
    let ledgers = [0, 1].map(|_| Arc::new(open_in(&folder, SqliteOptions::default())));
    let jobs = (0..300).map(|number| download(&number.to_string()));
    let planned = ledgers[0].plan(Tenant::DEFAULT, jobs.collect()).await;
    planned.expect("it answers");
    let workers = (0..16).map(|number: usize| {
        let ledger = ledgers[number % 2].clone();
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let leased = lease(&ledger, ask(&format!("worker-{number}"), 7)).await;
                if leased.is_empty() {
                    return mine;
                }
                mine.extend(leased);
            }
        })
    });
    let mut leased = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        leased.extend(worker.await.expect("no panic"));
    }

    let ids: HashSet<_> = leased.iter().map(|job| &job.id).collect();
    assert_eq!((leased.len(), ids.len()), (300, 300));
    for job in &leased {
        let (stored, _) = ledgers[0]
            .job(Tenant::DEFAULT, job.id.clone())
            .await
            .expect("it answers")
            .expect("it is there");
        assert_eq!(stored, *job);
    }
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_a_new_start() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    let jobs = vec![
        download("a").with_payload(r#"{"p":1}"#).expect("a payload"),
        download("b"),
    ];
    ledger
        .plan(Tenant::DEFAULT, jobs)
        .await
        .expect("it answers");
    let held = lease(&ledger, ask("worker", 1)).await.remove(0);
    let Done::Op(op, job) = apply(&ledger, recorded(&held, "op")).await.remove(1) else {
        panic!("it is an operation's end")
    };
    drop(ledger);

    let ledger = open_in(&folder, SqliteOptions::default());

    let stored = ledger.job(Tenant::DEFAULT, held.id.clone()).await;
    assert_eq!(stored.expect("it answers"), Some((*job, vec![*op])));
    let again = ledger.plan(Tenant::DEFAULT, vec![download("b")]).await;
    assert!(!again.expect("it answers")[0].planned);
    let next = lease(&ledger, ask("worker", 9)).await;
    assert_eq!(next.len(), 1, "the lease outlives the process");
    assert_eq!(next[0].artifact_id, "b");
}

#[tokio::test]
async fn older_tools_find_jobs_and_operations_under_the_names_they_know() {
    let folder = folder();
    let ledger = open_in(&folder, SqliteOptions::default());
    ledger
        .plan(Tenant::DEFAULT, vec![download("a")])
        .await
        .expect("it answers");
    let held = lease(&ledger, ask("worker", 1)).await.remove(0);
    apply(&ledger, recorded(&held, "op")).await;

    let beside = beside(&ledger);
    let sql = "SELECT job_id, state, lease_owner, lease_until, idempotency_key FROM artifact_jobs";
    let job: (String, String, String, f64, String) = beside
        .query_row(sql, [], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        })
        .expect("it is there");
    assert_eq!(
        (job.0.as_str(), job.1.as_str()),
        (held.id.as_str(), "HEAD_DONE")
    );
    assert_eq!((job.2.as_str(), job.4), ("worker", held.key.clone()));
    let until = held.lease.expect("it is held").until;
    let until: std::time::SystemTime = until.into();
    let until = until.duration_since(std::time::UNIX_EPOCH);
    assert!((job.3 - until.expect("a time").as_secs_f64()).abs() < 0.01);
    let sql =
        "SELECT job_id, op_type, result_code, result_json FROM artifact_ops WHERE op_key = 'op'";
    let op: [String; 4] = beside
        .query_row(sql, [], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
        })
        .expect("it is there");
    let result = r#"{"status":"tell-tale-result"}"#;
    assert_eq!(op, [held.id.as_str(), "HEAD", "OK", result]);
    let version = "SELECT count(1) FROM _meta WHERE key = 'schema_version' AND value = '3'";
    assert_eq!(count(&beside, version), 1);
}

#[tokio::test]
async fn a_clock_that_is_set_back_gives_no_job_to_two() {
    let folder = folder();
    let ahead = Clock::system();
    ahead.advance(Duration::from_secs(3600));
    let options = |clock: &Clock| SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    let first = open_in(&folder, options(&ahead));
    first
        .plan(Tenant::DEFAULT, vec![download("a"), download("b")])
        .await
        .expect("it answers");
    let held = lease(&first, ask("worker", 1)).await.remove(0);
    let sql = "UPDATE job SET standing = 'ready'";
    beside(&first)
        .execute_batch(sql)
        .expect("somebody with a clock far ahead saw its lease run out");

    let second = open_in(&folder, options(&Clock::system()));
    let leased = lease(&second, ask("other", 9)).await;

    assert_eq!(leased.len(), 1, "what was due once stays due");
    assert_ne!(leased[0].id, held.id);
    assert!(lease(&second, ask("other", 9)).await.is_empty());
}

/// Everything that lies in the folder, as a thief would have it.
fn stolen(folder: &tempfile::TempDir) -> String {
    let files = std::fs::read_dir(folder.path()).expect("a folder");
    let bytes =
        files.flat_map(|file| std::fs::read(file.expect("a file").path()).expect("readable"));
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

#[tokio::test]
async fn with_a_vault_payloads_results_and_errors_are_sealed() {
    for (vault, is_sealed) in [(None, false), (vault(&[1]), true)] {
        let folder = folder();
        let options = SqliteOptions {
            vault: vault.clone(),
            ..SqliteOptions::default()
        };
        let ledger = open_in(&folder, options);
        let asked = download("a").with_payload(r#"{"p":"tell-tale-payload"}"#);
        ledger
            .plan(Tenant::DEFAULT, vec![asked.expect("a payload")])
            .await
            .expect("it answers");
        let held = lease(&ledger, ask("worker", 1)).await.remove(0);
        apply(&ledger, recorded(&held, "op")).await;
        let fail = Act {
            on: On::Job(held.id.clone()),
            fence: Fence::of("worker", held.epoch),
            deed: Deed::Fail {
                error: Some("tell-tale-error".into()),
                retryable: true,
                after: None,
            },
        };
        apply(&ledger, vec![fail]).await;

        let listed = ledger.jobs(JobScan::of(Tenant::DEFAULT)).await;
        let job = listed.expect("it answers").jobs.remove(0);
        assert_eq!(job.error.as_deref(), Some("tell-tale-error"));
        assert_eq!(job.payload, held.payload);
        ledger.close().await.expect("it closes");
        let stolen = stolen(&folder);
        for text in ["tell-tale-payload", "tell-tale-result", "tell-tale-error"] {
            assert_eq!(!stolen.contains(text), is_sealed, "{text}");
        }
    }
}

#[tokio::test]
async fn a_sealed_payload_moved_to_another_job_is_refused() {
    let folder = folder();
    let options = SqliteOptions {
        vault: vault(&[1]),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let jobs = ["a", "b"].map(|name| download(name).with_payload("[1]").expect("a payload"));
    ledger
        .plan(Tenant::DEFAULT, jobs.into())
        .await
        .expect("it answers");
    let swap =
        "UPDATE job_payload SET payload = (SELECT max(other.payload) FROM job_payload AS other
                                                   WHERE other.job_seq <> job_payload.job_seq)";
    let swapped: rusqlite::Result<usize> = beside(&ledger).execute(swap, []);
    assert_eq!(swapped.expect("it is changed"), 2);

    let read = ledger.jobs(JobScan::of(Tenant::DEFAULT)).await;

    assert_eq!(
        read.expect_err("it is refused").kind(),
        hapax_core::Kind::Corrupt
    );
}

#[tokio::test]
async fn a_job_that_cannot_be_read_does_not_keep_others_from_being_leased() {
    let folder = folder();
    let options = SqliteOptions {
        vault: vault(&[1]),
        ..SqliteOptions::default()
    };
    let ledger = open_in(&folder, options);
    let with_payload = |name: &str| download(name).with_payload("[1]").expect("a payload");
    let planned = ledger
        .plan(Tenant::DEFAULT, vec![with_payload("old")])
        .await;
    planned.expect("it answers");
    ledger.shred(Tenant::DEFAULT).await.expect("it shreds");
    let planned = ledger
        .plan(Tenant::DEFAULT, vec![with_payload("new")])
        .await;
    planned.expect("it answers");

    let leased = lease(&ledger, ask("worker", 9)).await;

    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].artifact_id, "new");
    let left =
        "SELECT count(1) FROM job WHERE state = 'PLANNED' AND standing = 'resting' AND epoch = 0";
    assert_eq!(count(&beside(&ledger), left), 1, "it stays as it was");
}
