//! A writer: holds a token that may write and nothing more.

mod epoch;
mod own_jobs;
mod patterns;
mod plan;
mod planted;
mod slow;
