//! The suite of queues: planning, leasing and acting on jobs, and what their operations record.
//! Every case goes through the seam only, so that it holds for every store.

pub mod batches;
pub mod beginning;
pub mod ending;
pub mod failing;
pub mod fencing;
pub mod isolation;
pub mod leasing;
pub mod listing;
pub mod planning;
pub mod questions;
pub mod reconciling;
pub mod steps;

mod subject;

pub use subject::QueueSubject;
