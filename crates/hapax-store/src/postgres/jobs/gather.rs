//! Gathers what the holders of jobs write while others write: one transaction for all of one tenant, no timer.
//! It decides nothing and keeps no connection; `acts` does the writing.
//!
//! A caller hands its acts in and waits, for its answer or for a turn. Whoever has a turn writes whatever has gathered,
//! its own and that of others. If nothing was written, each of them tries alone and hears what is wrong with its own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hapax_core::job::queue::ACTS_MAX;
use hapax_core::job::{Act, Deed};
use hapax_core::{Error, Kind, Tenant};
use tokio::sync::{Semaphore, oneshot};

use super::super::PgLedger;
use super::acts::Answers;

/// How many transactions are under way at a time: one is decided while another commits.
const TURNS: usize = 2;
/// A call of more acts than this is a batch already.
const GATHERED_MAX: usize = 16;
/// How often acts are handed in again whose writer was dropped.
const HANDED_MAX: usize = 3;

/// Where acts wait for a turn.
pub(super) struct Desk {
    waiting: Mutex<VecDeque<Waiting>>,
    turns: Semaphore,
}

struct Waiting {
    tenant: Tenant,
    acts: Vec<Act>,
    reply: oneshot::Sender<Said>,
}

/// What whoever had the turn says.
enum Said {
    /// This is what came of it.
    Done(Result<Answers, Error>),
    /// Nothing came of all together.
    Alone,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            turns: Semaphore::new(TURNS),
        }
    }
}

impl Desk {
    fn hand_in(&self, tenant: Tenant, acts: Vec<Act>) -> oneshot::Receiver<Said> {
        let (reply, said) = oneshot::channel();
        self.waiting().push_back(Waiting {
            tenant,
            acts,
            reply,
        });
        said
    }

    /// Everything that waits for the tenant that waits longest, up to a batch, and without what nobody waits for.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        let (mut taken, mut left, mut count) = (Vec::new(), VecDeque::new(), 0);
        let mut tenant = None;
        for one in waiting.drain(..) {
            if one.reply.is_closed() {
                continue;
            }
            let is_theirs = *tenant.get_or_insert(one.tenant) == one.tenant;
            if is_theirs && count + one.acts.len() <= ACTS_MAX {
                count += one.acts.len();
                taken.push(one);
            } else {
                left.push_back(one);
            }
        }
        *waiting = left;
        taken
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        // Nothing panics while the lock is held, so what waits is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PgLedger {
    /// Does the acts together with those of others, if that changes nothing for anybody.
    pub(super) async fn apply_gathered(
        &self,
        tenant: Tenant,
        acts: Vec<Act>,
    ) -> Result<Answers, Error> {
        if acts.len() > GATHERED_MAX || !acts.iter().all(may_be_sent_again) {
            return self.apply_acts(tenant, &acts).await;
        }
        for _ in 0..HANDED_MAX {
            match self.handed_in(tenant, acts.clone()).await {
                Ok(Said::Done(answers)) => return answers,
                Ok(Said::Alone) => break,
                // Whoever was writing them was dropped.
                Err(_) => {}
            }
        }
        self.apply_acts(tenant, &acts).await
    }

    async fn handed_in(
        &self,
        tenant: Tenant,
        acts: Vec<Act>,
    ) -> Result<Said, oneshot::error::RecvError> {
        let desk = &self.jobs.desk;
        let mut said = desk.hand_in(tenant, acts);
        loop {
            let turn = tokio::select! {
                biased;
                said = &mut said => return said,
                turn = desk.turns.acquire() => turn,
            };
            // Those that are about to hand something in may: many wake with one answer.
            tokio::task::yield_now().await;
            let taken = desk.take();
            if taken.is_empty() {
                // Somebody has ours.
                drop(turn);
                return said.await;
            }
            self.write_all(taken).await;
        }
    }

    async fn write_all(&self, mut taken: Vec<Waiting>) {
        let tenant = taken[0].tenant;
        let mut all = Vec::new();
        let counts: Vec<usize> = taken.iter().map(|one| one.acts.len()).collect();
        for one in &mut taken {
            all.append(&mut one.acts);
        }
        let mut replies = taken.into_iter().map(|one| one.reply);
        // Whoever is gone hears nothing; what was written stands.
        match self.apply_acts(tenant, &all).await {
            result if counts.len() == 1 => {
                let _ = replies.next().map(|reply| reply.send(Said::Done(result)));
            }
            Ok(answers) => {
                let mut answers = answers.into_iter();
                for (reply, count) in replies.zip(counts) {
                    let own = answers.by_ref().take(count).collect();
                    let _ = reply.send(Said::Done(Ok(own)));
                }
            }
            // Nobody knows what became of any of them.
            Err(error) if error.kind() == Kind::OutcomeUnknown => {
                for reply in replies {
                    let _ = reply.send(Said::Done(Err(error.clone())));
                }
            }
            Err(error) => {
                tracing::debug!(%error, calls = counts.len(), "gathered acts are tried one by one");
                for reply in replies {
                    let _ = reply.send(Said::Alone);
                }
            }
        }
    }
}

/// Whether the act of a holder comes to the same if it is done twice. Only those may share another's transaction, which
/// may end without a word.
fn may_be_sent_again(act: &Act) -> bool {
    let is_holders = act.fence.epoch.is_some();
    is_holders
        && match act.deed {
            Deed::Renew { .. }
            | Deed::Release
            | Deed::Advance { .. }
            | Deed::Fail { .. }
            | Deed::Begin { .. }
            | Deed::Complete { .. }
            | Deed::FailOp { .. } => true,
            Deed::Retry
            | Deed::Redo { .. }
            | Deed::Expire
            | Deed::Wait { .. }
            | Deed::Resolve(_)
            | Deed::Doubt => false,
        }
}
