//! Many clients at once: one snapshot per payload, and one of them is told that it is new.

use std::collections::BTreeSet;
use std::sync::Barrier;

use serde_json::Value;

use super::{INGEST, course, get, ingest, items, text};
use crate::both::{Node, Store, on_both_stores};
use crate::fixture::Server;

/// What `count` clients are told who send at the same moment.
fn at_once(node: &Node, count: usize, payload: impl Fn(usize) -> Value + Sync) -> Vec<Value> {
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..count)
            .map(|number| {
                let (barrier, payload) = (&barrier, &payload);
                scope.spawn(move || {
                    let payload = payload(number);
                    barrier.wait();
                    ingest(node, &payload)
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    })
}

fn a_hundred_equal_payloads_at_once_are_one_snapshot(store: Store) {
    let node = store.serve("");
    let told = at_once(&node, 100, |_| course("race", "One"));
    let ids: BTreeSet<&str> = told.iter().map(|told| text(&told["snapshotId"])).collect();
    assert_eq!(ids.len(), 1);
    let again = told.iter().filter(|told| told["idempotent"] == true);
    assert_eq!(again.count(), 99);
    assert!(told.iter().all(|told| told["current"] == true));
    let history = get(&node, "/v1/courses/race/snapshots");
    assert_eq!(items(&history).len(), 1);
    assert_eq!(items(&history)[0]["seen"], 100);
}

fn different_payloads_of_one_entity_at_once_are_all_kept_and_one_is_current(store: Store) {
    let node = store.serve("");
    let told = at_once(&node, 40, |number| course("race", &format!("V{number}")));
    assert!(told.iter().all(|told| told["idempotent"] == false));
    let history = get(&node, "/v1/courses/race/snapshots");
    let current: Vec<_> = items(&history)
        .iter()
        .filter(|item| item["current"] == true)
        .collect();
    assert_eq!((items(&history).len(), current.len()), (40, 1));
    assert_eq!(items(&history)[0], *current[0], "the one that was new last");
    let shown = get(&node, "/v1/courses/race");
    assert_eq!(shown["currentSnapshotId"], current[0]["snapshotId"]);
}

#[test]
fn equal_payloads_on_two_nodes_at_once_are_one_snapshot() {
    let node = Store::Postgres.serve("");
    let second = Server::start_with(|command| {
        command.args(&node.store).arg("--no-worker");
    });
    let (token, payload) = (node.token(), course("race", "One").to_string());
    let barrier = Barrier::new(40);
    let told: Vec<Value> = std::thread::scope(|scope| {
        let nodes = [&*node, &second].into_iter().cycle().take(40);
        let clients: Vec<_> = nodes
            .map(|server| {
                scope.spawn({
                    let (barrier, token, payload) = (&barrier, &token, &payload);
                    move || {
                        barrier.wait();
                        server.bearing(token, "POST", INGEST, payload).json()
                    }
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect()
    });
    let ids: BTreeSet<&str> = told.iter().map(|told| text(&told["snapshotId"])).collect();
    let new = told.iter().filter(|told| told["idempotent"] == false);
    assert_eq!((ids.len(), new.count()), (1, 1));
}

on_both_stores!(
    a_hundred_equal_payloads_at_once_are_one_snapshot,
    different_payloads_of_one_entity_at_once_are_all_kept_and_one_is_current,
);
