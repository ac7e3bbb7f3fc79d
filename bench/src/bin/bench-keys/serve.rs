//! The servers that are measured, each in a process of its own: `bench-keys serve`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use clap::{Args, ValueEnum};
use hapax::core::Ledger;
use hapax::store::postgres::PgOptions;
use hapax::store::sqlite::SqliteOptions;
use hapax::store::{MemoryLedger, PgLedger, SqliteLedger};
use hapax::{Engine, IdempotencyLayer};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::plain;

/// What stands in front of the handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Front {
    /// Nothing.
    Bare,
    /// The layer, in memory.
    Memory,
    /// The layer on SQLite, synced at every commit.
    Sqlite,
    /// The layer on PostgreSQL.
    Postgres,
    /// A ledger on the same tables that makes two transactions for each request.
    Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// What stands in front of the handler.
    #[arg(long)]
    front: Front,
    /// The SQLite file.
    #[arg(long, default_value = "keys.db")]
    file: PathBuf,
    /// How much of settled outcomes the layer keeps in memory.
    #[arg(long, default_value_t = 64 << 20)]
    cache_bytes: usize,
    /// The PostgreSQL database.
    #[arg(long, default_value = "")]
    database: String,
}

impl Serve {
    /// Serves until it is killed.
    pub(crate) async fn run(&self) -> Result<()> {
        let router = self.router().await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on http://{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        axum::serve(listener, router).await.context("serving")
    }

    /// The handler with what stands in front of it.
    pub(crate) async fn router(&self) -> Result<Router> {
        let bare = payments();
        let ledger: Arc<dyn Ledger> = match self.front {
            Front::Bare => return Ok(bare),
            Front::Plain => return plain::around(bare, &self.database).await,
            Front::Memory => Arc::new(MemoryLedger::new()),
            Front::Sqlite => Arc::new(SqliteLedger::open(&self.file, SqliteOptions::default())?),
            Front::Postgres => {
                Arc::new(PgLedger::open(&self.database, PgOptions::default()).await?)
            }
        };
        let engine = Engine::with_cache_bytes(ledger, self.cache_bytes);
        Ok(bare.layer(IdempotencyLayer::new(engine)))
    }
}

/// What is asked. A field that is missing is refused, as by any real handler.
#[derive(Deserialize)]
struct Payment {
    amount: u64,
    currency: String,
    customer: String,
    description: String,
    reference: String,
}

/// What is answered: about 200 bytes.
#[derive(Serialize)]
struct Paid {
    id: String,
    status: &'static str,
    amount: u64,
    currency: String,
    customer: String,
    description: String,
    reference: String,
}

/// The service: it takes a payment and answers with its number.
fn payments() -> Router {
    let number = Arc::new(AtomicU64::new(1));
    let pay = move |Json(asked): Json<Payment>| async move {
        let paid = Paid {
            id: format!("pay_{:012}", number.fetch_add(1, Ordering::Relaxed)),
            status: "succeeded",
            amount: asked.amount,
            currency: asked.currency,
            customer: asked.customer,
            description: asked.description,
            reference: asked.reference,
        };
        (StatusCode::CREATED, Json(paid))
    };
    Router::new().route("/payments", post(pay))
}
