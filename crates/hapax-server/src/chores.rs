//! What a running server does by itself: sweeping expired keys, and keeping metrics small.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::api::App;
use crate::cmd::sweep;
use crate::otlp;

/// How often recorded samples are folded into their histograms, also when nobody reads /metrics.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Starts the chores. They end soon after `stop`; whoever holds the set joins them.
pub(crate) fn start(app: &App, stop: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut chores = JoinSet::new();
    match otlp::start(&app.config.otlp_endpoint, stop) {
        Ok(Some(sending)) => drop(chores.spawn(sending)),
        Ok(None) => {}
        Err(error) => tracing::error!(error = %format!("{error:#}"), "no traces are sent"),
    }
    let handle = app.metrics.clone();
    chores.spawn(every(UPKEEP_EVERY, stop.clone(), move || {
        handle.run_upkeep();
        std::future::ready(())
    }));
    if app.config.sweep_interval_ms > 0 {
        let app = App::clone(app);
        let pause = Duration::from_millis(app.config.sweep_interval_ms);
        chores.spawn(every(pause, stop.clone(), move || {
            sweep_once(App::clone(&app))
        }));
    }
    chores
}

/// Does `chore` after each `pause` until told to stop. A stop in the middle drops it where it waits.
async fn every<F: Future<Output = ()>>(
    pause: Duration,
    mut stop: watch::Receiver<bool>,
    mut chore: impl FnMut() -> F,
) {
    let stopped = stop.wait_for(|stop| *stop);
    let work = async {
        loop {
            tokio::time::sleep(pause).await;
            chore().await;
        }
    };
    tokio::select! {
        () = work => {}
        _ = stopped => {}
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
