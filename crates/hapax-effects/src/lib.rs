//! Hands: what jobs do to the world. Each effect says what it is, so that a crash in the middle is never a guess.
//!
//! - [`download`] fetches a URL into a folder whose files are named by what they hold.
//! - [`enrich`] asks a language model what a text is about, through LiteLLM.
//! - [`gateway`] sends one action to the operator's own gateway, under a key that it knows again.
//! - [`reconcile`] compares database and disk both ways, and heals what a crash left behind.
//!
//! Nothing here decides what a job is or who may run it: that is [`hapax_core::job`].

mod client;
pub mod download;
pub mod enrich;
pub mod gateway;
pub mod reconcile;
