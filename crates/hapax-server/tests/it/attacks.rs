//! Attacks on the real program, a file for each attacker. Each test names a hole that an audit found, and failed before it was closed.

mod database_reader;
mod neighbour;
mod stranger;
mod upstream;
mod writer;

use crate::fixture::{Server, json, path};

/// A new token, made by the command line beside a server whose store these flags name.
fn token_of(server: &Server, store: &[String], tenant: &str, role: &str) -> String {
    let data = server.data();
    let mut words = vec!["token", "create", "--tenant", tenant, "--role", role];
    words.extend(store.iter().map(String::as_str));
    words.extend(["--data", path(&data)]);
    json(&words)["token"].as_str().unwrap().to_owned()
}
