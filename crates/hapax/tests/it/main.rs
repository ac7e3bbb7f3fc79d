//! The integration tests of hapax, in one binary.

mod client;
mod engine;
mod faulty;
mod layer;
