//! What the servers say about themselves, for the start and for `hapax doctor`.

use hapax_core::Error;
use redis::{Value, cmd};

use super::link::{Limits, Link};
use super::target::Target;

/// One server, as it describes itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Server {
    /// Its version.
    pub version: Option<String>,
    /// What it throws away when memory is short: `noeviction`, or a policy.
    pub eviction: Option<String>,
    /// Whether it writes an append-only file.
    pub appends: Option<bool>,
    /// How many replicas are connected to it.
    pub replicas: Option<usize>,
}

/// The servers at `target`: one, or every primary of a cluster.
///
/// # Errors
/// [`Kind::Unavailable`](hapax_core::Kind) when they do not answer.
pub async fn inspect(target: &Target, limit: std::time::Duration) -> Result<Vec<Server>, Error> {
    let limits = Limits {
        connect: limit,
        answer: limit,
    };
    servers(&Link::new(target.clone(), limits)).await
}

pub(super) async fn servers(link: &Link) -> Result<Vec<Server>, Error> {
    let answer = link.send(cmd("INFO").arg("everything")).await;
    let answer = answer.map_err(|failure| failure.reading("asking Redis about itself"))?;
    let mut texts = Vec::new();
    gather(answer, &mut texts);
    Ok(texts.iter().map(|text| server(text)).collect())
}

/// A cluster answers a map of addresses and texts, a server its text.
fn gather(answer: Value, texts: &mut Vec<String>) {
    match answer {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(&bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => texts.push(text),
        Value::Map(pairs) => {
            for (_, value) in pairs {
                gather(value, texts);
            }
        }
        _ => {}
    }
}

fn server(text: &str) -> Server {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(|value| value.trim().to_owned())
    };
    Server {
        version: field("redis_version"),
        eviction: field("maxmemory_policy"),
        appends: field("aof_enabled").map(|value| value == "1"),
        replicas: field("connected_slaves").and_then(|count| count.parse().ok()),
    }
}
