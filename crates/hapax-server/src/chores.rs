//! What a running server does by itself: sweeping expired keys, running jobs, cleaning up after dead workers, and
//! keeping metrics small. Of what is done for all nodes at once, one of them does it: the one that the store says leads.

use std::future::Future;
use std::time::Duration;

use hapax_core::Chore;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api::App;
use crate::cmd::{reconcile, sweep};
use crate::{live, otlp, worker};

/// How often recorded samples are folded into their histograms, also when nobody reads /metrics.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How often a node that waits for its turn looks whether it has come.
const TURN_EVERY: Duration = Duration::from_millis(500);
/// How soon after the start it is looked for what dead workers left.
const RECONCILE_FIRST: Duration = Duration::from_secs(10);

/// Starts the chores. They end soon after `stop`; whoever holds the set joins them.
pub(crate) fn start(app: &App, stop: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut chores = JoinSet::new();
    match otlp::start(&app.config.otlp_endpoint, stop) {
        Ok(Some(sending)) => drop(chores.spawn(sending)),
        Ok(None) => {}
        Err(error) => tracing::error!(error = %format!("{error:#}"), "no traces are sent"),
    }
    let handle = app.metrics.clone();
    chores.spawn(every(
        (UPKEEP_EVERY, UPKEEP_EVERY),
        stop.clone(),
        move || {
            handle.run_upkeep();
            std::future::ready(())
        },
    ));
    let sampled = App::clone(app);
    chores.spawn(every((live::EVERY, live::EVERY), stop.clone(), move || {
        let app = App::clone(&sampled);
        async move { app.live.tick().await }
    }));
    if app.config.sweep_interval_ms > 0 {
        let app = App::clone(app);
        let pause = Duration::from_millis(app.config.sweep_interval_ms);
        app.takes_part_in(Chore::Sweep);
        chores.spawn(every((pause, pause), stop.clone(), move || {
            let app = App::clone(&app);
            async move {
                // Whoever takes over does not know when it was done last, so it is done then.
                turn(&app, Chore::Sweep).await;
                sweep_once(app).await;
            }
        }));
    }
    chores
}

/// Starts the workers of this process: for downloads, for receipts, for imports and for enrichment. On `stop` they let their jobs end for
/// half of `shutdown_ms` and give back the rest; an import is given back at once, and loses nothing by it.
pub(crate) fn work(app: &App, stop: &watch::Receiver<bool>, chores: &mut JoinSet<()>) {
    let (config, store, desk) = (&app.config, &app.store, &app.desk);
    let downloads = worker::downloads(config, store, config.worker_concurrency);
    let grace = config.shutdown() / 2;
    let receipts = worker::receipts(store, desk);
    let imports = app.imports.worker().map(|one| (one, Duration::ZERO));
    let enrich = app.enrich.workers().into_iter().map(|one| (one, grace));
    let others = [(downloads, grace), (receipts, grace)].into_iter();
    for (working, grace) in others.chain(imports).chain(enrich) {
        let mut stop = stop.clone();
        let stopped = async move {
            // A sender that is gone means the same.
            let _ = stop.wait_for(|stop| *stop).await;
        };
        chores.spawn(worker::run(working, store.clone(), stopped, grace));
    }
    desk.open();
    app.imports.open();
    let imports = app.imports.clone();
    chores.spawn(async move { imports.adopt().await });
    if app.enrich.is_configured() {
        app.takes_part_in(Chore::Batches);
    }
    let (enrich, mut stop) = (app.enrich.clone(), stop.clone());
    chores.spawn(async move {
        tokio::select! {
            () = enrich.look_after() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    });
}

/// Cleans up after dead workers, soon after the start and then as often as configured.
pub(crate) fn reconcile(app: &App, stop: &watch::Receiver<bool>, chores: &mut JoinSet<()>) {
    if app.config.reconcile_interval_ms == 0 {
        return;
    }
    let pause = Duration::from_millis(app.config.reconcile_interval_ms);
    let app = App::clone(app);
    app.takes_part_in(Chore::Reconcile);
    chores.spawn(every(
        (pause.min(RECONCILE_FIRST), pause),
        stop.clone(),
        move || reconcile_once(App::clone(&app)),
    ));
}

/// Does `chore` after the first pause, and then after each second one, until told to stop. A stop in the middle drops it where it waits.
async fn every<F: Future<Output = ()>>(
    (first, pause): (Duration, Duration),
    mut stop: watch::Receiver<bool>,
    mut chore: impl FnMut() -> F,
) {
    let stopped = stop.wait_for(|stop| *stop);
    let work = async {
        tokio::time::sleep(first).await;
        loop {
            chore().await;
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        () = work => {}
        _ = stopped => {}
    }
}

/// Waits until this process leads the chore.
async fn turn(app: &App, chore: Chore) {
    while !app.store.ledger.leads(chore) {
        tokio::time::sleep(TURN_EVERY).await;
    }
}

async fn sweep_once(app: App) {
    let grace = Duration::from_millis(app.config.sweep_grace_ms);
    let swept = sweep::all(app.store.ledger.as_ref(), grace).await;
    app.observer.swept(swept.as_ref());
    match swept {
        Ok(swept) => {
            tracing::info!(
                expired = swept.expired,
                forgotten = swept.forgotten,
                "swept"
            );
        }
        Err(error) => {
            let code = error.kind().code();
            tracing::warn!(%error, code, "the sweep stopped; trying again later");
        }
    }
}

async fn reconcile_once(app: App) {
    let asked = reconcile::Asked {
        tenant: None,
        dry_run: false,
        careful: true,
        // The database is everybody's and one is enough; the folder of downloads may be this node's own.
        jobs: app.store.ledger.leads(Chore::Reconcile),
        actor: "hapax serve",
    };
    let whole = async {
        let files = reconcile::Files::of_worker(&app.config)?;
        reconcile::whole(&app.store, files, &asked).await
    };
    match whole.await {
        Ok(found) if found == reconcile::Reconciled::default() => {}
        Ok(found) => tracing::info!(
            leases_expired = found.leases_expired,
            ops_in_doubt = found.ops_in_doubt,
            parts_deleted = found.parts_deleted,
            healed = found.healed,
            "cleaned up after dead workers"
        ),
        Err(error) => {
            tracing::warn!(%error, "the clean-up stopped; trying again later");
        }
    }
}
