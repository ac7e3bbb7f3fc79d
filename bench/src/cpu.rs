//! CPU and memory of a process and everything it started, as the kernel counts them.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// A process and its descendants.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    root: u32,
}

/// One line of the process table: who started it, and the ticks it and its ended children used.
struct Process {
    parent: u32,
    ticks: u64,
}

impl Tree {
    /// The tree below the process `root`.
    #[must_use]
    pub fn of(root: u32) -> Self {
        Self { root }
    }

    /// The tree below this very process.
    #[must_use]
    pub fn own() -> Self {
        Self::of(std::process::id())
    }

    /// CPU used so far, user and system. A child that ends hands its time to its parent, so the figure
    /// never goes back while the root lives.
    ///
    /// # Errors
    /// When the process table cannot be read or the root is gone.
    pub fn cpu(self) -> Result<Duration> {
        let table = processes()?;
        anyhow::ensure!(
            table.contains_key(&self.root),
            "process {} is gone",
            self.root
        );
        let ticks: u64 = table
            .iter()
            .filter(|(pid, _)| self.holds(**pid, &table))
            .map(|(_, process)| process.ticks)
            .sum();
        Ok(Duration::from_millis(
            ticks * 1_000 / rustix::param::clock_ticks_per_second(),
        ))
    }

    /// The most memory the root process itself ever had resident, in bytes.
    ///
    /// # Errors
    /// When the root is gone.
    pub fn peak_memory(self) -> Result<u64> {
        memory_line(self.root, "VmHWM:")
    }

    /// The memory the root process has resident now, in bytes.
    ///
    /// # Errors
    /// When the root is gone.
    pub fn memory(self) -> Result<u64> {
        memory_line(self.root, "VmRSS:")
    }

    fn holds(self, mut pid: u32, table: &HashMap<u32, Process>) -> bool {
        while pid != self.root {
            match table.get(&pid) {
                Some(process) if process.parent != 0 => pid = process.parent,
                _ => return false,
            }
        }
        true
    }
}

fn memory_line(pid: u32, name: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let kilobytes: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .with_context(|| format!("the kernel does not say {name} of process {pid}"))?;
    Ok(kilobytes * 1_024)
}

fn processes() -> Result<HashMap<u32, Process>> {
    let mut table = HashMap::new();
    for entry in fs::read_dir("/proc").context("reading the process table")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process may end between the listing and the reading.
        if let Some(process) = read_process(pid) {
            table.insert(pid, process);
        }
    }
    Ok(table)
}

/// `None` when the process is gone.
fn read_process(pid: u32) -> Option<Process> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, brackets too.
    let (_, fields) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    // After the name: state, parent; utime, stime, cutime and cstime are fields 14 to 17 of the line.
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Process {
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn work_of_an_ended_child_stays_counted() -> Result<()> {
        let before = Tree::own().cpu()?;
        let status = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"])
            .status()?;
        assert!(status.success());
        assert!(Tree::own().cpu()? > before);
        Ok(())
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(Tree::of(u32::MAX - 1).cpu().is_err());
    }
}
