//! Many workers, many jobs, workers that are killed at random: what was recorded must still be true.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax::core::Tenant;
use hapax::job::testing::HistoryQueue;
use hapax::job::{
    Class, Effect, EffectError, Fault, Held, JobKind, JobScan, OpKey, OpState, Probed, Queue,
    State, Worker,
};
use hapax::store::SqliteLedger;
use hapax::store::sqlite::SqliteOptions;
use tokio::task::JoinHandle;

use super::new_job;

const WORKERS: usize = 30;
const JOBS: usize = 2000;
const KILLS: usize = 150;

/// Somebody downstream who knows operations again and refuses older leases.
#[derive(Default)]
struct World {
    paid: HashMap<OpKey, usize>,
    fences: HashMap<OpKey, i64>,
}

impl World {
    fn pay(&mut self, op: &OpKey, epoch: i64) -> Result<u32, Fault> {
        let fence = self.fences.entry(op.clone()).or_insert(epoch);
        if epoch < *fence {
            return Err(Fault::retryable("an older lease"));
        }
        *self.paid.entry(op.clone()).or_default() += 1;
        Ok(1)
    }

    fn asked(&mut self, op: &OpKey, epoch: i64) -> Probed<u32> {
        self.fences.insert(op.clone(), epoch);
        match self.paid.get(op) {
            Some(_) => Probed::Happened(1),
            None => Probed::DidNot,
        }
    }
}

async fn work(held: Held, world: Arc<Mutex<World>>) -> Result<(), EffectError> {
    let epoch = held.epoch();
    let pay = Effect::new("PAY", Class::Probe).advances_to(State::Finalized);
    let asked = |op: OpKey| std::future::ready(world.lock().unwrap().asked(&op, epoch));
    let paying = |op: OpKey| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, Fault>(op)
    };
    let run = |op: OpKey| async {
        let op = paying(op).await?;
        let paid = world.lock().unwrap().pay(&op, epoch);
        tokio::task::yield_now().await;
        paid
    };
    held.run_probed(&pay, asked, run).await?;
    let index = Effect::new("INDEX", Class::Replayable).advances_to(State::Indexed);
    held.run(&index, |_| async move { Ok::<_, Fault>(epoch) })
        .await?;
    Ok(())
}

fn start(queue: Arc<dyn Queue>, world: &Arc<Mutex<World>>) -> JoinHandle<()> {
    let world = world.clone();
    let worker = Worker::new(queue)
        .concurrency(8)
        .ttl(Duration::from_secs(1))
        .poll(Duration::from_millis(100))
        .handler(JobKind::new("test").unwrap(), move |held: Held| {
            let world = world.clone();
            async move {
                if let Err(error) = work(held.clone(), world).await {
                    held.fail(&error.to_string(), true, None).await.ok();
                }
            }
        });
    tokio::spawn(async move {
        let never = std::future::pending();
        worker.run(never, Duration::ZERO).await;
    })
}

async fn ended(queue: &dyn Queue) -> u64 {
    let tally = queue.tally(Tenant::DEFAULT, u64::MAX).await.unwrap();
    let done = tally.iter().filter(|tally| tally.state == State::Indexed);
    done.map(|tally| tally.count).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_killed_at_random_record_every_effect_of_every_job_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path, SqliteOptions::default()).unwrap();
    let history = Arc::new(HistoryQueue::new(Arc::new(ledger)));
    let queue: Arc<dyn Queue> = history.clone();
    for first in (0..JOBS).step_by(500) {
        let jobs = (first..first + 500).map(|n| new_job(n).max_attempts(10_000));
        queue.plan(Tenant::DEFAULT, jobs.collect()).await.unwrap();
    }
    let world = Arc::new(Mutex::new(World::default()));
    let mut workers: Vec<JoinHandle<()>> =
        (0..WORKERS).map(|_| start(queue.clone(), &world)).collect();
    let drained = async {
        for kill in 0.. {
            if ended(&*queue).await == JOBS as u64 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            if kill < KILLS {
                let random = uuid::Uuid::new_v4().as_u128() % WORKERS as u128;
                let at = usize::try_from(random).unwrap();
                workers[at].abort();
                workers[at] = start(queue.clone(), &world);
            }
        }
    };
    let limit = Duration::from_secs(120);
    let drained = tokio::time::timeout(limit, drained).await;
    assert!(drained.is_ok(), "{} of {JOBS} ended", ended(&*queue).await);
    for worker in workers {
        worker.abort();
    }
    assert_eq!(history.wrongs(), Vec::<String>::new());

    let world = world.lock().unwrap().paid.clone();
    assert_eq!(world.len(), JOBS);
    assert!(world.values().all(|times| *times == 1), "paid once each");
    let mut scan = JobScan {
        limit: JobScan::LIMIT_MAX,
        ..JobScan::of(Tenant::DEFAULT)
    };
    let mut taken_over = 0;
    loop {
        let page = queue.jobs(scan.clone()).await.unwrap();
        for job in page.jobs {
            let id = job.id.clone();
            let (job, ops) = queue.job(Tenant::DEFAULT, id).await.unwrap().unwrap();
            taken_over += usize::from(job.attempts > 1);
            assert_eq!((job.state, job.lease, ops.len()), (State::Indexed, None, 2));
            assert!(ops.iter().all(|op| op.state == OpState::Done));
        }
        match page.next {
            Some(next) => scan.before = Some(next),
            None => break,
        }
    }
    assert!(
        taken_over > 0,
        "some worker was killed in the middle of a job"
    );
}
