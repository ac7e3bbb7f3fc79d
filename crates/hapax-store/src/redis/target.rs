//! Where Redis is, and how many of its replicas must have a write: read from the URL. It connects to nothing.

use std::fmt;
use std::time::Duration;

use hapax_core::{Error, Kind};
use redis::{ConnectionInfo, IntoConnectionInfo};

/// The most replicas that a write may wait for.
const REPLICAS_MAX: usize = 16;
/// How long a write waits for its replicas unless the URL says otherwise.
const WAIT: Duration = Duration::from_millis(500);
/// The longest that a write may wait for its replicas.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Where Redis is: `redis://HOST:PORT/DB`, or `redis+cluster://HOST:PORT,HOST:PORT` for a cluster; `rediss` for TLS.
/// Shown without its password.
///
/// ```
/// use hapax_store::redis::Target;
///
/// let one = Target::parse("redis://:secret@cache.example:6379/2?wait=1&wait_ms=200")?;
/// assert_eq!((one.is_cluster(), one.wait_replicas()), (false, 1));
/// assert_eq!(one.to_string(), "redis://cache.example:6379");
/// let many = Target::parse("redis+cluster://10.0.0.1:7000,10.0.0.2:7000")?;
/// assert!(many.is_cluster());
/// // The refusal: an option that nobody knows is a typing error, not a default.
/// assert!(Target::parse("redis://cache.example?wait_replica=1").is_err());
/// # Ok::<(), hapax_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Target {
    nodes: Vec<ConnectionInfo>,
    cluster: bool,
    tls: bool,
    wait_replicas: usize,
    wait: Duration,
}

impl Target {
    /// Reads `url`.
    ///
    /// # Errors
    /// [`Kind::Unsafe`] when it is not such a URL. What was given may hold a password, so it is not repeated.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").ok_or_else(form)?;
        let (cluster, tls) = match scheme {
            "redis" => (false, false),
            "rediss" => (false, true),
            "redis+cluster" => (true, false),
            "rediss+cluster" => (true, true),
            _ => return Err(form()),
        };
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, hosts) = place
            .rsplit_once('@')
            .map_or(("", place), |(login, hosts)| (login, hosts));
        let (hosts, database) = hosts.split_once('/').unwrap_or((hosts, ""));
        if cluster && !matches!(database, "" | "0") {
            return Err(refused("a cluster has no database but 0"));
        }
        let nodes = hosts
            .split(',')
            .map(|host| node(tls, login, host, database))
            .collect::<Result<Vec<_>, Error>>()?;
        if nodes.len() > 1 && !cluster {
            return Err(refused(
                "several servers are a cluster; write redis+cluster://HOST:PORT,HOST:PORT",
            ));
        }
        let mut target = Self {
            nodes,
            cluster,
            tls,
            wait_replicas: 0,
            wait: WAIT,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            target.set(option)?;
        }
        Ok(target)
    }

    fn set(&mut self, option: &str) -> Result<(), Error> {
        match option.split_once('=') {
            Some(("wait", count)) => {
                let count = count.parse().ok().filter(|count| *count <= REPLICAS_MAX);
                self.wait_replicas =
                    count.ok_or_else(|| refused("wait is a number of replicas, at most 16"))?;
            }
            Some(("wait_ms", ms)) => {
                let span = ms.parse().ok().map(Duration::from_millis);
                let span = span.filter(|span| (Duration::from_millis(1)..=WAIT_MAX).contains(span));
                self.wait = span.ok_or_else(|| refused("wait_ms is between 1 and 10000"))?;
            }
            Some(_) | None => return Err(refused("the options are wait and wait_ms")),
        }
        Ok(())
    }

    /// The same place, where every write waits for this many replicas, at most 16.
    #[must_use]
    pub fn waiting_for(mut self, replicas: usize) -> Self {
        self.wait_replicas = replicas.min(REPLICAS_MAX);
        self
    }

    /// Whether it is a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.cluster
    }

    /// How many replicas must have a write before it is acknowledged.
    #[must_use]
    pub fn wait_replicas(&self) -> usize {
        self.wait_replicas
    }

    /// How long a write waits for them.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait
    }

    pub(super) fn nodes(&self) -> &[ConnectionInfo] {
        &self.nodes
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "rediss" } else { "redis" })?;
        f.write_str(if self.cluster { "+cluster://" } else { "://" })?;
        for (at, node) in self.nodes.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{}", node.addr())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

fn node(tls: bool, login: &str, host: &str, database: &str) -> Result<ConnectionInfo, Error> {
    if host.is_empty() {
        return Err(refused("a host is missing"));
    }
    let scheme = if tls { "rediss" } else { "redis" };
    let at = if login.is_empty() { "" } else { "@" };
    format!("{scheme}://{login}{at}{host}/{database}")
        .into_connection_info()
        // Its text may quote the password.
        .map_err(|_| form())
}

fn form() -> Error {
    refused(
        "it is not redis://HOST:PORT, rediss://HOST:PORT (TLS) or redis+cluster://HOST:PORT,HOST:PORT",
    )
}

fn refused(why: &str) -> Error {
    Error::new(Kind::Unsafe, "reading the URL of Redis").because(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_not_understood_is_refused_and_never_repeated() {
        for url in [
            "hunter2",
            "http://hunter2@h",
            "redis://",
            "redis://:hunter2@a:1,b:2",
            "redis+cluster://:hunter2@a:1,b:2/3",
            "redis://:hunter2@h?wait=many",
            "redis://:hunter2@h?wait=17",
            "redis://:hunter2@h?wait_ms=0",
            "redis://:hunter2@h:port",
        ] {
            let error = Target::parse(url).expect_err(url);
            assert_eq!(error.kind(), Kind::Unsafe);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let target = Target::parse("rediss+cluster://me:p@ss@a:1,b:2?wait=2&wait_ms=70").unwrap();
        assert_eq!(target.to_string(), "rediss+cluster://a:1,b:2");
        assert!(!format!("{target:?}").contains("p@ss"));
        assert_eq!(
            (target.wait_replicas(), target.wait()),
            (2, Duration::from_millis(70))
        );
    }
}
