//! `hapax worker`: leases jobs and runs them until it is told to stop.

use std::time::Duration;

use anyhow::Result;
use hapax_core::job::JobKind;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;

use super::serve::Signals;
use crate::cli::Worker;
use crate::config::Config;
use crate::enrich;
use crate::exit::Usage;
use crate::import;
use crate::intents::desk::Desk;
use crate::store::{Database, Store};
use crate::{keep, log, metrics, out, worker};

pub(super) async fn run(args: &Worker) -> Result<()> {
    let config = Config::load(&args.store.flags())?;
    let kinds = worker::kinds(&args.kinds)?;
    let desk = Desk::new(&config)?;
    log::start(&config)?;
    log::misspelt()?;
    let mut signals = Signals::watch()?;
    // Nobody reads them here, but recording must have somewhere to go that stays small.
    let recorded = metrics::install()?;
    keep::make_folder(&config.data)?;
    let store = Store::open(&config).await?;
    let concurrency = args.concurrency.unwrap_or(config.worker_concurrency);
    let imports = import::desk::Desk::new(&config, &store)?;
    let enrich = enrich::desk::Desk::new(&config, &store)?;
    let of = |kind: &JobKind| {
        if kind.is_download() {
            return vec![worker::downloads(&config, &store, concurrency)];
        }
        let workers: Vec<_> = if *kind == enrich::job::kind() {
            enrich.workers()
        } else if *kind == import::job::kind() {
            imports.worker().into_iter().collect()
        } else {
            vec![worker::receipts(&store, &desk)]
        };
        let limited = workers.into_iter().map(|one| one.concurrency(concurrency));
        limited.collect()
    };
    let (mut named, mut working) = (Vec::new(), Vec::new());
    for kind in &kinds {
        for one in of(kind) {
            named.push(kind.to_string());
            working.push(one);
        }
    }
    named.dedup();
    if working.is_empty() {
        return Err(Usage::error(
            "imports need EMAIL_IMPORT_ROOT, the folder that holds the mailboxes; enrichment needs OPENAI_BASE_URL and \
             LITELLM_MASTER_KEY; set them",
        ));
    }
    if kinds.contains(&import::job::kind()) {
        imports.adopt().await;
    }
    out::line(&format!(
        "working on {}: {}, {concurrency} at a time",
        Database::of(&config)?,
        named.join(", ")
    ))?;
    let upkeep = tokio::spawn(keep_up(recorded));
    let stopped = CancellationToken::new();
    let all = working.into_iter().map(|one| {
        let stop = stopped.clone().cancelled_owned();
        worker::run(one, store.clone(), stop, config.shutdown())
    });
    let stopping = async {
        let ending = signals.ending(&store).await;
        stopped.cancel();
        ending
    };
    let looking = async {
        let looked = enrich.look_after();
        if kinds.contains(&enrich::job::kind()) {
            stopped.run_until_cancelled(looked).await;
        }
    };
    let all = futures_util::future::join_all(all);
    let (_, ending, ()) = futures_util::future::join3(all, stopping, looking).await;
    upkeep.abort();
    store.close().await;
    tracing::info!("stopped");
    ending.result()
}

async fn keep_up(recorded: PrometheusHandle) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        recorded.run_upkeep();
    }
}
