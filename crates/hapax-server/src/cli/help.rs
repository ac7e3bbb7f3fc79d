//! The help of each command: its own flags first, and no flag that means nothing to it.

use clap::{Command, CommandFactory};

use super::Cli;

/// Taken by every command, and explained by `hapax --help` and `hapax serve --help` only.
const REDIS: [&str; 2] = ["redis", "redis_mode"];
const STORE: [&str; 3] = ["config", "data", "database"];
const JSON: [&str; 1] = ["json"];

/// Commands that open no store.
const WITHOUT_STORE: [&str; 5] = ["key", "openapi", "completions", "man", "version"];
/// Commands that print nothing for machines.
const WITHOUT_JSON: [&str; 6] = ["serve", "proxy", "worker", "openapi", "completions", "man"];

const MORE: &str =
    "`hapax --help` explains --redis and --redis-mode, which this command takes too.";

/// The command line, with the help that each command shows.
pub(crate) fn command() -> Command {
    let mut whole = Cli::command();
    // Flags that every command takes reach it here, so that they can be left out of its help.
    whole.build();
    whole.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        let mut hidden = Vec::new();
        if name != "serve" {
            hidden.extend(REDIS);
        }
        if WITHOUT_STORE.contains(&&*name) {
            hidden.extend(STORE);
        }
        if WITHOUT_JSON.contains(&&*name) {
            hidden.extend(JSON);
        }
        let explains = !hidden.contains(&STORE[0]) && hidden.contains(&REDIS[0]);
        tidied(command, &hidden, explains)
    })
}

fn tidied(command: Command, hidden: &[&str], explains: bool) -> Command {
    let command = if explains && !command.has_subcommands() {
        command.after_help(MORE)
    } else {
        command
    };
    command
        .mut_args(|arg| {
            if hidden.contains(&arg.get_id().as_str()) {
                arg.hide(true)
            } else {
                arg
            }
        })
        .mut_subcommands(|command| tidied(command, hidden, explains))
}
