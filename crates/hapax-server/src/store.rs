//! Opens the store that the configuration names. What a store does is `hapax-store`'s business.

pub(crate) mod redis;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use hapax::Engine;
use hapax_core::entry::{Batches, Catalog, Imports};
use hapax_core::job::Queue;
use hapax_core::snapshot::Snapshots;
use hapax_core::{Durability, Ledger, Note, Replays};
use hapax_store::postgres::{PgOptions, Protection};
use hapax_store::redis::RedisRates;
use hapax_store::sqlite::SqliteOptions;
use hapax_store::vault::{MasterKey, TenantKeys, Vault};
use hapax_store::{PgLedger, SqliteLedger, Tokens};

use crate::config::{self, Config};
use crate::exit::{self, Usage};

/// An open store: its ledger, its jobs, its snapshots, its entries, their imports and enrichment, its tokens and its tenants' keys.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) snapshots: Arc<dyn Snapshots>,
    pub(crate) entries: Arc<dyn Catalog>,
    pub(crate) imports: Arc<dyn Imports>,
    pub(crate) batches: Arc<dyn Batches>,
    pub(crate) tokens: Arc<dyn Tokens>,
    pub(crate) tenant_keys: Arc<dyn TenantKeys>,
    /// Outcomes that nodes share in Redis, in front of the ledger.
    pub(crate) replays: Option<Arc<dyn Replays>>,
    /// The rates of tenants, where nodes count them together in Redis.
    pub(crate) rates: Option<Arc<RedisRates>>,
    /// The file, if that is where things are kept.
    file: Option<Arc<SqliteLedger>>,
}

impl Store {
    /// Opens the store, making the file and the tables as needed.
    ///
    /// # Errors
    /// [`Usage`] when the URL names no store, [`hapax_core::Error`] when the store cannot be opened or used safely.
    pub(crate) async fn open(config: &Config) -> Result<Self> {
        let store = Self::open_database(config).await?;
        redis::beside(store, config).await
    }

    /// Opens a store that somebody has made. Nothing is made: a command in a wrong folder leaves no database behind.
    ///
    /// # Errors
    /// Those of [`Store::open`], and one that names the database that was looked for.
    pub(crate) async fn open_made(config: &Config) -> Result<Self> {
        let database = Database::of(config)?;
        if !database.is_made().await? {
            let hint = match &database {
                Database::Sqlite(_) => {
                    "run it where `hapax serve` runs, or name that place: --data DIR or --database URL"
                }
                Database::Postgres(_) => {
                    "is it the right one? `hapax migrate` makes the tables of hapax in it"
                }
            };
            return Err(exit::hinted(
                format!("there is no database of hapax at {database}"),
                hint,
            ));
        }
        Self::open(config).await
    }

    /// An engine on its ledger, with the cache in front if there is one.
    pub(crate) fn engine(&self) -> Engine {
        let engine = Engine::new(Arc::clone(&self.ledger));
        match &self.replays {
            Some(replays) => engine.with_replays(Arc::clone(replays)),
            None => engine,
        }
    }

    async fn open_database(config: &Config) -> Result<Self> {
        let database = Database::of(config)?;
        let vault = vault()?;
        match &database {
            Database::Sqlite(path) => {
                let (path, options) = (path.clone(), sqlite_options(config, vault));
                let opened =
                    tokio::task::spawn_blocking(move || SqliteLedger::open(&path, options)).await?;
                let file = Arc::new(opened.with_context(|| format!("opening {database}"))?);
                Ok(Self {
                    file: Some(Arc::clone(&file)),
                    ..Self::from(file)
                })
            }
            Database::Postgres(url) => {
                let direct = Some(config.database_direct.clone());
                let options = PgOptions {
                    vault,
                    direct: direct.filter(|url| !url.is_empty()),
                    watches_purges: redis::is_cache(config),
                    ..PgOptions::default()
                };
                let opened = PgLedger::open(url, options).await;
                let opened = opened.with_context(|| format!("opening {database}"))?;
                Ok(Self::from(Arc::new(opened)))
            }
        }
    }

    /// Stops the store's background work. A store that cannot be closed ends with the process.
    pub(crate) async fn close(&self) {
        if let Some(replays) = &self.replays {
            replays.close().await;
        }
        if let Err(error) = self.ledger.close().await {
            tracing::warn!(%error, "the store did not close");
        }
    }

    /// Adds notes about jobs to the audit trail. What they tell has happened, so without them it still has: then
    /// they stand in the log.
    pub(crate) async fn note(&self, notes: Vec<Note>) {
        if notes.is_empty() {
            return;
        }
        let said: Vec<String> = notes.iter().map(said).collect();
        if let Err(error) = self.ledger.note(notes).await {
            tracing::error!(%error, notes = said.join("; "), "the audit trail misses notes");
        }
    }

