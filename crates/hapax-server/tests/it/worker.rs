//! Workers from outside: the one inside `hapax serve`, and `hapax worker` processes that are killed and stopped.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::both::{Node, Store, on_both_stores};
use crate::download::hostile::{Hostile, Page, Temper};
use crate::fixture::{Server, hapax, path, refused};

pub(crate) fn page(size: u64, most: u64) -> Hostile {
    let temper = if most == 0 {
        Temper::Honest
    } else {
        Temper::Large(most, Duration::from_millis(most >> 14))
    };
    let page = Page {
        temper,
        seed: 5,
        size,
    };
    Hostile::start([("/file".to_owned(), page)].into())
}

pub(crate) fn plan(server: &Server, hostile: &Hostile) -> String {
    let url = format!("http://{}/file", hostile.address);
    let job = json!({"work_id": "w", "artifact_id": "a", "canonical_url": url});
    let planned = server.owner("POST", "/v1/jobs", &job.to_string());
    assert_eq!(planned.status, 201, "{}", planned.text());
    planned.json()["job_id"].as_str().unwrap().to_owned()
}

fn job(server: &Server, id: &str) -> Value {
    server.owner("GET", &format!("/v1/jobs/{id}"), "").json()
}

/// The job once it is so; fails after a long while.
pub(crate) fn wait_for(server: &Server, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(90);
    loop {
        let job = job(server, id);
        if is_so(&job) {
            return job;
        }
        assert!(Instant::now() < until, "{job}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A worker process on the store of `node`, once it works.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn start(node: &Node, lease_ms: &str) -> Self {
        let mut child = hapax()
            .args([
                "worker",
                "--kinds",
                "download",
                "--data",
                path(&node.data()),
            ])
            .args(&node.store)
            .env("HAPAX_WORKER_LEASE_MS", lease_ms)
            .env("HAPAX_DOWNLOAD_PRIVATE_ADDRESSES", "true")
            .env("HAPAX_SHUTDOWN_MS", "100")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with("working on"), "{line:?}");
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_runs_planned_downloads_by_itself() {
    let hostile = page(100_000, 0);
    let server = Server::start_with(|command| {
        command.env("HAPAX_DOWNLOAD_PRIVATE_ADDRESSES", "true");
    });
    let id = plan(&server, &hostile);
    let done = wait_for(&server, &id, |job| job["state"] == "INDEXED");
    assert_eq!(done["result"]["size"], 100_000);
    let file = server.data().join("downloads/files/w/a");
    assert_eq!(std::fs::metadata(file).unwrap().len(), 100_000);
    let kinds: Vec<&str> = done["ops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|op| op["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["HEAD", "STREAM", "FINALIZE", "INDEX"]);
    assert_eq!(server.stop().0, Some(0));
}

#[test]
fn a_server_does_not_fetch_private_addresses_unless_it_is_told_to() {
    let hostile = page(1000, 0);
    let server = Server::start();
    let id = plan(&server, &hostile);
    let done = wait_for(&server, &id, |job| job["state"] == "DEAD");
    assert!(
        done["error"].as_str().unwrap().contains("ssrf_blocked"),
        "{done}"
    );
    assert!(hostile.gets("/file").is_empty());
}

#[test]
fn a_server_without_a_worker_leaves_jobs_alone_and_other_kinds_are_always_left() {
    let hostile = page(1000, 0);
    let idle = Server::start_with(|command| {
        command.arg("--no-worker");
    });
    let planned = plan(&idle, &hostile);
    let busy = Server::start();
    let other = json!({"kind": "email", "work_id": "w", "artifact_id": "a", "canonical_url": "mailto:a@example.org"});
    let other = busy.owner("POST", "/v1/jobs", &other.to_string()).json();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(job(&idle, &planned)["state"], "PLANNED");
    assert_eq!(
        job(&busy, other["job_id"].as_str().unwrap())["state"],
        "PLANNED"
    );
}

fn a_killed_workers_job_goes_on_where_it_stopped(store: Store) {
    // Two megabytes a second at most, so that the kill comes in the middle.
    let hostile = page(12 << 20, 64 << 20);
    let node = store.serve("");
    let id = plan(&node, &hostile);
    let first = Process::start(&node, "120000");
    let staging = node.data().join("downloads/.staging");
    let until = Instant::now() + Duration::from_secs(30);
    let has_some = || {
        let parts = std::fs::read_dir(&staging).into_iter().flatten().flatten();
        parts
            .filter_map(|part| part.metadata().ok())
            .any(|part| part.len() > 1 << 20)
    };
    while !has_some() {
        assert!(Instant::now() < until, "nothing arrived");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(first);

    // Its lease has two minutes to go, but its process is dead and of this machine.
    let _second = Process::start(&node, "120000");
    let done = wait_for(&node, &id, |job| job["state"] == "INDEXED");
    assert_eq!(
        (&done["attempts"], &done["epoch"]),
        (&json!(2), &json!(2)),
        "{done}"
    );
    let gets = hostile.gets("/file");
    assert!(gets.len() == 2 && gets[1].from >= 1 << 20, "{gets:?}");
}

fn a_stopped_worker_gives_its_job_back(store: Store) {
    let hostile = page(64 << 20, 64 << 20);
    let node = store.serve("");
    let id = plan(&node, &hostile);
    let mut worker = Process::start(&node, "120000");
    wait_for(&node, &id, |job| job["state"] == "STREAMING");
    let stopped = std::process::Command::new("kill")
        .args(["-TERM", &worker.0.id().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    assert_eq!(worker.0.wait().unwrap().code(), Some(0));
    let given_back = job(&node, &id);
    assert_eq!(given_back["owner"], Value::Null, "{given_back}");
    assert_eq!(given_back["failures"], 0, "{given_back}");
}

on_both_stores!(
    a_killed_workers_job_goes_on_where_it_stopped,
    a_stopped_worker_gives_its_job_back,
);

#[test]
fn a_kind_that_nobody_runs_is_refused_by_name() {
    let told = refused(&["worker", "--kinds", "download,telepathy"], 2);
    assert!(
        told.contains("telepathy") && told.contains("download"),
        "{told}"
    );
}
