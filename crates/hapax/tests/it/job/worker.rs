//! The worker: every job once, tenants in turn, panics and stores that are away, and a stop that loses nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::core::Tenant;
use hapax::job::testing::{Cut, FaultyQueue, MemoryQueue};
use hapax::job::{
    Ask, Class, Effect, Fault, Held, Identity, JobId, JobKind, Place, Queue, State, Worker,
    take_back_dead,
};
use tokio::sync::{Notify, Semaphore};

use super::{Bench, new_job};

const GRACE: Duration = Duration::from_secs(5);

fn kind() -> JobKind {
    JobKind::new("test").unwrap()
}

async fn finish(held: Held) {
    held.advance(State::SkippedDuplicate, None).await.unwrap();
}

async fn state(queue: &Arc<dyn Queue>, tenant: Tenant, id: &JobId) -> State {
    let stored = queue.job(tenant, id.clone()).await.unwrap();
    stored.unwrap().0.state
}

/// Ends once `jobs` jobs were counted.
async fn counted(done: Arc<Semaphore>, jobs: u32) {
    drop(done.acquire_many(jobs).await);
}

#[tokio::test]
async fn every_job_is_run_and_none_at_the_same_time_as_too_many_others() {
    let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new());
    let jobs = (0..40).map(new_job).collect();
    let planned = queue.plan(Tenant::DEFAULT, jobs).await.unwrap();
    let done = Arc::new(Semaphore::new(0));
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (tell, top) = (done.clone(), most.clone());
    let worker = Worker::new(queue.clone())
        .concurrency(4)
        .handler(kind(), move |held: Held| {
            let (tell, now, top) = (tell.clone(), now.clone(), top.clone());
            async move {
                top.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                finish(held).await;
                now.fetch_sub(1, Ordering::SeqCst);
                tell.add_permits(1);
            }
        });
    worker.run(counted(done, 40), GRACE).await;
    assert_eq!(most.load(Ordering::SeqCst), 4);
    for planned in planned {
        let found = state(&queue, Tenant::DEFAULT, &planned.job.id).await;
        assert_eq!(found, State::SkippedDuplicate);
    }
}

#[tokio::test]
async fn a_tenant_with_much_work_does_not_starve_another() {
    let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new());
    let tenants: Vec<Tenant> = (1..=3)
        .map(|n| Tenant::from_uuid(uuid::Uuid::from_u128(n)))
        .collect();
    for (tenant, jobs) in tenants.iter().zip([300, 10, 10]) {
        let jobs = (0..jobs).map(new_job).collect();
        queue.plan(*tenant, jobs).await.unwrap();
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let (done, seen) = (Arc::new(Semaphore::new(0)), order.clone());
    let tell = done.clone();
    let worker = Worker::new(queue)
        .concurrency(3)
        .handler(kind(), move |held: Held| {
            let (tell, seen) = (tell.clone(), seen.clone());
            async move {
                seen.lock().unwrap().push(held.tenant());
                finish(held).await;
                tell.add_permits(1);
            }
        });
    worker.run(counted(done, 60), GRACE).await;
    let mut first: HashMap<Tenant, usize> = HashMap::new();
    for tenant in &order.lock().unwrap()[..45] {
        *first.entry(*tenant).or_default() += 1;
    }
    assert_eq!(
        (first[&tenants[1]], first[&tenants[2]]),
        (10, 10),
        "{first:?}"
    );
}

