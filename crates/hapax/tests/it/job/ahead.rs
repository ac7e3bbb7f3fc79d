//! What follows is begun in the write that records what was before it, and only where that can do no harm.

use std::sync::Arc;

use hapax::job::testing::{Cut, FaultyQueue};
use hapax::job::{
    Class, Effect, Events, Fault, JobKind, NewJob, Node, OpState, Plan, PlanError, Probed, State,
    Step, drive,
};
use serde_json::json;

use super::Bench;

/// The steps that ran, and the context of the next.
type Path = Vec<String>;

fn step(name: &'static str, class: Class) -> Node<Path, String> {
    Node::new(name, class, move |_: Step, path: Arc<Path>| async move {
        Ok::<_, Fault>(format!("{name} after {}", path.len()))
    })
    .context(|path: &Path| json!({"after": path.len()}))
    .apply(|path: &mut Path, said: &String| path.push(said.clone()))
}

async fn download() -> Bench {
    Bench::with(NewJob::download("w-1", "a-1", "https://example.org/paper.pdf").unwrap()).await
}

/// A download's way.
fn way() -> Plan<Path> {
    way_from(step("HEAD", Class::Replayable))
}

/// A download's way, the first step of which is begun together with its record.
fn late_way() -> Plan<Path> {
    way_from(step("HEAD", Class::Replayable).begins_late())
}

