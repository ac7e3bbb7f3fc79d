//! `hapax sweep`: removes what has expired, in bounded steps, until nothing is left to remove.

use std::time::{Duration, Instant};

use anyhow::Result;
use hapax_core::{Error, Ledger, Sweep, Swept};
use serde_json::json;

use crate::cli::Plain;
use crate::config::Config;
use crate::out;
use crate::store::Store;

/// The shortest rest between two steps.
const PAUSE_MIN: Duration = Duration::from_millis(2);

pub(super) async fn run(args: &Plain) -> Result<()> {
    let config = Config::load(&args.store.flags())?;
    let store = Store::open_made(&config).await?;
    let swept = all(
        store.ledger.as_ref(),
        Duration::from_millis(config.sweep_grace_ms),
    )
    .await?;
    store.close().await;
    if args.json {
        return out::json(&json!({"swept": swept.expired, "forgotten": swept.forgotten}));
    }
    out::line(&format!(
        "swept {} expired keys, forgot {} swept before",
        swept.expired, swept.forgotten
    ))
}

/// Sweeps step by step until a step does nothing, at work no more than half the time: on SQLite the steps of
/// another process would otherwise keep a server's writer from the file for longer than it waits.
///
/// # Errors
/// Whatever the ledger met; what was swept before stays swept.
pub(crate) async fn all(ledger: &dyn Ledger, grace: Duration) -> Result<Swept, Error> {
    let mut all = Swept::default();
    loop {
        let begun = Instant::now();
        let step = ledger
            .sweep(Sweep {
                grace,
                ..Sweep::default()
            })
            .await?;
        all.expired += step.expired;
        all.retired += step.retired;
        all.forgotten += step.forgotten;
        metrics::counter!("hapax_swept_total", "what" => "expired").increment(step.expired as u64);
        metrics::counter!("hapax_swept_total", "what" => "forgotten")
            .increment(step.forgotten as u64);
        all.notes += step.notes;
        if step == Swept::default() {
            return Ok(all);
        }
        tokio::time::sleep(begun.elapsed().max(PAUSE_MIN)).await;
    }
}
