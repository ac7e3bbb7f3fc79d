//! The effects against real files and a server that misbehaves, on loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod enrich_answers;
mod enrich_batches;
mod enrich_calls;
mod enrich_real;
mod enrich_seen;
mod folders;
mod gateways;
mod hostile;
mod places;
mod plans;
mod reconciles;
mod refusals;
mod streams;
