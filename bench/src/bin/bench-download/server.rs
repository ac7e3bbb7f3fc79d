//! The file server as a process of its own, so that its CPU is nobody else's.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use hapax_bench::cpu::Tree;

use crate::files::Sizes;

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts this very program as a server.
    ///
    /// # Errors
    /// When it does not say where it listens.
    pub(crate) fn start(sizes: Sizes) -> Result<Self> {
        let program = std::env::current_exe()?;
        let numbers = [sizes.small, sizes.large, sizes.large_bytes, sizes.delay_ms];
        let mut child = Command::new(program)
            .args([
                "--serve",
                &numbers.map(|number| number.to_string()).join(","),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the file server")?;
        let out = child.stdout.take().context("it has no output")?;
        let mut address = String::new();
        BufReader::new(out).read_line(&mut address)?;
        let address = address.trim().to_owned();
        Ok(Self { child, address })
    }

    /// Where a file is.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// CPU so far.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        Tree::of(self.child.id()).cpu()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("the file server did not end: {error}");
        }
    }
}
