//! The name of this process as a holder of leases, and whether a name is that of a process that is gone.
//! It is a short cut, not a proof: a wrong answer costs an attempt, and the fence keeps it harmless.

use std::fmt;
use std::sync::Arc;

use hapax_core::job::{Act, Deed, Fence, JobScan, On, Queue};
use hapax_core::{Error, Tenant};

/// The longest host name that is kept.
const HOST_CHARS_MAX: usize = 64;

/// The name of a process as a holder of leases: `host/boot/pid/start/random`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity(String);

impl Identity {
    /// A new name for this process. Two of them differ, so that two workers of one process do too.
    #[must_use]
    pub fn this_process() -> Self {
        let (host, boot) = this_machine();
        let pid = std::process::id();
        let start = start_of(pid).map_or_else(|| "0".to_owned(), |start| start.to_string());
        let random = uuid::Uuid::new_v4().simple().to_string();
        Self(format!("{host}/{boot}/{pid}/{start}/{}", &random[..8]))
    }

    /// The name as text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether `owner` is the name of a process of this machine, since its last start, that is gone. False where that
    /// cannot be told.
    ///
    /// ```
    /// use hapax::job::Identity;
    ///
    /// assert!(!Identity::is_dead(Identity::this_process().name()), "it is alive");
    /// assert!(!Identity::is_dead("worker-1"), "nobody can tell");
    /// ```
    #[must_use]
    pub fn is_dead(owner: &str) -> bool {
        let parts: Vec<&str> = owner.split('/').collect();
        let [host, boot, pid, start, _] = parts[..] else {
            return false;
        };
        let (this_host, this_boot) = this_machine();
        if host != this_host || boot != this_boot || boot == UNKNOWN {
            return false;
        }
        let (Ok(pid), Ok(start)) = (pid.parse::<u32>(), start.parse::<u64>()) else {
            return false;
        };
        // Where other processes are hidden, none of them can be called gone.
        let sees_others = start_of(1).is_some();
        sees_others && start_of(pid) != Some(start)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Releases the live leases of `tenant` whose holders are dead processes of this machine, so that their jobs go on at
/// once. It costs them no failure. Returns how many were released.
///
/// # Errors
/// When the queue could not be asked. Some may have been released then; asking again is harmless.
pub async fn take_back_dead(queue: &Arc<dyn Queue>, tenant: Tenant) -> Result<usize, Error> {
    let mut scan = JobScan {
        held: true,
        limit: JobScan::LIMIT_MAX,
        ..JobScan::of(tenant)
    };
    let mut released = 0;
    loop {
        let page = queue.jobs(scan.clone()).await?;
        let dead = page.jobs.iter().filter_map(|job| {
            let hold = job.lease.as_ref()?;
            Identity::is_dead(&hold.owner).then(|| Act {
                on: On::Job(job.id.clone()),
                fence: Fence::of(&hold.owner, job.epoch),
                deed: Deed::Release,
            })
        });
        let acts: Vec<Act> = dead.collect();
        if !acts.is_empty() {
            let answers = queue.apply(tenant, acts).await?;
            released += answers.iter().filter(|answer| answer.is_ok()).count();
        }
        match page.next {
            Some(next) => scan.before = Some(next),
            None => return Ok(released),
        }
    }
}

const UNKNOWN: &str = "-";

/// The name of this machine, and of the time since its last start. Process ids mean something within both only.
#[cfg(target_os = "linux")]
fn this_machine() -> (String, String) {
    use std::fs;

    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let is_kept = |letter: &char| letter.is_ascii_alphanumeric() || "-._".contains(*letter);
    let host = read("/proc/sys/kernel/hostname");
    let host: String = host.chars().filter(is_kept).take(HOST_CHARS_MAX).collect();
    let boot = read("/proc/sys/kernel/random/boot_id");
    let boot = boot
        .get(..8)
        .and_then(|hex| u32::from_str_radix(hex, 16).ok());
    // Containers share the kernel's boot, but not its process ids: their namespace is part of the name.
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = space
        .to_string_lossy()
        .replace(|c: char| !c.is_ascii_digit(), "");
    let boot = match (boot, digits.parse::<u32>()) {
        (Some(boot), Ok(space)) => format!("{:08x}", boot ^ space),
        _ => UNKNOWN.to_owned(),
    };
    (host, boot)
}

#[cfg(not(target_os = "linux"))]
fn this_machine() -> (String, String) {
    ("here".to_owned(), UNKNOWN.to_owned())
}

/// When a process was started, in ticks since the machine was; `None` if it is gone or cannot be seen.
#[cfg(target_os = "linux")]
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in brackets and may hold anything, so the fields count from the last one.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let is_gone = matches!(fields.next()?, "Z" | "X");
    (!is_gone).then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(not(target_os = "linux"))]
fn start_of(_pid: u32) -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn with(name: &str, part: usize, word: &str) -> String {
        let mut parts: Vec<&str> = name.split('/').collect();
        parts[part] = word;
        parts.join("/")
    }

    #[test]
    fn only_a_gone_process_of_this_machine_and_boot_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let this = Identity::this_process();
        assert!(!Identity::is_dead(this.name()));
        let gone = with(this.name(), 2, &pid.to_string());
        assert!(Identity::is_dead(&gone), "{gone}");
        assert!(
            Identity::is_dead(&with(this.name(), 3, "1")),
            "its id was given to another process"
        );
        assert!(!Identity::is_dead(&with(&gone, 0, "elsewhere")));
        assert!(!Identity::is_dead(&with(&gone, 1, "00000000")));
        assert!(!Identity::is_dead(&with(&gone, 1, UNKNOWN)));
        assert!(!Identity::is_dead(&with(&gone, 2, "x")));
        assert!(!Identity::is_dead("a/b"));
    }
}
