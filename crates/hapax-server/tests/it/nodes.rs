//! Many nodes on one PostgreSQL behind a pooler: three that serve, two that stand in front of a service, three that
//! work. Clients ask any of them while nodes are killed, sessions are ended and, in the long run, the server restarts.
//!
//! What is checked is what clients, the service behind and the site of the downloads saw, not the nodes' word.

mod mode;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::download::hostile::{Hostile, Page, Temper};
use crate::fixture::{Server, hapax, path};
use crate::http;
use crate::kill::{self, Target};
use crate::postgres::{database, pooled, psql};
use crate::proxy::upstream::Upstream;
use mode::Mode;

const TOKEN: &str = "one-token-for-all-nodes";
const SERVING: usize = 3;
const PROXIES: usize = 2;
const WORKERS: usize = 3;
const CLIENTS: usize = 6;
/// Every key through a proxy is asked for by this many clients.
const RIVALS: usize = 3;

/// The database, and how a node reaches it.
#[derive(Clone)]
struct Place {
    direct: String,
    through: String,
    name: String,
}

impl Place {
    fn new() -> Self {
        let direct = database();
        let through = format!("{}?pool_mode=transaction", pooled(&direct));
        let name = direct.rsplit_once('/').unwrap().1.to_owned();
        Self {
            direct,
            through,
            name,
        }
    }

    fn reach(&self, command: &mut Command) {
        command
            .args(["--database", &self.through])
            .env("HAPAX_DATABASE_DIRECT", &self.direct)
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_LOG", "error")
            .env("HAPAX_WORKER_LEASE_MS", "3000")
            .env("HAPAX_DOWNLOAD_PRIVATE_ADDRESSES", "true");
    }

    /// Waits until the pooler reaches the server again: a node that cannot reach its store does not start.
    fn until_reached(&self) {
        let (url, _) = self.through.split_once('?').unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let reached = || {
            let mut psql = Command::new("psql");
            psql.args([url, "-qAtc", "SELECT 1"]);
            psql.stdout(Stdio::null()).stderr(Stdio::null());
            psql.status().unwrap().success()
        };
        while !reached() {
            assert!(Instant::now() < until, "the pooler does not come back");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends every session of the nodes and of the pooler's.
    fn end_sessions(&self) {
        psql(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        ));
    }
}

/// Everything that runs.
struct Nodes {
    place: Place,
    upstream: Upstream,
    serving: Vec<Option<Server>>,
    proxies: Vec<Option<Server>>,
    workers: Vec<Child>,
    /// Workers share the folder that downloads go to.
    shared: tempfile::TempDir,
}

impl Nodes {
    fn start() -> Self {
        let place = Place::new();
        let mut nodes = Self {
            place,
            upstream: Upstream::start(),
            serving: Vec::new(),
            proxies: Vec::new(),
            workers: Vec::new(),
            shared: tempfile::tempdir().unwrap(),
        };
        for _ in 0..SERVING {
            nodes
                .serving
                .push(Some(nodes.serve(tempfile::tempdir().unwrap())));
        }
        for _ in 0..PROXIES {
            nodes
                .proxies
                .push(Some(nodes.stand(tempfile::tempdir().unwrap())));
        }
        for _ in 0..WORKERS {
            let worker = nodes.work();
            nodes.workers.push(worker);
        }
        nodes
    }

    fn serve(&self, folder: tempfile::TempDir) -> Server {
        Server::start_in(folder, |command| {
            self.place.reach(command.arg("--no-worker"));
        })
    }

    fn stand(&self, folder: tempfile::TempDir) -> Server {
        let file = folder.path().join("hapax.toml");
        std::fs::write(&file, "[[routes]]\npattern = '*:*'\nlease_seconds = 1\n").unwrap();
        Server::proxy_in(folder, |command| {
            command.args(["--upstream", &self.upstream.url(), "--config", path(&file)]);
            self.place.reach(command);
        })
    }

    fn work(&self) -> Child {
        let mut command = hapax();
        command.args([
            "worker",
            "--kinds",
            "download",
            "--data",
            path(self.shared.path()),
        ]);
        self.place.reach(&mut command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Trouble waits until it works.
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with("working on"), "{line:?}");
        child
    }

