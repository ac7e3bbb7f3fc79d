//! The seam that stores of jobs implement. It loads, asks the rule, and writes what it is told.

use std::sync::Arc;
use std::time::Duration;

use super::act::{Act, Done, Refusal};
use super::graph::State;
use super::model::{Job, JobId, JobKind, NewJob, Place};
use super::op::{Op, OpKey};
use crate::ledger::Answer;
use crate::scope::Tenant;
use crate::time::Time;

/// Who is told that there may be something to lease. Called often, so it must not block.
pub type Ready = Arc<dyn Fn() + Send + Sync>;

/// What came of planning a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The job as it is stored.
    pub job: Job,
    /// Whether it is new.
    pub planned: bool,
}

/// What a worker asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The worker's name.
    pub owner: Arc<str>,
    /// How long it may hold what it gets without renewing.
    pub ttl: Duration,
    /// The kinds it knows; all if `None`.
    pub kinds: Option<Vec<JobKind>>,
    /// Where it works.
    pub place: Place,
    /// At most this many, and never more than [`Ask::LIMIT_MAX`].
    pub limit: usize,
}

impl Ask {
    /// The most jobs of one lease.
    pub const LIMIT_MAX: usize = 500;
    /// The most kinds of one lease.
    pub const KINDS_MAX: usize = 64;

    /// One job of any kind, anywhere, for two minutes.
    #[must_use]
    pub fn by(owner: &str) -> Self {
        Self {
            owner: owner.into(),
            ttl: Duration::from_secs(120),
            kinds: None,
            place: Place::default(),
            limit: 1,
        }
    }
}

/// Which jobs a scan lists, newest first.
#[derive(Clone, Debug)]
pub struct JobScan {
    /// Whose jobs.
    pub tenant: Tenant,
    /// Only in this state.
    pub state: Option<State>,
    /// In none of these states. Not looked at together with `held` or `work_id`.
    pub not_in: &'static [State],
    /// Only those with an operation of this kind that waits for an answer. Looked at together with `kind` and `before`.
    pub waits_in: Option<String>,
    /// Only those with an operation in doubt. Looked at together with `kind` and `before`.
    pub in_doubt: bool,
    /// Only of this kind.
    pub kind: Option<JobKind>,
    /// Only of this work.
    pub work_id: Option<String>,
    /// Only those that somebody holds now.
    pub held: bool,
    /// Only jobs before this one in the order of planning, as a page's `next` gave it.
    pub before: Option<i64>,
    /// At most this many, and never more than [`JobScan::LIMIT_MAX`].
    pub limit: usize,
}

impl JobScan {
    /// The most jobs on one page.
    pub const LIMIT_MAX: usize = 500;

    /// The states that it lists.
    #[must_use]
    pub fn states(&self) -> Vec<State> {
        let mut states = self
            .state
            .map_or_else(|| State::ALL.to_vec(), |state| vec![state]);
        states.retain(|state| !self.not_in.contains(state));
        states
    }

    /// Everything of `tenant`, 50 to a page.
    #[must_use]
    pub fn of(tenant: Tenant) -> Self {
        Self {
            tenant,
            state: None,
            not_in: &[],
            waits_in: None,
            in_doubt: false,
            kind: None,
            work_id: None,
            held: false,
            before: None,
            limit: 50,
        }
    }
}

/// One page of a scan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobPage {
    /// The jobs, newest first.
    pub jobs: Vec<Job>,
    /// Where the next page begins, if there is one.
    pub next: Option<i64>,
}

/// How many jobs of a kind are in a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// The kind.
    pub kind: JobKind,
    /// The state.
    pub state: State,
    /// How many.
    pub count: u64,
    /// How many of them somebody holds now.
    pub held: u64,
}

/// What the reconciler has to look at: leases that ran out, and operations whose runner is dead.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stale {
    /// Jobs whose lease ran out, with their epochs.
    pub leases: Vec<(Tenant, JobId, i64)>,
    /// Operations that are running without anyone to run them.
    pub ops: Vec<(Tenant, OpKey)>,
}

