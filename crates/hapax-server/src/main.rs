//! The program hapax: a server for idempotency keys, and the commands around it.
//! It decides nothing about keys; `hapax-core` does.

#[cfg(debug_assertions)]
mod abort;
mod answer;
mod api;
mod auth;
mod body;
mod busy;
mod chores;
mod cli;
mod cmd;
mod config;
mod enrich;
mod exit;
mod first_token;
mod framing;
mod greeting;
mod import;
mod intents;
mod keep;
mod live;
mod log;
mod metrics;
mod otlp;
mod out;
mod pages;
mod peers;
mod problem;
mod proxy;
mod rates;
mod serve;
mod store;
mod throttle;
mod token;
mod trace;
mod worker;

use std::process::ExitCode;

use crate::cli::Cli;

/// Entries, records and bodies are made on one thread and let go of on another, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Cli::parse_process().and_then(cmd::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !exit::is_quiet(&error) {
                out::error(&error);
            }
            exit::code(&error)
        }
    }
}
