//! The scripts, sent by their hash and in full only to a server that does not know them.

use std::time::Duration;

use redis::{Cmd, Pipeline, Value, cmd};

use super::link::{Failure, Link};

/// One script. It touches keys of one slot only.
pub(super) struct Script {
    source: &'static str,
    script: redis::Script,
}

/// How many replicas must have the write, and how long they are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) replicas: usize,
    pub(super) limit: Duration,
}

impl Script {
    pub(super) fn new(source: &'static str) -> Self {
        Self {
            source,
            script: redis::Script::new(source),
        }
    }

    /// Runs it. With `wait`, the number of replicas that have everything written so far on the same connection is
    /// answered too.
    pub(super) async fn run(
        &self,
        link: &Link,
        keys: &[&str],
        arguments: &[&[u8]],
        wait: Option<Wait>,
    ) -> Result<(Value, Option<usize>), Failure> {
        let call = |name: &str, body: &str| {
            let mut call = cmd(name);
            call.arg(body).arg(keys.len()).arg(keys).arg(arguments);
            call
        };
        match send(link, call("EVALSHA", self.script.get_hash()), wait).await {
            Err(Failure::NoScript) => send(link, call("EVAL", self.source), wait).await,
            answer => answer,
        }
    }
}

async fn send(
    link: &Link,
    call: Cmd,
    wait: Option<Wait>,
) -> Result<(Value, Option<usize>), Failure> {
    let Some(wait) = wait else {
        return Ok((link.send(&call).await?, None));
    };
    let mut both = Pipeline::with_capacity(2);
    both.add_command(call);
    both.cmd("WAIT")
        .arg(wait.replicas)
        .arg(u64::try_from(wait.limit.as_millis()).unwrap_or(u64::MAX));
    let mut answers = link.send_all(&both, wait.limit).await?.into_iter();
    match (answers.next(), answers.next()) {
        (Some(answer), Some(Value::Int(replicas))) => Ok((answer, usize::try_from(replicas).ok())),
        (_, _) => Err(Failure::Unknown("WAIT was not answered".to_owned())),
    }
}
