//! Which chores this process leads among all that share the database: those whose advisory lock its transaction has.
//!
//! The lock is a transaction's and not a session's, so that a pooler in transaction mode is no different: it lends the
//! leader one session for as long as it leads, and nobody else any. Between two questions the transaction is idle; it
//! has no snapshot and no number, so nothing that others delete is kept for it. A process that is gone loses the lock
//! with its connection, and one that stands still loses it because the server ends a transaction that idles for long.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hapax_core::{Chore, Error, Kind};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::fault;
use super::session::{self, Taken};
use super::target::Target;

const LEAD: &str = include_str!("../../sql/postgres/lead.sql");
const LEAD_ON: &str = include_str!("../../sql/postgres/lead_on.sql");
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";
/// A leader that says nothing for so long is none any more. Several times the pause between two questions.
const IDLE_MAX: &str = "SET LOCAL idle_in_transaction_session_timeout = '10s'";
/// How often the lock is asked for, and whoever has it shows that it lives.
const ASK_EVERY: Duration = Duration::from_secs(2);

const OPERATION: &str = "asking who leads";

#[derive(Debug, Default)]
struct Chores {
    wanted: BTreeSet<Chore>,
    led: BTreeSet<Chore>,
}

/// What this process wants to lead, and leads.
#[derive(Debug)]
pub(super) struct Leader {
    target: Target,
    runtime: Handle,
    chores: Arc<Mutex<Chores>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Leader {
    /// Asks for nothing until somebody wants to lead.
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            runtime: Handle::current(),
            chores: Arc::default(),
            task: Mutex::default(),
        }
    }

    /// Whether this process led the chore when it last asked. From now on it asks.
    pub(super) fn leads(&self, chore: Chore) -> bool {
        let mut chores = lock(&self.chores);
        if chores.wanted.insert(chore) {
            let mut task = lock(&self.task);
            if task.is_none() {
                *task = Some(
                    self.runtime
                        .spawn(stand(self.target.clone(), Arc::clone(&self.chores))),
                );
            }
        }
        chores.led.contains(&chore)
    }

    /// Leads nothing any more: another process may at once.
    pub(super) async fn close(&self) {
        let task = lock(&self.task).take();
        if let Some(task) = task {
            task.abort();
            // It was aborted, or had panicked: there is nothing left to do for it.
            drop(task.await);
        }
        lead(&self.chores, BTreeSet::new());
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what is led from now on, and tells what has changed.
fn lead(chores: &Mutex<Chores>, now: BTreeSet<Chore>) {
    let mut chores = lock(chores);
    for chore in &chores.wanted {
        let is_led = now.contains(chore);
        metrics::gauge!("hapax_leads", "chore" => chore.as_str()).set(f64::from(u8::from(is_led)));
        if is_led != chores.led.contains(chore) {
            let chore = chore.as_str();
            tracing::info!(chore, is_led, "who does this chore has changed");
        }
    }
    chores.led = now;
}

/// Asks until aborted, over a new connection whenever one is lost.
async fn stand(target: Target, chores: Arc<Mutex<Chores>>) {
    loop {
        if let Err(error) = serve(&target, &chores).await {
            tracing::debug!("nothing is led for now: {error}");
        }
        lead(&chores, BTreeSet::new());
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// One connection, until it fails.
async fn serve(target: &Target, chores: &Mutex<Chores>) -> Result<(), Error> {
    let (client, wire) = target.connect().await?;
    let asking = async {
        session::take(&client, &target.speech, Taken::Janitor).await?;
        let mut led = BTreeSet::new();
        loop {
            let wanted = lock(chores).wanted.clone();
            let asked = ask(&client, target, &wanted, &mut led);
            let limit = target.connect_timeout;
            let asked = tokio::time::timeout(limit, asked).await;
            let asked = asked.map_err(|_| fault::timed_out(OPERATION, Kind::Unavailable, limit))?;
            asked.map_err(|error| fault::unwritten(OPERATION, &error))?;
            lead(chores, led.clone());
            tokio::time::sleep(ASK_EVERY).await;
        }
    };
    tokio::select! {
        ended = asking => ended,
        // The connection is gone, and the lock with it.
        _ = wire => Ok(()),
    }
}

/// Asks for what is wanted and not led yet. What is led stays so while the transaction does.
async fn ask(
    client: &Client,
    target: &Target,
    wanted: &BTreeSet<Chore>,
    led: &mut BTreeSet<Chore>,
) -> Result<(), tokio_postgres::Error> {
    if led.is_empty() {
        let begin = target.speech.begin(BEGIN, Taken::Janitor);
        client.batch_execute(&begin).await?;
        client.batch_execute(IDLE_MAX).await?;
    }
    for chore in wanted.difference(&led.clone()) {
        let name = chore.as_str();
        let rows = client.query_typed(LEAD, &[(&name, Type::TEXT)]).await?;
        let is_led = rows.first().map(|row| row.try_get(0)).transpose()?;
        if is_led == Some(true) {
            led.insert(*chore);
        }
    }
    if led.is_empty() {
        // A pooler has its session back.
        return client.batch_execute("ROLLBACK").await;
    }
    // Shows that it lives and finds out whether the transaction does. As a plain query it also ends the portal of the last
    // question, which would keep its snapshot.
    client.batch_execute(LEAD_ON).await
}
