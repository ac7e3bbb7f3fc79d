//! How the server is told to run: flag, else `HAPAX_…` variable, else file, else default.
//! It reads the config file and the environment, and opens nothing else.

pub(crate) mod collections;
pub(crate) mod identity;
pub(crate) mod jwt;
mod metrics;
pub(crate) mod proxy;
mod routes;
mod secrets;
mod spelling;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use hapax::problem::DocsBase;
use hapax_core::OnLost;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::exit::Usage;

pub(crate) use metrics::MetricsOpen;
pub(crate) use routes::{Profile, Ruling, Source, UsualRoute};
use secrets::LITELLM_KEYS;
pub(crate) use secrets::{TELEGRAM_SECRET, gateway_token, litellm_key, telegram_secret, token};
pub(crate) use spelling::{misspelt_variables, nearest};

/// Every key of the config file. `hapax.default.toml` explains each of them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a list of switches, each on its own"
)]
pub(crate) struct Config {
    pub(crate) listen: String,
    pub(crate) data: PathBuf,
    pub(crate) database: String,
    /// Where `database` leads to a pooler: the server itself.
    pub(crate) database_direct: String,
    pub(crate) durability: Durability,
    pub(crate) redis: String,
    pub(crate) redis_mode: RedisMode,
    pub(crate) redis_wait_replicas: usize,
    pub(crate) redis_timeout_ms: u64,
    pub(crate) redis_keep_seconds: u64,
    pub(crate) shutdown_ms: u64,
    pub(crate) sweep_interval_ms: u64,
    pub(crate) sweep_grace_ms: u64,
    pub(crate) body_bytes_max: usize,
    pub(crate) batch_body_bytes_max: usize,
    pub(crate) header_bytes_max: usize,
    pub(crate) buffered_bytes_max: usize,
    pub(crate) connections_max: usize,
    pub(crate) connections_per_address_max: usize,
    pub(crate) tenant_requests_per_second: u32,
    pub(crate) header_timeout_ms: u64,
    pub(crate) body_idle_timeout_ms: u64,
    pub(crate) request_timeout_ms: u64,
    pub(crate) metrics_open: MetricsOpen,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) access_log: bool,
    pub(crate) otlp_endpoint: String,
    pub(crate) worker_concurrency: usize,
    pub(crate) worker_lease_ms: u64,
    pub(crate) reconcile_interval_ms: u64,
    pub(crate) download_folder: PathBuf,
    pub(crate) download_bytes_max: u64,
    pub(crate) download_per_host: usize,
    pub(crate) download_private_addresses: bool,
    pub(crate) execute_actions: bool,
    pub(crate) gateway_base_url: String,
    pub(crate) gateway_timeout_seconds: u64,
    pub(crate) intent_timezone: String,
    pub(crate) tracking_parameters: Vec<String>,
    pub(crate) email_import_root: PathBuf,
    pub(crate) openai_base_url: String,
    pub(crate) t1_default_model: String,
    pub(crate) t1_batch_model: String,
    pub(crate) t1_batch_sync_interval_ms: u64,
    pub(crate) t1_topics: Vec<String>,
    pub(crate) t1_topics_strict: bool,
    pub(crate) llm_timeout_ms: u64,
    pub(crate) llm_transfer_timeout_ms: u64,
    pub(crate) llm_log_prompts: bool,
    pub(crate) docs_base_url: String,
    pub(crate) profile: Profile,
    pub(crate) strict_keys: bool,
    /// As written; [`Config::routes`] reads them.
    pub(crate) routes: Vec<Table>,
    /// As written; [`Config::collections`] reads them.
    pub(crate) collections: collections::Entries,
    pub(crate) proxy: proxy::Proxy,
}

/// What SQLite promises about a power loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// An acknowledged write survives it.
    Full,
    /// The last moments may be lost.
    Relaxed,
}

