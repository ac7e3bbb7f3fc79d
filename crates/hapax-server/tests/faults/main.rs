//! What the program does when the machine fails it: the power is lost, it dies at any call, the disk errs or fills, it is
//! paused, its clock is wrong, the network breaks. The real program is watched and hurt from outside, with strace where
//! that is the way; what it promised is held against what the real store finds afterwards.
//!
//! Short versions run in `./test`; `dev/faults` runs the long ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod disk;
#[allow(dead_code, reason = "the other tests use the rest of it")]
#[path = "../it/http.rs"]
mod http;
mod nth;
mod power;
mod program;
mod promise;
#[allow(dead_code, reason = "the other tests use the rest of it")]
#[path = "../it/proxy/upstream.rs"]
mod upstream;
