//! Attacks on the real program, a file for each attacker. Each test names a hole that an audit found, and failed before it was closed.

mod database_reader;
mod neighbour;
mod stranger;
mod upstream;
mod writer;