/// What Redis is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RedisMode {
    /// It answers replays in front of the database, and grants nothing.
    Cache,
    /// Keys are claimed in it alone. What it acknowledged may be lost on failover.
    Ledger,
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON in a pipe.
    Auto,
    Text,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8088".to_owned(),
            data: PathBuf::from("hapax-data"),
            database: String::new(),
            database_direct: String::new(),
            durability: Durability::Full,
            redis: String::new(),
            redis_mode: RedisMode::Cache,
            redis_wait_replicas: 0,
            redis_timeout_ms: 50,
            redis_keep_seconds: 3600,
            shutdown_ms: 10_000,
            sweep_interval_ms: 3_600_000,
            sweep_grace_ms: 86_400_000,
            body_bytes_max: 1 << 20,
            batch_body_bytes_max: 32 << 20,
            header_bytes_max: 64 << 10,
            buffered_bytes_max: 256 << 20,
            connections_max: 4096,
            connections_per_address_max: 3072,
            tenant_requests_per_second: 0,
            header_timeout_ms: 10_000,
            body_idle_timeout_ms: 15_000,
            request_timeout_ms: 60_000,
            metrics_open: MetricsOpen::Loopback,
            log: "info".to_owned(),
            log_format: LogFormat::Auto,
            access_log: true,
            otlp_endpoint: String::new(),
            worker_concurrency: 4,
            worker_lease_ms: 120_000,
            reconcile_interval_ms: 3_600_000,
            download_folder: PathBuf::new(),
            download_bytes_max: 10 << 30,
            download_per_host: 4,
            download_private_addresses: false,
            execute_actions: false,
            gateway_base_url: String::new(),
            gateway_timeout_seconds: 15,
            intent_timezone: "UTC".to_owned(),
            tracking_parameters: Vec::new(),
            email_import_root: PathBuf::new(),
            openai_base_url: String::new(),
            t1_default_model: "t1-default".to_owned(),
            t1_batch_model: "t1-batch".to_owned(),
            t1_batch_sync_interval_ms: 60_000,
            t1_topics: Vec::new(),
            t1_topics_strict: false,
            llm_timeout_ms: 60_000,
            llm_transfer_timeout_ms: 300_000,
            llm_log_prompts: false,
            docs_base_url: String::new(),
            profile: Profile::Thorbis,
            strict_keys: false,
            routes: Vec::new(),
            collections: collections::Entries::new(),
            proxy: proxy::Proxy::default(),
        }
    }
}

/// The most names in `tracking_parameters`.
const TRACKING_PARAMETERS_MAX: usize = 1000;

/// Keys whose variables are also read without `HAPAX_`.
const OLDER: [&str; 8] = [
    "email_import_root",
    "execute_actions",
    "gateway_base_url",
    "gateway_timeout_seconds",
    "openai_base_url",
    "t1_default_model",
    "t1_batch_model",
    "t1_batch_sync_interval_ms",
];

/// The flags that override everything else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) config: Option<PathBuf>,
    pub(crate) listen: Option<String>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) database: Option<String>,
    pub(crate) redis: Option<String>,
    pub(crate) redis_mode: Option<RedisMode>,
}

