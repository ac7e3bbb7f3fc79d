//! One effect under a lease: recorded once, replayed, in doubt, lost, and refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hapax::job::testing::{Cut, FaultyQueue, runs_twice_settles_once};
use hapax::job::{
    Class, Deed, Effect, EffectError, Fault, HeldError, NewJob, On, OpState, Probed, Refusal,
    Resolution, State,
};
use serde_json::json;

use super::{Bench, TTL, new_job};

fn effect(class: Class) -> Effect {
    Effect::new("HEAD", class).context(json!({"url": "https://example.org/paper.pdf"}))
}

#[tokio::test]
async fn a_result_is_recorded_with_its_step_and_replayed_by_the_next_holder() {
    let bench = Bench::new().await;
    let fetch = effect(Class::Replayable).advances_to(State::HeadDone);
    let held = bench.lease("a").await;
    let ran = held
        .run(&fetch, |_| async { Ok(vec![1, 2]) })
        .await
        .unwrap();
    assert_eq!((ran.value, ran.replayed), (vec![1, 2], false));
    assert_eq!(held.state(), State::HeadDone);
    held.release().await.unwrap();

    let held = bench.lease("b").await;
    let never = |_| async { unreachable!("it is recorded") };
    let ran = held.run::<Vec<i32>, _, _>(&fetch, never).await.unwrap();
    assert_eq!((ran.value, ran.replayed), (vec![1, 2], true));
    let (job, ops) = bench.stored().await;
    assert_eq!(job.state, State::HeadDone);
    assert_eq!(ops.len(), 1);
    assert_eq!((ops[0].state, ops[0].tries), (OpState::Done, 1));
    assert_eq!(ops[0].result.as_deref(), Some("[1,2]"));
}

#[tokio::test]
async fn a_replay_after_a_failed_attempt_brings_the_job_as_far_again() {
    let bench = Bench::with(NewJob::download("w", "a", "https://example.org/x").unwrap()).await;
    let fetch = effect(Class::Replayable).advances_to(State::HeadDone);
    let stream = Effect::new("STREAM", Class::Replayable).enters(State::Streaming);
    let held = bench.lease("a").await;
    held.run(&fetch, |_| async { Ok(1) }).await.unwrap();
    held.run(&stream, |_| async { Ok(2) }).await.unwrap();
    assert_eq!(held.state(), State::Streaming);
    held.fail("no disk", true, None).await.unwrap();

    bench.clock.advance(Duration::from_secs(3600));
    let held = bench.lease("b").await;
    assert_eq!(held.state(), State::Leased, "a failed job starts over");
    assert!(
        held.run(&fetch, |_| async { Ok(9) })
            .await
            .unwrap()
            .replayed
    );
    assert_eq!(held.state(), State::HeadDone);
    let replay = held.run(&stream, |_| async { Ok(9) }).await.unwrap();
    assert_eq!((replay.value, held.state()), (2, State::Streaming));
}

#[tokio::test]
async fn a_record_of_another_type_is_an_error_that_says_so() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let fetch = effect(Class::Replayable);
    held.run(&fetch, |_| async { Ok("text") }.map_owned())
        .await
        .unwrap();
    let ran = held.run::<u32, _, _>(&fetch, |_| async { Ok(1) }).await;
    let Err(error @ EffectError::Unreadable { .. }) = ran else {
        panic!("{ran:?}")
    };
    assert!(
        error.to_string().contains("can no longer be read"),
        "{error}"
    );
}

/// Turns the result into one that can be read back.
trait MapOwned: Sized {
    fn map_owned(self) -> impl Future<Output = Result<String, Fault>>;
}

impl<F: Future<Output = Result<&'static str, Fault>>> MapOwned for F {
    async fn map_owned(self) -> Result<String, Fault> {
        self.await.map(str::to_owned)
    }
}

#[tokio::test]
async fn a_panic_is_a_retryable_failure_and_not_an_empty_result() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let fetch = effect(Class::Keyed);
    let ran = held
        .run::<u32, _, _>(&fetch, |_| async { panic!("out of ink") })
        .await;
    let Err(EffectError::Fault(fault)) = ran else {
        panic!("{ran:?}")
    };
    assert!(fault.retryable && fault.error.contains("out of ink"));
    let (_, ops) = bench.stored().await;
    assert_eq!(
        (ops[0].state, ops[0].result.clone()),
        (OpState::Retryable, None)
    );
    let ran = held.run(&fetch, |_| async { Ok(1) }).await.unwrap();
    assert_eq!((ran.value, ran.replayed), (1, false));
}

