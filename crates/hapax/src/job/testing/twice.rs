//! The check that every effect must pass: run twice, recorded once.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Arc;

use hapax_core::Tenant;
use hapax_core::job::{Act, Ask, Deed, Fence, Job, JobId, NewJob, On, OpKey, Queue, Resolution};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::faulty::{Cut, FaultyQueue};
use crate::job::effect::{Effect, EffectError, Fault};
use crate::job::held::Held;

/// Runs an effect, lets its process die before the result is recorded, and runs it again, twice.
///
/// An effect whose class allows that runs a second time and must give the same result; any other is in doubt and
/// must not run. The result is recorded once, and the last call replays it without running. Returns the result.
///
/// `queue` must hold no other job of the default tenant that is due.
///
/// # Panics
/// When the effect does not behave like that; this is for tests.
pub async fn runs_twice_settles_once<T, F, Fut>(
    queue: Arc<dyn Queue>,
    job: NewJob,
    effect: &Effect,
    run: F,
) -> T
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
    F: Fn(OpKey) -> Fut,
    Fut: Future<Output = Result<T, Fault>>,
{
    let planned = queue.plan(Tenant::DEFAULT, vec![job]).await;
    let id = planned.expect("the job is planned").remove(0).job.id;
    let runs = Cell::new(0);
    let counted = |op| {
        runs.set(runs.get() + 1);
        run(op)
    };

    let first = lease(&queue, &id).await;
    // Entering a state and beginning is one write, completing is the next.
    let faulty = Arc::new(FaultyQueue::new(queue.clone()).cut(2, Cut::DiesBefore));
    let held = hold(faulty.clone(), first.clone());
    tokio::select! {
        biased;
        ended = held.run(effect, counted) => panic!("the process died before it could record: {ended:?}"),
        () = faulty.died() => {}
    }
    assert_eq!(runs.get(), 1, "it ran, and its process died");
    drop(held);
    give_back(&queue, &first).await;

    let second = lease(&queue, &id).await;
    let held = hold(queue.clone(), second.clone());
    let again = held.run(effect, counted).await;
    let value = if effect.class.runs_again() {
        let ran = again.expect("it may be run again");
        assert!(!ran.replayed, "nothing was recorded before");
        assert_eq!(runs.get(), 2, "it ran again");
        ran.value
    } else {
        assert!(matches!(again, Err(EffectError::InDoubt)), "{again:?}");
        assert_eq!(runs.get(), 1, "it must not run while it is in doubt");
        let op = effect.key(&held).expect("it has a key");
        let value = counted(op.clone()).await.expect("it works by itself");
        let text = serde_json::to_string(&value).expect("its result is JSON");
        let deed = Deed::Resolve(Resolution::Result(text.into()));
        let act = Act {
            on: On::Op(op),
            fence: held.fence(),
            deed,
        };
        let answers = queue.apply(Tenant::DEFAULT, vec![act]).await;
        let answer = answers.expect("the queue answers").remove(0);
        answer.expect("what is in doubt can be resolved");
        value
    };
    let (ended, before) = (held.has_ended(), runs.get());
    if ended {
        return value; // It ended the job, so nothing leases it again.
    }
    drop(held);
    give_back(&queue, &second).await;

    let held = hold(queue.clone(), lease(&queue, &id).await);
    let replay = held.run(effect, counted).await.expect("it is recorded");
    assert!(replay.replayed, "it is recorded once");
    assert_eq!(runs.get(), before, "a replay runs nothing");
    assert_eq!(replay.value, value, "a replay is what was recorded");
    value
}

/// Leases the job, which must be the only one that is due.
pub(super) async fn lease(queue: &Arc<dyn Queue>, id: &JobId) -> Job {
    let leased = queue.lease(Tenant::DEFAULT, Ask::by("tester")).await;
    let job = leased.expect("the queue answers").pop();
    let job = job.expect("the job is due");
    assert_eq!(job.id, *id, "no other job is due");
    job
}

pub(super) fn hold(queue: Arc<dyn Queue>, job: Job) -> Held {
    let ttl = Ask::by("tester").ttl;
    Held::new(queue, job, ttl).expect("it is leased")
}

/// Gives back the lease of a process that died, as [`take_back_dead`](crate::job::take_back_dead) does.
pub(super) async fn give_back(queue: &Arc<dyn Queue>, job: &Job) {
    let act = Act {
        on: On::Job(job.id.clone()),
        fence: Fence::of("tester", job.epoch),
        deed: Deed::Release,
    };
    let answers = queue.apply(Tenant::DEFAULT, vec![act]).await;
    let answer = answers.expect("the queue answers").remove(0);
    answer.expect("the dead process held the job");
}
