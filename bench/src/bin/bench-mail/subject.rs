//! What is measured: the import, and Python's parse beside it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hapax_bench::command::{Taken, run};
use serde_json::Value;

use crate::database::Database;

/// The name of the peer.
pub(crate) const PEER: &str = "python mailbox, no insert";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/python/parse_mbox.py");
const LIMIT: Duration = Duration::from_secs(1_800);

/// Where an import goes: always to a database that was empty before.
pub(crate) enum Target<'a> {
    /// A file in a new folder beneath this one.
    Sqlite(&'a Path),
    /// A new database on this server.
    Postgres(&'a Database),
}

/// What an import took, and how many messages it met.
pub(crate) struct Imported {
    pub(crate) taken: Taken,
    pub(crate) messages: u64,
}

/// Imports a mailbox with the program that users run.
///
/// # Errors
/// When it fails, or did not write what it read.
pub(crate) fn import(hapax: &Path, mailbox: &Path, into: &Target<'_>) -> Result<Imported> {
    let folder = match into {
        Target::Sqlite(folder) => tempfile::tempdir_in(folder)?,
        Target::Postgres(_) => tempfile::tempdir()?,
    };
    let mut command = Command::new(hapax);
    command.args(["import", "mbox"]).arg(mailbox);
    command.arg("--data").arg(folder.path()).arg("--json");
    let taken = match into {
        Target::Sqlite(_) => run(&mut command, LIMIT)?,
        Target::Postgres(server) => {
            let new = server.create()?;
            command.args(["--database", new.url()]);
            let before = server.cpu()?;
            let taken = run(&mut command, LIMIT)?;
            let database_cpu = Some(server.cpu()?.saturating_sub(before));
            Taken {
                database_cpu,
                ..taken
            }
        }
    };
    let told: Value =
        serde_json::from_str(&taken.output).context("reading what the import told")?;
    let count = |name: &str| {
        told[name]
            .as_u64()
            .with_context(|| format!("it did not tell {name}"))
    };
    let messages = count("total_messages")?;
    let kept = count("inserted")? + count("updated")? + count("skipped")?;
    let lost = count("normalize_errors")? + count("insert_errors")?;
    ensure!(
        told["status"] == "completed" && messages > 0 && messages == kept + lost,
        "the import did not end well: {told}"
    );
    Ok(Imported { taken, messages })
}

/// Parses a mailbox with Python and says how many messages it found.
///
/// # Errors
/// When there is no `python3`, or it fails.
pub(crate) fn parse(mailbox: &Path) -> Result<(Taken, u64)> {
    let mut command = Command::new("python3");
    let taken = run(command.arg(SCRIPT).arg(mailbox), LIMIT)?;
    let told: Value = serde_json::from_str(&taken.output).context("reading what Python told")?;
    let messages = told["messages"].as_u64();
    Ok((taken, messages.context("Python told no count")?))
}
