//! A server in a process of its own, from its start to its end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};
use hapax_bench::cpu::Tree;

/// Longer than any start takes, also of a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts `command` and waits for its line `listening on http://HOST:PORT`.
    ///
    /// # Errors
    /// When it does not start, or does not say where it listens in time.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let lines = BufReader::new(child.stdout.take().context("the server has no output")?);
        let (tell, told) = mpsc::channel();
        // Reads to the end, so that a server that goes on talking is never held up.
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    // Only the first one is waited for.
                    let _ = tell.send(address.trim().to_owned());
                }
            }
        });
        let address = told.recv_timeout(PATIENCE);
        let mut server = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        server.address = address
            .with_context(|| format!("{} does not listen", command.get_program().display()))?
            .parse()?;
        Ok(server)
    }

    /// The process and what it started.
    pub(crate) fn tree(&self) -> Tree {
        Tree::of(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; what it stored is not needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
