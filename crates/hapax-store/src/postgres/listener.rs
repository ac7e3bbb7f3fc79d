//! Hears from every node which leases ended and that there are jobs to lease, on a connection of its own, and
//! passes it on. A hint may be missed while the connection is away: whoever waits also polls.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hapax_core::{Error, RecordId, Wake};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;
use uuid::Uuid;

use super::jobs::Bell;
use super::session::{self, Taken};
use super::target::{Target, Wire};

const LISTEN: &str = include_str!("../../sql/postgres/listen.sql");
const LISTEN_JOBS: &str = include_str!("../../sql/postgres/job_listen.sql");
/// The channel of `job_listen.sql`.
const JOBS: &str = "hapax_jobs";
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(3);
/// The server takes payloads below 8000 bytes.
const PAYLOAD_BYTES_MAX: usize = 7900;
/// An id in a payload: its UUID without hyphens.
const ID_BYTES: usize = 32;

/// What is sent for these ids, in as few payloads as the server takes.
pub(super) fn payloads(ids: &[Uuid]) -> Vec<String> {
    ids.chunks(PAYLOAD_BYTES_MAX / ID_BYTES)
        .map(|ids| ids.iter().map(|id| id.simple().to_string()).collect())
        .collect()
}

/// The ids in a payload. What is not an id is passed over: anybody may send on the channel.
fn ids(payload: &str) -> impl Iterator<Item = RecordId> + '_ {
    payload
        .as_bytes()
        .chunks(ID_BYTES)
        .filter_map(|id| std::str::from_utf8(id).ok()?.parse().ok())
}

/// Those who want to be told, and the task that tells them.
pub(super) struct Listener {
    target: Target,
    runtime: Handle,
    wakes: Arc<RwLock<Vec<Wake>>>,
    bell: Bell,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    /// A listener that connects when somebody first wants to be told.
    pub(super) fn new(target: Target, bell: Bell) -> Self {
        Self {
            target,
            runtime: Handle::current(),
            wakes: Arc::default(),
            bell,
            task: Mutex::default(),
        }
    }

    /// Has `wake` called for every lease that ends from now on.
    pub(super) fn subscribe(&self, wake: Wake) {
        self.wakes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(wake);
        self.start();
    }

    /// Listens from now on, if it did not before.
    pub(super) fn start(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none() {
            let listen = listen(self.target.clone(), self.wakes.clone(), self.bell.clone());
            *task = Some(self.runtime.spawn(listen));
        }
    }

    /// Tells nobody any more, and waits until that is so.
    pub(super) async fn close(&self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            task.abort();
            // It was aborted, or had panicked: there is nothing left to do for it.
            drop(task.await);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// Listens until aborted, connecting again whenever the connection is lost.
async fn listen(target: Target, wakes: Arc<RwLock<Vec<Wake>>>, bell: Bell) {
    let mut backoff = BACKOFF_MIN;
    loop {
        match hear(&target, &wakes, &bell).await {
            Ok(()) => backoff = BACKOFF_MIN,
            Err(error) => {
                tracing::debug!("wake-ups from other nodes are away for now: {error}");
            }
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// One connection, from its start to its end.
async fn hear(target: &Target, wakes: &RwLock<Vec<Wake>>, bell: &Bell) -> Result<(), Error> {
    let (client, mut wire) = target.connect().await?;
    let setup = async {
        session::take(&client, &target.speech, Taken::App).await?;
        for listen in [LISTEN, LISTEN_JOBS] {
            client
                .batch_execute(listen)
                .await
                .map_err(session::Refusal::Server)?;
        }
        // What was told while nobody listened.
        bell.ring();
        Ok::<_, session::Refusal>(())
    };
    {
        let setup = tokio::time::timeout(target.connect_timeout, setup);
        tokio::pin!(setup);
        loop {
            tokio::select! {
                biased;
                ready = &mut setup => {
                    let limit = target.connect_timeout;
                    let kind = hapax_core::Kind::Unavailable;
                    ready.map_err(|_| super::fault::timed_out("listening", kind, limit))??;
                    break;
                }
                message = next(&mut wire) => match message {
                    Some(message) => pass_on(&message, wakes, bell),
                    None => return Ok(()),
                },
            }
        }
    }
    while let Some(message) = next(&mut wire).await {
        pass_on(&message, wakes, bell);
    }
    Ok(())
}

/// The next message, or nothing once the connection is gone.
async fn next(wire: &mut Wire) -> Option<AsyncMessage> {
    std::future::poll_fn(|context| wire.poll_message(context))
        .await
        .and_then(Result::ok)
}

fn pass_on(message: &AsyncMessage, wakes: &RwLock<Vec<Wake>>, bell: &Bell) {
    if let AsyncMessage::Notification(told) = message {
        if told.channel() == JOBS {
            bell.ring();
            return;
        }
        let wakes = wakes.read().unwrap_or_else(PoisonError::into_inner).clone();
        for id in ids(told.payload()) {
            for wake in &wakes {
                wake(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_from_payloads_that_the_server_takes() {
        let sent: Vec<Uuid> = (1..=600).map(Uuid::from_u128).collect();
        let payloads = payloads(&sent);
        assert_eq!(payloads.len(), 3);
        assert!(payloads.iter().all(|payload| payload.len() < 8000));
        let heard: Vec<Uuid> = payloads
            .iter()
            .flat_map(|payload| ids(payload))
            .map(RecordId::as_uuid)
            .collect();
        assert_eq!(heard, sent);
    }

    #[test]
    fn what_is_not_an_id_is_passed_over() {
        for payload in ["", "x", "é", &"z".repeat(64)] {
            assert_eq!(ids(payload).count(), 0, "{payload}");
        }
    }
}
