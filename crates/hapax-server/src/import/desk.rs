//! Where this process drives imports, and where callers wait for one to end.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hapax::job::Worker;
use hapax_core::entry::{Import, ImportStatus, NewImport, Search};
use hapax_core::job::State;
use hapax_core::{Error, Tenant};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::job::{self, Importing};
use super::open::Root;
use super::roots::{Folders, Roots};
use crate::config::Config;
use crate::store::Store;
use crate::worker;

/// How long an import stays with a worker that has fallen silent.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// How many imports a process drives at a time: each has a thread that reads.
const IMPORTS: usize = 2;
/// The pauses between two looks at an import that somebody waits for.
const LOOKS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// What a wait came to.
pub(crate) enum Waited {
    /// The import has ended.
    Ended(Import),
    /// An attempt ended and left the import where it is, for this reason.
    Stalled(Import, String),
    /// This process stops.
    Closing(Import),
}

/// The desk. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Desk {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    roots: Option<Roots>,
    /// Whether a worker of this process takes imports.
    is_open: AtomicBool,
    /// Imports that this process drives although it has no worker.
    driven: Mutex<HashSet<Uuid>>,
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl Desk {
    /// The desk that the configuration describes.
    ///
    /// # Errors
    /// When the folder of imports has no absolute path.
    pub(crate) fn new(config: &Config, store: &Store) -> Result<Self> {
        let roots = match config.email_import_root.as_path() {
            none if none.as_os_str().is_empty() => None,
            path => {
                let root = Root::new(path).context("finding the folder of imports")?;
                Some(Roots::ByTenant(root))
            }
        };
        let inner = Inner {
            store: store.clone(),
            roots,
            is_open: AtomicBool::new(false),
            driven: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The folders that mailboxes are imported from, if there are any.
    pub(crate) fn roots(&self) -> Option<&Roots> {
        self.inner.roots.as_ref()
    }

    /// The folders that this tenant's mailboxes are imported from, if any are configured.
    pub(crate) fn folders(&self, tenant: Tenant) -> Option<Folders> {
        self.roots().map(|roots| roots.of(tenant))
    }

    /// A worker of imports, if there is a folder to import from.
    pub(crate) fn worker(&self) -> Option<Worker> {
        let roots = self.roots()?;
        let handler = Importing {
            imports: Arc::clone(&self.inner.store.imports),
            roots: roots.clone(),
            watched: super::mailbox::Watched::default(),
            progress: Arc::new(|_| {}),
        };
        let worker = Worker::new(Arc::clone(&self.inner.store.queue))
            .handler(job::kind(), handler)
            .place(job::place_of(roots))
            .concurrency(IMPORTS)
            .ttl(LEASE);
        Some(worker)
    }

    /// Says that a worker of this process takes imports from now on.
    pub(crate) fn open(&self) {
        self.inner.is_open.store(true, Ordering::Relaxed);
    }

    /// Gives the workers of this folder the imports that run without a job: their process died between the two writes, or
    /// they were begun on the command line and left. A tenant's are those from its own folders.
    pub(crate) async fn adopt(&self) {
        if let Err(error) = self.try_adopt().await {
            tracing::warn!(%error, "imports without a job wait until they are asked for again");
        }
    }

    async fn try_adopt(&self) -> Result<(), Error> {
        let store = &self.inner.store;
        let Some(roots) = self.roots() else {
            return Ok(());
        };
        let place = job::place_of(roots);
        for tenant in worker::tenants(store).await? {
            let folders = roots.of(tenant);
            let found = store
                .imports
                .imports(tenant, None, Search::LIMIT_MAX)
                .await?;
            let is_ours = |import: &&Import| {
                let is_running = import.status == ImportStatus::Running;
                is_running && folders.hold(Path::new(&import.asked.path))
            };
            for import in found.iter().filter(is_ours) {
                job::offer(store.queue.as_ref(), tenant, import.id, &place).await?;
            }
        }
        Ok(())
    }

    /// Begins an import, or joins the one of the same file, and has it driven. It goes on whoever waits.
    ///
    /// # Errors
    /// When the store could not be asked; asking again joins what was begun.
    pub(crate) async fn begin(
        &self,
        tenant: Tenant,
        roots: &Roots,
        new: NewImport,
    ) -> Result<Import, Error> {
        let store = &self.inner.store;
        let import = store.imports.begin_import(tenant, new).await?;
        if import.status == ImportStatus::Running {
            let place = job::place_of(roots);
            job::offer(store.queue.as_ref(), tenant, import.id, &place).await?;
            if !self.inner.is_open.load(Ordering::Relaxed) {
                self.drive_here(tenant, import.id);
            }
        }
        Ok(import)
    }

    /// Drives an import in this process, which has no worker, until it ends.
    fn drive_here(&self, tenant: Tenant, id: Uuid) {
        let is_new = self.driven().insert(id);
        let Some(worker) = self.worker().filter(|_| is_new) else {
            return;
        };
        let desk = self.clone();
        self.inner.tasks.spawn(async move {
            let store = desk.inner.store.clone();
            let ended = async {
                // Whoever waits hears of a failure; here it only means that there is nothing more to do.
                let _ = desk.wait(tenant, id).await;
            };
            worker::run(worker, store, ended, Duration::ZERO).await;
            desk.driven().remove(&id);
        });
    }

    fn driven(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        let driven = self.inner.driven.lock();
        driven.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the import, however long it takes.
    ///
    /// # Errors
    /// When the store could not be asked.
    pub(crate) async fn wait(&self, tenant: Tenant, id: Uuid) -> Result<Option<Waited>, Error> {
        let store = &self.inner.store;
        let mut pause = LOOKS.0;
        loop {
            let Some(import) = store.imports.import(tenant, id).await? else {
                return Ok(None);
            };
            if import.status != ImportStatus::Running {
                return Ok(Some(Waited::Ended(import)));
            }
            if let Some((job, _)) = store.queue.job(tenant, job::id(id)).await?
                && matches!(job.state, State::Failed | State::Dead)
            {
                // It may have ended since it was looked at.
                let now = store.imports.import(tenant, id).await?.unwrap_or(import);
                if now.status != ImportStatus::Running {
                    return Ok(Some(Waited::Ended(now)));
                }
                let why = job.error.as_deref().unwrap_or("an attempt failed");
                return Ok(Some(Waited::Stalled(now, why.to_owned())));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.inner.closing.cancelled() => return Ok(Some(Waited::Closing(import))),
            }
            pause = (pause * 3 / 2).min(LOOKS.1);
        }
    }

    /// Ends every wait, gives back what this process drives without a worker, and returns when that is done.
    pub(crate) async fn close(&self) {
        self.inner.closing.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}
