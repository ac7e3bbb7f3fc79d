//! A batch at the provider, found again by the operation that created it. It creates nothing.

use hapax_core::Time;
use hapax_effects::enrich::{Batch, BatchStatus, Llm, LlmError};
use serde::{Deserialize, Serialize};

/// The names under which a batch at the provider says what it is.
pub(super) const OP: &str = "hapax_op";
pub(super) const WORDS: &str = "hapax_words";
pub(super) const MODEL: &str = "hapax_model";

/// How many batches are asked for at a time, and how many pages at most.
const PAGE: usize = 100;
const PAGES_MAX: usize = 100;
/// How far the provider's clock may be behind ours.
const SKEW_S: i64 = 3600;

/// What the provider has of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    /// `None` if there was nothing left to send.
    pub(super) batch_id: Option<String>,
    pub(super) input_file: Option<String>,
    pub(super) status: Option<String>,
    /// What the lines were made by, as far as the provider kept it.
    pub(super) words: Option<String>,
    pub(super) model: Option<String>,
    /// Whether it was found and not created now.
    pub(super) adopted: bool,
    /// How many other batches of the same operation there are. Nobody collects them.
    pub(super) others: usize,
}

impl Sent {
    pub(super) fn of(batch: Batch) -> Self {
        let told = |name: &str| batch.metadata.get(name).cloned();
        Self {
            words: told(WORDS),
            model: told(MODEL),
            status: Some(batch.status.as_str().to_owned()),
            input_file: batch.input_file_id.map(String::from),
            batch_id: Some(batch.id.into()),
            adopted: false,
            others: 0,
        }
    }
}

/// The batch that `op` created, if it did: the oldest that has not failed, or the oldest. `since` is when the job was
/// planned, so nothing older is looked at.
///
/// # Errors
/// When the provider could not be asked to the end of its list.
pub(super) async fn find(llm: &Llm, op: &str, since: Time) -> Result<Option<Sent>, LlmError> {
    let since_s = since.as_ms() / 1000 - SKEW_S;
    let mut found: Vec<Batch> = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let page = llm.batches(after.as_ref(), PAGE).await?;
        let is_old = |batch: &Batch| batch.created_at.is_some_and(|at| at < since_s);
        let reached_old = page.items.iter().any(is_old);
        let is_ours = |batch: &Batch| batch.metadata.get(OP).is_some_and(|found| found == op);
        found.extend(page.items.into_iter().filter(is_ours));
        match page.next {
            Some(next) if !reached_old && after.as_ref() != Some(&next) => after = Some(next),
            Some(_) | None => return Ok(adopted(found)),
        }
    }
    // Whatever is further back: if it is there, it is not known. If one was found, it is.
    match adopted(found) {
        Some(sent) => Ok(Some(sent)),
        None => Err(LlmError::BadAnswer {
            why: format!("the list of batches has more than {PAGES_MAX} pages"),
        }),
    }
}

fn adopted(mut found: Vec<Batch>) -> Option<Sent> {
    found.sort_by_key(|batch| (batch.status == BatchStatus::Failed, batch.created_at));
    let others = found.len().saturating_sub(1);
    let first = found.into_iter().next()?;
    Some(Sent {
        adopted: true,
        others,
        ..Sent::of(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn batch(id: &str, status: &str, created_at: i64) -> Batch {
        let shown =
            json!({"id": id, "status": status, "created_at": created_at, "metadata": {WORDS: "w"}});
        Batch::read(&shown).unwrap()
    }

    #[test]
    fn of_two_batches_of_one_operation_the_oldest_that_has_not_failed_is_adopted() {
        let two = vec![
            batch("c", "completed", 3),
            batch("a", "failed", 1),
            batch("b", "validating", 2),
        ];
        let sent = adopted(two).unwrap();
        assert_eq!((sent.batch_id.as_deref(), sent.others), (Some("b"), 2));
        assert_eq!(sent.words.as_deref(), Some("w"));
        let failed = adopted(vec![batch("a", "failed", 1)]).unwrap();
        assert_eq!(failed.batch_id.as_deref(), Some("a"));
        assert_eq!(adopted(Vec::new()), None);
    }
}