    /// Ends when nothing will be written any more until the process is started again, and says why.
    pub(crate) async fn broken(&self) -> &'static str {
        match &self.file {
            Some(file) => file.broken().await,
            None => std::future::pending().await,
        }
    }

    fn from<L>(ledger: Arc<L>) -> Self
    where
        L: Ledger + Queue + Snapshots + Catalog + Imports + Batches + Tokens + TenantKeys,
    {
        let (queue, batches) = doomed(
            Arc::clone(&ledger) as Arc<dyn Queue>,
            Arc::clone(&ledger) as Arc<dyn Batches>,
        );
        Self {
            file: None,
            replays: None,
            rates: None,
            queue,
            batches,
            snapshots: Arc::clone(&ledger) as Arc<dyn Snapshots>,
            entries: Arc::clone(&ledger) as Arc<dyn Catalog>,
            imports: Arc::clone(&ledger) as Arc<dyn Imports>,
            tokens: Arc::clone(&ledger) as Arc<dyn Tokens>,
            tenant_keys: Arc::clone(&ledger) as Arc<dyn TenantKeys>,
            ledger,
        }
    }
}

fn said(note: &Note) -> String {
    let actor = note.actor.as_deref().unwrap_or("nobody");
    format!(
        "{} by {actor} of {}: {}",
        note.action, note.tenant, note.details
    )
}

/// The queue and what enrichment keeps. In a debug build a test can have them kill the process.
fn doomed(queue: Arc<dyn Queue>, batches: Arc<dyn Batches>) -> (Arc<dyn Queue>, Arc<dyn Batches>) {
    #[cfg(debug_assertions)]
    let (queue, batches) = crate::abort::on_cue(queue, batches);
    (queue, batches)
}

/// Brings the tables up to date. Answers the names of the migrations that ran now.
///
/// # Errors
/// Those of [`Store::open`].
pub(crate) async fn migrate(config: &Config) -> Result<Vec<&'static str>> {
    let database = Database::of(config)?;
    match &database {
        Database::Sqlite(path) => {
            let path = path.clone();
            let ran = tokio::task::spawn_blocking(move || SqliteLedger::migrate(&path)).await?;
            ran.with_context(|| format!("migrating {database}"))
        }
        Database::Postgres(_) if !config.database_direct.is_empty() => {
            PgLedger::migrate(&config.database_direct)
                .await
                .with_context(|| format!("migrating {database}"))
        }
        Database::Postgres(url) => PgLedger::migrate(url)
            .await
            .with_context(|| format!("migrating {database}")),
    }
}

/// The names of the migrations that a newer program ran on the tables.
///
/// # Errors
/// When the store does not say.
pub(crate) async fn newer(config: &Config) -> Result<Vec<String>> {
    let database = Database::of(config)?;
    let newer = match &database {
        Database::Sqlite(path) => {
            let path = path.clone();
            tokio::task::spawn_blocking(move || SqliteLedger::newer(&path)).await?
        }
        Database::Postgres(_) if !config.database_direct.is_empty() => {
            PgLedger::newer(&config.database_direct).await
        }
        Database::Postgres(url) => PgLedger::newer(url).await,
    };
    newer.with_context(|| format!("reading what ran on {database}"))
}

/// The vault that HAPAX_KEK sets, if it does: bodies are then sealed. HAPAX_KEK_PREVIOUS lists master keys that may
/// still unwrap. Neither is ever part of a [`Config`], which may be shown.
fn vault() -> Result<Option<Arc<Vault>>> {
    vault_of(|name| std::env::var_os(name))
}

fn vault_of(env: impl Fn(&str) -> Option<OsString>) -> Result<Option<Arc<Vault>>> {
    // A key that is not text is refused like any other that is none; it is not repeated.
    let text = |name| env(name).map(|value| value.into_string().unwrap_or_default());
    let key = |name: &str, text: &str| {
        MasterKey::parse(text).with_context(|| format!("{name} is not a master key"))
    };
    let previous = text("HAPAX_KEK_PREVIOUS").unwrap_or_default();
    let previous: Vec<MasterKey> = previous
        .split([',', ' ', '\n'])
        .filter(|text| !text.is_empty())
        .map(|text| key("HAPAX_KEK_PREVIOUS", text))
        .collect::<Result<_>>()?;
    match text("HAPAX_KEK") {
        Some(current) => Ok(Some(Arc::new(Vault::new(
            key("HAPAX_KEK", &current)?,
            previous,
        )))),
        None if previous.is_empty() => Ok(None),
        None => Err(Usage::error(
            "HAPAX_KEK_PREVIOUS is set and HAPAX_KEK is not; set HAPAX_KEK to the new master key",
        )),
    }
}

fn sqlite_options(config: &Config, vault: Option<Arc<Vault>>) -> SqliteOptions {
    let durability = match config.durability {
        config::Durability::Full => Durability::Full,
        config::Durability::Relaxed => Durability::Relaxed,
    };
    SqliteOptions {
        durability,
        vault,
        ..SqliteOptions::default()
    }
}

