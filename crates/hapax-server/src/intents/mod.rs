//! Intents below their door: a receipt is a job of kind `intent`, and everything that happens to it is one of its
//! operations. No route and no setting is read here.
//!
//! - [`inbox`] makes the job of a received packet, and reads it back.
//! - [`graph`] is what a worker does: PLAN, then CLARIFY, ACT or OUTCOME.
//! - [`receipt`] shows how a receipt stands, from what is stored.
//! - [`desk`] is where this process works on them, and where callers wait.
//! - [`act`] is what a person may do to one: answer its question, run it again.

pub(crate) mod act;
pub(crate) mod desk;
pub(crate) mod graph;
pub(crate) mod inbox;
pub(crate) mod receipt;
pub(crate) mod stored;
mod trouble;

#[cfg(test)]
mod tests;
