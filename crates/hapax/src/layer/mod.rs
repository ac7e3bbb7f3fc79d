//! Tower middleware: a repeated request gets the recorded answer instead of running again.
//!
//! Five lines protect a service:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use std::sync::Arc;
//! use axum::{Router, body::Body, routing::post};
//! use hapax::{Engine, IdempotencyLayer, store::MemoryLedger};
//! use http::Request;
//! use tower::ServiceExt;
//!
//! let engine = Engine::new(Arc::new(MemoryLedger::new()));
//! let app = Router::new()
//!     .route("/payments", post(|| async { (http::StatusCode::CREATED, "paid") }))
//!     .layer(IdempotencyLayer::new(engine));
//!
//! let pay = |body: &'static str| {
//!     Request::post("/payments").header("idempotency-key", "order-7").body(Body::from(body)).unwrap()
//! };
//! let first = app.clone().oneshot(pay("10 EUR")).await?;
//! assert_eq!(first.status(), 201);
//!
//! // The retry is answered from the ledger, as a 201 again, and says so.
//! let again = app.clone().oneshot(pay("10 EUR")).await?;
//! assert_eq!(again.status(), 201);
//! assert_eq!(again.headers()["idempotency-replayed"], "true");
//!
//! // The refusal: the same key for another payment.
//! let other = app.oneshot(pay("99 EUR")).await?;
//! assert_eq!(other.status(), 409);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does is in the table of README.md; which requests it applies to is in [`Routes`]. A request
//! without a key passes untouched unless its route says otherwise. A client that disconnects does not
//! stop the handler: the handler runs to its end on a task of its own and its retry gets the answer.
//! Call [`Engine::drain`](crate::Engine::drain) before the process ends.

mod answer;
mod asked;
mod body;
mod budget;
mod derived;
mod encoded;
mod future;
mod grpc;
mod identity;
mod key;
#[allow(clippy::module_inception)]
mod layer;
mod named;
mod passing;
mod pattern;
mod route;
mod run;
mod service;
mod statuses;

pub use asked::Asked;
pub use body::{RequestBody, ResponseBody};
pub use budget::{Budget, Hold, Unread};
pub use derived::is_reserved;
pub use encoded::decoded_bytes_max;
pub use future::ResponseFuture;
pub use identity::{Identity, InvalidIdentity};
pub use key::{KeyError, parse_key, parse_key_strictly};
pub use layer::IdempotencyLayer;
pub use named::{InvalidRoute, pattern_meant, pattern_named};
pub use pattern::route_pattern;
pub use route::{EXCLUDED, Route, Routes};
pub use run::NotRun;
pub use service::{Idempotency, is_keyed};
pub use statuses::{HoldStatuses, InvalidStatus, Statuses};

pub use answer::{
    IDEMPOTENCY_EXPIRES, IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, X_IDEMPOTENCY_CONFLICT,
    X_IDEMPOTENCY_EXPIRED, X_IDEMPOTENCY_REPLAY, conflict_details, is_never_stored, is_stored,
    key_required, overloaded,
};
