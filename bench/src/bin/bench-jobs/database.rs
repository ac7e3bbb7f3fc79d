//! The PostgreSQL server that `dev/with-postgres` started: databases on it, and the CPU of all its processes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use hapax_bench::cpu::Tree;
use tokio_postgres::{Client, Config, NoTls};

pub(crate) struct Server {
    config: Config,
    tree: Tree,
    databases: AtomicU32,
}

impl Server {
    /// The server in HAPAX_TEST_POSTGRES.
    pub(crate) async fn find() -> Result<Self> {
        let url = std::env::var("HAPAX_TEST_POSTGRES")
            .context("HAPAX_TEST_POSTGRES names no server; run this through dev/with-postgres")?;
        let config: Config = url.parse()?;
        let client = connected(&config).await?;
        let row = client.query_one("SHOW data_directory", &[]).await?;
        let folder: String = row.get(0);
        let path = format!("{folder}/postmaster.pid");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let pid = text
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok());
        Ok(Self {
            config,
            tree: Tree::of(pid.with_context(|| format!("{path} begins with no process id"))?),
            databases: AtomicU32::new(0),
        })
    }

    /// CPU of the server and all its processes so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.tree.cpu()
    }

    /// Makes an empty database and returns its name.
    pub(crate) async fn create(&self) -> Result<String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench_{}_{number}", std::process::id());
        let client = connected(&self.config).await?;
        // A name of our own making; the statement takes no parameters.
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await?;
        Ok(name)
    }

    /// Takes a database down, whoever is still connected.
    pub(crate) async fn drop(&self, name: &str) -> Result<()> {
        let client = connected(&self.config).await?;
        client
            .batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
            .await?;
        Ok(())
    }

    /// A connection as the superuser.
    pub(crate) async fn connect(&self, name: &str) -> Result<Client> {
        connected(self.config.clone().dbname(name)).await
    }

    pub(crate) fn url(&self, name: &str) -> Result<String> {
        let host = match self.config.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
            _ => anyhow::bail!("HAPAX_TEST_POSTGRES names no host"),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let user = self.config.get_user().unwrap_or("postgres");
        Ok(format!("postgres://{user}@{host}:{port}/{name}"))
    }
}

async fn connected(config: &Config) -> Result<Client> {
    let (client, connection) = config
        .connect(NoTls)
        .await
        .context("connecting to PostgreSQL")?;
    tokio::spawn(async move {
        // A database that is dropped ends its connections.
        if let Err(error) = connection.await {
            eprintln!("a connection ended: {error}");
        }
    });
    Ok(client)
}
