//! A plan: a small graph of named effects under one job. Settled nodes are replayed, the first unsettled one runs.
//! It keeps nothing of its own: the operations of the job are its checkpoints.

mod build;
mod drive;
mod event;
mod follow;
mod mermaid;
mod node;
mod outline;
mod step;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hapax_core::Error;
use hapax_core::job::OpKey;

use super::ahead::Ahead;
use super::effect::{EffectError, Fault};
use super::held::Held;
use super::run::Asks;
use node::{Erased, Visit, Visited};

pub use build::{Draft, Unsound};
pub use drive::drive;
pub use event::{Event, Events};
pub use node::{Node, Retry};
pub use outline::Outline;
pub use step::Step;

/// The name of the end, for edges and branches that lead there.
pub const END: &str = "END";

/// The most visits of one node in one run.
const VISITS_MAX: u32 = 1000;

/// A graph of named effects over a state `S`.
///
/// The plan is run in rounds. All nodes of a round run at the same time and see the same state; when all have ended,
/// their results are applied in the order in which the nodes were added, and the ways on are chosen. So a run after a
/// crash takes the same way: what was recorded is replayed, and the first node that was not is run. Closures that
/// make contexts, apply results and choose ways must depend on the state only.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use hapax::core::Tenant;
/// use hapax::job::{Ask, Class, Events, Fault, Held, JobKind, NewJob, Node, Plan, Queue, State, Step, drive};
/// use hapax::job::testing::MemoryQueue;
/// use std::sync::Arc;
///
/// #[derive(Clone, Default)]
/// struct Order { price: u32 }
///
/// let price = Node::new("PRICE", Class::Replayable, |_: Step, _: Arc<Order>| async { Ok::<u32, Fault>(10) })
///     .apply(|order: &mut Order, price: &u32| order.price = *price);
/// let charge = Node::new("CHARGE", Class::Keyed, |step: Step, order: Arc<Order>| async move {
///     // The key goes downstream, so that a repeated call charges once.
///     Ok::<String, Fault>(format!("charged {} under {}", order.price, step.op()))
/// });
/// let plan = Plan::named("order").node(price).node(charge).edge("PRICE", "CHARGE").build()?;
///
/// let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new());
/// let job = NewJob::new(JobKind::new("order")?, "w-1", "a-1", "https://example.org/orders/1")?;
/// queue.plan(Tenant::DEFAULT, vec![job]).await?;
/// let held = Held::lease(&queue, Tenant::DEFAULT, Ask::by("worker-1")).await?.remove(0);
/// let id = held.job().id.clone();
/// let ended = drive(held, &plan, Order::default(), &Events::none()).await?;
/// assert_eq!((ended.state.price, ended.path.len()), (10, 2));
/// let (job, _) = queue.job(Tenant::DEFAULT, id).await?.ok_or("planned above")?;
/// assert_eq!(job.state, State::Indexed);
///
/// // The refusal: a plan that could never end is not built.
/// let alone = || Node::new("A", Class::Replayable, |_: Step, _: Arc<Order>| async { Ok::<(), Fault>(()) });
/// assert!(Plan::named("loop").node(alone()).edge("A", "A").build().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plan<S> {
    graph: Arc<Graph<S>>,
}

impl<S> Clone for Plan<S> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
        }
    }
}

impl<S> fmt::Debug for Plan<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.graph.nodes.iter().map(|node| &**node.name()).collect();
        f.debug_struct("Plan")
            .field("name", &self.graph.name)
            .field("nodes", &nodes)
            .finish_non_exhaustive()
    }
}

type Choose<S> = Arc<dyn Fn(&S) -> &'static str + Send + Sync>;

struct Graph<S> {
    name: String,
    nodes: Vec<Arc<dyn Erased<S>>>,
    ways: Vec<Way<S>>,
    start: usize,
    /// Which nodes can be come to from which, by one step or more.
    reach: Vec<Vec<bool>>,
}

