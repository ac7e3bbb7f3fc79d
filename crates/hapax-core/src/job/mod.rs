//! Jobs and their operations: the words, the state graph, and the rule that every queue follows.
//!
//! A job is planned once per key, leased by one worker at a time, and moved along a graph of states. What a
//! worker does to the world under a job is an operation, and its result is recorded once. Stores decide
//! nothing: [`take`] says what a lease does to a job and [`judge()`] says what every other act does.
//!
//! ```
//! use hapax_core::job::{Act, Deed, Fence, Job, Knock, NewJob, On, Refusal, State, Taken, judge, take};
//! use hapax_core::{Tenant, Time};
//! use std::time::Duration;
//!
//! let now = Time::from_ms(1_000_000);
//! let planned = NewJob::download("w-1", "a-1", "https://example.org/paper.pdf")?.at(Tenant::DEFAULT, 1, now);
//! let Taken::Leased(job) = take(&planned, "worker-1", Duration::from_secs(120), now) else { panic!() };
//! assert_eq!((job.state, job.epoch, job.attempts), (State::Leased, 1, 1));
//!
//! // The holder moves it along the graph.
//! let forward = |to| Deed::Advance { to, allowed_from: None, result: None };
//! let act = Act { on: On::Job(job.id.clone()), fence: Fence::of("worker-1", 1), deed: forward(State::HeadDone) };
//! let change = judge(Knock { job: Some(&job), op: None, now }, &act)?;
//! assert_eq!(change.job.expect("it moved").state, State::HeadDone);
//!
//! // The refusals: a step that the graph does not have, and a worker whose lease is no longer the last one.
//! let leap = Act { deed: forward(State::Indexed), ..act.clone() };
//! assert!(matches!(judge(Knock { job: Some(&job), op: None, now }, &leap), Err(Refusal::Denied { .. })));
//! let stale = Act { fence: Fence::of("worker-0", 0), ..act };
//! assert!(matches!(judge(Knock { job: Some(&job), op: None, now }, &stale), Err(Refusal::LeaseLost { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to read on: [`mod@judge`] is the whole semantics, [`queue`] is the seam that stores implement.

pub mod act;
pub mod backoff;
pub mod graph;
pub mod judge;
pub mod key;
pub mod model;
pub mod op;
pub mod queue;

pub use act::{Act, Begun, By, Change, Deed, Done, Fence, On, Refusal, Resolution};
pub use graph::State;
pub use judge::{Knock, Taken, judge, take};
pub use key::{job_key, op_key};
pub use model::{Hold, Job, JobId, JobKind, NewJob, Place};
pub use op::{Class, Op, OpKey, OpState};
pub use queue::{Ask, JobPage, JobScan, Planned, Queue, Ready, Stale, Tally};
