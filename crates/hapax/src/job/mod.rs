//! Jobs of several steps: lease one, run its effects, record each once, and go on after a crash where it stopped.
//!
//! - [`Held`] is one leased job. It renews itself and knows when it is lost.
//! - [`Held::run`] runs one [`Effect`] and records its result, together with the job's next state.
//! - [`Plan`] is a graph of named effects; [`drive`] runs it and ends the job.
//! - [`Worker`] leases jobs of all tenants and hands each to the [`Handler`] of its kind.
//!
//! Recording is exactly once. What an effect does to the world is once if its key goes downstream or if it commits
//! with its record; otherwise its [`Class`] says what a crash in the middle of it means, and there is no default.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use hapax::core::Tenant;
//! use hapax::job::{Act, Ask, Class, Deed, Effect, EffectError, Fault, Fence, Held, NewJob, On, Queue};
//! use hapax::job::testing::MemoryQueue;
//! use std::sync::Arc;
//!
//! let queue: Arc<dyn Queue> = Arc::new(MemoryQueue::new());
//! queue.plan(Tenant::DEFAULT, vec![NewJob::download("w-1", "a-1", "https://example.org/paper.pdf")?]).await?;
//! let held = Held::lease(&queue, Tenant::DEFAULT, Ask::by("worker-1")).await?.remove(0);
//!
//! // Another worker takes the job while the effect runs: the late one records nothing.
//! let id = held.job().id.clone();
//! let head = Effect::new("HEAD", Class::Replayable);
//! let late = held.run(&head, |_op| async {
//!     let back = Act { on: On::Job(id), fence: Fence::of("worker-1", 1), deed: Deed::Release };
//!     queue.apply(Tenant::DEFAULT, vec![back]).await.map_err(|error| Fault::retryable(error.to_string()))?;
//!     let other = Held::lease(&queue, Tenant::DEFAULT, Ask::by("worker-2")).await;
//!     assert_eq!(other.map(|other| other.len()).ok(), Some(1));
//!     Ok(200)
//! });
//! assert!(matches!(late.await, Err(EffectError::Lost)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod effect;
mod held;
mod pause;
mod plan;
mod run;
#[cfg(feature = "testing")]
pub mod testing;
mod worker;

pub use effect::{Effect, EffectError, Fault, Probed, Ran};
pub use held::{Held, HeldError};
pub use plan::{
    Draft, END, Ended, Event, Events, Node, Outline, Plan, PlanError, Retry, Step, Unsound, drive,
};
pub use worker::{Handler, Handling, Identity, Worker, take_back_dead};

pub use hapax_core::job::{
    Act, Ask, Begun, Class, Deed, Done, Fence, Hold, Job, JobId, JobKind, JobPage, JobScan, NewJob,
    On, Op, OpKey, OpState, Place, Planned, Queue, Ready, Refusal, Resolution, Stale, State, Tally,
    job_key, op_key,
};
