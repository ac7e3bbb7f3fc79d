//! The integration tests of hapax-core, in one binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with the place it failed at"
)]

mod canonical;
mod decide;
mod diff;
mod entry;
mod job;
mod job_history;
mod job_key;
mod overrule;
mod tidy;
