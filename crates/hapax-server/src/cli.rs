//! The command line: names, flags and help. What a command does is in `cmd`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use hapax_core::Tenant;
use hapax_core::canonical::Profile;
use hapax_store::{Role, TokenId};

use crate::config::Flags;

/// Idempotency keys as a service: a key is claimed once, and its outcome is recorded once.
///
/// Without a command, serves.
#[derive(Parser, Debug)]
#[command(name = "hapax", version, args_conflicts_with_subcommands = true, after_help = PRECEDENCE)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: Serve,
}

const PRECEDENCE: &str =
    "A flag wins over a variable (HAPAX_LISTEN, HAPAX_DATA, HAPAX_DATABASE, HAPAX_CONFIG), \
a variable over the config file, the file over the default. hapax.default.toml lists every key.
Exit codes: 0 done, 1 failed, 2 wrong use.";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Serve the HTTP API.
    Serve(Serve),
    /// Stand in front of any HTTP service and make its requests idempotent.
    Proxy(Proxy),
    /// Print the canonical sha256 of a JSON document.
    Key(Key),
    /// Make, list and revoke access tokens.
    #[command(subcommand)]
    Token(Token),
    /// Bring the database up to date.
    Migrate(Plain),
    /// Look at the configuration, the data folder, the database and the port, and say what to do.
    Doctor(Doctor),
    /// List, show, remove, settle and erase keys.
    #[command(subcommand)]
    Keys(Keys),
    /// Look after the keys that encrypt what is stored.
    #[command(subcommand)]
    Vault(Vault),
    /// Remove what has expired, now.
    Sweep(Plain),
}

/// Where the store is.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct Store {
    /// Config file, TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for everything that is not the database [default: hapax-data].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// `sqlite:PATH` or `postgres://…` [default: SQLite in the data folder].
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
}

impl Store {
    pub(crate) fn flags(&self) -> Flags {
        let Self {
            config,
            data,
            database,
        } = self.clone();
        Flags {
            config,
            data,
            database,
            listen: None,
        }
    }
}

#[derive(Args, Debug, Default)]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:8088].
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) store: Store,
    /// Answer without tokens. Only on loopback, for trying things out.
    #[arg(long)]
    pub(crate) insecure_no_auth: bool,
    /// Run no jobs in this process. There are none to run yet, so this changes nothing.
    #[arg(long)]
    pub(crate) no_worker: bool,
}

impl Serve {
    pub(crate) fn flags(&self) -> Flags {
        Flags {
            listen: self.listen.clone(),
            ..self.store.flags()
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Proxy {
    /// The service behind: http://HOST:PORT or https://HOST, with a path if it serves below one.
    #[arg(
        long,
        value_name = "URL",
        env = "HAPAX_PROXY_UPSTREAM",
        hide_env_values = true
    )]
    pub(crate) upstream: Option<String>,
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:8089].
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "HAPAX_LISTEN",
        hide_env_values = true
    )]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) store: Store,
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The address that `hapax serve` shall use [default: 127.0.0.1:8088].
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

/// A command with nothing but the store and the form of its output.
#[derive(Args, Debug)]
pub(crate) struct Plain {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Key {
    /// hcj-1, or one of the verify-only forms py-json, py-json-utf8, js-sorted, thorbis16.
    #[arg(long, default_value = "hcj-1")]
    pub(crate) profile: Profile,
    /// Print the canonical bytes instead of their hash, without a newline.
    #[arg(long)]
    pub(crate) canon: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "canon")]
    pub(crate) json: bool,
    /// The file to read; `-` is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Token {
    /// Make a token and print it, once.
    Create {
        /// Whose token: a UUID, or `default`.
        #[arg(long)]
        tenant: Tenant,
        /// owner, writer or viewer.
        #[arg(long)]
        role: Role,
        #[command(flatten)]
        plain: Plain,
    },
    /// List all tokens, without their secrets.
    List {
        #[command(flatten)]
        plain: Plain,
    },
    /// Make a token useless, within a second.
    Revoke {
        /// The token's id, as `hapax token list` shows it.
        id: TokenId,
        #[command(flatten)]
        plain: Plain,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Keys {
    /// List keys, newest first.
    List {
        /// Only this route, such as `POST:payments`.
        #[arg(long)]
        route: Option<String>,
        /// Only this state: held, in_doubt, settled or erased.
        #[arg(long)]
        state: Option<String>,
        /// At most this many.
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        of: OfTenant,
    },
    /// Show one key.
    Show {
        /// The key's id.
        id: hapax_core::RecordId,
        #[command(flatten)]
        of: OfTenant,
    },
    /// Remove one key, so that its next use runs as new.
    Rm {
        /// The key's id.
        id: hapax_core::RecordId,
        #[command(flatten)]
        of: OfTenant,
    },
    /// End doubt about one key: say what was answered, or that it did not happen.
    Settle(Settle),
    /// Erase what is stored under one key, or about one subject; a later use is told so and does not run.
    Erase {
        /// The key's id.
        #[arg(required_unless_present = "subject")]
        id: Option<hapax_core::RecordId>,
        /// Everything about this subject, where the routes say who that is.
        #[arg(long, conflicts_with = "id")]
        subject: Option<String>,
        #[command(flatten)]
        of: OfTenant,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Settle {
    /// The key's id.
    pub(crate) id: hapax_core::RecordId,
    /// It did not happen: its next use runs as new.
    #[arg(long, conflicts_with_all = ["status", "header", "body"], required_unless_present = "status")]
    pub(crate) release: bool,
    /// It happened, and this was the status of the answer.
    #[arg(long)]
    pub(crate) status: Option<u16>,
    /// A header of the answer, `name: value`; may be given again.
    #[arg(long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// The file that holds the body of the answer; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) body: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) of: OfTenant,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Vault {
    /// Wrap every tenant's key by HAPAX_KEK, with the old master key in HAPAX_KEK_PREVIOUS.
    Rotate {
        #[command(flatten)]
        plain: Plain,
    },
    /// Give a tenant a new data key. What is stored stays readable.
    Renew {
        #[command(flatten)]
        of: OfTenant,
    },
    /// Delete a tenant's keys: what is stored for it is never readable again.
    Shred {
        /// Whose keys: a UUID, or `default`.
        #[arg(long)]
        tenant: Tenant,
        /// Really do it.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        plain: Plain,
    },
}

#[derive(Args, Debug)]
pub(crate) struct OfTenant {
    /// Whose keys: a UUID, or `default`.
    #[arg(long, default_value = "default")]
    pub(crate) tenant: Tenant,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_is_what_happens_without_a_command() {
        let cli = Cli::try_parse_from(["hapax", "--listen", "127.0.0.1:0"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.serve.listen.as_deref(), Some("127.0.0.1:0"));
    }
}
