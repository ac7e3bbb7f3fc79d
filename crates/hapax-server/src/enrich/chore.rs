//! What moves batches on: each look plans the next job of those whose time has come, and asks the provider how far its own
//! are. Any number of processes may look at once: rows change by their version, and jobs are planned once per key.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use hapax_core::entry::{Batch, BatchState, BatchStatus, DueBatch, ItemStatus, Provider as Ids};
use hapax_core::job::{Act, Deed, Fence, Job, On, State};
use hapax_core::{Error, Kind, Time};
use hapax_effects::enrich::{self, BatchId, Llm};

use super::job::{Errand, Graph, place};
use super::row::{Row, count, end_of, rest, standing};
use super::settings::Settings;
use super::trouble::Trouble;
use crate::store::Store;

/// How many batches one look takes, and how many of them at a time.
const LOOK: usize = 100;
const AT_A_TIME: usize = 8;
/// How many looks follow each other without a pause.
const ROUNDS_MAX: usize = 100;
/// The shortest and the longest time between two looks at a batch that a job is at.
const WATCHED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Who looks after batches.
#[derive(Clone)]
pub(super) struct Chore {
    pub(super) settings: Arc<Settings>,
    pub(super) store: Store,
}

impl Chore {
    /// Looks after every batch whose time has come, of both schemas and all tenants.
    pub(super) async fn look(&self) {
        for _ in 0..ROUNDS_MAX {
            let due = match self.store.batches.due_batches(LOOK).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "batches wait: the store did not say which are due");
                    return;
                }
            };
            let is_all = due.len() < LOOK;
            let all = stream::iter(due).map(|due| self.look_at(due));
            let failed = all.buffer_unordered(AT_A_TIME);
            let failed = failed.filter(|failed| std::future::ready(*failed));
            // With a store that is away the same ones would be due at once again.
            if failed.count().await > 0 || is_all {
                return;
            }
        }
    }

    /// Looks after one batch. Answers whether it could not.
    async fn look_at(&self, due: DueBatch) -> bool {
        let row = Row {
            batches: Arc::clone(&self.store.batches),
            tenant: due.tenant,
            schema: due.schema,
            id: due.id,
        };
        let looked = self.moved(&row).await;
        if let Err(error) = &looked {
            tracing::warn!(batch = %due.id, schema = %due.schema, %error, "a batch waits");
        }
        looked.is_err()
    }

    async fn moved(&self, row: &Row) -> Result<(), Error> {
        let Some(batch) = row.read().await? else {
            return Ok(());
        };
        match batch.state.status {
            BatchStatus::Queued => self.watched(row, &batch, Graph::Schedule).await,
            BatchStatus::Collecting => self.watched(row, &batch, Graph::Collect).await,
            BatchStatus::Submitted => self.polled(row, &batch).await,
            BatchStatus::Completed | BatchStatus::Failed => Ok(()),
        }
    }

    fn now(&self) -> Time {
        self.store.queue.time()
    }

    /// Has a job at the batch, and notices one that died.
    async fn watched(&self, row: &Row, batch: &Batch, graph: Graph) -> Result<(), Error> {
        let errand = Errand {
            graph,
            schema: row.schema,
            batch: row.id,
            attempt: batch.state.attempt,
        };
        let planned = self
            .store
            .queue
            .plan(row.tenant, vec![errand.job()?])
            .await?;
        let Some(job) = planned.into_iter().next().map(|planned| planned.job) else {
            return Ok(());
        };
        if job.id != errand.id() {
            let error = Error::new(Kind::Corrupt, "planning enrichment");
            return Err(error.because("a job that was planned over the API has its name"));
        }
        match (job.state, graph) {
            (State::Dead, Graph::Schedule) => {
                let trouble = job.error.as_deref().map(Trouble::read);
                let why = trouble.map_or_else(|| "its job died".to_owned(), |told| told.message);
                return self.given_up(row, batch, &why).await;
            }
            (State::Dead, Graph::Collect) => self.act(row, &job, Deed::Retry).await?,
            (State::Indexed | State::Deduped | State::SkippedDuplicate, _) => {
                // Its last step wrote the row before it ended, so what was read is old or was changed by hand.
                let now = row.read().await?;
                if now.is_some_and(|now| now.version == batch.version) {
                    let place = place(row.schema);
                    self.act(row, &job, Deed::Redo { place }).await?;
                }
            }
            (
                State::Planned
                | State::Leased
                | State::HeadDone
                | State::ResumeOk
                | State::Streaming
                | State::Finalized
                | State::Failed,
                _,
            ) => {}
        }
        let wait = self.settings.interval.clamp(WATCHED.0, WATCHED.1);
        let failed = job.error.as_deref().filter(|_| job.state == State::Failed);
        let next_at = self.now().plus(wait);
        let state = BatchState {
            failures: job.failures,
            // Before it rests no longer there is nothing to see.
            next_at: match failed {
                Some(_) => next_at.max(job.available_at),
                None => next_at,
            },
            error: failed
                .map(|error| Trouble::read(error).message)
                .or_else(|| standing(batch)),
            ..batch.state.clone()
        };
        row.change_from(batch, state).await.map(drop)
    }

    async fn act(&self, row: &Row, job: &Job, deed: Deed) -> Result<(), Error> {
        let act = Act {
            on: On::Job(job.id.clone()),
            fence: Fence::none(),
            deed,
        };
        // A refusal means that somebody is at it.
        self.store
            .queue
            .apply(row.tenant, vec![act])
            .await
            .map(drop)
    }

    /// Asks the provider how far the batch is.
    async fn polled(&self, row: &Row, batch: &Batch) -> Result<(), Error> {
        let Some(provider) = &self.settings.provider else {
            return Ok(());
        };
        match asked(&provider.batches, batch).await {
            Ok(found) => {
                let is_over = found.status.is_terminal();
                let state = self.seen(batch, found);
                let Some(changed) = row.change_from(batch, state).await? else {
                    return Ok(());
                };
                if is_over {
                    self.watched(row, &changed, Graph::Collect).await?;
                }
                Ok(())
            }
            Err(trouble) => self.unseen(row, batch, &trouble).await,
        }
    }

    fn seen(&self, batch: &Batch, found: enrich::Batch) -> BatchState {
        let faults: Vec<String> = found
            .faults
            .iter()
            .map(|fault| fault.message.clone())
            .collect();
        let told = [
            standing(batch),
            (!faults.is_empty()).then(|| faults.join("; ")),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        let is_over = found.status.is_terminal();
        BatchState {
            status: if is_over {
                BatchStatus::Collecting
            } else {
                BatchStatus::Submitted
            },
            failures: 0,
            next_at: self.now().plus(if is_over {
                Duration::ZERO
            } else {
                self.settings.interval
            }),
            provider: Ids {
                status: Some(found.status.as_str().to_owned()),
                output_file: found.output_file_id.map(String::from),
                error_file: found.error_file_id.map(String::from),
                ..batch.state.provider.clone()
            },
            error: (!told.is_empty()).then(|| told.join("; ")),
            ..batch.state.clone()
        }
    }

    async fn unseen(&self, row: &Row, batch: &Batch, trouble: &Trouble) -> Result<(), Error> {
        // A refusal is counted from where it was first said: what was an outage before says nothing of the batch.
        let is_said_again = batch.state.error.as_deref() == Some(trouble.message.as_str());
        let failures = if trouble.is_transient || is_said_again {
            batch.state.failures + 1
        } else {
            1
        };
        if trouble.is_over_after(failures) {
            return self.given_up(row, batch, &trouble.message).await;
        }
        let wait = rest(self.settings.interval, failures, trouble.retry_after());
        let state = BatchState {
            failures,
            next_at: self.now().plus(wait),
            error: Some(trouble.message.clone()),
            ..batch.state.clone()
        };
        row.change_from(batch, state).await.map(drop)
    }

    /// Ends a batch that cannot go on: what has no answer gets none, and what was answered is still taken in.
    async fn given_up(&self, row: &Row, batch: &Batch, why: &str) -> Result<(), Error> {
        tracing::error!(batch = %row.id, schema = %row.schema, why, "a batch is given up");
        row.fail_unanswered(why).await?;
        let Some(now) = row.read().await?.filter(|now| now.version == batch.version) else {
            return Ok(());
        };
        let status = if count(&now, ItemStatus::Answered) > 0 {
            BatchStatus::Collecting
        } else {
            end_of(&now)
        };
        let state = BatchState {
            status,
            next_at: self.now(),
            error: Some(why.to_owned()),
            ..now.state.clone()
        };
        row.change_from(&now, state).await.map(drop)
    }
}

async fn asked(llm: &Llm, batch: &Batch) -> Result<enrich::Batch, Trouble> {
    let id = batch.state.provider.batch_id.as_deref().unwrap_or_default();
    let id = BatchId::new(id).map_err(|why| Trouble {
        word: "bad_id".to_owned(),
        status: 502,
        is_transient: false,
        is_unauthorized: false,
        retry_after_ms: None,
        refusals: 1,
        message: why.to_string(),
    })?;
    llm.batch(&id).await.map_err(|error| Trouble::of(&error))
}