    /// kill -9 of the node with this number, and the same node again.
    fn kill(&mut self, number: usize, clients: &Clients) {
        let number = number % (SERVING + PROXIES + WORKERS);
        if let Some(worker) = number.checked_sub(SERVING + PROXIES) {
            self.workers[worker].kill().unwrap();
            self.workers[worker].wait().unwrap();
            self.workers[worker] = self.work();
        } else if let Some(proxy) = number.checked_sub(SERVING) {
            let folder = killed(self.proxies[proxy].take().unwrap());
            let again = self.stand(folder);
            clients.proxies.lock().unwrap()[proxy] = again.address;
            self.proxies[proxy] = Some(again);
        } else {
            let folder = killed(self.serving[number].take().unwrap());
            let again = self.serve(folder);
            clients.keys.moved(number, again.address);
            self.serving[number] = Some(again);
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

fn killed(server: Server) -> tempfile::TempDir {
    server.signal("KILL");
    server.wait().2
}

/// What clients ask, and what they were told.
struct Clients {
    keys: Target,
    proxies: Mutex<Vec<SocketAddr>>,
    next: AtomicUsize,
    /// For each key through a proxy, the answers that came whole.
    passed: Mutex<BTreeMap<String, Vec<Vec<u8>>>>,
    /// For each title, the receipts that were acknowledged.
    receipts: Mutex<BTreeMap<String, Vec<String>>>,
    mode: Mode,
}

impl Clients {
    fn of(nodes: &Nodes) -> Self {
        let addresses = |servers: &[Option<Server>]| -> Vec<SocketAddr> {
            servers
                .iter()
                .flatten()
                .map(|server| server.address)
                .collect()
        };
        Self {
            keys: Target::new(addresses(&nodes.serving), TOKEN.to_owned()),
            proxies: Mutex::new(addresses(&nodes.proxies)),
            next: AtomicUsize::new(0),
            passed: Mutex::default(),
            receipts: Mutex::default(),
            mode: Mode::default(),
        }
    }

    /// Asks a service through any proxy.
    fn pass(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = format!("pass-{}", number / RIVALS);
        let address = {
            let proxies = self.proxies.lock().unwrap();
            proxies[number % proxies.len()]
        };
        let body = json!({"of": key}).to_string();
        let headers = [
            ("idempotency-key", key.as_str()),
            ("content-type", "application/json"),
        ];
        match http::try_request(address, "POST", "/echo", &headers, body.as_bytes()) {
            Some(answer) if answer.status == 200 => {
                self.passed
                    .lock()
                    .unwrap()
                    .entry(key)
                    .or_default()
                    .push(answer.body);
            }
            // Refused, in flight, in doubt or cut off: nothing was acknowledged.
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }

    /// Says what is to be done, to any node.
    fn intend(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let title = format!("task {}", number / RIVALS);
        let packet = json!({
            "kind": "intent", "intent_type": "create_task", "source": "shell", "confidence": 0.9,
            "fields": {"title": title, "due": "2026-12-24", "priority": "high"},
        });
        if let Some(answer) = self.keys.post("/v1/intents", None, &packet)
            && (200..300).contains(&answer.status)
        {
            let id = answer.json()["receipt_id"].as_str().unwrap().to_owned();
            self.receipts
                .lock()
                .unwrap()
                .entry(title)
                .or_default()
                .push(id);
        }
    }

    fn run(&self, number: usize) {
        while !self.keys.is_over() {
            match number % 3 {
                0 => self.pass(),
                1 => self.intend(),
                _ => self.keys.work(number),
            }
        }
    }
}

/// What is done to the nodes while clients ask.
struct Trouble {
    time: Duration,
    restarts: usize,
    downloads: usize,
}

fn survive(trouble: &Trouble) {
    let mut nodes = Nodes::start();
    let clients = Arc::new(Clients::of(&nodes));
    let site = site(trouble.downloads);
    let planned = plan(&clients, &site, trouble.downloads);
    let mut threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let clients = Arc::clone(&clients);
            std::thread::spawn(move || clients.run(number))
        })
        .collect();
    let turning = Arc::clone(&clients);
    threads.push(std::thread::spawn(move || turning.mode.run(&turning.keys)));
    let (begun, mut kills, mut endings, mut restarts) = (Instant::now(), 0, 0, 0);
    let every = trouble.time / u32::try_from(trouble.restarts + 1).unwrap();
    while begun.elapsed() < trouble.time {
        std::thread::sleep(Duration::from_millis(200));
        nodes.place.end_sessions();
        endings += 1;
        if endings % 5 == 0 {
            nodes.kill(kills, &clients);
            kills += 1;
        }
        if restarts < trouble.restarts
            && begun.elapsed() > every * u32::try_from(restarts + 1).unwrap()
        {
            restart_postgres();
            nodes.place.until_reached();
            restarts += 1;
        }
    }
    let healed = Instant::now();
    std::thread::sleep(Duration::from_millis(500));
    clients.keys.stop();
    for thread in threads {
        thread.join().unwrap();
    }
    kill::check(&clients.keys, kills / 4);
    let passed = check_passed(&nodes, &clients);
    let receipts = check_receipts(&clients);
    let entries = clients.mode.check(&nodes.place.direct);
    check_downloads(&clients, &planned, trouble.downloads);
    println!(
        "{kills} nodes killed, sessions ended {endings} times, {restarts} restarts: {passed} keys through proxies, \
         {receipts} receipts, {entries} entries by test mode, {} downloads; all told {:.1} s after the last blow",
        planned.len(),
        healed.elapsed().as_secs_f64()
    );
}

/// A site with this many files.
fn site(files: usize) -> Hostile {
    let page = |seed| Page {
        temper: Temper::Honest,
        seed,
        size: 100_000,
    };
    Hostile::start(
        (0..files as u64)
            .map(|n| (format!("/{n}"), page(n)))
            .collect(),
    )
}

/// Plans the downloads, again and again until each is acknowledged; their ids.
fn plan(clients: &Clients, site: &Hostile, downloads: usize) -> Vec<String> {
    let mut ids = Vec::new();
    while ids.len() < downloads {
        let n = ids.len();
        let job = json!({
            "work_id": "w", "artifact_id": n.to_string(), "canonical_url": format!("http://{}/{n}", site.address),
        });
        if let Some(answer) = clients.keys.post("/v1/jobs", None, &job)
            && matches!(answer.status, 200 | 201)
        {
            ids.push(answer.json()["job_id"].as_str().unwrap().to_owned());
        }
    }
    ids
}

/// The service behind was called once at most for each key, and all who were answered were told the same.
fn check_passed(nodes: &Nodes, clients: &Clients) -> usize {
    let mut calls: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for call in nodes.upstream.calls() {
        *calls.entry(call.body).or_default() += 1;
    }
    for (body, count) in &calls {
        assert_eq!(
            *count,
            1,
            "{} was passed on twice",
            String::from_utf8_lossy(body)
        );
    }
    let passed = clients.passed.lock().unwrap();
    for (key, answers) in passed.iter() {
        let asked = json!({"of": key}).to_string().into_bytes();
        assert!(
            answers.iter().all(|answer| *answer == asked),
            "{key}: {answers:?}"
        );
        assert!(calls.contains_key(&asked), "{key} was answered by nobody");
    }
    assert!(passed.len() > 5, "the load was too light to mean anything");
    passed.len()
}

/// Every receipt that was acknowledged can be read, and one intent has one.
fn check_receipts(clients: &Clients) -> usize {
    let receipts = clients.receipts.lock().unwrap();
    for (title, ids) in receipts.iter() {
        assert!(
            ids.windows(2).all(|two| two[0] == two[1]),
            "{title}: {ids:?}"
        );
        let receipt = get(clients, &format!("/v1/receipts/{}", ids[0]));
        assert_eq!(receipt["receipt_id"], ids[0].as_str(), "{receipt}");
    }
    assert!(
        receipts.len() > 5,
        "the load was too light to mean anything"
    );
    receipts.len()
}

/// Every download comes to its end, and its record was made once.
fn check_downloads(clients: &Clients, planned: &[String], downloads: usize) {
    let until = Instant::now() + Duration::from_secs(120);
    for id in planned {
        loop {
            let job = get(clients, &format!("/v1/jobs/{id}"));
            if job["state"] == "INDEXED" {
                let ops = job["ops"].as_array().unwrap();
                let made = ops.iter().filter(|op| op["kind"] == "INDEX").count();
                assert_eq!(made, 1, "{job}");
                break;
            }
            assert!(Instant::now() < until, "{job}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    assert_eq!(planned.len(), downloads);
}

/// What any node says now, once one does.
fn get(clients: &Clients, path: &str) -> Value {
    let bearer = format!("Bearer {TOKEN}");
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = http::try_request(
            clients.keys.any(),
            "GET",
            path,
            &[("authorization", &bearer)],
            b"",
        );
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            return answer.json();
        }
        assert!(Instant::now() < until, "{path} gets no answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stops the server at once, as a crash would, and starts it again.
fn restart_postgres() {
    let folder = crate::postgres::query("SHOW data_directory");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&folder).unwrap());
    let mut command = if owner == own_user() {
        Command::new("pg_ctl")
    } else {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &owner.to_string(), "--clear-groups", "pg_ctl"]);
        command
    };
    let status = command
        .args([
            "-D",
            &folder,
            "-m",
            "immediate",
            "-w",
            "-l",
            "/dev/null",
            "restart",
        ])
        .current_dir("/")
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success(), "PostgreSQL restarts");
}

/// The user that this test runs as.
fn own_user() -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap())
}

#[test]
fn nothing_is_lost_or_done_twice_among_nodes_that_are_killed() {
    survive(&Trouble {
        time: Duration::from_secs(10),
        restarts: 0,
        downloads: 12,
    });
}

#[test]
#[ignore = "a soak of five minutes that restarts the server: ./test --soak"]
fn soak_nothing_is_lost_or_done_twice_among_nodes_over_five_minutes() {
    survive(&Trouble {
        time: Duration::from_secs(300),
        restarts: 5,
        downloads: 300,
    });
}
