//! The private PostgreSQL of a run: a database for each subject, and the server's process for its CPU.

use anyhow::{Context, Result};
use hapax_bench::cpu::Tree;
use tokio_postgres::{Client, NoTls};

/// The server that the environment names.
#[derive(Debug, Clone)]
pub(crate) struct Postgres {
    url: String,
    pub(crate) tree: Tree,
}

impl Postgres {
    /// The server of HAPAX_TEST_POSTGRES, which `dev/with-postgres` sets.
    ///
    /// # Errors
    /// When there is none, or it does not say its process.
    pub(crate) async fn of_environment() -> Result<Self> {
        let url = std::env::var("HAPAX_TEST_POSTGRES")
            .context("HAPAX_TEST_POSTGRES is not set; run this through dev/with-postgres")?;
        let client = connect(&url).await?;
        let file: String = client
            .query_one("SELECT pg_read_file('postmaster.pid')", &[])
            .await?
            .get(0);
        let pid = file
            .lines()
            .next()
            .and_then(|line| line.trim().parse().ok())
            .context("the server does not say its process")?;
        Ok(Self {
            url,
            tree: Tree::of(pid),
        })
    }

    /// Makes an empty database; its URL.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) async fn create(&self) -> Result<String> {
        let name = format!("bench_{}", uuid::Uuid::new_v4().simple());
        let client = connect(&self.url).await?;
        // A name of hexadecimal digits: nothing in it needs quoting.
        client
            .batch_execute(&["CREATE DATABASE ", &name].concat())
            .await?;
        let (server, _) = self
            .url
            .rsplit_once('/')
            .context("HAPAX_TEST_POSTGRES names no database")?;
        Ok(format!("{server}/{name}"))
    }
}

pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("connecting to PostgreSQL")?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("the connection to PostgreSQL broke: {error}");
        }
    });
    Ok(client)
}
