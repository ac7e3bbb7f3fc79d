//! The `[proxy]` keys: what stands behind `hapax proxy`, and how long it may take.

use std::time::Duration;

use anyhow::Result;
use hapax::layer::Identity;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::identity::Caller;
use crate::exit::Usage;

/// Every key of `[proxy]`. `hapax.default.toml` explains each of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Proxy {
    pub(crate) listen: String,
    pub(crate) admin_listen: String,
    pub(crate) upstream: String,
    pub(crate) upstream_http2: bool,
    pub(crate) upstream_ca: String,
    pub(crate) host: Host,
    pub(crate) hosts: Vec<String>,
    pub(crate) tenant_header: String,
    pub(crate) tenant_claim: String,
    pub(crate) jwt_algorithms: Vec<String>,
    pub(crate) jwt_key_file: String,
    pub(crate) jwt_issuer: String,
    pub(crate) jwt_audience: String,
    pub(crate) principal_headers: Vec<String>,
    pub(crate) principal_cookie: String,
    pub(crate) principal: String,
    pub(crate) connect_timeout_ms: u64,
    pub(crate) head_timeout_ms: u64,
    pub(crate) body_idle_timeout_ms: u64,
    pub(crate) total_timeout_ms: u64,
    pub(crate) tunnel_idle_timeout_ms: u64,
    pub(crate) pool_idle_timeout_ms: u64,
    pub(crate) pool_idle_max: usize,
}

/// Which Host the upstream sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Host {
    /// The one that the client sent.
    Preserve,
    /// The upstream's own.
    Upstream,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8089".to_owned(),
            admin_listen: String::new(),
            upstream: String::new(),
            upstream_http2: false,
            upstream_ca: String::new(),
            host: Host::Preserve,
            hosts: Vec::new(),
            tenant_header: String::new(),
            tenant_claim: String::new(),
            jwt_algorithms: Vec::new(),
            jwt_key_file: String::new(),
            jwt_issuer: String::new(),
            jwt_audience: String::new(),
            principal_headers: Vec::new(),
            principal_cookie: String::new(),
            principal: String::new(),
            connect_timeout_ms: 5_000,
            head_timeout_ms: 60_000,
            body_idle_timeout_ms: 300_000,
            total_timeout_ms: 3_600_000,
            tunnel_idle_timeout_ms: 3_600_000,
            pool_idle_timeout_ms: 4_000,
            pool_idle_max: 64,
        }
    }
}

impl Proxy {
    /// # Errors
    /// [`Usage`] when a time is nothing, or what says who a caller is cannot be followed.
    pub(crate) fn check(&self) -> Result<()> {
        for (key, value) in [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("head_timeout_ms", self.head_timeout_ms),
            ("body_idle_timeout_ms", self.body_idle_timeout_ms),
            ("total_timeout_ms", self.total_timeout_ms),
            ("tunnel_idle_timeout_ms", self.tunnel_idle_timeout_ms),
        ] {
            if value == 0 {
                return Err(Usage::error(format!(
                    "proxy.{key} is 0; it must be at least 1"
                )));
            }
        }
        self.identity().map(drop)
    }

    /// Who a caller is where a route does not say it: what is named, else the token's subject where tokens are checked
    /// for their tenant, else `Authorization`.
    ///
    /// # Errors
    /// [`Usage`] with the key that cannot be followed.
    pub(crate) fn identity(&self) -> Result<Identity> {
        let caller = Caller {
            headers: &self.principal_headers,
            cookie: &self.principal_cookie,
            principal: &self.principal,
        };
        let named = caller.identity();
        let named = named.map_err(|(key, why)| Usage::error(format!("proxy.{key} {why}")))?;
        Ok(match named {
            Some(identity) => identity,
            None if self.tenant_claim.is_empty() => Identity::authorization(),
            None => Identity::verified(),
        })
    }