#[tokio::test]
async fn a_job_planned_later_wakes_the_worker_without_a_poll() {
    let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new());
    let done = Arc::new(Semaphore::new(0));
    let tell = done.clone();
    let worker = Worker::new(queue.clone())
        .poll(Duration::from_secs(5))
        .handler(kind(), move |held: Held| {
            let tell = tell.clone();
            async move {
                finish(held).await;
                tell.add_permits(1);
            }
        });
    let running = worker.run(counted(done, 1), GRACE);
    let planning = async {
        tokio::task::yield_now().await;
        queue.plan(Tenant::DEFAULT, vec![new_job(1)]).await.unwrap();
    };
    let started = std::time::Instant::now();
    tokio::join!(running, planning);
    assert!(started.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_handler_that_panics_or_ends_nothing_fails_its_job_and_not_the_worker() {
    for (work, why) in [("panics", "out of ink"), ("returns", "without ending")] {
        let bench = Bench::new().await;
        let done = Arc::new(Notify::new());
        let tell = done.clone();
        let worker = Worker::new(bench.queue.clone()).handler(kind(), move |held: Held| {
            tell.notify_one();
            async move {
                drop(held);
                assert!(work != "panics", "out of ink");
            }
        });
        worker.run(done.notified(), GRACE).await;
        let (job, _) = bench.stored().await;
        assert_eq!((job.state, job.failures), (State::Failed, 1));
        assert!(job.error.unwrap().contains(why));
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_gives_back_what_did_not_end_in_time() {
    let bench = Bench::new().await;
    bench
        .queue
        .plan(Tenant::DEFAULT, vec![new_job(2)])
        .await
        .unwrap();
    let both = Arc::new(Semaphore::new(0));
    let tell = both.clone();
    let worker =
        Worker::new(bench.queue.clone())
            .concurrency(2)
            .handler(kind(), move |held: Held| {
                tell.add_permits(1);
                async move {
                    if held.job().work_id == "w-1" {
                        std::future::pending::<()>().await;
                    }
                    tokio::time::sleep(GRACE / 2).await;
                    finish(held).await;
                }
            });
    let started = tokio::time::Instant::now();
    worker.run(counted(both, 2), GRACE).await;
    assert!(started.elapsed() >= GRACE);
    let (job, _) = bench.stored().await;
    assert_eq!((job.lease.clone(), job.failures), (None, 0));
    let tally = bench.queue.tally(Tenant::DEFAULT, u64::MAX).await.unwrap();
    let ended = tally
        .iter()
        .find(|tally| tally.state == State::SkippedDuplicate);
    assert_eq!(
        ended.unwrap().count,
        1,
        "the other one ended within the grace"
    );
    assert!(
        bench.try_lease("b").await.is_some(),
        "it is leased again at once"
    );
}

struct Gone(Arc<Notify>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_its_lease_is_lost() {
    let bench = Arc::new(Bench::new().await);
    let gone = Arc::new(Notify::new());
    let (thief, tell) = (bench.clone(), gone.clone());
    let worker = Worker::new(bench.queue.clone()).handler(kind(), move |held: Held| {
        let (thief, gone) = (thief.clone(), Gone(tell.clone()));
        async move {
            let _gone = gone;
            thief.run_out();
            drop(thief.lease("thief").await);
            std::future::pending::<()>().await;
            drop(held);
        }
    });
    worker.run(gone.notified(), GRACE).await;
    let (job, _) = bench.stored().await;
    assert_eq!(job.lease.unwrap().owner.as_ref(), "thief");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_stops_no_worker() {
    let bench = Bench::new().await;
    let mut queue = FaultyQueue::new(bench.queue.clone()).failing_leases(7);
    for write in 1..4 {
        queue = queue.cut(write, Cut::Unavailable);
    }
    let done = Arc::new(Notify::new());
    let tell = done.clone();
    let worker = Worker::new(Arc::new(queue)).handler(kind(), move |held: Held| {
        let tell = tell.clone();
        async move {
            finish(held).await;
            tell.notify_one();
        }
    });
    worker.run(done.notified(), GRACE).await;
    assert_eq!(bench.stored().await.0.state, State::SkippedDuplicate);
}

#[tokio::test]
async fn a_worker_leases_only_its_kinds_and_its_place() {
    let bench = Bench::new().await;
    let other = JobKind::new("other").unwrap();
    let elsewhere = Worker::new(bench.queue.clone())
        .place(Place::new("there").unwrap())
        .handler(kind(), |_held: Held| async {
            unreachable!("it is not there")
        });
    let unkind = Worker::new(bench.queue.clone())
        .handler(kind(), |_held: Held| async {
            unreachable!("it is not asked for")
        })
        .kinds([other]);
    for worker in [elsewhere, unkind] {
        let soon = tokio::time::sleep(Duration::from_millis(20));
        worker.run(soon, GRACE).await;
    }
    assert_eq!(bench.stored().await.0.state, State::Planned);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_leases_of_a_dead_process_are_taken_back_and_no_others() {
    let bench = Bench::new().await;
    bench
        .queue
        .plan(Tenant::DEFAULT, vec![new_job(2)])
        .await
        .unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let alive = Identity::this_process();
    let mut parts: Vec<String> = alive.name().split('/').map(str::to_owned).collect();
    parts[2] = pid.to_string();
    let dead = parts.join("/");

    let first = bench
        .queue
        .lease(Tenant::DEFAULT, Ask::by(&dead))
        .await
        .unwrap();
    bench
        .queue
        .lease(Tenant::DEFAULT, Ask::by(alive.name()))
        .await
        .unwrap();
    assert_eq!(
        take_back_dead(&bench.queue, Tenant::DEFAULT).await.unwrap(),
        1
    );
    assert_eq!(
        take_back_dead(&bench.queue, Tenant::DEFAULT).await.unwrap(),
        0
    );
    let again = bench.lease("next").await;
    assert_eq!((&again.job().id, again.job().failures), (&first[0].id, 0));
    assert!(
        bench.try_lease("other").await.is_none(),
        "the living one keeps its lease"
    );
}

#[tokio::test]
async fn a_worker_goes_on_with_effects_where_a_stopped_one_left_off() {
    let bench = Bench::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    for round in 0..2 {
        let done = Arc::new(Notify::new());
        let (tell, runs) = (done.clone(), runs.clone());
        let worker = Worker::new(bench.queue.clone()).handler(kind(), move |held: Held| {
            let (tell, runs) = (tell.clone(), runs.clone());
            async move {
                let pay = Effect::new("PAY", Class::AtMostOnce);
                let run = |_| async {
                    runs.fetch_add(1, Ordering::SeqCst);
                    Ok::<u32, Fault>(1)
                };
                held.run(&pay, run).await.unwrap();
                tell.notify_one();
                match round {
                    0 => std::future::pending().await,
                    _ => finish(held).await,
                }
            }
        });
        worker.run(done.notified(), GRACE / 100).await;
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(bench.stored().await.0.state, State::SkippedDuplicate);
}