impl Config {
    /// The configuration of this process.
    ///
    /// # Errors
    /// [`Usage`] when the file cannot be read, names an unknown key, or any source holds a value that does not fit.
    pub(crate) fn load(flags: &Flags) -> Result<Self> {
        Self::layered(flags, |name| match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Usage::error(format!("{name} is not UTF-8")))
            }
        })
    }

    fn layered(flags: &Flags, env: impl Fn(&str) -> Result<Option<String>>) -> Result<Self> {
        let file = match &flags.config {
            Some(path) => Some(path.clone()),
            None => env("HAPAX_CONFIG")?
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
        };
        let mut table = match file {
            Some(path) => read(&path)?,
            None => Table::new(),
        };
        for (key, default) in &Self::default().table()? {
            if let ("proxy", Value::Table(defaults)) = (key.as_str(), default) {
                proxy::layer(&mut table, defaults, &env)?;
                continue;
            }
            let mut name = variable(key);
            let mut found = env(&name)?;
            // The older program's own names count too.
            if found.is_none() && OLDER.contains(&key.as_str()) {
                name = key.to_ascii_uppercase();
                found = env(&name)?.filter(|text| !text.is_empty());
            }
            if let Some(text) = found {
                let value = typed(default, &text)
                    .map_err(|why| Usage::error(format!("{name}={text:?} {why}")))?;
                let mut alone = Table::new();
                alone.insert(key.clone(), value.clone());
                alone
                    .try_into::<Self>()
                    .map_err(|why| Usage::error(format!("{name}: {}", why.message())))?;
                table.insert(key.clone(), value);
            }
        }
        let mut config: Self = table
            .try_into()
            .map_err(|why: toml::de::Error| spelling::refused(&why.to_string()))?;
        flags.apply(&mut config);
        config.check()?;
        Ok(config)
    }

    /// Every key with its value.
    pub(crate) fn table(&self) -> Result<Table> {
        Table::try_from(self).context("writing the configuration as a table")
    }

    fn check(&self) -> Result<()> {
        let at_least = |key: &str, value: u64, least: u64| {
            let refuse = || Usage::error(format!("{key} is {value}; it must be at least {least}"));
            if value < least { Err(refuse()) } else { Ok(()) }
        };
        // Hyper takes no smaller buffer.
        at_least("header_bytes_max", self.header_bytes_max as u64, 8192)?;
        at_least("buffered_bytes_max", self.buffered_bytes_max as u64, 1)?;
        at_least("redis_timeout_ms", self.redis_timeout_ms, 1)?;
        at_least("redis_keep_seconds", self.redis_keep_seconds, 1)?;
        crate::store::redis::check(self)?;
        at_least("connections_max", self.connections_max as u64, 1)?;
        let each = self.connections_per_address_max as u64;
        at_least("connections_per_address_max", each, 1)?;
        at_least("header_timeout_ms", self.header_timeout_ms, 1)?;
        at_least("body_idle_timeout_ms", self.body_idle_timeout_ms, 1)?;
        at_least("request_timeout_ms", self.request_timeout_ms, 1)?;
        at_least("worker_concurrency", self.worker_concurrency as u64, 1)?;
        at_least("worker_lease_ms", self.worker_lease_ms, 1000)?;
        at_least("gateway_timeout_seconds", self.gateway_timeout_seconds, 1)?;
        at_least("download_per_host", self.download_per_host as u64, 1)?;
        at_least(
            "t1_batch_sync_interval_ms",
            self.t1_batch_sync_interval_ms,
            10,
        )?;
        at_least("llm_timeout_ms", self.llm_timeout_ms, 100)?;
        at_least("llm_transfer_timeout_ms", self.llm_transfer_timeout_ms, 100)?;
        at_least(
            "t1_default_model's length",
            self.t1_default_model.len() as u64,
            1,
        )?;
        at_least(
            "t1_batch_model's length",
            self.t1_batch_model.len() as u64,
            1,
        )?;
        self.check_tracking_parameters()?;
        crate::log::filter(&self.log)?;
        crate::otlp::check(&self.otlp_endpoint)?;
        self.docs_base()?;
        self.proxy.check()?;
        self.tokens()?;
        self.check_collections()?;
        self.routes(OnLost::Retry).map(drop)
    }

    fn check_tracking_parameters(&self) -> Result<()> {
        if self.tracking_parameters.len() > TRACKING_PARAMETERS_MAX {
            let message = format!("tracking_parameters has over {TRACKING_PARAMETERS_MAX} names");
            return Err(Usage::error(message));
        }
        let is_name = |name: &&String| {
            let stem = name.strip_suffix('*').unwrap_or(name);
            let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"*&=#?".contains(&byte);
            (1..=100).contains(&stem.len()) && stem.bytes().all(is_plain)
        };
        match self.tracking_parameters.iter().find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => Err(Usage::error(format!(
                "tracking_parameters: {name:?} is neither the name of a query parameter nor its beginning and a '*'"
            ))),
        }
    }

    /// Where the pages of errors are, if the configuration says so.
    pub(crate) fn docs_base(&self) -> Result<Option<DocsBase>> {
        let url = self.docs_base_url.as_str();
        let base = (!url.is_empty()).then(|| DocsBase::new(url)).transpose();
        base.map_err(|why| Usage::error(format!("docs_base_url: {why}")))
    }

    pub(crate) fn shutdown(&self) -> Duration {
        Duration::from_millis(self.shutdown_ms)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    /// The headers that say who a caller is, by this configuration. No client may have one removed on the way.
    pub(crate) fn caller_headers(&self) -> impl Iterator<Item = &str> {
        let of_routes = self.routes.iter().filter_map(|route| {
            let names = route.get("principal_headers")?.as_array()?;
            Some(names.iter().filter_map(Value::as_str))
        });
        let of_proxy = self.proxy.principal_headers.iter().map(String::as_str);
        [self.proxy.tenant_header.as_str()]
            .into_iter()
            .chain(of_proxy)
            .chain(of_routes.flatten())
            .filter(|name| !name.is_empty())
    }
}

impl Flags {
    fn apply(&self, config: &mut Config) {
        if let Some(listen) = &self.listen {
            config.listen.clone_from(listen);
        }
        if let Some(data) = &self.data {
            config.data.clone_from(data);
        }
        if let Some(database) = &self.database {
            config.database.clone_from(database);
        }
        if let Some(redis) = &self.redis {
            config.redis.clone_from(redis);
        }
        if let Some(mode) = self.redis_mode {
            config.redis_mode = mode;
        }
    }
}

/// Whether a variable says something.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn variable(key: &str) -> String {
    format!("HAPAX_{}", key.to_ascii_uppercase())
}

/// Reads the file. It is parsed as a whole first, so that a refusal names the line.
fn read(path: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).map_err(|why| {
        Usage::error(format!("reading the config file {}: {why}", path.display()))
    })?;
    toml::from_str::<Config>(&text).map_err(|why| spelling::refused(&unread(path, &text, &why)))?;
    toml::from_str(&text).map_err(|why| anyhow!(unread(path, &text, &why)))
}

