//! `hapax bench`: it verifies while it measures, and leaves a store as it found it.

use serde_json::Value;

use crate::fixture::{json, path};

fn bench(arguments: &[&str]) -> Value {
    json(&[&["bench", "--seconds", "0.05"], arguments].concat())
}

fn parts(found: &Value) -> Vec<&str> {
    let results = found["results"].as_array().unwrap();
    results
        .iter()
        .map(|part| {
            assert!(part["rate"].as_f64().unwrap() > 0.0, "{part}");
            part["what"].as_str().unwrap()
        })
        .collect()
}

#[test]
fn a_temporary_store_is_measured_whole_and_every_promise_is_verified() {
    let found = bench(&[]);
    let all = [
        "canonical hash, 100 KB",
        "fresh keys",
        "replays",
        "fresh keys",
        "replays",
        "jobs, planned",
        "jobs, leased and ended",
    ];
    assert_eq!(parts(&found), all);
    assert_eq!(found["verified"]["keys"], 100);
    assert_eq!(found["verified"]["duplicates"], 700);
    assert_eq!(found["verified"]["conflicts"], 200);
}

#[test]
fn in_a_store_of_ones_own_every_key_is_emptied_and_no_job_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let found = bench(&["--data", path(folder.path())]);
    assert_eq!(parts(&found).len(), 5, "jobs keep their history");
    assert!(found["emptied"].as_u64().unwrap() > 100);
    let database = std::fs::read(folder.path().join("hapax.db")).unwrap();
    let planted = b"leave it at the door leave it";
    assert!(
        !database
            .windows(planted.len())
            .any(|bytes| bytes == planted),
        "an answer of the bench is still in the file"
    );
}
