//! How often an outcome was taken back, known without a query on every replay: a node looks again and again, and
//! whoever takes an outcome back waits until every look from before is too old to be used.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hapax_core::Error;
use tokio::task::JoinHandle;

use super::columns;
use super::reader::{READ, Reader, WRITE};

const COUNT: &str = include_str!("../../sql/postgres/purge_count.sql");
const WATCH: &str = include_str!("../../sql/postgres/purge_watch.sql");
const WATCHED: &str = include_str!("../../sql/postgres/purge_watched.sql");

/// How often a node looks.
const LOOK: Duration = Duration::from_millis(150);
/// How long a look may be used, from when it was begun. No node's clock matters, only that all run equally fast.
const FRESH: Duration = Duration::from_millis(600);
/// How often a node says that it watches, and for how long that holds: longer than any look of a node that died.
const SAY: Duration = Duration::from_secs(10);
const SAID: Duration = Duration::from_secs(30);

/// The count, as last seen.
#[derive(Debug)]
pub(super) struct Purges {
    seen: Arc<Mutex<Option<(Instant, u64)>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Purges {
    /// Looks from now on. The first thing it does is to say that it watches.
    pub(super) fn watch(reader: &Arc<Reader>) -> Self {
        let seen: Arc<Mutex<Option<(Instant, u64)>>> = Arc::default();
        let task = tokio::spawn(look(Arc::clone(reader), Arc::clone(&seen)));
        Self {
            seen,
            task: Mutex::new(Some(task)),
        }
    }

    /// The count, if it was looked at a moment ago.
    pub(super) fn count(&self) -> Option<u64> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.filter(|(begun, _)| begun.elapsed() < FRESH)
            .map(|(_, count)| count)
    }

    pub(super) fn stop(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Drop for Purges {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until no node answers any more by a count from before now. Without a node that watches it does not wait.
pub(super) async fn told(reader: &Reader) {
    let operation = "asking who answers from a cache";
    let rows = reader
        .transaction(operation, READ, None, WATCHED, &[])
        .await;
    let watched = rows.and_then(|rows| {
        let first = rows.first().map(|row| columns::get::<bool>(row, 0));
        first.transpose()
    });
    match watched {
        Ok(Some(false) | None) => {}
        Ok(Some(true)) => tokio::time::sleep(FRESH).await,
        Err(error) => {
            tracing::warn!(%error, "it is not known whether a node answers from a cache; waiting for it");
            tokio::time::sleep(FRESH).await;
        }
    }
}

async fn look(reader: Arc<Reader>, seen: Arc<Mutex<Option<(Instant, u64)>>>) {
    let mut said: Option<Instant> = None;
    loop {
        let begun = Instant::now();
        let says = said.is_none_or(|said| said.elapsed() >= SAY);
        match count(&reader, says).await {
            Ok(count) => {
                if says {
                    said = Some(begun);
                }
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((begun, count));
            }
            Err(error) => {
                tracing::debug!(%error, "the count of taken-back outcomes is not known for now");
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn count(reader: &Reader, says: bool) -> Result<u64, Error> {
    let operation = "counting outcomes that were taken back";
    if says {
        let span = SAID.as_secs_f64();
        reader
            .transaction(operation, WRITE, None, WATCH, &[&span])
            .await?;
    }
    let rows = reader
        .transaction(operation, READ, None, COUNT, &[])
        .await?;
    let count = rows.first().map(|row| columns::get::<i64>(row, 0));
    let count = count.transpose()?.unwrap_or(0);
    Ok(u64::try_from(count).unwrap_or(0))
}
