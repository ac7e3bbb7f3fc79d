//! Paying twice, one after the other, at the same time, and after a restart: it is one payment.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use hapax::store::sqlite::{SqliteLedger, SqliteOptions};
use hapax::{Engine, IdempotencyLayer};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::payments::{self, Book};

/// The service as `main` makes it, on files in `folder`.
async fn open(folder: &Path) -> (Router, Book) {
    let book = Book::open(&folder.join("payments.jsonl")).await.unwrap();
    let ledger = SqliteLedger::open(&folder.join("payments.db"), SqliteOptions::default()).unwrap();
    let layer = IdempotencyLayer::new(Engine::new(Arc::new(ledger)));
    (payments::routes(book.clone()).layer(layer), book)
}

async fn pay(app: Router, key: &str, amount: u64) -> (StatusCode, HeaderMap, Value) {
    let request = Request::post("/payments")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(json!({"amount": amount}).to_string()))
        .unwrap();
    let response = app.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 1024 * 1024).await.unwrap();
    (
        parts.status,
        parts.headers,
        serde_json::from_slice(&body).unwrap(),
    )
}

#[tokio::test]
async fn the_second_post_gets_the_first_payment_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (app, book) = open(folder.path()).await;

    let (status, headers, first) = pay(app.clone(), "order-7", 1000).await;
    assert_eq!(status, StatusCode::CREATED);
    assert!(!headers.contains_key("idempotency-replayed"));

    let (status, headers, second) = pay(app.clone(), "order-7", 1000).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(headers["idempotency-replayed"], "true");
    assert_eq!(second["id"], first["id"]);
    assert_eq!(book.payments().await, std::slice::from_ref(&first));

    // Another order is another payment.
    let (_, _, other) = pay(app, "order-8", 1000).await;
    assert_ne!(other["id"], first["id"]);
}

#[tokio::test]
async fn the_same_key_for_another_amount_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (app, book) = open(folder.path()).await;
    pay(app.clone(), "order-7", 1000).await;

    let (status, headers, body) = pay(app, "order-7", 9900).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(headers["x-idempotency-conflict"], "body-mismatch");
    assert_eq!(body["error"]["code"], "IDEMPOTENCY_CONFLICT");
    assert_eq!(
        body["error"]["details"]["diff_summary"],
        json!(["amount: '1000' → '9900'"])
    );
    assert_eq!(book.payments().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_at_the_same_time_make_one_payment() {
    let folder = tempfile::tempdir().unwrap();
    let (app, book) = open(folder.path()).await;

    let posts: Vec<_> = (0..16)
        .map(|_| tokio::spawn(pay(app.clone(), "order-7", 1000)))
        .collect();
    let mut made = 0;
    for post in posts {
        let (status, headers, body) = post.await.unwrap();
        match status {
            StatusCode::CREATED => {
                assert_eq!(body["id"], 1);
                made += u32::from(!headers.contains_key("idempotency-replayed"));
            }
            // Too early for the answer: the caller is told to come back.
            StatusCode::CONFLICT => {
                assert_eq!(body["error"]["code"], "IDEMPOTENCY_IN_PROGRESS");
                assert!(headers.contains_key("retry-after"));
            }
            other => panic!("{other}: {body}"),
        }
    }
    assert_eq!(made, 1, "one post made the payment");
    assert_eq!(book.payments().await.len(), 1);
    let (_, headers, body) = pay(app, "order-7", 1000).await;
    assert_eq!(
        (&headers["idempotency-replayed"], &body["id"]),
        (&"true".parse().unwrap(), &json!(1))
    );
}

#[tokio::test]
async fn a_restart_forgets_neither_the_payment_nor_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _) = open(folder.path()).await;
    let (_, _, first) = pay(app, "order-7", 1000).await;

    let (app, book) = open(folder.path()).await;
    let (_, headers, second) = pay(app, "order-7", 1000).await;
    assert_eq!(headers["idempotency-replayed"], "true");
    assert_eq!(second, first);
    assert_eq!(book.payments().await, [first]);
}
