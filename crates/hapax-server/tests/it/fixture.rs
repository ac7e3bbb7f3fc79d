//! A server process of its own per test, killed by its own id, and the program for one command.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{self, Answer};
use crate::openapi;

/// The program, without any variable of ours in its environment.
pub(crate) fn hapax() -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_hapax")))
}

/// Another build of the program, in the same way.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HAPAX_"))
    {
        command.env_remove(name);
    }
    command
}

/// Runs one command to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    hapax().args(arguments).output().unwrap()
}

/// The standard output of a command that must succeed.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON that a command prints with `--json`.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(&[arguments, &["--json"]].concat())).unwrap()
}

/// What a command that must fail with this code says.
pub(crate) fn refused(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{arguments:?}: {output:?}"
    );
    String::from_utf8(output.stderr).unwrap()
}

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) first_line: String,
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    folder: TempDir,
    /// Whether it is the API, whose every answer the document must describe.
    is_described: bool,
}

impl Server {
    /// A server on a free port with a new data folder.
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// The same, with more arguments or variables.
    pub(crate) fn start_with(change: impl FnOnce(&mut Command)) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), change)
    }

    /// A server whose log and output nobody reads.
    pub(crate) fn start_unread() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self::spawn(hapax(), "serve", folder, Stdio::piped(), |_| {});
        drop(server.child.stderr.take());
        server.stdout = None;
        server
    }

    /// The same, with the data folder `data` in `folder`.
    pub(crate) fn start_in(folder: TempDir, change: impl FnOnce(&mut Command)) -> Self {
        let log = log_in(&folder);
        Self::spawn(hapax(), "serve", folder, log, change)
    }

    /// A server or a proxy of another build of the program, whose answers another document describes.
    pub(crate) fn of(build: &Path, name: &str, change: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = log_in(&folder);
        let mut server = Self::spawn(program(build), name, folder, log, change);
        server.is_described = false;
        server
    }

    /// A proxy on a free port, with the data folder `data` in `folder`. Its upstream is the caller's to name.
    pub(crate) fn proxy_in(folder: TempDir, change: impl FnOnce(&mut Command)) -> Self {
        let log = log_in(&folder);
        Self::spawn(hapax(), "proxy", folder, log, change)
    }

    /// A server that listens elsewhere than on loopback.
    pub(crate) fn start_on(listen: &str, change: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = log_in(&folder);
        Self::spawn_on(listen, hapax(), "serve", folder, log, change)
    }

    fn spawn(
        command: Command,
        name: &str,
        folder: TempDir,
        stderr: Stdio,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        Self::spawn_on("127.0.0.1:0", command, name, folder, stderr, change)
    }

    fn spawn_on(
        listen: &str,
        mut command: Command,
        name: &str,
        folder: TempDir,
        stderr: Stdio,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        command
            .args([name, "--listen", listen, "--data"])
            .arg(folder.path().join("data"));
        change(&mut command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first_line = String::new();
        stdout.read_line(&mut first_line).unwrap();
        let address = first_line
            .trim_end()
            .strip_prefix("listening on http://")
            .map(str::parse);
        let Some(Ok(address)) = address else {
            let _ = child.kill();
            let _ = child.wait();
            panic!(
                "{first_line:?}; log: {}",
                std::fs::read_to_string(folder.path().join("log")).unwrap()
            );
        };
        Self {
            address,
            first_line,
            child,
            stdout: Some(stdout),
            folder,
            is_described: name == "serve",
        }
    }

    /// The next line that it prints.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The owner token of the first start.
    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.data().join("token"))
            .unwrap()
            .trim()
            .to_owned()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A request with the owner's token.
    pub(crate) fn owner(&self, method: &str, path: &str, body: &str) -> Answer {
        self.bearing(&self.token(), method, path, body)
    }

    /// A request with this token.
    pub(crate) fn bearing(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        self.send(method, path, &[("authorization", &bearer)], body.as_bytes())
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let answer = http::request(self.address, method, path, headers, body);
        if self.is_described {
            openapi::check(method, path, &answer);
        }
        answer
    }

    /// A new token of this role, made by the command line beside the running server.
    pub(crate) fn mint(&self, tenant: &str, role: &str) -> (String, String) {
        let data = self.data();
        let made = json(&[
            "token",
            "create",
            "--tenant",
            tenant,
            "--role",
            role,
            "--data",
            path(&data),
        ]);
        (
            made["id"].as_str().unwrap().to_owned(),
            made["token"].as_str().unwrap().to_owned(),
        )
    }

    /// How much memory the process has in use.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let words = line.unwrap().split_whitespace().next();
        words.unwrap().parse().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([&format!("-{name}"), &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the end of the process: its exit code, and what it printed after the first line.
    pub(crate) fn wait(mut self) -> (Option<i32>, String, TempDir) {
        let mut rest = String::new();
        let mut stdout = self.stdout.take().unwrap();
        stdout.read_to_string(&mut rest).unwrap();
        let code = self.child.wait().unwrap().code();
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        (code, rest, folder)
    }

    /// Stops the server as an operator does.
    pub(crate) fn stop(self) -> (Option<i32>, String, TempDir) {
        self.signal("TERM");
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only ours: by the handle of the child, never by name.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The log in `folder`, which a restart adds to.
fn log_in(folder: &TempDir) -> Stdio {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.path().join("log"));
    log.unwrap().into()
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
