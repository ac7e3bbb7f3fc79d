//! The connections to Redis, made when they are first used, and what a failure on them means.
//! Everything sent has a time limit. It knows no script and no key.

use std::time::Duration;

use hapax_core::{Error, Kind};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, ServerErrorKind, Value};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::target::Target;

/// How often the cluster's client sends a command again. Each one finds out whether the last one arrived.
const RETRIES: u32 = 3;

/// How long connecting and answering may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connect: Duration,
    pub(super) answer: Duration,
}

/// One multiplexed way to Redis: to one server, or to every primary of a cluster.
pub(super) struct Link {
    target: Target,
    limits: Limits,
    wire: OnceCell<Wire>,
}

#[derive(Clone)]
enum Wire {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused before it did anything, or was never reached.
    Refused(String),
    /// The script is not known to this server; nothing was done.
    NoScript,
    /// It may have been done.
    Unknown(String),
}

impl Failure {
    /// The error for something that was to be written.
    pub(super) fn writing(self, operation: &'static str) -> Error {
        match self {
            Failure::Refused(why) => Error::new(Kind::Unavailable, operation).because(why),
            Failure::NoScript => Error::new(Kind::Unavailable, operation).because("no script"),
            Failure::Unknown(why) => Error::new(Kind::OutcomeUnknown, operation).because(why),
        }
    }

    /// The error for something that was only to be read.
    pub(super) fn reading(self, operation: &'static str) -> Error {
        match self {
            Failure::Refused(why) | Failure::Unknown(why) => {
                Error::new(Kind::Unavailable, operation).because(why)
            }
            Failure::NoScript => Error::new(Kind::Unavailable, operation).because("no script"),
        }
    }
}

impl Link {
    pub(super) fn new(target: Target, limits: Limits) -> Self {
        Self {
            target,
            limits,
            wire: OnceCell::new(),
        }
    }

    /// Whether a connection was made. It is made again by itself when it is lost.
    pub(super) fn is_made(&self) -> bool {
        self.wire.initialized()
    }

    /// Makes the connection, if there is none.
    pub(super) async fn connect(&self) -> Result<(), Failure> {
        self.wire().await.map(drop)
    }

    /// Sends one command.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut wire = self.wire().await?;
        let sent = async { command.query_async::<Value>(&mut wire).await };
        match timeout(self.limits.answer, sent).await {
            Ok(answer) => answer.map_err(|error| failure(&error)),
            Err(_) => Err(self.late()),
        }
    }

    /// Sends commands for one slot together, in order and on one connection, each answered.
    pub(super) async fn send_all(
        &self,
        commands: &Pipeline,
        longer: Duration,
    ) -> Result<Vec<Value>, Failure> {
        let mut wire = self.wire().await?;
        let sent = async { commands.query_async::<Vec<Value>>(&mut wire).await };
        match timeout(self.limits.answer + longer, sent).await {
            Ok(answers) => answers.map_err(|error| failure(&error)),
            Err(_) => Err(self.late()),
        }
    }

    async fn wire(&self) -> Result<Wire, Failure> {
        let limits = self.limits;
        let connecting = self.wire.get_or_try_init(|| connect(&self.target, limits));
        match timeout(limits.connect, connecting).await {
            Ok(Ok(wire)) => Ok(wire.clone()),
            Ok(Err(error)) => Err(Failure::Refused(error.to_string())),
            Err(_) => Err(Failure::Refused(format!(
                "{} did not answer within {:?}",
                self.target, limits.connect
            ))),
        }
    }

    fn late(&self) -> Failure {
        let limit = self.limits.answer;
        Failure::Unknown(format!("{} did not answer within {limit:?}", self.target))
    }
}

async fn connect(target: &Target, limits: Limits) -> Result<Wire, RedisError> {
    let no_node = || RedisError::from((ErrorKind::InvalidClientConfig, "no server is named"));
    if target.is_cluster() {
        let client = ClusterClient::builder(target.nodes().to_vec())
            .connection_timeout(limits.connect)
            .response_timeout(limits.answer + target.wait())
            .retries(RETRIES)
            .min_retry_wait(10)
            .max_retry_wait(200)
            .build()?;
        return Ok(Wire::Cluster(client.get_async_connection().await?));
    }
    let node = target.nodes().first().ok_or_else(no_node)?.clone();
    let config = ConnectionManagerConfig::new()
        .set_connection_timeout(Some(limits.connect))
        .set_response_timeout(Some(limits.answer + target.wait()))
        .set_number_of_retries(1)
        .set_min_delay(Duration::from_millis(20))
        .set_max_delay(Duration::from_millis(200));
    let manager = ConnectionManager::new_with_config(Client::open(node)?, config);
    Ok(Wire::One(manager.await?))
}

impl ConnectionLike for Wire {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Wire::One(one) => one.req_packed_command(command),
            Wire::Cluster(cluster) => cluster.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Wire::One(one) => one.req_packed_commands(commands, offset, count),
            Wire::Cluster(cluster) => cluster.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Wire::One(one) => one.get_db(),
            Wire::Cluster(cluster) => cluster.get_db(),
        }
    }
}

/// What an error says about what was sent. Only what the server itself refused, before a script began or at its first
/// write, is known not to be done.
fn failure(error: &RedisError) -> Failure {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoScript) => Failure::NoScript,
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::CrossSlot
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::NoPerm,
        )
        | ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::ClusterConnectionNotFound => Failure::Refused(text),
        ErrorKind::Extension
            if ["OOM", "MISCONF", "NOREPLICAS", "NOAUTH", "BUSY"]
                .iter()
                .any(|code| text.contains(code)) =>
        {
            Failure::Refused(text)
        }
        _ if error.is_connection_refusal() => Failure::Refused(text),
        _ => Failure::Unknown(text),
    }
}
