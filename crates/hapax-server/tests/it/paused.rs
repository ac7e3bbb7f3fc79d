//! A worker that is paused past its lease and goes on later, as a machine that swaps or a debugger does to it: another one has
//! taken its job over, and what the first still writes is refused.

use std::process::Command;
use std::time::Duration;

use crate::both::{Store, on_both_stores};
use crate::worker::{Process, page, plan, wait_for};

const LEASE_MS: &str = "1500";

fn signal(worker: &Process, name: &str) {
    let id = worker.0.id().to_string();
    let sent = Command::new("kill").args([name, &id]).status().unwrap();
    assert!(sent.success());
}

/// Pauses a worker in the middle of a download, until another has finished it.
fn a_paused_worker_is_followed_and_writes_nothing_afterwards(store: Store) {
    // Two megabytes a second at most, so that the pause comes in the middle.
    let site = page(3 << 20, 64 << 20);
    let node = store.serve("");
    let id = plan(&node, &site);
    let paused = Process::start(&node, LEASE_MS);
    wait_for(&node, &id, |job| job["state"] == "STREAMING");
    // In the middle of the stream, rather than of a transaction: what that has locked is free only when the database
    // ends its session, a minute later.
    std::thread::sleep(Duration::from_millis(150));
    signal(&paused, "-STOP");
    let _second = Process::start(&node, LEASE_MS);
    wait_for(&node, &id, |job| job["epoch"] == 2);
    let done = wait_for(&node, &id, |job| job["state"] == "INDEXED");
    assert_eq!(done["epoch"], 2, "the second took it over: {done}");
    signal(&paused, "-CONT");
    // It writes, or renews, before it does anything else: give it the time to be refused.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(wait_for(&node, &id, |_| true), done, "nothing was written");
    let file = node.data().join("downloads/files/w/a");
    assert_eq!(std::fs::metadata(file).unwrap().len(), 3 << 20);
}

on_both_stores!(a_paused_worker_is_followed_and_writes_nothing_afterwards);

fn many_pauses(store: Store) {
    let pauses = std::env::var("HAPAX_FAULTS_PAUSES").map_or(10, |pauses| pauses.parse().unwrap());
    for _ in 0..pauses {
        a_paused_worker_is_followed_and_writes_nothing_afterwards(store);
    }
    println!(
        "{store:?}: {pauses} pauses past the lease, {pauses} followed, nothing written by the paused one afterwards"
    );
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults pauses 20 sqlite"]
fn soak_many_pauses_on_sqlite() {
    many_pauses(Store::Sqlite);
}

#[test]
#[ignore = "a soak: ./test --soak, or dev/faults pauses 20 postgres"]
fn soak_many_pauses_on_postgres() {
    many_pauses(Store::Postgres);
}
