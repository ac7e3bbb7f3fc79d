//! The handler and what stands in front of it called in this very process: no socket, no load beside it. What a profiler
//! or a counter of instructions sees here is the layer and the ledger alone: `bench-keys call`.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::Body;
use clap::Args;
use hapax_bench::cpu::Tree;
use http::{Request, StatusCode};
use tower_service::Service;

use crate::load::Names;
use crate::serve::Serve;
use crate::talk::payment_json;

#[derive(Args, Debug)]
pub(crate) struct Call {
    #[command(flatten)]
    serve: Serve,
    /// How many requests.
    #[arg(long, default_value_t = 100_000)]
    count: usize,
    /// How many at a time.
    #[arg(long, default_value_t = 64)]
    at_once: usize,
    /// Send one key again and again instead of a new one every time.
    #[arg(long)]
    replayed: bool,
}

impl Call {
    /// Calls, and prints what one call took.
    pub(crate) async fn run(&self) -> Result<()> {
        let router = self.serve.router().await?;
        let names = Names::new();
        if self.replayed {
            answered(router.clone(), &names, true).await?;
        }
        let (begun, cpu) = (Instant::now(), Tree::own().cpu()?);
        let mut left = self.count;
        while left > 0 {
            let now = left.min(self.at_once);
            let calls = (0..now).map(|_| answered(router.clone(), &names, self.replayed));
            futures_util::future::try_join_all(calls).await?;
            left -= now;
        }
        let cpu = Tree::own().cpu()?.saturating_sub(cpu);
        println!(
            "{} calls: {:.2} µs each, {:.2} µs CPU",
            self.count,
            self.each(begun.elapsed()),
            self.each(cpu)
        );
        Ok(())
    }

    fn each(&self, spent: Duration) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 requests")]
        let count = self.count as f64;
        spent.as_secs_f64() * 1e6 / count
    }
}

async fn answered(mut router: Router, names: &Names, replayed: bool) -> Result<()> {
    let key = if replayed {
        names.replayed(0)
    } else {
        names.fresh()
    };
    let request = Request::post("/payments")
        .header("content-type", "application/json")
        .header("idempotency-key", &key)
        .body(Body::from(payment_json(&key)))?;
    let response = router.call(request).await?;
    ensure!(
        response.status() == StatusCode::CREATED,
        "a call was answered {}",
        response.status()
    );
    axum::body::to_bytes(response.into_body(), 1 << 20).await?;
    Ok(())
}
