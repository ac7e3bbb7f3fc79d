//! The service: takes payments and keeps them in a file, one JSON document per line. The file stands for
//! your database; nothing here knows about keys or retries.

use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

/// The payments, in the order they were made.
#[derive(Clone, Debug)]
pub(crate) struct Book(Arc<Mutex<Pages>>);

#[derive(Debug)]
struct Pages {
    file: File,
    payments: Vec<Value>,
}

impl Book {
    /// Opens the book at `path`, with what is in it, or begins a new one.
    pub(crate) async fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .await?;
        let text = fs::read_to_string(path).await?;
        let payments = text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Mutex::new(Pages { file, payments }))))
    }

    /// All payments.
    pub(crate) async fn payments(&self) -> Vec<Value> {
        self.0.lock().await.payments.clone()
    }

    /// Makes a payment, and answers when it is on the disk.
    async fn pay(&self, amount: u64) -> io::Result<Value> {
        let mut pages = self.0.lock().await;
        let payment = json!({"id": pages.payments.len() + 1, "amount": amount});
        pages
            .file
            .write_all(format!("{payment}\n").as_bytes())
            .await?;
        pages.file.sync_data().await?;
        pages.payments.push(payment.clone());
        Ok(payment)
    }
}

/// The routes of the service.
pub(crate) fn routes(book: Book) -> Router {
    Router::new()
        .route("/payments", post(pay).get(list))
        .with_state(book)
}

async fn pay(State(book): State<Book>, Json(asked): Json<Value>) -> (StatusCode, Json<Value>) {
    let Some(amount) = asked["amount"].as_u64() else {
        return (
            StatusCode::UNPROCESSABLE_ENTITY,
            Json(json!({"error": "amount is a whole number of cents"})),
        );
    };
    match book.pay(amount).await {
        Ok(payment) => (StatusCode::CREATED, Json(payment)),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            Json(json!({"error": error.to_string()})),
        ),
    }
}

async fn list(State(book): State<Book>) -> Json<Vec<Value>> {
    Json(book.payments().await)
}