    /// The times, ready for use.
    pub(crate) fn times(&self) -> Times {
        Times {
            head: Duration::from_millis(self.head_timeout_ms),
            body_idle: Duration::from_millis(self.body_idle_timeout_ms),
            total: Duration::from_millis(self.total_timeout_ms),
            tunnel_idle: Duration::from_millis(self.tunnel_idle_timeout_ms),
        }
    }
}

/// The variable of a key, such as HAPAX_PROXY_UPSTREAM.
fn variable(key: &str) -> String {
    super::variable(&format!("proxy_{key}"))
}

/// The variables of the keys of `[proxy]`, and of its secret.
pub(super) fn variables() -> Vec<String> {
    let known = Table::try_from(Proxy::default()).unwrap_or_default();
    let keys = known.keys().map(|key| variable(key));
    keys.chain([super::jwt::SECRET.to_owned()]).collect()
}

/// Lays the variables of `[proxy]` over what the file says.
pub(super) fn layer(
    table: &mut Table,
    defaults: &Table,
    env: &impl Fn(&str) -> Result<Option<String>>,
) -> Result<()> {
    for (key, default) in defaults {
        let name = variable(key);
        let Some(text) = env(&name)? else {
            continue;
        };
        let value = super::typed(default, &text)
            .map_err(|why| Usage::error(format!("{name}={text:?} {why}")))?;
        let mut alone = Table::new();
        alone.insert(key.clone(), value.clone());
        alone
            .try_into::<Proxy>()
            .map_err(|why| Usage::error(format!("{name}: {}", why.message())))?;
        let proxy = table
            .entry("proxy")
            .or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(proxy) = proxy {
            proxy.insert(key.clone(), value);
        }
    }
    Ok(())
}

/// How long each part of an exchange with the upstream may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) head: Duration,
    pub(crate) body_idle: Duration,
    pub(crate) total: Duration,
    pub(crate) tunnel_idle: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layered(pairs: &'static [(&'static str, &'static str)]) -> Result<Proxy> {
        let mut table: Table =
            toml::from_str("[proxy]\nupstream = 'http://file'\nhost = 'upstream'")?;
        let defaults = Table::try_from(Proxy::default())?;
        let env = |name: &str| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            Ok(found.map(|(_, value)| (*value).to_owned()))
        };
        layer(&mut table, &defaults, &env)?;
        Ok(table["proxy"].clone().try_into()?)
    }

    #[test]
    fn a_variable_wins_over_the_file_and_leaves_the_rest_of_it() {
        let proxy = layered(&[
            ("HAPAX_PROXY_UPSTREAM", "http://env"),
            ("HAPAX_PROXY_HEAD_TIMEOUT_MS", "7"),
        ]);
        let proxy = proxy.unwrap();
        assert_eq!(
            (proxy.upstream.as_str(), proxy.head_timeout_ms),
            ("http://env", 7)
        );
        assert_eq!(proxy.host, Host::Upstream);
        assert_eq!(proxy.listen, Proxy::default().listen);
        assert!(variables().contains(&"HAPAX_PROXY_UPSTREAM".to_owned()));
    }

    #[test]
    fn a_variable_that_does_not_fit_is_refused_by_name() {
        for pair in [
            &[("HAPAX_PROXY_HEAD_TIMEOUT_MS", "soon")],
            &[("HAPAX_PROXY_HOST", "mine")],
            &[("HAPAX_PROXY_HOSTS", "a,b")],
        ] {
            let why = layered(pair).unwrap_err().to_string();
            assert!(why.contains(pair[0].0), "{why}");
        }
    }

    #[test]
    fn a_time_of_nothing_is_refused() {
        let proxy = Proxy {
            head_timeout_ms: 0,
            ..Proxy::default()
        };
        assert!(
            proxy
                .check()
                .unwrap_err()
                .to_string()
                .contains("head_timeout_ms")
        );
    }
}
