//! The worker of this process: which kinds it knows, and what runs them.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hapax::job::{Events, Handler, Handling, Held, Worker, take_back_dead};
use hapax_core::job::JobKind;
use hapax_core::{Error, Tenant};
use hapax_effects::download::{self, Download, Downloader, Folder, Guard, Limits};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::enrich;
use crate::exit::Usage;
use crate::import;
use crate::intents::desk::Desk;
use crate::intents::inbox;
use crate::store::Store;

/// The kinds that this program can run.
fn known() -> [JobKind; 4] {
    [
        JobKind::DOWNLOAD,
        inbox::kind(),
        import::job::kind(),
        enrich::job::kind(),
    ]
}

/// The kinds that `names` asks for; all if it names none.
///
/// # Errors
/// [`Usage`] for a kind that this program cannot run.
pub(crate) fn kinds(names: &[String]) -> Result<Vec<JobKind>> {
    if names.is_empty() {
        return Ok(known().to_vec());
    }
    let all = || known().map(|kind| kind.to_string()).join(", ");
    let mut kinds = Vec::new();
    for name in names {
        match known().into_iter().find(|kind| kind.as_str() == name) {
            Some(kind) => kinds.push(kind),
            None => {
                return Err(Usage::error(format!(
                    "{name:?} is not a kind that this program runs; it runs {}",
                    all()
                )));
            }
        }
    }
    Ok(kinds)
}

/// Whether a job of this kind and URL is one that only this program plans. Nobody else plans it first: the program would
/// find it and could not have its own.
pub(crate) fn is_own_name(kind: &JobKind, canonical_url: &str) -> bool {
    (*kind == inbox::kind() && inbox::is_own_url(canonical_url))
        || (*kind == import::job::kind() && import::job::is_own_url(canonical_url))
        || (*kind == enrich::job::kind() && enrich::job::is_own_url(canonical_url))
}

/// How many receipts a server works on at a time: they mostly wait for the gateway.
const RECEIPTS: usize = 32;
/// How long a receipt stays with a worker that has fallen silent.
const RECEIPT_LEASE: Duration = Duration::from_secs(30);

/// A worker of receipts.
pub(crate) fn receipts(store: &Store, desk: &Desk) -> Worker {
    Worker::new(Arc::clone(&store.queue))
        .handler(inbox::kind(), desk.clone())
        .place(inbox::place())
        .concurrency(RECEIPTS)
        .ttl(RECEIPT_LEASE)
}

/// A worker of downloads: so many of one tenant at a time, and as many again of the others. Slow hosts hold a tenant's
/// downloads up, and nobody else's.
pub(crate) fn downloads(config: &Config, store: &Store, concurrency: usize) -> Worker {
    Worker::new(Arc::clone(&store.queue))
        .handler(JobKind::DOWNLOAD, Downloads::new(config))
        .concurrency(concurrency.saturating_mul(2))
        .per_tenant(concurrency)
        .ttl(Duration::from_millis(config.worker_lease_ms))
}

/// Runs `worker` until `stop`, after giving back what dead processes of this machine held.
pub(crate) async fn run(
    worker: Worker,
    store: Store,
    stop: impl Future<Output = ()>,
    grace: Duration,
) {
    match take_back(&store).await {
        Ok(0) => {}
        Ok(taken) => tracing::info!(taken, "jobs of dead processes of this machine go on"),
        Err(error) => {
            tracing::warn!(%error, "jobs of dead processes wait until their leases run out");
        }
    }
    worker.run(stop, grace).await;
}

/// The tenants that there are, as far as their tokens tell.
///
/// # Errors
/// When the store could not be asked.
pub(crate) async fn tenants(store: &Store) -> Result<BTreeSet<Tenant>, Error> {
    let mut tenants: BTreeSet<Tenant> = BTreeSet::from([Tenant::DEFAULT]);
    tenants.extend(
        store
            .tokens
            .list_tokens()
            .await?
            .into_iter()
            .map(|token| token.tenant),
    );
    Ok(tenants)
}

/// Gives back what dead processes of this machine held. Answers how many jobs that were.
async fn take_back(store: &Store) -> Result<usize, Error> {
    let mut taken = 0;
    for tenant in tenants(store).await? {
        taken += take_back_dead(&store.queue, tenant).await?;
    }
    Ok(taken)
}

/// Where downloads of the worker go.
pub(crate) fn folder_path(config: &Config) -> PathBuf {
    if config.download_folder.as_os_str().is_empty() {
        config.data.join("downloads")
    } else {
        config.download_folder.clone()
    }
}

/// What asks sources, on its way: certificates are read beside whatever else is to be done.
pub(crate) type Sources = JoinHandle<Result<download::Sources, download::Error>>;

/// What asks sources, with the configured limits, which tenants share or one has alone.
pub(crate) fn sources(config: &Config, shared: bool) -> Sources {
    let guard = if config.download_private_addresses {
        Guard::allow_private_addresses()
    } else {
        Guard::public_only()
    };
    let limits = Limits {
        size_bytes_max: config.download_bytes_max,
        per_host_max: config.download_per_host,
        shared,
        ..Limits::default()
    };
    tokio::task::spawn_blocking(move || download::Sources::new(guard, limits))
}

/// A downloader into the folder at `path`.
///
/// # Errors
/// When the folder cannot be made, or there is no HTTP client.
pub(crate) async fn downloader(sources: Sources, path: PathBuf) -> Result<Downloader> {
    let shown = path.display().to_string();
    let folder = tokio::task::spawn_blocking(move || Folder::open(&path)).await?;
    let folder = folder.with_context(|| format!("opening the folder {shown}"))?;
    Ok(Downloader::of(folder, sources.await??))
}

/// Runs downloads. Its folder is made with the first of them: a server that downloads nothing leaves none behind.
struct Downloads {
    config: Config,
    made: OnceCell<Download>,
}

impl Downloads {
    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            made: OnceCell::new(),
        }
    }

    async fn download(&self) -> Result<&Download> {
        let make = || async {
            let path = folder_path(&self.config);
            let downloader = downloader(sources(&self.config, true), path).await?;
            Ok(Download::new(downloader, Events::none()))
        };
        self.made.get_or_try_init(make).await
    }
}

impl Handler for Downloads {
    fn run(&self, held: Held) -> Handling<'_> {
        Box::pin(async move {
            match self.download().await {
                Ok(download) => download.run(held).await,
                Err(error) => {
                    let why = format!("{error:#}");
                    tracing::error!(error = why, "nothing can be downloaded");
                    if let Err(lost) = held.fail(&why, true, None).await {
                        tracing::warn!(%lost, "the end of a job was not recorded");
                    }
                }
            }
        })
    }
}
