//! The command line: names, flags and help. What a command does is in `cmd`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use hapax_core::Tenant;
use hapax_core::canonical::Profile;
use hapax_core::entry::Schema;
use hapax_core::job::{JobId, JobKind, State};
use hapax_store::{Role, TokenId};

use crate::config::{Flags, RedisMode};
use crate::import::asked;

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
    /// `redis://…` or `redis+cluster://…`: answers replays in front of the database [default: none].
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// What Redis is for: `cache`, or `ledger` to claim keys in Redis alone, best effort [default: cache].
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) redis_mode: Option<RedisMode>,
}

impl Store {
    pub(crate) fn flags(&self) -> Flags {
        let Self {
            config,
            data,
            database,
            redis,
            redis_mode,
        } = self.clone();
        Flags {
            config,
            data,
            database,
            redis,
            redis_mode,
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
pub(crate) enum Jobs {
    /// List jobs, newest first.
    List(JobsList),
    /// Show one job with its operations.
    Show {
        /// The job's id.
        #[arg(value_parser = JobId::new)]
        id: JobId,
        #[command(flatten)]
        of: OfTenant,
    },
    /// Count jobs by kind and state.
    Stats {
        #[command(flatten)]
        of: OfTenant,
    },
    /// Have failed or given-up jobs start over, at once and with all their attempts.
    Retry(JobsRetry),
    /// Show who holds which job, and for how long.
    Leases {
        #[command(flatten)]
        of: OfTenant,
    },
}

#[derive(Args, Debug)]
pub(crate) struct JobsList {
    /// Only in this state, such as PLANNED or DEAD.
    #[arg(long)]
    pub(crate) state: Option<State>,
    /// Only of this kind, such as download.
    #[arg(long, value_parser = JobKind::new)]
    pub(crate) kind: Option<JobKind>,
    /// Only of this work.
    #[arg(long, value_name = "WORK")]
    pub(crate) work_id: Option<String>,
    /// Only those that somebody holds now.
    #[arg(long)]
    pub(crate) held: bool,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) of: OfTenant,
}

#[derive(Args, Debug)]
pub(crate) struct JobsRetry {
    /// The jobs' ids.
    #[arg(value_name = "ID", value_parser = JobId::new, required_unless_present = "state")]
    pub(crate) ids: Vec<JobId>,
    /// Every job in this state: FAILED or DEAD.
    #[arg(long, conflicts_with = "ids")]
    pub(crate) state: Option<State>,
    #[command(flatten)]
    pub(crate) of: OfTenant,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Policies {
    /// List the policies of entries' keys.
    List {
        /// pkm or pkm_test [default: the one that the test mode points at].
        #[arg(long)]
        schema: Option<Schema>,
        #[command(flatten)]
        of: OfTenant,
    },
    /// Change a policy, or add it. What is not said stays.
    Set(PoliciesSet),
}

#[derive(Args, Debug)]
pub(crate) struct PoliciesSet {
    /// The policy's name, such as telegram_link_v1.
    pub(crate) key: String,
    /// What happens to an entry whose key is there: skip or update.
    #[arg(long, value_name = "ACTION")]
    pub(crate) conflict_action: Option<String>,
    /// The columns that an update may change, separated by commas; `*` for all that come in.
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) update_fields: Option<String>,
    /// Whether the secondary key alone makes an entry the same one: always or only_if_primary_missing.
    #[arg(long, value_name = "WORD")]
    pub(crate) secondary_match: Option<String>,
    /// true or false: a disabled policy takes nothing in.
    #[arg(long, value_name = "BOOL")]
    pub(crate) enabled: Option<bool>,
    /// Which source it is for, to be read by people.
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Which content it is for, to be read by people.
    #[arg(long)]
    pub(crate) content_type: Option<String>,
    /// Only in pkm or pkm_test [default: in both, so that they behave alike].
    #[arg(long)]
    pub(crate) schema: Option<Schema>,
    #[command(flatten)]
    pub(crate) of: OfTenant,
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
    /// Config file, TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Whose: a UUID, or `default`.
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
