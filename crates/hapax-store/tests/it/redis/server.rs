//! Redis servers of one test's own, to be frozen and killed: one, or a cluster of three primaries. They end with the
//! value. The tests of hapax-server use this file too.

#![allow(dead_code, reason = "not every test binary needs all of it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    /// An empty server on a free port, with more options.
    pub(crate) fn start(options: &[&str]) -> Self {
        for _ in 0..20 {
            // Below the range that the system hands out, and a cluster's bus 10000 above it too.
            let random = uuid::Uuid::new_v4().as_u64_pair().0 % 10_900;
            let port = 11_000 + u16::try_from(random).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let mut child = Command::new("redis-server")
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
                .arg("--dir")
                .arg(folder.path())
                .args(options)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect(
                    "redis-server starts; run the tests through dev/with-redis, as ./test does",
                );
            let patience = Instant::now() + Duration::from_secs(20);
            while child.try_wait().unwrap().is_none() && Instant::now() < patience {
                if answers(port, child.id()) {
                    return Self {
                        child,
                        port,
                        _folder: folder,
                    };
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            child.kill().ok();
            child.wait().unwrap();
        }
        panic!("no Redis server could be started");
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// What it answers to a command without spaces in its words.
    pub(crate) fn ask(&self, command: &str) -> Option<String> {
        ask(self.port, command)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Three primaries that share the slots.
pub(crate) struct Cluster {
    pub(crate) primaries: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let options = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "2000",
            // The slots of the others go on when one is gone.
            "--cluster-require-full-coverage",
            "no",
        ];
        let primaries: Vec<Server> = (0..3).map(|_| Server::start(&options)).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(primaries.iter().map(Server::address))
            .arg("--cluster-yes")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let patience = Instant::now() + Duration::from_secs(30);
        let is_whole = |server: &Server| {
            let info = server.ask("CLUSTER INFO").unwrap_or_default();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        while !primaries.iter().all(is_whole) {
            assert!(Instant::now() < patience, "the cluster did not form");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { primaries }
    }

    pub(crate) fn url(&self) -> String {
        let nodes: Vec<String> = self.primaries.iter().map(Server::address).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }
}

/// Asked for its own process id: another server on that port cannot answer for ours.
fn answers(port: u16, pid: u32) -> bool {
    let own = format!("process_id:{pid}\r\n");
    ask(port, "INFO server").is_some_and(|info| info.contains(&own))
}

fn ask(port: u16, command: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let limit = Some(Duration::from_secs(2));
    stream.set_read_timeout(limit).ok()?;
    stream.set_write_timeout(limit).ok()?;
    // A server that is told to quit answers everything and hangs up.
    stream
        .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