/// The store of jobs and operations.
///
/// What every queue promises, and the conformance suite checks:
/// - Everything acknowledged is as durable as the ledger beside it.
/// - `lease` gives a job to one caller at a time, in the order (attempts, seq), and what is leased is what
///   [`take`](super::take) says.
/// - `apply` writes what [`judge`](super::judge()) says, each act all or nothing, the operation and the job in one
///   transaction. Acts of a batch are independent, but for two on the same job: they happen in order.
/// - Nothing of one tenant is visible to, or changed by, another.
/// - Time is the store's.
pub trait Queue: Send + Sync + 'static {
    /// Plans each job whose key is new, and answers what is stored, in the order asked. The same key twice in one
    /// batch is planned once. At most [`Queue::PLANS_MAX`](PLANS_MAX).
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind) when nothing was written, [`Kind::OutcomeUnknown`](crate::Kind) when
    /// something may have been: planning again is harmless.
    fn plan(&self, tenant: Tenant, jobs: Vec<NewJob>) -> Answer<'_, Vec<Planned>>;

    /// Leases jobs that are due. Dropping the future may leave jobs leased until their time runs out.
    fn lease(&self, tenant: Tenant, ask: Ask) -> Answer<'_, Vec<Job>>;

    /// Does each act or says why not, in order. At most [`ACTS_MAX`].
    fn apply(&self, tenant: Tenant, acts: Vec<Act>) -> Answer<'_, Vec<Result<Done, Refusal>>>;

    /// The ids of the jobs that go by these names: an id as it is stored, a job's key, or the UUID that is shown for it. In
    /// the order asked; a name that is no job's stays as it is. At most [`ACTS_MAX`].
    fn named(&self, tenant: Tenant, names: Vec<JobId>) -> Answer<'_, Vec<JobId>>;

    /// The job with this id and its operations, oldest first, if it is this tenant's.
    fn job(&self, tenant: Tenant, id: JobId) -> Answer<'_, Option<(Job, Vec<Op>)>>;

    /// The operations of each of these jobs, by id and number, oldest first, in the order asked. None for a job that is
    /// not this tenant's. At most [`JobScan::LIMIT_MAX`] jobs.
    fn ops_of(&self, tenant: Tenant, jobs: Vec<(JobId, i64)>) -> Answer<'_, Vec<Vec<Op>>> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(jobs.len());
            for (id, _) in jobs {
                let found = self.job(tenant, id).await?;
                all.push(found.map_or_else(Vec::new, |(_, ops)| ops));
            }
            Ok(all)
        })
    }

    /// The operation with this key, if it is this tenant's.
    fn op(&self, tenant: Tenant, key: OpKey) -> Answer<'_, Option<Op>>;

    /// A page of jobs, newest first.
    fn jobs(&self, scan: JobScan) -> Answer<'_, JobPage>;

    /// How many jobs there are, by kind and state. Each is counted up to `at_most` and no further, and so are those that
    /// somebody holds.
    fn tally(&self, tenant: Tenant, at_most: u64) -> Answer<'_, Vec<Tally>>;

    /// How many operations are in doubt, counted up to `at_most` and no further.
    fn doubtful_ops(&self, tenant: Tenant, at_most: u64) -> Answer<'_, u64>;

    /// Tenants that have something of these kinds (all if `None`) to lease in this place now, at most `limit`, in
    /// no particular order.
    fn due(
        &self,
        kinds: Option<Vec<JobKind>>,
        place: Place,
        limit: usize,
    ) -> Answer<'_, Vec<Tenant>>;

    /// What the reconciler has to look at, of one tenant or of all, at most `limit` of each.
    fn stale(&self, tenant: Option<Tenant>, limit: usize) -> Answer<'_, Stale>;

    /// Has `ready` called when there may be something to lease, on any node, as far as the store can tell. A call
    /// is a hint: some may be missing, so every wait needs a poll behind it.
    fn on_ready(&self, ready: Ready);

    /// The store's clock.
    fn time(&self) -> Time;
}

/// The most jobs of one plan.
pub const PLANS_MAX: usize = 1000;
/// The most acts of one batch.
pub const ACTS_MAX: usize = 1000;