/// How a plan goes on after a node. `None` is the end.
enum Way<S> {
    End,
    Edge(usize),
    Branch(Vec<Option<usize>>, Choose<S>),
    Fan(Vec<usize>),
    Join(usize),
}

impl<S> Way<S> {
    /// The nodes that may be next, and whether the end may be.
    fn next(&self) -> (Vec<usize>, bool) {
        match self {
            Way::End => (Vec::new(), true),
            Way::Edge(to) | Way::Join(to) => (vec![*to], false),
            Way::Branch(to, _) => {
                let nodes: Vec<usize> = to.iter().copied().flatten().collect();
                let ends = nodes.len() < to.len();
                (nodes, ends)
            }
            Way::Fan(to) => (to.clone(), false),
        }
    }
}

/// How a plan ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended<S> {
    /// The state after the last result.
    pub state: S,
    /// The nodes that were visited, in the order in which their results were applied.
    pub path: Vec<String>,
}

/// Why a plan stopped before its end.
#[derive(Debug)]
pub enum PlanError {
    /// The lease is lost: somebody else goes on with the job.
    Lost,
    /// A node may have happened, and nobody can tell.
    InDoubt {
        /// The node.
        node: String,
        /// The operation to resolve.
        op: OpKey,
        /// Whether the node has a probe, so that asking again later may tell.
        has_probe: bool,
    },
    /// A node waits for an answer. The job is parked until somebody resolves the operation.
    Interrupted {
        /// The node.
        node: String,
        /// The operation to resolve.
        op: OpKey,
    },
    /// A node failed.
    Failed {
        /// The node.
        node: String,
        /// Why.
        error: String,
        /// Whether another attempt can help.
        retryable: bool,
        /// At least this long until the next attempt.
        after: Option<Duration>,
    },
    /// The queue could not be asked, after a few tries.
    Store(Error),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Lost => f.write_str("the lease is lost"),
            PlanError::InDoubt { node, op, .. } => {
                write!(f, "in doubt: resolve op {op} ({node}), then retry the job")
            }
            PlanError::Interrupted { node, op } => {
                write!(f, "{node} waits for an answer: resolve op {op}")
            }
            PlanError::Failed { node, error, .. } => write!(f, "{node}: {error}"),
            PlanError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlanError::Store(error) => Some(error),
            PlanError::Lost
            | PlanError::InDoubt { .. }
            | PlanError::Interrupted { .. }
            | PlanError::Failed { .. } => None,
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Plan<S> {
    /// A plan of this name, to be filled with nodes and edges.
    pub fn named(name: &str) -> Draft<S> {
        Draft::new(name)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.graph.name
    }

    /// Runs the plan under a lease, from its start: recorded nodes are replayed, the others run. It does not end the
    /// job unless a node does; [`drive`] does both.
    ///
    /// Dropping the future stops the nodes that run. Their operations stay begun, so their classes say what the next
    /// run does.
    ///
    /// # Errors
    /// [`PlanError`] says which node stopped it and what can be done.
    pub async fn run(&self, held: &Held, state: S, events: &Events) -> Result<Ended<S>, PlanError> {
        let mut course = Course {
            graph: self.graph.clone(),
            held,
            events,
            state: Arc::new(state),
            visits: vec![0; self.graph.nodes.len()],
            waiting: BTreeSet::new(),
            ahead: None,
            path: Vec::new(),
        };
        let mut round = BTreeSet::from([self.graph.start]);
        while !round.is_empty() {
            course.visit_all(&round).await?;
            round = course.next_round(&round)?;
        }
        Ok(Ended {
            state: Arc::unwrap_or_clone(course.state),
            path: course.path,
        })
    }
}

/// One run of a plan.
struct Course<'a, S> {
    graph: Arc<Graph<S>>,
    held: &'a Held,
    events: &'a Events,
    state: Arc<S>,
    visits: Vec<u32>,
    /// Joins that some of their branches have come to.
    waiting: BTreeSet<usize>,
    /// What was begun together with the record of the last round.
    ahead: Option<Ahead>,
    path: Vec<String>,
}

