//! The peers: programs that others wrote for the same purpose, installed by name and put before the same handler.
//!
//! | Peer | keeps its records in | two equal requests at once |
//! |---|---|---|
//! | axum-idempotent | PostgreSQL, written after the handler | may both run |
//! | node-idempotency | Redis, synced at every write | one is refused |
//! | express-idempotency | memory | may both run |
//! | Powertools for Python | Redis, synced at every write | one is refused |

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hapax_bench::cpu::Tree;

use crate::database::Postgres;
use crate::measure::Subject;
use crate::process::Server;
use crate::talk::Talk;

/// Peers whose records outlive the process and the power: what is answered is synced.
pub(crate) const DURABLE: [&str; 3] = [
    "axum-idempotent, PostgreSQL",
    "node-idempotency, Redis synced",
    "Powertools, Redis synced",
];

/// Where peers are installed.
const INSTALLED: &str = "target/bench";
const PATIENCE: Duration = Duration::from_secs(20);

/// The peers that run, and the Redis behind some of them.
pub(crate) struct Peers {
    pub(crate) subjects: Vec<Subject>,
    /// Ends after the peers that use it.
    redis: Option<Redis>,
}

impl Peers {
    /// Nobody.
    pub(crate) fn none() -> Self {
        Self {
            subjects: Vec::new(),
            redis: None,
        }
    }

    /// Installs and starts those whose name `wanted` takes.
    ///
    /// # Errors
    /// When one cannot be installed or does not start.
    pub(crate) async fn start(
        postgres: &Postgres,
        folder: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let mut peers = Self::none();
        let [axum, node, powertools] = DURABLE;
        let express = "express-idempotency, memory";
        if wanted(axum) {
            let mut command = Command::new(install_rust()?);
            command.env("DATABASE_URL", postgres.create().await?);
            let database = Some(postgres.tree);
            peers.add(axum, &mut command, Talk::Keyed, database)?;
        }
        if [node, express, powertools].iter().all(|name| !wanted(name)) {
            return Ok(peers);
        }
        let redis = Redis::start(folder)?;
        let database = Some(redis.tree());
        if wanted(node) {
            let mut command = script("node-idempotency.js")?;
            command.env("REDIS_URL", format!("redis://{}", redis.address));
            peers.add(node, &mut command, Talk::Keyed, database)?;
        }
        if wanted(express) {
            let mut command = script("express-idempotency.js")?;
            peers.add(express, &mut command, Talk::Unmarked, None)?;
        }
        if wanted(powertools) {
            let mut command = Command::new(install_python()?);
            command
                .arg("bench/peers/python/powertools.py")
                .env("REDIS_PORT", redis.address.port().to_string());
            peers.add(powertools, &mut command, Talk::Unmarked, database)?;
        }
        peers.redis = Some(redis);
        Ok(peers)
    }

    fn add(
        &mut self,
        name: &'static str,
        command: &mut Command,
        talk: Talk,
        database: Option<Tree>,
    ) -> Result<()> {
        self.subjects.push(Subject {
            name,
            servers: vec![Server::start(command).with_context(|| format!("starting {name}"))?],
            talk,
            database,
        });
        Ok(())
    }
}

/// A private Redis that syncs its log at every write, as SQLite FULL does.
struct Redis {
    child: Child,
    address: SocketAddr,
}

impl Redis {
    fn start(folder: &Path) -> Result<Self> {
        // Asked for a free port; nobody else is likely to take it before Redis does.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args(["--appendfsync", "always", "--port"])
            .arg(address.port().to_string())
            .arg("--dir")
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .context("starting redis-server; install the package redis-server")?;
        let redis = Self { child, address };
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            ensure!(begun.elapsed() < PATIENCE, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(redis)
    }

    fn tree(&self) -> Tree {
        Tree::of(self.child.id())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself; nothing of it is needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install_rust() -> Result<PathBuf> {
    let target = Path::new(INSTALLED).join("rust");
    run(Command::new("cargo")
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg("bench/peers/rust/Cargo.toml")
        .arg("--target-dir")
        .arg(&target))?;
    Ok(target.join("release/hapax-bench-peers"))
}

/// A program of the folder of node peers, copied beside what it needs.
fn script(name: &str) -> Result<Command> {
    let (from, to) = (
        Path::new("bench/peers/node"),
        Path::new(INSTALLED).join("node"),
    );
    std::fs::create_dir_all(&to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    if !to.join("node_modules").is_dir() {
        run(Command::new("npm")
            .args([
                "install",
                "--silent",
                "--no-package-lock",
                "--no-audit",
                "--no-fund",
            ])
            .current_dir(&to))?;
    }
    let mut command = Command::new("node");
    command.arg(to.join(name)).env("NODE_ENV", "production");
    Ok(command)
}

fn install_python() -> Result<PathBuf> {
    let folder = Path::new(INSTALLED).join("python");
    let python = folder.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "-r"])
            .arg("bench/peers/python/requirements.txt"))?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("running {}", program.display()))?;
    ensure!(
        status.success(),
        "{} ended with {status}",
        program.display()
    );
    Ok(())
}
