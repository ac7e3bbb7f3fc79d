//! Plans: the same way after a crash, branches and joins, waits, retries, and how the job ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::core::Tenant;
use hapax::job::{
    Class, Deed, END, Event, Events, Fault, Job, NewJob, Node, On, OpState, Plan, PlanError,
    Probed, Resolution, Retry, State, Step, drive, op_key,
};
use serde_json::json;
use tokio::sync::Barrier;

use super::{Bench, new_job};

/// What the nodes wrote, in the order in which it was applied.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Log(Vec<String>);

/// A node that says its name after a while, and logs what it said.
fn says(name: &'static str, after_ms: u64) -> Node<Log, String> {
    Node::new(
        name,
        Class::Replayable,
        move |_: Step, _: Arc<Log>| async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            Ok::<_, Fault>(name.to_owned())
        },
    )
    .apply(|log: &mut Log, said: &String| log.0.push(said.clone()))
}

fn fails(name: &str, class: Class, fault: Fault) -> Node<Log, String> {
    Node::new(name, class, move |_: Step, _: Arc<Log>| {
        let fault = fault.clone();
        async move { Err::<String, _>(fault) }
    })
}

fn collected() -> (Events, Arc<Mutex<Vec<Event>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let events = Events::to(move |event| sink.lock().unwrap().push(event.clone()));
    (events, seen)
}

fn kinds(events: &Arc<Mutex<Vec<Event>>>) -> Vec<String> {
    let word = |event: &Event| {
        let text = format!("{event:?}");
        let kind = text.split_whitespace().next().unwrap_or_default();
        format!("{kind} {}", event.node().unwrap_or("-"))
    };
    events.lock().unwrap().iter().map(word).collect()
}

#[tokio::test]
async fn a_second_run_replays_what_was_recorded_and_runs_the_rest() {
    let bench = Bench::new().await;
    let broken = Plan::named("p")
        .node(says("A", 0))
        .node(fails("B", Class::Replayable, Fault::retryable("no route")))
        .edge("A", "B")
        .build()
        .unwrap();
    let held = bench.lease("a").await;
    let ended = drive(held, &broken, Log::default(), &Events::none()).await;
    assert!(matches!(ended, Err(PlanError::Failed { node, retryable: true, .. }) if node == "B"));
    let (job, _) = bench.stored().await;
    assert_eq!(job.state, State::Failed);
    assert_eq!(job.error.as_deref(), Some("B: no route"));

    bench.clock.advance(Duration::from_secs(5));
    let mended = Plan::named("p")
        .node(says("A", 0))
        .node(says("B", 0))
        .edge("A", "B")
        .build()
        .unwrap();
    let (events, seen) = collected();
    let held = bench.lease("b").await;
    let ended = drive(held, &mended, Log::default(), &events).await.unwrap();
    assert_eq!(ended.state.0, ["A", "B"]);
    assert_eq!(ended.path, ["A", "B"]);
    assert_eq!(
        kinds(&seen),
        ["Replayed A", "Started B", "Finished B", "Ended -"]
    );
    assert_eq!(bench.stored().await.0.state, State::Indexed);
}

#[tokio::test]
async fn arms_of_a_fan_out_run_at_the_same_time_and_the_join_waits_for_all() {
    let both = Arc::new(Barrier::new(2));
    let arm = |name: &'static str| {
        let both = both.clone();
        Node::new(name, Class::Replayable, move |_: Step, _: Arc<Log>| {
            let both = both.clone();
            async move {
                both.wait().await;
                Ok::<_, Fault>(name.to_owned())
            }
        })
        .apply(|log: &mut Log, said: &String| log.0.push(said.clone()))
    };
    let plan = Plan::named("p")
        .node(says("A", 0))
        .node(arm("B"))
        .node(arm("C"))
        .node(says("C2", 0))
        .node(says("D", 0))
        .fan_out("A", ["C", "B"])
        .edge("C", "C2")
        .join(["B", "C2"], "D")
        .build()
        .unwrap();
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let ended = plan.run(&held, Log::default(), &Events::none()).await;
    assert_eq!(ended.unwrap().state.0, ["A", "B", "C", "C2", "D"]);
}