#[tokio::test]
async fn what_may_not_run_again_is_in_doubt_after_a_panic() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let pay = effect(Class::AtMostOnce);
    let ran = held
        .run::<u32, _, _>(&pay, |_| async { panic!("after the payment") })
        .await;
    assert!(matches!(ran, Err(EffectError::InDoubt)), "{ran:?}");
    held.release().await.unwrap();
    let held = bench.lease("b").await;
    let never = |_| async { unreachable!("it may have happened") };
    let ran = held.run::<u32, _, _>(&pay, never).await;
    assert!(matches!(ran, Err(EffectError::InDoubt)), "{ran:?}");
    assert_eq!(bench.stored().await.1[0].state, OpState::InDoubt);
}

/// A bench whose job has an operation that a dead runner left behind.
async fn abandoned(effect: &Effect) -> Bench {
    let bench = Bench::new().await;
    let queue = FaultyQueue::new(bench.queue.clone()).cut(2, Cut::DiesBefore);
    let queue = Arc::new(queue);
    let held = bench.lease_through(queue.clone(), "dead").await;
    tokio::select! {
        _ = held.run(effect, |_| async { Ok(0) }) => panic!("its process is dead"),
        () = queue.died() => {}
    }
    bench.run_out();
    bench
}

#[tokio::test]
async fn a_probe_that_knows_it_happened_gives_the_result_and_the_step() {
    let pay = effect(Class::Probe).advances_to(State::HeadDone);
    let bench = abandoned(&pay).await;
    let held = bench.lease("b").await;
    let never = |_| async { unreachable!("it happened") };
    let ran = held.run_probed(&pay, |_| async { Probed::Happened(7) }, never);
    let ran = ran.await.unwrap();
    assert_eq!((ran.value, ran.replayed), (7, true));
    let (job, ops) = bench.stored().await;
    assert_eq!((job.state, ops[0].state), (State::HeadDone, OpState::Done));
}

#[tokio::test]
async fn a_probe_that_knows_it_did_not_happen_lets_it_run() {
    let pay = effect(Class::Probe);
    let bench = abandoned(&pay).await;
    let held = bench.lease("b").await;
    let ran = held.run_probed(&pay, |_| async { Probed::DidNot }, |_| async { Ok(8) });
    let ran = ran.await.unwrap();
    assert_eq!((ran.value, ran.replayed), (8, false));
}

#[tokio::test]
async fn a_probe_that_does_not_know_or_panics_leaves_it_in_doubt() {
    let pay = effect(Class::Probe);
    let bench = abandoned(&pay).await;
    let held = bench.lease("b").await;
    let never = |_| async { unreachable!("nobody knows") };
    let ran = held.run_probed::<u32, _, _, _, _>(&pay, |_| async { Probed::Unknown }, never);
    assert!(matches!(ran.await, Err(EffectError::InDoubt)));
    let ran = held.run_probed::<u32, _, _, _, _>(&pay, |_| async { panic!("no net") }, never);
    assert!(matches!(ran.await, Err(EffectError::InDoubt)));
    assert_eq!(bench.stored().await.1[0].state, OpState::InDoubt);
}

struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_cancels_the_run_and_records_nothing() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let cancelled = Arc::new(AtomicBool::new(false));
    let guard = Dropped(cancelled.clone());
    let fetch = effect(Class::Replayable);
    let running = held.run::<u32, _, _>(&fetch, |_| async move {
        let _guard = guard;
        std::future::pending().await
    });
    let taken = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        bench.run_out();
        bench.lease("b").await
    };
    let (ran, other) = tokio::join!(running, taken);
    assert!(matches!(ran, Err(EffectError::Lost)), "{ran:?}");
    assert!(held.is_lost() && cancelled.load(Ordering::SeqCst));
    let (_, ops) = bench.stored().await;
    assert_eq!(
        (ops[0].state, ops[0].error.clone()),
        (OpState::Running, None)
    );
    assert!(matches!(
        held.advance(State::HeadDone, None).await,
        Err(HeldError::Lost)
    ));
    assert!(!other.is_lost());
}

