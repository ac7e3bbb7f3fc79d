//! An HTTP client that sends a request under its key and retries until there is an answer.
//! It knows nothing of ledgers: the server at the other end does the recording.
//!
//! Every writing request carries an `Idempotency-Key`: yours ([`Request::key`]), one derived from the
//! content ([`Request::derived_key`]), or a new UUIDv7. All tries of one request carry the same key, so a
//! server that records its answers, such as one behind `hapax::IdempotencyLayer`, acts once and answers
//! every try alike. If this process may die in between, have the key stored first: [`Request::persist`].
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use std::sync::Arc;
//! use axum::{Json, Router, routing::post};
//! use hapax::client::{Client, Error};
//! use hapax::core::Key;
//! use hapax::{Engine, IdempotencyLayer, store::MemoryLedger};
//! use serde_json::{Value, json};
//!
//! // The server: it answers with what it was asked, and records that.
//! let engine = Engine::new(Arc::new(MemoryLedger::new()));
//! let app = Router::new()
//!     .route("/payments", post(|Json(asked): Json<Value>| async move { Json(json!({"paid": asked["amount"]})) }))
//!     .layer(IdempotencyLayer::new(engine));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let url = format!("http://{}/payments", listener.local_addr()?);
//! tokio::spawn(async move { axum::serve(listener, app).await });
//!
//! let client = Client::new()?;
//! let pay = |amount: u32| client.post(&url).key(Key::new("order-7").unwrap()).json(&json!({"amount": amount}));
//!
//! let first = pay(10).send().await?;
//! assert_eq!(first.json::<Value>()?["paid"], 10);
//! assert!(!first.replayed);
//! assert!(pay(10).send().await?.replayed, "the second answer is the recorded first one");
//!
//! // The refusal: the same key for another payment. It is not retried.
//! let Err(Error::Conflict { conflict, attempts: 1, .. }) = pay(99).send().await else { panic!() };
//! assert_eq!(conflict.diff_summary, ["amount: '10' → '99'"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is tried again
//! | seen | then |
//! |---|---|
//! | no connection, a broken one, no answer in time | try again |
//! | 408, 425, 429, 500, 502, 503, 504 | try again |
//! | `IDEMPOTENCY_IN_PROGRESS` | try again |
//! | `IDEMPOTENCY_CONFLICT` | what [`OnConflict`] says; by default [`Error::Conflict`] |
//! | `IDEMPOTENCY_IN_DOUBT` | [`Error::InDoubt`] |
//! | 307, 308 to the same origin | followed, with the same key |
//! | any other 301, 302, 307, 308 | [`Error::Redirected`]: a key never goes to another origin |
//! | any other 4xx or 5xx, or any that is a replay | [`Error::Refused`] |
//! | everything else | [`Answer`] |
//!
//! A try waits for a random part ("full jitter") of a span that doubles from [`Builder::backoff`]'s base to
//! its cap, and at least for as long as `Retry-After` says. Tries end at [`Request::attempts`] or
//! [`Request::deadline`], whichever comes first; a wait that would outlast the deadline is not begun.

mod answer;
mod attempt;
mod backoff;
mod builder;
mod conflict;
mod derive;
mod error;
mod limits;
mod persist;
mod refusal;
mod request;
mod send;
mod transport;
mod verdict;

pub use answer::Answer;
pub use builder::{Builder, Client};
pub use conflict::{Conflict, OnConflict, Resolution};
pub use error::Error;
pub use limits::{ATTEMPTS_MAX, DEADLINE_MAX};
pub use refusal::Refusal;
pub use request::Request;

/// The error of somebody else's code.
type BoxError = Box<dyn std::error::Error + Send + Sync>;
