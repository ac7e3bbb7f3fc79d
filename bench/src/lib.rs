//! What the suites of `bench/` share: CPU of processes, latencies, and the report.
//!
//! A rate says as much about the machine as about the program, and this machine is shared. So each suite
//! measures everything it compares in one run, counts CPU beside the rate, and states what it found as
//! ratios with the value we want.

pub mod chance;
pub mod command;
pub mod cpu;
pub mod latency;
pub mod report;