/// Which database the configuration names. Shown without its password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Database {
    /// Reads `database`; when it is empty, SQLite in the data folder.
    ///
    /// # Errors
    /// [`Usage`] for anything but `sqlite:PATH` and `postgres://…`, and for a URL that leads off this machine without
    /// saying its `sslmode`.
    pub(crate) fn of(config: &Config) -> Result<Self> {
        let url = config.database.as_str();
        if url.is_empty() {
            return Ok(Self::Sqlite(config.data.join("hapax.db")));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            for (key, url) in [
                ("database", url),
                ("database_direct", &config.database_direct),
            ] {
                protected(key, url)?;
            }
            return Ok(Self::Postgres(url.to_owned()));
        }
        match url
            .strip_prefix("sqlite:")
            .map(|path| path.strip_prefix("//").unwrap_or(path))
        {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite(PathBuf::from(path))),
            // What was given may hold a password, so it is not repeated.
            Some(_) | None => Err(Usage::hinted(
                "the database is neither sqlite:PATH nor postgres://…",
                "--database sqlite:PATH or --database postgres://USER@HOST/DATABASE",
            )),
        }
    }
}

impl Database {
    /// Whether hapax has been here.
    async fn is_made(&self) -> Result<bool> {
        match self {
            Self::Sqlite(path) => {
                let found = path.try_exists();
                found.with_context(|| format!("looking for {self}"))
            }
            Self::Postgres(url) => {
                let made = PgLedger::is_made(url).await;
                made.with_context(|| format!("opening {self}"))
            }
        }
    }
}

/// Refuses a URL that does not say how the way to the database is protected. Its password is not repeated.
fn protected(key: &str, url: &str) -> Result<()> {
    if url.is_empty() {
        return Ok(());
    }
    match Protection::of(url) {
        Ok(_) => Ok(()),
        Err(why) => Err(Usage::error(format!("{key}: {why}"))),
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Database::Postgres(url) => {
                // Only host and database: user and password stand before the last '@', options after '?'.
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
                write!(f, "postgres://{}", rest.split('?').next().unwrap_or(""))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(url: &str) -> Result<Database> {
        Database::of(&Config {
            database: url.to_owned(),
            data: "d".into(),
            ..Config::default()
        })
    }

    #[test]
    fn the_url_names_the_store() {
        assert_eq!(database("").unwrap(), Database::Sqlite("d/hapax.db".into()));
        assert_eq!(
            database("sqlite:/var/x.db").unwrap(),
            Database::Sqlite("/var/x.db".into())
        );
        assert_eq!(
            database("sqlite:///var/x.db").unwrap(),
            Database::Sqlite("/var/x.db".into())
        );
        assert!(matches!(
            database("postgresql://localhost/db").unwrap(),
            Database::Postgres(_)
        ));
        for wrong in ["mysql://h", "x.db", "sqlite:", "postgres:"] {
            assert!(database(wrong).unwrap_err().is::<Usage>(), "{wrong}");
        }
    }

    #[test]
    fn a_master_key_is_read_from_the_environment_and_a_wrong_one_is_not_repeated() {
        let env = |kek: &'static str, previous: &'static str| {
            vault_of(move |name| match name {
                "HAPAX_KEK" => Some(kek).filter(|kek| *kek != "-").map(OsString::from),
                _ => Some(previous.into()),
            })
        };
        let (one, two) = (
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=",
        );
        assert!(env("-", "").unwrap().is_none());
        assert!(env(one, "").unwrap().is_some());
        assert!(env(two, one).unwrap().is_some());
        assert!(env("-", one).unwrap_err().is::<Usage>());
        for (kek, previous) in [("", ""), ("hunter2", ""), (one, "hunter2")] {
            let why = env(kek, previous).unwrap_err();
            let shown = crate::exit::describe(&why);
            assert!(
                shown.contains("HAPAX_KEK") && !shown.contains("hunter2"),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = "postgres://me:p@ss:w0rd@db:5432/app?password=w0rd";
        let shown = Database::Postgres(url.to_owned()).to_string();
        assert_eq!(shown, "postgres://db:5432/app");
    }

    #[test]
    fn a_database_off_this_machine_says_its_sslmode() {
        let of = |database: &str, direct: &str| {
            Database::of(&Config {
                database: database.to_owned(),
                database_direct: direct.to_owned(),
                ..Config::default()
            })
        };
        let (near, far) = ("postgres://localhost/d", "postgres://u:s3cret@db.example/d");
        let said = "postgres://u:s3cret@db.example/d?sslmode=verify-full";
        for (database, direct) in [(near, ""), (said, ""), (near, said)] {
            assert!(of(database, direct).is_ok(), "{database} {direct}");
        }
        for (database, direct) in [(far, ""), (near, far), (said, far)] {
            let why = of(database, direct).unwrap_err();
            assert!(why.is::<Usage>(), "{why}");
            let shown = crate::exit::describe(&why);
            assert!(
                shown.contains("\nhint: ") && !shown.contains("s3cret"),
                "{shown}"
            );
        }
    }
}
