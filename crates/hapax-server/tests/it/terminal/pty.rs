//! What is shown on a terminal, on one that `script` makes: tables in its width, names beside bars, and Ctrl-C.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::download::hostile::{Hostile, Page, Temper};
use crate::fixture::{Server, hapax, path};

/// What a command writes to a terminal with this many columns.
fn on_a_terminal(columns: u16, arguments: &[&str]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    let line = format!(
        "stty cols {columns} rows 40; exec '{}' {}",
        env!("CARGO_BIN_EXE_hapax"),
        words.join(" ")
    );
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn a_table_is_as_wide_as_the_terminal_at_most_and_has_no_rule_between_its_rows() {
    let server = Server::start();
    for key in ["a-long-key-of-an-order-that-somebody-made", "k2", "k3"] {
        let claim = json!({"key": key, "method": "POST", "path": "/api/v1/orders/payments/links"});
        server.owner("POST", "/v1/keys/claim", &claim.to_string());
    }
    let data = server.data();
    let wanted = ["keys", "list", "--data", path(&data)];
    let id = server.owner("GET", "/v1/keys", "").json()["items"][0]["id"].clone();
    for columns in [200, 120, 80] {
        let shown = on_a_terminal(columns, &wanted);
        for line in shown.lines() {
            assert!(
                line.chars().count() <= usize::from(columns),
                "{columns}:\n{shown}"
            );
        }
        let rules = shown.lines().filter(|line| line.contains('─')).count();
        assert_eq!(rules, 1, "under the head alone:\n{shown}");
        assert!(!shown.contains('│') && !shown.contains('|'), "{shown}");
        if columns >= 120 {
            assert!(
                shown.contains(id.as_str().unwrap()),
                "an id is whole:\n{shown}"
            );
        }
    }
}

#[test]
fn a_bar_shows_which_file_it_is_about() {
    let slow = Temper::Large(u64::MAX, Duration::from_secs(2));
    let page = |seed| Page {
        temper: slow,
        seed,
        size: 4 << 20,
    };
    let hostile = Hostile::start(HashMap::from([("/a".to_owned(), page(1))]));
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("manifest.jsonl");
    let url = format!("http://{}/a", hostile.address);
    let line = json!({"work_id": "thesis", "artifact_id": "chapter-1", "canonical_url": url});
    std::fs::write(&manifest, line.to_string()).unwrap();
    let (out, data) = (folder.path().join("out"), folder.path().join("data"));
    let shown = on_a_terminal(
        100,
        &[
            "download",
            path(&manifest),
            "--allow-private-addresses",
            "--out",
            path(&out),
            "--data",
            path(&data),
        ],
    );
    assert!(shown.contains("thesis/chapter-1"), "{shown}");
}

#[test]
fn ctrl_c_says_what_it_finishes_and_a_second_one_stops_at_once() {
    let slow = Temper::Large(u64::MAX, Duration::from_secs(600));
    let page = |seed| Page {
        temper: slow,
        seed,
        size: 64 << 20,
    };
    let names = ["/a", "/b"];
    let hostile = Hostile::start(names.map(|name| (name.to_owned(), page(1))).into());
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let lines = names.map(|name| {
        let url = format!("http://{}{name}", hostile.address);
        json!({"work_id": "w", "artifact_id": &name[1..], "canonical_url": url}).to_string() + "\n"
    });
    std::fs::write(at("manifest.jsonl"), lines.concat()).unwrap();
    let said = std::fs::File::create(at("said")).unwrap();
    let mut child = hapax()
        .args(["download", &at("manifest.jsonl"), "--out", &at("out")])
        .args(["--data", &at("data"), "--allow-private-addresses"])
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .unwrap();
    let wait_for = |is_so: &dyn Fn() -> bool| {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < until, "it does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let interrupt = || {
        let id = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &id])
                .status()
                .unwrap()
                .success()
        );
    };
    wait_for(&|| names.iter().all(|name| !hostile.gets(name).is_empty()));
    interrupt();
    let heard = || std::fs::read_to_string(at("said")).unwrap();
    wait_for(&|| heard().contains("finishing 2 downloads, again to stop now"));
    interrupt();
    assert!(!child.wait().unwrap().success(), "they are not finished");
}
