//! The client and the layer together: whatever the wire loses, the handler runs once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use hapax::client::Error;
use hapax::core::{Key, Scope, State, Tenant};
use hapax::store::MemoryLedger;
use hapax::{Engine, IdempotencyLayer};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::client;
use super::lossy::Lossy;

struct Shop {
    engine: Engine,
    address: SocketAddr,
    runs: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A shop whose handler takes `pause` and answers with the number of its run.
async fn shop(pause: Duration) -> Shop {
    let engine = Engine::new(Arc::new(MemoryLedger::new()));
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let pay = async move |Json(asked): Json<Value>| {
        let run = count.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(pause).await;
        (
            StatusCode::CREATED,
            Json(json!({"run": run, "paid": asked["amount"]})),
        )
    };
    let app = Router::new()
        .route("/payments", post(pay))
        .layer(IdempotencyLayer::new(engine.clone()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    Shop {
        engine,
        address,
        runs,
        task,
    }
}

#[tokio::test]
async fn the_handler_runs_once_although_the_answers_are_lost() {
    let shop = shop(Duration::ZERO).await;
    let wire = Lossy::start(shop.address, 2).await;
    let request = client()
        .post(format!("{}/payments", wire.url))
        .key(Key::new("order-7").unwrap());
    let answer = request.json(&json!({"amount": 10})).send().await.unwrap();

    assert_eq!(
        (answer.status, answer.attempts, answer.replayed),
        (StatusCode::CREATED, 3, true)
    );
    assert_eq!(
        answer.json::<Value>().unwrap(),
        json!({"run": 1, "paid": 10})
    );
    assert_eq!(shop.runs.load(Ordering::SeqCst), 1);
    let scope = Scope::new(Tenant::DEFAULT, "POST:payments").unwrap();
    let record = shop
        .engine
        .find(&scope, &answer.key)
        .await
        .unwrap()
        .unwrap();
    let State::Settled { outcome, .. } = &record.state else {
        panic!("{record:?}")
    };
    assert_eq!(outcome.status, 201);
    assert_eq!(outcome.whole().unwrap(), &answer.body);
}

#[tokio::test]
async fn a_double_click_gets_one_payment_and_both_get_its_answer() {
    let shop = shop(Duration::from_millis(100)).await;
    let url = format!("http://{}/payments", shop.address);
    let pay = || {
        let request = client().post(&url).key(Key::new("order-7").unwrap());
        request.json(&json!({"amount": 10})).attempts(100).send()
    };
    // Spawned: what `send` gives may move between threads.
    let (one, two) = (tokio::spawn(pay()), tokio::spawn(pay()));
    let (one, two) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());
    assert_eq!(one.body, two.body);
    assert!(one.replayed != two.replayed, "one ran, one was told");
    assert_eq!(shop.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_layers_conflict_is_the_clients_conflict() {
    let shop = shop(Duration::ZERO).await;
    let url = format!("http://{}/payments", shop.address);
    let pay = |amount: u32, accept: &'static str| {
        let request = client().post(&url).key(Key::new("order-7").unwrap());
        request
            .header("accept", accept)
            .json(&json!({"amount": amount}))
            .send()
    };
    pay(10, "*/*").await.unwrap();
    for accept in ["*/*", "application/problem+json"] {
        let error = pay(99, accept).await.unwrap_err();
        let Error::Conflict {
            conflict,
            attempts: 1,
            ..
        } = error
        else {
            panic!("{error:?}")
        };
        assert_eq!(conflict.diff_summary, ["amount: '10' → '99'"]);
        assert_eq!(conflict.original_key.as_deref(), Some("order-7"));
        assert!(conflict.original_hash.is_some() && conflict.retry_after.is_some());
    }
    assert_eq!(shop.runs.load(Ordering::SeqCst), 1);
}