#[tokio::test(start_paused = true)]
async fn results_are_applied_in_the_order_of_the_plan_however_long_each_took() {
    for (b_ms, c_ms) in [(50, 1), (1, 50)] {
        let plan = Plan::named("p")
            .node(says("A", 0))
            .node(says("B", b_ms))
            .node(says("C", c_ms))
            .fan_out("A", ["C", "B"])
            .build()
            .unwrap();
        let bench = Bench::new().await;
        let held = bench.lease("a").await;
        let first = plan
            .run(&held, Log::default(), &Events::none())
            .await
            .unwrap();
        let again = plan
            .run(&held, Log::default(), &Events::none())
            .await
            .unwrap();
        assert_eq!(first.state.0, ["A", "B", "C"]);
        assert_eq!(
            first, again,
            "a replay gives the same state by the same way"
        );
    }
}

#[tokio::test]
async fn a_join_waits_only_for_the_branches_that_were_taken() {
    let plan = Plan::named("p")
        .node(says("A", 0))
        .node(says("B", 0))
        .node(says("C", 0))
        .node(says("D", 0))
        .branch("A", ["B", "C"], |_| "C")
        .join(["B", "C"], "D")
        .build()
        .unwrap();
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let ended = plan.run(&held, Log::default(), &Events::none()).await;
    assert_eq!(ended.unwrap().path, ["A", "C", "D"]);
}

