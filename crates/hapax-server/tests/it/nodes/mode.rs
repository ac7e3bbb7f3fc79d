//! The test mode among nodes: once it is set through one of them, it rules what is written through any other. One client
//! turns it back and forth, so that at every moment it is known what it must be.

use std::process::Command;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::kill::Target;

/// The entries that were acknowledged, and whether the test mode was on.
#[derive(Default)]
pub(super) struct Mode(Mutex<Vec<(String, bool)>>);

impl Mode {
    /// Turns the mode and keeps an entry under it, again and again until the clients are told to stop.
    pub(super) fn run(&self, nodes: &Target) {
        for turn in 1.. {
            let is_on = turn % 2 == 1;
            let set = json!({"is_test_mode": is_on});
            if until_told(nodes, "/db/test-mode/set", &set).is_none() {
                return;
            }
            let title = format!("turn {turn}");
            let entry = json!({"source": "web", "title": title, "clean_text": "kept while nodes are killed"});
            if until_told(nodes, "/db/insert", &entry).is_none() {
                return;
            }
            self.0.lock().unwrap().push((title, is_on));
        }
    }

    /// Every entry is where the mode sent it. Returns how many there are.
    pub(super) fn check(&self, database: &str) -> usize {
        let kept = self.0.lock().unwrap();
        let (tests, others) = (titles(database, "pkm_test"), titles(database, "pkm"));
        for (title, is_on) in kept.iter() {
            let place = if *is_on { &tests } else { &others };
            assert!(place.contains(title), "{title} with the mode at {is_on}");
        }
        assert!(kept.len() > 2, "the load was too light to mean anything");
        kept.len()
    }
}

/// Asks any node until one acknowledges, or the clients are told to stop.
fn until_told(nodes: &Target, path: &str, body: &Value) -> Option<()> {
    while !nodes.is_over() {
        if nodes
            .post(path, None, body)
            .is_some_and(|answer| answer.status == 200)
        {
            return Some(());
        }
    }
    None
}

fn titles(database: &str, schema: &str) -> Vec<String> {
    let statement = format!("SELECT title FROM {schema}.entries");
    let output = Command::new("psql")
        .args([database, "-qAtc", &statement])
        .output()
        .expect("psql is installed");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}
