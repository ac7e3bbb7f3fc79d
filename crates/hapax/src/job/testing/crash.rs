//! The check that every plan must pass: its process dies at every write in turn, and a fresh one brings it to the
//! same end.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::Tenant;
use hapax_core::job::{
    Act, Class, Deed, Fence, Job, JobId, NewJob, On, Op, OpKey, OpState, Queue, Resolution, State,
};

use super::faulty::{Cut, FaultyQueue};
use super::twice::{give_back, hold, lease};
use crate::job::plan::{Event, Events, Plan, drive};

/// The most processes that one crash may take to the end.
const PROCESSES_MAX: usize = 10;

/// One fresh world: a queue without other jobs that are due, a job, its plan and the state it starts with.
pub struct Trial<S> {
    /// The queue.
    pub queue: Arc<dyn Queue>,
    /// The job to be planned.
    pub job: NewJob,
    /// Its plan.
    pub plan: Plan<S>,
    /// The state it starts with.
    pub state: S,
}

impl<S> fmt::Debug for Trial<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial")
            .field("job", &self.job)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// What the check did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crashed {
    /// How many writes an undisturbed run makes.
    pub writes: usize,
    /// How many crashes were tried.
    pub crashes: usize,
    /// The job at the end of the undisturbed run.
    pub job: Job,
    /// How often each node ran in all the crashes together.
    pub runs: HashMap<String, usize>,
}

/// How often each operation ran.
type Runs = Arc<Mutex<HashMap<(String, OpKey), usize>>>;

/// Runs a plan with a process that dies at its n-th write, done or not, for every n, and then with fresh processes
/// until the job has ended.
///
/// Checks each time: the job ends in the same state with the same result as without a crash, the same operations are
/// recorded with the same results, and no `at_most_once` effect ran twice. What is left in doubt is resolved by the
/// result of the undisturbed run, and the job retried, as a person would.
///
/// `trial` makes a new world every time. The plan's effects must give the same results in each.
///
/// # Panics
/// When any of that does not hold; this is for tests.
pub async fn crash_after_every_step<S, F, Fut>(trial: F) -> Crashed
where
    S: Clone + Send + Sync + 'static,
    F: Fn() -> Fut,
    Fut: Future<Output = Trial<S>>,
{
    let whole = Run::new(trial().await, None).await;
    let writes = whole.faulty.writes();
    let (job, ops) = whole.to_the_end(&[]).await;
    assert!(job.state.is_terminal(), "the plan ends its job: {job:?}");
    let mut crashed = Crashed {
        writes,
        crashes: 0,
        job: job.clone(),
        runs: HashMap::new(),
    };
    for cut in [Cut::DiesBefore, Cut::DiesAfter] {
        for write in 1..=writes {
            let run = Run::new(trial().await, Some((write, cut))).await;
            assert!(run.faulty.is_dead(), "the run has a write {write}");
            let (ended, recorded) = run.to_the_end(&ops).await;
            let at = format!("{cut:?} at write {write}");
            assert_eq!(ended.state, job.state, "{at}: {:?}", ended.error);
            assert_eq!(ended.result, job.result, "{at}");
            same_ops(&recorded, &ops, &at);
            run.check_runs(&recorded, &at);
            for ((node, _), count) in lock(&run.runs).iter() {
                *crashed.runs.entry(node.clone()).or_default() += count;
            }
            crashed.crashes += 1;
        }
    }
    crashed
}

/// One world and the process that died in it.
struct Run<S> {
    trial: Trial<S>,
    id: JobId,
    faulty: Arc<FaultyQueue>,
    runs: Runs,
}

