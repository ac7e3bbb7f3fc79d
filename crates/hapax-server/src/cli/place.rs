//! Where the store is, whose keys are meant, and how the output looks: the flags that stand before or after a command.

use std::path::PathBuf;

use clap::Args;
use hapax_core::Tenant;

use crate::config::{Flags, RedisMode};

/// The heading of flags that every command has, under its own.
const WHERE: &str = "Where the store is, and how it is shown";

/// Where the store is.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct Store {
    /// Config file, TOML.
    #[arg(long, value_name = "FILE", global = true, help_heading = WHERE)]
    pub(crate) config: Option<PathBuf>,
    /// Folder for everything that is not the database [default: hapax-data].
    #[arg(long, value_name = "DIR", global = true, help_heading = WHERE)]
    pub(crate) data: Option<PathBuf>,
    /// `sqlite:PATH` or `postgres://…` [default: SQLite in the data folder].
    #[arg(long, value_name = "URL", global = true, help_heading = WHERE)]
    pub(crate) database: Option<String>,
    /// `redis://…` or `redis+cluster://…`: answers replays in front of the database [default: none].
    #[arg(long, value_name = "URL", global = true, help_heading = WHERE)]
    pub(crate) redis: Option<String>,
    /// What Redis is for: `cache`, or `ledger` to claim keys in Redis alone, best effort [default: cache].
    #[arg(long, value_name = "MODE", value_enum, global = true, help_heading = WHERE)]
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

/// A command with nothing but the store and the form of its output.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct Plain {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Print JSON.
    #[arg(long, global = true, help_heading = WHERE)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OfTenant {
    /// Whose: a UUID, or `default`.
    #[arg(long, default_value = "default")]
    pub(crate) tenant: Tenant,
    #[command(flatten)]
    pub(crate) plain: Plain,
}
