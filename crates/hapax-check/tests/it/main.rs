//! The tests of the checker, and what it checks without a server: the simulation and the model.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps fails with the place it failed at"
)]

mod checker;
mod linear;
mod model;
mod simulation;
