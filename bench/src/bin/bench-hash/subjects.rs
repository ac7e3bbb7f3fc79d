//! Who is measured: two in this process, two that read orders from a pipe and time themselves in the same way.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hapax_bench::cpu::Tree;
use hapax_core::canonical::{self, Profile};
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};

use crate::documents::Document;

pub(crate) const HAPAX: &str = "hapax hcj-1";
pub(crate) const SERDE: &str = "serde Value + JCS crate";
pub(crate) const PYTHON: &str = "Python json + hashlib";
pub(crate) const NODE: &str = "JavaScript, sorted keys";

/// What one turn found: costs of one document, and the digest.
#[derive(Clone)]
pub(crate) struct Timing {
    pub(crate) digest: String,
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
}

pub(crate) enum Subject {
    Hapax,
    Serde,
    Program {
        name: &'static str,
        profile: Profile,
        program: Program,
    },
}

impl Subject {
    /// Everybody, in the order of their turns. A check does without the programs that are not installed.
    pub(crate) fn all(check: bool) -> Result<Vec<Self>> {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/hash");
        let mut subjects = vec![Self::Hapax, Self::Serde];
        for (name, profile, command, script) in [
            (PYTHON, Profile::PyJson, "python3", "hash.py"),
            (NODE, Profile::JsSorted, "node", "hash.mjs"),
        ] {
            match Program::start(command, &peers.join(script)) {
                Ok(program) => subjects.push(Self::Program {
                    name,
                    profile,
                    program,
                }),
                Err(error) if check => eprintln!("without {name}: {error:#}"),
                Err(error) => return Err(error),
            }
        }
        Ok(subjects)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hapax => HAPAX,
            Self::Serde => SERDE,
            Self::Program { name, .. } => name,
        }
    }

    /// The profile of ours that gives the same bytes.
    pub(crate) fn profile(&self) -> Profile {
        match self {
            Self::Hapax | Self::Serde => Profile::Hcj1,
            Self::Program { profile, .. } => *profile,
        }
    }

    /// Hashes the document again and again for at least `turn`.
    pub(crate) fn run(&mut self, document: &Document, turn: Duration) -> Result<Timing> {
        match self {
            Self::Hapax => here(turn, || {
                Ok(canonical::hash(&document.bytes, Profile::Hcj1)?)
            }),
            Self::Serde => here(turn, || with_serde(&document.bytes)),
            Self::Program { program, .. } => program.run(&document.path, turn),
        }
    }

    /// The most memory a program of its own ever had; those in this process cannot be told apart.
    pub(crate) fn peak_memory(&self) -> Result<Option<u64>> {
        match self {
            Self::Hapax | Self::Serde => Ok(None),
            Self::Program { program, .. } => Ok(Some(Tree::of(program.child.id()).peak_memory()?)),
        }
    }
}

fn with_serde(bytes: &[u8]) -> Result<String> {
    let value: serde_json::Value = serde_json::from_slice(bytes)?;
    let text = serde_json_canonicalizer::to_vec(&value)?;
    Ok(data_encoding::HEXLOWER.encode(&Sha256::digest(&text)))
}

fn here(turn: Duration, mut hash: impl FnMut() -> Result<String>) -> Result<Timing> {
    let (cpu, begun) = (own_cpu_s(), Instant::now());
    let mut count = 0_u32;
    loop {
        let digest = hash()?;
        count += 1;
        let wall = begun.elapsed();
        if wall >= turn {
            return Ok(Timing {
                digest,
                wall_s: wall.as_secs_f64() / f64::from(count),
                cpu_s: (own_cpu_s() - cpu) / f64::from(count),
            });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a short run")]
fn own_cpu_s() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// A program that hashes the file we name, again and again, and says what it took.
pub(crate) struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(command: &str, script: &Path) -> Result<Self> {
        let mut child = Command::new(command)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command}; install it to measure it"))?;
        let orders = child.stdin.take().context("a pipe to the program")?;
        let answers = child.stdout.take().context("a pipe from the program")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers),
        })
    }

    fn run(&mut self, document: &Path, turn: Duration) -> Result<Timing> {
        writeln!(
            self.orders,
            "{}\t{}",
            turn.as_secs_f64(),
            document.display()
        )?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [digest, wall, cpu] = fields[..] else {
            anyhow::bail!("the program answered {line:?} instead of a digest and two times");
        };
        Ok(Timing {
            digest: digest.to_owned(),
            wall_s: wall.parse()?,
            cpu_s: cpu.parse()?,
        })
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