impl<S: Clone + Send + Sync + 'static> Course<'_, S> {
    /// Visits the nodes of a round at the same time, and applies their results in order. All of them end before one
    /// that failed or waits stops the plan, so that what they did is recorded.
    async fn visit_all(&mut self, round: &BTreeSet<usize>) -> Result<(), PlanError> {
        let mut visits = Vec::with_capacity(round.len());
        let is_alone = round.len() == 1;
        for &node in round {
            self.visits[node] += 1;
            let ahead = self.ahead.take();
            visits.push(self.visit(node, ahead, is_alone)?);
        }
        let mut stopped = None;
        let mut asks = Vec::new();
        let mut applies = Vec::new();
        for (&node, visited) in round.iter().zip(join_all(visits).await) {
            match visited {
                Ok(Visited::Ran {
                    op,
                    replayed,
                    apply,
                    ahead,
                }) => {
                    self.ahead = ahead;
                    self.tell_ran(node, op, replayed);
                    applies.push((node, apply));
                }
                Ok(Visited::Asks(ask)) => asks.push((node, ask)),
                Err(error) => {
                    let error = self.stop(node, error);
                    let is_first = stopped.is_none() || matches!(error, PlanError::Lost);
                    stopped = if is_first { Some(error) } else { stopped };
                }
            }
        }
        self.suspend(asks, stopped).await?;
        let state = Arc::make_mut(&mut self.state);
        for (node, apply) in applies {
            apply(state);
            self.path.push(self.graph.nodes[node].name().to_string());
        }
        Ok(())
    }

    fn visit(
        &self,
        node: usize,
        ahead: Option<Ahead>,
        is_alone: bool,
    ) -> Result<node::Boxed<Result<Visited<S>, EffectError>>, PlanError> {
        let number = self.visits[node];
        if number > VISITS_MAX {
            let fault = Fault::fatal(format!("it was visited {VISITS_MAX} times in one run"));
            return Err(self.stop(node, EffectError::Fault(fault)));
        }
        let erased = self.graph.nodes[node].clone();
        let effect = erased.effect(&self.state, number);
        let visit = Visit {
            held: self.held.clone(),
            events: self.events.clone(),
            state: self.state.clone(),
            number,
            ahead,
            next: is_alone.then(|| self.next(node)).flatten(),
        };
        Ok(erased.visit(effect, visit))
    }

    /// Parks the job for the first node that asks, unless something else stopped the plan; the others ask again when
    /// it goes on.
    async fn suspend(
        &self,
        asks: Vec<(usize, Asks)>,
        stopped: Option<PlanError>,
    ) -> Result<(), PlanError> {
        let mut asks = asks.into_iter();
        let first = if stopped.is_none() { asks.next() } else { None };
        for (node, ask) in asks {
            let later = self.held.wait_later(ask).await;
            later.map_err(|error| self.stop(node, error))?;
        }
        if let Some(error) = stopped {
            return Err(error);
        }
        let Some((node, ask)) = first else {
            return Ok(());
        };
        let op = ask.op.clone();
        let parked = self.held.park(ask).await;
        parked.map_err(|error| self.stop(node, error))?;
        let name = self.graph.nodes[node].name().clone();
        self.events.tell(|| Event::Interrupted {
            job: self.held.job().id.clone(),
            node: name.clone(),
            op: op.clone(),
        });
        Err(PlanError::Interrupted {
            node: name.to_string(),
            op,
        })
    }

