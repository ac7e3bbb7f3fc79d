//! A program run to its end: how long it took, what CPU it and its children used, and the most memory it had.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cpu::Tree;

/// How often the memory of a program is looked at while it runs.
const LOOK: Duration = Duration::from_millis(5);

/// What one run of a program took.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// From its start to its end.
    pub wall: Duration,
    /// User and system time of it and everything it started.
    pub cpu: Duration,
    /// CPU of a database beside it, if there is one.
    pub database_cpu: Option<Duration>,
    /// The most memory the program itself had, in bytes, as far as it was seen.
    pub peak_bytes: u64,
    /// What it wrote to its standard output.
    pub output: String,
}

impl Taken {
    /// How many of `count` operations it did in a second.
    #[must_use]
    pub fn rate(&self, count: u64) -> f64 {
        real(count) / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Its CPU for each of `count` operations, in microseconds.
    #[must_use]
    pub fn cpu_us(&self, count: u64) -> f64 {
        micros(self.cpu, count)
    }

    /// The database's CPU for each of `count` operations, in microseconds.
    #[must_use]
    pub fn database_cpu_us(&self, count: u64) -> Option<f64> {
        self.database_cpu.map(|cpu| micros(cpu, count))
    }
}

/// Runs `command` to its end. It must end well within `limit`.
///
/// # Errors
/// When it cannot be started, does not end in time, or does not end well; with what it said then.
pub fn run(command: &mut Command, limit: Duration) -> Result<Taken> {
    let shown = format!("{command:?}");
    let folder = std::env::temp_dir();
    let (out, err) = (unnamed(&folder)?, unnamed(&folder)?);
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .spawn()
        .with_context(|| format!("starting {shown}"))?;
    let (cpu, peak_bytes) = match watch(&mut child, started + limit) {
        Ok(seen) => seen,
        Err(late) => {
            child.kill().and_then(|()| child.wait())?;
            return Err(late.context(shown));
        }
    };
    let wall = started.elapsed();
    let status = child.wait()?;
    ensure!(
        status.success(),
        "{shown} ended with {status}: {}",
        text(err)?
    );
    Ok(Taken {
        wall,
        cpu,
        database_cpu: None,
        peak_bytes,
        output: text(out)?,
    })
}

/// The run whose rate is in the middle.
///
/// # Errors
/// When there is none.
pub fn median(mut runs: Vec<Taken>) -> Result<Taken> {
    ensure!(!runs.is_empty(), "nothing was run");
    runs.sort_by_key(|taken| taken.wall);
    let middle = runs.len() / 2;
    Ok(runs.swap_remove(middle))
}

/// Looks at a child until it has ended and nobody has asked for its end yet: its CPU is complete then.
fn watch(child: &mut Child, until: Instant) -> Result<(Duration, u64)> {
    let tree = Tree::of(child.id());
    let mut peak_bytes = 0;
    while !has_ended(child.id())? {
        // Between two looks it may end, and has no memory then.
        peak_bytes = tree.peak_memory().unwrap_or_default().max(peak_bytes);
        ensure!(Instant::now() < until, "it did not end in time");
        std::thread::sleep(LOOK);
    }
    Ok((tree.cpu()?, peak_bytes))
}

fn has_ended(pid: u32) -> Result<bool> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).context("looking at a child")?;
    let state = line.rsplit_once(") ").map(|(_, fields)| fields);
    Ok(state.is_some_and(|fields| fields.starts_with('Z')))
}

/// A file that is gone when nobody has it open any more: unlike a pipe it never makes its writer wait.
fn unnamed(folder: &std::path::Path) -> Result<fs::File> {
    use rustix::fs::{CWD, Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR);
    Ok(fs::File::from(opened.context("making a file for output")?))
}

fn text(mut file: fs::File) -> Result<String> {
    use std::io::{Read, Seek};
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a bench are far below 2^53"
)]
fn real(count: u64) -> f64 {
    count as f64
}

fn micros(cpu: Duration, count: u64) -> f64 {
    cpu.as_secs_f64() * 1e6 / real(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_run_tells_its_output_its_cpu_and_its_memory() -> Result<()> {
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo $i";
        let taken = run(&mut shell(script), LIMIT)?;
        assert_eq!(taken.output, "300000\n");
        assert!(taken.cpu > Duration::ZERO && taken.cpu_us(1) > 0.0);
        assert!(taken.peak_bytes > 0);
        Ok(())
    }

    #[test]
    fn a_program_that_fails_or_lasts_too_long_is_an_error() {
        let failed = run(&mut shell("echo broken >&2; exit 3"), LIMIT);
        assert!(failed.unwrap_err().to_string().contains("broken"));
        assert!(run(&mut shell("sleep 60"), Duration::from_millis(50)).is_err());
    }

    #[test]
    fn the_median_of_three_runs_is_the_middle_one() -> Result<()> {
        let runs = [3, 1, 2].map(|seconds| Taken {
            wall: Duration::from_secs(seconds),
            ..Taken::default()
        });
        assert_eq!(median(runs.to_vec())?.wall, Duration::from_secs(2));
        assert!(median(Vec::new()).is_err());
        Ok(())
    }
}
