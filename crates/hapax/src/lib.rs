//! Do it once: retries, double clicks, re-deliveries and crashed workers, made safe.
//!
//! - [`layer`] makes any tower service answer a repeated request with the recorded answer.
//! - [`Engine`] does the same for code that is not HTTP: claim a key, run, record the outcome once.
//! - [`job`] does the same for work that takes several steps: lease a job, run its effects, record each once.
//! - [`client`] sends a request with its key and retries until there is an answer.
//!
//! Recording is once. What the code in between does to the world is once if it happens in the same
//! transaction, or carries its key downstream; otherwise the policy of the key says whether a crash in
//! the middle means "run again" or "in doubt".

#[cfg(feature = "client")]
pub mod client;
pub mod engine;
#[cfg(feature = "jobs")]
pub mod job;
#[cfg(feature = "layer")]
pub mod layer;
pub mod observe;
mod pattern;
#[cfg(any(feature = "layer", feature = "client"))]
pub mod problem;

pub use engine::{Claimed, Engine, Once, Outliving, Ruled, Settled};
#[cfg(feature = "layer")]
pub use layer::IdempotencyLayer;
pub use observe::Observer;

/// The words and the rule: [`hapax_core`].
pub use hapax_core as core;
/// The ledgers: [`hapax_store`].
pub use hapax_store as store;