#[tokio::test]
async fn a_worker_that_was_paused_past_its_lease_cannot_record() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let fetch = effect(Class::Replayable).advances_to(State::HeadDone);
    let ran = held.run(&fetch, |_| async {
        bench.run_out();
        let other = bench.lease("b").await;
        let theirs = other
            .run(&fetch, |_| async { Ok("theirs".to_owned()) })
            .await;
        assert!(!theirs.unwrap().replayed);
        Ok("late".to_owned())
    });
    let ran = ran.await;
    assert!(matches!(ran, Err(EffectError::Lost)), "{ran:?}");
    let (job, ops) = bench.stored().await;
    assert_eq!(ops[0].result.as_deref(), Some("\"theirs\""));
    assert_eq!(job.lease.unwrap().owner.as_ref(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_keeps_the_lease_for_as_long_as_the_run_takes() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let fetch = effect(Class::Replayable);
    let ran = held.run(&fetch, |_| async {
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            bench.clock.advance(Duration::from_secs(20));
            tokio::task::yield_now().await;
            assert!(bench.try_lease("b").await.is_none());
        }
        Ok(20)
    });
    assert_eq!(ran.await.unwrap().value, 20);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_is_lost_before_it_runs_out() {
    let bench = Bench::new().await;
    let queue = FaultyQueue::new(bench.queue.clone()).cut(2, Cut::DiesBefore);
    let held = bench.lease_through(Arc::new(queue), "a").await;
    let leased = tokio::time::Instant::now();
    let fetch = effect(Class::Replayable);
    let ran = held.run::<u32, _, _>(&fetch, |_| async {
        // The store hangs from now on, for heartbeats too.
        held.advance(State::HeadDone, None).await.ok();
        unreachable!("it is never answered")
    });
    let ran = ran.await;
    assert!(matches!(ran, Err(EffectError::Lost)), "{ran:?}");
    assert!(leased.elapsed() < TTL * 19 / 20, "{:?}", leased.elapsed());
    assert!(leased.elapsed() > TTL / 2, "{:?}", leased.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_moment_costs_no_second_run() {
    for cut in [Cut::Unavailable, Cut::WrittenUnknown, Cut::LostUnknown] {
        for write in 1..=3 {
            let bench = Bench::new().await;
            let queue = FaultyQueue::new(bench.queue.clone()).cut(write, cut);
            let held = bench.lease_through(Arc::new(queue), "a").await;
            let runs = AtomicUsize::new(0);
            let pay = effect(Class::AtMostOnce).enters(State::HeadDone);
            let ran = held.run(&pay, |_| async {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok(5)
            });
            assert_eq!(ran.await.unwrap().value, 5, "{cut:?} at {write}");
            let (_, ops) = bench.stored().await;
            assert_eq!((ops[0].state, ops[0].tries), (OpState::Done, 1));
            assert_eq!(runs.load(Ordering::SeqCst), 1, "{cut:?} at {write}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_whose_answer_got_lost_is_recorded_once() {
    let bench = Bench::new().await;
    let queue = FaultyQueue::new(bench.queue.clone())
        .cut(2, Cut::WrittenUnknown)
        .cut(4, Cut::WrittenUnknown);
    let held = bench.lease_through(Arc::new(queue), "a").await;
    let fetch = effect(Class::Replayable);
    let failing = |_| async { Err::<u32, _>(Fault::retryable("no route")) };
    assert!(matches!(
        held.run(&fetch, failing).await,
        Err(EffectError::Fault(_))
    ));
    let job = held.fail("no route", true, None).await.unwrap();
    assert_eq!((job.state, job.failures), (State::Failed, 1));
    assert_eq!(bench.stored().await.1[0].state, OpState::Retryable);
}

#[tokio::test]
async fn a_result_of_two_mebibytes_is_refused_and_not_cut() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let fetch = effect(Class::Replayable);
    let ran = held
        .run(&fetch, |_| async { Ok("x".repeat(2 << 20)) })
        .await;
    let Err(EffectError::TooLarge { bytes }) = ran else {
        panic!("{ran:?}")
    };
    assert_eq!(bytes, (2 << 20) + 2);
    let (_, ops) = bench.stored().await;
    assert_eq!(
        (ops[0].state, ops[0].result.clone()),
        (OpState::Failed, None)
    );
    let again = held.run(&fetch, |_| async { Ok(String::new()) }).await;
    assert!(matches!(again, Err(EffectError::Failed(why)) if why.contains("at most")));
}

#[tokio::test]
async fn a_result_that_is_no_json_or_cannot_be_read_back_is_a_failure_for_good() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let map = BTreeMap::from([(vec![1u8], 2u8)]);
    let ran = held.run(&effect(Class::Keyed), |_| async { Ok(map) }).await;
    assert!(matches!(ran, Err(EffectError::Fault(fault)) if !fault.retryable));
    let nan = Effect::new("NAN", Class::Keyed);
    let ran = held.run(&nan, |_| async { Ok(f64::NAN) }).await;
    assert!(matches!(ran, Err(EffectError::Fault(fault)) if fault.error.contains("read back")));
}

#[tokio::test]
async fn a_step_that_the_graph_denies_is_told_and_the_result_is_kept() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let leap = effect(Class::Keyed).advances_to(State::Indexed);
    let ran = held.run(&leap, |_| async { Ok(3) }).await;
    assert!(
        matches!(ran, Err(EffectError::Refused(Refusal::Denied { .. }))),
        "{ran:?}"
    );
    let (job, ops) = bench.stored().await;
    assert_eq!((job.state, ops[0].state), (State::Leased, OpState::Done));
}

#[tokio::test]
async fn an_effect_that_waits_parks_its_job_until_it_is_resolved() {
    for cut in [None, Some(Cut::WrittenUnknown), Some(Cut::LostUnknown)] {
        let bench = Bench::new().await;
        let queue = FaultyQueue::new(bench.queue.clone());
        let queue = match cut {
            Some(cut) => queue.cut(2, cut),
            None => queue,
        };
        let held = bench.lease_through(Arc::new(queue), "a").await;
        let ask = effect(Class::Keyed);
        let asks = || async { Err::<String, _>(Fault::waits(json!({"which": ["a", "b"]}))) };
        let ran = held.run(&ask, |_| asks()).await;
        assert!(matches!(ran, Err(EffectError::Waiting)), "{cut:?}: {ran:?}");
        assert!(held.has_ended() && !held.is_lost());
        bench.clock.advance(Duration::from_secs(86_400));
        assert!(bench.try_lease("b").await.is_none(), "it is parked");

        let op = bench.stored().await.1[0].clone();
        assert_eq!(op.result.as_deref(), Some(r#"{"which":["a","b"]}"#));
        let answer = Deed::Resolve(Resolution::Result("\"b\"".into()));
        bench.act(On::Op(op.key), answer).await.unwrap();
        let held = bench.lease("c").await;
        let ran = held.run(&ask, |_| asks()).await.unwrap();
        assert_eq!((ran.value.as_str(), ran.replayed), ("b", true));
    }
}

#[tokio::test]
async fn a_context_that_is_no_object_is_refused_before_anything_is_begun() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    let wrong = Effect::new("HEAD", Class::Keyed).context(json!([1]));
    let ran = held.run(&wrong, |_| async { Ok(1) }).await;
    assert!(matches!(ran, Err(EffectError::Invalid(_))), "{ran:?}");
    assert!(bench.stored().await.1.is_empty());
}

#[tokio::test]
async fn a_holder_that_gave_its_job_back_can_do_nothing_more() {
    let bench = Bench::new().await;
    let held = bench.lease("a").await;
    held.clone().release().await.unwrap();
    let ran = held.run(&effect(Class::Keyed), |_| async { Ok(1) }).await;
    assert!(matches!(ran, Err(EffectError::Lost)), "{ran:?}");
    assert!(held.has_ended() && !held.is_lost());
    assert!(bench.stored().await.1.is_empty());
}

#[tokio::test]
async fn an_effect_of_every_class_runs_twice_and_settles_once() {
    for class in [
        Class::Tx,
        Class::Keyed,
        Class::Probe,
        Class::Replayable,
        Class::AtMostOnce,
    ] {
        let bench = Bench::new().await;
        let one = effect(class).enters(State::HeadDone);
        let value =
            runs_twice_settles_once(bench.queue.clone(), new_job(1), &one, |op| async move {
                Ok(op.to_string())
            });
        assert_eq!(value.await.len(), 64);
    }
}