    /// The nodes that follow, now that the results of `round` are applied.
    fn next_round(&mut self, round: &BTreeSet<usize>) -> Result<BTreeSet<usize>, PlanError> {
        let mut next = BTreeSet::new();
        for &node in round {
            match &self.graph.ways[node] {
                Way::End => {}
                Way::Edge(to) => {
                    next.insert(*to);
                }
                Way::Fan(to) => next.extend(to),
                Way::Join(to) => {
                    self.waiting.insert(*to);
                }
                Way::Branch(to, choose) => {
                    let chosen = choose(&self.state);
                    next.extend(self.chosen(node, to, chosen)?);
                }
            }
        }
        let ready: Vec<usize> = self.ready(&next);
        for join in ready {
            self.waiting.remove(&join);
            next.insert(join);
        }
        Ok(next)
    }

    /// The joins that no branch on its way can still come to.
    fn ready(&self, next: &BTreeSet<usize>) -> Vec<usize> {
        let comes = |from: &usize, join: usize| *from != join && self.graph.reach[*from][join];
        let is_ready = |join: &usize| {
            !next.iter().any(|from| comes(from, *join) || from == join)
                && !self.waiting.iter().any(|from| comes(from, *join))
        };
        let ready: Vec<usize> = self.waiting.iter().copied().filter(is_ready).collect();
        if ready.is_empty() && next.is_empty() {
            // Joins in a loop wait for each other: the first in the plan goes first.
            return self.waiting.first().copied().into_iter().collect();
        }
        ready
    }

    fn chosen(
        &self,
        node: usize,
        to: &[Option<usize>],
        chosen: &str,
    ) -> Result<Option<usize>, PlanError> {
        let is_chosen = |to: &&Option<usize>| match to {
            Some(to) => **self.graph.nodes[*to].name() == *chosen,
            None => chosen == END,
        };
        to.iter().find(is_chosen).copied().ok_or_else(|| {
            let error = format!("its branch chose {chosen:?}, which is none of its ways");
            self.stop(node, EffectError::Fault(Fault::fatal(error)))
        })
    }

    fn tell_ran(&self, node: usize, op: OpKey, replayed: bool) {
        let (job, node) = (
            self.held.job().id.clone(),
            self.graph.nodes[node].name().clone(),
        );
        self.events.tell(|| {
            if replayed {
                Event::Replayed { job, node, op }
            } else {
                Event::Finished { job, node, op }
            }
        });
    }

    /// What an effect's error means for the plan.
    fn stop(&self, index: usize, error: EffectError) -> PlanError {
        let erased = &self.graph.nodes[index];
        let node = erased.name().to_string();
        let key = || {
            erased
                .effect(&self.state, self.visits[index])
                .key(self.held)
        };
        let failed = |error: String, retryable: bool, after: Option<Duration>| {
            self.events.tell(|| Event::Failed {
                job: self.held.job().id.clone(),
                node: erased.name().clone(),
                error: error.clone(),
                retryable,
            });
            PlanError::Failed {
                node: node.clone(),
                error,
                retryable,
                after,
            }
        };
        match error {
            EffectError::Lost => PlanError::Lost,
            EffectError::Store(error) => PlanError::Store(error),
            EffectError::InDoubt => match key() {
                Ok(op) => PlanError::InDoubt {
                    node,
                    op,
                    has_probe: erased.has_probe(),
                },
                Err(invalid) => failed(invalid.to_string(), false, None),
            },
            EffectError::Waiting => match key() {
                Ok(op) => PlanError::Interrupted { node, op },
                Err(invalid) => failed(invalid.to_string(), false, None),
            },
            EffectError::Fault(fault) => failed(fault.error, fault.retryable, fault.after),
            EffectError::InProgress => failed(error.to_string(), true, None),
            EffectError::Failed(error) => failed(error, false, None),
            EffectError::TooLarge { .. }
            | EffectError::Unreadable { .. }
            | EffectError::Invalid(_)
            | EffectError::Refused(_) => failed(error.to_string(), false, None),
        }
    }
}
