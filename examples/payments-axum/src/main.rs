//! A payment service that charges once, however often it is asked. What hapax adds is in `main`; the
//! service itself, in `payments`, knows nothing of it.

mod payments;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hapax::store::sqlite::{SqliteLedger, SqliteOptions};
use hapax::{Engine, IdempotencyLayer};
use payments::Book;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let book = Book::open(Path::new("payments.jsonl")).await?;

    let ledger = SqliteLedger::open(Path::new("payments.db"), SqliteOptions::default())?;
    let engine = Engine::new(Arc::new(ledger));
    let app = payments::routes(book).layer(IdempotencyLayer::new(engine.clone()));

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    // Handlers whose clients went away still run: let them finish and record their answers.
    engine.drain(Duration::from_secs(10)).await;
    Ok(())
}
