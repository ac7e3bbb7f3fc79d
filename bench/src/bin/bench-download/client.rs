//! What downloads: `hapax download` as users run it, and curl, wget and aria2c with as many connections.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hapax_bench::command::{Taken, run};
use serde_json::json;

use crate::files::Kept;
use crate::server::Server;

const LIMIT: Duration = Duration::from_secs(900);

/// A program that downloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    Hapax,
    Curl,
    /// curl, and then what ours does beside fetching: the sha256 of each file, and a sync of each.
    CurlHashedAndSynced,
    Wget,
    Aria2c,
}

/// What is to be fetched, and by how many connections at a time.
pub(crate) struct Task<'a> {
    pub(crate) server: &'a Server,
    pub(crate) files: &'a [Kept],
    pub(crate) connections: usize,
    pub(crate) hapax: &'a Path,
    /// Where it goes: an empty folder.
    pub(crate) folder: &'a Path,
}

impl Client {
    pub(crate) const ALL: [Self; 5] = [
        Self::Hapax,
        Self::Curl,
        Self::Wget,
        Self::Aria2c,
        Self::CurlHashedAndSynced,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Client::Hapax => "hapax",
            Client::Curl => "curl",
            Client::CurlHashedAndSynced => "curl + sha256sum + sync",
            Client::Wget => "wget",
            Client::Aria2c => "aria2c",
        }
    }

    /// Whether it is here. Ours always is.
    pub(crate) fn is_here(self) -> bool {
        let program = self.name().split(' ').next().unwrap_or_default();
        let said = || Command::new(program).arg("--version").output();
        self == Client::Hapax || said().is_ok_and(|said| said.status.success())
    }

    /// Fetches everything and looks whether it is there.
    ///
    /// # Errors
    /// When the program fails, or a file is missing or has another size.
    pub(crate) fn fetch(self, task: &Task<'_>) -> Result<Taken> {
        let out = task.folder.join("out");
        fs::create_dir(&out)?;
        let mut command = match self {
            Client::Hapax => hapax(task, &out)?,
            Client::Curl => curl(task, &out)?,
            Client::CurlHashedAndSynced => hashed_and_synced(&curl(task, &out)?, &out),
            Client::Wget => wget(task, &out)?,
            Client::Aria2c => aria2c(task, &out)?,
        };
        let taken = run(&mut command, LIMIT)?;
        let root = if self == Client::Hapax {
            out.join("files")
        } else {
            out
        };
        for kept in task.files {
            let path = root.join(self.place(kept));
            let found =
                fs::metadata(&path).with_context(|| format!("{} is missing", path.display()))?;
            ensure!(
                found.len() == kept.bytes,
                "{} has {} bytes",
                path.display(),
                found.len()
            );
        }
        Ok(taken)
    }

    /// Where a file goes beneath the folder.
    fn place(self, kept: &Kept) -> PathBuf {
        match self {
            // By work and artifact.
            Client::Hapax => PathBuf::from(&kept.path),
            Client::Curl | Client::CurlHashedAndSynced | Client::Aria2c => {
                PathBuf::from(kept.path.replace('/', "-"))
            }
            Client::Wget => PathBuf::from(kept.path.rsplit('/').next().unwrap_or_default()),
        }
    }
}

fn hapax(task: &Task<'_>, out: &Path) -> Result<Command> {
    let manifest = task.folder.join("manifest.jsonl");
    let mut lines = String::new();
    for kept in task.files {
        let (work, artifact) = kept.path.split_once('/').context("a path has two parts")?;
        let url = task.server.url(&kept.path);
        writeln!(
            lines,
            "{}",
            json!({"work_id": work, "artifact_id": artifact, "canonical_url": url})
        )?;
    }
    fs::write(&manifest, lines)?;
    let mut command = Command::new(task.hapax);
    command.arg("download").arg(&manifest).arg("--out").arg(out);
    command.arg("--data").arg(task.folder.join("data"));
    command.args(["--concurrency", &task.connections.to_string()]);
    command.args(["--allow-private-addresses", "--json"]);
    command.env("HAPAX_DOWNLOAD_PER_HOST", task.connections.to_string());
    Ok(command)
}

fn curl(task: &Task<'_>, out: &Path) -> Result<Command> {
    let config = task.folder.join("curl.config");
    let mut lines = String::new();
    for kept in task.files {
        let to = out.join(Client::Curl.place(kept));
        writeln!(
            lines,
            "url = \"{}\"\noutput = \"{}\"",
            task.server.url(&kept.path),
            to.display()
        )?;
    }
    fs::write(&config, lines)?;
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--parallel"]);
    command.args([
        "--parallel-immediate",
        "--parallel-max",
        &task.connections.to_string(),
    ]);
    command.arg("--config").arg(config);
    Ok(command)
}

/// A shell that runs `curl`, and when that went well hashes and syncs what it left. The words that the shell gets are its
/// arguments, so nothing in them means anything to it.
fn hashed_and_synced(curl: &Command, out: &Path) -> Command {
    let mut shell = Command::new("sh");
    let script =
        r#"out=$1; shift; "$@" && sha256sum "$out"/* >"$out.sums" && sync "$out"/* "$out""#;
    shell.args(["-c", script, "sh"]).arg(out);
    shell.arg(curl.get_program()).args(curl.get_args());
    shell
}

/// wget has one connection, so there are as many of it as connections, each with its share of the files.
fn wget(task: &Task<'_>, out: &Path) -> Result<Command> {
    let mut shares = vec![String::new(); task.connections.min(task.files.len())];
    let count = shares.len();
    for (at, kept) in task.files.iter().enumerate() {
        writeln!(shares[at % count], "{}", task.server.url(&kept.path))?;
    }
    let mut names = String::new();
    for (at, share) in shares.iter().enumerate() {
        let path = task.folder.join(format!("wget.{at}"));
        fs::write(&path, share)?;
        writeln!(names, "{}", path.display())?;
    }
    let list = task.folder.join("wget.lists");
    fs::write(&list, names)?;
    let mut command = Command::new("xargs");
    command.arg("--arg-file").arg(list);
    command.args(["--max-procs", &count.to_string(), "--max-args", "1"]);
    command
        .args(["wget", "--quiet", "--no-proxy", "--directory-prefix"])
        .arg(out)
        .arg("--input-file");
    Ok(command)
}

/// A file is split only if there are more connections than files.
fn aria2c(task: &Task<'_>, out: &Path) -> Result<Command> {
    let list = task.folder.join("aria2c.list");
    let mut lines = String::new();
    for kept in task.files {
        let name = Client::Aria2c.place(kept);
        writeln!(
            lines,
            "{}\n  out={}",
            task.server.url(&kept.path),
            name.display()
        )?;
    }
    fs::write(&list, lines)?;
    let split = (task.connections / task.files.len())
        .clamp(1, 16)
        .to_string();
    let mut command = Command::new("aria2c");
    command.args(["--quiet", "--no-conf", "--file-allocation=none"]);
    command.args(["--max-concurrent-downloads", &task.connections.to_string()]);
    command.args(["--max-connection-per-server", &split, "--split", &split]);
    command.arg("--input-file").arg(list).arg("--dir").arg(out);
    Ok(command)
}
