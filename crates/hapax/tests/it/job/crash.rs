//! A plan whose process dies at every write in turn comes to the same end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax::job::testing::{MemoryQueue, Trial, crash_after_every_step};
use hapax::job::{Class, Fault, NewJob, Node, Plan, Probed, Queue, State, Step};
use hapax::store::postgres::PgOptions;
use hapax::store::sqlite::SqliteOptions;
use hapax::store::{PgLedger, SqliteLedger};
use serde_json::json;

#[derive(Clone, Default, Debug)]
struct Sum(u32);

fn adds(name: &'static str, class: Class, number: u32) -> Node<Sum, u32> {
    Node::new(name, class, move |_: Step, sum: Arc<Sum>| async move {
        Ok::<u32, Fault>(sum.0 + number)
    })
    .context(move |_: &Sum| json!({"adds": number}))
    .apply(|sum: &mut Sum, all: &u32| sum.0 = sum.0.max(*all))
}

/// A download's way, with an effect of every class, a fan-out and a join.
fn plan() -> Plan<Sum> {
    Plan::named("every class")
        .node(adds("HEAD", Class::Replayable, 1).advances_to(|_, _| Some(State::HeadDone)))
        .node(adds("PAY", Class::AtMostOnce, 2))
        .node(adds("TELL", Class::Keyed, 4))
        .node(
            adds("STREAM", Class::Probe, 8)
                .enters(State::Streaming)
                .probe(|_: Step, sum: Arc<Sum>| async move {
                    if sum.0.is_multiple_of(2) {
                        Probed::Happened(sum.0 + 8)
                    } else {
                        Probed::DidNot
                    }
                }),
        )
        .node(adds("FINALIZE", Class::Keyed, 16).advances_to(|_, _| Some(State::Finalized)))
        .node(adds("INDEX", Class::Tx, 32).advances_to(|_, _| Some(State::Indexed)))
        .fan_out("HEAD", ["PAY", "TELL"])
        .join(["PAY", "TELL"], "STREAM")
        .edge("STREAM", "FINALIZE")
        .edge("FINALIZE", "INDEX")
        .build()
        .unwrap()
}

fn trial(queue: Arc<dyn Queue>) -> Trial<Sum> {
    let job = NewJob::download("w", "a", "https://example.org/x").unwrap();
    Trial {
        queue,
        job: job.max_attempts(100),
        plan: plan(),
        state: Sum(1),
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_comes_to_the_same_end_after_a_crash_at_any_write() {
    let crashed = crash_after_every_step(|| async { trial(Arc::new(MemoryQueue::new())) }).await;
    // Two for each of six effects, less the two that are begun with the record of the one before.
    assert_eq!((crashed.writes, crashed.crashes), (10, 20));
    assert_eq!(crashed.job.state, State::Indexed);
    assert!(crashed.runs["TELL"] > 20, "a keyed effect may run again");
    assert!(crashed.runs["PAY"] <= 20, "this one may not");
}

#[tokio::test]
async fn a_plan_on_postgres_comes_to_the_same_end_after_a_crash_at_any_write() {
    let crashed = crash_after_every_step(|| async {
        let (_, _, url) = crate::wakeups::database().await;
        let ledger = PgLedger::open(&url, PgOptions::default()).await;
        trial(Arc::new(ledger.unwrap()))
    })
    .await;
    assert_eq!((crashed.writes, crashed.crashes), (10, 20));
}

#[tokio::test]
async fn a_plan_on_sqlite_comes_to_the_same_end_after_a_crash_at_any_write() {
    let folder = tempfile::tempdir().unwrap();
    let worlds = AtomicUsize::new(0);
    let crashed = crash_after_every_step(|| async {
        let world = worlds.fetch_add(1, Ordering::SeqCst);
        let path = folder.path().join(format!("ledger-{world}.db"));
        let ledger = SqliteLedger::open(&path, SqliteOptions::default());
        trial(Arc::new(ledger.unwrap()))
    })
    .await;
    assert_eq!((crashed.writes, crashed.crashes), (10, 20));
}
