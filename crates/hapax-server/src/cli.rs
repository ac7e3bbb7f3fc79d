//! The command line: names, flags and help. What a command does is in `cmd`.

mod help;
mod manage;
mod place;
mod refusal;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use hapax_core::canonical::Profile;

use crate::config::Flags;
use crate::exit::Usage;
use crate::import::asked;

pub(crate) use help::command;
pub(crate) use manage::{
    Jobs, JobsList, JobsRetry, Keys, Policies, PoliciesRm, PoliciesSet, Settle, Token, Vault,
};
pub(crate) use place::{OfTenant, Plain, Store};

/// Idempotency keys as a service: a key is claimed once, and its outcome is recorded once.
///
/// Without a command, serves.
#[derive(Parser, Debug)]
#[command(name = "hapax", version, after_help = PRECEDENCE)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: Serve,
    /// Print JSON.
    #[arg(long, global = true, hide = true)]
    json: bool,
}

impl Cli {
    /// Reads the command line. Help and the version end the process.
    ///
    /// # Errors
    /// [`Usage`] for what cannot be read, and for flags that mean nothing where they stand.
    pub(crate) fn parse_process() -> Result<Self> {
        let matches = command().try_get_matches();
        let read = matches.and_then(|matches| Self::from_arg_matches(&matches));
        let told = |why| {
            let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
            refusal::of(&why, words)
        };
        read.map_err(told)?.checked()
    }

    /// The flags of `serve` stand alone or after it, and `--json` is for commands that print something.
    fn checked(self) -> Result<Self> {
        let Serve {
            listen,
            insecure_no_auth,
            no_worker,
            store: _,
        } = &self.serve;
        let misplaced = [
            ("--listen", listen.is_some()),
            ("--insecure-no-auth", *insecure_no_auth),
            ("--no-worker", *no_worker),
        ];
        let misplaced = misplaced.into_iter().find(|(_, is_given)| *is_given);
        if let (Some((flag, _)), Some(_)) = (misplaced, &self.command) {
            return Err(Usage::hinted(
                format!("{flag} stands before a command"),
                format!("put it after the command: hapax serve {flag} …"),
            ));
        }
        let prints = !matches!(
            self.command,
            None | Some(Command::Serve(_) | Command::Proxy(_) | Command::Worker(_))
        );
        if self.json && !prints {
            return Err(Usage::hinted(
                "--json is not for servers",
                "for JSON log lines set log_format = \"json\", or HAPAX_LOG_FORMAT=json",
            ));
        }
        Ok(self)
    }
}

const PRECEDENCE: &str =
    "A flag wins over a variable (HAPAX_LISTEN, HAPAX_DATA, HAPAX_DATABASE, HAPAX_REDIS, HAPAX_CONFIG), \
a variable over the config file, the file over the default. hapax.default.toml lists every key.
Exit codes: 0 done, 1 failed, 2 wrong use.";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Serve the HTTP API.
    Serve(Serve),
    /// Stand in front of any HTTP service and make its requests idempotent.
    Proxy(Proxy),
    /// Lease jobs and run them.
    Worker(Worker),
    /// Download what a manifest names, and go on where an earlier run stopped.
    Download(Download),
    /// Import a backlog of mail, and go on where an earlier run stopped.
    #[command(subcommand)]
    Import(Import),
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
    /// List, show, count and retry jobs, and see who holds them.
    #[command(subcommand)]
    Jobs(Jobs),
    /// List and change what a second entry of the same key does.
    #[command(subcommand)]
    Policies(Policies),
    /// Say what the route table does with a request.
    #[command(subcommand)]
    Routes(Routes),
    /// Clean up after dead workers: end their leases, and put what they were doing in doubt.
    Reconcile(Reconcile),
    /// Give snapshots from before hashes their hash.
    Backfill(Plain),
    /// Look after the keys that encrypt what is stored.
    #[command(subcommand)]
    Vault(Vault),
    /// Remove what has expired, now.
    Sweep(Plain),
    /// Measure this machine and this store for a few seconds, and verify what they promise.
    Bench(Bench),
    /// Print the OpenAPI document of the HTTP API.
    Openapi,
    /// Print the configuration: the defaults, or what is in force here; or check it.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the script that completes commands and flags in a shell.
    Completions {
        /// bash, zsh or fish.
        shell: Shell,
    },
    /// Print the manual page, in roff.
    Man,
    /// Print the version, and what it was built from.
    Version {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Print a config file with every key, its default and what it means.
    Default,
    /// Print every key as flags, variables and the config file set it here, without passwords.
    Show {
        #[command(flatten)]
        plain: Plain,
    },
    /// Read flags, variables and the config file, and say what is wrong.
    Check {
        #[command(flatten)]
        plain: Plain,
    },
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
    /// Run no jobs in this process; `hapax worker` does.
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
pub(crate) struct Worker {
    /// The kinds of jobs to run, separated by commas [default: all that this program runs].
    #[arg(long, value_delimiter = ',', value_name = "KINDS")]
    pub(crate) kinds: Vec<String>,
    /// How many jobs to run at a time [default: 4].
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) concurrency: Option<usize>,
    #[command(flatten)]
    pub(crate) store: Store,
}