fn way_from(head: Node<Path, String>) -> Plan<Path> {
    let stream = step("STREAM", Class::Probe)
        .enters(State::Streaming)
        .probe(|_, _| async { Probed::DidNot });
    Plan::named("way")
        .node(head.advances_to(|_, _| Some(State::HeadDone)))
        .node(stream)
        .node(step("FINALIZE", Class::Keyed).advances_to(|_, _| Some(State::Finalized)))
        .node(step("INDEX", Class::Keyed).advances_to(|_, _| Some(State::Indexed)))
        .branch("HEAD", ["STREAM", "INDEX"], |path: &Path| {
            if path.len() == 1 { "STREAM" } else { "INDEX" }
        })
        .edge("STREAM", "FINALIZE")
        .edge("FINALIZE", "INDEX")
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_plan_of_four_steps_is_five_writes_and_four_if_the_first_is_begun_late() {
    for (plan, writes) in [(way(), 5), (late_way(), 4)] {
        is_so_many_writes(&plan, writes).await;
    }
}

async fn is_so_many_writes(plan: &Plan<Path>, writes: usize) {
    let bench = download().await;
    let counted = Arc::new(FaultyQueue::new(bench.queue.clone()));
    let held = bench.lease_through(counted.clone(), "a").await;

    let ended = drive(held, plan, Path::new(), &Events::none()).await;

    assert_eq!(ended.unwrap().path, ["HEAD", "STREAM", "FINALIZE", "INDEX"]);
    assert_eq!(counted.writes(), writes);
    let (job, ops) = bench.stored().await;
    assert_eq!(job.state, State::Indexed);
    let stored: Vec<_> = ops
        .iter()
        .map(|op| (&*op.kind, op.state, op.tries))
        .collect();
    assert_eq!(
        stored,
        ["HEAD", "STREAM", "FINALIZE", "INDEX"].map(|kind| (kind, OpState::Done, 1))
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_got_lost_is_sent_again_and_changes_nothing() {
    for (write, plan) in (1..=5).flat_map(|write| [(write, way()), (write, late_way())]) {
        for cut in [Cut::WrittenUnknown, Cut::LostUnknown, Cut::Unavailable] {
            let bench = download().await;
            let faulty = Arc::new(FaultyQueue::new(bench.queue.clone()).cut(write, cut));
            let held = bench.lease_through(faulty, "a").await;
            let ended = drive(held, &plan, Path::new(), &Events::none()).await;
            assert!(ended.is_ok(), "{cut:?} at {write}: {ended:?}");
            let (job, ops) = bench.stored().await;
            assert_eq!(job.state, State::Indexed, "{cut:?} at {write}");
            assert!(ops.iter().all(|op| op.tries == 1), "{cut:?} at {write}");
        }
    }
}

#[tokio::test]
async fn only_a_replayable_step_is_begun_late() {
    is_so_many_writes(&way_from(step("HEAD", Class::Keyed).begins_late()), 5).await;
}

#[tokio::test]
async fn what_somebody_recorded_before_counts_and_not_what_a_late_run_made() {
    let bench = download().await;
    let held = bench.lease("a").await;
    let first = Effect::new("HEAD", Class::Replayable).context(json!({"after": 0}));
    let said = || async { Ok::<_, Fault>("said before".to_owned()) };
    held.run(&first, |_| said()).await.unwrap();

    let ended = drive(held, &late_way(), Path::new(), &Events::none()).await;

    assert_eq!(ended.unwrap().state[0], "said before");
    let (job, ops) = bench.stored().await;
    assert_eq!((job.state, ops.len()), (State::Indexed, 4));
    assert!(ops.iter().all(|op| op.state == OpState::Done), "{ops:?}");
}

#[tokio::test]
async fn a_late_step_that_fails_is_recorded_as_failed() {
    let bench = download().await;
    let fails = |_: Step, _: Arc<Path>| async { Err::<String, _>(Fault::fatal("gone")) };
    let first = Node::new("HEAD", Class::Replayable, fails).begins_late();

    let held = bench.lease("a").await;
    let ended = drive(held, &way_from(first), Path::new(), &Events::none()).await;

    assert!(matches!(ended, Err(PlanError::Failed { node, .. }) if node == "HEAD"));
    let (job, ops) = bench.stored().await;
    let failed: Vec<_> = ops.iter().map(|op| (&*op.kind, op.state)).collect();
    assert_eq!(failed, [("HEAD", OpState::Failed)]);
    assert_eq!(job.state, State::Dead);
}

/// The operations of a job whose first step is refused, with one of this class behind it.
async fn ops_behind_a_refused_step(class: Class) -> Vec<(String, OpState)> {
    let bench = Bench::new().await;
    let refused = step("A", Class::Keyed).advances_to(|_, _| Some(State::ResumeOk));
    let plan = Plan::named("p")
        .node(refused)
        .node(step("B", class))
        .edge("A", "B")
        .build()
        .unwrap();

    let held = bench.lease("a").await;
    let ended = drive(held, &plan, Path::new(), &Events::none()).await;

    assert!(matches!(ended, Err(PlanError::Failed { node, .. }) if node == "A"));
    let (_, ops) = bench.stored().await;
    ops.iter().map(|op| (op.kind.clone(), op.state)).collect()
}

#[tokio::test]
async fn what_may_not_run_twice_is_begun_when_it_is_come_to() {
    for class in [Class::AtMostOnce, Class::Probe] {
        let ops = ops_behind_a_refused_step(class).await;
        assert_eq!(ops, [("A".to_owned(), OpState::Done)]);
    }
}

#[tokio::test]
async fn what_was_begun_ahead_is_taken_back_when_the_step_before_it_is_refused() {
    let ops = ops_behind_a_refused_step(Class::Keyed).await;
    let begun = ops.iter().find(|(kind, _)| kind == "B");
    assert!(
        begun.is_some_and(|(_, state)| *state != OpState::Running),
        "{ops:?}"
    );
}

#[tokio::test]
async fn nothing_is_begun_in_a_job_that_has_ended() {
    let bench = Bench::with(
        NewJob::new(
            JobKind::DOWNLOAD,
            "w-1",
            "a-1",
            "https://example.org/paper.pdf",
        )
        .unwrap(),
    )
    .await;
    let ends = step("SKIP", Class::Keyed).advances_to(|_, _| Some(State::SkippedDuplicate));
    let plan = Plan::named("p")
        .node(step("HEAD", Class::Replayable).advances_to(|_, _| Some(State::HeadDone)))
        .node(ends)
        .node(step("MORE", Class::Keyed))
        .edge("HEAD", "SKIP")
        .edge("SKIP", "MORE")
        .build()
        .unwrap();

    let held = bench.lease("a").await;
    let ended = drive(held, &plan, Path::new(), &Events::none()).await;

    assert!(matches!(ended, Err(PlanError::Lost)), "{ended:?}");
    let (job, ops) = bench.stored().await;
    assert_eq!((job.state, ops.len()), (State::SkippedDuplicate, 2));
}

#[tokio::test]
async fn a_panic_in_what_foresees_loses_no_result() {
    let bench = Bench::new().await;
    let panics = step("B", Class::Keyed).context(|_: &Path| panic!("no context"));
    let plan = Plan::named("p")
        .node(step("A", Class::Keyed))
        .node(panics)
        .edge("A", "B")
        .build()
        .unwrap();

    let held = bench.lease("a").await;
    let driven =
        tokio::spawn(async move { drive(held, &plan, Path::new(), &Events::none()).await });

    assert!(driven.await.is_err(), "the plan's own closure panicked");
    let (_, ops) = bench.stored().await;
    let stored: Vec<_> = ops.iter().map(|op| (&*op.kind, op.state)).collect();
    assert_eq!(stored, [("A", OpState::Done)]);
}