impl<S: Clone + Send + Sync + 'static> Run<S> {
    /// Plans the job and runs it until its end or until its process dies.
    async fn new(trial: Trial<S>, cut: Option<(usize, Cut)>) -> Self {
        let planned = trial
            .queue
            .plan(Tenant::DEFAULT, vec![trial.job.clone()])
            .await;
        let id = planned.expect("the job is planned").remove(0).job.id;
        let mut faulty = FaultyQueue::new(trial.queue.clone());
        if let Some((write, cut)) = cut {
            faulty = faulty.cut(write, cut);
        }
        let run = Self {
            trial,
            id,
            faulty: Arc::new(faulty),
            runs: Runs::default(),
        };
        run.process(run.faulty.clone(), run.faulty.died()).await;
        run
    }

    /// One process: leases the job and drives its plan until that ends or the process dies.
    async fn process(&self, queue: Arc<dyn Queue>, died: impl Future<Output = ()>) {
        let held = hold(queue, lease(&self.trial.queue, &self.id).await);
        let runs = self.runs.clone();
        let events = Events::to(move |event| {
            if let Event::Started { node, op, .. } = event {
                let at = (node.to_string(), op.clone());
                *lock(&runs).entry(at).or_default() += 1;
            }
        });
        tokio::select! {
            biased;
            _ = drive(held, &self.trial.plan, self.trial.state.clone(), &events) => {}
            () = died => {}
        }
    }

    /// Goes on with fresh processes until the job has ended.
    async fn to_the_end(&self, known: &[Op]) -> (Job, Vec<Op>) {
        for _ in 0..PROCESSES_MAX {
            let (job, ops) = self.stored().await;
            if job.state.is_terminal() {
                return (job, ops);
            }
            if job.lease.is_some() {
                give_back(&self.trial.queue, &job).await;
            }
            for op in ops.iter().filter(|op| op.state == OpState::InDoubt) {
                self.resolve(op, known).await;
            }
            if job.state == State::Failed {
                self.act(On::Job(job.id.clone()), Deed::Retry).await;
            }
            self.process(self.trial.queue.clone(), std::future::pending())
                .await;
        }
        panic!(
            "{PROCESSES_MAX} processes did not bring the job to its end: {:?}",
            self.stored().await
        )
    }

    /// Resolves what is in doubt as the undisturbed run went.
    async fn resolve(&self, op: &Op, known: &[Op]) {
        let same = known.iter().find(|known| known.key == op.key);
        let result = same.and_then(|known| known.result.clone());
        let result = result.unwrap_or_else(|| panic!("{} has no known result", op.kind));
        let deed = Deed::Resolve(Resolution::Result(result));
        self.act(On::Op(op.key.clone()), deed).await;
    }

    async fn act(&self, on: On, deed: Deed) {
        let fence = Fence::none();
        let acts = vec![Act { on, fence, deed }];
        let answers = self.trial.queue.apply(Tenant::DEFAULT, acts).await;
        let answer = answers.expect("the queue answers").remove(0);
        answer.expect("the queue does what a person would");
    }

    async fn stored(&self) -> (Job, Vec<Op>) {
        let stored = self.trial.queue.job(Tenant::DEFAULT, self.id.clone()).await;
        let stored = stored.expect("the queue answers");
        stored.expect("the job is planned")
    }

    fn check_runs(&self, recorded: &[Op], at: &str) {
        for ((node, key), count) in lock(&self.runs).iter() {
            let op = recorded.iter().find(|op| op.key == *key);
            let class = op.map(|op| op.class);
            let is_once = class != Some(Class::AtMostOnce) || *count <= 1;
            assert!(
                is_once,
                "{at}: {node} is at_most_once and ran {count} times"
            );
        }
    }
}

fn same_ops(found: &[Op], expected: &[Op], at: &str) {
    let settled = |ops: &[Op]| -> Vec<(String, OpKey, OpState, Option<Arc<str>>)> {
        let mut settled: Vec<_> = ops
            .iter()
            .map(|op| (op.kind.clone(), op.key.clone(), op.state, op.result.clone()))
            .collect();
        settled.sort_by(|one, other| one.1.cmp(&other.1));
        settled
    };
    assert_eq!(settled(found), settled(expected), "{at}");
}

fn lock<T>(of: &Arc<Mutex<T>>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
