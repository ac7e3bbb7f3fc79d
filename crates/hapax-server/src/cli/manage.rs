//! The commands that look after what is stored: tokens, keys, jobs, policies and the vault.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use hapax_core::entry::Schema;
use hapax_core::job::{JobId, JobKind, JobScan, State};
use hapax_core::{Scan, Tenant};
use hapax_store::{Role, TokenId};

use super::{OfTenant, Plain};
use crate::token;

#[derive(Subcommand, Debug)]
pub(crate) enum Token {
    /// Make a token and print it, once.
    Create {
        /// What it is for, such as `deploy bot`: the audit trail and the lists show it.
        #[arg(long, value_parser = token::name)]
        name: Option<String>,
        /// Whose token: a UUID, or `default`.
        #[arg(long, default_value = "default")]
        tenant: Tenant,
        /// owner, writer or viewer.
        #[arg(long, default_value = "writer")]
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
        /// At most this many, from 1 to 500.
        #[arg(long, value_name = "N", default_value = "50", value_parser = limit(Scan::LIMIT_MAX))]
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
    #[arg(long, conflicts_with_all = ["status", "header", "body"])]
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
        /// The job's id or its key.
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
    /// At most this many, from 1 to 500.
    #[arg(long, value_name = "N", default_value = "50", value_parser = limit(JobScan::LIMIT_MAX))]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) of: OfTenant,
}

#[derive(Args, Debug)]
pub(crate) struct JobsRetry {
    /// The jobs' ids or keys.
    #[arg(value_name = "ID", value_parser = JobId::new)]
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
    /// Change a policy, or add it with --create. What is not said stays.
    Set(PoliciesSet),
    /// Remove a policy that was added. Entries under it are refused from then on.
    Rm(PoliciesRm),
}

#[derive(Args, Debug)]
pub(crate) struct PoliciesSet {
    /// The policy's name, such as telegram_link_v1.
    pub(crate) key: String,
    /// Add the policy if there is none of this name.
    #[arg(long)]
    pub(crate) create: bool,
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

#[derive(Args, Debug)]
pub(crate) struct PoliciesRm {
    /// The policy's name, as `hapax policies list` shows it.
    pub(crate) key: String,
    /// Only in pkm or pkm_test [default: in both, so that they behave alike].
    #[arg(long)]
    pub(crate) schema: Option<Schema>,
    #[command(flatten)]
    pub(crate) of: OfTenant,
}

/// How many items a list shows.
fn limit(most: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most as u64)
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