#[derive(Args, Debug)]
pub(crate) struct Download {
    /// A file with one JSON object per line: work_id, artifact_id, canonical_url, and sha256 and size if they are known;
    /// `-` for standard input.
    #[arg(value_name = "MANIFEST")]
    pub(crate) manifest: PathBuf,
    /// Where the files go: objects/ by content, files/ by work and artifact.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// How many downloads to run at a time.
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub(crate) concurrency: usize,
    /// Ask private, loopback and link-local addresses too.
    #[arg(long)]
    pub(crate) allow_private_addresses: bool,
    /// Try again what was given up in an earlier run.
    #[arg(long)]
    pub(crate) retry_failed: bool,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Import {
    /// Import a mailbox file: mboxrd, mboxo or mboxcl, also compressed by gzip.
    Mbox(ImportMbox),
}

#[derive(Args, Debug)]
pub(crate) struct ImportMbox {
    /// The mailbox.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How many entries a batch for enrichment holds, from 500 to 2000.
    #[arg(long, value_name = "N", default_value_t = asked::BATCH_SIZE)]
    pub(crate) batch_size: u64,
    /// How many messages are written at once, from 1 to 2000.
    #[arg(long, value_name = "N", default_value_t = asked::CHUNK_SIZE)]
    pub(crate) insert_chunk_size: u64,
    /// How long enrichment may take, in hours or days.
    #[arg(long, value_name = "SPAN", default_value = asked::WINDOW)]
    pub(crate) completion_window: String,
    /// The policy that threads are kept by, such as email_thread_refs_v1 [default: one entry per subject].
    #[arg(long, value_name = "POLICY")]
    pub(crate) thread_policy: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfTenant,
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

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Without any of these: a temporary SQLite ledger.
    #[command(flatten)]
    pub(crate) store: Store,
    /// Seconds of each part.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    pub(crate) seconds: f64,
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
    /// Take each line as a document of its own; print a hash for each, or `refused:REASON`.
    #[arg(long, conflicts_with_all = ["canon", "json"])]
    pub(crate) lines: bool,
    /// The file to read; `-` is standard input.
    #[arg(default_value = "-", value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Routes {
    /// Print pattern, key rule, TTL, wait and on_lost of a request, and which entry of the route table says so.
    Test(RoutesTest),
}

#[derive(Args, Debug)]
pub(crate) struct RoutesTest {
    /// POST, PUT, PATCH or DELETE; others are never keyed.
    #[arg(value_name = "METHOD")]
    pub(crate) method: String,
    /// The path as clients send it, such as /api/v1/payments/link.
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[derive(Args, Debug)]
pub(crate) struct Reconcile {
    /// The folder with the unfinished files of downloads.
    #[arg(long, value_name = "DIR")]
    pub(crate) staging: Option<PathBuf>,
    /// Only count, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) plain: Plain,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Cli {
        let matches = command().try_get_matches_from(arguments).unwrap();
        Cli::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn serve_is_what_happens_without_a_command() {
        let cli = read(&["hapax", "--listen", "127.0.0.1:0"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.serve.listen.as_deref(), Some("127.0.0.1:0"));
    }

    #[test]
    fn what_every_command_takes_stands_before_it_or_after_it() {
        for arguments in [
            ["hapax", "--data", "d", "--json", "keys", "list"],
            ["hapax", "keys", "--data", "d", "list", "--json"],
            ["hapax", "keys", "list", "--data", "d", "--json"],
        ] {
            let cli = read(&arguments).checked().unwrap();
            let Some(Command::Keys(Keys::List { of, .. })) = cli.command else {
                panic!("{arguments:?}");
            };
            assert_eq!(of.plain.store.data, Some(PathBuf::from("d")));
            assert!(of.plain.json);
        }
    }

    #[test]
    fn flags_of_serve_before_another_command_are_refused() {
        for flag in ["--no-worker", "--insecure-no-auth", "--listen=a:1"] {
            assert!(read(&["hapax", flag, "serve"]).checked().is_err(), "{flag}");
            assert!(read(&["hapax", "serve", flag]).checked().is_ok(), "{flag}");
        }
        assert!(read(&["hapax", "--json"]).checked().is_err());
    }
}
