//! Two PostgreSQL servers of one test's own: a primary, and a standby that it waits for. They end with the value.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::postgres::query;

/// How the primary calls the standby that it waits for.
const STANDBY: &str = "standby";

/// One of the two servers.
pub(super) struct Postgres {
    child: Child,
    data: PathBuf,
    pub(super) port: u16,
}

pub(super) struct Pair {
    pub(super) primary: Postgres,
    pub(super) standby: Postgres,
    _folder: tempfile::TempDir,
}

/// Who servers run as, who refuse to run as root: the one who runs the server of all tests.
fn server_user() -> u32 {
    fs::metadata(query("SHOW data_directory")).unwrap().uid()
}

/// A program of PostgreSQL, run as the servers' user.
fn program(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(name);
    let owner = server_user();
    if fs::metadata("/proc/self").unwrap().uid() != owner {
        command.uid(owner);
    }
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn run(name: &str, folder: &Path, arguments: &[&str]) {
    let status = program(name, folder).args(arguments).status();
    assert!(status.unwrap().success(), "{name} {arguments:?}");
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Postgres {
    fn start(data: PathBuf, port: u16, settings: &[String]) -> Self {
        let folder = data.parent().unwrap().to_owned();
        let mut command = program("postgres", &folder);
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        let socket = format!("unix_socket_directories={}", folder.display());
        for setting in ["listen_addresses=127.0.0.1", "fsync=off", &socket] {
            command.args(["-c", setting]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        let child = command.spawn().unwrap();
        Self { child, data, port }
    }

    /// The one value that a statement answers, asked of this server.
    pub(super) fn ask(&self, statement: &str) -> Option<String> {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port);
        let output = Command::new("psql")
            .args([&url, "-qAtc", statement])
            .stderr(Stdio::null())
            .output();
        let output = output.expect("psql is installed");
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then(|| text.trim().to_owned())
    }

    /// Waits until a statement answers this.
    fn until(&self, statement: &str, answer: &str) {
        let patience = Instant::now() + Duration::from_secs(60);
        while self.ask(statement).as_deref() != Some(answer) {
            assert!(Instant::now() < patience, "{statement} is not {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends every process of this server, as if its machine were gone.
    pub(super) fn kill(&mut self) {
        // QUIT has the postmaster end all of its processes at once and write nothing.
        signal(self.child.id(), "QUIT");
        self.child.wait().unwrap();
    }

    /// Makes a standby the primary.
    pub(super) fn promote(&self) {
        let folder = self.data.parent().unwrap();
        run(
            "pg_ctl",
            folder,
            &["-D", self.data.to_str().unwrap(), "-w", "promote"],
        );
        self.until("SELECT pg_is_in_recovery()", "f");
    }

    /// Stops sending to the standby, or goes on with it.
    pub(super) fn senders(&self, name: &str) {
        let pids = self.ask("SELECT pid FROM pg_stat_replication").unwrap();
        for pid in pids.lines() {
            signal(pid.parse().unwrap(), name);
        }
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
    assert!(status.unwrap().success(), "kill -{name} {pid}");
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(self.child.id(), "QUIT");
            self.child.wait().ok();
        }
    }
}

impl Pair {
    pub(super) fn start() -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        if fs::metadata("/proc/self").unwrap().uid() != server_user() {
            std::os::unix::fs::chown(folder.path(), Some(server_user()), None).unwrap();
        }
        let (first, second) = (folder.path().join("one"), folder.path().join("two"));
        run(
            "initdb",
            folder.path(),
            &[
                "--no-sync",
                "-U",
                "postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
                first.to_str().unwrap(),
            ],
        );
        let waits = format!("synchronous_standby_names={STANDBY}");
        let primary = Postgres::start(first, free_port(), &[waits]);
        // Nothing is written yet, so nothing waits for a standby that is not there.
        primary.until("SELECT 1", "1");
        let from = format!(
            "host=127.0.0.1 port={} user=postgres application_name={STANDBY}",
            primary.port
        );
        run(
            "pg_basebackup",
            folder.path(),
            &[
                "--no-sync",
                "-X",
                "stream",
                "-c",
                "fast",
                "-R",
                "-d",
                &from,
                "-D",
                second.to_str().unwrap(),
            ],
        );
        let standby = Postgres::start(second, free_port(), &[]);
        primary.until("SELECT sync_state FROM pg_stat_replication", "sync");
        Self {
            primary,
            standby,
            _folder: folder,
        }
    }

    /// Both servers, as a node is given them.
    pub(super) fn url(&self) -> String {
        let (one, two) = (self.primary.port, self.standby.port);
        format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{two}/postgres")
    }

    /// The primary is gone and the standby takes its place.
    pub(super) fn fail_over(&mut self) {
        self.primary.kill();
        self.standby.promote();
    }
}
