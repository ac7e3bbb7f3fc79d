//! The suite of stores of snapshots: putting payloads, their history, lists, observations, and hashes filled in.
//! Every case goes through the seam only, so that it holds for every store.

pub mod filling;
pub mod history;
pub mod isolation;
pub mod listing;
pub mod observing;
pub mod putting;
pub mod texts;

mod subject;

pub use subject::SnapshotSubject;
