//! Peers that are programs of their own: installed by name below target/bench, and told by a pipe what to do.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax_bench::cpu::Tree;

use crate::database::Server;
use crate::tally::{Cost, spent};

fn sources(peer: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(peer)
}

fn installed(peer: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/bench")
        .join(peer);
    std::fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("starting {command:?}"))?;
    anyhow::ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// Installs the packages of a Node peer and returns its script.
pub(crate) fn install_node(peer: &str) -> Result<PathBuf> {
    let folder = installed(peer)?;
    for name in ["package.json", "drain.mjs"] {
        std::fs::copy(sources(peer).join(name), folder.join(name))?;
    }
    let flags = [
        "install",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--silent",
    ];
    run(Command::new("npm").args(flags).current_dir(&folder))?;
    Ok(folder.join("drain.mjs"))
}

/// Builds a Rust peer and returns its program.
pub(crate) fn build_rust(peer: &str, program: &str) -> Result<PathBuf> {
    let folder = installed(peer)?;
    let manifest = sources(peer).join("Cargo.toml");
    run(Command::new("cargo")
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(manifest)
        .env("CARGO_TARGET_DIR", &folder))?;
    Ok(folder.join("release").join(program))
}

/// A peer at work.
pub(crate) struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(command: &str, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(command)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command}"))?;
        let orders = child.stdin.take().context("a pipe to the program")?;
        let answers = child.stdout.take().context("a pipe from the program")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers),
        })
    }

    /// Has it do something with `count` jobs, which it times itself.
    pub(crate) fn run(
        &mut self,
        order: &str,
        count: usize,
        server: Option<&Server>,
    ) -> Result<Cost> {
        let tree = Tree::of(self.child.id());
        let (database, cpu) = (server.map(Server::cpu).transpose()?, tree.cpu()?);
        let begun = Instant::now();
        writeln!(self.orders, "{order} {count}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let seconds: f64 = line.trim().parse().with_context(|| {
            format!(
                "the peer answered {line:?} to {order} after {:?}",
                begun.elapsed()
            )
        })?;
        let cpu = tree.cpu()?.saturating_sub(cpu);
        let wall = Duration::from_secs_f64(seconds);
        let database = spent(server, database)?;
        Ok(Cost::each(
            count,
            wall,
            cpu,
            database,
            Some(tree.peak_memory()?),
        ))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It holds nothing worth keeping, and it must not outlive the run.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
            eprintln!("a peer was not stopped: {error}");
        }
    }
}
