//! The row of a batch, changed by its version: whoever sees it first writes, the others look again.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::entry::{
    Batch, BatchState, BatchStatus, Batches, Item, ItemChange, ItemScan, ItemStatus, Schema,
};
use hapax_core::{Error, Kind, Tenant};
use uuid::Uuid;

/// How often a change is tried while others change the same row.
const TRIES_MAX: usize = 16;
/// The longest time that nothing is done about a batch after a failure.
const REST_MAX: Duration = Duration::from_secs(30);
/// The longest error that is kept with a batch or an item, in characters.
const ERROR_CHARS_MAX: usize = 1000;

/// One batch in its store.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) batches: Arc<dyn Batches>,
    pub(crate) tenant: Tenant,
    pub(crate) schema: Schema,
    pub(crate) id: Uuid,
}

impl Row {
    /// The batch as it is now.
    pub(super) async fn read(&self) -> Result<Option<Batch>, Error> {
        let found = self.batches.batch(self.tenant, self.id).await?;
        Ok(found.filter(|batch| batch.schema == self.schema))
    }

    /// Changes the batch to what `next` makes of it, or leaves it where `next` says nothing. Answers what it is then.
    pub(super) async fn change(
        &self,
        next: impl Fn(&Batch) -> Option<BatchState> + Send,
    ) -> Result<Option<Batch>, Error> {
        for _ in 0..TRIES_MAX {
            let Some(batch) = self.read().await? else {
                return Ok(None);
            };
            let Some(state) = next(&batch) else {
                return Ok(Some(batch));
            };
            if let Some(changed) = self.change_from(&batch, state).await? {
                return Ok(Some(changed));
            }
        }
        Err(Error::new(Kind::Unavailable, "changing a batch").because("others change it too often"))
    }

    /// Changes the batch if it is still as it was seen.
    pub(super) async fn change_from(
        &self,
        seen: &Batch,
        mut state: BatchState,
    ) -> Result<Option<Batch>, Error> {
        state.error = state.error.as_deref().map(cut);
        let status = state.status;
        let changed = self
            .batches
            .change_batch(self.tenant, self.schema, self.id, seen.version, state)
            .await?;
        if changed.is_some() && status.is_terminal() {
            let (schema, status) = (self.schema.as_str(), status.as_str());
            metrics::counter!("hapax_t1_batches_total", "schema" => schema, "status" => status)
                .increment(1);
        }
        Ok(changed)
    }

    /// A page of items that are this far, after this one.
    pub(super) async fn page(
        &self,
        status: Option<ItemStatus>,
        after: Option<i64>,
        with_text: bool,
    ) -> Result<Vec<Item>, Error> {
        let scan = ItemScan {
            status,
            after,
            with_text,
            limit: PAGE,
        };
        self.batches
            .batch_items(self.tenant, self.schema, self.id, scan)
            .await
    }

    /// Changes items; answers how far each is then.
    pub(super) async fn settle(
        &self,
        changes: Vec<ItemChange>,
    ) -> Result<Vec<Option<ItemStatus>>, Error> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let settled = self
            .batches
            .settle_items(self.tenant, self.schema, self.id, changes)
            .await?;
        for status in settled
            .iter()
            .flatten()
            .filter(|status| status.is_terminal())
        {
            let (schema, status) = (self.schema.as_str(), status.as_str());
            metrics::counter!("hapax_t1_items_total", "schema" => schema, "status" => status)
                .increment(1);
        }
        Ok(settled)
    }

    /// Items that have no answer get none any more.
    pub(super) async fn fail_unanswered(&self, why: &str) -> Result<(), Error> {
        for status in [ItemStatus::Queued, ItemStatus::Waiting] {
            loop {
                let page = self.page(Some(status), None, false).await?;
                if page.is_empty() {
                    break;
                }
                let changes = page.iter().map(|item| ItemChange {
                    error: Some(cut(why)),
                    ..change(item, status, ItemStatus::Failed)
                });
                self.settle(changes.collect()).await?;
            }
        }
        Ok(())
    }
}

/// How many items are looked at in one go.
const PAGE: usize = 200;

/// An item goes from one state to another, and nothing else is said of it.
pub(super) fn change(item: &Item, from: ItemStatus, to: ItemStatus) -> ItemChange {
    ItemChange {
        item_id: item.item_id,
        from,
        to,
        raw: None,
        result: None,
        error: None,
        missed_in: None,
        entry: None,
    }
}

/// How many items of a batch are this far.
pub(super) fn count(batch: &Batch, status: ItemStatus) -> u64 {
    batch.items.get(&status).copied().unwrap_or(0)
}

/// What was said about a batch, unless it was about a failure that is over.
pub(super) fn standing(batch: &Batch) -> Option<String> {
    let error = batch.state.error.clone();
    error.filter(|_| batch.state.failures == 0)
}

/// How a batch ends when nothing of it waits any more: failed, if not one of its items had an answer.
pub(super) fn end_of(batch: &Batch) -> BatchStatus {
    let was_answered = [
        ItemStatus::Completed,
        ItemStatus::Stale,
        ItemStatus::ParseError,
    ];
    if was_answered.iter().any(|status| count(batch, *status) > 0) {
        BatchStatus::Completed
    } else {
        BatchStatus::Failed
    }
}

/// How long nothing is done after so many failures in a row.
pub(super) fn rest(interval: Duration, failures: u32, asked: Option<Duration>) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let first = interval.min(Duration::from_secs(5));
    let rest = first.saturating_mul(1 << doublings).min(REST_MAX);
    rest.max(asked.unwrap_or_default())
}

/// The beginning of an error.
pub(super) fn cut(error: &str) -> String {
    error.chars().take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_after_failures_grows_to_half_a_minute_and_at_least_to_what_is_asked_for() {
        let minute = Duration::from_secs(60);
        let seconds = |failures| rest(minute, failures, None).as_secs();
        assert_eq!([1, 2, 3, 7, 40].map(seconds), [5, 10, 20, 30, 30]);
        assert_eq!(rest(minute, 1, Some(minute)), minute);
    }
}
