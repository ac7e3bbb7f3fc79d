//! The integration tests of hapax, in one binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with the place it failed at"
)]

mod answers;
mod bodies;
mod callers;
mod client;
mod engine;
mod faulty;
mod job;
mod layer;
mod operator;
mod options;
mod replays;
mod streams;
mod wakeups;
