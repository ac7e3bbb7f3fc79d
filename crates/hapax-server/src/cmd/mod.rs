//! One file per command. Each prints for people or, with `--json`, for machines.

mod backfill;
mod bench;
mod build;
mod config;
mod doctor;
mod download;
mod import;
mod jobs;
mod key;
mod keys;
mod migrate;
mod policies;
mod proxy;
pub(crate) mod reconcile;
mod routes;
mod serve;
pub(crate) mod sweep;
mod token;
mod vault;
mod worker;

use std::future::Future;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::api::openapi;
use crate::cli::{self, Cli, Command, Import};
use crate::out;

/// Runs the command that `cli` names.
///
/// # Errors
/// Whatever the command met; `exit` knows the exit code.
pub(crate) fn run(cli: Cli) -> Result<()> {
    match cli.command {
        None => wait(serve::run(&cli.serve)),
        Some(Command::Serve(args)) => wait(serve::run(&args)),
        Some(Command::Proxy(args)) => wait(proxy::run(&args)),
        Some(Command::Worker(args)) => wait(worker::run(&args)),
        Some(Command::Download(args)) => wait(download::run(&args)),
        Some(Command::Import(Import::Mbox(args))) => wait(import::run(&args)),
        Some(Command::Key(args)) => key::run(&args),
        Some(Command::Token(args)) => wait(token::run(&args)),
        Some(Command::Migrate(args)) => wait(migrate::run(&args)),
        Some(Command::Doctor(args)) => wait(doctor::run(&args)),
        Some(Command::Keys(args)) => wait(keys::run(&args)),
        Some(Command::Jobs(args)) => wait(jobs::run(&args)),
        Some(Command::Policies(args)) => wait(policies::run(&args)),
        Some(Command::Routes(args)) => routes::run(&args),
        Some(Command::Reconcile(args)) => wait(reconcile::run(&args)),
        Some(Command::Backfill(args)) => wait(backfill::run(&args)),
        Some(Command::Vault(args)) => wait(vault::run(&args)),
        Some(Command::Bench(args)) => wait(bench::run(&args)),
        Some(Command::Sweep(args)) => wait(sweep::run(&args)),
        Some(Command::Openapi) => out::bytes(openapi::text().as_bytes()),
        Some(Command::Config(args)) => config::run(&args),
        Some(Command::Completions { shell }) => completions(shell),
        Some(Command::Man) => manual(),
        Some(Command::Version { json }) => build::run(json),
    }
}

/// The script that a shell reads to complete what is typed.
fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "hapax", &mut script);
    out::bytes(&script)
}

/// The manual page: the program, then each of its commands.
fn manual() -> Result<()> {
    let mut page = Vec::new();
    let whole = cli::command();
    clap_mangen::Man::new(whole.clone()).render(&mut page)?;
    for command in whole.get_subcommands() {
        describe(command, &format!("hapax {}", command.get_name()), &mut page)?;
    }
    out::bytes(&page)
}

/// A section about a command, and one about each command of it.
fn describe(command: &clap::Command, name: &str, page: &mut Vec<u8>) -> Result<()> {
    if command.is_hide_set() || command.get_name() == "help" {
        return Ok(());
    }
    let man = clap_mangen::Man::new(command.clone());
    writeln!(page, ".SH \"{}\"", name.to_uppercase())?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    for below in command.get_subcommands() {
        describe(below, &format!("{name} {}", below.get_name()), page)?;
    }
    Ok(())
}

fn wait(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let ended = runtime.block_on(command);
    // What still blocks a thread, such as a look-up of a name, does not hold the end up.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}
