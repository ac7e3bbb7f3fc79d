//! The integration tests of hapax-core, in one binary.

mod canonical;
mod decide;
mod diff;
mod tidy;