#[tokio::test]
async fn a_loop_visits_a_node_again_under_another_key() {
    let plan = Plan::named("p")
        .node(says("A", 0))
        .node(says("B", 0))
        .edge("A", "B")
        .branch(
            "B",
            ["A", END],
            |log: &Log| if log.0.len() < 6 { "A" } else { END },
        )
        .build()
        .unwrap();
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let ended = plan
        .run(&held, Log::default(), &Events::none())
        .await
        .unwrap();
    assert_eq!(ended.path, ["A", "B", "A", "B", "A", "B"]);
    let (job, ops) = bench.stored().await;
    let first = op_key("A", &job.id, None).unwrap();
    let second = op_key("A", &job.id, Some(r#"{"visit": 2}"#)).unwrap();
    assert_eq!((ops[0].key.clone(), ops[2].key.clone()), (first, second));
    assert_eq!(ops.len(), 6);
}

#[tokio::test]
async fn a_loop_without_end_and_a_branch_to_nowhere_fail_for_good() {
    let endless = Plan::named("p")
        .node(says("A", 0))
        .branch("A", ["A", END], |_| "A")
        .build()
        .unwrap();
    let nowhere = Plan::named("p")
        .node(says("A", 0))
        .branch("A", ["A", END], |_| "B")
        .build()
        .unwrap();
    for (plan, why) in [(endless, "1000 times"), (nowhere, "none of its ways")] {
        let bench = Bench::new().await;
        let held = bench.lease("a").await;
        let ended = drive(held, &plan, Log::default(), &Events::none()).await;
        let Err(PlanError::Failed {
            error,
            retryable: false,
            ..
        }) = ended
        else {
            panic!("{ended:?}")
        };
        assert!(error.contains(why), "{error}");
        assert_eq!(bench.stored().await.0.state, State::Dead);
    }
}

#[tokio::test]
async fn a_plan_waits_for_an_answer_and_goes_on_with_it() {
    let ask = Node::new(
        "ASK",
        Class::Replayable,
        |step: Step, _: Arc<Log>| async move {
            Err::<String, _>(step.interrupt(json!({"question": "which one?"})))
        },
    )
    .apply(|log: &mut Log, said: &String| log.0.push(said.clone()));
    let plan = Plan::named("p")
        .node(says("A", 0))
        .node(ask)
        .node(says("SIDE", 0))
        .node(says("D", 0))
        .fan_out("A", ["ASK", "SIDE"])
        .join(["ASK", "SIDE"], "D")
        .build()
        .unwrap();
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let ended = drive(held, &plan, Log::default(), &Events::none()).await;
    let Err(PlanError::Interrupted { node, op }) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(node, "ASK");
    let (job, ops) = bench.stored().await;
    assert_eq!((job.lease, job.failures), (None, 0));
    let side = ops.iter().find(|op| op.kind == "SIDE").unwrap();
    assert_eq!(side.state, OpState::Done, "what ran beside it is recorded");
    assert!(bench.try_lease("b").await.is_none(), "it is parked");

    let answer = Deed::Resolve(Resolution::Result("\"that one\"".into()));
    bench.act(On::Op(op), answer).await.unwrap();
    let held = bench.lease("c").await;
    let ended = drive(held, &plan, Log::default(), &Events::none()).await;
    assert_eq!(ended.unwrap().state.0, ["A", "that one", "SIDE", "D"]);
}

#[tokio::test]
async fn two_nodes_that_ask_at_the_same_time_are_answered_one_after_the_other() {
    let ask =
        |name: &'static str| {
            Node::new(name, Class::AtMostOnce, |step: Step, _: Arc<Log>| async move {
            Err::<String, _>(step.interrupt(json!({})))
        })
        .apply(|log: &mut Log, said: &String| log.0.push(said.clone()))
        };
    let plan = Plan::named("p")
        .node(says("A", 0))
        .node(ask("B"))
        .node(ask("C"))
        .fan_out("A", ["B", "C"])
        .build()
        .unwrap();
    let bench = Bench::new().await;
    for expected in ["B", "C"] {
        let held = bench.lease("a").await;
        let ended = drive(held, &plan, Log::default(), &Events::none()).await;
        let Err(PlanError::Interrupted { node, op }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(node, expected);
        let answer = Deed::Resolve(Resolution::Result(format!("{node:?}").into()));
        bench.act(On::Op(op), answer).await.unwrap();
    }
    let held = bench.lease("a").await;
    let ended = drive(held, &plan, Log::default(), &Events::none()).await;
    assert_eq!(ended.unwrap().state.0, ["A", "B", "C"]);
}

fn counting(
    class: Class,
    runs: &Arc<AtomicUsize>,
    result: impl Fn(u32) -> Result<u32, Fault> + Send + Sync + 'static,
) -> Node<Log, u32> {
    let runs = runs.clone();
    Node::new("TRY", class, move |step: Step, _: Arc<Log>| {
        runs.fetch_add(1, Ordering::SeqCst);
        let result = result(step.attempt());
        async move { result }
    })
}

const THRICE: Retry = Retry {
    tries: 3,
    first: Duration::from_secs(1),
    longest: Duration::from_secs(10),
};

async fn driven(node: Node<Log, u32>) -> (Result<(), PlanError>, Job, Vec<hapax::job::Op>) {
    let bench = Bench::new().await;
    let plan = Plan::named("p").node(node).build().unwrap();
    let held = bench.lease("a").await;
    let ended = drive(held, &plan, Log::default(), &Events::none()).await;
    let (job, ops) = bench.stored().await;
    (ended.map(drop), job, ops)
}

#[tokio::test(start_paused = true)]
async fn a_node_is_tried_again_within_the_attempt_and_recorded_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let third = |attempt| match attempt {
        3 => Ok(3),
        _ => Err(Fault::retryable("not yet")),
    };
    let started = tokio::time::Instant::now();
    let node = counting(Class::Keyed, &runs, third).retry(THRICE);
    let (ended, job, ops) = driven(node).await;
    ended.unwrap();
    assert_eq!((job.state, job.failures), (State::Indexed, 0));
    assert_eq!((ops[0].tries, runs.load(Ordering::SeqCst)), (1, 3));
    let waited = started.elapsed();
    let pauses = Duration::from_millis(1500)..=Duration::from_secs(3);
    assert!(pauses.contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn tries_that_are_used_up_fail_the_attempt_and_a_fatal_fault_ends_it_at_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let never = |_| Err(Fault::retryable("never"));
    let (_, job, ops) = driven(counting(Class::Keyed, &runs, never).retry(THRICE)).await;
    assert_eq!(
        (job.state, ops[0].state),
        (State::Failed, OpState::Retryable)
    );
    assert_eq!(runs.swap(0, Ordering::SeqCst), 3);

    let fatal = |_| Err(Fault::fatal("gone"));
    let (_, job, ops) = driven(counting(Class::Keyed, &runs, fatal).retry(THRICE)).await;
    assert_eq!((job.state, ops[0].state), (State::Dead, OpState::Failed));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_asks_for_a_long_rest_gives_the_job_back_for_that_long() {
    let runs = Arc::new(AtomicUsize::new(0));
    let day = Duration::from_secs(86_400);
    let later = move |_| Err(Fault::retryable("come back tomorrow").after(day));
    let (_, job, _) = driven(counting(Class::Keyed, &runs, later).retry(THRICE)).await;
    assert_eq!((job.state, runs.load(Ordering::SeqCst)), (State::Failed, 1));
    assert!(job.available_at.since(job.updated_at) >= day);

    let soon = move |attempt| match attempt {
        2 => Ok(2),
        _ => Err(Fault::retryable("soon").after(Duration::from_secs(9))),
    };
    let started = tokio::time::Instant::now();
    driven(counting(Class::Keyed, &runs, soon).retry(THRICE))
        .await
        .0
        .unwrap();
    assert!(started.elapsed() >= Duration::from_secs(9));
}

fn hangs(class: Class) -> Node<Log, u32> {
    Node::new("TRY", class, |step: Step, _: Arc<Log>| async move {
        if step.attempt() < 3 {
            std::future::pending::<()>().await;
        }
        Ok::<u32, Fault>(step.attempt())
    })
    .timeout(Duration::from_secs(5))
    .retry(THRICE)
}

#[tokio::test(start_paused = true)]
async fn a_try_that_takes_too_long_is_cut_off_and_tried_again_if_that_is_allowed() {
    let (ended, _, ops) = driven(hangs(Class::Keyed)).await;
    ended.unwrap();
    assert_eq!(ops[0].result.as_deref(), Some("3"));

    let (ended, job, _) = driven(hangs(Class::AtMostOnce)).await;
    assert!(matches!(
        ended,
        Err(PlanError::InDoubt {
            has_probe: false,
            ..
        })
    ));
    assert_eq!(job.state, State::Failed);
    let error = job.error.unwrap();
    assert!(error.starts_with("in doubt: resolve op "), "{error}");
    assert!(job.available_at.since(job.updated_at) >= Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_probe_asks_at_the_next_attempt() {
    let bench = Bench::new().await;
    let node = hangs(Class::Probe).probe(|_: Step, _: Arc<Log>| async { Probed::Happened(4) });
    let plan = Plan::named("p").node(node).build().unwrap();
    let held = bench.lease("a").await;
    let ended = drive(held, &plan, Log::default(), &Events::none()).await;
    assert!(matches!(
        ended,
        Err(PlanError::InDoubt {
            has_probe: true,
            ..
        })
    ));
    bench.clock.advance(Duration::from_secs(10));
    let held = bench.lease("b").await;
    drive(held, &plan, Log::default(), &Events::none())
        .await
        .unwrap();
    let (job, ops) = bench.stored().await;
    assert_eq!(job.state, State::Indexed);
    assert_eq!(ops[0].result.as_deref(), Some("4"));
}

#[tokio::test]
async fn a_person_resolves_what_is_in_doubt_and_the_retried_job_goes_on() {
    let runs = Arc::new(AtomicUsize::new(0));
    let node = counting(Class::AtMostOnce, &runs, |_| panic!("in the middle"));
    let plan = Plan::named("p").node(node).build().unwrap();
    let bench = Bench::new().await;
    for _ in 0..2 {
        let held = bench.lease("a").await;
        let ended = drive(held, &plan, Log::default(), &Events::none()).await;
        assert!(matches!(ended, Err(PlanError::InDoubt { .. })));
        bench.clock.advance(Duration::from_secs(7200));
    }
    let (job, ops) = bench.stored().await;
    assert_eq!(ops[0].state, OpState::InDoubt);
    let answer = Deed::Resolve(Resolution::Result("1".into()));
    bench.act(On::Op(ops[0].key.clone()), answer).await.unwrap();
    bench.act(On::Job(job.id), Deed::Retry).await.unwrap();
    let held = bench.lease("b").await;
    drive(held, &plan, Log::default(), &Events::none())
        .await
        .unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1, "it ran at most once");
}

#[tokio::test]
async fn a_plan_that_leaves_its_job_nowhere_says_so() {
    let bench = Bench::with(NewJob::download("w", "a", "https://example.org/x").unwrap()).await;
    let plan = Plan::named("p").node(says("A", 0)).build().unwrap();
    let held = bench.lease("a").await;
    drive(held, &plan, Log::default(), &Events::none())
        .await
        .unwrap();
    let (job, _) = bench.stored().await;
    assert_eq!(job.state, State::Dead);
    assert_eq!(
        job.error.as_deref(),
        Some("the plan ended and left the job LEASED")
    );
}

#[tokio::test]
async fn the_last_node_can_end_the_job_with_its_result() {
    let end = says("A", 0).advances_to(|_: &Log, _: &String| Some(State::SkippedDuplicate));
    let plan = Plan::named("p").node(end).build().unwrap();
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    drive(held.clone(), &plan, Log::default(), &Events::none())
        .await
        .unwrap();
    assert!(held.has_ended());
    let (job, _) = bench.stored().await;
    assert_eq!(job.state, State::SkippedDuplicate);
    assert_eq!(job.result.as_deref(), Some("\"A\""));
}

#[tokio::test]
async fn a_lost_lease_stops_the_plan_and_writes_nothing_more() {
    let bench = Arc::new(Bench::new().await);
    let thief = bench.clone();
    let steal = Node::new("A", Class::Replayable, move |_: Step, _: Arc<Log>| {
        let thief = thief.clone();
        async move {
            thief.run_out();
            drop(thief.lease("b").await);
            Ok::<u32, Fault>(1)
        }
    });
    let plan = Plan::named("p").node(steal).build().unwrap();
    let held = bench.lease("a").await;
    let ended = drive(held, &plan, Log::default(), &Events::none()).await;
    assert!(matches!(ended, Err(PlanError::Lost)));
    let (job, ops) = bench.stored().await;
    assert_eq!(job.lease.unwrap().owner.as_ref(), "b");
    assert_eq!(ops[0].state, OpState::Running);
}

#[tokio::test]
async fn what_a_plan_does_is_told_with_the_job_and_the_node() {
    let bench = Bench::new().await;
    let node = Node::new(
        "A",
        Class::Replayable,
        |step: Step, _: Arc<Log>| async move {
            step.progress(5, Some(10), "bytes");
            assert_eq!((step.node(), step.visit()), ("A", 1));
            assert_eq!(step.held().tenant(), Tenant::DEFAULT);
            Ok::<_, Fault>(step.op().to_string())
        },
    );
    let plan = Plan::named("p").node(node).build().unwrap();
    let (events, seen) = collected();
    let held = bench.lease("a").await;
    drive(held, &plan, Log::default(), &events).await.unwrap();
    assert_eq!(
        kinds(&seen),
        ["Started A", "Progress A", "Finished A", "Ended -"]
    );
    let all = seen.lock().unwrap();
    assert!(all.iter().all(|event| *event.job() == bench.job.id));
    assert_eq!(new_job(1).key(), bench.job.id.as_str());
}
