//! A node whose clock is an hour off, beside one that is right, on one PostgreSQL: leases and expiry go by the clock of the
//! store, so neither gives away what the other holds, and neither forgets early.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fixture::Server;

const TOKEN: &str = "one-token-for-both-nodes";

/// Where the package faketime has its library, if it is installed.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut found = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    found.find(|path| path.is_file())
}

fn node(url: &str, off_by: Option<(&Path, &str)>) -> Server {
    Server::start_with(|command| {
        command
            .args(["--database", url, "--no-worker"])
            .env("HAPAX_TOKEN", TOKEN)
            .env("HAPAX_LOG", "error");
        if let Some((library, by)) = off_by {
            // Waiting is measured by another clock, which goes on as it is.
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME", by)
                .env("FAKETIME_DISABLE_SHM", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
    })
}

fn claim(node: &Server, key: &str) -> Value {
    let claim = json!({
        "key": key, "method": "POST", "path": "/clock", "body": {"of": key}, "lease_seconds": 60, "ttl_seconds": 600,
    });
    let answer = node.bearing(TOKEN, "POST", "/v1/keys/claim", &claim.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn complete(node: &Server, claimed: &Value) {
    let body = json!({"token": claimed["token"], "status": 200, "body": "done"});
    let path = format!("/v1/keys/{}/complete", claimed["id"].as_str().unwrap());
    let answer = node.bearing(TOKEN, "POST", &path, &body.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
#[ignore = "needs the package faketime: dev/faults clock"]
fn a_node_whose_clock_is_an_hour_off_gives_nothing_away_and_forgets_nothing() {
    let library = library().expect("the package faketime is installed: dev/faults clock does that");
    for by in ["+3600s", "-3600s"] {
        let url = crate::postgres::database();
        let (right, wrong) = (node(&url, None), node(&url, Some((&library, by))));
        let date = |node: &Server| {
            let answer = node.send("GET", "/version", &[], b"");
            answer.header("date").unwrap().to_owned()
        };
        assert_ne!(date(&right)[..19], date(&wrong)[..19], "its clock is off");
        for (first, second) in [(&right, &wrong), (&wrong, &right)] {
            let key = uuid::Uuid::new_v4().to_string();
            let granted = claim(first, &key);
            assert_eq!(granted["action"], "process", "{granted}");
            assert_eq!(
                claim(second, &key)["action"],
                "in_progress",
                "{by}: one lease"
            );
            complete(first, &granted);
            for node in [second, first] {
                assert_eq!(claim(node, &key)["action"], "replay", "{by}: not forgotten");
            }
            // What one sweeps is over for both.
            assert_eq!(first.bearing(TOKEN, "POST", "/v1/sweep", "{}").status, 200);
            assert_eq!(
                claim(second, &key)["action"],
                "replay",
                "{by}: not swept early"
            );
        }
        println!("{by}: one lease, nothing forgotten, nothing swept early");
    }
}