/// Where in the file what cannot be read stands, and why, on one line. Of the value nothing is shown: it may be a secret.
fn unread(path: &Path, text: &str, why: &toml::de::Error) -> String {
    let said: Vec<&str> = why.message().lines().map(str::trim).collect();
    let at = why.span().and_then(|span| text.get(..span.start));
    let place = at.map_or(String::new(), |before| {
        let key = before
            .rsplit('\n')
            .next()
            .and_then(|line| line.split_once('='));
        let key = key.map_or(String::new(), |(key, _)| format!(": {}", key.trim()));
        format!(", line {}{key}", before.matches('\n').count() + 1)
    });
    format!("{}{place}: {}", path.display(), said.join(", "))
}

/// The text of a variable as the type that its key has.
fn typed(default: &Value, text: &str) -> Result<Value, &'static str> {
    match default {
        Value::String(_) => Ok(Value::String(text.to_owned())),
        Value::Integer(_) => text
            .parse()
            .map(Value::Integer)
            .map_err(|_| "is not a whole number"),
        Value::Boolean(_) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Value::Boolean(true)),
            "false" | "0" => Ok(Value::Boolean(false)),
            _ => Err("is neither true nor false"),
        },
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            Err("cannot be set by a variable")
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Full => "full",
            Durability::Relaxed => "relaxed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: &str = include_str!("../../../hapax.default.toml");

    fn env(
        pairs: &'static [(&'static str, &'static str)],
    ) -> impl Fn(&str) -> Result<Option<String>> {
        move |name| {
            Ok(pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned()))
        }
    }

    #[test]
    fn the_default_file_holds_every_key_with_the_default_of_the_code() {
        let written: Table = toml::from_str(DEFAULTS).unwrap();
        assert_eq!(written, Config::default().table().unwrap());
    }

    #[test]
    fn every_key_of_the_default_file_is_explained_on_the_line_before_it() {
        let lines: Vec<&str> = DEFAULTS.lines().collect();
        let keys = Config::default().table().unwrap();
        let of_proxy = keys["proxy"].as_table().unwrap().keys();
        let plain = keys.iter().filter(|(_, value)| !value.is_table());
        for key in plain.map(|(key, _)| key).chain(of_proxy) {
            let at = lines
                .iter()
                .position(|line| line.starts_with(&format!("{key} = ")))
                .unwrap();
            assert!(lines[at - 1].starts_with('#'), "{key} has no comment");
        }
    }

    #[test]
    fn a_flag_beats_a_variable_a_variable_the_file_and_the_file_the_default() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            "listen = 'file:1'\nshutdown_ms = 1\ndata = 'from-file'\n",
        )
        .unwrap();
        let flags = Flags {
            config: Some(file.path().to_owned()),
            listen: Some("flag:1".to_owned()),
            ..Flags::default()
        };
        let env = env(&[("HAPAX_LISTEN", "env:1"), ("HAPAX_SHUTDOWN_MS", "2")]);
        let config = Config::layered(&flags, env).unwrap();
        assert_eq!(config.listen, "flag:1");
        assert_eq!(config.shutdown_ms, 2);
        assert_eq!(config.data, PathBuf::from("from-file"));
        assert_eq!(config.body_bytes_max, Config::default().body_bytes_max);
    }

    #[test]
    fn an_unknown_key_is_refused_by_name_and_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "listen = 'a:1'\nlisen = 'b:1'\n").unwrap();
        let flags = Flags {
            config: Some(file.path().to_owned()),
            ..Flags::default()
        };
        let why = Config::layered(&flags, env(&[])).unwrap_err().to_string();
        assert!(why.contains("lisen") && why.contains("line 2"), "{why}");
    }

    #[test]
    fn a_variable_that_does_not_fit_is_refused_by_name() {
        for pair in [
            &[("HAPAX_SHUTDOWN_MS", "soon")],
            &[("HAPAX_METRICS_OPEN", "yes")],
            &[("HAPAX_DURABILITY", "none")],
            &[("HAPAX_BODY_BYTES_MAX", "-1")],
            &[("HAPAX_COLLECTIONS", "orders")],
        ] {
            let why = Config::layered(&Flags::default(), env(pair))
                .unwrap_err()
                .to_string();
            assert!(why.contains(pair[0].0), "{why}");
        }
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        let why =
            Config::layered(&Flags::default(), env(&[("HAPAX_CONNECTIONS_MAX", "0")])).unwrap_err();
        assert!(why.to_string().contains("connections_max"));
    }
}
