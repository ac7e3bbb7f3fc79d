//! The PostgreSQL server beside the bench: a new database for each run, and the CPU of all its processes.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hapax_bench::cpu::Tree;

/// A server that the bench may use as it likes.
pub(crate) struct Database {
    url: String,
    server: Tree,
    made: AtomicU32,
}

/// A database that goes with this value.
pub(crate) struct New<'a> {
    of: &'a Database,
    name: String,
    url: String,
}

impl Database {
    /// The server that `HAPAX_TEST_POSTGRES` names, if it does.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        let Ok(url) = std::env::var("HAPAX_TEST_POSTGRES") else {
            return Ok(None);
        };
        let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
        let helper: u32 = ask(&url, sql)?.trim().parse()?;
        let server = Tree::of(parent(helper)?);
        let made = AtomicU32::new(0);
        Ok(Some(Self { url, server, made }))
    }

    /// CPU of the server so far.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.server.cpu()
    }

    /// An empty database.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn create(&self) -> Result<New<'_>> {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench_mail_{}_{nth}", std::process::id());
        ask(&self.url, &format!("CREATE DATABASE {name}"))?;
        let (server, _) = self
            .url
            .rsplit_once('/')
            .context("the URL names no database")?;
        let url = format!("{server}/{name}");
        Ok(New {
            of: self,
            name,
            url,
        })
    }
}

impl New<'_> {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        // The server is private and ends with the run, so a database that stays is only disk for a while.
        if let Err(error) = ask(
            &self.of.url,
            &format!("DROP DATABASE {} WITH (FORCE)", self.name),
        ) {
            eprintln!("a database stays until the server ends: {error:#}");
        }
    }
}

fn ask(url: &str, sql: &str) -> Result<String> {
    let mut psql = Command::new("psql");
    let asked = psql.args([url, "-XAtqc", sql]).output();
    let asked = asked.context("starting psql")?;
    let said = String::from_utf8_lossy(&asked.stderr);
    ensure!(asked.status.success(), "{sql}: {said}");
    Ok(String::from_utf8(asked.stdout)?)
}

fn parent(pid: u32) -> Result<u32> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .context("the server is not on this machine")?;
    let fields = line.rsplit_once(") ").map(|(_, fields)| fields);
    let parent = fields.and_then(|fields| fields.split(' ').nth(1)?.parse().ok());
    parent.context("the kernel does not say who started the server")
}
