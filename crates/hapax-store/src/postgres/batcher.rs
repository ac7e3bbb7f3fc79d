//! Hands moves to the connections that write, and gathers the answers of a call. It holds no connection.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::{Error, Kind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::clock::DbClock;
use super::columns::Step;
use super::fault;
use super::lane::{Lane, OPERATION, Order, closed};
use super::link::Link;
use super::session::Session;
use super::target::Target;
use crate::row::Applied;

/// The lanes that write. The moves of one record always take the same lane.
pub(super) struct Batcher {
    lanes: RwLock<Vec<mpsc::Sender<Order>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Batcher {
    /// Starts one lane per link.
    pub(super) fn start(
        links: Vec<Link>,
        target: &Target,
        clock: &Arc<DbClock>,
        queue_moves_max: usize,
        commit_timeout: Duration,
    ) -> Self {
        let (mut lanes, mut tasks) = (Vec::new(), Vec::new());
        for link in links {
            let (sender, orders) = mpsc::channel(queue_moves_max.max(1));
            let lane = Lane::new(orders, link, target.clone(), clock.clone(), commit_timeout);
            lanes.push(sender);
            tasks.push(tokio::spawn(lane.run()));
        }
        Self {
            lanes: RwLock::new(lanes),
            tasks: Mutex::new(tasks),
        }
    }

    /// Queues the moves and waits for all their answers.
    pub(super) async fn swap(&self, steps: Vec<Step>) -> Result<Vec<Applied>, Error> {
        let mut answers = Vec::with_capacity(steps.len());
        for reply in self.queue(steps)? {
            // A lane that is gone without an answer may have committed.
            answers.push(
                reply
                    .await
                    .unwrap_or_else(|_| Err(Error::new(Kind::OutcomeUnknown, OPERATION))),
            );
        }
        combined(answers)
    }

    /// What the sessions that write are.
    pub(super) async fn describe(&self) -> Result<Vec<Session>, Error> {
        let lanes = self
            .lanes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut sessions = Vec::new();
        for lane in lanes {
            let (reply, answer) = oneshot::channel();
            lane.send(Order::Describe(reply))
                .await
                .map_err(|_| closed())?;
            sessions.push(answer.await.map_err(|_| closed())??);
        }
        Ok(sessions)
    }

    /// Takes no more moves, commits what is queued, and waits for that.
    pub(super) async fn close(&self) {
        self.lanes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // A lane that panicked has nothing left to commit.
            drop(task.await);
        }
    }

    /// All moves are queued or none, so that a full queue writes nothing.
    fn queue(
        &self,
        steps: Vec<Step>,
    ) -> Result<Vec<oneshot::Receiver<Result<Applied, Error>>>, Error> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        if lanes.is_empty() {
            return Err(closed());
        }
        let lane_of = |step: &Step| (step.row.id.as_u128() % lanes.len() as u128) as usize;
        let mut counts = vec![0; lanes.len()];
        for step in &steps {
            counts[lane_of(step)] += 1;
        }
        let mut permits = Vec::with_capacity(lanes.len());
        for (lane, count) in lanes.iter().zip(counts) {
            if count > lane.max_capacity() {
                let why = format!("at most {} moves fit one swap", lane.max_capacity());
                return Err(Error::new(Kind::Limit, OPERATION).because(why));
            }
            permits.push(lane.try_reserve_many(count).map_err(|_| {
                Error::new(Kind::Unavailable, OPERATION)
                    .because("the write queue is full; retry in a moment")
            })?);
        }
        let mut replies = Vec::with_capacity(steps.len());
        for step in steps {
            let (reply, answer) = oneshot::channel();
            let permit = permits[lane_of(&step)]
                .next()
                .expect("one permit per move was reserved");
            permit.send(Order::Swap(Box::new(step), reply));
            replies.push(answer);
        }
        Ok(replies)
    }
}

/// The answers of one call. An error that says "nothing was written" must be true of the whole call.
fn combined(answers: Vec<Result<Applied, Error>>) -> Result<Vec<Applied>, Error> {
    let wrote = answers
        .iter()
        .any(|answer| matches!(answer, Ok(Applied::Written)));
    let mut worst: Option<Error> = None;
    let mut swaps = Vec::with_capacity(answers.len());
    for answer in answers {
        match answer {
            Ok(swap) => swaps.push(swap),
            Err(error) => {
                let rank = |error: &Error| match error.kind() {
                    Kind::OutcomeUnknown => 2,
                    Kind::Corrupt | Kind::Limit | Kind::Unsafe | Kind::Unsupported => 1,
                    Kind::Unavailable => 0,
                };
                if worst
                    .as_ref()
                    .is_none_or(|worst| rank(worst) < rank(&error))
                {
                    worst = Some(error);
                }
            }
        }
    }
    match worst {
        None => Ok(swaps),
        Some(error) if wrote && error.kind() == Kind::Unavailable => Err(fault::counted(
            Error::new(Kind::OutcomeUnknown, OPERATION).caused_by(error),
        )),
        Some(error) => Err(fault::counted(error)),
    }
}
