//! The client against servers that answer by script, lose answers, or run the layer.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod end_to_end;
mod keys;
mod lossy;
mod refusals;
mod script;
mod tries;

use std::time::Duration;

use hapax::client::{Builder, Client};

/// A client that does not wait long between tries.
fn quick() -> Builder {
    Client::builder()
        .backoff(Duration::from_millis(1), Duration::from_millis(5))
        .http(reqwest_without_proxy)
}

fn client() -> Client {
    quick().build().unwrap()
}

/// The environment of whoever runs the tests may name a proxy; loopback needs none.
fn reqwest_without_proxy(http: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    http.no_proxy()
}
