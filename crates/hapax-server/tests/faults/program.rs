//! The program, alone or under strace, and its end: by its own id, never by name.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What changes files, and what is sent to clients.
const WATCHED: &str = "trace=openat,pwrite64,write,writev,sendto,sendmsg,pwritev,pwritev2,fdatasync,fsync,\
    sync_file_range,msync,ftruncate,fallocate,rename,renameat,renameat2,unlink,unlinkat,link,linkat,mkdir,mkdirat";

/// How the program is run.
pub(crate) enum Under<'a> {
    /// By itself.
    Nothing,
    /// Every call that matters is written to this file.
    Watch(&'a Path),
    /// These calls go wrong, such as `fdatasync:error=EIO:when=3+`; they are written to the file.
    Harm(&'a str, &'a Path),
}

/// True where strace works. `./test` and `dev/faults` install it; where it cannot be, the tests that need it say so.
pub(crate) fn has_strace() -> bool {
    let works = Command::new("strace")
        .args(["-qq", "-e", "trace=none", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        println!("SKIPPED: strace is missing or not permitted here; install the package strace");
    }
    works
}

/// A program that is being started or runs.
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Program {
    /// `hapax serve` on this folder, once it answers. What it said instead, if it never does.
    pub(crate) fn serve(
        data: &Path,
        under: &Under<'_>,
        change: impl FnOnce(&mut Command),
    ) -> Result<Self, String> {
        Self::start("serve", data, under, change)
    }

    /// The same with another command, such as `proxy`.
    pub(crate) fn start(
        name: &str,
        data: &Path,
        under: &Under<'_>,
        change: impl FnOnce(&mut Command),
    ) -> Result<Self, String> {
        let mut command = base(under);
        command
            .args([name, "--listen", "127.0.0.1:0", "--data"])
            .arg(data);
        change(&mut command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(log(data))
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://");
        let Some(address) = address.and_then(|address| address.parse().ok()) else {
            let ended = child.wait().unwrap();
            return Err(format!("{ended}: {line:?}"));
        };
        // Read on, or its next lines would fail.
        std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
        Ok(Self { child, address })
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success(), "it runs");
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Ends it as an operator does; its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        if !self.has_ended() {
            self.signal("-TERM");
        }
        self.child.wait().unwrap().code()
    }
}

impl Program {
    /// Waits until it has ended by itself; its exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.has_ended() {
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Only ours: by the handle of the child, never by name.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The log beside the data folder.
pub(crate) fn log_of(data: &Path) -> PathBuf {
    data.with_extension("log")
}

fn log(data: &Path) -> Stdio {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log_of(data));
    log.unwrap().into()
}

/// The program without any variable of ours in its environment.
pub(crate) fn base(under: &Under<'_>) -> Command {
    let program = env!("CARGO_BIN_EXE_hapax");
    let mut command = match under {
        Under::Nothing => Command::new(program),
        Under::Watch(trace) => {
            // -D: the program is our child, and strace its grandchild.
            let mut command = Command::new("strace");
            command
                .args(["-D", "-f", "--seccomp-bpf", "-qq", "-y", "-xx", "-s"])
                .args(["1000000", "-e", WATCHED, "-o"])
                .arg(trace)
                .arg(program);
            command
        }
        Under::Harm(harm, trace) => {
            let mut command = Command::new("strace");
            let calls = harm.split(':').next().unwrap();
            // Without --seccomp-bpf: with it strace 6.1 miscounts the calls of threads.
            command
                .args(["-D", "-f", "-y", "-e"])
                .arg(format!("trace={calls}"))
                .args(["-e", &format!("inject={harm}"), "-o"])
                .arg(trace)
                .arg(program);
            command
        }
    };
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HAPAX_"))
    {
        command.env_remove(name);
    }
    command.env("HAPAX_LOG", "warn");
    command
}

/// What strace wrote, once it writes no more: it may outlive the program by a moment.
pub(crate) fn trace(path: &Path) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(60);
    let mut length = None;
    loop {
        let now = std::fs::metadata(path).unwrap().len();
        if length == Some(now) {
            return std::fs::read(path).unwrap();
        }
        assert!(Instant::now() < until, "strace does not end");
        length = Some(now);
        std::thread::sleep(Duration::from_millis(300));
    }
}
